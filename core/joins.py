"""Steps that belong together: the fills of one taker are steps of their own, and one happening.

Only the steps that join the one before are held, so a recording without any costs nothing; every question is a bisection.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Joins:
    """``steps``: those that join the step before them, in order. Happenings are numbered from 0, a lone step being one."""

    __slots__ = ("steps",)

    def __init__(self, steps: Iterable[int] = ()) -> None:
        self.steps = array("q", steps)

    def __len__(self) -> int:
        return len(self.steps)

    def number(self, step: int) -> int:
        """Which happening ``step`` is part of."""
        return step - bisect_right(self.steps, step)

    def last(self, number: int) -> int:
        """The last step of happening ``number``, as far as joins are known."""
        # steps[k] is part of happening steps[k] - k - 1: so many steps before it are none of the k + 1 that join
        return number + bisect_right(range(len(self.steps)), number, key=lambda k: self.steps[k] - k - 1)

    def first(self, number: int) -> int:
        """The first step of happening ``number``."""
        return number + bisect_left(range(len(self.steps)), number, key=lambda k: self.steps[k] - k - 1)
