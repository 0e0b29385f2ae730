"""What market-by-order events do to the queues of `core.markets.events.queues`, compiled: a call works through a block of them.

Where it wants room, or another unit of prices, the call returns and says so (T_WHY).
"""

# ruff: noqa: ANN001, ANN201, SIM109 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.events.queues import (
    E_LEVEL,
    E_NEXT,
    E_PREV,
    E_SIZE,
    GOLDEN,
    ORDER_WIDTH,
    ROW,
    T_ASKS,
    T_BEST,
    T_BEST_ASK,
    T_BIDS,
    T_CHANGES,
    T_DUPLICATE,
    T_EARLY,
    T_FRONT,
    T_HAPPENED,
    T_NEED,
    T_SEEN_CHANGES,
    T_SEEN_FIRST,
    T_SEEN_LEVEL,
    T_TAKER,
    T_UNIT,
    T_UNKNOWN,
    T_WHY,
    V_BOOK,
    V_HEAD,
    V_PRICE,
    V_SIZE,
    append,
    clear,
    enter,
    leave,
    level_of,
    off_the_grid,
    place_of,
    remove,
    resize,
    row_of,
)
from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.hashed import find, lookup
from core.markets.kernels.machine import prefetch
from core.markets.kernels.price_pages import has_room

ADD, CANCEL, MODIFY, CLEAR, TRADE, FILL, NONE, EXECUTE, DELETE = range(9)
"""`core.markets.readers.forms` has the same codes; any other leaves the book alone."""

AHEAD, NEARER = 16, 8
"""So many events before its turn an order is fetched from memory, and the orders in front of it and behind it."""
DONE, NEEDS_UNIT, NEEDS_ROOM, NEEDS_LEVELS = range(4)
"""Why a call returned."""

H_PLACE, H_ORDER, H_TOLD, H_FILLED, H_BITS = range(5)
WAS_TOLD, WAS_WITHDRAWN = 1, 2
"""What happened to an order in this exchange event: fills that no cancel or modify has booked yet, all fills, and these bits."""

O_BID, O_ASK, O_BIDS, O_ASKS, O_BEFORE, O_AFTER, O_SIDE, O_PRICE, O_MARKS = range(9)
OUT = 9
NO_PRICE = -(1 << 63)
(UNKNOWN, DUPLICATE, IN_TURN, OUT_OF_TURN, OWN_FILL, FILLED, KEPT, REFRESHED, TOO_MUCH, PASSED) = (1 << bit for bit in range(10))


@compiled
def happening(scalars, happened, spots, order):  # type: ignore[no-untyped-def]
    """The row of ``order`` among those something happened to in this exchange event; made where there is none."""
    at = find(spots, order)
    if spots[at, 0] == order:
        return spots[at, 1]
    row = scalars[T_HAPPENED]
    scalars[T_HAPPENED] += 1
    spots[at, 0], spots[at, 1] = order, row
    happened[row, H_PLACE], happened[row, H_ORDER] = at, order
    happened[row, H_TOLD] = happened[row, H_FILLED] = happened[row, H_BITS] = 0
    return row


@inlined
def filled_of(scalars, happened, spots, order):  # type: ignore[no-untyped-def]
    if not scalars[T_HAPPENED]:
        return 0
    row = lookup(spots, order, -1)
    return happened[row, H_FILLED] if row >= 0 else 0


