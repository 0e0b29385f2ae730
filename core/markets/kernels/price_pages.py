"""Where the levels of a book are, without an array as long as the price range: pages of 64 prices under an occupancy bitmap.

The bitmap is a tree of 64-bit words, seven deep: a bit of the lowest word is one price, a bit of the word above says that
the word below is not empty. The lowest word comes with a page, which holds the level of each of its prices, so in a fall
through thousands of levels the next best one stands in the same page or one or two words away. Words are hashed and
dropped with their pages when they are empty: n occupied prices need at most 7 n words and n pages, wherever they lie.
Prices run from -2^40 to 2^40 ticks.
"""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.kernels.compiled import compiled
from core.markets.kernels.machine import lowest_bit

DEPTH = 7
PLACE = 4
"""Numbers of one place of the word table: key, bits, page (of a lowest word), and one to keep four in two cache lines' step."""
PAGE = 64
"""Numbers of one page: the level at each of its prices. The first page of all is no page: see `P_FREE`."""
P_FREE, P_WORDS, P_PAGES = range(3)
"""In the first page: the first unused page (chained by their first number), words and pages in use."""
EMPTY = -(1 << 63)
"""Exchanges 0, which no key may be, with a number no key is: an unused place of a table holds 0 as key."""

_OFFSET = 1 << 41
_TOP = (1 << 42) - 1
_GOLDEN = -7046029254386353131  # 2^64 divided by the golden ratio, odd, as a signed integer


@compiled
def rank_of(book, price):  # type: ignore[no-untyped-def]
    """Places prices so that the best of every book has the lowest rank (books 0 and 3: the highest price is best)."""
    return (price + _OFFSET) ^ ((((book + 1) >> 1 & 1) - 1) & _TOP)


@compiled
def _word(words, key):  # type: ignore[no-untyped-def]
    """The place of ``key``, or the unused place where it would go."""
    mask = (len(words) - PLACE) & 0x7FFFFFFC
    stored = key ^ EMPTY
    at = ((key * _GOLDEN) >> 20) & mask
    while words[at] != stored and words[at] != 0:
        at = (at + PLACE) & mask
    return at


@compiled
def _drop(words, at):  # type: ignore[no-untyped-def]
    """Free a place; later keys of its run move up, so that no marker of a deletion is ever left."""
    mask = (len(words) - PLACE) & 0x7FFFFFFC
    after = at
    while True:
        after = (after + PLACE) & mask
        if words[after] == 0:
            break
        home = (((words[after] ^ EMPTY) * _GOLDEN) >> 20) & mask
        if ((after - home) & mask) >= ((after - at) & mask):
            words[at], words[at + 1], words[at + 2] = words[after], words[after + 1], words[after + 2]
            at = after
    words[at] = 0


@compiled
def level_at(words, pages, book, rank):  # type: ignore[no-untyped-def]
    """The level of ``book`` at ``rank``, 0 when there is none."""
    at = _word(words, (rank >> 6) << 5 | book)
    if words[at] == 0 or (words[at + 1] >> (rank & 63)) & 1 == 0:
        return np.int64(0)
    return np.int64(pages[(words[at + 2] & 0x7FFFFFFF) + (rank & 63)] & 0x7FFFFFFF)


@compiled
def occupy(words, pages, book, rank, level):  # type: ignore[no-untyped-def]
    """``level`` stands at ``rank`` of ``book``, where there was none."""
    for depth in range(DEPTH):
        key = (rank >> 6) << 5 | depth << 2 | book
        at = _word(words, key)
        bit = np.int64(1) << (rank & 63)
        new = words[at] == 0
        if new:
            words[at] = key ^ EMPTY
            words[at + 1] = 0
            pages[P_WORDS] += 1
            if depth == 0:
                page = pages[P_FREE]
                pages[P_FREE] = pages[page]
                pages[P_PAGES] += 1
                words[at + 2] = page
        words[at + 1] |= bit
        if depth == 0:
            pages[words[at + 2] + (rank & 63)] = level
        if not new:
            break
        rank >>= 6


