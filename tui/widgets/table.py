"""Draws a Table: aligned columns under a header, lit rows marked, in a window that turns by half pages."""

from __future__ import annotations

from collections.abc import Hashable

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.views import Cell, Table, TableFrame, TableLog, cell_text
from tui.theme import GLYPHS
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, pad, turned

_SPOKEN = frozenset({"good", "bad", "dropped", "own"})  # roles whose colour gets its glyph beside the text
_GUTTER = 2


class TableWidget(ViewWidget[Table | TableLog]):
    """Arrows move a cursor over the cells; columns that do not fit are reached with it, the first one stays."""

    top = 0
    left = 1
    cursor: tuple[int, int] | None = None
    _followed: frozenset[int] | None = None
    _widths: tuple[int, ...] = ()
    _columns: tuple[int, ...] = ()
    _gap = 2

    def plan(self, size: Size) -> None:
        frame = self._now()
        total, rows = len(frame.rows), max(size.height - 1, 1)
        if frame.lit != self._followed:
            self._followed = frame.lit
            if frame.lit:
                self.top = turned(self.top, rows, total, min(frame.lit), max(frame.lit))
        self.top = min(max(self.top, 0), max(total - rows, 0))
        widths = list(self._widths or [cell_len(column.name) for column in self.view.columns])
        for cells in frame.rows[self.top : self.top + rows]:
            for c, cell in enumerate(cells):
                widths[c] = max(widths[c], cell_len(self._text(c, cell)))
        self._widths = tuple(widths)  # a column never narrows: stepping does not move the others
        self._columns = self._fitting(size.width)

    def row_key(self, y: int) -> Hashable:
        frame, layout = self._now(), (self._columns, self._widths, self._gap)
        if y == 0:
            return layout
        number = self.top + y - 1
        if number >= len(frame.rows):
            return None
        return number if self.cursor else -1, frame.rows[number], number in frame.lit, self._cursor_column(number), layout

    def draw_row(self, y: int) -> list[Segment]:
        return self._header() if y == 0 else self._body(self.top + y - 1)

    def move_cursor(self, dx: int, dy: int) -> bool:
        frame = self._now()
        if not frame.rows or not self.view.columns:
            return False
        row, column = self.cursor or (min(frame.lit, default=self.top) - dy, 0 - dx)
        found = (min(max(row + dy, 0), len(frame.rows) - 1), min(max(column + dx, 0), len(self.view.columns) - 1))
        moved, self.cursor = found != self.cursor, found
        self.top = turned(self.top, max(self.room.height - 1, 1), len(frame.rows), found[0])
        while found[1] and found[1] < self.left:
            self.left -= 1
        while found[1] not in self._fitting(self.room.width) and self.left < found[1]:
            self.left += 1
        return moved

    def explain(self) -> str:
        frame = self._now()
        if self.cursor is None or self.cursor[0] >= len(frame.rows):
            return ""
        row, chosen = self.cursor
        number = frame.first + (len(frame.rows) - row if isinstance(self.view, TableLog) else row + 1)
        names = [column.name for column in self.view.columns]
        texts = [cell_text(cell, column.unit) for cell, column in zip(frame.rows[row], self.view.columns, strict=True)]
        order = [chosen, *(c for c in range(len(names)) if c != chosen)]
        return f"row {number:,}: " + " · ".join(f"{names[c]} {texts[c]}" for c in order if texts[c])

    def _fitting(self, width: int) -> tuple[int, ...]:
        """The columns that stand side by side: the first, then as many as fit from ``left`` on (at least one)."""
        widths = self._widths
        if not widths:
            return ()
        self._gap = 3 if _GUTTER + sum(widths) + 3 * (len(widths) - 1) <= width else 2
        if _GUTTER + sum(widths) + self._gap * (len(widths) - 1) <= width:
            return tuple(range(len(widths)))
        shown, used = [0], _GUTTER + widths[0]
        for c in range(max(self.left, 1), len(widths)):
            used += self._gap + widths[c]
            if used > width - 1 and len(shown) > 1:
                break
            shown.append(c)
        return tuple(shown)

    def _header(self) -> list[Segment]:
        row, style = Row(), self.palette.style("dim", bold=True)
        row.to(_GUTTER)
        for c in self._columns:
            column = self.view.columns[c]
            row.add(" " * (self._gap if row.width > _GUTTER else 0))
            row.add(pad(column.name, min(self._widths[c], self.room.width - row.width), column.align == "right"), style)
        if len(self._columns) < len(self._widths) and row.width < self.room.width:
            row.to(self.room.width - 1).add("›" if self._columns[-1] < len(self._widths) - 1 else "‹", self.palette.style("selected"))
        return row.segments

    def _body(self, number: int) -> list[Segment]:
        frame, row = self._now(), Row()
        if number >= len(frame.rows):
            return []
        lit, chosen = number in frame.lit, self._cursor_column(number)
        row.add("▸ " if lit else "  ", self.palette.style("selected", bold=True))
        for c in self._columns:
            cell = frame.rows[number][c]
            gap = " " * (self._gap if row.width > _GUTTER else 0)
            width = min(self._widths[c], self.room.width - row.width - len(gap))
            text = pad(self._text(c, cell), width, self.view.columns[c].align == "right")
            style = self.palette.style(cell.role, bold=lit)
            if c == chosen:
                row.add(gap, style).add(text, self.palette.style(cell.role, bold=lit, reverse=True))
            else:
                row.add(gap + text, style)  # one run with its neighbours of the same role
        return row.segments

    def _text(self, column: int, cell: Cell) -> str:
        text = cell_text(cell, self.view.columns[column].unit)
        glyph = GLYPHS.get(cell.role, "") if cell.role in _SPOKEN else ""
        return f"{glyph} {text}" if glyph and text and glyph not in text else text

    def _cursor_column(self, number: int) -> int:
        return self.cursor[1] if self.cursor is not None and self.has_focus and self.cursor[0] == number else -1

    def _now(self) -> TableFrame:
        assert isinstance(self.frame, TableFrame)
        return self.frame
