"""Draws a Heatmap view: a grid of values as numbers, letters or shades, the cells written in this step underlined."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size

from core.formatting import FORMATTER, format_value
from core.views import EMPTY, Cell, GridFrame, Heatmap
from tui.theme import GLYPHS, NAMES
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, pad, turned
from tui.widgets.grid import Content, Grid, Scale, column_labels, draw_cells, draw_header, draw_scale, fit, scale_of, text_of, window_name
from tui.widgets.legend import flow

_VALUE = "{row} · {column} · {value} · {role}"
_TEXT = "{row} · {column} · {text} · {role}"
_BOTH = "{row} · {column} · {text} · {value} · {role}"
_PLAIN = "{row} · {column} · {value}"
_CONTENTS: tuple[Content, Content] = ("full", "short")
_EMPTY = "{row} · {column} · empty"


class HeatmapWidget(ViewWidget[Heatmap]):
    """Rows x columns; the window of a large matrix follows the lit cells, or the cursor when focused, by half pages."""

    def __init__(self, view: Heatmap, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(view, id=id, classes=classes)
        self.cursor: tuple[int, int] | None = None
        """(row, column) under the cursor."""
        self._reset()

    def _reset(self) -> None:
        self._labels: list[str] = []
        self._columns: list[str] = []
        self._widest = [1, 1]
        self._roles: dict[str, None] = {}
        self._measured: tuple[int, int] = (-1, -1)
        self._top = 0
        self._left = 0
        self._grid = Grid(1, 1, "shade")
        self._scale = Scale(0.0, 1.0)
        self._label_width = 0
        self._shown = (0, 0)
        self._header: tuple[str, list[str], int] = ("", [], 1)

    def forget(self) -> None:
        self._reset()
        super().forget()

    @property
    def _frame(self) -> GridFrame:
        assert isinstance(self.frame, GridFrame)
        return self.frame

    # where everything is -----------------------------------------------------------------------------------------------

    def plan(self, size: Size) -> None:
        view = self.view
        rows, columns = len(view.rows), len(view.columns)
        if not self._labels:
            self._labels = [view.rows.label(r) for r in range(rows)]
            self._columns = [view.columns.label(c) for c in range(columns)]
        longest = max((cell_len(label) for label in self._labels), default=0)
        self._label_width = max(min(longest, size.width // 3), 1) + 2
        room, height = max(size.width - self._label_width, 1), max(size.height - 1, 1)
        self._scale = scale_of(view.low, view.high, view.least, view.most)
        self._measure(room)
        full, short = self._widest if view.show != "shade" else (room, room)
        self._grid = fit(columns, rows, room, height - 2, full + 1, short, tall=view.show != "shade")
        self._grid = self._grid._replace(right=view.show == "value")
        self._shown = (min(rows, height // self._grid.height), min(columns, room // self._grid.width))
        self._follow(rows, columns)
        self._header = column_labels(self._columns, self._grid.width)

    def _measure(self, room: int) -> None:
        """Widen the cells to the texts met so far; they never shrink, so that the grid keeps still while stepping."""
        view, frame = self.view, self._frame
        step, size = self._measured
        if step >= 0 and step + 1 == self.step and size == len(frame.cells):
            cells = [frame.cells[at] for at in frame.lit if at in frame.cells]
        elif step == self.step and size == len(frame.cells):
            return
        else:
            cells = list(frame.cells.values())
        self._measured = (self.step, len(frame.cells))
        for cell in cells:
            self._roles[cell.role] = None
        if view.show == "shade" or 3 * len(view.columns) > 2 * room:
            return  # not even two-letter texts would fit
        cells += [Cell(value) for value in (view.least, view.most) if view.least <= view.most and view.show == "value"]
        for k, content in enumerate(_CONTENTS):
            widest = max((cell_len(text_of(cell, view.unit, content, self._scale)) for cell in cells), default=1)
            self._widest[k] = max(self._widest[k], widest)

    def _follow(self, rows: int, columns: int) -> None:
        lit = [self.cursor] if self._pointing and self.cursor else list(self._frame.lit)
        if not lit:
            lit = [(self._top, self._left)]
        across, down = [c for _, c in lit], [r for r, _ in lit]
        self._top = turned(self._top, max(self._shown[0], 1), rows, min(down), max(down))
        self._left = turned(self._left, max(self._shown[1], 1), columns, min(across), max(across))

    @property
    def _pointing(self) -> bool:
        return self.has_focus and self.cursor is not None

    # rows ----------------------------------------------------------------------------------------------------------------

    def row_key(self, y: int) -> Hashable:
        if y == 0:
            return (self._left, self._shown, self._grid, self._label_width, self._top)
        r, line = divmod(y - 1, self._grid.height)
        if r >= self._shown[0]:
            return (y, self._scale, tuple(self._roles), self._shown, self._grid)
        r += self._top
        frame = self._frame
        window = range(self._left, self._left + self._shown[1])
        cells = frame.row(r)[window.start : window.stop]
        lit = tuple(c for c in frame.lit_in(r) if c in window) if frame.lit else ()
        cursor = self.cursor[1] if self._pointing and self.cursor and self.cursor[0] == r else -1
        return (r, line, self._left, self._grid, self._scale, cells, lit, cursor)

    def draw_row(self, y: int) -> list[Segment]:
        row = Row()
        if y == 0:
            return self._draw_header(row)
        r, line = divmod(y - 1, self._grid.height)
        if r >= self._shown[0]:
            first_free = self._shown[0] * self._grid.height + 1
            return self._draw_legend(row, y, min(first_free + 1, self.room.height - 1))
        r += self._top
        lit = [c - self._left for c in self._frame.lit_in(r)]
        here = bool(lit) and not self._everything_lit
        says = line == (self._grid.height - 1) // 2
        row.add("▸" if here and says else " ", self.palette.style("selected"))
        row.add(pad(self._labels[r] if says else "", self._label_width - 2) + " ", Style(bold=True) if here else None)
        cells = self._frame.row(r)[self._left : self._left + self._shown[1]]
        cursor = self.cursor[1] - self._left if self._pointing and self.cursor and self.cursor[0] == r else -1
        draw_cells(row, cells, lit if not self._everything_lit else (), cursor, self._grid, self._scale, self.view.unit, self.palette, line)
        return row.segments

    @property
    def _everything_lit(self) -> bool:
        """A step that writes most of the matrix points at nothing."""
        lit = len(self._frame.lit)
        return lit > 1 and 2 * lit > len(self.view.rows) * len(self.view.columns)

    def _draw_header(self, row: Row) -> list[Segment]:
        shared, labels, every = self._header
        rows, columns = len(self.view.rows), len(self.view.columns)
        corner = shared
        if self._shown[0] < rows:
            corner = window_name(self._top, self._shown[0], rows, self._label_width - 2)
        quiet = self.palette.style("dim")
        row.add(" " + pad(corner, self._label_width - 2) + " ", quiet)
        shown = labels[self._left : self._left + self._shown[1]]
        draw_header(row, shown, every, self._left, self._grid, quiet, right=self.view.show == "value")
        if self._left + self._shown[1] < columns and row.width < self.room.width:
            row.add("›", quiet)
        return row.segments

    def _draw_legend(self, row: Row, y: int, top: int) -> list[Segment]:
        """The rows from ``top`` on: the scale of the shades, then what the roles mean here."""
        palette, view = self.palette, self.view
        roles = [role for role in self._roles if role not in ("plain", "dim")]
        said = self._meanings(roles)
        scale = Row()
        if view.show != "text" and view.least <= view.most:
            draw_scale(scale.to(self._label_width), self._scale, roles[0] if roles else "plain", view.unit, palette)
        keys = [(max(len(swatches), 2), name) for swatches, name in said]
        places = flow(keys, self.room.width, self.room.height - top, self._label_width, scale.width + 3 if scale.width else 0)
        if y == top:
            row = scale
        for (swatches, _), place in zip(said, places, strict=False):
            if place.row == y - top:
                row.to(place.column)
                for role in swatches:
                    row.add(GLYPHS.get(role, " ") + (" " if len(swatches) == 1 else ""), palette.block(role))
                row.add(pad(f" {place.name}", place.end - row.width), palette.style("dim"))
        return row.segments

    def _meanings(self, roles: Sequence[str]) -> list[tuple[list[str], str]]:
        """What to say of the roles in the cells: groups together, or nothing where nobody says what they are."""
        groups = sorted(role for role in roles if role.startswith("group"))
        said = [([role], self._meaning(role)) for role in roles if role not in groups]
        return [*said, (groups, self.view.legend["group"])] if groups and "group" in self.view.legend else said

    def _meaning(self, role: str) -> str:
        return self.view.legend.get(role, "" if role.startswith("group") else NAMES.get(role, role))

    # the cursor ----------------------------------------------------------------------------------------------------------

    def on_focus(self) -> None:
        if self.cursor is None:
            lit = self._frame.lit if self.frame is not None else frozenset()
            self.cursor = min(lit) if lit else (self._top, self._left)

    def move_cursor(self, dx: int, dy: int) -> bool:
        rows, columns = len(self.view.rows), len(self.view.columns)
        if not rows or not columns:
            return False
        before = self.cursor
        r, c = before or (self._top, self._left)
        self.cursor = (min(max(r + dy, 0), rows - 1), min(max(c + dx, 0), columns - 1))
        return self.cursor != before

    def explain(self) -> str:
        if self.cursor is None or self.frame is None or not self._labels or not self._columns:
            return ""
        r, c = self.cursor
        cell = self._frame.cells.get((r, c), EMPTY)
        role = self._meaning(cell.role) if cell.role != "dim" or "dim" in self.view.legend else ""
        values = {"row": self._labels[r], "column": self._columns[c], "text": cell.text, "role": role}
        if cell.value is None and cell.text in ("", "·"):
            return FORMATTER.fill(_EMPTY, values)
        numeric = cell.value is not None
        template = (_BOTH if numeric and self.view.show != "text" else _TEXT) if cell.text else _PLAIN if cell.role == "plain" else _VALUE
        template = template if role else template.removesuffix(" · {role}")
        return FORMATTER.fill(template, {**values, "value": format_value(cell.value, self.view.unit)})
