"""What a replayed market-by-price file shows at any message: the ladder of quantities and the depth of both sides."""

from __future__ import annotations

from bisect import bisect_right

from core.markets.depth_book import DepthBook
from core.markets.growing import Growing
from core.markets.readers import forms
from core.views import Axis, Breakdown, Cell, GridFrame, Ladder, LadderFrame, Level, Mark

SHOWN_LEVELS = 20
BETWEEN_KEYFRAMES = 1024
_MARKED = 6


class DepthDay:
    """All messages and levels read so far, keyframes, and the book at the message last asked for."""

    def __init__(self) -> None:
        self.messages, self.levels = Growing(), Growing()
        self._steps: list[int] = [-1]
        self._keyframes = [DepthBook().keep()]
        self._shown: tuple[int, DepthBook] = (-1, DepthBook())

    def keep(self, step: int, book: DepthBook) -> None:
        """A keyframe after message ``step``, where the last one is far enough back."""
        if step - self._steps[-1] >= max(BETWEEN_KEYFRAMES, (len(book.levels[1]) + len(book.levels[-1])) // 2):
            self._keyframes.append(book.keep())
            self._steps.append(step)

    def book(self, step: int) -> DepthBook:
        """The book after message ``step``, for the one thread that draws; good until the next call."""
        at, book = self._shown
        if self._steps[bisect_right(self._steps, step) - 1] <= at <= step:
            self.forward(book, at, step)
        else:
            book = self.rebuilt(step)
        self._shown = (step, book)
        return book

    def rebuilt(self, step: int) -> DepthBook:
        """The book after message ``step``, from the keyframe before it; the caller's own."""
        key = bisect_right(self._steps, step) - 1
        book = DepthBook.restore(self._keyframes[key])
        self.forward(book, self._steps[key], step)
        return book

    def forward(self, book: DepthBook, at: int, step: int) -> None:
        """Apply messages at + 1, …, step."""
        if step <= at:
            return
        get = self.messages.get
        kinds, updates, first, end = (get(name)[at + 1 : step + 1].tolist() for name in ("kind", "update", "first", "end"))
        base = first[0]
        sides, prices, sizes = (self.levels.get(name)[base : end[-1]].tolist() for name in ("side", "price", "size"))
        for kind, update, a, b in zip(kinds, updates, first, end, strict=True):
            lo, hi = a - base, b - base
            book.apply(kind, update, sides[lo:hi], prices[lo:hi], sizes[lo:hi])


class DepthLadder(Ladder):
    """The best levels after each message. Nothing is known of the orders behind a quantity."""

    def __init__(self, day: DepthDay, tick: float) -> None:
        super().__init__(tick=tick, price_unit="$")
        self.day = day

    def at(self, step: int) -> LadderFrame:
        book = self.day.book(step)
        bids, asks = (tuple(Level(p, book.levels[side][p]) for p in book.prices(side, SHOWN_LEVELS)) for side in (1, -1))
        return LadderFrame(bids, asks, self._message_marks(step))

    def _message_marks(self, step: int) -> tuple[Mark, ...]:
        get = self.day.messages.get
        kind = int(get("kind")[step])
        if kind == forms.PRINT:
            side, size = int(get("side")[step]), float(get("size")[step])
            return (Mark(float(get("price")[step]), "trade", f"{size:g} {'bought' if side > 0 else 'sold' if side < 0 else 'traded'}"),)
        if kind == forms.SNAPSHOT:
            return ()
        first, end = int(get("first")[step]), int(get("end")[step])
        side, price, size = (self.day.levels.get(name)[first:end].tolist() for name in ("side", "price", "size"))
        near = sorted(zip(side, price, size, strict=True), key=lambda row: -row[0] * row[1])
        bids, asks = [r for r in near if r[0] > 0][:_MARKED], [r for r in near if r[0] < 0][:_MARKED]
        return tuple(Mark(p, "bid" if s > 0 else "ask", f"now {q:g}" if q else "gone") for s, p, q in (*bids, *asks))


class DepthOfBook(Breakdown):
    """Quantity of each side, split by how near it stands to the best price."""

    def __init__(self, day: DepthDay) -> None:
        parts = [("best price", "group0"), ("next four", "group1"), ("to level 20", "group2")]
        super().__init__(Axis.of("bids", "asks"), parts, unit="")
        self.day = day

    def at(self, step: int) -> GridFrame:
        cells = {key: Cell(value, self.parts[key[1]][1]) for key, value in self._parts(self.day.book(step)).items()}
        return GridFrame(len(self.parts), cells, frozenset())

    def fit(self, book: DepthBook) -> None:
        """The scale fits the largest depth seen at the end of a block."""
        parts = self._parts(book)
        self.maximum = max(self.maximum, *(sum(parts[bar, part] for part in range(3)) for bar in (0, 1)))

    def _parts(self, book: DepthBook) -> dict[tuple[int, int], float]:
        found = {}
        for bar, side in enumerate((1, -1)):
            sizes = [book.levels[side][price] for price in book.prices(side, SHOWN_LEVELS)]
            for part, (first, end) in enumerate(((0, 1), (1, 5), (5, SHOWN_LEVELS))):
                found[bar, part] = float(sum(sizes[first:end]))
        return found