@compiled
def waits_ahead(scalars, orders, names, levels, happened, spots, slot):  # type: ignore[no-untyped-def]
    """How many orders stand in front of ``slot``; minus that, less one, where all of them are filled already."""
    other, count, waits = levels[(orders[slot + E_LEVEL] & ROW) + V_HEAD] & ROW, 0, False
    while other != slot:
        if not waits:
            waits = filled_of(scalars, happened, spots, names[other // ORDER_WIDTH]) < orders[other + E_SIZE]
        count += 1
        other = orders[other + E_NEXT] & ROW
    return count if waits else -1 - count


@compiled
def note_front(scalars, orders, names, levels, early, front, slot, row, count):  # type: ignore[no-untyped-def]
    """Remember who stands in front of a fill, for `judge`. Fills of one untouched level share their list. False: no room."""
    level = orders[slot + E_LEVEL] & ROW
    known = 0
    if scalars[T_EARLY] and scalars[T_SEEN_LEVEL] == level and scalars[T_SEEN_CHANGES] == scalars[T_CHANGES]:
        known = scalars[T_FRONT] - scalars[T_SEEN_FIRST]
    want = max(count - known, 0)
    if scalars[T_EARLY] >= len(early) or scalars[T_FRONT] + want > len(front):
        scalars[T_NEED] = want
        return False
    if not known:
        scalars[T_SEEN_FIRST] = scalars[T_FRONT]
        scalars[T_SEEN_LEVEL], scalars[T_SEEN_CHANGES] = level, scalars[T_CHANGES]
    if want:
        other = levels[level + V_HEAD] & ROW
        for place in range(count):
            if place >= known:
                at = scalars[T_FRONT]
                front[at, 0], front[at, 1] = names[other // ORDER_WIDTH], orders[other + E_SIZE]
                scalars[T_FRONT] += 1
            other = orders[other + E_NEXT] & ROW
    at = scalars[T_EARLY]
    early[at, 0], early[at, 1], early[at, 2] = row, scalars[T_SEEN_FIRST], scalars[T_SEEN_FIRST] + count
    scalars[T_EARLY] += 1
    return True


@compiled
def judge(scalars, happened, spots, early, front, out):  # type: ignore[no-untyped-def]
    """The exchange's event is complete: its fills are told in any order, so those in front may have traded in it, or left it."""
    if out.shape[1]:
        for at in range(scalars[T_EARLY]):
            behind = waits = False
            for place in range(early[at, 1], early[at, 2]):
                row = lookup(spots, front[place, 0], -1)
                if row < 0 or happened[row, H_FILLED] < front[place, 1]:
                    behind = True
                    if row < 0 or not happened[row, H_BITS] & WAS_WITHDRAWN:
                        waits = True
                        break
            if early[at, 0] >= 0:
                out[O_MARKS, early[at, 0]] |= OUT_OF_TURN if waits else IN_TURN | PASSED if behind else IN_TURN
    scalars[T_EARLY] = scalars[T_FRONT] = 0
    for row in range(scalars[T_HAPPENED]):
        spots[happened[row, H_PLACE], 0] = -(1 << 63)
    scalars[T_HAPPENED] = 0


@inlined
def booked(scalars, happened, spots, order):  # type: ignore[no-untyped-def]
    """Marks of a cancel or an execution: it books fills told before; else, with a taker at work, the order is withdrawn."""
    if scalars[T_HAPPENED]:
        row = lookup(spots, order, -1)
        if row >= 0 and happened[row, H_BITS] & WAS_TOLD:
            return FILLED
    if scalars[T_TAKER]:
        happened[happening(scalars, happened, spots, order), H_BITS] |= WAS_WITHDRAWN
    return 0


@inlined
def take_told(scalars, happened, spots, order):  # type: ignore[no-untyped-def]
    """The fills of ``order`` that nothing has booked yet: now a modify does."""
    if not scalars[T_HAPPENED]:
        return 0
    row = lookup(spots, order, -1)
    if row < 0:
        return 0
    told = happened[row, H_TOLD]
    happened[row, H_TOLD] = 0
    happened[row, H_BITS] &= ~WAS_TOLD
    return told


@compiled
def replay(  # type: ignore[no-untyped-def]
    scalars, orders, names, levels, words, pages, ids, happened, spots, early, front, dense,
    action, order, side, price, size, last, first, end, out,
):  # fmt: skip
    """Apply events [first, end), columns (events,); ``out`` (OUT, events), or (OUT, 0), gets what each of them did.

    dense: ``order`` numbers the rows of ``orders`` behind the first; otherwise it holds any 64-bit ids, found through ``ids``.
    Returns the first event that is not done: ``end``, or one that wants another unit or more room (T_WHY).
    """
    unit, telling = scalars[T_UNIT], out.shape[1] > 0
    final = (end - 1) & ROW
    for n in range(first & ROW, end & ROW):
        if not has_room(words, pages, 1):
            scalars[T_WHY] = NEEDS_LEVELS
            return n
        if dense:
            near = row_of(orders, order[min(n + NEARER, final)])
            prefetch(orders, row_of(orders, order[min(n + AHEAD, final)]))
            prefetch(orders, orders[near + E_PREV])
            prefetch(orders, orders[near + E_NEXT])
        else:
            prefetch(ids, ((order[min(n + AHEAD, final)] * GOLDEN) >> 24) & (len(ids) - 1))
        what, key, s, marks = action[n], order[n], side[n], 0
        book = 0 if s > 0 else 1
        slot, at = 0, 0
        if what == FILL or what == TRADE:
            slot = 0
        elif dense:
            slot = row_of(orders, key)
            slot = slot if orders[slot + E_LEVEL] != 0 else 0
        else:
            at = place_of(ids, names, key)
            slot = (ids[at] * ORDER_WIDTH) & ROW
        rests = size[n] > 0 and ((what == ADD and s != 0) or (what == MODIFY and (s != 0 or slot != 0)))
        if rests and off_the_grid(unit, price[n]):
            scalars[T_WHY] = NEEDS_UNIT
            return n
        level = 0
        if telling:
            own_side, own_price = s, price[n]
            if slot != 0 and what != ADD and (what != MODIFY or s == 0):
                place = orders[slot + E_LEVEL] & ROW
                own_side = 1 if levels[place + V_BOOK] == 0 else -1
                if what != MODIFY:
                    level, own_price = place, levels[place + V_PRICE] * unit
            if level == 0:
                level = level_of(words, pages, unit, own_side, own_price)
            out[O_SIDE, n], out[O_PRICE, n] = own_side, own_price
            out[O_BEFORE, n] = levels[level + V_SIZE] if level != 0 else 0
        drop = False
        if what == ADD:
            if slot != 0:
                scalars[T_DUPLICATE] += 1
                marks, drop = DUPLICATE, True
        elif what == CANCEL or what == DELETE or what == EXECUTE:
            if slot != 0:
                if what == EXECUTE:
                    ahead = waits_ahead(scalars, orders, names, levels, happened, spots, slot) if telling else 0
                    marks = OUT_OF_TURN if ahead > 0 else IN_TURN
                marks |= booked(scalars, happened, spots, key)
                taken, left = -1 if what == DELETE else size[n], orders[slot + E_SIZE]
                if 0 <= taken < left:
                    resize(scalars, orders, levels, slot, left - taken)
                else:
                    marks |= TOO_MUCH if taken > left else 0
                    drop = True
            else:
                marks = UNKNOWN
        elif what == MODIFY:
            if slot != 0:
                place, old, told = orders[slot + E_LEVEL] & ROW, orders[slot + E_SIZE], take_told(scalars, happened, spots, key)
                book = levels[place + V_BOOK] & 1 if s == 0 else book
                here = levels[place + V_PRICE] * unit == price[n]
                marks = FILLED if told else 0
                if here and book == levels[place + V_BOOK] and 0 < size[n] <= max(old - told, 0):
                    resize(scalars, orders, levels, slot, size[n])
                    marks |= KEPT
                    rests = False
                else:
                    marks |= REFRESHED if told and here and size[n] > old - told else 0
                    drop = True
            else:
                marks = UNKNOWN
        elif what == FILL:
            if s != 0 and s == scalars[T_TAKER]:
                marks = OWN_FILL
            else:  # without a side it is an auction's, which has no turns
                if telling and s != 0:
                    slot = row_of(orders, key) if dense else (ids[place_of(ids, names, key)] * ORDER_WIDTH) & ROW
                    if slot == 0:
                        marks = UNKNOWN
                    else:
                        ahead = waits_ahead(scalars, orders, names, levels, happened, spots, slot)
                        if ahead <= 0:
                            marks = IN_TURN
                        elif not note_front(scalars, orders, names, levels, early, front, slot, n, ahead):
                            scalars[T_WHY] = NEEDS_ROOM
                            return n
                row = happening(scalars, happened, spots, key)
                happened[row, H_TOLD] += size[n]
                happened[row, H_FILLED] += size[n]
                happened[row, H_BITS] |= WAS_TOLD
        elif what == TRADE:
            scalars[T_TAKER] = s
        elif what == CLEAR:
            clear(scalars, orders, levels, words, pages, ids, dense)
        if drop:
            remove(scalars, orders, levels, words, pages, slot)
            if not rests:
                leave(scalars, orders, names, ids, dense, slot, at)
        if rests:
            if not drop:
                slot = enter(scalars, orders, names, ids, dense, key, at)
            append(scalars, orders, levels, words, pages, slot, book, price[n] if unit == 1 else price[n] // unit, size[n])
        if marks == UNKNOWN:
            scalars[T_UNKNOWN] += 1
        if telling:
            if level == 0:
                level = level_of(words, pages, unit, own_side, own_price)
            out[O_AFTER, n] = levels[level + V_SIZE] if level != 0 else 0
            out[O_MARKS, n] = marks
            bid, ask = scalars[T_BEST] & ROW, scalars[T_BEST_ASK] & ROW
            out[O_BID, n] = NO_PRICE if bid == 0 else levels[bid + V_PRICE] * unit
            out[O_ASK, n] = NO_PRICE if ask == 0 else levels[ask + V_PRICE] * unit
            out[O_BIDS, n], out[O_ASKS, n] = scalars[T_BIDS], scalars[T_ASKS]
        if last[n]:
            scalars[T_TAKER] = 0
            if scalars[T_HAPPENED]:
                judge(scalars, happened, spots, early, front, out)
    scalars[T_WHY] = DONE
    return end
