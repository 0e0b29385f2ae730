"""A line that takes as many rows as its text needs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.strip import Strip

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
        self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._told is None:
            return super().render_line(y)
        said = f" {self._rows[y]}" if y < len(self._rows) else ""
        return Strip([Segment(said, self.rich_style + self.style(self._told[1]))]).adjust_cell_length(self.size.width, self.rich_style)
