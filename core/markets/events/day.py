"""What a market-by-order recording keeps: one row an event, keyframes of the book, and everything else computed from them.

Nothing is held twice: best prices, running totals and the values of the steps are worked out for the events asked for, a few
at a time or all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.columns import Column, ComputedColumn
from core.markets.events.book import IN_TURN, NO_PRICE, OUT_OF_TURN, Effects, EventBook
from core.markets.growing import Growing
from core.markets.keyframes import Frames
from core.markets.readers import forms
from core.markets.readers.forms import ACTION_NAMES, OrderEvents
from core.markets.running import Rows, RunningTotal, fact_of

TRADES = (forms.TRADE, forms.EXECUTE, forms.HIDDEN, forms.CROSS)
SIDE_NAMES = ("sell", "", "buy")
_EVENT = ("action", "side", "order", "price", "size", "last")


class EventDay:
    """All events read so far. Prices are whole numbers in 1 / ``price_scale``; side and price are the order's own."""

    def __init__(self, price_scale: int) -> None:
        self.price_scale = price_scale
        self.events = Growing(small=("size", "bids", "asks", "level_before", "level"))
        self.frames: Frames[EventBook] = Frames(EventBook, self._forward)
        self.totals = {name: RunningTotal(rows) for name, rows in self._counted().items()}

    def extend(self, events: OrderEvents, effects: Effects) -> None:
        """Append one block."""
        self.events.extend(
            {
                "action": events.action.astype(np.int8), "side": effects.side.astype(np.int8), "last": events.last.astype(bool),
                "marks": effects.marks.astype(np.uint16), "order": events.order, "price": effects.price, "size": events.size,
                "bid": effects.bid, "ask": effects.ask, "bids": effects.bids, "asks": effects.asks,
                "level_before": effects.level_before, "level": effects.level,
            }
        )  # fmt: skip
        for total in self.totals.values():
            total.grow(len(self))

    def __len__(self) -> int:
        return len(self.events)

    @property
    def nbytes(self) -> int:
        """Of all arrays, their room for more included, and of the keyframes."""
        return self.events.nbytes + self.frames.nbytes

    def _forward(self, book: EventBook, first: int, end: int) -> None:
        if first < end:
            action, side, order, price, size, last = (self.events.get(name)[first:end] for name in _EVENT)
            book.apply(action, side, order, price, size, last)

    # values of events first, …, end - 1 --------------------------------------------------------------------------------

    def rows(self, name: str, first: int, end: int) -> np.ndarray:
        """(end - first,) one kept column of whole numbers."""
        return self.events.get(name)[first:end].astype(np.int64)

    def money(self, name: str, first: int, end: int) -> np.ndarray:
        """A column of prices in dollars, NaN where there is none."""
        raw = self.events.get(name)[first:end]
        dollars: np.ndarray = np.where(raw == NO_PRICE, np.nan, raw / self.price_scale)
        return dollars

    def before(self, name: str, first: int, end: int) -> np.ndarray:
        """The same one event earlier, NaN before the first."""
        found = self.money(name, max(first - 1, 0), end - 1)
        return np.concatenate([[np.nan], found]) if first == 0 else found

    def settled(self, name: str, first: int, end: int) -> np.ndarray:
        """A best price where the exchange's event is complete, held until the next such place; NaN before the first."""
        place = np.where(self.events.get("last")[first:end], np.arange(first, end), -1)
        if end > first and place[0] < 0:
            place[0] = self._complete_before(first)
        place = np.maximum.accumulate(place)
        start = int(place[0]) if end > first and place[0] >= 0 else first
        prices: np.ndarray = np.where(place >= 0, self.money(name, start, end)[np.maximum(place - start, 0)], np.nan)
        return prices

    def _complete_before(self, step: int) -> int:
        """The last event before ``step`` that ends an exchange's event, -1 when there is none."""
        last, end, reach = self.events.get("last"), step, 16
        while end > 0:
            first = max(end - reach, 0)
            found = np.flatnonzero(last[first:end])
            if len(found):
                return first + int(found[-1])
            end, reach = first, 4 * reach
        return -1

    def mid(self, first: int, end: int) -> np.ndarray:
        """Halfway between the settled best prices."""
        return self.quotes(first, end)[0]

    def quotes(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mid and settled best bid and ask."""
        bid, ask = self.settled("bid", first, end), self.settled("ask", first, end)
        return (bid + ask) / 2, bid, ask

    def spread(self, first: int, end: int) -> np.ndarray:
        """Settled best ask less best bid."""
        width: np.ndarray = self.settled("ask", first, end) - self.settled("bid", first, end)
        return width

    def _counted(self) -> dict[str, Rows]:
        """What each event adds to the running totals."""

        def volume(chosen: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rows:
            def rows(first: int, end: int) -> np.ndarray:
                action, side, size = (self.events.get(name)[first:end] for name in ("action", "side", "size"))
                taker = np.where(action == forms.TRADE, side, np.where(action == forms.EXECUTE, -side, 0))
                return np.where(chosen(action, taker), size, 0)

            return rows

        def marked(marks: int) -> Rows:
            return lambda first, end: (self.events.get("marks")[first:end] & marks) > 0

        return {
            "trades": lambda first, end: np.isin(self.events.get("action")[first:end], TRADES),
            "volume": volume(lambda action, taker: np.isin(action, TRADES)),
            "bought": volume(lambda action, taker: taker > 0),
            "sold": volume(lambda action, taker: taker < 0),
            "judged": marked(IN_TURN | OUT_OF_TURN),
            "early": marked(OUT_OF_TURN),
        }

    # faces of a recording ----------------------------------------------------------------------------------------------

    def fact(self, compute: Rows) -> np.ndarray:
        """A fact's column of what ``compute(first, end)`` gives."""
        return fact_of(self.events, compute)

    def columns(self) -> list[Column]:
        """The values of the steps, each computed where it is read."""
        scale = self.price_scale

        def kept(name: str) -> Rows:
            return lambda first, end: self.rows(name, first, end)

        return [
            ComputedColumn("event", "text", kept("action"), ACTION_NAMES),
            ComputedColumn("order", "int", kept("order")),
            ComputedColumn("side", "text", lambda first, end: self.rows("side", first, end) + 1, SIDE_NAMES),
            ComputedColumn("price", "float", lambda first, end: self.rows("price", first, end) / scale),
            ComputedColumn("quantity", "int", kept("size")),
            ComputedColumn("bid", "float", lambda first, end: self.money("bid", first, end)),
            ComputedColumn("ask", "float", lambda first, end: self.money("ask", first, end)),
            ComputedColumn("bid_before", "float", lambda first, end: self.before("bid", first, end)),
            ComputedColumn("ask_before", "float", lambda first, end: self.before("ask", first, end)),
            ComputedColumn("level_before", "int", kept("level_before")),
            ComputedColumn("level", "int", kept("level")),
        ]
