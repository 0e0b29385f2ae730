"""What a replayed LOBSTER day shows at any event, computed from its arrays when asked: ladder with queues, depth, tape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.lobster import CROSS, EXECUTION, HALT, HIDDEN_EXECUTION, PRICE_SCALE, SUBMISSION, UNOCCUPIED, Events
from core.markets.queues import Queues
from core.views import Axis, Breakdown, Cell, Column, GridFrame, Ladder, LadderFrame, Level, Mark, Resting, TableLog

if TYPE_CHECKING:
    import numpy as np


class Day:
    """Everything known of one day: its messages whole, its orderbook ``rows`` (events, 4 * levels) as far as they are read."""

    def __init__(self, events: Events, levels: int) -> None:
        import numpy as np

        self.events = events
        self.levels = levels
        self.rows = np.zeros((len(events), 4 * levels), dtype=np.int64)
        self.queues = Queues(events)

    def level(self, side: int, step: int, place: int) -> Level | None:
        """The level at ``place`` (0 is the best) with its known orders; what is not known stands in front as order 0."""
        offset = 4 * place + (2 if side > 0 else 0)
        price, quantity = int(self.rows[step, offset]), int(self.rows[step, offset + 1])
        if abs(price) == UNOCCUPIED:
            return None
        ids, left = self.queues.at(side, price, step)
        orders = tuple(Resting(order, size) for order, size in zip(ids.tolist(), left.tolist(), strict=True))
        lump = quantity - int(left.sum())
        return Level(price / PRICE_SCALE, quantity, (Resting(0, lump), *orders) if lump > 0 else orders)

    def unnamed(self, side: int, step: int, place: int) -> int | None:
        """Displayed quantity minus known orders of one level; None where it is unoccupied."""
        offset = 4 * place + (2 if side > 0 else 0)
        price, quantity = int(self.rows[step, offset]), int(self.rows[step, offset + 1])
        if abs(price) == UNOCCUPIED:
            return None
        return quantity - int(self.queues.at(side, price, step)[1].sum())


class ReplayLadder(Ladder):
    """The visible levels after each message. Order 0 is the quantity in front whose orders the file never named."""

    def __init__(self, day: Day) -> None:
        super().__init__(tick=0.01, price_unit="$")
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
    clock = [clock_time(second, True) for second in events.time[entries].tolist()]
    columns = [Column("time", align="left"), Column("taker", align="left"), Column("price", "$"), Column("quantity"), Column("maker")]
    values = [np.array(clock), did, events.price[entries] / PRICE_SCALE, events.size[entries], np.array(maker)]
    role = np.where(kind == CROSS, 2, np.where(direction < 0, 0, np.where(direction > 0, 1, 2)))
    return TableLog(columns, entries, values, ("bid", "ask", "plain"), role)


def clock_time(second: float, with_seconds: bool) -> str:
    whole = int(second)
    text = f"{whole // 3600:02d}:{whole // 60 % 60:02d}"
    return f"{text}:{whole % 60:02d}" if with_seconds else text
