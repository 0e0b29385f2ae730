"""Which orders rest, from market-by-order events alone and without queues: sorted arrays, the independent side of a check."""

from __future__ import annotations

import numpy as np

from core.markets.readers import forms

_OTHER, _SETS, _ENDS, _TAKES = range(4)
_KIND = np.full(256, _OTHER, dtype=np.int8)
_KIND[[forms.ADD, forms.MODIFY]] = _SETS
_KIND[forms.DELETE] = _ENDS
_KIND[[forms.CANCEL, forms.EXECUTE]] = _TAKES


class OrderTable:
    """Orders by id with side, price and what is left of them. Events come in blocks of any length; each costs one sort."""

    def __init__(self) -> None:
        none = np.zeros(0, dtype=np.int64)
        self._order, self._side, self._price, self._size = none, none, none, none

    def see(self, action: np.ndarray, order: np.ndarray, side: np.ndarray, price: np.ndarray, size: np.ndarray) -> None:
        """Columns (events,) as in `forms.OrderEvents`."""
        clears = np.flatnonzero(action == forms.CLEAR)
        first = int(clears[-1]) + 1 if len(clears) else 0
        kind = _KIND[action[first:]]
        kind[(action[first:] == forms.ADD) & (side[first:] == 0)] = _ENDS  # an order on neither side rests nowhere
        mine = np.flatnonzero(kind)
        old = (self._order[:0] if len(clears) else self._order, self._side, self._price, self._size)
        count = len(old[0])
        new = (column[first:][mine] for column in (order, side, price, size))
        order, side, price, size = (np.concatenate([a[:count], b]) for a, b in zip(old, new, strict=True))
        kind = np.concatenate([np.full(count, _SETS, dtype=np.int8), kind[mine]])
        if not len(order):
            self._order, self._side, self._price, self._size = order, side, price, size
            return
        by_order = np.argsort(order, kind="stable")
        order, kind, size = order[by_order], kind[by_order], size[by_order]
        head = np.ones(len(order), dtype=bool)
        head[1:] = order[1:] != order[:-1]
        starts = np.flatnonzero(head | (kind != _TAKES))  # of lives: from an add, a modify or a delete to the next of them
        left = np.add.reduceat(np.where(kind == _TAKES, -size, np.where(kind == _SETS, size, 0)), starts)
        ends = np.append(np.flatnonzero(head[starts])[1:], len(starts)) - 1  # the last life of each order
        at = starts[ends]
        told = self._sides(side[by_order[starts]], kind[starts] == _SETS, head[starts])[ends]
        rests = (kind[at] == _SETS) & (told != 0) & (left[ends] > 0)
        at = at[rests]
        self._order, self._side, self._price, self._size = order[at], told[rests], price[by_order[at]], left[ends][rests]

    @staticmethod
    def _sides(side: np.ndarray, sets: np.ndarray, head: np.ndarray) -> np.ndarray:
        """(lives,) a modify that does not say its side leaves it as it was."""
        number = np.arange(len(side))
        told = np.maximum.accumulate(np.where(head | (sets & (side != 0)), number, 0))
        found: np.ndarray = side[told]
        return found

    def levels(self, side: int) -> list[tuple[int, int]]:
        """(price, quantity) of every level, best first."""
        mine = self._side == side
        price, size = self._price[mine] * -side, self._size[mine]
        by_price = np.argsort(price)
        prices, starts = np.unique(price[by_price], return_index=True)
        sizes = np.add.reduceat(size[by_price], starts) if len(prices) else size
        return [(-side * price, size) for price, size in zip(prices.tolist(), sizes.tolist(), strict=True)]
