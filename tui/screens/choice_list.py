"""A list of rows to choose from, drawn line by line so that it costs nothing before the first frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.screens.lines import Part, fit, palette_of
from tui.theme import Palette


class ChoiceList(Widget):
    """Rows by number; ``describe(row)`` gives the parts of a row when it becomes visible, and None for a heading's own text."""

    DEFAULT_CSS = "ChoiceList { width: 1fr; height: 1fr; visibility: visible; }"

    class Selected(Message):
        """Another row is selected."""

        def __init__(self, row: int) -> None:
            self.row = row
            super().__init__()

    class Opened(Message):
        """The selected row was clicked again."""

        def __init__(self, row: int) -> None:
            self.row = row
            super().__init__()

    def __init__(self, describe: Callable[[int], Sequence[Part]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.describe = describe
        self.lines: list[tuple[str, int]] = []
        self.selected = 0
        self.top = 0
        self.empty = ""
        self._palette: Palette | None = None

    def set_rows(self, lines: Sequence[tuple[str, int]], selected: int = 0) -> None:
        """lines: (heading, -1), or ("", row) for a row to choose; ``selected`` is a row."""
        self.lines = list(lines)
        rows = self.rows
        self.selected = selected if selected in rows else (rows[0] if rows else -1)
        self._scroll()
        self.refresh()

    @property
    def rows(self) -> list[int]:
        return [row for _, row in self.lines if row >= 0]

    def move(self, by: int) -> None:
        rows = self.rows
        if rows:
            self.select(rows[min(max(rows.index(self.selected) + by, 0), len(rows) - 1)])

    def page(self, direction: int) -> None:
        self.move(direction * max(self.size.height - 2, 1))

    def select(self, row: int) -> None:
        if row == self.selected:
            return
        before, top = self.selected, self.top
        self.selected = row
        self._scroll()
        if self.top != top:
            self.refresh()
        else:
            self.refresh_row(before)
            self.refresh_row(row)
        self.post_message(self.Selected(row))

    def refresh_row(self, row: int) -> None:
        for y, (_, number) in enumerate(self.lines[self.top : self.top + self.size.height]):
            if number == row:
                self.refresh(Region(0, y, self.size.width, 1))

    @property
    def rows_in_sight(self) -> list[int]:
        return [row for _, row in self.lines[self.top : self.top + self.size.height] if row >= 0]

    def _scroll(self) -> None:
        """Keep the selected row in sight, and its heading when it is the first of its group."""
        height = self.size.height
        if not height:
            return
        at = next((n for n, (_, row) in enumerate(self.lines) if row == self.selected), 0)
        first = at - 1 if at and self.lines[at - 1][1] < 0 else at
        if first < self.top:
            self.top = first
        elif at >= self.top + height:
            self.top = at - height + 1
        self.top = max(min(self.top, len(self.lines) - height), 0)

    def on_resize(self) -> None:
        self._scroll()

    def on_click(self, event: events.Click) -> None:
        at = self.top + event.y
        if 0 <= at < len(self.lines) and self.lines[at][1] >= 0:
            row = self.lines[at][1]
            if row == self.selected:
                self.post_message(self.Opened(row))
            else:
                self.select(row)

    def on_mouse_scroll_down(self) -> None:
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        self.move(-1)

    def forget(self) -> None:
        self._palette = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        at = self.top + y
        if self._palette is None:
            self._palette = palette_of(self)
        if at >= len(self.lines):
            if not self.lines and y == 0 and self.empty:
                return Strip([Segment(f"  {self.empty}", base + self._palette.style("dim"))]).adjust_cell_length(width, base)
            return Strip.blank(width, base)
        heading, row = self.lines[at]
        chosen = row == self.selected and row >= 0
        if row < 0:
            parts: list[Part] = [(f" {heading}", "dim")]
        else:
            parts = [("▸ " if chosen else "  ", "selected"), *self.describe(row)]
        segments = [Segment(text, self._palette.style(role, bold=chosen)) for text, role in fit(parts, width)]
        return Strip(Segment.apply_style(segments, base)).adjust_cell_length(width, base).simplify()
