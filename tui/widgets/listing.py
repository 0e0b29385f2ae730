"""Draws a Listing: numbered lines of text, the lit ones marked, in a window that turns by half pages."""

from __future__ import annotations

from collections.abc import Hashable

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.views import Listing, ListingFrame
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, clip, turned


class ListingWidget(ViewWidget[Listing]):
    """Arrows up and down move a cursor over the lines, left and right shift lines that are longer than the panel."""

    top = 0
    shift = 0
    cursor: int | None = None
    _followed: frozenset[int] | None = None
    _digits = 0

    def plan(self, size: Size) -> None:
        frame = self._now()
        total = len(frame.lines)
        self._digits = len(str(total)) if size.width >= 30 and total > 1 else 0
        if frame.lit != self._followed:
            self._followed = frame.lit
            if frame.lit:
                self.top = turned(self.top, size.height, total, min(frame.lit), max(frame.lit))
        self.top = min(max(self.top, 0), max(total - size.height, 0))

    def row_key(self, y: int) -> Hashable:
        frame, number = self._now(), self.top + y
        if number >= len(frame.lines):
            return None
        return number, frame.lines[number], number in frame.lit, self._on_cursor(number), self.shift, self._digits

    def draw_row(self, y: int) -> list[Segment]:
        frame, number = self._now(), self.top + y
        if number >= len(frame.lines):
            return []
        lit, row = number in frame.lit, Row()
        row.add("▸" if lit else " ", self.palette.style("selected", bold=True))
        if self._digits:
            row.add(f"{number + 1:>{self._digits}} ", self.palette.style("dim"))
        style = self.palette.style("plain", bold=lit, reverse=self._on_cursor(number))
        row.add(" ", style)
        row.add(clip(self._shifted(frame.lines[number]), self.room.width - row.width), style)
        return row.segments

    def move_cursor(self, dx: int, dy: int) -> bool:
        frame = self._now()
        if not frame.lines:
            return False
        if dx:
            room = self.room.width - self._digits - 4
            longest = max(cell_len(line) for line in frame.lines)
            shift = min(max(self.shift + dx * max(room // 2, 1), 0), max(longest - room, 0))
            moved, self.shift = shift != self.shift, shift
            return moved
        start = self.cursor if self.cursor is not None else min(frame.lit, default=self.top) - dy
        cursor = min(max(start + dy, 0), len(frame.lines) - 1)
        moved, self.cursor = cursor != self.cursor, cursor
        self.top = turned(self.top, self.room.height, len(frame.lines), cursor)
        return moved

    def explain(self) -> str:
        frame = self._now()
        if self.cursor is None or self.cursor >= len(frame.lines):
            return ""
        return f"line {self.cursor + 1} of {len(frame.lines)}: {frame.lines[self.cursor].strip()}"

    def _on_cursor(self, number: int) -> bool:
        return self.has_focus and number == self.cursor

    def _shifted(self, line: str) -> str:
        return line.expandtabs(4)[self.shift :]

    def _now(self) -> ListingFrame:
        assert isinstance(self.frame, ListingFrame)
        return self.frame
