"""Curves over an axis."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from core.cells import Cells
from core.views.base import View

if TYPE_CHECKING:
    import numpy as np


class Curve(msgspec.Struct):
    """One series of a plot. ``style``: line, step (holds until the next point), scatter, bar.

    ``edition`` counts how often its points were replaced.
    """

    name: str
    role: str
    style: Literal["line", "step", "scatter", "bar"]
    x: array[float]
    y: array[float]
    steps: array[int]
    edition: int = 0

    def __len__(self) -> int:
        return len(self.steps)


class PlotFrame(msgspec.Struct, frozen=True):
    """``cursor`` is the x of this step (None: none yet), ``values`` each curve's last value up to this step.

    A curve whose points are replaced (a histogram so far) has no value of a step.
    """

    cursor: float | None
    values: tuple[float | None, ...]


class Plot(View):
    """Curves over an axis. All points are held once; stepping moves a cursor over them."""

    kind = "plot"

    def __init__(self, x: str, y: str, *, x_unit: str = "", y_unit: str = "", x_log: bool = False, y_log: bool = False) -> None:
        super().__init__()
        self.x, self.y, self.x_unit, self.y_unit, self.x_log, self.y_log = x, y, x_unit, y_unit, x_log, y_log
        self.curves: list[Curve] = []
        self._cursor: Cells[str, float] = Cells()

    def curve(self, name: str, role: str = "plain", style: Literal["line", "step", "scatter", "bar"] = "line") -> int:
        self.curves.append(Curve(name, role, style, array("d"), array("d"), array("q")))
        return len(self.curves) - 1

    def point(self, curve: int, x: float, y: float, *, step: int | None = None) -> None:
        mine = self.curves[curve]
        mine.x.append(x)
        mine.y.append(y)
        mine.steps.append(self._step(step))

    def points(self, curve: int, x: np.ndarray, y: np.ndarray, steps: np.ndarray | None = None) -> None:
        """Add a block of points; without ``steps`` they all belong to the step being written."""
        import numpy as np

        mine = self.curves[curve]
        mine.x.frombytes(np.ascontiguousarray(x, dtype=np.float64).tobytes())
        mine.y.frombytes(np.ascontiguousarray(y, dtype=np.float64).tobytes())
        owner = np.full(len(x), self.now()) if steps is None else steps
        mine.steps.frombytes(np.ascontiguousarray(owner, dtype=np.int64).tobytes())

    def replace(self, curve: int, x: Sequence[float], y: Sequence[float]) -> None:
        """Put these points in the place of all that ``curve`` had (a histogram so far); they stand at every step."""
        old = self.curves[curve]
        steps = array("q", bytes(8 * len(x)))
        self.curves[curve] = Curve(old.name, old.role, old.style, array("d", x), array("d", y), steps, old.edition + 1)

    def cursor(self, x: float, *, step: int | None = None) -> None:
        """Put the cursor here from this step on (otherwise it follows the first curve's newest point)."""
        self._cursor.write(self._step(step), "x", x)

    def at(self, step: int) -> PlotFrame:
        values: list[float | None] = []
        cursor = self._cursor.at(step).get("x")
        for number, curve in enumerate(self.curves):
            at = bisect_right(curve.steps, step) - 1
            values.append(curve.y[at] if at >= 0 and not curve.edition else None)
            if number == 0 and cursor is None and at >= 0:
                cursor = curve.x[at]
        return PlotFrame(cursor, tuple(values))
