"""The rules of `core.markets.book`, compiled: one call works through a block of messages and writes report rows.

A message is a column of ``messages`` (`M_ACTION` …). Nothing allocates: `core.markets.engine.Engine` has made everything ready.
"""

# ruff: noqa: ANN001, ANN201, ANN202, SIM109 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.compiled import compiled, inlined
from core.markets.engine_state import (
    A_ASK,
    A_ASK_DEPTH,
    A_BID,
    A_BID_DEPTH,
    A_TRADES,
    A_VOLUME,
    ACCEPTED,
    CANCELLED,
    DECREMENTED,
    L_BOOK,
    L_HEAD,
    L_HIDDEN_HEAD,
    L_PRICE,
    L_RESERVE,
    L_SHOWN,
    MODIFIED,
    NEVER_SHOWN,
    NONE,
    O_ID,
    O_LEVEL,
    O_NEXT,
    O_OWNER,
    O_RESERVE,
    O_SHOWN,
    O_TIP,
    R_EXTRA,
    R_KIND,
    R_LEVEL,
    R_ORDER,
    R_OTHER,
    R_PRICE,
    R_QUANTITY,
    R_SEQ,
    R_SIDE,
    REFRESHED,
    REJECTED,
    RESTED,
    S_ARRIVALS,
    S_ASK_DEPTH,
    S_BEST,
    S_BID_DEPTH,
    S_CLEARED,
    S_CLEARING,
    S_CROSSED,
    S_HIGH,
    S_LAST,
    S_LOW,
    S_LOWEST,
    S_MODIFY_RULE,
    S_ORDERS,
    S_REPORTS,
    S_SELF_TRADE,
    S_SEQ,
    S_SLIDE,
    S_STATE,
    S_TIPS,
    S_TRADES,
    S_VOLUME,
    S_WAITING,
    SLID,
    STATE_CHANGED,
    TRADE,
    TRIGGERED,
    W_ARRIVAL,
    W_LIMIT,
    W_SIDE,
    W_TRIGGER,
    WAITS,
    WITHDRAWN,
    append,
    count,
    fill,
    free_order,
    new_order,
    tips,
    withdraw,
)  # fmt: skip
from core.markets.price_index import EMPTY, find, lookup, next_rank, price_of, rank_of
from core.markets.reports import FURTHEST, LARGEST, MOST_TIPS

M_ACTION, M_SIDE, M_KIND, M_QUANTITY, M_ORDER, M_PRICE, M_TIP, M_TRIGGER, M_OWNER = range(9)
MESSAGE_WIDTH = 9
SUBMIT, CANCEL, MODIFY, HALT, AUCTION, OPEN = range(6)
LIMIT, MARKET, IOC, FOK, POST_ONLY, ICEBERG, HIDDEN, STOP, STOP_LIMIT = range(9)
CONTINUOUS, IN_AUCTION, HALTED = range(3)
OFF, NEWEST, OLDEST, BOTH, DECREMENT = range(5)
BY_CANCEL, BY_IOC, BY_FOK, BY_MARKET, BY_SELF_TRADE = range(5)
REFUSED_POST_ONLY, UNKNOWN_ORDER, DUPLICATE_ID, BAD_VALUE, NOT_TRADING, WAITING_STOP = range(6)


@inlined
def tell(out, scalars, kind, order, other, side, price, quantity, extra, level):  # type: ignore[no-untyped-def]
    """Write a report row; `work` has made sure that there is room."""
    row = scalars[S_REPORTS]
    scalars[S_REPORTS] = row + 1
    out[row, R_KIND], out[row, R_SEQ], out[row, R_ORDER], out[row, R_OTHER] = kind, scalars[S_SEQ], order, other
    out[row, R_SIDE], out[row, R_PRICE], out[row, R_QUANTITY], out[row, R_EXTRA], out[row, R_LEVEL] = side, price, quantity, extra, level


@inlined
def _note(scalars, price, quantity):  # type: ignore[no-untyped-def]
    scalars[S_LAST] = price
    scalars[S_TRADES] += 1
    scalars[S_VOLUME] += quantity
    _touch(scalars, price)


