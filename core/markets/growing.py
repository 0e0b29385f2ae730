"""Columns that grow block by block while others read them: a reader sees what is published, never half a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.views import Cell, Column, TableFrame, View

if TYPE_CHECKING:
    import numpy as np


class Growing:
    """Named columns of one length, kept in arrays that grow by a quarter. `get` gives the published part of one."""

    def __init__(self) -> None:
        self._columns: dict[str, np.ndarray] = {}
        self.length = 0

    def extend(self, block: Mapping[str, np.ndarray]) -> None:
        """Append one block, every column of the same length."""
        import numpy as np

        rows = len(next(iter(block.values())))
        end = self.length + rows
        for name, values in block.items():
            mine = self._columns.get(name)
            if mine is None:
                mine = np.empty(max(end, 1024), dtype=values.dtype)
            elif end > len(mine):
                grown = np.empty(max(end, len(mine) * 5 // 4), dtype=mine.dtype)
                grown[: self.length] = mine[: self.length]
                mine = grown
            mine[self.length : end] = values
            self._columns[name] = mine
        self.length = end  # published last

    def get(self, name: str) -> np.ndarray:
        """(length,) the column so far."""
        return self._columns[name][: self.length]

    def __len__(self) -> int:
        return self.length


class GrowingLog(View):
    """The last rows of a log that grows by blocks (a tape of trades), newest first. Draws as a table."""

    kind = "table"

    def __init__(self, columns: Sequence[Column], roles: Sequence[str], texts: Mapping[int, Sequence[str]], tail: int = 200) -> None:
        """``texts``: columns (by index) whose values are indices into these texts; ``roles`` are indexed by each entry's role."""
        super().__init__()
        self.columns, self.roles, self.texts, self.tail = tuple(columns), tuple(roles), dict(texts), tail
        self._log = Growing()

    def extend(self, steps: np.ndarray, role: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Entries in order of their steps; one array a column."""
        if len(steps):
            self._log.extend({"step": steps, "role": role, **{f"{k}": column for k, column in enumerate(values)}})

    def at(self, step: int) -> TableFrame:
        import numpy as np

        if not len(self._log):
            return TableFrame((), frozenset())
        steps = self._log.get("step")
        end = int(np.searchsorted(steps, step, side="right"))
        first = max(0, end - self.tail)
        role = self._log.get("role")
        columns = [self._log.get(f"{k}") for k in range(len(self.columns))]
        rows = []
        for entry in range(end - 1, first - 1, -1):
            own = self.roles[int(role[entry])]
            values = [column[entry].item() for column in columns]
            for k, texts in self.texts.items():
                values[k] = texts[values[k]]
            rows.append(tuple(Cell(value, own) for value in values))
        lit = frozenset(k for k in range(len(rows)) if steps[end - 1 - k] == step)
        return TableFrame(tuple(rows), lit, first)
