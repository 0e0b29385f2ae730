"""Nasdaq ITCH 5.0 messages read by compiled code: one stock's as market-by-order events, or all of them counted.

Messages are big-endian, each behind two bytes that hold its length or 0. Bytes end in the middle of a message more often than
not, so every call says how far it came.
"""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.hashed import drop_at, find, lookup

ADD, CANCEL, EXECUTE, DELETE, HIDDEN, CROSS, HALT, NONE = 0, 1, 7, 8, 9, 10, 11, 6
"""Codes of `core.markets.readers.forms`."""
K_ROWS, K_RESTING, K_BAD, K_MESSAGES = range(4)
"""Events written, orders whose side is known, whether the call stopped at no message of its type's size, messages passed."""
E_TIME, E_ORDER, E_PRICE, E_SIZE = range(4)
F_ACTION, F_SIDE, F_LAST = range(3)


@inlined
def number(data, at, count):  # type: ignore[no-untyped-def]
    """An unsigned big-endian number of ``count`` bytes."""
    value = 0
    for place in range(at, at + count):
        value = value << 8 | data[place]
    return value


@inlined
def event(counts, wide, narrow, time, action, order, side, price, size, last):  # type: ignore[no-untyped-def]
    row = counts[K_ROWS]
    counts[K_ROWS] = row + 1
    wide[E_TIME, row], wide[E_ORDER, row], wide[E_PRICE, row], wide[E_SIZE, row] = time, order, price, size
    narrow[F_ACTION, row], narrow[F_SIDE, row], narrow[F_LAST, row] = action, side, last


@inlined
def take(counts, orders, order, size):  # type: ignore[no-untyped-def]
    """``size`` less (negative: everything) of an order that rests; its side is forgotten with its last share."""
    at = find(orders, order)
    if orders[at, 0] == order:
        if 0 <= size < orders[at, 1] >> 1:
            orders[at, 1] -= size << 1
        else:
            drop_at(orders, at)
            counts[K_RESTING] -= 1


@inlined
def put(counts, orders, order, side, size):  # type: ignore[no-untyped-def]
    at = find(orders, order)
    counts[K_RESTING] += orders[at, 0] != order
    orders[at, 0], orders[at, 1] = order, size << 1 | (side > 0)


@compiled
def stock_events(data, at, end, sizes, locate, orders, counts, wide, narrow):  # type: ignore[no-untyped-def]
    """Events of the stock ``locate`` from the messages in bytes [at, end). ``orders``: a table of shares << 1 | is-buy by order.

    Returns the first byte not read: of a message that is cut off or bad (K_BAD), or when the rows are full. A replacement (U)
    is two events: its old order goes, its new one comes, and only then the book is read.
    """
    room = wide.shape[1] - 1
    while at + 3 <= end:
        kind = data[at + 2]
        size, told = sizes[kind], data[at] << 8 | data[at + 1]
        if size == 0 or (told != 0 and told != size):
            counts[K_BAD] = 1
            return at
        if at + 2 + size > end or counts[K_ROWS] >= room:
            return at
        m = at + 2
        at += 2 + size
        if number(data, m + 1, 2) != locate:
            continue
        time = number(data, m + 5, 6)
        if kind == 65 or kind == 70:  # A, F
            order, side, shares = number(data, m + 11, 8), 1 if data[m + 19] == 66 else -1, number(data, m + 20, 4)
            put(counts, orders, order, side, shares)
            event(counts, wide, narrow, time, ADD, order, side, number(data, m + 32, 4), shares, 1)
        elif kind == 69 or kind == 67 or kind == 88:  # E, C, X
            order, shares = number(data, m + 11, 8), number(data, m + 19, 4)
            take(counts, orders, order, shares)
            trades = kind == 69 or (kind == 67 and data[m + 31] == 89)
            event(counts, wide, narrow, time, EXECUTE if trades else CANCEL, order, 0, 0, shares, 1)
        elif kind == 68:  # D
            order = number(data, m + 11, 8)
            take(counts, orders, order, -1)
            event(counts, wide, narrow, time, DELETE, order, 0, 0, 0, 1)
        elif kind == 85:  # U
            old, order, shares = number(data, m + 11, 8), number(data, m + 19, 8), number(data, m + 27, 4)
            held = lookup(orders, old, -1)
            side = 0 if held < 0 else 1 if held & 1 else -1
            take(counts, orders, old, -1)
            if side:
                put(counts, orders, order, side, shares)
            event(counts, wide, narrow, time, DELETE, old, 0, 0, 0, 0)
            event(counts, wide, narrow, time, ADD, order, side, number(data, m + 31, 4), shares, 1)
        elif kind == 80:  # P: the side of the hidden order, which is B in newer files whatever it was
            event(counts, wide, narrow, time, HIDDEN, 0, 0, number(data, m + 32, 4), number(data, m + 20, 4), 1)
        elif kind == 81:  # Q
            event(counts, wide, narrow, time, CROSS, 0, 0, number(data, m + 27, 4), number(data, m + 11, 8), 1)
        elif kind == 72:  # H
            event(counts, wide, narrow, time, HALT, 0, 0, 0, 0, 1)
        elif kind == 66:  # B
            event(counts, wide, narrow, time, NONE, 0, 0, 0, 0, 1)
    return at


@compiled
def count_messages(data, at, end, sizes, counted, most, counts, per_stock, directory):  # type: ignore[no-untyped-def]
    """Count the messages about orders (types ``counted``) of each stock, of at most ``most`` messages in all (K_MESSAGES).

    ``directory`` gets where the bodies of R messages begin (K_ROWS of them). Returns as `stock_events` does.
    """
    while at + 3 <= end and counts[K_MESSAGES] < most and counts[K_ROWS] < len(directory):
        kind = data[at + 2]
        size, told = sizes[kind], data[at] << 8 | data[at + 1]
        if size == 0 or (told != 0 and told != size):
            counts[K_BAD] = 1
            return at
        if at + 2 + size > end:
            return at
        if kind == 82:
            directory[counts[K_ROWS]] = at + 2
            counts[K_ROWS] += 1
        elif counted[kind]:
            per_stock[number(data, at + 3, 2)] += 1
        counts[K_MESSAGES] += 1
        at += 2 + size
    return at