@inlined
def _touch(scalars, price):  # type: ignore[no-untyped-def]
    scalars[S_LOW] = price if scalars[S_LOW] == NONE else min(scalars[S_LOW], price)
    scalars[S_HIGH] = price if scalars[S_HIGH] == NONE else max(scalars[S_HIGH], price)


@inlined
def _match(s, out, taker, side, left, limit, owner):  # type: ignore[no-untyped-def]
    """Take from the best opposite price, the front order first, up to ``limit`` (NONE: any price); returns what is left."""
    scalars, orders, levels = s.scalars, s.orders, s.levels
    best = S_BEST + (1 if side > 0 else 0)
    mode = scalars[S_SELF_TRADE] if owner else OFF
    while left > 0:
        level = scalars[best]
        if level < 0:
            break
        price = levels[level, L_PRICE]
        if limit != NONE and side * (price - limit) > 0:
            break
        slot = levels[level, L_HEAD]
        reach = 0
        if slot < 0:
            slot = levels[level, L_HIDDEN_HEAD]
            reach = orders[slot, O_RESERVE]
        else:
            reach = orders[slot, O_SHOWN]
        maker, total = orders[slot, O_ID], orders[slot, O_SHOWN] + orders[slot, O_RESERVE]
        own = mode != OFF and orders[slot, O_OWNER] == owner
        if own and mode != DECREMENT:
            if mode != NEWEST:
                withdraw(scalars, orders, levels, s.prices, s.words, slot)
                free_order(scalars, orders, s.ids, slot)
                tell(out, scalars, CANCELLED, maker, BY_SELF_TRADE, -side, price, total, 0, 0)
            if mode != OLDEST:
                tell(out, scalars, CANCELLED, taker, BY_SELF_TRADE, side, limit, left, 0, 0)
                left = 0
            continue
        quantity = min(left, reach)
        left -= quantity
        refreshed = fill(scalars, orders, levels, s.ids, s.prices, s.words, slot, quantity)
        shown = 0 if scalars[best] != level else levels[level, L_SHOWN]
        if not own:
            _note(scalars, price, quantity)
        tell(out, scalars, DECREMENTED if own else TRADE, taker, maker, side, price, quantity, total - quantity, shown)
        if refreshed:
            tell(out, scalars, REFRESHED, maker, 0, -side, price, orders[slot, O_SHOWN], orders[slot, O_RESERVE], 0)
    return left


@inlined
def _rest(s, out, order_id, side, price, left, tip, owner):  # type: ignore[no-untyped-def]
    slot = new_order(s.scalars, s.orders, s.ids, order_id)
    orders = s.orders
    orders[slot, O_OWNER], orders[slot, O_TIP] = owner, tip
    ahead = append(s.scalars, orders, s.levels, s.prices, s.words, slot, 0 if side > 0 else 1, price, left)
    tell(out, s.scalars, RESTED, order_id, 0, side, price, left, ahead, 0)


@compiled
def _available(s, side, limit, wanted, owner):  # type: ignore[no-untyped-def]
    """What an order of ``owner`` could fill at once; may stop counting at ``wanted``."""
    orders, levels = s.orders, s.levels
    book = 1 if side > 0 else 0
    level = s.scalars[S_BEST + book]
    mode = s.scalars[S_SELF_TRADE] if owner else OFF
    found = 0
    while level >= 0 and found < wanted:
        price = levels[level, L_PRICE]
        if limit != NONE and side * (price - limit) > 0:
            break
        if mode == OFF:
            found += levels[level, L_SHOWN] + levels[level, L_RESERVE]
        else:
            shown = total = 0
            for queue in (L_HEAD, L_HIDDEN_HEAD):
                slot = levels[level, queue]
                while slot >= 0:
                    if orders[slot, O_OWNER] == owner:
                        if mode != OLDEST:
                            return found + (total if queue == L_HIDDEN_HEAD else shown)
                    else:
                        shown += orders[slot, O_SHOWN]
                        total += orders[slot, O_SHOWN] + orders[slot, O_RESERVE]
                    slot = orders[slot, O_NEXT]
            found += total
        after = next_rank(s.words, book, rank_of(book, price))
        level = -1 if after < 0 else lookup(s.prices, price_of(book, after) << 2 | book, -1)
    return found


