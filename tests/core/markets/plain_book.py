"""The book of market-by-order events in plain Python, dictionaries and a sorted list: what the compiled one is compared with."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from core.markets.events.book import (
    DUPLICATE,
    FILLED,
    IN_TURN,
    KEPT,
    NO_PRICE,
    OUT_OF_TURN,
    OWN_FILL,
    PASSED,
    REFRESHED,
    TOO_MUCH,
    UNKNOWN,
    Effects,
)
from core.markets.readers.forms import ADD, CANCEL, CLEAR, DELETE, EXECUTE, FILL, MODIFY, TRADE, OrderEvents


class PlainBook:
    """``orders[id]`` is [side, price, quantity]; the queue of a price keeps its orders in arrival order, front first."""

    def __init__(self) -> None:
        self.orders: dict[int, list[int]] = {}
        self.queues: dict[int, dict[int, dict[int, None]]] = {1: {}, -1: {}}
        self.levels: dict[int, dict[int, int]] = {1: {}, -1: {}}
        self.totals: dict[int, int] = {1: 0, -1: 0}
        self._ranks: dict[int, list[int]] = {1: [], -1: []}
        self._told: dict[int, int] = {}  # fills of this exchange event that no cancel or modify has booked yet
        self._taker = 0
        self._filled: dict[int, int] = {}  # all fills of this exchange event
        self._withdrawn: set[int] = set()
        self.row = 0  # of the event being applied, in its block
        self.early: list[tuple[int, list[tuple[int, int]]]] = []  # (row, orders in front with their quantity) of fills to judge

    def best(self, side: int) -> int:
        """The best price of a side, `NO_PRICE` when it is empty."""
        ranks = self._ranks[side]
        return ranks[-1] * side if ranks else NO_PRICE

    def prices(self, side: int, count: int) -> list[int]:
        """The best ``count`` prices of a side, best first."""
        return [rank * side for rank in self._ranks[side][: -count - 1 : -1]]

    def queue(self, side: int, price: int) -> list[tuple[int, int]]:
        """(order id, quantity) at a price, front first."""
        return [(order, self.orders[order][2]) for order in self.queues[side].get(price, ())]

    def apply(self, action: int, order: int, side: int, price: int, size: int) -> int:
        """Take one event; returns the marks (`UNKNOWN`, …) that describe it."""
        marks = 0
        if action == ADD:
            if order in self.orders:
                marks = DUPLICATE
                self._remove(order)
            if side and size > 0:
                self._insert(order, side, price, size)
        elif action in (CANCEL, DELETE):
            marks = self._cancel(order, size if action == CANCEL else -1)
        elif action == MODIFY:
            marks = self._modify(order, side, price, size)
        elif action == EXECUTE:
            marks = self._turn(order)
            if not marks & UNKNOWN:
                marks |= self._cancel(order, size)
        elif action == FILL:
            if side and side == self._taker:
                marks = OWN_FILL
            else:  # without a side it is an auction's, which has no turns
                marks = self._turn(order, wait=True) if side else 0
                self._told[order] = self._told.get(order, 0) + size
                self._filled[order] = self._filled.get(order, 0) + size
        elif action == TRADE:
            self._taker = side
        elif action == CLEAR:
            self.clear()
        return marks

    def end_event(self) -> list[tuple[int, int]]:
        """The exchange's event is complete. Returns (row, marks) of its fills that had orders in front.

        Fills of one event are told in any order, so those in front may have traded in the same event, or left it.
        """
        judged = []
        for row, front in self.early:
            behind = [order for order, quantity in front if self._filled.get(order, 0) < quantity]
            waits = any(order not in self._withdrawn for order in behind)
            judged.append((row, OUT_OF_TURN if waits else IN_TURN | (PASSED if behind else 0)))
        self._taker = 0
        if self._filled or self._withdrawn:
            self._told.clear()
            self._filled.clear()
            self._withdrawn.clear()
            self.early.clear()
        return judged

    def clear(self) -> None:
        self.orders.clear()
        for side in (1, -1):
            self.queues[side].clear()
            self.levels[side].clear()
            self._ranks[side].clear()
            self.totals[side] = 0

    def _cancel(self, order: int, size: int) -> int:
        mine = self.orders.get(order)
        if mine is None:
            return UNKNOWN
        marks = FILLED if order in self._told else 0
        if not marks and self._taker:
            self._withdrawn.add(order)
        left = mine[2]
        if size < 0 or size >= left:
            if size > left:
                marks |= TOO_MUCH
            self._remove(order)
        else:
            mine[2] = left - size
            self.levels[mine[0]][mine[1]] -= size
            self.totals[mine[0]] -= size
        return marks

    def _modify(self, order: int, side: int, price: int, size: int) -> int:
        mine = self.orders.get(order)
        if mine is None:
            if side and size > 0:
                self._insert(order, side, price, size)
            return UNKNOWN
        told = self._told.pop(order, 0)
        marks = FILLED if told else 0
        old_side, old_price, old = mine
        side = side or old_side
        if side == old_side and price == old_price and 0 < size <= max(old - told, 0):
            mine[2] = size
            self.levels[side][price] += size - old
            self.totals[side] += size - old
            return marks | KEPT
        if told and price == old_price and size > old - told:
            marks |= REFRESHED
        self._remove(order)
        if size > 0:
            self._insert(order, side, price, size)
        return marks

    def _turn(self, order: int, *, wait: bool = False) -> int:
        """Whether ``order`` is the first of its price; with ``wait`` the verdict on one that is not comes with `end_event`."""
        mine = self.orders.get(order)
        if mine is None:
            return UNKNOWN
        front = []
        for other in self.queues[mine[0]][mine[1]]:
            if other == order:
                break
            if self._filled.get(other, 0) < self.orders[other][2]:
                front.append((other, self.orders[other][2]))
        if not front:
            return IN_TURN
        if not wait:
            return OUT_OF_TURN
        self.early.append((self.row, front))
        return 0

    def _insert(self, order: int, side: int, price: int, size: int) -> None:
        self.orders[order] = [side, price, size]
        levels = self.levels[side]
        if price in levels:
            levels[price] += size
            self.queues[side][price][order] = None
        else:
            levels[price] = size
            self.queues[side][price] = {order: None}
            insort(self._ranks[side], side * price)
        self.totals[side] += size

    def _remove(self, order: int) -> None:
        side, price, size = self.orders.pop(order)
        queue = self.queues[side][price]
        del queue[order]
        self.totals[side] -= size
        if queue:
            self.levels[side][price] -= size
        else:
            del self.queues[side][price]
            del self.levels[side][price]
            ranks = self._ranks[side]
            del ranks[bisect_left(ranks, side * price)]

    def run(self, events: OrderEvents) -> Effects:
        """Apply a block and say what each of its events did."""
        out: list[tuple[int, ...]] = []
        judged: list[tuple[int, int]] = []
        self.early = [(-1, front) for _, front in self.early]  # rows of the block before are published
        columns = [c.tolist() for c in (events.action, events.order, events.side, events.price, events.size, events.last)]
        orders, levels, ranks, totals = self.orders, self.levels, self._ranks, self.totals
        bids, asks = ranks[1], ranks[-1]
        for row, (action, order, side, price, size, last) in enumerate(zip(*columns, strict=True)):
            self.row = row
            at_side, at_price = side, price
            if action not in (ADD, TRADE, FILL) and (not side or action != MODIFY):
                mine = orders.get(order)
                if mine is not None:
                    at_side, at_price = mine[0], price if action == MODIFY else mine[1]
            before = levels[at_side].get(at_price, 0) if at_side else 0
            marks = self.apply(action, order, side, price, size)
            if last:
                judged += self.end_event()
            after = levels[at_side].get(at_price, 0) if at_side else 0
            out.append(
                (
                    bids[-1] if bids else NO_PRICE, -asks[-1] if asks else NO_PRICE, totals[1], totals[-1],
                    before, after, at_side, at_price, marks,
                )
            )  # fmt: skip
        table = np.array(out, dtype=np.int64).reshape(-1, 9)
        for row, marks in judged:
            if row >= 0:
                table[row, 8] |= marks
        return Effects(*(np.ascontiguousarray(column) for column in table.T))
