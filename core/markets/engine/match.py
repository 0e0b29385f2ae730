"""An arriving order meets the book: price first, then displayed before hidden, then time; self-trades are prevented on the way."""

# ruff: noqa: ANN001, ANN201, SIM109 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.engine.codes import BY_FOK, BY_IOC, BY_MARKET, BY_SELF_TRADE, DECREMENT, FOK, HIDDEN, IOC, MARKET, NEWEST, OFF, OLDEST
from core.markets.engine.state import (
    CANCELLED,
    DECREMENTED,
    L_HEAD,
    L_HIDDEN_HEAD,
    L_PRICE,
    L_RESERVE,
    L_SHOWN,
    NEVER_SHOWN,
    NONE,
    O_ID,
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
    REPORT_WIDTH,
    RESTED,
    ROW,
    S_BEST,
    S_HIGH,
    S_LAST,
    S_LOW,
    S_REPORTS,
    S_SELF_TRADE,
    S_SEQ,
    S_TRADES,
    S_VOLUME,
    S_WAITING,
    TRADE,
    append,
    fill,
    free_order,
    new_order,
    withdraw,
)
from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.order_ids import place_of
from core.markets.kernels.price_pages import next_level, rank_of


@inlined
def tell(out, scalars, kind, order, other, side, price, quantity, extra, level):  # type: ignore[no-untyped-def]
    """Write a report row; `work` has made sure that there is room."""
    row = (scalars[S_REPORTS] & ROW) * REPORT_WIDTH
    scalars[S_REPORTS] += 1
    out[row + R_KIND], out[row + R_SEQ], out[row + R_ORDER], out[row + R_OTHER] = kind, scalars[S_SEQ], order, other
    out[row + R_SIDE], out[row + R_PRICE], out[row + R_QUANTITY], out[row + R_EXTRA], out[row + R_LEVEL] = (
        side, price, quantity, extra, level,
    )  # fmt: skip


@inlined
def touch(scalars, price):  # type: ignore[no-untyped-def]
    scalars[S_LOW] = price if scalars[S_LOW] == NONE else min(scalars[S_LOW], price)
    scalars[S_HIGH] = price if scalars[S_HIGH] == NONE else max(scalars[S_HIGH], price)


@inlined
def note(scalars, price, quantity):  # type: ignore[no-untyped-def]
    scalars[S_LAST] = price
    scalars[S_TRADES] += 1
    scalars[S_VOLUME] += quantity
    if scalars[S_WAITING]:
        touch(scalars, price)


@inlined
def match(s, out, taker, side, left, limit, owner):  # type: ignore[no-untyped-def]
    """Take from the best opposite price, the front order first, up to ``limit`` (NONE: any price); returns what is left."""
    scalars, orders, levels = s.scalars, s.orders, s.levels
    best = S_BEST + (1 if side > 0 else 0)
    mode = scalars[S_SELF_TRADE] if owner else OFF
    while left > 0:
        level = scalars[best] & ROW
        if level == 0:
            break
        price = levels[level + L_PRICE]
        if limit != NONE and side * (price - limit) > 0:
            break
        slot = levels[level + L_HEAD] & ROW
        reach = 0
        if slot == 0:
            slot = levels[level + L_HIDDEN_HEAD] & ROW
            reach = orders[slot + O_RESERVE]
        else:
            reach = orders[slot + O_SHOWN]
        maker, total = orders[slot + O_ID], orders[slot + O_SHOWN] + orders[slot + O_RESERVE]
        own = mode != OFF and orders[slot + O_OWNER] == owner
        if own and mode != DECREMENT:
            if mode != NEWEST:
                withdraw(s, slot)
                free_order(s, slot)
                tell(out, scalars, CANCELLED, maker, BY_SELF_TRADE, -side, price, total, 0, 0)
            if mode != OLDEST:
                tell(out, scalars, CANCELLED, taker, BY_SELF_TRADE, side, limit, left, 0, 0)
                left = 0
            continue
        quantity = min(left, reach)
        left -= quantity
        refreshed = fill(s, slot, quantity)
        shown = 0 if scalars[best] != level else levels[level + L_SHOWN]
        if not own:
            note(scalars, price, quantity)
        tell(out, scalars, DECREMENTED if own else TRADE, taker, maker, side, price, quantity, total - quantity, shown)
        if refreshed:
            tell(out, scalars, REFRESHED, maker, 0, -side, price, orders[slot + O_SHOWN], orders[slot + O_RESERVE], 0)
    return left


@inlined
def rest(s, out, order_id, side, price, left, tip, owner):  # type: ignore[no-untyped-def]
    orders = s.orders
    slot = new_order(s, place_of(s.ids, orders, order_id), order_id)
    orders[slot + O_OWNER], orders[slot + O_TIP] = owner, tip
    ahead = append(s, slot, 0 if side > 0 else 1, price, left)
    tell(out, s.scalars, RESTED, order_id, 0, side, price, left, ahead, 0)


@compiled
def available(s, side, limit, wanted, owner):  # type: ignore[no-untyped-def]
    """What an order of ``owner`` could fill at once; may stop counting at ``wanted``."""
    orders, levels = s.orders, s.levels
    book = 1 if side > 0 else 0
    level = s.scalars[S_BEST + book] & ROW
    mode = s.scalars[S_SELF_TRADE] if owner else OFF
    found = 0
    while level != 0 and found < wanted:
        price = levels[level + L_PRICE]
        if limit != NONE and side * (price - limit) > 0:
            break
        if mode == OFF:
            found += levels[level + L_SHOWN] + levels[level + L_RESERVE]
        else:
            shown = total = 0
            for queue in (L_HEAD, L_HIDDEN_HEAD):
                slot = levels[level + queue] & ROW
                while slot != 0:
                    if orders[slot + O_OWNER] == owner:
                        if mode != OLDEST:
                            return found + (total if queue == L_HIDDEN_HEAD else shown)
                    else:
                        shown += orders[slot + O_SHOWN]
                        total += orders[slot + O_SHOWN] + orders[slot + O_RESERVE]
                    slot = orders[slot + O_NEXT] & ROW
            found += total
        level = next_level(s.words, s.pages, book, rank_of(book, price))
    return found


@inlined
def take(s, out, order_id, side, quantity, limit, kind, tip, owner):  # type: ignore[no-untyped-def]
    """Match an arriving order; what is left rests or is cancelled, as its kind says."""
    left = match(s, out, order_id, side, quantity, limit, owner)
    if left > 0:
        if kind == MARKET or kind == IOC or kind == FOK:
            reason = BY_MARKET if kind == MARKET else BY_IOC if kind == IOC else BY_FOK
            tell(out, s.scalars, CANCELLED, order_id, reason, side, limit, left, 0, 0)
        else:
            rest(s, out, order_id, side, limit, left, NEVER_SHOWN if kind == HIDDEN else tip, owner)
