"""What a replayed stream of messages shows at any step: the ladder from keyframes, the rest from arrays.

A message with matches has several steps, joined: the number of a step's happening is its message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from core.joins import Joins
from core.markets.growing import Growing
from core.markets.matching.reports import BUY, SELL
from core.markets.stream.matches import Book
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
    from core.markets.engine.engine import QueueLevel
    from core.markets.stream.windows import Windows

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

    def of(self, first: int, last: int) -> range:
        """The entries of the steps from ``first`` to ``last``, in the order in which they traded."""
        return range(bisect_left(self.step, first, 0, self.count), bisect_left(self.step, last + 1, 0, self.count))


class Changes:
    """What each message did to the level at its own side and price, apart from trades: (side, price, lots), by message."""

    def __init__(self, messages: int, price: np.dtype) -> None:
        self.side = np.zeros(messages, dtype=np.int8)
        self.price = np.zeros(messages, dtype=price)
        self.lots = np.zeros(messages, dtype=np.int32)

    def add(self, span: slice, side: np.ndarray, price: np.ndarray, lots: np.ndarray) -> None:
        self.side[span], self.price[span] = side, price
        self.lots[span] = np.clip(lots, -(1 << 31), (1 << 31) - 1)

    def of(self, message: int) -> tuple[int, int, int]:
        return int(self.side[message]), int(self.price[message]), int(self.lots[message])


class StreamTape(Table):
    """Every trade, newest first: message, what the taker did, price, quantity, against whom."""

    def __init__(self, trades: Trades, joins: Joins, tail: int = 200) -> None:
        columns = [
            Column("message"),
            Column("taker did", align="left"),
            Column("price"),
            Column("quantity"),
            Column("taker"),
            Column("maker"),
        ]
        super().__init__(columns)
        self.trades, self.joins, self.tail = trades, joins, tail

    def at(self, step: int) -> TableFrame:
        log, now = self.trades, self.trades.of(step, step)
        first = max(0, now.stop - self.tail)
        rows = []
        for entry in range(now.stop - 1, first - 1, -1):
            role = "bid" if log.bought[entry] else "ask"
            values = (
                self.joins.number(int(log.step[entry])) + 1, "buy" if log.bought[entry] else "sell",
                int(log.price[entry]), int(log.quantity[entry]),
                int(log.taker[entry]), int(log.maker[entry]),
            )  # fmt: skip
            rows.append(tuple(Cell(value, role) for value in values))
        return TableFrame(tuple(rows), frozenset(range(min(len(now), len(rows)))), first)


class StreamLadder(Ladder):
    """The best levels with their queues at each step; its matches are marked at their price.

    Between two matches of a taker the makers served so far are gone or smaller, and the taker rests nowhere.
    """

    def __init__(self, keyframes: Windows, trades: Trades, changes: Changes, joins: Joins) -> None:
        super().__init__(tick=1, price_unit="")
        self.keyframes, self.trades, self.changes, self.joins = keyframes, trades, changes, joins

    def at(self, step: int) -> LadderFrame:
        message = self.joins.number(step)
        if step < self.joins.last(message):
            return LadderFrame(*self._within(message, step), self._trade_marks(step))
        with self.keyframes.after(message) as engine:
            bids, asks = (_levels(engine.levels(side, SHOWN_LEVELS, SHOWN_ORDERS)) for side in (BUY, SELL))
        return LadderFrame(bids, asks, (*self._trade_marks(step), *self._own_mark(message)))

    def _within(self, message: int, step: int) -> tuple[tuple[Level, ...], tuple[Level, ...]]:
        """Bids and asks at ``step``, where more of ``message`` follows: the book before it, and a taker of what it has taken so far."""
        from core.markets.engine.engine import message as engine_message

        log, gone = self.trades, self.trades.of(self.joins.first(message), step)
        taker, side = int(log.taker[gone[0]]), BUY if log.bought[gone[0]] else SELL
        engine = self.keyframes.rebuilt(message - 1)
        if engine.rests(taker):  # a modified order has left its queue to trade
            engine.apply(engine_message("cancel", taker))
        quantity = int(log.quantity[gone.start : gone.stop].sum())
        engine.apply(engine_message("submit", taker, side, quantity, int(log.price[gone[-1]]), "ioc"))
        return _levels(engine.levels(BUY, SHOWN_LEVELS, SHOWN_ORDERS)), _levels(engine.levels(SELL, SHOWN_LEVELS, SHOWN_ORDERS))

    def _trade_marks(self, step: int) -> tuple[Mark, ...]:
        log = self.trades
        return tuple(Mark(int(log.price[n]), "trade", f"{int(log.quantity[n])} traded") for n in log.of(step, step))

    def _own_mark(self, message: int) -> tuple[Mark, ...]:
        side, price, change = self.changes.of(message)
        return (Mark(price, "bid" if side == BUY else "ask", f"{change:+d}"),) if change else ()


def _levels(found: Sequence[QueueLevel]) -> tuple[Level, ...]:
    """Levels as the ladder shows them; the orders behind the first ones of a queue are one, order 0."""
    shown = []
    for price, quantity, orders in found:
        queue = [Resting(order, lots) for order, lots in orders]
        behind = quantity - sum(order.quantity for order in queue)
        if quantity:
            shown.append(Level(price, quantity, tuple([*queue, Resting(0, behind)] if behind else queue)))
    return tuple(shown)


class StreamDepth(Breakdown):
    """All that rests, bids beside asks."""

    def __init__(self, book: Growing) -> None:
        super().__init__(Axis.of("bids", "asks"), [("resting", "group0")], unit="")
        self._book = book

    def at(self, step: int) -> GridFrame:
        depth = [self._book.get(name) for name in ("bids", "asks")]
        cells = {(bar, 0): Cell(int(column[step]), "group0") for bar, column in enumerate(depth)}
        changed = frozenset((bar, 0) for bar, column in enumerate(depth) if step == 0 or column[step] != column[step - 1])
        return GridFrame(1, cells, changed)

    def grow(self, book: Book) -> None:
        """The scale fits the largest depth matched so far."""
        self.maximum = max(self.maximum, float(book.bids.max()), float(book.asks.max()))


class StreamPlot(Plot):
    """Prices over messages: the curves are thinned for drawing, the values at a step are exact."""

    def __init__(self, book: Growing, joins: Joins, messages: int, thinned: int = 100_000) -> None:
        super().__init__("message", "price")
        self._book, self._joins = book, joins
        for name, role in (("mid", "plain"), ("bid", "bid"), ("ask", "ask")):
            self.curve(name, role, "step")
        self._stride = max(messages // thinned, 1)

    def draw(self, first: int, message: np.ndarray, book: Book) -> None:
        """Add the points of the block of steps that begins at ``first`` where they differ from the point before, one in a stride.

        message: (steps,) the message of each.
        """
        chosen = np.arange(-first % self._stride, len(message), self._stride)
        for curve, column in enumerate(((book.bid + book.ask) / 2, book.bid, book.ask)):
            values = column[chosen].astype(np.float64)
            keep = np.isfinite(values)
            keep[1:] &= values[1:] != values[:-1]
            self.points(curve, message[chosen][keep] + 1.0, values[keep], first + chosen[keep])

    def at(self, step: int) -> PlotFrame:
        bid, ask = (float(self._book.get(name)[step]) for name in ("bid", "ask"))
        values = ((bid + ask) / 2, bid, ask)
        return PlotFrame(self._joins.number(step) + 1.0, tuple(None if value != value else value for value in values))
