"""The queues of a market-by-order book, compiled: rows of orders and levels, found by id and by price.

Every order stands in the queue of its level. Rows of orders and levels are named by where they begin in an array of one
dimension, and row 0 is nobody (what is written there is never read). Where the levels are `core.markets.kernels.price_pages` knows, so
that the best price is at hand after each event. Prices are kept in units that all of them are multiples of. Nothing
allocates: `core.markets.events.book` has made room.
"""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.price_pages import has_room, level_at, next_level, occupy, rank_of, vacate, vacate_best

E_LEVEL, E_SIZE, E_PREV, E_NEXT = range(4)
ORDER_WIDTH = 4
V_PRICE, V_SIZE, V_HEAD, V_TAIL, V_BOOK, V_COUNT = range(6)
LEVEL_WIDTH = 8
ROW = 0x7FFFFFFF
"""Rows are below: says so to the compiler, which need not look for negative indices then."""
(
    T_BEST, T_BEST_ASK, T_FREE_LEVEL, T_FREE, T_ORDERS, T_UNKNOWN, T_DUPLICATE, T_BIDS, T_ASKS, T_UNIT, T_TAKER, T_HAPPENED,
    T_EARLY, T_FRONT, T_CHANGES, T_SEEN_LEVEL, T_SEEN_CHANGES, T_SEEN_FIRST, T_WHY, T_NEED, T_LEVELS,
) = range(21)  # fmt: skip
SCALARS = 24
GOLDEN = -7046029254386353131  # 2^64 divided by the golden ratio, odd, as a signed integer
FURTHEST = 1 << 40
"""Prices in units lie within this."""


@inlined
def place_of(ids, names, order):  # type: ignore[no-untyped-def]
    """Where in the hash table ``ids`` (numbers of rows, 0 unused) the row of ``order`` stands, or would stand."""
    mask = (len(ids) - 1) & ROW
    at = ((order * GOLDEN) >> 24) & mask
    while ids[at] != 0 and names[ids[at] & ROW] != order:
        at = (at + 1) & mask
    return at


@inlined
def free_place(ids, names, at):  # type: ignore[no-untyped-def]
    """Free a place; later rows of its run move up, so that no marker of a deletion is ever left."""
    mask = (len(ids) - 1) & ROW
    after = at
    while True:
        after = (after + 1) & mask
        if ids[after] == 0:
            break
        home = ((names[ids[after] & ROW] * GOLDEN) >> 24) & mask
        if ((after - home) & mask) >= ((after - at) & mask):
            ids[at] = ids[after]
            at = after
    ids[at] = 0


@compiled
def refill_ids(old, new, names):  # type: ignore[no-untyped-def]
    for place in range(len(old)):
        if old[place] != 0:
            new[place_of(new, names, names[old[place] & ROW])] = old[place]


@inlined
def open_level(scalars, levels, words, pages, book, price):  # type: ignore[no-untyped-def]
    """The level of ``book`` at ``price``, made when there is none."""
    rank = rank_of(book, price)
    level = level_at(words, pages, book, rank)
    if level != 0:
        return level
    level = scalars[T_FREE_LEVEL] & ROW
    scalars[T_FREE_LEVEL] = levels[level + V_HEAD]
    scalars[T_LEVELS] += 1
    levels[level + V_PRICE], levels[level + V_BOOK] = price, book
    levels[level + V_SIZE] = levels[level + V_COUNT] = levels[level + V_HEAD] = levels[level + V_TAIL] = 0
    occupy(words, pages, book, rank, level)
    best = scalars[T_BEST + book] & ROW
    if best == 0 or rank < rank_of(book, levels[best + V_PRICE]):
        scalars[T_BEST + book] = level
    return level


@inlined
def append(scalars, orders, levels, words, pages, slot, book, price, size):  # type: ignore[no-untyped-def]
    level = open_level(scalars, levels, words, pages, book, price)
    tail = levels[level + V_TAIL] & ROW
    orders[slot + E_LEVEL], orders[slot + E_SIZE], orders[slot + E_PREV], orders[slot + E_NEXT] = level, size, tail, 0
    orders[tail + E_NEXT] = slot
    levels[level + V_HEAD] = slot if tail == 0 else levels[level + V_HEAD]
    levels[level + V_TAIL] = slot
    levels[level + V_SIZE] += size
    levels[level + V_COUNT] += 1
    scalars[T_BIDS + book] += size
    scalars[T_CHANGES] += 1


@inlined
def remove(scalars, orders, levels, words, pages, slot):  # type: ignore[no-untyped-def]
    level, before, after = orders[slot + E_LEVEL] & ROW, orders[slot + E_PREV] & ROW, orders[slot + E_NEXT] & ROW
    size, book = orders[slot + E_SIZE], levels[level + V_BOOK] & 1
    levels[level + V_SIZE] -= size
    levels[level + V_COUNT] -= 1
    scalars[T_BIDS + book] -= size
    scalars[T_CHANGES] += 1
    orders[slot + E_LEVEL] = 0
    orders[before + E_NEXT] = after
    orders[after + E_PREV] = before
    levels[level + V_HEAD] = after if before == 0 else levels[level + V_HEAD]
    levels[level + V_TAIL] = before if after == 0 else levels[level + V_TAIL]
    if before == 0 and after == 0:
        rank = rank_of(book, levels[level + V_PRICE])
        if scalars[T_BEST + book] == level:
            scalars[T_BEST + book] = vacate_best(words, pages, book, rank)
        else:
            vacate(words, pages, book, rank)
        levels[level + V_HEAD] = scalars[T_FREE_LEVEL]
        scalars[T_FREE_LEVEL] = level
        scalars[T_LEVELS] -= 1


