"""The orders behind each price of a LOBSTER day, at any message, straight from arrays.

An order is known from its submission until it is gone. It also stops being known when its level leaves the recorded depth:
what happens there is not in the file, so on its return it counts as part of the anonymous lump in front of the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.lobster.reader import DELETION, EXECUTION, SUBMISSION, Events

if TYPE_CHECKING:
    import numpy as np


class Queues:
    """Every order whose submission is in the file: its level, when it was known, and what was left of it."""

    def __init__(self, events: Events) -> None:
        import numpy as np

        self._steps = len(events)
        on_book = np.flatnonzero(events.type <= EXECUTION)
        ids = events.order[on_book]
        by_order = on_book[np.argsort(ids, kind="stable")]
        kind, size = events.type[by_order], events.size[by_order]
        starts = np.ones(len(by_order), dtype=bool)
        starts[1:] = events.order[by_order][1:] != events.order[by_order][:-1]
        starts |= kind == SUBMISSION
        head = np.flatnonzero(starts)
        life = np.cumsum(starts) - 1
        total = np.cumsum(np.where(kind == SUBMISSION, size, -size))
        base = (total - np.where(kind == SUBMISSION, size, -size))[head]
        left = total - base[life] if len(head) else total
        gone = np.where((left <= 0) | (kind == DELETION), by_order, self._steps)
        end = np.minimum.reduceat(gone, head) if len(head) else gone
        first = by_order[head]
        # one row per message of a life, found again by (life, step)
        self._message_key = life * (self._steps + 1) + by_order
        self._left = left
        seen = np.flatnonzero(events.type[first] == SUBMISSION)
        level = events.price[first] * 2 + (events.direction[first] > 0)
        order = seen[np.lexsort((first[seen], level[seen]))]
        self.life, self.order_id = order, events.order[first][order]
        self.level, self.start, self._gone = level[order], first[order], end[order]
        self._lost_level = np.zeros(0, dtype=np.int64)
        self._lost_step = np.zeros(0, dtype=np.int64)
        self._known: tuple[np.ndarray, np.ndarray, np.ndarray] = (self.level, self.start, self._gone)

    def forget(self, side: np.ndarray, price: np.ndarray, step: np.ndarray) -> None:
        """From ``step`` on, orders submitted earlier at (side, price) are no longer known (their level left the file's depth)."""
        import numpy as np

        self._lost_level = np.concatenate([self._lost_level, price * 2 + (side > 0)])
        self._lost_step = np.concatenate([self._lost_step, step])
        order = np.lexsort((self._lost_step, self._lost_level))
        self._lost_level, self._lost_step = self._lost_level[order], self._lost_step[order]
        stride = self._steps + 1
        keys = self._lost_level * stride + self._lost_step
        at = np.searchsorted(keys, self.level * stride + self.start, side="left")
        inside = np.minimum(at, max(len(keys) - 1, 0))
        end = self._gone
        if len(keys):
            hit = (at < len(keys)) & (self._lost_level[inside] == self.level)
            end = np.where(hit, np.minimum(end, self._lost_step[inside]), end)
        self._known = (self.level, self.start, end)  # one assignment: a reader sees the old or the new

    def at(self, side: int, price: int, step: int) -> tuple[np.ndarray, np.ndarray]:
        """(order ids, quantities left) known at this level after message ``step``, front first."""
        import numpy as np

        level, start, end = self._known
        code = price * 2 + (side > 0)
        low, high = np.searchsorted(level, (code, code + 1))
        alive = low + np.flatnonzero((start[low:high] <= step) & (step < end[low:high]))
        keys = self.life[alive] * (self._steps + 1) + step
        rows = np.searchsorted(self._message_key, keys, side="right") - 1
        return self.order_id[alive], self._left[rows]


def levels_out_of_sight(before: np.ndarray, after: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(side, price, step) of every level that is in row ``before`` and no longer in ``after``; the rows belong to steps first, …"""
    import numpy as np

    sides, prices, steps = [], [], []
    for side, offset in ((-1, 0), (1, 2)):
        old, new = before[:, offset::4], after[:, offset::4]
        changed = np.flatnonzero((old != new).any(axis=1))
        for level in range(old.shape[1]):
            column = old[changed, level]
            lost = changed[~(new[changed] == column[:, None]).any(axis=1)]
            prices.append(old[lost, level])
            steps.append(lost + first)
            sides.append(np.full(len(lost), side))
    return np.concatenate(sides), np.concatenate(prices), np.concatenate(steps)


def submitted_out_of_sight(rows: np.ndarray, events: Events, first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(side, price, step) of submissions whose price is not in their own row: they are never seen resting."""
    import numpy as np

    span = slice(first, first + len(rows))
    price, direction = events.price[span], events.direction[span]
    columns = np.where((direction < 0)[:, None], rows[:, 0::4], rows[:, 2::4])
    lost = np.flatnonzero((events.type[span] == SUBMISSION) & ~(columns == price[:, None]).any(axis=1))
    return direction[lost], price[lost], lost + first