@compiled
def vacate(words, pages, book, rank):  # type: ignore[no-untyped-def]
    """No level stands at ``rank`` of ``book`` any more."""
    for depth in range(DEPTH):
        at = _word(words, (rank >> 6) << 5 | depth << 2 | book)
        left = words[at + 1] & ~(np.int64(1) << (rank & 63))
        if left != 0:
            words[at + 1] = left
            break
        if depth == 0:
            page = words[at + 2]
            pages[page] = pages[P_FREE]
            pages[P_FREE] = page
            pages[P_PAGES] -= 1
        _drop(words, at)
        pages[P_WORDS] -= 1
        rank >>= 6


@compiled
def next_level(words, pages, book, rank):  # type: ignore[no-untyped-def]
    """The level at the lowest occupied rank above ``rank`` (which need not be occupied), 0 when there is none."""
    for depth in range(DEPTH):
        bit = rank & 63
        rank >>= 6
        at = _word(words, rank << 5 | depth << 2 | book)
        left = words[at + 1] & (np.int64(-2) << bit)
        if words[at] != 0 and left != 0:
            for below in range(depth - 1, -1, -1):
                rank = rank << 6 | lowest_bit(left)
                at = _word(words, rank << 5 | below << 2 | book)
                left = words[at + 1]
            return np.int64(pages[(words[at + 2] & 0x7FFFFFFF) + lowest_bit(left)] & 0x7FFFFFFF)
    return np.int64(0)


@compiled
def vacate_best(words, pages, book, rank):  # type: ignore[no-untyped-def]
    """`vacate` the lowest rank of ``book``; returns what `next_level` does."""
    at = _word(words, (rank >> 6) << 5 | book)
    left = words[at + 1] & (np.int64(-2) << (rank & 63))
    if left != 0:
        words[at + 1] = left
        return np.int64(pages[(words[at + 2] & 0x7FFFFFFF) + lowest_bit(left)] & 0x7FFFFFFF)
    vacate(words, pages, book, rank)
    return next_level(words, pages, book, rank)


@compiled
def has_room(words, pages, levels):  # type: ignore[no-untyped-def]
    """Whether ``levels`` more find room, wherever they lie."""
    return 2 * PLACE * (pages[P_WORDS] + DEPTH * levels) <= len(words) and PAGE * (pages[P_PAGES] + levels + 1) <= len(pages)


@compiled
def _refill(old, new):  # type: ignore[no-untyped-def]
    for place in range(0, len(old), PLACE):
        if old[place] != 0:
            at = _word(new, old[place] ^ EMPTY)
            new[at], new[at + 1], new[at + 2] = old[place], old[place + 1], old[place + 2]


def roomy_index(words: np.ndarray, pages: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """``words`` and ``pages`` with room for ``levels`` more, wherever they lie: the same arrays, or larger ones."""
    wanted = 2 * PLACE * (int(pages[P_WORDS]) + DEPTH * levels if len(pages) else DEPTH * levels)
    if len(words) < wanted:
        places = 256
        while places < 2 * wanted:
            places *= 2
        larger = np.zeros(places, dtype=np.int64)
        _refill(words, larger)
        words = larger
    used = int(pages[P_PAGES]) if len(pages) else 0
    wanted = PAGE * (used + levels + 1)
    if len(pages) < wanted:
        old = len(pages) or PAGE
        longer = np.zeros(max(wanted, 2 * len(pages)) // PAGE * PAGE, dtype=np.int32)
        longer[: len(pages)] = pages
        longer[old::PAGE] = np.arange(old + PAGE, len(longer) + PAGE, PAGE)
        longer[-PAGE] = longer[P_FREE]
        longer[P_FREE] = old
        pages = longer
    return words, pages
