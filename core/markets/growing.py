"""Columns that grow block by block while others read them: a reader sees what is published, never half a block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from core.formatting import Value
from core.views import Cell, Column, TableFrame, View

if TYPE_CHECKING:
    import numpy as np


class Growing:
    """Named columns of one length, kept in arrays that grow by a quarter. `get` gives the published part of one."""

    def __init__(self, small: Collection[str] = (), room: int = 1024) -> None:
        """``small``: columns of whole numbers that take 32 bits each until one of them needs more; ``room`` for so many rows at once."""
        self._room = room
        self._columns: dict[str, np.ndarray] = {}
        self._small = frozenset(small)
        self.length = 0

    def extend(self, block: Mapping[str, np.ndarray]) -> None:
        """Append one block, every column of the same length."""
        import numpy as np

        rows = len(next(iter(block.values())))
        end = self.length + rows
        for name, values in block.items():
            mine = self._columns.get(name)
            if name in self._small and rows:
                fits = int(values.min()) >= -(1 << 31) and int(values.max()) < 1 << 31
                if mine is None and fits:
                    values = values.astype(np.int32)
                elif mine is not None and mine.dtype == np.int32 and not fits:
                    mine = mine.astype(np.int64)
            if mine is None:
                mine = np.empty(max(end, self._room), dtype=values.dtype)
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

    @property
    def nbytes(self) -> int:
        """Of all columns, their room for more included."""
        return sum(column.nbytes for column in self._columns.values())

    def __len__(self) -> int:
        return self.length


class _Derived:
    """A column that is computed from others where it is read, so that it takes no memory of its own."""

    def __init__(self, columns: Growing, compute: Callable[[int | slice], np.ndarray]) -> None:
        self._columns, self._compute = columns, compute

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, key: int | slice) -> np.ndarray:
        return self._compute(key)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return self._compute(slice(0, len(self)))


def derived(columns: Growing, compute: Callable[[int | slice], np.ndarray]) -> np.ndarray:
    """A fact's column that ``compute`` gives for one step (a numpy number) or a slice of steps, from ``columns``."""
    return cast("np.ndarray", _Derived(columns, compute))


class Texts(Protocol):
    """What a column's whole numbers read as: a sequence of texts, or anything else that is indexed by them."""

    def __getitem__(self, key: int, /) -> Value: ...


class GrowingLog(View):
    """The last rows of a log that grows by blocks (a tape of trades), newest first. Draws as a table."""

    kind = "table"

    def __init__(self, columns: Sequence[Column], roles: Sequence[str], texts: Mapping[int, Texts], tail: int = 200) -> None:
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
