"""Draws a Breakdown: one stacked bar per rank or moment, parts by colour and letter, the capacity as a line."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.formatting import format_value
from core.views import Breakdown, Cell, GridFrame
from tui.theme import GLYPHS
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, clip, pad, turned
from tui.widgets.legend import shortened

_FAR = 4  # a capacity this many times the largest bar would squeeze every bar: it is named instead of drawn
_LEAST_KEY = 7
"""Cells of a cut name, its letter and gap included, beside which the capacity may stand in the legend."""


class BreakdownWidget(ViewWidget[Breakdown]):
    """Arrows move a cursor over the parts of the bars. The scale is that of the whole run, so bars do not jump."""

    top = 0
    cursor: tuple[int, int] | None = None
    _followed: frozenset[tuple[int, int]] | None = None
    _pitch = 1
    _label_width = 0
    _longest = 0
    _total_width = 0
    _track = 1
    _heads: tuple[tuple[int, ...], ...] = ((),)
    _gap = (1, 1)
    _scale = 1.0

    def plan(self, size: Size) -> None:
        frame, view = self._now(), self.view
        if not self._longest:
            self._longest = max((cell_len(view.bars.label(bar)) for bar in range(len(view.bars))), default=0)
        self._label_width = min(self._longest, size.width // 3)
        self._heads = self._legend_rows(size)
        bars, rows = len(view.bars), max(size.height - len(self._heads), 1)
        self._pitch = min(max(rows // max(bars, 1), 1), 3)
        fit = max(rows // self._pitch, 1)
        if frame.lit != self._followed:
            self._followed = frame.lit
            lit = {bar for bar, _ in frame.lit}
            if lit:
                self.top = turned(self.top, fit, bars, min(lit), max(lit))
        self.top = min(max(self.top, 0), max(bars - fit, 0))
        shown = range(self.top, min(self.top + fit, bars))
        widest = max(cell_len(format_value(view.maximum, view.unit)), 8)
        totals = [cell_len(self._total_text(bar)) for bar in shown]
        self._total_width = max([widest, self._total_width, *totals])
        self._track = max(size.width - self._label_width - self._total_width - 5, 1)
        self._scale = max(view.maximum, view.capacity or 0.0) if self._capacity_drawn() else view.maximum
        if not self._scale > 0 or not math.isfinite(self._scale):
            self._scale = 1.0

    def row_key(self, y: int) -> Hashable:
        layout = (self._label_width, self._total_width, self._track, self._scale, self._pitch)
        if y < len(self._heads):
            return layout, self._heads[y]
        bar, thin = self._bar_at(y)
        if bar is None:
            return None
        frame = self._now()
        return bar, thin, frame.row(bar), frame.lit_in(bar), self._cursor_part(bar), layout

    def draw_row(self, y: int) -> list[Segment]:
        if y < len(self._heads):
            return self._legend(y)
        bar, first = self._bar_at(y)
        return [] if bar is None else self._bar(bar, first)

    def move_cursor(self, dx: int, dy: int) -> bool:
        bars, parts = len(self.view.bars), len(self.view.parts)
        if not bars or not parts:
            return False
        lit = min(self._now().lit, default=(self.top, 0))
        bar, part = self.cursor or (lit[0] - dy, lit[1] - dx)
        found = (min(max(bar + dy, 0), bars - 1), min(max(part + dx, 0), parts - 1))
        moved, self.cursor = found != self.cursor, found
        self.top = turned(self.top, max((self.room.height - len(self._heads)) // self._pitch, 1), bars, found[0])
        return moved

    def explain(self) -> str:
        if self.cursor is None:
            return ""
        bar, part = self.cursor
        value, total, unit = self._amounts(bar)[part], sum(self._amounts(bar)), self.view.unit
        share = f", {format_value(value / total, '%')} of {format_value(total, unit)}" if total else ""
        text = f"{self.view.bars.label(bar)} · {self.view.parts[part][0]} {format_value(value, unit)}{share}"
        if self.view.capacity:
            left = self.view.capacity - total
            text += f" · {format_value(abs(left), unit)} {'free' if left >= 0 else 'too much'}"
        return text

    # pieces --------------------------------------------------------------------------------------------------------

    def _bar_at(self, y: int) -> tuple[int | None, bool]:
        """The bar on row ``y`` (None: a gap or below the last) and whether the row is its first."""
        bar, line = divmod(y - len(self._heads), self._pitch)
        bar += self.top
        if bar >= len(self.view.bars) or (line and line == self._pitch - 1):
            return None, False
        return bar, line == 0

    def _legend_rows(self, size: Size) -> tuple[tuple[int, ...], ...]:
        """The parts that each row of the legend names: one row, or two where that leaves a row for every bar."""
        names = [2 + cell_len(name) for name, _ in self.view.parts]
        indent, capacity = self._label_width + 3, cell_len(self._capacity_text())
        for start, gap in ((indent, 3), (indent, 2), (1, 2), (1, 1)):
            self._gap = (start, gap)
            if start + sum(name + gap for name in names) + capacity <= size.width + (gap if not capacity else 0):
                return (tuple(range(len(names))),)
        if size.height < len(self.view.bars) + 2:
            return (tuple(range(len(names))),)
        self._gap, used, first = (1, 2), 1, 0
        for number, name in enumerate(names):
            if used + name > size.width:
                first = number
                break
            used += name + 2
        return (tuple(range(first or len(names))), tuple(range(first, len(names))) if first else ())

    def _legend(self, y: int) -> list[Segment]:
        row, width, parts = Row(), self.room.width, self._heads[y]
        start, gap = self._gap
        capacity = self._capacity_text() if y == len(self._heads) - 1 else ""
        names = [self.view.parts[number][0] for number in parts]
        room = width - start - len(parts) * (2 + gap) + gap
        if sum(map(cell_len, names)) > room:  # every part is named, the longest names are cut
            start, gap = 1, 1
            spare = width - cell_len(capacity)
            names = shortened(names, (spare if spare >= _LEAST_KEY * len(parts) else width) - start - len(parts) * (2 + gap) + gap)
        row.to(start)
        for number, name in zip(parts, names, strict=True):
            space = " " * max(min(gap, width - row.width - 2 - cell_len(name)), 0)
            row.add(self._letter(number), self.palette.block(self.view.parts[number][1])).add(
                f" {name}{space}", self.palette.style("plain")
            )
        if capacity and row.width + cell_len(capacity) <= width:
            row.to(width - cell_len(capacity)).add(capacity, self.palette.style("bad"))
        return row.segments

    def _capacity_text(self) -> str:
        if not self.view.capacity:
            return ""
        name = self.view.capacity_name or "capacity"
        return f"▏{name} {format_value(self.view.capacity, self.view.unit)}" + ("" if self._capacity_drawn() else " ›")

    def _bar(self, bar: int, first: bool) -> list[Segment]:
        frame, amounts, row = self._now(), self._amounts(bar), Row()
        lit = frame.lit_in(bar)
        row.add("▸" if lit and first else " ", self.palette.style("selected", bold=True))
        row.add(pad(self.view.bars.label(bar) if first else "", self._label_width), self.palette.style("plain", bold=bool(lit)))
        row.to(self._label_width + 2)
        start = row.width
        for part, cells in enumerate(self._lengths(amounts)):
            if cells:
                self._segment(row, part, amounts[part], cells, first, part in lit, part == self._cursor_part(bar))
        line = self._capacity_cell()
        if line is not None and row.width <= start + line:
            row.to(start + line).add("▏", self.palette.style("bad", bold=True))
        elif line is not None:
            _overlay(row, start + line, "▏")
        row.to(self.room.width - self._total_width - 1)
        if first:
            over = self.view.capacity is not None and sum(amounts) > self.view.capacity
            row.add(pad(self._total_text(bar), self._total_width, right=True), self.palette.style("bad" if over else "plain", bold=True))
        return row.segments

    def _segment(self, row: Row, part: int, amount: float, cells: int, first: bool, lit: bool, chosen: bool) -> None:
        name, role = self.view.parts[part]
        letter, value = self._letter(part), format_value(amount, self.view.unit)
        text = next((t for t in (f"{name} {value}", f"{letter} {value}", letter) if cell_len(t) + 2 <= cells), letter)
        if not first:
            text = ""
        style = self.palette.block(role, bold=True) if lit else self.palette.block(role)
        if self.palette.system == "none":
            text = f" {text} " if len(text) > 1 else ""
            filled = (letter + text + letter * cells if text and text[1] != letter else text[1:] + letter * cells)[:cells]
            row.add(filled, self.palette.style("plain", bold=lit, reverse=chosen))
            return
        if chosen:
            style = self.palette.current(role)
        lead = " " if cell_len(text) + 1 <= cells and text else ""
        row.add(pad(lead + text, cells), style)

    def _lengths(self, amounts: Sequence[float]) -> list[int]:
        """Cells per part: ends rounded on the common scale, so bars of equal sums are equally long; no part vanishes."""
        ends, total = [0], 0.0
        for amount in amounts:
            total += amount
            ends.append(round(min(total / self._scale, 1.0) * self._track))
        cells = [end - start for start, end in pairwise(ends)]
        for part, amount in enumerate(amounts):
            if amount > 0 and not cells[part]:
                widest = max(range(len(cells)), key=cells.__getitem__)
                if cells[widest] > 1:
                    cells[widest] -= 1
                    cells[part] = 1
        return cells

    def _amounts(self, bar: int) -> list[float]:
        return [_amount(cell) for cell in self._now().row(bar)]

    def _total_text(self, bar: int) -> str:
        """The sum of the bar; of one that nothing has been written to yet a dash, for that is not zero."""
        if all(cell.value is None for cell in self._now().row(bar)):
            return "–"
        total = sum(self._amounts(bar))
        over = self.view.capacity is not None and total > self.view.capacity
        return ("✗ " if over else "") + format_value(int(total) if total == int(total) else total, self.view.unit)

    def _capacity_drawn(self) -> bool:
        return bool(self.view.capacity) and self.view.capacity <= _FAR * max(self.view.maximum, 1e-300)  # type: ignore[operator]

    def _capacity_cell(self) -> int | None:
        if not self._capacity_drawn() or self.view.capacity is None:
            return None
        return min(round(self.view.capacity / self._scale * self._track), self._track)

    def _cursor_part(self, bar: int) -> int:
        return self.cursor[1] if self.cursor is not None and self.has_focus and self.cursor[0] == bar else -1

    def _letter(self, part: int) -> str:
        """The part's letter: its role's glyph, or the first of its name where roles share one."""
        name, role = self.view.parts[part]
        glyph = GLYPHS.get(role, " ")
        letter = clip(name, 1) if cell_len(name[:1]) != 1 else name[:1].upper()
        if role.startswith("group"):  # its number says nothing; a letter that two parts share says the wrong thing
            return letter if [n[:1].upper() for n, _ in self.view.parts].count(letter) == 1 else glyph
        return glyph if glyph.strip() and [r for _, r in self.view.parts].count(role) == 1 else letter

    def _now(self) -> GridFrame:
        assert isinstance(self.frame, GridFrame)
        return self.frame


def _overlay(row: Row, column: int, mark: str) -> None:
    """Put ``mark`` over one cell of a finished row, in the style that is there."""
    at = 0
    for number, (text, style, _) in enumerate(row.segments):
        width = cell_len(text)
        if at <= column < at + width and width == len(text):
            row.segments[number] = Segment(text[: column - at] + mark + text[column - at + 1 :], style)
            return
        at += width


def _amount(cell: Cell) -> float:
    """What a part adds to its bar; nothing for a missing, negative or unbounded value."""
    value = cell.value
    if isinstance(value, int | float) and math.isfinite(value) and value > 0:
        return float(value)
    return 0.0
