"""Which row an order has, by its id: a hash table of one number a place, the row beside 32 bits of the id's hash.

A row begins with its id, so a place need not hold it. Ids that follow each other lie in one cache line; any others are
spread by their hash. An unused place is 0.
"""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.kernels.compiled import compiled
from core.markets.kernels.rows import zeros

_GOLDEN = -7046029254386353131  # 2^64 divided by the golden ratio, odd, as a signed integer
_ROW = 0x7FFFFFFE  # rows begin at even numbers: the lowest bit says that a place is used


@compiled
def _tag(order_id):  # type: ignore[no-untyped-def]
    """32 bits, the lowest three those of the id: eight ids in a row share a cache line."""
    return (((order_id >> 3) * _GOLDEN) >> 32 & -8) | (order_id & 7)


@compiled
def place_of(ids, rows, order_id):  # type: ignore[no-untyped-def]
    """The place of ``order_id``, or the unused place where it would go."""
    mask = (len(ids) - 1) & 0x7FFFFFFF
    tag = _tag(order_id)
    at = tag & mask
    while ids[at] != 0 and (ids[at] >> 32 != tag or rows[ids[at] & _ROW] != order_id):
        at = (at + 1) & mask
    return at


@compiled
def row_at(ids, at):  # type: ignore[no-untyped-def]
    """The row that a place holds, 0 when it is unused."""
    return ids[at] & _ROW


@compiled
def remember(ids, at, order_id, row):  # type: ignore[no-untyped-def]
    ids[at] = _tag(order_id) << 32 | row | 1


@compiled
def forget(ids, at):  # type: ignore[no-untyped-def]
    """Free a place; later ids of its run move up, so that no marker of a deletion is ever left."""
    mask = (len(ids) - 1) & 0x7FFFFFFF
    after = at
    while True:
        after = (after + 1) & mask
        entry = ids[after]
        if entry == 0:
            break
        if ((after - (entry >> 32)) & mask) >= ((after - at) & mask):
            ids[at] = entry
            at = after
    ids[at] = 0


@compiled
def _refill(old, new):  # type: ignore[no-untyped-def]
    mask = (len(new) - 1) & 0x7FFFFFFF
    for place in range(len(old)):
        if old[place] != 0:
            at = (old[place] >> 32) & mask
            while new[at] != 0:
                at = (at + 1) & mask
            new[at] = old[place]


def roomy_ids(ids: np.ndarray, orders: int) -> np.ndarray:
    """``ids`` itself where it has room for ``orders`` at half load, else a larger table with the same content."""
    if len(ids) >= 2 * orders:
        return ids
    places = 64
    while places < 4 * orders:
        places *= 2
    larger = zeros(places)
    _refill(ids, larger)
    return larger
