"""What a replayed stream of messages shows after any of them: the ladder from keyframes, the rest from arrays."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from core.markets.keyframes import Keyframes
from core.markets.reports import BUY, SELL
from core.views import (
    Axis,
    Breakdown,
    Cell,
    Column,
    GridFrame,
    Ladder,
    LadderFrame,
    Level,
    Mark,
    Plot,
    PlotFrame,
    Resting,
    Table,
    TableFrame,
)

if TYPE_CHECKING:
    from core.markets.engine import Engine

SHOWN_LEVELS = 40
SHOWN_ORDERS = 200
"""Of a longer queue the orders behind these are shown as one, order 0, at its end."""


class Trades:
    """The trades of the stream in arrays with room for all of them; ``count`` says how many are there."""

    def __init__(self, room: int, ids: np.dtype) -> None:
        self.step = np.empty(room, dtype=np.int32)
        self.price = np.empty(room, dtype=np.int64)
        self.quantity = np.empty(room, dtype=np.int64)
        self.maker, self.taker = np.empty(room, dtype=ids), np.empty(room, dtype=ids)
        self.bought = np.empty(room, dtype=bool)
        self.count = 0

    def add(
        self, step: np.ndarray, price: np.ndarray, quantity: np.ndarray, maker: np.ndarray, taker: np.ndarray, bought: np.ndarray
    ) -> None:
        span = slice(self.count, self.count + len(step))
        self.step[span], self.price[span], self.quantity[span] = step, price, quantity
        self.maker[span], self.taker[span], self.bought[span] = maker, taker, bought
        self.count += len(step)

    def of(self, step: int) -> range:
        """The entries of one step, in the order in which they traded."""
        return range(bisect_left(self.step, step, 0, self.count), bisect_left(self.step, step + 1, 0, self.count))


class Changes:
    """What each message did to the level at its own side and price, apart from trades: (side, price, lots)."""

    def __init__(self, messages: int, price: np.dtype) -> None:
        self.side = np.zeros(messages, dtype=np.int8)
        self.price = np.zeros(messages, dtype=price)
        self.lots = np.zeros(messages, dtype=np.int32)

    def of(self, step: int) -> tuple[int, int, int]:
        return int(self.side[step]), int(self.price[step]), int(self.lots[step])


class StreamTape(Table):
    """Every trade, newest first: message, what the taker did, price, quantity, against whom."""

    def __init__(self, trades: Trades, tail: int = 200) -> None:
        columns = [
            Column("message"),
            Column("taker did", align="left"),
            Column("price"),
            Column("quantity"),
            Column("taker"),
            Column("maker"),
        ]
        super().__init__(columns)
        self.trades, self.tail = trades, tail

    def at(self, step: int) -> TableFrame:
        log, now = self.trades, self.trades.of(step)
        first = max(0, now.stop - self.tail)
        rows = []
        for entry in range(now.stop - 1, first - 1, -1):
            role = "bid" if log.bought[entry] else "ask"
            values = (
                int(log.step[entry]) + 1, "buy" if log.bought[entry] else "sell", int(log.price[entry]), int(log.quantity[entry]),
                int(log.taker[entry]), int(log.maker[entry]),
            )  # fmt: skip
            rows.append(tuple(Cell(value, role) for value in values))
        return TableFrame(tuple(rows), frozenset(range(min(len(now), len(rows)))), first)


class StreamLadder(Ladder):
    """The best levels with their queues after each message; every trade of the message is marked at its price."""

    def __init__(self, keyframes: Keyframes, trades: Trades, changes: Changes) -> None:
        super().__init__(tick=1, price_unit="")
        self.keyframes, self.trades, self.changes = keyframes, trades, changes

    def at(self, step: int) -> LadderFrame:
        with self.keyframes.after(step) as engine:
            bids, asks = (self._side(engine, side) for side in (BUY, SELL))
        return LadderFrame(bids, asks, self._marks_at(step))

    def _side(self, engine: Engine, side: int) -> tuple[Level, ...]:
        found = []
        for price, quantity, orders in engine.levels(side, SHOWN_LEVELS, SHOWN_ORDERS):
            queue = [Resting(order, shown) for order, shown in orders]
            behind = quantity - sum(shown for _, shown in orders)
            found.append(Level(price, quantity, tuple([*queue, Resting(0, behind)] if behind else queue)))
        return tuple(found)

    def _marks_at(self, step: int) -> tuple[Mark, ...]:
        per_price: dict[int, int] = {}
        for entry in self.trades.of(step):
            price = int(self.trades.price[entry])
            per_price[price] = per_price.get(price, 0) + int(self.trades.quantity[entry])
        marks = [Mark(price, "trade", f"{quantity} traded") for price, quantity in per_price.items()]
        side, price, change = self.changes.of(step)
        if change:
            marks.append(Mark(price, "bid" if side == BUY else "ask", f"{change:+d}"))
        return tuple(marks)


class StreamDepth(Breakdown):
    """All that rests, bids beside asks."""

    def __init__(self, bids: np.ndarray, asks: np.ndarray) -> None:
        super().__init__(Axis.of("bids", "asks"), [("resting", "group0")], unit="")
        self._depth = (bids, asks)

    def at(self, step: int) -> GridFrame:
        cells = {(bar, 0): Cell(int(depth[step]), "group0") for bar, depth in enumerate(self._depth)}
        changed = frozenset((bar, 0) for bar, depth in enumerate(self._depth) if step == 0 or depth[step] != depth[step - 1])
        return GridFrame(1, cells, changed)

    def grow(self, span: slice) -> None:
        """The scale fits the largest depth matched so far."""
        self.maximum = max(self.maximum, *(float(depth[span].max()) for depth in self._depth))


class StreamPlot(Plot):
    """Prices over messages: the curves are thinned for drawing, the values at a step are exact."""

    def __init__(self, columns: dict[str, np.ndarray], thinned: int = 100_000) -> None:
        super().__init__("message", "price")
        self._columns = list(columns.values())
        roles = {"mid": "plain", "bid": "bid", "ask": "ask"}
        for name in columns:
            self.curve(name, roles[name], "step")
        self._stride = max(len(self._columns[0]) // thinned, 1)

    def draw(self, first: int, end: int) -> None:
        """Add the points of messages [first, end) that differ from the point before, at most one in a stride."""
        steps = np.arange(-(-first // self._stride) * self._stride, end, self._stride)
        for curve, column in enumerate(self._columns):
            values = column[steps].astype(np.float64)
            keep = np.isfinite(values)
            keep[1:] &= values[1:] != values[:-1]
            self.points(curve, steps[keep] + 1.0, values[keep], steps[keep])

    def at(self, step: int) -> PlotFrame:
        values = [float(column[step]) for column in self._columns]
        return PlotFrame(step + 1.0, tuple(None if value != value else value for value in values))
