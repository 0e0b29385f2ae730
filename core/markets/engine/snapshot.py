"""Reading the engine's queues: the levels a ladder shows, and all orders for a keyframe and back."""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.engine.state import (
    L_HEAD,
    L_HIDDEN_HEAD,
    L_PRICE,
    L_RESERVE,
    L_SHOWN,
    O_ID,
    O_LEVEL,
    O_NEXT,
    O_OWNER,
    O_RESERVE,
    O_SHOWN,
    O_TIP,
    ROW,
    S_BEST,
    S_TIPS,
    W_ARRIVAL,
    W_LIMIT,
    W_SIDE,
    W_TRIGGER,
    State,
    append,
    count,
    new_order,
    tips,
)  # fmt: skip
from core.markets.kernels.compiled import compiled
from core.markets.kernels.order_ids import place_of
from core.markets.kernels.price_pages import has_room, next_level, rank_of

K_ID, K_BOOK, K_PRICE, K_SHOWN, K_RESERVE, K_OWNER, K_TIP, K_LIMIT, K_ARRIVAL = range(9)
SNAPSHOT_WIDTH = 9


@compiled
def _next_level(s, book, level):  # type: ignore[no-untyped-def]
    return next_level(s.words, s.pages, book, rank_of(book, s.levels[level + L_PRICE]))


@compiled
def snapshot(s, rows):  # type: ignore[no-untyped-def]
    """Fill ``rows`` (resting, SNAPSHOT_WIDTH) book by book, best level first, front order first, hidden ones last."""
    orders, n = s.orders, 0
    for book in range(4):
        level = s.scalars[S_BEST + book] & ROW
        while level != 0:
            for queue in (L_HEAD, L_HIDDEN_HEAD):
                slot = s.levels[level + queue] & ROW
                while slot != 0:
                    rows[n, K_ID], rows[n, K_BOOK], rows[n, K_PRICE] = orders[slot + O_ID], book, s.levels[level + L_PRICE]
                    rows[n, K_SHOWN], rows[n, K_RESERVE] = orders[slot + O_SHOWN], orders[slot + O_RESERVE]
                    rows[n, K_OWNER] = orders[slot + O_OWNER]
                    rows[n, K_TIP] = orders[slot + O_TIP]
                    rows[n, K_LIMIT] = s.stops[slot + W_LIMIT] if book >= 2 else 0
                    rows[n, K_ARRIVAL] = s.stops[slot + W_ARRIVAL] if book >= 2 else 0
                    n += 1
                    slot = orders[slot + O_NEXT] & ROW
            level = _next_level(s, book, level)


@compiled
def restore(s, rows, first):  # type: ignore[no-untyped-def]
    """Queue the orders of a snapshot from row ``first`` on while the price index has room; returns the next row."""
    orders = s.orders
    for n in range(first & ROW, len(rows)):
        if not has_room(s.words, s.pages, 1):
            return n
        slot = new_order(s, place_of(s.ids, orders, rows[n, K_ID]), rows[n, K_ID])
        book, shown, reserve = rows[n, K_BOOK], rows[n, K_SHOWN], rows[n, K_RESERVE]
        orders[slot + O_OWNER], orders[slot + O_TIP] = rows[n, K_OWNER], min(rows[n, K_TIP], 0)
        append(s, slot, book, rows[n, K_PRICE], shown + reserve)
        count(s, orders[slot + O_LEVEL] & ROW, shown - orders[slot + O_SHOWN], reserve - orders[slot + O_RESERVE])
        orders[slot + O_SHOWN], orders[slot + O_RESERVE], orders[slot + O_TIP] = shown, reserve, rows[n, K_TIP]
        if book >= 2:
            s.stops[slot + W_SIDE], s.stops[slot + W_LIMIT] = 1 if book == 2 else -1, rows[n, K_LIMIT]
            s.stops[slot + W_TRIGGER], s.stops[slot + W_ARRIVAL] = rows[n, K_PRICE], rows[n, K_ARRIVAL]
        if book < 2:
            s.scalars[S_TIPS] += tips(orders, slot)
    return len(rows)


@compiled
def _queues(s, book, depth, longest, levels, orders, fill):  # type: ignore[no-untyped-def]
    """Walk the displayed queues of the best ``depth`` levels; returns (levels, orders), written down when ``fill``."""
    found, entries = 0, 0
    level = s.scalars[S_BEST + book] & ROW
    while level != 0 and found < depth:
        if s.levels[level + L_SHOWN] > 0:
            slot, begin = s.levels[level + L_HEAD] & ROW, entries
            while slot != 0 and entries - begin < longest:
                if fill:
                    orders[entries, 0], orders[entries, 1] = s.orders[slot + O_ID], s.orders[slot + O_SHOWN]
                entries += 1
                slot = s.orders[slot + O_NEXT] & ROW
            if fill:
                levels[found, 0], levels[found, 1], levels[found, 2] = s.levels[level + L_PRICE], s.levels[level + L_SHOWN], entries
            found += 1
        level = _next_level(s, book, level)
    return found, entries


@compiled
def totals(s, book, found):  # type: ignore[no-untyped-def]
    """Fill ``found`` (levels, 2) with the price and the whole quantity of each level, best first; returns how many there are."""
    level, n = s.scalars[S_BEST + book] & ROW, 0
    while level != 0:
        found[n, 0] = s.levels[level + L_PRICE]
        found[n, 1] = s.levels[level + L_SHOWN] + s.levels[level + L_RESERVE]
        n += 1
        level = _next_level(s, book, level)
    return n


def queues_from_best(s: State, book: int, depth: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """(levels, orders) of the best ``depth`` displayed levels: (price, shown, end of its orders), and (id, shown) of each order.

    Of a queue the first ``longest`` orders are given.
    """
    none = np.empty((0, 3), dtype=np.int64)
    count_levels, count_orders = _queues(s, book, depth, longest, none, none, False)
    levels, orders = np.empty((count_levels, 3), dtype=np.int64), np.empty((count_orders, 3), dtype=np.int64)
    _queues(s, book, depth, longest, levels, orders, True)
    return levels, orders[:, :2]
