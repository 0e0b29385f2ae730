"""What a replayed market-by-order file shows at any event: the ladder with its queues, the depth of both sides.

A keyframe of the whole book stands at least every so many events as orders rest in it; any event is reached from the one
before it.
"""

from __future__ import annotations

from bisect import bisect_right

from core.markets.event_book import EventBook, Keyframe
from core.markets.growing import Growing
from core.markets.readers import forms
from core.views import Axis, Breakdown, Cell, GridFrame, Ladder, LadderFrame, Level, Mark, Resting

SHOWN_LEVELS = 20
LEAST_BETWEEN_KEYFRAMES = 2048
CHANGES_BOOK = (forms.ADD, forms.CANCEL, forms.MODIFY, forms.CLEAR, forms.EXECUTE, forms.DELETE)
_EVENT = ("action", "order", "side", "price", "size", "last")


class EventDay:
    """All events read so far, keyframes, and the book at the event last asked for."""

    def __init__(self, price_scale: int) -> None:
        self.price_scale = price_scale
        self.events = Growing()
        self._steps: list[int] = [-1]
        self._keyframes: list[Keyframe] = [EventBook().keep()]
        self._shown: tuple[int, EventBook] = (-1, EventBook())

    def keep(self, step: int, book: EventBook) -> None:
        """A keyframe of ``book`` as it is after event ``step``, where the last one is far enough back."""
        if step - self._steps[-1] >= max(LEAST_BETWEEN_KEYFRAMES, len(book.orders) // 4):
            self._keyframes.append(book.keep())
            self._steps.append(step)  # published last

    def book(self, step: int) -> EventBook:
        """The book after event ``step``, for the one thread that draws. The caller must not change it; it is good until the next call."""
        at, book = self._shown
        if self._steps[bisect_right(self._steps, step) - 1] <= at <= step:
            self._forward(book, at, step)
        else:
            book = self.rebuilt(step)
        self._shown = (step, book)
        return book

    def rebuilt(self, step: int) -> EventBook:
        """The book after event ``step``, from the keyframe before it; the caller's own."""
        key = bisect_right(self._steps, step) - 1
        book = EventBook.restore(self._keyframes[key])
        self._forward(book, self._steps[key], step)
        return book

    def _forward(self, book: EventBook, at: int, step: int) -> None:
        columns = [self.events.get(name)[at + 1 : step + 1].tolist() for name in _EVENT]
        for action, order, side, price, size, last in zip(*columns, strict=True):
            book.apply(action, order, side, price, size)
            if last:
                book.end_event()

    @property
    def keyframe_bytes(self) -> int:
        return sum(frame.order.nbytes * 3 + frame.side.nbytes for frame in self._keyframes)


class EventLadder(Ladder):
    """The best levels after each event, each with its whole queue."""

    def __init__(self, day: EventDay, quantity_unit: str) -> None:
        super().__init__(tick=0.01, price_unit="$", quantity_unit=quantity_unit)
        self.day = day

    def at(self, step: int) -> LadderFrame:
        book, scale = self.day.book(step), self.day.price_scale
        sides = []
        for side in (1, -1):
            levels = []
            for price in book.prices(side, SHOWN_LEVELS):
                orders = tuple(Resting(order, size) for order, size in book.queue(side, price))
                levels.append(Level(price / scale, book.levels[side][price], orders))
            sides.append(tuple(levels))
        return LadderFrame(sides[0], sides[1], self._event_marks(step))

    def _event_marks(self, step: int) -> tuple[Mark, ...]:
        events = self.day.events
        action, side, size = (int(events.get(name)[step]) for name in ("action", "at_side", "size"))
        price = int(events.get("at_price")[step]) / self.day.price_scale
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


class EventDepth(Breakdown):
    """Quantity of each side, split by how near it stands to the best price, over the levels the ladder shows."""

    def __init__(self, day: EventDay, unit: str) -> None:
        parts = [("best price", "group0"), ("next four", "group1"), ("to level 20", "group2")]
        super().__init__(Axis.of("bids", "asks"), parts, unit=unit)
        self.day = day

    def at(self, step: int) -> GridFrame:
        cells = {key: Cell(value, self.parts[key[1]][1]) for key, value in self._parts(self.day.book(step)).items()}
        moved = int(self.day.events.get("action")[step]) in CHANGES_BOOK
        bar = 0 if self.day.events.get("at_side")[step] > 0 else 1
        return GridFrame(len(self.parts), cells, frozenset((bar, part) for part in range(len(self.parts)) if moved))

    def fit(self, book: EventBook) -> None:
        """The scale fits the largest depth seen at the end of a block."""
        parts = self._parts(book)
        self.maximum = max(self.maximum, *(sum(parts[bar, part] for part in range(len(self.parts))) for bar in (0, 1)))

    def _parts(self, book: EventBook) -> dict[tuple[int, int], int]:
        found = {}
        for bar, side in enumerate((1, -1)):
            sizes = [book.levels[side][price] for price in book.prices(side, SHOWN_LEVELS)]
            for part, (first, end) in enumerate(((0, 1), (1, 5), (5, SHOWN_LEVELS))):
                found[bar, part] = sum(sizes[first:end])
        return found
