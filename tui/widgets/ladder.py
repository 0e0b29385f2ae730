"""Draws a Ladder: price in the middle, bids left, asks right, the queue of each level as blocks, front beside the price."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.formatting import digits
from core.views import Ladder, LadderFrame, Level, Mark
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, centred, clip, pad
from tui.widgets.queue_bar import blocks, round_up

Side = Literal["bid", "ask"]
_MARK_GLYPHS = {"own": "★", "trade": "×", "bad": "✗", "good": "✓"}


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the ladder. ``tick`` is its price in ticks (None: the row has no price of its own)."""

    kind: Literal["level", "empty", "gap", "spread"]
    side: Side = "ask"
    tick: int | None = None
    level: Level | None = None
    marks: tuple[Mark, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells of a bar, a quantity and a price, and the quantity a full bar stands for."""

    bar: int
    quantity: int
    price: int
    scale: float


class LadderWidget(ViewWidget[Ladder]):
    """Arrows up and down move a cursor over the price levels.

    Where the book is dense every tick has its row and the window stands still, turning by half pages when the mid leaves
    its middle half; where it is sparse the levels stand one below another around the spread.
    """

    cursor: tuple[Side, int] | None = None
    _lines: tuple[Line, ...] = ()
    _layout = Layout(0, 1, 1, 1.0)
    _hidden = (0, 0)
    _dense = False
    _top_tick: int | None = None
    _scroll = 0
    _deepest = 0
    _header = 1

    def plan(self, size: Size) -> None:
        frame = self._now()
        self._header = 1 if size.height >= 6 else 0
        rows = max(size.height - self._header, 1)
        self._deepest = max(self._deepest, len(frame.bids), len(frame.asks))
        self._dense = self._is_dense(frame, rows)
        lines = self._every_tick(frame, rows) if self._dense else self._levels_only(frame, rows)
        self._lines = tuple(lines)
        self._measure(size.width)

    def row_key(self, y: int) -> Hashable:
        if y < self._header:
            return "header", self._layout, self._hidden
        line = self._line(y)
        if line is None:
            return "empty book" if self._is_notice(y) else None
        return line, self._layout, self._chosen(line)

    def draw_row(self, y: int) -> list[Segment]:
        if y < self._header:
            return self._heading()
        line = self._line(y)
        if line is None:
            notice = centred("the book is empty", self.size.width) if self._is_notice(y) else ""
            return [Segment(notice, self.palette.style("dim"))]
        if line.kind == "gap":
            return [Segment(centred(line.text, self.size.width), self.palette.style("dim"))]
        return self._spread(line) if line.kind == "spread" else self._price_row(line)

    def move_cursor(self, dx: int, dy: int) -> bool:
        frame = self._now()
        order: list[tuple[Side, int]] = [("ask", self._tick(level.price)) for level in reversed(frame.asks)]
        order += [("bid", self._tick(level.price)) for level in frame.bids]
        if not order or not dy:
            return False
        if self.cursor is None:
            self.cursor = order[max(len(frame.asks) - 1, 0)] if dy < 0 or not frame.bids else ("bid", self._tick(frame.bids[0].price))
            return True
        at = min(range(len(order)), key=lambda k: abs(order[k][1] - self.cursor[1]))  # type: ignore[index]
        found = order[min(max(at + dy, 0), len(order) - 1)]
        moved, self.cursor = found != self.cursor, found
        return moved

    def explain(self) -> str:
        if self.cursor is None:
            return ""
        side, tick = self.cursor
        levels = self._now().asks if side == "ask" else self._now().bids
        at = next((k for k, level in enumerate(levels) if self._tick(level.price) == tick), None)
        if at is None:
            return f"{side} {self._price_text(tick)} · nothing rests here now"
        level, unit = levels[at], f" {self.view.quantity_unit}".rstrip()
        parts = [f"{side} {self._price_text(tick)}", f"{digits(level.quantity)}{unit}"]
        if level.orders:
            parts.append("1 order" if len(level.orders) == 1 else f"{len(level.orders)} orders")
        ahead = sum(better.quantity for better in levels[:at])
        parts.append(f"{digits(ahead)}{unit} ahead at better prices" if at else f"best {side}")
        for place, order in enumerate(level.orders):
            if order.own:
                before = sum(other.quantity for other in level.orders[:place])
                parts.append(f"★ own order {digits(order.quantity)}: {digits(before)}{unit} ahead of it in the queue")
        return " · ".join(parts)

    # which rows ----------------------------------------------------------------------------------------------------

    def _is_dense(self, frame: LadderFrame, rows: int) -> bool:
        """Whether a row per tick is worth it: the levels near the mid fill enough of the window (with hysteresis)."""
        mid = self._mid(frame)
        if mid is None:  # an empty book has no ticks to line up
            return False
        half = max(rows // 2, 1)
        ticks = [self._tick(level.price) for level in (*frame.bids[:rows], *frame.asks[:rows])]
        near = sum(abs(tick - mid) <= half for tick in ticks)
        share = near / max(min(len(ticks), rows - 1), 1)
        bests = [self._tick(side[0].price) for side in (frame.bids, frame.asks) if side]
        return share >= (0.35 if self._dense else 0.6) and max(abs(best - mid) for best in bests) < half

    def _every_tick(self, frame: LadderFrame, rows: int) -> list[Line]:
        mid = self._mid(frame)
        assert mid is not None
        levels: dict[int, tuple[Side, Level]] = {self._tick(level.price): ("ask", level) for level in frame.asks}
        levels.update({self._tick(level.price): ("bid", level) for level in frame.bids})
        marks = self._marks(frame)
        top = self._place_window(math.floor(mid), rows)
        lines: list[Line] = []
        tick = top
        while len(lines) < rows:
            if tick + 1 > mid >= tick and lines and frame.bids and frame.asks:
                lines.append(self._spread_line(frame))
                if len(lines) == rows:
                    break
            here = levels.get(tick)
            side: Side = here[0] if here else "ask" if tick > mid else "bid"
            lines.append(Line("level" if here else "empty", side, tick, here[1] if here else None, marks.get(tick, ())))
            tick -= 1
        self._hidden = (
            sum(self._tick(level.price) > top for level in frame.asks),
            sum(self._tick(level.price) <= tick for level in frame.bids),
        )
        return lines

    def _place_window(self, mid: int, rows: int) -> int:
        """The tick of the top row: kept while the mid stays in the middle half, else moved by half pages."""
        half = max(rows // 2, 1)
        top = self._top_tick
        if top is None or abs(top - half - mid) > 2 * rows:
            top = mid + half
        if self.has_focus and self.cursor is not None:
            top = _kept(top, self.cursor[1], 0, rows - 2, half)
        else:
            top = _kept(top, mid, rows // 4, rows - 1 - rows // 4, half)
        self._top_tick = top
        return top

    def _levels_only(self, frame: LadderFrame, rows: int) -> list[Line]:
        marks = self._marks(frame)
        spaced = rows >= 4 * self._deepest + 1
        asks = self._side_lines("ask", frame.asks, marks, spaced)
        bids = self._side_lines("bid", frame.bids, marks, spaced)
        if not asks and not bids:
            self._hidden = (0, 0)
            return []
        middle = self._spread_line(frame)
        inside = [mark for tick, found in marks.items() for mark in found if self._inside(frame, tick)]
        lines = [*reversed(asks), replace(middle, marks=tuple(inside)), *bids]
        top = self._scrolled(lines, len(asks), rows)
        self._hidden = (
            sum(line.kind == "level" for line in lines[: max(top, 0)]),
            sum(line.kind == "level" for line in lines[max(top + rows, 0) :]),
        )
        blank = [Line("gap")] * max(-top, 0)
        return (blank + lines[max(top, 0) : max(top + rows, 0)])[:rows]

    def _side_lines(self, side: Side, levels: Sequence[Level], marks: dict[int, tuple[Mark, ...]], spaced: bool) -> list[Line]:
        """Levels from the best price outwards; a price that only has a mark (its level is gone) keeps a row for this step."""
        if not levels:
            return []
        sign = 1 if side == "ask" else -1
        held = {self._tick(level.price): level for level in levels}
        best = self._tick(levels[0].price)
        worst = self._tick(levels[-1].price)
        gone = [tick for tick in marks if tick not in held and sign * best < sign * tick <= sign * worst]
        lines: list[Line] = []
        last: int | None = None
        for tick in sorted([*held, *gone], key=lambda tick: sign * tick):
            if spaced and last is not None and abs(tick - last) > 1:
                lines.append(Line("gap", text=f"⋯ {abs(tick - last) - 1:,} ticks ⋯"))
            level = held.get(tick)
            lines.append(Line("level" if level else "empty", side, tick, level, marks.get(tick, ())))
            last = tick
        return lines

    def _scrolled(self, lines: Sequence[Line], spread: int, rows: int) -> int:
        """The first line shown: the spread in the middle, or half pages further when the cursor is there."""
        centre = spread - rows // 2
        if not self.has_focus or self.cursor is None:
            self._scroll = 0
            return centre
        at = next((k for k, line in enumerate(lines) if (line.side, line.tick) == self.cursor), None)
        half = max(rows // 2, 1)
        if at is not None:
            self._scroll = -_kept(-centre - self._scroll, -at, 0, rows - 1, half) - centre
        return centre + self._scroll

    def _spread_line(self, frame: LadderFrame) -> Line:
        if not frame.bids or not frame.asks:
            return Line("spread", text="no bids" if frame.asks else "no asks")
        bid, ask = frame.bids[0].price, frame.asks[0].price
        ticks = self._tick(ask) - self._tick(bid)
        between = f"⋯ {ticks - 1:,} ticks ⋯   " if ticks > 1 and not self._dense else ""
        places = self._places()
        return Line("spread", text=f"{between}spread {ask - bid:,.{places}f} · mid {self._exact((bid + ask) / 2)}")

    # how rows look -------------------------------------------------------------------------------------------------

    def _measure(self, width: int) -> None:
        """Widths and the scale of the bars; they grow as needed and only shrink when far too large."""
        shown = [line.level for line in self._lines if line.level]
        largest = max((level.quantity for level in shown), default=1.0)
        scale = self._layout.scale
        if not scale / 6 < largest <= scale:
            scale = round_up(largest)
        price = max([self._layout.price, *(cell_len(self._price_text(line.tick)) for line in self._lines if line.tick is not None)])
        quantity = max([self._layout.quantity, *(cell_len(digits(level.quantity)) for level in shown)])
        bar = max((width - price - 2 * quantity - 6) // 2, 0)
        self._layout = Layout(bar, quantity, price, scale)

    def _heading(self) -> list[Segment]:
        style, layout = self.palette.style("dim"), self._layout
        unit = f" ({self.view.quantity_unit})" if self.view.quantity_unit else ""
        side = layout.bar + layout.quantity + 1
        above, below = self._hidden
        row = Row()
        more = f"▾ {below} more  " if below else ""
        row.add(pad(_first_fit(side, f"{more}bids{unit}", f"{more}bids", "bids"), side, right=True), self.palette.style("bid")).to(side + 2)
        price = f"price {self.view.price_unit}".strip()
        row.add(centred(price if cell_len(price) <= layout.price else "price", layout.price), style).to(side + layout.price + 4)
        more = f"  ▴ {above} more" if above else ""
        room = self.size.width - row.width
        row.add(clip(_first_fit(room, f"asks{unit}{more}", f"asks{more}", "asks"), room), self.palette.style("ask"))
        return row.segments

    def _spread(self, line: Line) -> list[Segment]:
        width, row = self.size.width, Row()
        if not line.marks:
            return row.add(centred(line.text, width), self.palette.style("dim")).segments
        text = line.text[line.text.find("spread") :] if "spread" in line.text else line.text
        row.to(max((width - cell_len(text)) // 2, 0)).add(clip(text, width), self.palette.style("dim")).add("  ")
        said = self._said(line.marks, with_price=True)
        return row.add(clip(said, width - row.width), self.palette.style(line.marks[0].role, bold=True)).segments

    def _price_row(self, line: Line) -> list[Segment]:
        layout, palette, row = self._layout, self.palette, Row()
        side = layout.bar + 1 + layout.quantity
        chosen = self._chosen(line)
        amount = digits(line.level.quantity) if line.level else ""
        said = self._said(line.marks)
        said_style = palette.style(line.marks[0].role if line.marks else "plain", bold=True)
        if line.side == "bid" and line.level:
            self._bar(row, line, mirrored=True)
            row.to(layout.bar + 1).add(pad(amount, layout.quantity, right=True), palette.style("plain"))
        elif line.side == "ask" and said:
            row.add(pad(said, side, right=True), said_style)
        row.to(side + 1).add("▸" if chosen else " ", palette.style("selected", bold=True))
        assert line.tick is not None
        role = line.side if line.level else "dim"
        row.add(pad(self._price_text(line.tick), layout.price, right=True), palette.style(role, bold=bool(line.marks), reverse=chosen))
        row.to(side + layout.price + 4)
        if line.side == "ask" and line.level:
            row.add(pad(amount, layout.quantity, right=True), palette.style("plain")).add(" ")
            self._bar(row, line, mirrored=False)
        elif line.side == "bid" and said:
            row.add(clip(said, self.size.width - row.width), said_style)
        return row.segments

    def _bar(self, row: Row, line: Line, *, mirrored: bool) -> None:
        """The queue, each order a block that ends in a half-cell gap; the own order is a star on its own colour."""
        level, layout = line.level, self._layout
        assert level is not None
        halves = min(max(round(level.quantity / layout.scale * layout.bar * 2), 1), layout.bar * 2)
        if not layout.bar:
            return
        cells, own = blocks(level, halves)
        if mirrored:
            swap = {"▌": "▐", "▐": "▌"}
            cells, own = [swap.get(c, c) for c in reversed(cells)], {len(cells) - 1 - c for c in own}
            row.to(layout.bar - len(cells))
        style, mine = self.palette.style(line.side), self.palette.style("own", bold=True)
        start = 0
        for at in range(1, len(cells) + 1):
            if at == len(cells) or (at in own) != (start in own):
                row.add("".join(cells[start:at]), mine if start in own else style)
                start = at

    def _said(self, marks: Sequence[Mark], *, with_price: bool = False) -> str:
        parts = []
        for mark in marks:
            glyph = _MARK_GLYPHS.get(mark.role, "•")
            price = f"{self._exact(mark.price)} " if with_price else ""
            parts.append(f"{glyph} {price}{mark.text}".rstrip())
        return "  ".join(parts)

    # prices --------------------------------------------------------------------------------------------------------

    def _tick(self, price: float) -> int:
        return round(price / self.view.tick)

    def _price_text(self, tick: int) -> str:
        return f"{tick * self.view.tick:,.{self._places()}f}"

    def _exact(self, price: float) -> str:
        """A price that may lie half-way between two ticks."""
        text = f"{price:,.{self._places() + 1}f}"
        return text[:-1].rstrip(".") if text.endswith("0") else text

    def _places(self) -> int:
        """Decimals that the tick needs; dollars show cents."""
        tick = self.view.tick
        places = next((k for k in range(9) if abs(tick * 10**k - round(tick * 10**k)) < 1e-6 * tick * 10**k), 9)
        return max(places, 2) if self.view.price_unit == "$" else places

    def _mid(self, frame: LadderFrame) -> float | None:
        """The mid in ticks; of a one-sided book its best price."""
        bests = [self._tick(side[0].price) for side in (frame.bids, frame.asks) if side]
        return sum(bests) / len(bests) if bests else None

    def _inside(self, frame: LadderFrame, tick: int) -> bool:
        """Whether no level reaches ``tick``: it lies in the spread (or beyond the only side)."""
        above_bids = not frame.bids or tick > self._tick(frame.bids[0].price)
        below_asks = not frame.asks or tick < self._tick(frame.asks[0].price)
        return above_bids and below_asks

    def _marks(self, frame: LadderFrame) -> dict[int, tuple[Mark, ...]]:
        found: dict[int, tuple[Mark, ...]] = {}
        for mark in frame.marks:
            tick = self._tick(mark.price)
            found[tick] = (*found.get(tick, ()), mark)
        return found

    def _line(self, y: int) -> Line | None:
        at = y - self._header
        return self._lines[at] if 0 <= at < len(self._lines) else None

    def _is_notice(self, y: int) -> bool:
        return not self._lines and y == self.size.height // 2

    def _chosen(self, line: Line) -> bool:
        return self.has_focus and self.cursor is not None and (line.side, line.tick) == self.cursor

    def _now(self) -> LadderFrame:
        assert isinstance(self.frame, LadderFrame)
        return self.frame


def _first_fit(width: int, *texts: str) -> str:
    return next((text for text in texts if cell_len(text) <= width), texts[-1])


def _kept(top: int, at: int, least: int, most: int, half: int) -> int:
    """``top`` moved by as few half pages as put its distance above ``at`` between ``least`` and ``most``."""
    if top - at < least:
        return top + half * -(-(least - top + at) // half)
    if top - at > most:
        return top - half * -(-(top - at - most) // half)
    return top
