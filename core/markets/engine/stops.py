"""Stops: they wait in the queues of their triggers, and arrive when the taker whose trades reached them is done."""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

from core.markets.engine.codes import CONTINUOUS, LIMIT, MARKET
from core.markets.engine.match import take, tell, touch
from core.markets.engine.state import (
    L_HEAD,
    L_PRICE,
    NONE,
    O_ID,
    O_OWNER,
    O_SHOWN,
    O_TIP,
    ROW,
    S_ARRIVALS,
    S_BEST,
    S_HIGH,
    S_LAST,
    S_LOW,
    S_STATE,
    S_WAITING,
    TRIGGERED,
    W_ARRIVAL,
    W_LIMIT,
    W_SIDE,
    W_TRIGGER,
    WAITS,
    append,
    free_order,
    new_order,
    withdraw,
)
from core.markets.kernels.compiled import compiled, inlined
from core.markets.kernels.order_ids import place_of


@compiled
def _gather(s, end):  # type: ignore[no-untyped-def]
    """Move the stops that trades have reached into the wave, in order of arrival; returns its new end."""
    scalars, levels, wave = s.scalars, s.levels, s.wave
    first = end
    for book in (2, 3):
        while True:
            level = scalars[S_BEST + book] & ROW
            if level == 0 or scalars[S_LOW] == NONE:
                break
            trigger = levels[level + L_PRICE]
            if (trigger > scalars[S_HIGH]) if book == 2 else (trigger < scalars[S_LOW]):
                break
            slot = levels[level + L_HEAD] & ROW
            withdraw(s, slot)
            at = end  # kept sorted by arrival
            while at > first and s.stops[wave[at - 1] + W_ARRIVAL] > s.stops[slot + W_ARRIVAL]:
                wave[at] = wave[at - 1]
                at -= 1
            wave[at] = slot
            end += 1
    scalars[S_LOW] = scalars[S_HIGH] = NONE
    return end


@compiled
def trigger_stops(s, out):  # type: ignore[no-untyped-def]
    """After a taker: the stops its trades reached, then those that these reach, each once."""
    scalars, orders = s.scalars, s.orders
    begin, end = 0, _gather(s, 0)
    while begin < end:
        slot = s.wave[begin] & ROW
        begin += 1
        order_id, owner, quantity = orders[slot + O_ID], orders[slot + O_OWNER], orders[slot + O_SHOWN]
        side, limit, trigger = s.stops[slot + W_SIDE], s.stops[slot + W_LIMIT], s.stops[slot + W_TRIGGER]
        free_order(s, slot)
        scalars[S_WAITING] -= 1
        tell(out, scalars, TRIGGERED, order_id, 0, side, limit, quantity, trigger, 0)
        take(s, out, order_id, side, quantity, limit, MARKET if limit == NONE else LIMIT, 0, owner)
        end = _gather(s, end)


@inlined
def wait(s, out, order_id, side, quantity, limit, trigger, owner):  # type: ignore[no-untyped-def]
    """Queue a stop at its trigger. A level of a stop book counts as displayed what waits there."""
    scalars, orders = s.scalars, s.orders
    slot = new_order(s, place_of(s.ids, orders, order_id), order_id)
    orders[slot + O_OWNER], orders[slot + O_TIP] = owner, 0
    append(s, slot, 2 if side > 0 else 3, trigger, quantity)
    s.stops[slot + W_SIDE], s.stops[slot + W_LIMIT], s.stops[slot + W_TRIGGER] = side, limit, trigger
    s.stops[slot + W_ARRIVAL] = scalars[S_ARRIVALS]
    scalars[S_ARRIVALS] += 1
    scalars[S_WAITING] += 1
    tell(out, scalars, WAITS, order_id, 0, side, trigger, quantity, 0, 0)
    if scalars[S_STATE] == CONTINUOUS and scalars[S_LAST] != NONE:
        touch(scalars, scalars[S_LAST])
