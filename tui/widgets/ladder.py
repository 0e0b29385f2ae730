"""Draws a Ladder: price in the middle, bids left, asks right, the queue of each level as blocks, front beside the price."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.views import Ladder, LadderFrame, Level, Mark
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, centred, clip, pad
from tui.widgets.ladder_lines import Layout, Line
from tui.widgets.queue_bar import Side, amount, explained, paint_queue, round_up

ENOUGH = 8
"""Cells of a bar from which hidden quantities are written beside the displayed ones."""
BESIDE = 9
"""Cells that a mark gets beside the asks of a price that has bids too."""
_MARK_GLYPHS = {"own": "★", "trade": "×", "bad": "✗", "good": "✓"}


class LadderWidget(ViewWidget[Ladder]):
    """Arrows up and down move a cursor over the price levels.

    Where the book is dense every tick has its row and the window stands still, turning by half pages when the mid leaves
    its middle half; where it is sparse the levels stand one below another around the spread.
    """

    cursor: tuple[Side, int] | None = None
    _lines: tuple[Line, ...] = ()
    _layout = Layout(0, 1, 1, 5, 1.0, 1.0)
    _hidden = (0, 0)
    _dense = False
    _top_tick: int | None = None
    _widest = (1, 1, 1)
    _scroll = 0
    _deepest = 0
    _header = 1

    def plan(self, size: Size) -> None:
        frame = self._now()
        self._header = 1 if size.height >= 6 else 0
        rows = max(size.height - self._header, 1)
        self._deepest = max(self._deepest, len(frame.bids), len(frame.asks))
        if self._is_crossed(frame):
            lines = self._crossed(frame, rows)
        else:
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
            notice = centred("the book is empty", self.room.width) if self._is_notice(y) else ""
            return [Segment(notice, self.palette.style("dim"))]
        if line.kind == "gap":
            return [Segment(centred(line.text, self.room.width), self.palette.style("dim"))]
        return self._spread(line) if line.kind == "spread" else self._price_row(line)

    def move_cursor(self, dx: int, dy: int) -> bool:
        frame = self._now()
        order: list[tuple[Side, int]] = [("ask", self._tick(level.price)) for level in reversed(frame.asks)]
        order += [("bid", self._tick(level.price)) for level in frame.bids]
        if self._is_crossed(frame):
            order.sort(key=lambda place: -place[1])
        if not order or not dy:
            return False
        if self.cursor is None:
            self.cursor = order[max(len(frame.asks) - 1, 0)] if dy < 0 or not frame.bids else ("bid", self._tick(frame.bids[0].price))
            return True
        at = min(range(len(order)), key=lambda k: (abs(order[k][1] - self.cursor[1]), order[k] != self.cursor))  # type: ignore[index]
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
        ahead = sum(better.quantity for better in levels[:at])
        return f"{side} {self._price_text(tick)} · {explained(levels[at], ahead if at else None, self.view.quantity_unit, side)}"

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

    def _crossed(self, frame: LadderFrame, rows: int) -> list[Line]:
        """A row for every price that has an order or a mark, high to low, with bids and asks side by side: nothing trades yet."""
        bids = {self._tick(level.price): level for level in frame.bids}
        asks = {self._tick(level.price): level for level in frame.asks}
        marks = self._marks(frame)
        lines = []
        for tick in sorted({*bids, *asks, *marks}, reverse=True):
            bid, ask = bids.get(tick), asks.get(tick)
            side: Side = "ask" if ask else "bid"
            lines.append(Line("level" if bid or ask else "empty", side, tick, ask or bid, marks.get(tick, ()), across=bid if ask else None))
        mid = self._mid(frame)
        assert mid is not None
        centre = self.cursor[1] if self.has_focus and self.cursor is not None else mid
        at = min(range(len(lines)), key=lambda k: abs((lines[k].tick or 0) - centre))
        first = max(min(at - rows // 2, len(lines) - rows), 0)
        self._hidden = (first, max(len(lines) - first - rows, 0))
        blank = [Line("gap")] * (max(rows - len(lines), 0) // 2)
        return (blank + lines[first:])[:rows]

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
        shown = [[level.price for level in side if level.quantity or not level.orders] for side in (frame.bids, frame.asks)]
        if not shown[0] or not shown[1]:
            return Line("spread", text="no bids" if frame.asks else "no asks")
        bid, ask = shown[0][0], shown[1][0]
        ticks = self._tick(ask) - self._tick(bid)
        between = f"⋯ {ticks - 1:,} ticks ⋯   " if ticks > 1 and not self._dense else ""
        places = self._places()
        return Line("spread", text=f"{between}spread {ask - bid:,.{places}f} · mid {self._exact((bid + ask) / 2)}")

    # how rows look -------------------------------------------------------------------------------------------------

    def _measure(self, width: int) -> None:
        """Widths and the scale of the bars; they grow as needed and only shrink when far too large."""
        asks = [line.level for line in self._lines if line.level and line.side == "ask"]
        bids = [level for line in self._lines for level in (line.across, line.level if line.side == "bid" else None) if level]
        largest = max((level.quantity + level.reserve for level in (*bids, *asks)), default=1.0)
        scale = self._layout.scale
        if not scale / 6 < largest <= scale:
            scale = round_up(largest)
        price = max([self._layout.price, *(cell_len(self._price_text(line.tick)) for line in self._lines if line.tick is not None)])
        plain = max([self._widest[0], *(cell_len(amount(level, False)) for level in (*bids, *asks))])
        bid, ask = (
            max([plain, known, *(cell_len(amount(level)) for level in levels)])
            for known, levels in zip(self._widest[1:], (bids, asks), strict=True)
        )
        self._widest = (plain, bid, ask)
        reserves = (width - price - bid - ask - 6) // 2 >= ENOUGH
        if not reserves:
            bid = ask = plain
        bar = max((width - price - bid - ask - 6) // 2, 0)
        full = scale * bar / max(bar - BESIDE, bar // 2, 1) if any(line.across for line in self._lines) and bar else scale
        self._layout = Layout(bar, bid, ask, price, scale, full, reserves)

    def _heading(self) -> list[Segment]:
        style, layout = self.palette.style("dim"), self._layout
        unit = f" ({self.view.quantity_unit})" if self.view.quantity_unit else ""
        side = layout.bar + layout.bids + 1
        above, below = self._hidden
        row = Row()
        more = f"▾ {below} more  " if below else ""
        row.add(pad(_first_fit(side, f"{more}bids{unit}", f"{more}bids", "bids"), side, right=True), self.palette.style("bid")).to(side + 2)
        price = f"price {self.view.price_unit}".strip()
        row.add(centred(price if cell_len(price) <= layout.price else "price", layout.price), style).to(side + layout.price + 4)
        more = f"  ▴ {above} more" if above else ""
        room = self.room.width - row.width
        row.add(clip(_first_fit(room, f"asks{unit}{more}", f"asks{more}", "asks"), room), self.palette.style("ask"))
        return row.segments

    def _spread(self, line: Line) -> list[Segment]:
        width, row = self.room.width, Row()
        text = line.text[line.text.find("spread") :] if "spread" in line.text else line.text
        if not line.marks:
            return row.add(centred(_first_fit(width, line.text, text), width), self.palette.style("dim")).segments
        said = self._said(line.marks, with_price=True)
        free = width - cell_len(said) - 2
        text = next((known for known in (text, text.partition(" · ")[0]) if cell_len(known) <= free), "")
        if text:  # what happened in this step goes before what the prices around it say anyway
            row.to(max(min((width - cell_len(text)) // 2, free - cell_len(text)), 0)).add(text, self.palette.style("dim")).add("  ")
        return row.add(clip(said, width - row.width), self.palette.style(line.marks[0].role, bold=True)).segments

    def _price_row(self, line: Line) -> list[Segment]:
        layout, palette, row = self._layout, self.palette, Row()
        side = layout.bar + 1 + layout.bids
        chosen = self._chosen(line)
        said = self._said(line.marks)
        said_style = palette.style(line.marks[0].role if line.marks else "plain", bold=True)
        if line.side == "bid" and line.level:
            paint_queue(row, line.level, "bid", layout.bar, layout.full, palette)
            row.to(layout.bar + 1).add(pad(amount(line.level, layout.reserves), layout.bids, right=True), palette.style("plain"))
        elif line.across:
            paint_queue(row, line.across, "bid", layout.bar, layout.full, palette)
            row.to(layout.bar + 1).add(pad(amount(line.across, layout.reserves), layout.bids, right=True), palette.style("plain"))
        elif line.side == "ask" and said:
            row.add(pad(said, side, right=True), said_style)
        row.to(side + 1).add("▸" if chosen else " ", palette.style("selected", bold=True))
        assert line.tick is not None
        role = line.side if line.level else "dim"
        row.add(pad(self._price_text(line.tick), layout.price, right=True), palette.style(role, bold=bool(line.marks), reverse=chosen))
        row.to(side + layout.price + 4)
        if line.side == "ask" and line.level:
            row.add(pad(amount(line.level, layout.reserves), layout.asks, right=True), palette.style("plain")).add(" ")
            paint_queue(row, line.level, "ask", layout.bar, layout.full, palette)
            if line.across and said:
                row.add(clip(f"  {said}", self.room.width - row.width), said_style)
        elif line.side == "bid" and said:
            row.add(clip(said, self.room.width - row.width), said_style)
        return row.segments

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

    def _is_crossed(self, frame: LadderFrame) -> bool:
        """Whether bids reach asks, as in an auction."""
        return bool(frame.bids and frame.asks) and self._tick(frame.bids[0].price) >= self._tick(frame.asks[0].price)

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
        return not self._lines and y == self.room.height // 2

    def _chosen(self, line: Line) -> bool:
        if not self.has_focus or self.cursor is None or line.tick != self.cursor[1]:
            return False
        return line.across is not None or line.side == self.cursor[0]

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
