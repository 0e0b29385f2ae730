"""The matching engine's memory: orders, levels and their indices as integer arrays, and the moves that keep them in step.

Every array is as long as what rests, never as the range of prices or of order ids (`core.markets.kernels.price_pages`,
`core.markets.kernels.order_ids`). Orders, stops and levels are rows in arrays of one dimension: a row is named by where it begins, its
columns stand at fixed distances, and row 0 is nobody (what is written there is never read). Books are 0 bids, 1 asks, 2 buy
stops, 3 sell stops; a stop waits in the queue of its trigger price. The kernels never grow an array:
`core.markets.engine.engine.Engine` makes room before it hands them a block of messages.
"""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from core.markets.kernels.compiled import inlined
from core.markets.kernels.order_ids import forget, place_of, remember
from core.markets.kernels.price_pages import level_at, occupy, rank_of, vacate, vacate_best

# order: columns of State.orders, one cache line each; what rests hidden (a hidden order, an iceberg's reserve) is in O_RESERVE.
# O_TIP: what an iceberg shows at a time, 0 for all, `NEVER_SHOWN` for a hidden order
O_ID, O_LEVEL, O_SHOWN, O_RESERVE, O_PREV, O_NEXT, O_OWNER, O_TIP = range(8)
ORDER_WIDTH = 8
ROW = 0x7FFFFFFF
"""Rows are below: says so to the compiler, which need not look for negative indices then."""
NEVER_SHOWN = -1
# stop: columns of State.stops, in the row of its order
W_SIDE, W_LIMIT, W_TRIGGER, W_ARRIVAL = range(4)
# level: columns of State.levels; two queues, the displayed one and the hidden one behind it
L_PRICE, L_SHOWN, L_RESERVE, L_HEAD, L_TAIL, L_HIDDEN_HEAD, L_HIDDEN_TAIL, L_BOOK = range(8)
LEVEL_WIDTH = 8
# report row: columns of an output block
R_KIND, R_SEQ, R_ORDER, R_OTHER, R_SIDE, R_PRICE, R_QUANTITY, R_EXTRA, R_LEVEL = range(9)
REPORT_WIDTH = 9
# after-message row: what the book shows when a message is done
A_BID, A_ASK, A_BID_DEPTH, A_ASK_DEPTH, A_TRADES, A_VOLUME = range(6)
AFTER_WIDTH = 6

(S_REPORTS, S_SEQ, S_FREE_ORDER, S_FREE_LEVEL, S_ORDERS, S_LEVELS, S_BEST, S_BEST_ASK, S_BEST_BUY_STOP, S_BEST_SELL_STOP,
 S_STATE, S_LAST, S_LOW, S_HIGH, S_MODIFY_RULE, S_SLIDE, S_SELF_TRADE, S_LOWEST, S_WAITING, S_ARRIVALS, S_BID_DEPTH, S_ASK_DEPTH,
 S_BUY_STOP_DEPTH, S_SELL_STOP_DEPTH, S_TRADES, S_VOLUME, S_CROSSED, S_TIPS, S_CLEARED, S_CLEARING, S_KEEP) = range(31)  # fmt: skip
SCALARS = 32

NONE = -(1 << 62)
"""No price: a market order's, an empty side's."""

(ACCEPTED, TRADE, RESTED, CANCELLED, SLID, MODIFIED, WITHDRAWN, REFRESHED, WAITS, TRIGGERED, DECREMENTED, STATE_CHANGED,
 REJECTED) = range(13)  # fmt: skip


class State(NamedTuple):
    """scalars (SCALARS,); orders and stops (rows * ORDER_WIDTH,); levels (rows * LEVEL_WIDTH,); ids: see `core.markets.kernels.order_ids`;
    words, pages: see `core.markets.kernels.price_pages`; wave (rows,): stops that have triggered and wait for their turn."""

    scalars: np.ndarray
    orders: np.ndarray
    levels: np.ndarray
    ids: np.ndarray
    words: np.ndarray
    pages: np.ndarray
    stops: np.ndarray
    wave: np.ndarray


@inlined
def new_order(s, at, order_id):  # type: ignore[no-untyped-def]
    """A free row of ``orders``; ``at`` is the place of its id."""
    scalars, orders = s.scalars, s.orders
    slot = scalars[S_FREE_ORDER] & ROW
    scalars[S_FREE_ORDER] = orders[slot + O_NEXT]
    scalars[S_ORDERS] += 1
    orders[slot + O_ID] = order_id
    remember(s.ids, at, order_id, slot)
    return slot


@inlined
def free_order(s, slot):  # type: ignore[no-untyped-def]
    scalars, orders = s.scalars, s.orders
    forget(s.ids, place_of(s.ids, orders, orders[slot + O_ID]))
    orders[slot + O_NEXT] = scalars[S_FREE_ORDER]
    scalars[S_FREE_ORDER] = slot
    scalars[S_ORDERS] -= 1


