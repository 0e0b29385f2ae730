"""The part of a book that a ladder can show during some messages, cut out of the whole: small, however much rests.

Orders that no message names and that still rest at the end never lose their turn meanwhile. Where ``depth`` levels hold such
orders nothing behind those levels comes among the best ``depth`` before the end, and behind ``longest`` of them in a queue
nothing comes among its first ``longest``. What is behind is kept as one order a level, so that quantities stay whole; orders
that a message names are kept too. For orders that display all of themselves; other queues are left out.
"""

# ruff: noqa: ANN001, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.engine.snapshot import K_BOOK, K_ID, K_OWNER, K_PRICE, K_SHOWN, SNAPSHOT_WIDTH
from core.markets.engine.state import (
    L_BOOK,
    L_HEAD,
    L_PRICE,
    L_SHOWN,
    LEVEL_WIDTH,
    NONE,
    O_ID,
    O_LEVEL,
    O_NEXT,
    O_OWNER,
    O_SHOWN,
    ORDER_WIDTH,
    ROW,
    S_BEST,
    State,
)
from core.markets.kernels.compiled import compiled
from core.markets.kernels.order_ids import place_of, row_at
from core.markets.kernels.price_pages import next_level, rank_of


@compiled
def _is_in(numbers, number):  # type: ignore[no-untyped-def]
    """Whether sorted ``numbers`` hold ``number``."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low < len(numbers) and numbers[low] == number


@compiled
def _keep(s, slot, rows, n):  # type: ignore[no-untyped-def]
    level = s.orders[slot + O_LEVEL] & ROW
    rows[n, K_ID], rows[n, K_OWNER], rows[n, K_SHOWN] = s.orders[slot + O_ID], s.orders[slot + O_OWNER], s.orders[slot + O_SHOWN]
    rows[n, K_BOOK], rows[n, K_PRICE] = s.levels[level + L_BOOK], s.levels[level + L_PRICE]


@compiled
def _cut(s, later, named, depth, longest, kept, lump, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows`` from ``s``, the book before messages that name the orders ``named`` (sorted); ``later`` is the book after them.

    kept: (order rows,) zeros, lump: (level rows,) -1. Returns how many rows there are.
    """
    orders, levels, n = s.orders, s.levels, 0
    for book in range(2):
        level, found = s.scalars[S_BEST + book] & ROW, 0
        while level != 0 and found < depth:
            slot, stay, behind = levels[level + L_HEAD] & ROW, 0, levels[level + L_SHOWN]
            while slot != 0 and stay < longest:
                _keep(s, slot, rows, n)
                kept[slot // ORDER_WIDTH] = 1
                n += 1
                behind -= orders[slot + O_SHOWN]
                order_id = orders[slot + O_ID]
                if not _is_in(named, order_id) and row_at(later.ids, place_of(later.ids, later.orders, order_id)) != 0:
                    stay += 1
                slot = orders[slot + O_NEXT] & ROW
            if behind > 0:
                rows[n, K_ID], rows[n, K_OWNER], rows[n, K_SHOWN] = NONE - 1 - n, 0, behind
                rows[n, K_BOOK], rows[n, K_PRICE] = book, levels[level + L_PRICE]
                lump[level // LEVEL_WIDTH] = n
                n += 1
            found += stay > 0
            level = next_level(s.words, s.pages, book, rank_of(book, levels[level + L_PRICE]))
    for order_id in named:
        slot = row_at(s.ids, place_of(s.ids, orders, order_id))
        if slot != 0 and kept[slot // ORDER_WIDTH] == 0:
            _keep(s, slot, rows, n)
            n += 1
            row = lump[(orders[slot + O_LEVEL] & ROW) // LEVEL_WIDTH]
            if row >= 0:
                rows[row, K_SHOWN] -= orders[slot + O_SHOWN]
    return n


def window(before: State, later: State, named: np.ndarray, depth: int, longest: int, resting: int) -> np.ndarray:
    """(orders, SNAPSHOT_WIDTH) rows as of `core.markets.engine.snapshot`; ``resting``: orders and levels in ``before`` at most."""
    rows = np.zeros((resting, SNAPSHOT_WIDTH), dtype=np.int64)
    kept = np.zeros(len(before.orders) // ORDER_WIDTH + 1, dtype=np.int8)
    lump = np.full(len(before.levels) // LEVEL_WIDTH + 1, -1, dtype=np.int64)
    count = _cut(before, later, np.unique(named), depth, longest, kept, lump, rows)
    cut = rows[:count]
    made: np.ndarray = cut[cut[:, K_SHOWN] > 0]
    return made
