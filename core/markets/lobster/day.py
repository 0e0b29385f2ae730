"""What the recording of a LOBSTER day keeps: messages, packed orderbook rows, known queues; everything else is computed from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.columns import Column, ComputedColumn
from core.markets.growing import Growing
from core.markets.lobster.packed_rows import PackedRows
from core.markets.lobster.queues import Queues
from core.markets.lobster.reader import CROSS, EXECUTION, HIDDEN_EXECUTION, PRICE_SCALE, UNOCCUPIED, Events
from core.markets.lobster.steps import EVENT_NAMES
from core.markets.running import Rows, RunningTotal
from core.views import Level, Resting

_SMALL = ("bid_depth", "ask_depth", "level_before", "level", "known", "early")


class Day:
    """All messages, the orderbook ``rows`` (events, 4 * levels) read so far, and columns of what each of them shows (``shown``)."""

    def __init__(self, events: Events, levels: int) -> None:
        self.events = narrow(events)
        self.levels = levels
        self.rows = PackedRows(4 * levels)
        self.shown = Growing(small=_SMALL, room=len(events))
        self.queues = Queues(self.events)
        self.totals = {name: RunningTotal(rows) for name, rows in self._counted().items()}
        for total in self.totals.values():
            total.grow(len(events))

    def level(self, side: int, step: int, place: int) -> Level | None:
        """The level at ``place`` (0 is the best) with its known orders; what is not known stands in front as order 0."""
        price, quantity = self._level(side, step, place)
        if abs(price) == UNOCCUPIED:
            return None
        ids, left = self.queues.at(side, price, step)
        orders = tuple(Resting(order, size) for order, size in zip(ids.tolist(), left.tolist(), strict=True))
        lump = quantity - int(left.sum())
        return Level(price / PRICE_SCALE, quantity, (Resting(0, lump), *orders) if lump > 0 else orders)

    def unnamed(self, side: int, step: int, place: int) -> int | None:
        """Displayed quantity minus known orders of one level; None where it is unoccupied."""
        price, quantity = self._level(side, step, place)
        if abs(price) == UNOCCUPIED:
            return None
        return quantity - int(self.queues.at(side, price, step)[1].sum())

    def _level(self, side: int, step: int, place: int) -> tuple[int, int]:
        row, offset = self.rows[step], 4 * place + (2 if side > 0 else 0)
        return int(row[offset]), int(row[offset + 1])

    # values of events first, …, end - 1 --------------------------------------------------------------------------------

    def kept(self, name: str) -> Rows:
        """One column of whole numbers."""
        return lambda first, end: self.shown.get(name)[first:end].astype(np.int64)

    def money(self, name: str) -> Rows:
        """``bid`` or ``ask`` in dollars, NaN where the side is empty."""

        def rows(first: int, end: int) -> np.ndarray:
            price = self.shown.get(name)[first:end]
            return np.where(np.abs(price) == UNOCCUPIED, np.nan, price / PRICE_SCALE)

        return rows

    def mid(self, first: int, end: int) -> np.ndarray:
        """Halfway between the best prices, NaN where a side is empty."""
        return self._of_both(lambda bid, ask: (ask + bid) / (2 * PRICE_SCALE), first, end)

    def spread(self, first: int, end: int) -> np.ndarray:
        """Best ask less best bid, NaN where a side is empty."""
        return self._of_both(lambda bid, ask: (ask - bid) / PRICE_SCALE, first, end)

    def _of_both(self, of: Callable[[np.ndarray, np.ndarray], np.ndarray], first: int, end: int) -> np.ndarray:
        bid, ask = self.shown.get("bid")[first:end], self.shown.get("ask")[first:end]
        values: np.ndarray = np.where((bid == -UNOCCUPIED) | (ask == UNOCCUPIED), np.nan, of(bid, ask))
        return values

    def quotes(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mid, best bid and best ask."""
        return self.mid(first, end), self.money("bid")(first, end), self.money("ask")(first, end)

    def before(self, rows: Rows) -> Rows:
        """The same one event earlier, NaN before the first."""

        def earlier(first: int, end: int) -> np.ndarray:
            found = rows(max(first - 1, 0), end - 1)
            return np.concatenate([[np.nan], found]) if first == 0 else found

        return earlier

    def depth(self, first: int, end: int) -> np.ndarray:
        """Displayed quantity of both sides."""
        both: np.ndarray = self.kept("bid_depth")(first, end) + self.kept("ask_depth")(first, end)
        return both

    def hidden_share(self, first: int, end: int) -> np.ndarray:
        """Of the executed volume so far, NaN before there is any."""
        with np.errstate(invalid="ignore"):
            share: np.ndarray = self.totals["hidden"].rows(first, end) / self.totals["volume"].rows(first, end)
        return share

    def _counted(self) -> dict[str, Rows]:
        """What each message adds to the running totals."""
        events = self.events

        def volume(chosen: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Rows:
            def rows(first: int, end: int) -> np.ndarray:
                mine = chosen(events.type[first:end], events.direction[first:end])
                return np.where(mine, events.size[first:end], 0)

            return rows

        return {
            "trades": lambda first, end: (events.type[first:end] >= EXECUTION) & (events.type[first:end] <= CROSS),
            "volume": volume(lambda kind, _: (kind >= EXECUTION) & (kind <= CROSS)),
            "hidden": volume(lambda kind, _: kind == HIDDEN_EXECUTION),
            "bought": volume(lambda kind, direction: (kind == EXECUTION) & (direction < 0)),
            "sold": volume(lambda kind, direction: (kind == EXECUTION) & (direction > 0)),
        }

    def columns(self) -> list[Column]:
        """The values of the steps, each computed where it is read."""
        events = self.events

        def message(values: np.ndarray) -> Rows:
            return lambda first, end: values[first:end].astype(np.int64)

        quotes = {"bid": self.money("bid"), "ask": self.money("ask"), "mid": self.mid, "spread": self.spread}
        return [
            ComputedColumn("event", "text", message(events.type), EVENT_NAMES),
            ComputedColumn("type", "int", message(events.type)),
            ComputedColumn("order", "int", message(events.order)),
            ComputedColumn("side", "text", lambda first, end: events.direction[first:end].astype(np.int64) + 1, ("sell", "", "buy")),
            ComputedColumn("price", "float", lambda first, end: events.price[first:end] / PRICE_SCALE),
            ComputedColumn("quantity", "int", message(events.size)),
            *(ComputedColumn(name, "float", rows) for name, rows in quotes.items()),
            *(ComputedColumn(f"{name}_before", "float", self.before(rows)) for name, rows in quotes.items()),
            ComputedColumn("level_before", "int", self.kept("level_before")),
            ComputedColumn("level", "int", self.kept("level")),
            ComputedColumn("volume", "int", self.totals["volume"].rows),
        ]


def narrow(events: Events) -> Events:
    """The same messages in the smallest types that hold them."""
    size = events.size if len(events) and int(events.size.max()) >= 1 << 31 else events.size.astype(np.int32)
    return Events(events.time, events.type.astype(np.int8), events.order, size, events.price, events.direction.astype(np.int8))
