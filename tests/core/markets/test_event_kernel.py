"""A book rebuilt from market-by-order events against plain lists, with dense numbers and with any 64-bit ids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.markets.event_kernel import ADD, CANCEL, CLEAR, MODIFY, T_DUPLICATE, T_UNKNOWN, EventEngine

EVENT = st.tuples(
    st.sampled_from((ADD, ADD, ADD, CANCEL, MODIFY, MODIFY, 9)),
    st.sampled_from((1, -1)),
    st.integers(0, 14),
    st.integers(-5, 5),
    st.integers(1, 6),
)


def lists(events):
    """Orders as [side, price, size] in the order of their queues; (orders, unknown, duplicate)."""
    orders, unknown, duplicate = {}, 0, 0
    for action, side, order, price, size in events:
        if action == CLEAR:
            orders = {}
        elif action == ADD:
            duplicate += order in orders
            orders.setdefault(order, [side, price, size])
        elif action in (CANCEL, MODIFY) and order not in orders:
            unknown += 1
        elif action == CANCEL:
            orders[order][2] -= size
            if orders[order][2] <= 0:
                del orders[order]
        elif action == MODIFY:
            old = orders[order]
            if old[1] == price and size <= old[2]:
                old[2] = size
            else:
                del orders[order]
                orders[order] = [old[0], price, size]
    return orders, unknown, duplicate


@pytest.mark.parametrize("dense", [True, False])
@settings(max_examples=80, deadline=None)
@given(events=st.lists(st.one_of(EVENT, EVENT, st.just((CLEAR, 1, 0, 0, 0))), min_size=1, max_size=60))
def test_rebuilt_queues_are_those_of_plain_lists(dense, events):
    ids = np.arange(15) if dense else np.arange(15) * 912_345_678_901_234_567 - (1 << 62)
    engine = EventEngine(15 if dense else None)
    action, side, order, price, size = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    engine.apply(action.astype(np.uint8), side.astype(np.int8), ids[order].astype(np.int64), price, size)
    orders, unknown, duplicate = lists(events)
    assert (engine.scalars[T_UNKNOWN], engine.scalars[T_DUPLICATE]) == (unknown, duplicate)
    for s in (1, -1):
        mine = [o for o in orders.values() if o[0] == s]
        prices = sorted({p for _, p, _ in mine}, key=lambda p: -s * p)
        assert engine.depth(s) == [(p, sum(o[2] for o in mine if o[1] == p)) for p in prices]
        for p in prices:
            assert [q for _, q in engine.queue(s, p)] == [o[2] for o in mine if o[1] == p]
