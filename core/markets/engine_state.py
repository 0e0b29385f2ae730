"""The matching engine's memory: orders, levels and their indices as integer arrays, and the moves that keep them in step.

Every array is as long as what rests, never as the range of prices or of order ids (`core.markets.price_index`). Books are
0 bids, 1 asks, 2 buy stops, 3 sell stops; a stop waits in the queue of its trigger price. The kernels never grow an array:
`core.markets.engine.Engine` makes room before it hands them a block of messages.
"""

# ruff: noqa: ANN001, ANN201 - numba finds the types of the kernels
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from core.markets.compiled import inlined
from core.markets.price_index import drop_at, find, lookup, next_rank, occupy, price_of, rank_of, vacate

# order: columns of State.orders, one cache line each; what rests hidden (a hidden order, an iceberg's reserve) is in O_RESERVE.
# O_TIP: what an iceberg shows at a time, 0 for all, `NEVER_SHOWN` for a hidden order
O_ID, O_LEVEL, O_SHOWN, O_RESERVE, O_PREV, O_NEXT, O_OWNER, O_TIP = range(8)
ORDER_WIDTH = 8
NEVER_SHOWN = -1
# stop: columns of State.stops, by the row of its order
W_SIDE, W_LIMIT, W_TRIGGER, W_ARRIVAL = range(4)
STOP_WIDTH = 4
# level: columns of State.levels; two queues, the displayed one and the hidden one behind it
L_PRICE, L_SHOWN, L_RESERVE, L_HEAD, L_TAIL, L_HIDDEN_HEAD, L_HIDDEN_TAIL, L_BOOK = range(8)
# report row: columns of an output block
R_KIND, R_SEQ, R_ORDER, R_OTHER, R_SIDE, R_PRICE, R_QUANTITY, R_EXTRA, R_LEVEL = range(9)
REPORT_WIDTH = 9
# after-message row: what the book shows when a message is done
A_BID, A_ASK, A_BID_DEPTH, A_ASK_DEPTH, A_TRADES, A_VOLUME = range(6)
AFTER_WIDTH = 6

(S_REPORTS, S_SEQ, S_FREE_ORDER, S_FREE_LEVEL, S_ORDERS, S_LEVELS, S_WORDS, S_BEST, S_BEST_ASK, S_BEST_BUY_STOP, S_BEST_SELL_STOP,
 S_STATE, S_LAST, S_LOW, S_HIGH, S_MODIFY_RULE, S_SLIDE, S_SELF_TRADE, S_LOWEST, S_WAITING, S_ARRIVALS, S_BID_DEPTH, S_ASK_DEPTH,
 S_TRADES, S_VOLUME, S_CROSSED, S_TIPS, S_CLEARED, S_CLEARING) = range(29)  # fmt: skip
SCALARS = 32

NONE = -(1 << 62)
"""No price: a market order's, an empty side's."""

(ACCEPTED, TRADE, RESTED, CANCELLED, SLID, MODIFIED, WITHDRAWN, REFRESHED, WAITS, TRIGGERED, DECREMENTED, STATE_CHANGED,
 REJECTED) = range(13)  # fmt: skip


class State(NamedTuple):
    """scalars (SCALARS,); orders (room, ORDER_WIDTH); stops (room, STOP_WIDTH); levels (room, 8); ids, prices,
    words: hash tables of order ids, of levels by (price, book) and of bitmap words; wave (room,):
    stops that have triggered and wait for their turn."""

    scalars: np.ndarray
    orders: np.ndarray
    levels: np.ndarray
    ids: np.ndarray
    prices: np.ndarray
    words: np.ndarray
    stops: np.ndarray
    wave: np.ndarray


@inlined
def new_order(scalars, orders, ids, order_id):  # type: ignore[no-untyped-def]
    """A free row of ``orders``, found again by its id."""
    slot = scalars[S_FREE_ORDER]
    scalars[S_FREE_ORDER] = orders[slot, O_NEXT]
    scalars[S_ORDERS] += 1
    orders[slot, O_ID] = order_id
    at = find(ids, order_id)
    ids[at, 0] = order_id
    ids[at, 1] = slot
    return slot


@inlined
def free_order(scalars, orders, ids, slot):  # type: ignore[no-untyped-def]
    drop_at(ids, find(ids, orders[slot, O_ID]))
    orders[slot, O_NEXT] = scalars[S_FREE_ORDER]
    scalars[S_FREE_ORDER] = slot
    scalars[S_ORDERS] -= 1


@inlined
def open_level(scalars, levels, prices, words, book, price):  # type: ignore[no-untyped-def]
    """The level of ``book`` at ``price``, made when there is none."""
    key = price << 2 | book
    at = find(prices, key)
    if prices[at, 0] == key:
        return prices[at, 1]
    level = scalars[S_FREE_LEVEL]
    scalars[S_FREE_LEVEL] = levels[level, L_HEAD]
    scalars[S_LEVELS] += 1
    prices[at, 0] = key
    prices[at, 1] = level
    levels[level, L_PRICE] = price
    levels[level, L_SHOWN] = levels[level, L_RESERVE] = 0
    levels[level, L_HEAD] = levels[level, L_TAIL] = levels[level, L_HIDDEN_HEAD] = levels[level, L_HIDDEN_TAIL] = -1
    levels[level, L_BOOK] = book
    rank = rank_of(book, price)
    scalars[S_WORDS] += occupy(words, book, rank)
    best = scalars[S_BEST + book]
    if best < 0 or rank < rank_of(book, levels[best, L_PRICE]):
        scalars[S_BEST + book] = level
    return level