@inlined
def _take(s, out, order_id, side, quantity, limit, kind, tip, owner):  # type: ignore[no-untyped-def]
    """Match an arriving order; what is left rests or is cancelled, as its kind says."""
    left = _match(s, out, order_id, side, quantity, limit, owner)
    if left > 0:
        if kind == MARKET or kind == IOC or kind == FOK:
            reason = BY_MARKET if kind == MARKET else BY_IOC if kind == IOC else BY_FOK
            tell(out, s.scalars, CANCELLED, order_id, reason, side, limit, left, 0, 0)
        else:
            _rest(s, out, order_id, side, limit, left, NEVER_SHOWN if kind == HIDDEN else tip, owner)


@compiled
def _gather(s, end):  # type: ignore[no-untyped-def]
    """Move the stops that trades have reached into the wave, in order of arrival; returns its new end."""
    scalars, orders, levels, wave = s.scalars, s.orders, s.levels, s.wave
    first = end
    for book in (2, 3):
        while True:
            level = scalars[S_BEST + book]
            if level < 0 or scalars[S_LOW] == NONE:
                break
            trigger = levels[level, L_PRICE]
            if (trigger > scalars[S_HIGH]) if book == 2 else (trigger < scalars[S_LOW]):
                break
            slot = levels[level, L_HEAD]
            withdraw(scalars, orders, levels, s.prices, s.words, slot)
            at = end  # kept sorted by arrival
            while at > first and s.stops[wave[at - 1], W_ARRIVAL] > s.stops[slot, W_ARRIVAL]:
                wave[at] = wave[at - 1]
                at -= 1
            wave[at] = slot
            end += 1
    scalars[S_LOW] = scalars[S_HIGH] = NONE
    return end


@compiled
def _trigger_stops(s, out):  # type: ignore[no-untyped-def]
    """After a taker: the stops its trades reached, then those that these reach, each once."""
    scalars, orders = s.scalars, s.orders
    begin, end = 0, _gather(s, 0)
    while begin < end:
        slot = s.wave[begin]
        begin += 1
        order_id, owner, quantity = orders[slot, O_ID], orders[slot, O_OWNER], orders[slot, O_SHOWN]
        side, limit, trigger = s.stops[slot, W_SIDE], s.stops[slot, W_LIMIT], s.stops[slot, W_TRIGGER]
        free_order(scalars, orders, s.ids, slot)
        scalars[S_WAITING] -= 1
        tell(out, scalars, TRIGGERED, order_id, 0, side, limit, quantity, trigger, 0)
        _take(s, out, order_id, side, quantity, limit, MARKET if limit == NONE else LIMIT, 0, owner)
        end = _gather(s, end)


@inlined
def _wait(s, out, order_id, side, quantity, limit, trigger, owner):  # type: ignore[no-untyped-def]
    """Queue a stop at its trigger. A level of a stop book counts as displayed what waits there."""
    scalars, orders = s.scalars, s.orders
    slot = new_order(scalars, orders, s.ids, order_id)
    orders[slot, O_OWNER], orders[slot, O_TIP] = owner, 0
    append(scalars, orders, s.levels, s.prices, s.words, slot, 2 if side > 0 else 3, trigger, quantity)
    s.stops[slot, W_SIDE], s.stops[slot, W_LIMIT], s.stops[slot, W_TRIGGER] = side, limit, trigger
    s.stops[slot, W_ARRIVAL] = scalars[S_ARRIVALS]
    scalars[S_ARRIVALS] += 1
    scalars[S_WAITING] += 1
    tell(out, scalars, WAITS, order_id, 0, side, trigger, quantity, 0, 0)
    if scalars[S_STATE] == CONTINUOUS and scalars[S_LAST] != NONE:
        _touch(scalars, scalars[S_LAST])


