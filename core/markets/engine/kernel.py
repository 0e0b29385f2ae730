"""The rules of `core.markets.matching.book`, compiled: one call works through a block of messages and writes report rows.

A message is a column of ``messages`` (`core.markets.engine.codes`). Nothing allocates: `core.markets.engine.engine.Engine` has made
everything ready.
"""

# ruff: noqa: ANN001, ANN201, ANN202, SIM109 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.engine.auction import uncross
from core.markets.engine.codes import (
    BAD_VALUE,
    BY_CANCEL,
    BY_FOK,
    CANCEL,
    CONTINUOUS,
    DUPLICATE_ID,
    FOK,
    HALT,
    HALTED,
    HIDDEN,
    ICEBERG,
    IN_AUCTION,
    M_ACTION,
    M_KIND,
    M_ORDER,
    M_OWNER,
    M_PRICE,
    M_QUANTITY,
    M_SIDE,
    M_TIP,
    M_TRIGGER,
    MARKET,
    MODIFY,
    NOT_TRADING,
    OPEN,
    POST_ONLY,
    REFUSED_POST_ONLY,
    STOP,
    STOP_LIMIT,
    SUBMIT,
    UNKNOWN_ORDER,
    WAITING_STOP,
)
from core.markets.engine.match import available, match, rest, take, tell
from core.markets.engine.state import (
    A_ASK,
    A_ASK_DEPTH,
    A_BID,
    A_BID_DEPTH,
    A_TRADES,
    A_VOLUME,
    ACCEPTED,
    CANCELLED,
    L_BOOK,
    L_PRICE,
    MODIFIED,
    NEVER_SHOWN,
    NONE,
    O_LEVEL,
    O_OWNER,
    O_RESERVE,
    O_SHOWN,
    O_TIP,
    REJECTED,
    REPORT_WIDTH,
    ROW,
    S_ASK_DEPTH,
    S_BEST,
    S_BID_DEPTH,
    S_CLEARED,
    S_CROSSED,
    S_HIGH,
    S_KEEP,
    S_LOW,
    S_LOWEST,
    S_MODIFY_RULE,
    S_ORDERS,
    S_REPORTS,
    S_SEQ,
    S_SLIDE,
    S_STATE,
    S_TIPS,
    S_TRADES,
    S_VOLUME,
    S_WAITING,
    SLID,
    STATE_CHANGED,
    W_LIMIT,
    WITHDRAWN,
    count,
    free_order,
    tips,
    withdraw,
)
from core.markets.engine.stops import trigger_stops, wait
from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.order_ids import place_of, row_at
from core.markets.kernels.price_pages import has_room
from core.markets.matching.reports import FURTHEST, LARGEST, MOST_TIPS


@inlined
def _fault(s, messages, n):  # type: ignore[no-untyped-def]
    """The reason to refuse a new order, or -1."""
    scalars = s.scalars
    kind, quantity, price = messages[M_KIND, n], messages[M_QUANTITY, n], messages[M_PRICE, n]
    tip, trigger = messages[M_TIP, n], messages[M_TRIGGER, n]
    if s.ids[place_of(s.ids, s.orders, messages[M_ORDER, n])] != 0:
        return DUPLICATE_ID
    lowest = scalars[S_LOWEST]
    if quantity < 1 or quantity > LARGEST or (kind == MARKET or kind == STOP) != (price == NONE):
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
    fault = _fault(s, messages, n)
    if fault >= 0:
        tell(out, scalars, REJECTED, order_id, fault, SUBMIT, NONE, 0, 0, 0)
        return
    tell(out, scalars, ACCEPTED, order_id, kind, side, price, quantity, 0, 0)
    if trigger != NONE:
        wait(s, out, order_id, side, quantity, price, trigger, owner)
        return
    if scalars[S_STATE] == IN_AUCTION:
        rest(s, out, order_id, side, price, quantity, NEVER_SHOWN if kind == HIDDEN else tip, owner)
        return
    if kind == POST_ONLY:
        best = scalars[S_BEST + (1 if side > 0 else 0)] & ROW
        if best != 0 and side * (price - s.levels[best + L_PRICE]) >= 0:
            slid = s.levels[best + L_PRICE] - side
            if not scalars[S_SLIDE] or slid < scalars[S_LOWEST]:
                tell(out, scalars, REJECTED, order_id, REFUSED_POST_ONLY, SUBMIT, NONE, 0, 0, 0)
                return
            tell(out, scalars, SLID, order_id, 0, side, slid, price, 0, 0)
            price = slid
    if kind == FOK and available(s, side, price, quantity, owner) < quantity:
        tell(out, scalars, CANCELLED, order_id, BY_FOK, side, price, quantity, 0, 0)
        return
    take(s, out, order_id, side, quantity, price, kind, tip, owner)


@inlined
def _cancel(s, out, order_id):  # type: ignore[no-untyped-def]
    scalars, orders = s.scalars, s.orders
    slot = row_at(s.ids, place_of(s.ids, orders, order_id))
    if slot == 0:
        tell(out, scalars, REJECTED, order_id, UNKNOWN_ORDER, CANCEL, NONE, 0, 0, 0)
        return
    side, price = _side(s, slot), s.levels[(orders[slot + O_LEVEL] & ROW) + L_PRICE]
    quantity = orders[slot + O_SHOWN] + orders[slot + O_RESERVE]
    if _stops(s, slot):
        price = s.stops[slot + W_LIMIT]
        scalars[S_WAITING] -= 1
    withdraw(s, slot)
    free_order(s, slot)
    tell(out, scalars, CANCELLED, order_id, BY_CANCEL, side, price, quantity, 0, 0)
    return


