"""Tables: written row by row, or the tail of a log held as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from core.cells import Cells
from core.formatting import Value
from core.views.base import View
from core.views.cell import EMPTY, Cell

if TYPE_CHECKING:
    import numpy as np


class Column(msgspec.Struct, frozen=True):
    """A table's column: header, the unit its values are formatted with, and which side they align to."""

    name: str
    unit: str = ""
    align: Literal["left", "right"] = "right"


class TableFrame(msgspec.Struct, frozen=True):
    """``rows`` in view order; ``lit`` are indices into them; ``first`` is the true number of the first row shown (a tail of a log)."""

    rows: tuple[tuple[Cell, ...], ...]
    lit: frozenset[int]
    first: int = 0


class Table(View):
    """Rows of values under named columns, written row by row or cell by cell, some rows lit."""

    kind = "table"

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self._cells: Cells[tuple[int, int], Cell] = Cells()
        self._lit: Cells[str, frozenset[int]] = Cells()
        self._rows = 0

    def row(self, *values: Value | Cell, row: int | None = None, step: int | None = None) -> int:
        """Write a whole row (a new one unless ``row`` says which) and return its index."""
        at = self._rows if row is None else row
        for c, value in enumerate(values):
            self.set(at, c, value, step=step)
        return at

    def set(self, row: int, column: int, value: Value | Cell, role: str = "plain", *, step: int | None = None) -> None:
        self._rows = max(self._rows, row + 1)
        self._cells.write(self._step(step), (row, column), value if isinstance(value, Cell) else Cell(value, role))

    def light(self, *rows: int, step: int | None = None) -> None:
        """These rows are lit until the next call."""
        self._lit.write(self._step(step), "rows", frozenset(rows))

    def at(self, step: int) -> TableFrame:
        cells = self._cells.at(step)
        height = 1 + max((r for r, _ in cells), default=-1)
        width = len(self.columns)
        rows = tuple(tuple(cells.get((r, c), EMPTY) for c in range(width)) for r in range(height))
        return TableFrame(rows, self._lit.at(step).get("rows", frozenset()))


class TableLog(View):
    """The last rows of a log held as arrays: what has happened up to a step (a tape of trades). Draws as a table."""

    kind = "table"

    def __init__(
        self,
        columns: Sequence[Column],
        steps: np.ndarray,
        values: Sequence[np.ndarray],
        roles: Sequence[str] = ("plain",),
        role: np.ndarray | None = None,
        tail: int = 200,
    ) -> None:
        """steps: (entries,), never decreasing; values: one (entries,) array per column; role: (entries,) into ``roles``."""
        super().__init__()
        self.columns, self.tail, self.roles = tuple(columns), tail, tuple(roles)
        self._entry_steps, self._columns, self._role = steps, tuple(values), role

    def at(self, step: int) -> TableFrame:
        import numpy as np

        end = int(np.searchsorted(self._entry_steps, step, side="right"))
        first = max(0, end - self.tail)
        rows = []
        for entry in range(end - 1, first - 1, -1):  # newest first
            role = self.roles[int(self._role[entry])] if self._role is not None else self.roles[0]
            rows.append(
                tuple(Cell(column[entry].item() if hasattr(column[entry], "item") else column[entry], role) for column in self._columns)
            )
        lit = frozenset(k for k in range(len(rows)) if self._entry_steps[end - 1 - k] == step)
        return TableFrame(tuple(rows), lit, first)
