"""A line that takes as many rows as its text needs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rich.segment import Segment

from tui.screens.lines import Line, Part
from tui.widgets.fitting import clip, wrap


class Folding(Line):
    """A line as others until it is told a text to `fold`: that takes ``least`` rows, or as many as it needs up to ``most``.

    Without ``most`` all rows of the terminal but one.
    """

    def __init__(
        self, left: Sequence[Part] = (), right: Sequence[Part] = (), *, least: int = 1, most: int = 0, classes: str | None = None
    ) -> None:
        super().__init__(left, right, classes=classes)
        self.least, self.most = least, most
        self.styles.height = least
        self._told: Part | None = None
        self._rows: tuple[str, ...] = ()

    def fold(self, text: str, role: str) -> None:
        self._told = text, role
        self.set([(f" {text}", role)])
        self._fold()

    def on_resize(self) -> None:
        self._fold()

    def _fold(self) -> None:
        if self._told is None or not self.size.width:
            return
        width, most = self.size.width - 2, self.most or max(self.app.size.height - 1, 1)
        rows = wrap(self._told[0], width)
        self._rows = rows if len(rows) <= most else (*rows[: most - 1], clip(" ".join(rows[most - 1 :]), width))
        self.styles.height = max(len(self._rows), self.least)
        self.repaint()

    def row_key(self, y: int) -> Hashable:
        if self._told is None:
            return super().row_key(y)
        return self._told[1], self._rows[y] if y < len(self._rows) else ""

    def draw_row(self, y: int) -> list[Segment]:
        if self._told is None:
            return super().draw_row(y)
        said = f" {self._rows[y]}" if y < len(self._rows) else ""
        return [Segment(said, self.style(self._told[1]))]
