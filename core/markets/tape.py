"""A tape of trades that grows while it is read: the last entries up to a step, newest first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from core.formatting import Value
from core.views import Cell, Column, TableFrame, View


class Tape(View):
    """Draws as a table. Entries are added in order of their steps."""

    kind = "table"

    def __init__(self, columns: Sequence[Column], tail: int = 200) -> None:
        super().__init__()
        self.columns, self.tail = tuple(columns), tail
        self._rows: list[tuple[Cell, ...]] = []
        self._steps: list[int] = []

    def add(self, role: str, *values: Value, step: int | None = None) -> None:
        self._rows.append(tuple(Cell(value, role) for value in values))
        self._steps.append(self._step(step))  # published last: readers count the steps

    def at(self, step: int) -> TableFrame:
        end = bisect_right(self._steps, step)
        first = max(end - self.tail, 0)
        lit = frozenset(range(end - max(bisect_left(self._steps, step), first)))
        return TableFrame(tuple(reversed(self._rows[first:end])), lit, first)
