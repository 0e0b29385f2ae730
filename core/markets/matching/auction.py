"""The price of an auction: the most volume, then the least imbalance, then the nearest to a reference price.

Who sent an order plays no part. Self-trade prevention acts when an arriving order reaches one of its own owner; in an auction
nothing arrives, everything collected meets at one price (venues too prevent self-trades in continuous trading only).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


def clearing(bids: Sequence[tuple[int, int]], asks: Sequence[tuple[int, int]], reference: int | None) -> tuple[int | None, int]:
    """(price, volume) at which a collected book uncrosses; (None, 0) when no bid reaches an ask.

    bids, asks: (price, quantity) of every level, best first. At a price p all bids at p or above and all asks at p or below
    can trade: volume is the smaller of both, imbalance their difference. Both change only from one limit price to the next,
    so the limit prices, their neighbours and the reference are all that needs a look. Without a reference, and between two
    prices equally near to it, the lower one is taken.
    """
    if not bids or not asks or bids[0][0] < asks[0][0]:
        return None, 0
    lowest, highest = asks[0][0], bids[0][0]
    limits = [price for price, _ in (*bids, *asks) if lowest <= price <= highest]
    candidates = {price + step for price in limits for step in (-1, 0, 1)}
    candidates = {price for price in candidates if lowest <= price <= highest}
    if reference is None:
        reference = lowest
    candidates.add(min(max(reference, lowest), highest))
    bid_ranks, ask_ranks = [-price for price, _ in bids], [price for price, _ in asks]
    wanted, offered = ([0, *accumulate(quantity for _, quantity in side)] for side in (bids, asks))

    def rank(price: int) -> tuple[int, int, int, int]:
        buy, sell = wanted[bisect_right(bid_ranks, -price)], offered[bisect_right(ask_ranks, price)]
        return -min(buy, sell), abs(buy - sell), abs(price - reference), price

    price = min(candidates, key=rank)
    return price, -rank(price)[0]


def schedule(bids: Sequence[tuple[int, int]], asks: Sequence[tuple[int, int]], *more: int) -> list[tuple[int, int, int]]:
    """(price, to buy there or higher, to sell there or lower) at every limit price and at ``more``, highest first.

    bids, asks: (price, quantity) of every level.
    """
    prices = sorted({*(price for price, _ in (*bids, *asks)), *more}, reverse=True)
    return [(p, sum(q for price, q in bids if price >= p), sum(q for price, q in asks if price <= p)) for p in prices]
