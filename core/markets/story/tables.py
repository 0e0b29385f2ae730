"""Tables that grow while they are read: a tape (the last entries up to a step, newest first), and a sheet written whole."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from core.cells import Cells
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


class Sheet(View):
    """Draws as a table. Its rows come and go together."""

    kind = "table"

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self._frames: Cells[str, TableFrame] = Cells()

    def write(self, rows: Sequence[tuple[Cell, ...]], lit: Sequence[int] = (), *, step: int | None = None) -> None:
        """These rows, some of them lit, from this step on."""
        self._frames.write(self._step(step), "rows", TableFrame(tuple(rows), frozenset(lit)))

    def at(self, step: int) -> TableFrame:
        return self._frames.at(step).get("rows", TableFrame((), frozenset()))
