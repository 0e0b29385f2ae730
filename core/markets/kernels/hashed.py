"""A hash table of whole numbers for the kernels: keys and values side by side, never more than half full."""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.kernels.compiled import compiled

EMPTY = -(1 << 63)
"""The key of an unused place; nothing that is looked for has it."""
_GOLDEN = -7046029254386353131  # 2^64 divided by the golden ratio, odd, as a signed integer


def table(entries: int) -> np.ndarray:
    """An empty hash table (places, 2) of keys and values with room for ``entries`` at half load."""
    places = 64
    while places < 2 * entries:
        places *= 2
    made = np.zeros((places, 2), dtype=np.int64)
    made[:, 0] = EMPTY
    return made


@compiled
def find(hashed, key):  # type: ignore[no-untyped-def]
    """The place of ``key``, or the unused place where it would go."""
    mask = len(hashed) - 1
    at = ((key * _GOLDEN) >> 24) & mask
    while hashed[at, 0] != key and hashed[at, 0] != EMPTY:
        at = (at + 1) & mask
    return at


@compiled
def lookup(hashed, key, missing):  # type: ignore[no-untyped-def]
    at = find(hashed, key)
    return hashed[at, 1] if hashed[at, 0] == key else missing


@compiled
def drop_at(hashed, at):  # type: ignore[no-untyped-def]
    """Free a place; later keys of its run move up, so that no marker of a deletion is ever left."""
    mask = len(hashed) - 1
    after = at
    while True:
        after = (after + 1) & mask
        key = hashed[after, 0]
        if key == EMPTY:
            break
        home = ((key * _GOLDEN) >> 24) & mask
        if ((after - home) & mask) >= ((after - at) & mask):
            hashed[at, 0] = key
            hashed[at, 1] = hashed[after, 1]
            at = after
    hashed[at, 0] = EMPTY


@compiled
def refill(old, new):  # type: ignore[no-untyped-def]
    for place in range(len(old)):
        if old[place, 0] != EMPTY:
            at = find(new, old[place, 0])
            new[at, 0] = old[place, 0]
            new[at, 1] = old[place, 1]


def grown(hashed: np.ndarray, entries: int) -> np.ndarray:
    """``hashed`` itself where it has room for ``entries``, else a larger table with the same content."""
    if len(hashed) >= 2 * entries:
        return hashed
    larger = table(2 * entries)
    refill(hashed, larger)
    return larger
