"""What a replayed LOBSTER day shows at any event, computed from its arrays when asked: ladder with queues, depth, tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.formatting import clock_text
from core.markets.lobster.day import Day
from core.markets.lobster.reader import CROSS, EXECUTION, HALT, HIDDEN_EXECUTION, PRICE_SCALE, SUBMISSION, Events
from core.views import Axis, Breakdown, Cell, Column, GridFrame, Ladder, LadderFrame, Mark, TableLog

if TYPE_CHECKING:
    import numpy as np


class ReplayLadder(Ladder):
    """The visible levels after each message. Order 0 is the quantity in front whose orders the file never named."""

    def __init__(self, day: Day) -> None:
        super().__init__(tick=_cents(day.events) / PRICE_SCALE, price_unit="$")
        self.day = day

    def at(self, step: int) -> LadderFrame:
        sides = [[self.day.level(side, step, place) for place in range(self.day.levels)] for side in (1, -1)]
        bids, asks = (tuple(level for level in levels if level is not None) for levels in sides)
        return LadderFrame(bids, asks, self._marks_at(step))

    def _marks_at(self, step: int) -> tuple[Mark, ...]:
        events = self.day.events
        kind, size, side = int(events.type[step]), int(events.size[step]), int(events.direction[step])
        if kind == HALT:
            return ()
        price = int(events.price[step]) / PRICE_SCALE
        resting = "bid" if side > 0 else "ask"
        if kind == SUBMISSION:
            return (Mark(price, resting, f"+{size}"),)
        if kind < EXECUTION:
            return (Mark(price, resting, f"-{size}"),)
        what = {EXECUTION: "sold" if side > 0 else "bought", HIDDEN_EXECUTION: "hidden", CROSS: "cross"}[kind]
        return (Mark(price, "trade", f"{size} {what}"),)


def _cents(events: Events) -> int:
    """The step of the displayed prices, in the file's unit: a cent, or a part of it, as for shares below a dollar."""
    import numpy as np

    displayed = events.price[(events.type >= SUBMISSION) & (events.type <= EXECUTION)]
    return int(np.gcd(PRICE_SCALE // 100, np.gcd.reduce(displayed))) if len(displayed) else PRICE_SCALE // 100


class DepthBars(Breakdown):
    """Displayed quantity of each side, split by how near it stands to the best price."""

    def __init__(self, day: Day) -> None:
        parts = [("best price", "group0"), ("next four", "group1"), ("deeper", "group2")]
        self._edges = [edge for edge in (0, 1, 5) if edge < day.levels]
        super().__init__(Axis.of("bids", "asks"), parts[: len(self._edges)], unit="shares")
        self.day = day

    def at(self, step: int) -> GridFrame:
        now, before = self._parts(step), self._parts(step - 1) if step else {}
        cells = {key: Cell(value, self.parts[key[1]][1]) for key, value in now.items()}
        return GridFrame(len(self.parts), cells, frozenset(key for key, value in now.items() if before.get(key) != value))

    def grow(self, rows: np.ndarray) -> None:
        """The scale fits the largest depth read so far."""
        self.maximum = max(self.maximum, float(rows[:, 1::4].sum(axis=1).max()), float(rows[:, 3::4].sum(axis=1).max()))

    def _parts(self, step: int) -> dict[tuple[int, int], int]:
        ends = [*self._edges[1:], self.day.levels]
        row = self.day.rows[step]
        return {
            (bar, part): int(row[offset::4][first:end].sum())
            for bar, offset in enumerate((3, 1))
            for part, (first, end) in enumerate(zip(self._edges, ends, strict=True))
        }


def trade_tape(events: Events) -> TableLog:
    """Every execution: when, what the taker did, price, quantity, against whom."""
    import numpy as np

    entries = np.flatnonzero((events.type >= EXECUTION) & (events.type <= CROSS))
    direction, kind = events.direction[entries], events.type[entries]
    did = np.where(kind == CROSS, "cross", np.where(direction < 0, "buy", np.where(direction > 0, "sell", "?")))
    maker = [str(order) if order > 0 else "hidden" for order in events.order[entries].tolist()]
    clock = [clock_text(int(second) * 1_000_000_000, 0) for second in events.time[entries].tolist()]
    columns = [Column("time", align="left"), Column("taker", align="left"), Column("price", "$"), Column("quantity"), Column("maker")]
    values = [np.array(clock), did, events.price[entries] / PRICE_SCALE, events.size[entries], np.array(maker)]
    role = np.where(kind == CROSS, 2, np.where(direction < 0, 0, np.where(direction > 0, 1, 2)))
    return TableLog(columns, entries, values, ("bid", "ask", "plain"), role)
