"""What a market-by-price recording keeps: best prices of each message, what it changed, the trades, and the book now and then.

Nothing is held twice: totals and the values of the steps are worked out for the messages asked for. A message keeps the levels
that it changed, not those that it sent, so that a feed of whole books takes no more than one of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from core.columns import Column, ComputedColumn
from core.markets.depth.book import Change, DepthBook
from core.markets.depth.decimals import Decimals
from core.markets.growing import Growing
from core.markets.keyframes import Frames
from core.markets.readers import forms
from core.markets.readers.forms import MESSAGE_NAMES, DepthEvents
from core.markets.running import Rows, fact_of

BETWEEN_FRAMES = 8_192
"""Changes of levels that are applied again at most to reach any message, unless the book has more levels than that."""
SIDE_NAMES = ("sell", "", "buy")
QUOTES = ("bid", "bid_size", "ask", "ask_size")


class DepthFrame(msgspec.Struct, frozen=True):
    """A book as arrays, each side best first."""

    prices: tuple[np.ndarray, np.ndarray]
    sizes: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, book: DepthBook) -> DepthFrame:
        prices = [book.prices(side) for side in (1, -1)]
        sizes = [[book.levels[side][price] for price in mine] for side, mine in zip((1, -1), prices, strict=True)]
        return cls((np.array(prices[0]), np.array(prices[1])), (np.array(sizes[0]), np.array(sizes[1])))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.prices, *self.sizes))

    def restore(self, old: Any = None) -> DepthBook:
        book = DepthBook()
        for side, prices, sizes in zip((1, -1), self.prices, self.sizes, strict=True):
            book.levels[side] = dict(zip(prices.tolist(), sizes.tolist(), strict=True))
            book._ranks[side] = (side * prices[::-1]).tolist()
        return book


class DepthDay:
    """All messages read so far, columns (messages,); the changes of levels (changes,); the trades (trades,) with running totals."""

    def __init__(self) -> None:
        self.messages = Growing(small=("upto", "levels"))
        self.sides, self.prices, self.sizes = Growing(), Decimals(), Decimals()
        self.trades = Growing()
        self.frames: Frames[DepthBook] = Frames(DepthBook, self._forward)
        self._since = 0
        self._totals = [0.0, 0.0, 0.0]
        self.sides.extend({"side": np.zeros(0, np.int8)})
        columns = {"step": np.int64, "side": np.int8, "price": float, "size": float, **dict.fromkeys(_TOTALS, float)}
        self.trades.extend({name: np.zeros(0, kind) for name, kind in columns.items()})

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def nbytes(self) -> int:
        """Of all arrays, their room for more included, and of the keyframes."""
        return sum(part.nbytes for part in (self.messages, self.sides, self.prices, self.sizes, self.trades, self.frames))

    # writing -----------------------------------------------------------------------------------------------------------

    def extend(self, block: DepthEvents, counts: Sequence[int], changes: Sequence[Change], quotes: np.ndarray, book: DepthBook) -> None:
        """Append one block. counts: (messages,) how many of ``changes`` are each message's; quotes: (messages, 4) as `QUOTES`,
        NaN where a side is empty; book: as the block leaves it.
        """
        at = np.flatnonzero(block.kind == forms.PRINT)
        side, size = block.side[at], block.size[at]
        totals = {}
        for k, (name, mine) in enumerate(zip(_TOTALS, (size, np.where(side > 0, size, 0.0), np.where(side < 0, size, 0.0)), strict=True)):
            totals[name] = np.cumsum(mine) + self._totals[k]
            self._totals[k] = float(totals[name][-1]) if len(at) else self._totals[k]
        base, end = len(self.sides), len(self) + len(block)
        if len(at):
            self.trades.extend({"step": len(self) + at, "price": block.price[at], "size": size, **totals, "side": side.astype(np.int8)})
        if changes:
            sides, prices, sizes = zip(*changes, strict=True)
            self.prices.extend(np.array(prices, dtype=float))
            self.sizes.extend(np.array(sizes, dtype=float))
            self.sides.extend({"side": np.array(sides, dtype=np.int8)})
        self.messages.extend(
            {
                "kind": block.kind.astype(np.int8), "upto": base + np.cumsum(counts), "levels": np.diff(block.first),
                **dict(zip(QUOTES, quotes.T, strict=True)),
            }
        )  # fmt: skip
        if len(self.sides) - self._since >= max(BETWEEN_FRAMES, len(book)):
            self.frames.keep(end, DepthFrame.of(book))
            self._since = len(self.sides)

    def _forward(self, book: DepthBook, first: int, end: int) -> None:
        if first < end:
            book.put_all(*self.changed(first, end))

    # reading -----------------------------------------------------------------------------------------------------------

    def changed(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(side, price, quantity from then on) of the changes that messages first, …, end - 1 made."""
        upto = self.messages.get("upto")
        low, high = int(upto[first - 1]) if first else 0, int(upto[end - 1])
        return self.sides.get("side")[low:high], self.prices.values(low, high), self.sizes.values(low, high)

    def rows(self, name: str, first: int, end: int) -> np.ndarray:
        kept: np.ndarray = self.messages.get(name)[first:end]
        return kept

    def before(self, name: str, first: int, end: int) -> np.ndarray:
        """A column one message earlier, NaN before the first."""
        found = self.rows(name, max(first - 1, 0), end - 1)
        return np.concatenate([[np.nan], found]) if first == 0 else found

    def change_counts(self, first: int, end: int) -> np.ndarray:
        """How many levels each message changed."""
        upto = self.messages.get("upto")[max(first - 1, 0) : end].astype(np.int64)
        return np.diff(upto, prepend=0) if first == 0 else np.diff(upto)

    def first_change(self, name: str, first: int, end: int) -> np.ndarray:
        """side, price or size (quantity from then on) of the first level that each message changed, 0 where it changed none."""
        counts = self.change_counts(first, end)
        sides, prices, sizes = self.changed(first, end) if end > first else (np.zeros(0, np.int8), np.zeros(0), np.zeros(0))
        column = {"side": sides, "price": prices, "size": sizes}[name]
        at = np.cumsum(counts) - counts
        out = np.zeros(end - first)
        out[counts > 0] = column[at[counts > 0]]
        return out

    def trade_of(self, name: str, first: int, end: int) -> np.ndarray:
        """A trade's column at its message, 0 at messages that are none."""
        out = np.zeros(end - first, dtype=self.trades.get(name).dtype)
        steps = self.trades.get("step")
        low, high = np.searchsorted(steps, (first, end))
        out[steps[low:high] - first] = self.trades.get(name)[low:high]
        return out

    def trade_count(self, first: int, end: int) -> np.ndarray:
        """Trades up to each message."""
        return np.searchsorted(self.trades.get("step"), np.arange(first, end), side="right")

    def total(self, name: str, first: int, end: int) -> np.ndarray:
        """A running total of the trades after each message."""
        count = self.trade_count(first, end)
        totals = self.trades.get(name)
        return np.where(count > 0, totals[np.maximum(count - 1, 0)], 0.0) if len(totals) else np.zeros(end - first)

    def fact(self, compute: Rows) -> np.ndarray:
        """A fact's column of what ``compute(first, end)`` gives."""
        return fact_of(self.messages, compute)

    def columns(self) -> list[Column]:
        """The values of the steps, each computed where it is read."""

        def kept(name: str) -> Rows:
            return lambda first, end: self.rows(name, first, end)

        def earlier(name: str) -> Rows:
            return lambda first, end: self.before(name, first, end)

        def traded(name: str) -> Rows:
            return lambda first, end: self.trade_of(name, first, end)

        return [
            ComputedColumn("event", "text", kept("kind"), MESSAGE_NAMES),
            ComputedColumn("side", "text", lambda first, end: self.trade_of("side", first, end).astype(np.int64) + 1, SIDE_NAMES),
            ComputedColumn("price", "float", traded("price")),
            ComputedColumn("quantity", "float", traded("size")),
            ComputedColumn("levels", "int", kept("levels")),
            ComputedColumn("changes", "int", self.change_counts),
            ComputedColumn("level", "float", lambda first, end: self.first_change("price", first, end)),
            ComputedColumn("level_size", "float", lambda first, end: self.first_change("size", first, end)),
            *(ComputedColumn(name, "float", kept(name)) for name in QUOTES),
            *(ComputedColumn(f"{name}_before", "float", earlier(name)) for name in QUOTES),
        ]


_TOTALS = ("volume", "bought", "sold")
