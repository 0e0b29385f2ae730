"""A book rebuilt from market-by-order events, compiled: every order in its queue, nothing matched.

An event adds an order, takes lots off it, or gives it a new price and size. A level's row stays once it was used (as many
as distinct prices seen); which ones are occupied the bitmap of `core.markets.price_index` knows, so that the best price is at
hand after each event.
"""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.compiled import compiled
from core.markets.price_index import DEPTH, drop_at, find, grown, lookup, next_rank, occupy, price_of, rank_of, table, vacate

ADD, CANCEL, MODIFY, CLEAR = range(4)
"""Event codes; any other leaves the book alone."""
E_LEVEL, E_SIZE, E_PREV, E_NEXT = range(4)
V_PRICE, V_SIZE, V_HEAD, V_TAIL, V_BOOK, V_COUNT = range(6)
(T_BEST, T_BEST_ASK, T_LEVELS, T_FREE, T_ORDERS, T_UNKNOWN, T_DUPLICATE, T_WORDS) = range(8)


@compiled
def _append(scalars, orders, levels, prices, words, slot, book, price, size):  # type: ignore[no-untyped-def]
    key = price << 2 | book
    at = find(prices, key)
    if prices[at, 0] == key:
        level = prices[at, 1]
    else:
        level = scalars[T_LEVELS]
        scalars[T_LEVELS] += 1
        prices[at, 0] = key
        prices[at, 1] = level
        levels[level, V_PRICE], levels[level, V_BOOK] = price, book
        levels[level, V_SIZE] = levels[level, V_COUNT] = 0
        levels[level, V_HEAD] = levels[level, V_TAIL] = -1
    tail = levels[level, V_TAIL]
    orders[slot, E_LEVEL], orders[slot, E_SIZE], orders[slot, E_PREV], orders[slot, E_NEXT] = level, size, tail, -1
    levels[level, V_TAIL] = slot
    levels[level, V_SIZE] += size
    levels[level, V_COUNT] += 1
    if tail >= 0:
        orders[tail, E_NEXT] = slot
        return
    levels[level, V_HEAD] = slot
    rank = rank_of(book, price)
    scalars[T_WORDS] += occupy(words, book, rank)
    best = scalars[T_BEST + book]
    if best < 0 or rank < rank_of(book, levels[best, V_PRICE]):
        scalars[T_BEST + book] = level


@compiled
def _remove(scalars, orders, levels, prices, words, slot):  # type: ignore[no-untyped-def]
    level, before, after = orders[slot, E_LEVEL], orders[slot, E_PREV], orders[slot, E_NEXT]
    levels[level, V_SIZE] -= orders[slot, E_SIZE]
    levels[level, V_COUNT] -= 1
    orders[slot, E_LEVEL] = -1
    if after >= 0:
        orders[after, E_PREV] = before
    else:
        levels[level, V_TAIL] = before
    if before >= 0:
        orders[before, E_NEXT] = after
        return
    levels[level, V_HEAD] = after
    if after >= 0:
        return
    book = levels[level, V_BOOK]
    rank = rank_of(book, levels[level, V_PRICE])
    if scalars[T_BEST + book] == level:
        following = next_rank(words, book, rank)
        scalars[T_BEST + book] = -1 if following < 0 else lookup(prices, price_of(book, following) << 2 | book, -1)
    scalars[T_WORDS] -= vacate(words, book, rank)


@compiled
def _empty(scalars, orders, levels, prices, words, ids, dense):  # type: ignore[no-untyped-def]
    for level in range(scalars[T_LEVELS]):
        while levels[level, V_HEAD] >= 0:
            slot = levels[level, V_HEAD]
            _remove(scalars, orders, levels, prices, words, slot)
            scalars[T_ORDERS] -= 1
            if not dense:
                orders[slot, E_NEXT] = scalars[T_FREE]
                scalars[T_FREE] = slot
    if not dense:
        for place in range(len(ids)):
            ids[place, 0] = -(1 << 63)


