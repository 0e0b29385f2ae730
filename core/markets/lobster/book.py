"""Orderbook rows and messages against each other: does each row follow from the one before, and a book from messages alone.

A row is LOBSTER's: ask price, ask size, bid price, bid size for each level, best first (`core.markets.lobster.reader`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.markets.lobster.reader import DELETION, EXECUTION, SUBMISSION, UNOCCUPIED, Events

if TYPE_CHECKING:
    import numpy as np


def wrong_transitions(before: np.ndarray, after: np.ndarray, events: Events, first: int) -> np.ndarray:
    """Which of the messages first, first + 1, … do not lead from their row ``before`` to their row ``after``.

    before, after: (rows, 4 * levels). Returns (rows,) bool. All levels of both sides are compared, except the one that
    comes into sight at the deep end when a level empties: nothing says what waited there.
    """
    import numpy as np

    span = slice(first, first + len(after))
    kind, size, price, direction = events.type[span], events.size[span], events.price[span], events.direction[span]
    wrong = np.zeros(len(after), dtype=bool)
    for side, offset in ((-1, 0), (1, 2)):
        moves = (kind <= EXECUTION) & (direction == side)
        prices, sizes = before[:, offset::4], before[:, offset + 1 :: 4]
        new_prices, new_sizes = after[:, offset::4], after[:, offset + 1 :: 4]
        wrong |= ~moves & ((prices != new_prices) | (sizes != new_sizes)).any(axis=1)
        rows = np.flatnonzero(moves)
        change = np.where(kind == SUBMISSION, size, -size)
        wrong[rows] |= _wrong_on_side(
            -side * prices[rows], sizes[rows], -side * new_prices[rows], new_sizes[rows], -side * price[rows], change[rows]
        )
    return wrong


def _wrong_on_side(
    ranks: np.ndarray, sizes: np.ndarray, new_ranks: np.ndarray, new_sizes: np.ndarray, rank: np.ndarray, change: np.ndarray
) -> np.ndarray:
    """One side, best level first in rising ``ranks`` (price, or minus price for bids): the level at ``rank`` changes by ``change``."""
    import numpy as np

    rows, levels = ranks.shape
    at = (ranks < rank[:, None]).sum(axis=1)
    row = np.arange(rows)
    inside = np.minimum(at, levels - 1)
    present = (at < levels) & (ranks[row, inside] == rank)
    left = np.where(present, sizes[row, inside], 0) + change
    emptied = present & (left == 0)
    opened = ~present & (change > 0)
    place = np.arange(levels)[None, :]
    # where each level of the next row stood before: one further after the emptied level, one nearer after the opened one
    source = place + (emptied[:, None] & (place >= at[:, None])) - (opened[:, None] & (place > at[:, None]))
    known = source < levels
    source = np.minimum(source, levels - 1)
    want_ranks = np.take_along_axis(ranks, source, axis=1)
    want_sizes = np.take_along_axis(sizes, source, axis=1)
    changed = (place == at[:, None]) & (opened | present & ~emptied)[:, None]
    want_ranks = np.where(changed, rank[:, None], want_ranks)
    want_sizes = np.where(changed, left[:, None], want_sizes)
    differs: np.ndarray = (known & ((want_ranks != new_ranks) | (want_sizes != new_sizes))).any(axis=1)
    impossible: np.ndarray = differs | (left < 0)
    return impossible


def moved_rows(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(rows,) bool: the row differs anywhere from the one before it."""
    moved: np.ndarray = (before != after).any(axis=1)
    return moved


class Rebuilt:
    """A book made from messages alone, from an empty start: what a message file without its orderbook file can tell.

    Cancellations beyond the recorded depth are never sent, so orders stay that are long gone (ghosts). They are dropped when
    a message shows that they cannot be there: an order that rests at or through their price, an execution at a worse one.
    """

    def __init__(self, levels: int = 10) -> None:
        self.levels = levels
        self.ghosts = 0
        self.unseen = 0
        self.dropped: list[tuple[int, int, int]] = []
        self._orders: dict[int, list[int]] = {}
        self._sizes: dict[int, dict[int, int]] = {1: {}, -1: {}}
        self._members: dict[tuple[int, int], set[int]] = {}
        self._ranks: dict[int, list[int]] = {1: [], -1: []}

    def rows(self, events: Events, block: int = 20_000) -> Iterator[np.ndarray]:
        """One row after each message, in blocks of at most ``block`` rows (rows, 4 * levels)."""
        import numpy as np

        columns = [c.tolist() for c in (events.type, events.order, events.size, events.price, events.direction)]
        rows: list[list[int]] = []
        row: list[int] = self._row()
        for step, (kind, order, size, price, direction) in enumerate(zip(*columns, strict=True)):
            if kind <= EXECUTION:
                self._apply(step, kind, order, size, price, direction)
                row = self._row()
            rows.append(row)
            if len(rows) == block:
                yield np.array(rows, dtype=np.int64)
                rows = []
        if rows:
            yield np.array(rows, dtype=np.int64)

    def _apply(self, step: int, kind: int, order: int, size: int, price: int, side: int) -> None:
        if kind == SUBMISSION:
            self._drop_through(step, -side, price, inclusive=True)
            self._orders[order] = [side, price, 0]
            self._members.setdefault((side, price), set()).add(order)
            self._change(order, size)
            return
        if kind == EXECUTION:
            self._drop_through(step, side, price, inclusive=False)
        mine = self._orders.get(order)
        if mine is None:
            self.unseen += 1
            return
        self._change(order, -mine[2] if kind == DELETION else -min(size, mine[2]))

    def _drop_through(self, step: int, side: int, price: int, *, inclusive: bool) -> None:
        """Orders of ``side`` better than ``price`` (or at it) are ghosts."""
        ranks = self._ranks[side]
        while ranks and (ranks[-1] > side * price or (inclusive and ranks[-1] == side * price)):
            ghost_price = ranks[-1] * side
            self.dropped.append((side, ghost_price, step))
            for order in list(self._members[side, ghost_price]):
                self.ghosts += 1
                self._change(order, -self._orders[order][2])

    def _change(self, order: int, change: int) -> None:
        mine = self._orders[order]
        side, price, _ = mine
        mine[2] += change
        sizes = self._sizes[side]
        if price not in sizes:
            sizes[price] = 0
            insort(self._ranks[side], side * price)
        sizes[price] += change
        if not mine[2]:
            del self._orders[order]
            self._members[side, price].discard(order)
        if not sizes[price]:
            del sizes[price]
            del self._members[side, price]
            ranks = self._ranks[side]
            del ranks[bisect_left(ranks, side * price)]

    def _row(self) -> list[int]:
        row = [UNOCCUPIED, 0, -UNOCCUPIED, 0] * self.levels
        for side, offset in ((-1, 0), (1, 2)):
            sizes = self._sizes[side]
            for level, rank in enumerate(reversed(self._ranks[side][-self.levels :])):
                row[4 * level + offset] = rank * side
                row[4 * level + offset + 1] = sizes[rank * side]
        return row