@inlined
def _fault(scalars, ids, messages, n):  # type: ignore[no-untyped-def]
    """The reason to refuse a new order, or -1."""
    kind, quantity, price = messages[M_KIND, n], messages[M_QUANTITY, n], messages[M_PRICE, n]
    tip, trigger = messages[M_TIP, n], messages[M_TRIGGER, n]
    at = find(ids, messages[M_ORDER, n])
    if ids[at, 0] == messages[M_ORDER, n] and ids[at, 0] != EMPTY:
        return DUPLICATE_ID
    lowest = scalars[S_LOWEST]
    if quantity < 1 or quantity > LARGEST or messages[M_ORDER, n] == EMPTY or (kind == MARKET or kind == STOP) != (price == NONE):
        return BAD_VALUE
    if price != NONE and (price < lowest or price > FURTHEST):
        return BAD_VALUE
    if (kind == STOP or kind == STOP_LIMIT) != (trigger != NONE) or (trigger != NONE and (trigger < lowest or trigger > FURTHEST)):
        return BAD_VALUE
    if (kind == ICEBERG) != (tip != 0) or (tip != 0 and not (1 <= tip <= quantity and quantity <= tip * MOST_TIPS)):
        return BAD_VALUE
    state = scalars[S_STATE]
    if state == HALTED or (state == IN_AUCTION and MARKET <= kind <= POST_ONLY):
        return NOT_TRADING
    return -1


@inlined
def _submit(s, out, messages, n):  # type: ignore[no-untyped-def]
    scalars = s.scalars
    order_id, side, quantity, kind = messages[M_ORDER, n], 1 - 2 * messages[M_SIDE, n], messages[M_QUANTITY, n], messages[M_KIND, n]
    price, tip, trigger, owner = messages[M_PRICE, n], messages[M_TIP, n], messages[M_TRIGGER, n], messages[M_OWNER, n]
    fault = _fault(scalars, s.ids, messages, n)
    if fault >= 0:
        tell(out, scalars, REJECTED, order_id, fault, SUBMIT, NONE, 0, 0, 0)
        return
    tell(out, scalars, ACCEPTED, order_id, kind, side, price, quantity, 0, 0)
    if trigger != NONE:
        _wait(s, out, order_id, side, quantity, price, trigger, owner)
        return
    if scalars[S_STATE] == IN_AUCTION:
        _rest(s, out, order_id, side, price, quantity, NEVER_SHOWN if kind == HIDDEN else tip, owner)
        return
    if kind == POST_ONLY:
        best = scalars[S_BEST + (1 if side > 0 else 0)]
        if best >= 0 and side * (price - s.levels[best, L_PRICE]) >= 0:
            slid = s.levels[best, L_PRICE] - side
            if not scalars[S_SLIDE] or slid < scalars[S_LOWEST]:
                tell(out, scalars, REJECTED, order_id, REFUSED_POST_ONLY, SUBMIT, NONE, 0, 0, 0)
                return
            tell(out, scalars, SLID, order_id, 0, side, slid, price, 0, 0)
            price = slid
    if kind == FOK and _available(s, side, price, quantity, owner) < quantity:
        tell(out, scalars, CANCELLED, order_id, BY_FOK, side, price, quantity, 0, 0)
        return
    _take(s, out, order_id, side, quantity, price, kind, tip, owner)


@inlined
def _cancel(s, out, order_id):  # type: ignore[no-untyped-def]
    scalars, orders = s.scalars, s.orders
    slot = lookup(s.ids, order_id, -1)
    if slot < 0:
        tell(out, scalars, REJECTED, order_id, UNKNOWN_ORDER, CANCEL, NONE, 0, 0, 0)
        return
    side, price = _side(s, slot), s.levels[orders[slot, O_LEVEL], L_PRICE]
    quantity = orders[slot, O_SHOWN] + orders[slot, O_RESERVE]
    if _stops(s, slot):
        price = s.stops[slot, W_LIMIT]
        scalars[S_WAITING] -= 1
    withdraw(scalars, orders, s.levels, s.prices, s.words, slot)
    free_order(scalars, orders, s.ids, slot)
    tell(out, scalars, CANCELLED, order_id, BY_CANCEL, side, price, quantity, 0, 0)
    return


