"""What a replayed market-by-order file shows at any event: the ladder with its queues, the tape, the depth of both sides."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

import numpy as np

from core.formatting import clock_text
from core.markets.depth_split import SHOWN_LEVELS, SplitDepth
from core.markets.events.book import EventBook
from core.markets.events.day import EventDay
from core.markets.readers import forms
from core.views import (
    Cell,
    Column,
    GridFrame,
    Ladder,
    LadderFrame,
    Level,
    Mark,
    Resting,
    Table,
    TableFrame,
)

SHOWN_ORDERS = 200
"""Of a longer queue the orders behind these are shown as one, order 0, at its end."""
CHANGES_BOOK = (forms.ADD, forms.CANCEL, forms.MODIFY, forms.CLEAR, forms.EXECUTE, forms.DELETE)


class EventLadder(Ladder):
    """The best levels after each event, each with its queue."""

    def __init__(self, day: EventDay, quantity_unit: str) -> None:
        super().__init__(tick=0.01, price_unit="$", quantity_unit=quantity_unit)
        self.day = day

    def at(self, step: int) -> LadderFrame:
        with self.day.frames.after(step) as book:
            bids, asks = (tuple(self._level(*row) for row in book.shown(side, SHOWN_LEVELS, SHOWN_ORDERS)) for side in (1, -1))
        return LadderFrame(bids, asks, self._event_marks(step))

    def _level(self, price: int, quantity: int, orders: list[tuple[int, int]]) -> Level:
        behind = quantity - sum(size for _, size in orders) if len(orders) == SHOWN_ORDERS else 0
        queue = [Resting(order, size) for order, size in orders]
        return Level(price / self.day.price_scale, quantity, tuple([*queue, Resting(0, behind)] if behind else queue))

    def _event_marks(self, step: int) -> tuple[Mark, ...]:
        events = self.day.events
        action, side, size = (int(events.get(name)[step]) for name in ("action", "side", "size"))
        price = int(events.get("price")[step]) / self.day.price_scale
        resting = "bid" if side > 0 else "ask" if side < 0 else "plain"
        if action == forms.ADD:
            return (Mark(price, resting, f"+{size}"),)
        if action == forms.CANCEL:
            return (Mark(price, resting, f"-{size}"),)
        words = {
            forms.MODIFY: (resting, f"now {size}"),
            forms.DELETE: (resting, "gone"),
            forms.TRADE: ("trade", f"{size} {'bought' if side > 0 else 'sold' if side < 0 else 'auction'}"),
            forms.FILL: ("trade", f"{size} filled"),
            forms.EXECUTE: ("trade", f"{size} {'sold' if side > 0 else 'bought'}"),
            forms.HIDDEN: ("trade", f"{size} hidden"),
            forms.CROSS: ("trade", f"{size} cross"),
        }
        return (Mark(price, *words[action]),) if action in words else ()


class EventTape(Table):
    """Every trade, newest first: what the taker did, price, quantity, when (the first to go where it is narrow)."""

    def __init__(self, day: EventDay, times: array[float], tail: int = 200) -> None:
        """``times``: seconds after midnight of every event."""
        super().__init__([Column("taker", align="left"), Column("price", "$"), Column("size"), Column("time")])
        self.day, self.tail = day, tail
        self._times = times
        self._steps = array("q")

    def extend(self, steps: np.ndarray) -> None:
        """The events that are trades, in order."""
        self._steps.frombytes(steps.astype(np.int64).tobytes())

    def at(self, step: int) -> TableFrame:
        end = bisect_right(self._steps, min(step, len(self._times) - 1))
        first = max(0, end - self.tail)
        rows = tuple(self._row(self._steps[entry]) for entry in range(end - 1, first - 1, -1))
        lit = frozenset(range(end - bisect_left(self._steps, step, first, end)))
        return TableFrame(rows, lit, first)

    def _row(self, step: int) -> tuple[Cell, ...]:
        get = self.day.events.get
        action, side = int(get("action")[step]), int(get("side")[step])
        taker = side if action == forms.TRADE else -side if action == forms.EXECUTE else 0
        did, role = {1: ("buy", "bid"), -1: ("sell", "ask")}.get(taker, ("?" if action == forms.HIDDEN else "auction", "plain"))
        time = clock_text(round(self._times[step] * 1e9), 3)
        values = (did, int(get("price")[step]) / self.day.price_scale, int(get("size")[step]), time)
        return tuple(Cell(value, role) for value in values)


class EventDepth(SplitDepth[EventBook]):
    """The depth after each event."""

    def __init__(self, day: EventDay, unit: str) -> None:
        super().__init__(unit)
        self.day = day

    def sizes(self, book: EventBook, side: int) -> list[int]:
        return [size for _, size in book.depth(side, SHOWN_LEVELS)]

    def at(self, step: int) -> GridFrame:
        with self.day.frames.after(step) as book:
            cells = self.cells(book)
        moved = int(self.day.events.get("action")[step]) in CHANGES_BOOK
        bar = 0 if self.day.events.get("side")[step] > 0 else 1
        return GridFrame(len(self.parts), cells, frozenset((bar, part) for part in range(len(self.parts)) if moved))