@inlined
def resize(scalars, orders, levels, slot, size):  # type: ignore[no-untyped-def]
    """Another size for a resting order that keeps its place."""
    level = orders[slot + E_LEVEL] & ROW
    change = size - orders[slot + E_SIZE]
    orders[slot + E_SIZE] = size
    levels[level + V_SIZE] += change
    scalars[T_BIDS + (levels[level + V_BOOK] & 1)] += change
    scalars[T_CHANGES] += 1


@inlined
def enter(scalars, orders, names, ids, dense, order, at):  # type: ignore[no-untyped-def]
    """A row for an order that is not there yet, whose id goes to place ``at`` of ``ids``."""
    scalars[T_ORDERS] += 1
    if dense:
        return ((order + 1) * ORDER_WIDTH) & ROW
    slot = scalars[T_FREE] & ROW
    scalars[T_FREE] = orders[slot + E_NEXT]
    names[slot // ORDER_WIDTH] = order
    ids[at] = slot // ORDER_WIDTH
    return slot


@inlined
def leave(scalars, orders, names, ids, dense, slot, at):  # type: ignore[no-untyped-def]
    """Nobody needs row ``slot``, found at place ``at`` of ``ids``, any more."""
    scalars[T_ORDERS] -= 1
    if not dense:
        free_place(ids, names, at)
        orders[slot + E_NEXT] = scalars[T_FREE]
        scalars[T_FREE] = slot


@compiled
def clear(scalars, orders, levels, words, pages, ids, dense):  # type: ignore[no-untyped-def]
    for book in range(2):
        while scalars[T_BEST + book] != 0:
            slot = levels[(scalars[T_BEST + book] & ROW) + V_HEAD] & ROW
            remove(scalars, orders, levels, words, pages, slot)
            scalars[T_ORDERS] -= 1
            if not dense:
                orders[slot + E_NEXT] = scalars[T_FREE]
                scalars[T_FREE] = slot
    if not dense:
        ids[:] = 0


@inlined
def level_of(words, pages, unit, side, price):  # type: ignore[no-untyped-def]
    """The row of a level, 0 where there is none."""
    if side == 0:
        return 0
    scaled = price if unit == 1 else price // unit
    if scaled * unit != price or scaled >= FURTHEST or scaled <= -FURTHEST:
        return 0
    book = 0 if side > 0 else 1
    return level_at(words, pages, book, rank_of(book, scaled))


@inlined
def off_the_grid(unit, price):  # type: ignore[no-untyped-def]
    if unit == 1:
        return price >= FURTHEST or price <= -FURTHEST
    scaled = price // unit
    return scaled * unit != price or scaled >= FURTHEST or scaled <= -FURTHEST


@inlined
def row_of(orders, order):  # type: ignore[no-untyped-def]
    """The row of a dense order, 0 for a number that is none."""
    row = (order + 1) * ORDER_WIDTH
    return row & ROW if 0 < row < len(orders) else 0


@compiled
def resting(scalars, orders, names, levels, words, pages, out):  # type: ignore[no-untyped-def]
    """Every order as (id, side, price in units, size), bids then asks from the best on, each queue from its front; returns how many."""
    row = 0
    for book in range(2):
        level = scalars[T_BEST + book] & ROW
        while level != 0:
            price, slot = levels[level + V_PRICE], levels[level + V_HEAD] & ROW
            while slot != 0:
                out[row, 0], out[row, 1], out[row, 2], out[row, 3] = names[slot // ORDER_WIDTH], 1 - 2 * book, price, orders[slot + E_SIZE]
                row += 1
                slot = orders[slot + E_NEXT] & ROW
            level = next_level(words, pages, book, rank_of(book, price))
    return row


@compiled
def load(scalars, orders, names, levels, words, pages, ids, dense, rows, first):  # type: ignore[no-untyped-def]
    """Put the rows of `resting` from ``first`` on into a book of those before them while there is room; returns the next one.

    They take the first rows of orders.
    """
    for row in range(first & ROW, len(rows)):
        if not has_room(words, pages, 1):
            return row
        key, book, price, size = rows[row, 0], 0 if rows[row, 1] > 0 else 1, rows[row, 2], rows[row, 3]
        number = row_of(orders, key) // ORDER_WIDTH if dense else row + 1
        if not dense:
            names[number] = key
            ids[place_of(ids, names, key)] = number
        append(scalars, orders, levels, words, pages, (number * ORDER_WIDTH) & ROW, book, price, size)
    scalars[T_ORDERS] = len(rows)
    return len(rows)


@compiled
def from_best(scalars, orders, names, levels, words, pages, book, found, queue):  # type: ignore[no-untyped-def]
    """The best levels as (price in units, size, orders told, orders in all) with their (id, size), at most so many as there is room.

    Each level gets the same share of ``queue``. Returns how many levels.
    """
    share = len(queue) // max(len(found), 1)
    level, row = scalars[T_BEST + book] & ROW, 0
    while level != 0 and row < len(found):
        price = levels[level + V_PRICE]
        slot, told = levels[level + V_HEAD] & ROW, 0
        while slot != 0 and told < share:
            queue[row * share + told, 0], queue[row * share + told, 1] = names[slot // ORDER_WIDTH], orders[slot + E_SIZE]
            told += 1
            slot = orders[slot + E_NEXT] & ROW
        found[row, 0], found[row, 1], found[row, 2], found[row, 3] = price, levels[level + V_SIZE], told, levels[level + V_COUNT]
        row += 1
        level = next_level(words, pages, book, rank_of(book, price))
    return row