@inlined
def close_level(scalars, levels, prices, words, level):  # type: ignore[no-untyped-def]
    """Drop an empty level; the bitmap knows the next best."""
    book, price = levels[level, L_BOOK], levels[level, L_PRICE]
    rank = rank_of(book, price)
    if scalars[S_BEST + book] == level:
        after = next_rank(words, book, rank)
        scalars[S_BEST + book] = -1 if after < 0 else lookup(prices, price_of(book, after) << 2 | book, -1)
    scalars[S_WORDS] -= vacate(words, book, rank)
    drop_at(prices, find(prices, price << 2 | book))
    levels[level, L_HEAD] = scalars[S_FREE_LEVEL]
    scalars[S_FREE_LEVEL] = level
    scalars[S_LEVELS] -= 1


@inlined
def count(scalars, levels, level, shown, reserve):  # type: ignore[no-untyped-def]
    """Add to what a level displays and to what it holds besides."""
    levels[level, L_SHOWN] += shown
    levels[level, L_RESERVE] += reserve
    if levels[level, L_BOOK] < 2:
        scalars[S_BID_DEPTH + levels[level, L_BOOK]] += shown


@inlined
def tips(orders, slot):  # type: ignore[no-untyped-def]
    """How often an iceberg can still refresh."""
    tip = orders[slot, O_TIP]
    return (orders[slot, O_RESERVE] + tip - 1) // tip if tip > 0 else 0


@inlined
def link(orders, levels, level, slot):  # type: ignore[no-untyped-def]
    """Put an order at the back of its queue."""
    tail_column = L_HIDDEN_TAIL if orders[slot, O_TIP] < 0 else L_TAIL
    tail = levels[level, tail_column]
    orders[slot, O_PREV] = tail
    orders[slot, O_NEXT] = -1
    if tail < 0:
        levels[level, tail_column - 1] = slot
    else:
        orders[tail, O_NEXT] = slot
    levels[level, tail_column] = slot


@inlined
def unlink(orders, levels, level, slot):  # type: ignore[no-untyped-def]
    head_column = L_HIDDEN_HEAD if orders[slot, O_TIP] < 0 else L_HEAD
    before, after = orders[slot, O_PREV], orders[slot, O_NEXT]
    if before < 0:
        levels[level, head_column] = after
    else:
        orders[before, O_NEXT] = after
    if after < 0:
        levels[level, head_column + 1] = before
    else:
        orders[after, O_PREV] = before


@inlined
def append(scalars, orders, levels, prices, words, slot, book, price, quantity):  # type: ignore[no-untyped-def]
    """Queue order ``slot`` at ``price``; returns the quantity displayed ahead of it."""
    level = open_level(scalars, levels, prices, words, book, price)
    ahead = levels[level, L_SHOWN]
    tip = orders[slot, O_TIP]
    shown = 0 if tip < 0 else (min(tip, quantity) if tip else quantity)
    orders[slot, O_LEVEL] = level
    orders[slot, O_SHOWN] = shown
    orders[slot, O_RESERVE] = quantity - shown
    link(orders, levels, level, slot)
    count(scalars, levels, level, shown, quantity - shown)
    scalars[S_TIPS] += tips(orders, slot)
    return ahead


@inlined
def withdraw(scalars, orders, levels, prices, words, slot):  # type: ignore[no-untyped-def]
    """Take a queued order out, and its level with it when it was the last. The row stays in use."""
    level = orders[slot, O_LEVEL]
    count(scalars, levels, level, -orders[slot, O_SHOWN], -orders[slot, O_RESERVE])
    if levels[level, L_BOOK] < 2:
        scalars[S_TIPS] -= tips(orders, slot)
    unlink(orders, levels, level, slot)
    if levels[level, L_HEAD] < 0 and levels[level, L_HIDDEN_HEAD] < 0:
        close_level(scalars, levels, prices, words, level)


@inlined
def fill(scalars, orders, levels, ids, prices, words, slot, quantity):  # type: ignore[no-untyped-def]
    """Take ``quantity`` off a front order, which leaves at 0; returns whether an iceberg shows its next tip at the back."""
    shown, reserve = orders[slot, O_SHOWN], orders[slot, O_RESERVE]
    if quantity == shown + reserve:
        withdraw(scalars, orders, levels, prices, words, slot)
        free_order(scalars, orders, ids, slot)
        return False
    level = orders[slot, O_LEVEL]
    if orders[slot, O_TIP] < 0:
        orders[slot, O_RESERVE] = reserve - quantity
        count(scalars, levels, level, 0, -quantity)
        return False
    if quantity < shown:
        orders[slot, O_SHOWN] = shown - quantity
        count(scalars, levels, level, -quantity, 0)
        return False
    tip = min(orders[slot, O_TIP], reserve)
    orders[slot, O_SHOWN] = tip
    orders[slot, O_RESERVE] = reserve - tip
    scalars[S_TIPS] -= 1
    count(scalars, levels, level, tip - quantity, -tip)
    unlink(orders, levels, level, slot)
    link(orders, levels, level, slot)
    return True