@compiled
def rebuild(scalars, orders, levels, prices, words, ids, dense, action, side, order, price, size, first, end, best):  # type: ignore[no-untyped-def]
    """Apply events [first, end), columns (events,); ``best`` (events, 2), or (0, 2), gets the best levels after each.

    dense: ``order`` numbers rows of ``orders``; otherwise it holds any 64-bit ids, found through the hash table ``ids``.
    """
    for n in range(first, end):
        what = action[n]
        if what <= MODIFY:
            key = order[n]
            at = 0
            if dense:
                slot = key
                known = orders[slot, E_LEVEL] >= 0
            else:
                at = find(ids, key)
                known = ids[at, 0] == key
                slot = ids[at, 1] if known else -1
            book = 0 if side[n] > 0 else 1
            if what == ADD:
                if known:
                    scalars[T_DUPLICATE] += 1
                else:
                    if not dense:
                        slot = scalars[T_FREE]
                        scalars[T_FREE] = orders[slot, E_NEXT]
                        ids[at, 0], ids[at, 1] = key, slot
                    _append(scalars, orders, levels, prices, words, slot, book, price[n], size[n])
                    scalars[T_ORDERS] += 1
            elif not known:
                scalars[T_UNKNOWN] += 1
            elif what == CANCEL:
                if size[n] < orders[slot, E_SIZE]:
                    orders[slot, E_SIZE] -= size[n]
                    levels[orders[slot, E_LEVEL], V_SIZE] -= size[n]
                else:
                    _remove(scalars, orders, levels, prices, words, slot)
                    scalars[T_ORDERS] -= 1
                    if not dense:
                        drop_at(ids, at)
                        orders[slot, E_NEXT] = scalars[T_FREE]
                        scalars[T_FREE] = slot
            else:
                level, old = orders[slot, E_LEVEL], orders[slot, E_SIZE]
                if levels[level, V_PRICE] == price[n] and size[n] <= old:
                    orders[slot, E_SIZE] = size[n]
                    levels[level, V_SIZE] += size[n] - old
                else:
                    book = levels[level, V_BOOK]
                    _remove(scalars, orders, levels, prices, words, slot)
                    _append(scalars, orders, levels, prices, words, slot, book, price[n], size[n])
        elif what == CLEAR:
            _empty(scalars, orders, levels, prices, words, ids, dense)
        if len(best):
            best[n, 0], best[n, 1] = scalars[T_BEST], scalars[T_BEST + 1]


class EventEngine:
    """The rebuilt book. ``dense``: order ids are 0, 1, … below that number; None: any 64-bit ids."""

    def __init__(self, dense: int | None = None) -> None:
        self.dense = dense is not None
        self.scalars = np.zeros(16, dtype=np.int64)
        self.scalars[[T_BEST, T_BEST_ASK, T_FREE]] = -1
        self.orders = np.full((dense or 0, 4), -1, dtype=np.int64)
        self.levels = np.zeros((0, 8), dtype=np.int64)
        self.prices, self.words, self.ids = table(1), table(1), table(1)

    def apply(
        self, action: np.ndarray, side: np.ndarray, order: np.ndarray, price: np.ndarray, size: np.ndarray, best: np.ndarray | None = None
    ) -> None:
        """Columns (events,): action uint8, side int8 (+1 buy, -1 sell), the others int64."""
        nobody = np.zeros((0, 2), dtype=np.int64) if best is None else best
        block = 1 << 14
        for first in range(0, len(action), block):
            end = min(first + block, len(action))
            self._make_room(end - first)
            rebuild(
                self.scalars, self.orders, self.levels, self.prices, self.words, self.ids, self.dense,
                action, side, order, price, size, first, end, nobody,
            )  # fmt: skip

    def queue(self, side: int, price: int) -> list[tuple[int, int]]:
        """(row of the order, its size) at one price, front first."""
        level = int(lookup(self.prices, price << 2 | (0 if side > 0 else 1), -1))
        slot = int(self.levels[level, V_HEAD]) if level >= 0 else -1
        found = []
        while slot >= 0:
            found.append((slot, int(self.orders[slot, E_SIZE])))
            slot = int(self.orders[slot, E_NEXT])
        return found

    def depth(self, side: int) -> list[tuple[int, int]]:
        """(price, size) of every level, best first."""
        book = 0 if side > 0 else 1
        level, found = int(self.scalars[T_BEST + book]), []
        while level >= 0:
            price = int(self.levels[level, V_PRICE])
            found.append((price, int(self.levels[level, V_SIZE])))
            after = int(next_rank(self.words, book, rank_of(book, price)))
            level = -1 if after < 0 else int(lookup(self.prices, int(price_of(book, after)) << 2 | book, -1))
        return found

    def _make_room(self, events: int) -> None:
        levels = int(self.scalars[T_LEVELS]) + events
        if len(self.levels) < levels:
            self.levels = np.concatenate([self.levels, np.zeros((max(levels, 2 * len(self.levels)) - len(self.levels), 8), dtype=np.int64)])
        self.prices = grown(self.prices, levels)
        self.words = grown(self.words, int(self.scalars[T_WORDS]) + DEPTH * events)
        if self.dense:
            return
        resting, old = int(self.scalars[T_ORDERS]) + events, len(self.orders)
        if old < resting:
            new = np.full((max(resting, 2 * old) - old, 4), -1, dtype=np.int64)
            new[:, E_NEXT] = np.arange(old + 1, old + len(new) + 1)
            new[-1, E_NEXT] = self.scalars[T_FREE]
            self.scalars[T_FREE] = old
            self.orders = np.concatenate([self.orders, new])
        self.ids = grown(self.ids, resting)