@inlined
def _side(s, slot):  # type: ignore[no-untyped-def]
    return 1 - 2 * (s.levels[s.orders[slot, O_LEVEL], L_BOOK] & 1)


@inlined
def _stops(s, slot):  # type: ignore[no-untyped-def]
    return s.levels[s.orders[slot, O_LEVEL], L_BOOK] >= 2


@inlined
def _modify(s, out, order_id, quantity, price):  # type: ignore[no-untyped-def]
    scalars, orders = s.scalars, s.orders
    slot = lookup(s.ids, order_id, -1)
    fault = -1
    if slot < 0:
        fault = UNKNOWN_ORDER
    elif _stops(s, slot):
        fault = WAITING_STOP
    elif scalars[S_STATE] == HALTED:
        fault = NOT_TRADING
    elif (
        quantity < 1
        or quantity > LARGEST
        or price < scalars[S_LOWEST]
        or price > FURTHEST
        or (orders[slot, O_TIP] > 0 and quantity > orders[slot, O_TIP] * MOST_TIPS)
    ):
        fault = BAD_VALUE
    if fault >= 0:
        tell(out, scalars, REJECTED, order_id, fault, MODIFY, NONE, 0, 0, 0)
        return
    side, tip, owner = _side(s, slot), orders[slot, O_TIP], orders[slot, O_OWNER]
    level = orders[slot, O_LEVEL]
    old_price, old_shown = s.levels[level, L_PRICE], orders[slot, O_SHOWN]
    old = old_shown + orders[slot, O_RESERVE]
    if scalars[S_MODIFY_RULE] and price == old_price and quantity <= old:
        shown = min(old_shown, quantity)
        count(scalars, s.levels, level, shown - old_shown, quantity - shown - orders[slot, O_RESERVE])
        scalars[S_TIPS] -= tips(orders, slot)
        orders[slot, O_SHOWN], orders[slot, O_RESERVE] = shown, quantity - shown
        scalars[S_TIPS] += tips(orders, slot)
        tell(out, scalars, MODIFIED, order_id, 1, side, price, quantity, old, old_price)
        return
    withdraw(scalars, orders, s.levels, s.prices, s.words, slot)
    free_order(scalars, orders, s.ids, slot)
    tell(out, scalars, WITHDRAWN, order_id, 0, side, old_price, old, 0, 0)
    left = quantity
    if scalars[S_STATE] == CONTINUOUS:
        left = _match(s, out, order_id, side, quantity, price, owner)
    tell(out, scalars, MODIFIED, order_id, 0, side, price, quantity, old, old_price)
    if left > 0:
        _rest(s, out, order_id, side, price, left, tip, owner)


@compiled
def _front(s, book):  # type: ignore[no-untyped-def]
    level = s.scalars[S_BEST + book]
    slot = s.levels[level, L_HEAD]
    return slot if slot >= 0 else s.levels[level, L_HIDDEN_HEAD]


