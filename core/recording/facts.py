"""Facts and checks: one named number a step, as a series, and equality with an independent computation."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Literal

import msgspec

from core.formatting import Value

if TYPE_CHECKING:
    import numpy as np

FactKind = Literal["measured", "simulated", "formula", "reference"]


class Fact(msgspec.Struct, frozen=True):
    """One named number (text, bool) at one step. ``name`` includes its label: ``tpr[group_a]``.

    kind: measured (timed on this machine), simulated (counted or computed), formula, reference (published; ``note`` says where).
    """

    name: str
    value: Value
    unit: str = ""
    kind: FactKind = "simulated"
    note: str = ""


class Check(msgspec.Struct, frozen=True):
    """Equality with an independent computation. ``oracle`` says what it was compared with."""

    name: str
    ok: bool
    got: Value
    want: Value
    tolerance: float = 0.0
    oracle: str = ""


class FactSeries:
    """One fact over the steps: each value holds from its step until the next one."""

    __slots__ = ("_block", "kind", "name", "note", "steps", "unit", "values")

    def __init__(self, name: str, unit: str, kind: FactKind, note: str) -> None:
        self.name = name
        self.unit = unit
        self.kind: FactKind = kind
        self.note = note
        self.steps = array("q")
        self.values: list[Value] = []
        self._block: np.ndarray | None = None

    def append(self, step: int, value: Value) -> None:
        if self.steps and self.steps[-1] == step:
            self.values[-1] = value
            return
        self.values.append(value)
        self.steps.append(step)

    def set_column(self, column: np.ndarray) -> None:
        """One value for every step, as an array (NaN reads as None)."""
        self._block = column

    def value(self, step: int) -> Value:
        """The value that holds at ``step``; None before the first."""
        if self._block is not None:
            if not len(self._block):
                return None
            raw = self._block[min(step, len(self._block) - 1)].item()
            return None if isinstance(raw, float) and math.isnan(raw) else raw
        at = bisect_right(self.steps, step) - 1
        return self.values[at] if at >= 0 else None

    def begun(self, step: int) -> bool:
        """Whether the fact has been written at or before ``step``."""
        return self._block is not None or (len(self.steps) > 0 and self.steps[0] <= step)

    def changed(self, step: int) -> bool:
        """Whether the value at ``step`` differs from the one a step earlier."""
        return self.value(step) != (self.value(step - 1) if step > 0 else None)

    def changes(self, length: int) -> list[int]:
        """The steps below ``length`` from which another value holds, in order."""
        if self._block is None:
            return [step for step in self.steps if step < length]
        import numpy as np

        block = self._block[:length]
        return np.flatnonzero(np.concatenate([np.ones(min(len(block), 1), dtype=bool), block[1:] != block[:-1]])).tolist()

    def column(self, length: int) -> np.ndarray:
        """The numeric series as one float per step, NaN where it has no number yet."""
        import numpy as np

        if self._block is not None:
            return np.asarray(self._block[:length], dtype=np.float64)
        out = np.full(length, np.nan)
        steps = [*self.steps, length]
        for first, end, value in zip(steps, steps[1:], self.values, strict=False):
            if isinstance(value, int | float):
                out[min(first, length) : min(end, length)] = value
        if length and steps[0] >= length and self.values and isinstance(self.values[-1], int | float):
            out[-1] = self.values[-1]  # written after the last step: it holds at the end
        return out

    def fact(self, step: int) -> Fact:
        return Fact(self.name, self.value(step), self.unit, self.kind, self.note)
