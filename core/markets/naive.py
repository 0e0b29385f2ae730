"""A second order book, as plain as it can be: one list of orders, sorted again for every arrival.

It shares no code with `core.markets.book` and is used to check it. Slow: every arrival looks at all resting orders.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Entry:
    order_id: int
    side: int
    price: int
    quantity: int
    arrival: int


class ListBook:
    """``resting`` in no order; ``trades`` are (price, quantity, maker, taker) as they happened."""

    def __init__(self, modify_rule: str = "benchmark", post_only: str = "reject") -> None:
        self.modify_rule, self.post_only = modify_rule, post_only
        self.resting: list[_Entry] = []
        self.trades: list[tuple[int, int, int, int]] = []
        self.unfilled = 0
        self._arrivals = 0

    def submit(self, order_id: int, side: int, quantity: int, price: int | None = None, kind: str = "limit") -> None:
        if any(entry.order_id == order_id for entry in self.resting):
            return
        if kind == "post_only":
            assert price is not None
            others = [entry.price for entry in self.resting if entry.side != side]
            if side > 0 and others and price >= min(others):
                price = min(others) - 1 if self.post_only == "slide" else 0
            elif side < 0 and others and price <= max(others):
                price = max(others) + 1 if self.post_only == "slide" else 0
            if price < 1:
                return
        takes = self._reachable(side, price)
        if kind == "fok" and sum(entry.quantity for entry in takes) < quantity:
            self.unfilled += quantity
            return
        left = self._take(order_id, quantity, takes)
        if kind in ("limit", "post_only") and left:
            assert price is not None
            self._add(order_id, side, price, left)
        else:
            self.unfilled += left

    def cancel(self, order_id: int) -> bool:
        before = len(self.resting)
        self.resting = [entry for entry in self.resting if entry.order_id != order_id]
        return len(self.resting) < before

    def modify(self, order_id: int, quantity: int, price: int) -> bool:
        found = [entry for entry in self.resting if entry.order_id == order_id]
        if not found or quantity < 1 or price < 1:
            return False
        entry = found[0]
        if self.modify_rule == "keep_on_decrease" and entry.price == price and quantity <= entry.quantity:
            entry.quantity = quantity
            return True
        self.cancel(order_id)
        left = self._take(order_id, quantity, self._reachable(entry.side, price))
        if left:
            self._add(order_id, entry.side, price, left)
        return True

    def levels(self, side: int) -> list[tuple[int, list[tuple[int, int]]]]:
        """(price, [(order id, quantity), …]) of one side, best price first, front order first."""
        mine = sorted((e for e in self.resting if e.side == side), key=lambda e: (-side * e.price, e.arrival))
        prices = list(dict.fromkeys(entry.price for entry in mine))
        return [(price, [(e.order_id, e.quantity) for e in mine if e.price == price]) for price in prices]

    def _reachable(self, side: int, price: int | None) -> list[_Entry]:
        others = [entry for entry in self.resting if entry.side != side]
        if price is not None:
            others = [entry for entry in others if (entry.price <= price if side > 0 else entry.price >= price)]
        return sorted(others, key=lambda entry: (entry.price if side > 0 else -entry.price, entry.arrival))

    def _take(self, taker: int, quantity: int, makers: list[_Entry]) -> int:
        for maker in makers:
            traded = min(quantity, maker.quantity)
            if traded:
                self.trades.append((maker.price, traded, maker.order_id, taker))
            maker.quantity -= traded
            quantity -= traded
        self.resting = [entry for entry in self.resting if entry.quantity]
        return quantity

    def _add(self, order_id: int, side: int, price: int, quantity: int) -> None:
        self._arrivals += 1
        self.resting.append(_Entry(order_id, side, price, quantity, self._arrivals))