@compiled
def _open(s, out):  # type: ignore[no-untyped-def]
    """Uncross at the auction's price (found before: `S_CLEARING`, `S_CLEARED`), then trade continuously."""
    scalars, orders, levels = s.scalars, s.orders, s.levels
    price, volume = scalars[S_CLEARING], scalars[S_CLEARED]
    scalars[S_CLEARED] = -1
    scalars[S_STATE] = CONTINUOUS
    tell(out, scalars, STATE_CHANGED, CONTINUOUS, 0, 0, price, volume, 0, 0)
    while volume > 0:
        bid, ask = _front(s, 0), _front(s, 1)
        quantity = volume
        for slot in (bid, ask):
            quantity = min(quantity, orders[slot, O_RESERVE] if orders[slot, O_TIP] < 0 else orders[slot, O_SHOWN])
        volume -= quantity
        bid_id, ask_id = orders[bid, O_ID], orders[ask, O_ID]
        bid_price, ask_price = levels[orders[bid, O_LEVEL], L_PRICE], levels[orders[ask, O_LEVEL], L_PRICE]
        ask_left = orders[ask, O_SHOWN] + orders[ask, O_RESERVE] - quantity
        bid_refreshed = fill(scalars, orders, levels, s.ids, s.prices, s.words, bid, quantity)
        ask_refreshed = fill(scalars, orders, levels, s.ids, s.prices, s.words, ask, quantity)
        _note(scalars, price, quantity)
        level = lookup(s.prices, ask_price << 2 | 1, -1)
        tell(out, scalars, TRADE, bid_id, ask_id, 0, price, quantity, ask_left, levels[level, L_SHOWN] if level >= 0 else 0)
        if bid_refreshed:
            tell(out, scalars, REFRESHED, bid_id, 0, 1, bid_price, orders[bid, O_SHOWN], orders[bid, O_RESERVE], 0)
        if ask_refreshed:
            tell(out, scalars, REFRESHED, ask_id, 0, -1, ask_price, orders[ask, O_SHOWN], orders[ask, O_RESERVE], 0)
    if scalars[S_LOW] == NONE and scalars[S_LAST] != NONE:
        _touch(scalars, scalars[S_LAST])


@inlined
def rows_at_most(scalars):  # type: ignore[no-untyped-def]
    """Report rows that one message can cause: a trade and a refresh for every turn an order can have, and a few for each taker."""
    return 2 * (scalars[S_ORDERS] + scalars[S_TIPS] + MOST_TIPS) + 8 * (scalars[S_WAITING] + 2)


@compiled
def work(s, messages, first, end, out, after):  # type: ignore[no-untyped-def]
    """Work through ``messages[:, first:end]`` as long as ``out`` has room and no auction needs its price; returns the next message.

    messages: (MESSAGE_WIDTH, n); out: (room, REPORT_WIDTH), rows [0, scalars[S_REPORTS]) are written; after: (n, AFTER_WIDTH),
    or (0, …) when nobody asks. Compiled without reference counts (they would cost ten times the work), so that nothing
    here may allocate.
    """
    scalars, levels = s.scalars, s.levels
    for n in range(first, end):
        if scalars[S_REPORTS] + rows_at_most(scalars) > len(out):
            return n
        action = messages[M_ACTION, n]
        if action == SUBMIT:
            _submit(s, out, messages, n)
        elif action == CANCEL:
            _cancel(s, out, messages[M_ORDER, n])
        elif action == MODIFY:
            _modify(s, out, messages[M_ORDER, n], messages[M_QUANTITY, n], messages[M_PRICE, n])
        elif action == OPEN:
            if scalars[S_CLEARED] < 0:
                return n
            _open(s, out)
        else:
            scalars[S_STATE] = HALTED if action == HALT else IN_AUCTION
            tell(out, scalars, STATE_CHANGED, scalars[S_STATE], 0, 0, NONE, 0, 0, 0)
        if scalars[S_LOW] != NONE:
            if scalars[S_WAITING]:
                _trigger_stops(s, out)
            scalars[S_LOW] = scalars[S_HIGH] = NONE
        scalars[S_SEQ] += 1
        bid, ask = scalars[S_BEST], scalars[S_BEST + 1]
        if scalars[S_STATE] == CONTINUOUS and bid >= 0 and ask >= 0 and levels[bid, L_PRICE] >= levels[ask, L_PRICE]:
            scalars[S_CROSSED] += 1
        if len(after):
            after[n, A_BID] = levels[bid, L_PRICE] if bid >= 0 else NONE
            after[n, A_ASK] = levels[ask, L_PRICE] if ask >= 0 else NONE
            after[n, A_BID_DEPTH], after[n, A_ASK_DEPTH] = scalars[S_BID_DEPTH], scalars[S_ASK_DEPTH]
            after[n, A_TRADES], after[n, A_VOLUME] = scalars[S_TRADES], scalars[S_VOLUME]
    return end
