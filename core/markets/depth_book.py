"""A book kept from market-by-price messages: the quantity of each price, and what a message did to it.

Two feeds of one book may be mixed: best prices (fast) and level changes (complete). A quote then removes what it shows to be
gone, and a level change older than the last quote does not bring it back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from core.markets.readers.forms import DELTA, PRINT, QUOTE, SNAPSHOT


class DepthBook:
    """``levels[side]`` is {price: quantity}."""

    def __init__(self) -> None:
        self.levels: dict[int, dict[float, float]] = {1: {}, -1: {}}
        self._ranks: dict[int, list[float]] = {1: [], -1: []}
        self._quote_update = 0

    def best(self, side: int) -> float | None:
        ranks = self._ranks[side]
        return ranks[-1] * side if ranks else None

    def prices(self, side: int, count: int) -> list[float]:
        """The best ``count`` prices of a side, best first."""
        return [rank * side for rank in self._ranks[side][: -count - 1 : -1]]

    def apply(self, kind: int, update: int, sides: Sequence[int], prices: Sequence[float], sizes: Sequence[float]) -> None:
        """Take one message; a PRINT may bring the whole book with it."""
        if kind == PRINT and not len(sides):
            return
        if kind == QUOTE:
            self._quote(sides, prices, sizes)
            self._quote_update = max(self._quote_update, update)
            return
        if kind in (SNAPSHOT, PRINT):
            for side in (1, -1):
                self.levels[side].clear()
                self._ranks[side].clear()
        stale = kind == DELTA and 0 < update < self._quote_update
        for side, price, size in zip(sides, prices, sizes, strict=True):
            if stale and self._beyond_quote(side, price):
                continue
            self._set(side, price, size)

    def _beyond_quote(self, side: int, price: float) -> bool:
        """At or better than the best price of its side: the newer quote knows that better."""
        best = self.best(side)
        return best is not None and side * (price - best) >= 0

    def _quote(self, sides: Sequence[int], prices: Sequence[float], sizes: Sequence[float]) -> None:
        for side, price, size in zip(sides, prices, sizes, strict=True):
            for mine, limit in ((side, price), (-side, price)):
                ranks = self._ranks[mine]
                # better levels of its own side are gone, and so are those of the other side that it would cross
                while ranks and (ranks[-1] > mine * limit if mine == side else ranks[-1] >= mine * limit):
                    del self.levels[mine][ranks.pop() * mine]
            self._set(side, price, size)

    def _set(self, side: int, price: float, size: float) -> None:
        levels = self.levels[side]
        if size > 0:
            if price not in levels:
                insort(self._ranks[side], side * price)
            levels[price] = size
        elif price in levels:
            del levels[price]
            ranks = self._ranks[side]
            del ranks[bisect_left(ranks, side * price)]

    def keep(self) -> tuple[dict[float, float], dict[float, float], int]:
        """A copy of both sides, to come back to."""
        return dict(self.levels[1]), dict(self.levels[-1]), self._quote_update

    @classmethod
    def restore(cls, frame: tuple[dict[float, float], dict[float, float], int]) -> DepthBook:
        book = cls()
        book.levels = {1: dict(frame[0]), -1: dict(frame[1])}
        book._ranks = {side: sorted(side * price for price in book.levels[side]) for side in (1, -1)}
        book._quote_update = frame[2]
        return book