@inlined
def _side(s, slot):  # type: ignore[no-untyped-def]
    return 1 - 2 * (s.levels[(s.orders[slot + O_LEVEL] & ROW) + L_BOOK] & 1)


@inlined
def _stops(s, slot):  # type: ignore[no-untyped-def]
    return s.levels[(s.orders[slot + O_LEVEL] & ROW) + L_BOOK] >= 2


@inlined
def _modify(s, out, order_id, quantity, price):  # type: ignore[no-untyped-def]
    scalars, orders = s.scalars, s.orders
    slot = row_at(s.ids, place_of(s.ids, orders, order_id))
    fault = -1
    if slot == 0:
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
        or (orders[slot + O_TIP] > 0 and quantity > orders[slot + O_TIP] * MOST_TIPS)
    ):
        fault = BAD_VALUE
    if fault >= 0:
        tell(out, scalars, REJECTED, order_id, fault, MODIFY, NONE, 0, 0, 0)
        return
    side, tip, owner = _side(s, slot), orders[slot + O_TIP], orders[slot + O_OWNER]
    level = orders[slot + O_LEVEL] & ROW
    old_price, old_shown = s.levels[level + L_PRICE], orders[slot + O_SHOWN]
    old = old_shown + orders[slot + O_RESERVE]
    if scalars[S_MODIFY_RULE] and price == old_price and quantity <= old:
        shown = min(old_shown, quantity)
        count(s, level, shown - old_shown, quantity - shown - orders[slot + O_RESERVE])
        scalars[S_TIPS] -= tips(orders, slot)
        orders[slot + O_SHOWN], orders[slot + O_RESERVE] = shown, quantity - shown
        scalars[S_TIPS] += tips(orders, slot)
        tell(out, scalars, MODIFIED, order_id, 1, side, price, quantity, old, old_price)
        return
    withdraw(s, slot)
    free_order(s, slot)
    tell(out, scalars, WITHDRAWN, order_id, 0, side, old_price, old, 0, 0)
    left = quantity
    if scalars[S_STATE] == CONTINUOUS:
        left = match(s, out, order_id, side, quantity, price, owner)
    tell(out, scalars, MODIFIED, order_id, 0, side, price, quantity, old, old_price)
    if left > 0:
        rest(s, out, order_id, side, price, left, tip, owner)


@inlined
def rows_at_most(scalars):  # type: ignore[no-untyped-def]
    """Report rows that one message can cause: a trade and a refresh for every turn an order can have, and a few for each taker."""
    return 2 * (scalars[S_ORDERS] + scalars[S_TIPS] + MOST_TIPS) + 8 * (scalars[S_WAITING] + 2)


@compiled
def work(s, messages, first, end, out, after):  # type: ignore[no-untyped-def]
    """Work through ``messages[:, first:end]`` as long as ``out`` has room and no auction needs its price; returns the next message.

    messages: (MESSAGE_WIDTH, n); out: (room * REPORT_WIDTH,), rows [0, scalars[S_REPORTS]) are written; after: (n, AFTER_WIDTH),
    or (0, …) when nobody asks. Compiled without reference counts (they would cost ten times the work), so that nothing
    here may allocate.
    """
    scalars, levels = s.scalars, s.levels
    room = len(out) // REPORT_WIDTH
    for n in range(first & ROW, end & ROW):
        scalars[S_REPORTS] *= scalars[S_KEEP]
        if scalars[S_REPORTS] + rows_at_most(scalars) > room or not has_room(s.words, s.pages, scalars[S_WAITING] + 1):
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
            uncross(s, out)
        else:
            scalars[S_STATE] = HALTED if action == HALT else IN_AUCTION
            tell(out, scalars, STATE_CHANGED, scalars[S_STATE], 0, 0, NONE, 0, 0, 0)
        if scalars[S_LOW] != NONE:
            if scalars[S_WAITING]:
                trigger_stops(s, out)
            scalars[S_LOW] = scalars[S_HIGH] = NONE
        scalars[S_SEQ] += 1
        bid, ask = scalars[S_BEST] & ROW, scalars[S_BEST + 1] & ROW
        if scalars[S_STATE] == CONTINUOUS and bid != 0 and ask != 0 and levels[bid + L_PRICE] >= levels[ask + L_PRICE]:
            scalars[S_CROSSED] += 1
        if len(after):
            after[n, A_BID] = levels[bid + L_PRICE] if bid != 0 else NONE
            after[n, A_ASK] = levels[ask + L_PRICE] if ask != 0 else NONE
            after[n, A_BID_DEPTH], after[n, A_ASK_DEPTH] = scalars[S_BID_DEPTH], scalars[S_ASK_DEPTH]
            after[n, A_TRADES], after[n, A_VOLUME] = scalars[S_TRADES], scalars[S_VOLUME]
    return end
