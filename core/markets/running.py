"""Running totals of a long recording, worked out where they are read from what each event adds."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from core.markets.growing import Growing, derived

EVERY = 4096
Rows = Callable[[int, int], np.ndarray]
"""(first, end) -> the values of rows first, …, end - 1."""


class RunningTotal:
    """The sum of ``values`` up to and with any row, by sums kept every `EVERY` rows. Call `grow` with every block."""

    def __init__(self, values: Rows) -> None:
        self._values = values
        self._sums = array("q", [0])

    def grow(self, end: int) -> None:
        """Rows up to ``end`` are there."""
        while len(self._sums) * EVERY <= end:
            first = (len(self._sums) - 1) * EVERY
            self._sums.append(self._sums[-1] + int(self._values(first, first + EVERY).sum()))

    def rows(self, first: int, end: int) -> np.ndarray:
        """(end - first,) the total after each of these rows."""
        start = min(first // EVERY, len(self._sums) - 1)
        sums: np.ndarray = self._sums[start] + np.cumsum(self._values(start * EVERY, end), dtype=np.int64)
        return sums[first - start * EVERY :]


def fact_of(columns: Growing, compute: Rows) -> np.ndarray:
    """A fact's column of what ``compute(first, end)`` gives, as long as ``columns``."""

    def at(key: int | slice) -> np.ndarray:
        if isinstance(key, slice):
            first, end, _ = key.indices(len(columns))
            return compute(first, max(first, end))
        found: np.ndarray = compute(key, key + 1)[0]
        return found

    return derived(columns, at)