@inlined
def open_level(s, book, price):  # type: ignore[no-untyped-def]
    """The level of ``book`` at ``price``, made when there is none."""
    scalars, levels = s.scalars, s.levels
    rank = rank_of(book, price)
    level = level_at(s.words, s.pages, book, rank)
    if level != 0:
        return level
    level = scalars[S_FREE_LEVEL] & ROW
    scalars[S_FREE_LEVEL] = levels[level + L_HEAD]
    scalars[S_LEVELS] += 1
    levels[level + L_PRICE] = price
    levels[level + L_SHOWN] = levels[level + L_RESERVE] = 0
    levels[level + L_HEAD] = levels[level + L_TAIL] = levels[level + L_HIDDEN_HEAD] = levels[level + L_HIDDEN_TAIL] = 0
    levels[level + L_BOOK] = book
    occupy(s.words, s.pages, book, rank, level)
    best = scalars[S_BEST + book] & ROW
    if best == 0 or rank < rank_of(book, levels[best + L_PRICE]):
        scalars[S_BEST + book] = level
    return level


@inlined
def close_level(s, level):  # type: ignore[no-untyped-def]
    """Drop an empty level; the bitmap knows the next best."""
    scalars, levels = s.scalars, s.levels
    book = levels[level + L_BOOK] & 3
    rank = rank_of(book, levels[level + L_PRICE])
    if scalars[S_BEST + book] == level:
        scalars[S_BEST + book] = vacate_best(s.words, s.pages, book, rank)
    else:
        vacate(s.words, s.pages, book, rank)
    levels[level + L_HEAD] = scalars[S_FREE_LEVEL]
    scalars[S_FREE_LEVEL] = level
    scalars[S_LEVELS] -= 1


@inlined
def count(s, level, shown, reserve):  # type: ignore[no-untyped-def]
    """Add to what a level displays and to what it holds besides."""
    s.levels[level + L_SHOWN] += shown
    s.levels[level + L_RESERVE] += reserve
    s.scalars[S_BID_DEPTH + (s.levels[level + L_BOOK] & 3)] += shown


@inlined
def tips(orders, slot):  # type: ignore[no-untyped-def]
    """How often an iceberg can still refresh."""
    tip = orders[slot + O_TIP]
    return (orders[slot + O_RESERVE] + tip - 1) // tip if tip > 0 else 0


@inlined
def link(s, level, slot):  # type: ignore[no-untyped-def]
    """Put an order at the back of its queue."""
    orders, levels = s.orders, s.levels
    head = level + (L_HIDDEN_HEAD if orders[slot + O_TIP] < 0 else L_HEAD)
    tail = levels[head + 1] & ROW
    orders[slot + O_PREV] = tail
    orders[slot + O_NEXT] = 0
    orders[tail + O_NEXT] = slot
    if tail == 0:
        levels[head] = slot
    levels[head + 1] = slot


@inlined
def unlink(s, level, slot):  # type: ignore[no-untyped-def]
    orders, levels = s.orders, s.levels
    head = level + (L_HIDDEN_HEAD if orders[slot + O_TIP] < 0 else L_HEAD)
    before, after = orders[slot + O_PREV] & ROW, orders[slot + O_NEXT] & ROW
    orders[before + O_NEXT] = after
    orders[after + O_PREV] = before
    levels[head] = after if before == 0 else levels[head]
    levels[head + 1] = before if after == 0 else levels[head + 1]


@inlined
def append(s, slot, book, price, quantity):  # type: ignore[no-untyped-def]
    """Queue order ``slot`` at ``price``; returns the quantity displayed ahead of it."""
    orders = s.orders
    level = open_level(s, book, price)
    ahead = s.levels[level + L_SHOWN]
    tip = orders[slot + O_TIP]
    shown = 0 if tip < 0 else (min(tip, quantity) if tip else quantity)
    orders[slot + O_LEVEL] = level
    orders[slot + O_SHOWN] = shown
    orders[slot + O_RESERVE] = quantity - shown
    link(s, level, slot)
    count(s, level, shown, quantity - shown)
    s.scalars[S_TIPS] += tips(orders, slot)
    return ahead


@inlined
def withdraw(s, slot):  # type: ignore[no-untyped-def]
    """Take a queued order out, and its level with it when it was the last. The row stays in use."""
    orders, levels = s.orders, s.levels
    level = orders[slot + O_LEVEL] & ROW
    count(s, level, -orders[slot + O_SHOWN], -orders[slot + O_RESERVE])
    s.scalars[S_TIPS] -= tips(orders, slot)
    unlink(s, level, slot)
    if levels[level + L_HEAD] == 0 and levels[level + L_HIDDEN_HEAD] == 0:
        close_level(s, level)


@inlined
def fill(s, slot, quantity):  # type: ignore[no-untyped-def]
    """Take ``quantity`` off a front order, which leaves at 0; returns whether an iceberg shows its next tip at the back."""
    orders = s.orders
    shown, reserve = orders[slot + O_SHOWN], orders[slot + O_RESERVE]
    if quantity == shown + reserve:
        withdraw(s, slot)
        free_order(s, slot)
        return False
    level = orders[slot + O_LEVEL] & ROW
    if orders[slot + O_TIP] < 0:
        orders[slot + O_RESERVE] = reserve - quantity
        count(s, level, 0, -quantity)
        return False
    if quantity < shown:
        orders[slot + O_SHOWN] = shown - quantity
        count(s, level, -quantity, 0)
        return False
    tip = min(orders[slot + O_TIP], reserve)
    orders[slot + O_SHOWN] = tip
    orders[slot + O_RESERVE] = reserve - tip
    s.scalars[S_TIPS] -= 1
    count(s, level, tip - quantity, -tip)
    unlink(s, level, slot)
    link(s, level, slot)
    return True
