"""The end of an auction: the collected book uncrosses at one price."""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.engine.codes import CONTINUOUS
from core.markets.engine.match import note, tell, touch
from core.markets.engine.state import (
    L_HEAD,
    L_HIDDEN_HEAD,
    L_PRICE,
    L_SHOWN,
    NONE,
    O_ID,
    O_LEVEL,
    O_RESERVE,
    O_SHOWN,
    O_TIP,
    REFRESHED,
    ROW,
    S_BEST,
    S_CLEARED,
    S_CLEARING,
    S_LAST,
    S_LOW,
    S_STATE,
    STATE_CHANGED,
    TRADE,
    fill,
)
from core.markets.kernels.compiled import compiled
from core.markets.kernels.price_pages import level_at, rank_of


@compiled
def _front(s, book):  # type: ignore[no-untyped-def]
    level = s.scalars[S_BEST + book] & ROW
    slot = s.levels[level + L_HEAD] & ROW
    return slot if slot != 0 else s.levels[level + L_HIDDEN_HEAD] & ROW


@compiled
def uncross(s, out):  # type: ignore[no-untyped-def]
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
            quantity = min(quantity, orders[slot + O_RESERVE] if orders[slot + O_TIP] < 0 else orders[slot + O_SHOWN])
        volume -= quantity
        bid_id, ask_id = orders[bid + O_ID], orders[ask + O_ID]
        bid_price, ask_price = levels[orders[bid + O_LEVEL] + L_PRICE], levels[orders[ask + O_LEVEL] + L_PRICE]
        ask_left = orders[ask + O_SHOWN] + orders[ask + O_RESERVE] - quantity
        bid_refreshed = fill(s, bid, quantity)
        ask_refreshed = fill(s, ask, quantity)
        note(scalars, price, quantity)
        level = level_at(s.words, s.pages, 1, rank_of(1, ask_price))
        tell(out, scalars, TRADE, bid_id, ask_id, 0, price, quantity, ask_left, levels[level + L_SHOWN] if level != 0 else 0)
        if bid_refreshed:
            tell(out, scalars, REFRESHED, bid_id, 0, 1, bid_price, orders[bid + O_SHOWN], orders[bid + O_RESERVE], 0)
        if ask_refreshed:
            tell(out, scalars, REFRESHED, ask_id, 0, -1, ask_price, orders[ask + O_SHOWN], orders[ask + O_RESERVE], 0)
    if scalars[S_LOW] == NONE and scalars[S_LAST] != NONE:
        touch(scalars, scalars[S_LAST])
