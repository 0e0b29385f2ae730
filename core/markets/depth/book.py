"""A book kept from market-by-price messages: the quantity of each price, and what a message did to it.

Two feeds of one book may be mixed: best prices (fast) and level changes (complete). A quote then removes what it shows to be
gone, and a level change older than the last quote does not bring it back.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.markets.readers.forms import DELTA, PRINT, QUOTE, SNAPSHOT

if TYPE_CHECKING:
    import numpy as np

_MANY = 256
Change = tuple[int, float, float]
"""(side, price, its quantity from now on)."""


class DepthBook:
    """``levels[side]`` is {price: quantity}."""

    def __init__(self) -> None:
        self.levels: dict[int, dict[float, float]] = {1: {}, -1: {}}
        self._ranks: dict[int, list[float]] = {1: [], -1: []}
        self._quote_update = 0

    def __len__(self) -> int:
        """Levels of both sides."""
        return len(self.levels[1]) + len(self.levels[-1])

    def best(self, side: int) -> float | None:
        ranks = self._ranks[side]
        return ranks[-1] * side if ranks else None

    def prices(self, side: int, count: int | None = None) -> list[float]:
        """The best ``count`` prices of a side (all of them), best first."""
        return [rank * side for rank in (self._ranks[side][::-1] if count is None else self._ranks[side][: -count - 1 : -1])]

    def apply(self, kind: int, update: int, sides: Sequence[int], prices: Sequence[float], sizes: Sequence[float]) -> list[Change]:
        """Take one message and say what it changed; a PRINT may bring the whole book with it."""
        changes: list[Change] = []
        if kind == PRINT and not len(sides):
            return changes
        if kind == QUOTE:
            self._quote(sides, prices, sizes, changes)
            self._quote_update = max(self._quote_update, update)
        elif kind in (SNAPSHOT, PRINT):
            self._replace(sides, prices, sizes, changes)
        else:
            stale = kind == DELTA and 0 < update < self._quote_update
            for side, price, size in zip(sides, prices, sizes, strict=True):
                if not (stale and self._beyond_quote(side, price)):
                    self.put(side, price, size, changes)
        return changes

    def _beyond_quote(self, side: int, price: float) -> bool:
        """At or better than the best price of its side: the newer quote knows that better."""
        best = self.best(side)
        return best is not None and side * (price - best) >= 0

    def _quote(self, sides: Sequence[int], prices: Sequence[float], sizes: Sequence[float], changes: list[Change]) -> None:
        for side, price, size in zip(sides, prices, sizes, strict=True):
            for mine, limit in ((side, price), (-side, price)):
                ranks = self._ranks[mine]
                # better levels of its own side are gone, and so are those of the other side that it would cross
                while ranks and (ranks[-1] > mine * limit if mine == side else ranks[-1] >= mine * limit):
                    self.put(mine, ranks[-1] * mine, 0.0, changes)
            self.put(side, price, size, changes)

    def _replace(self, sides: Sequence[int], prices: Sequence[float], sizes: Sequence[float], changes: list[Change]) -> None:
        """These levels and no others."""
        new: dict[int, dict[float, float]] = {1: {}, -1: {}}
        for side, price, size in zip(sides, prices, sizes, strict=True):
            new[side][price] = size
        for side, mine in new.items():
            mine = {price: size for price, size in mine.items() if size > 0}
            old = self.levels[side]
            if mine == old:
                continue
            changes += [(side, price, 0.0) for price in old if price not in mine]
            changes += [(side, price, size) for price, size in mine.items() if old.get(price) != size]
            self.levels[side] = mine
            self._ranks[side] = sorted(side * price for price in mine)

    def put_all(self, sides: np.ndarray, prices: np.ndarray, sizes: np.ndarray) -> None:
        """Many changes at once, in order; later ones of a price count."""
        if len(sides) < _MANY:
            for change in zip(sides.tolist(), prices.tolist(), sizes.tolist(), strict=True):
                self.put(*change)
            return
        for side, levels in list(self.levels.items()):
            mine = sides == side
            levels.update(zip(prices[mine].tolist(), sizes[mine].tolist(), strict=True))
            self.levels[side] = {price: size for price, size in levels.items() if size > 0}
            self._ranks[side] = sorted(side * price for price in self.levels[side])

    def put(self, side: int, price: float, size: float, changes: list[Change] | None = None) -> None:
        """The quantity of one price, 0 to remove it; a change is added to ``changes``."""
        levels = self.levels[side]
        old = levels.get(price, 0.0)
        if size == old or (size <= 0 and not old):
            return
        if size > 0:
            if not old:
                insort(self._ranks[side], side * price)
            levels[price] = size
        else:
            del levels[price]
            ranks = self._ranks[side]
            del ranks[bisect_left(ranks, side * price)]
        if changes is not None:
            changes.append((side, price, max(size, 0.0)))
