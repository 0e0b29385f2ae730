"""Where the levels of a book are, without an array as long as the price range: hashed keys and an occupancy bitmap.

The bitmap is a tree of 64-bit words, seven deep: a bit of the lowest word is one price, a bit of the word above says that
the word below is not empty. The two lowest levels cover 4,096 prices, so in a fall through thousands of levels the next
best price is one or two words away. Words are hashed and dropped when they are empty: n occupied prices need at most
7 n words, wherever they lie. Prices run from -2^40 to 2^40 ticks.
"""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.compiled import compiled

DEPTH = 7
EMPTY = -(1 << 63)
"""The key of an unused place in a hash table; no order, price or word has it."""

_OFFSET = 1 << 41
_TOP = (1 << 42) - 1
_GOLDEN = -7046029254386353131  # 2^64 divided by the golden ratio, odd, as a signed integer
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)


def _places() -> np.ndarray:
    """(64,) the bit whose isolated value hashes to each place, by a de Bruijn sequence."""
    found = np.zeros(64, dtype=np.int64)
    for bit in range(64):
        found[((1 << bit) * int(_DE_BRUIJN) & (1 << 64) - 1) >> 58] = bit
    return found


_BIT_AT = _places()


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


@compiled
def rank_of(book, price):  # type: ignore[no-untyped-def]
    """Places prices so that the best of every book has the lowest rank (books 0 and 3: the highest price is best)."""
    rank = price + _OFFSET
    return _TOP - rank if book == 0 or book == 3 else rank


@compiled
def price_of(book, rank):  # type: ignore[no-untyped-def]
    return (_TOP - rank if book == 0 or book == 3 else rank) - _OFFSET


@compiled
def occupy(words, book, rank):  # type: ignore[no-untyped-def]
    """Mark ``rank`` of ``book``; returns how many words are new."""
    new = 0
    for depth in range(DEPTH):
        key = (rank >> 6) << 5 | depth << 2 | book
        at = find(words, key)
        bit = np.int64(1) << (rank & 63)
        if words[at, 0] == key:
            words[at, 1] |= bit
            break
        words[at, 0] = key
        words[at, 1] = bit
        new += 1
        rank >>= 6
    return new


@compiled
def vacate(words, book, rank):  # type: ignore[no-untyped-def]
    """Unmark ``rank`` of ``book``; returns how many words are gone."""
    gone = 0
    for depth in range(DEPTH):
        key = (rank >> 6) << 5 | depth << 2 | book
        at = find(words, key)
        left = words[at, 1] & ~(np.int64(1) << (rank & 63))
        if left != 0:
            words[at, 1] = left
            break
        drop_at(words, at)
        gone += 1
        rank >>= 6
    return gone


@compiled
def lowest_bit(word):  # type: ignore[no-untyped-def]
    return _BIT_AT[(np.uint64(word & -word) * _DE_BRUIJN) >> np.uint64(58)]


@compiled
def next_rank(words, book, rank):  # type: ignore[no-untyped-def]
    """The lowest occupied rank above ``rank`` (which need not be occupied), -1 when there is none."""
    for depth in range(DEPTH):
        bit = rank & 63
        rank >>= 6
        word = lookup(words, rank << 5 | depth << 2 | book, 0)
        word = word & (np.int64(-2) << bit)
        if word != 0:
            rank = rank << 6 | lowest_bit(word)
            for below in range(depth - 1, -1, -1):
                rank = rank << 6 | lowest_bit(lookup(words, rank << 5 | below << 2 | book, 0))
            return rank
    return np.int64(-1)
