"""Rows x columns of values, drawn as shades."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from core.cells import Cells
from core.formatting import Value
from core.views.base import Axis, View
from core.views.cell import Cell, GridFrame


class Heatmap(View):
    """Rows x columns of values. ``low`` and ``high`` fix the scale of the shades (None: from what is shown)."""

    kind = "heatmap"

    def __init__(
        self,
        rows: Axis,
        columns: Axis,
        unit: str = "",
        *,
        low: float | None = None,
        high: float | None = None,
        show: Literal["value", "text", "shade"] = "value",
        legend: Mapping[str, str] | None = None,
    ) -> None:
        """show: "value" writes the formatted number in each cell where it fits, "text" the cell's text, "shade" only shades.

        ``legend`` says what a role means in this view (its own name otherwise); "group" speaks for group0 to group7 together.
        """
        super().__init__()
        self.legend = dict(legend or {})
        self.rows, self.columns, self.unit, self.low, self.high, self.show = rows, columns, unit, low, high, show
        self.least, self.most = math.inf, -math.inf  # of all finite values ever written: the scale never jumps while stepping
        self._cells: Cells[tuple[int, int], Cell] = Cells()

    def set(self, row: int, column: int, value: Value, role: str = "plain", text: str = "", *, step: int | None = None) -> None:
        if isinstance(value, int | float) and math.isfinite(value):
            self.least, self.most = min(self.least, value), max(self.most, value)
        self._cells.write(self._step(step), (row, column), Cell(value, role, text))

    def put(self, places: Sequence[tuple[int, int]], cells: Sequence[Cell], *, step: int | None = None) -> None:
        """Write many cells of one step at once, each (row, column) at most once; a Cell may be shared."""
        numbers = [c.value for c in cells if isinstance(c.value, int | float) and math.isfinite(c.value)]
        self.least, self.most = min([self.least, *numbers]), max([self.most, *numbers])
        self._cells.write_all(self._step(step), places, cells)

    def clear(self, row: int, column: int, *, step: int | None = None) -> None:
        self._cells.write(self._step(step), (row, column), None)

    def fill(
        self,
        values: Sequence[Sequence[float]],
        role: str = "plain",
        roles: Sequence[Sequence[str]] | None = None,
        *,
        step: int | None = None,
    ) -> None:
        """Write a whole matrix (rows x columns), with one role or a matrix of them."""
        for r, line in enumerate(values):
            for c, value in enumerate(line):
                self.set(r, c, value, roles[r][c] if roles else role, step=step)

    def at(self, step: int) -> GridFrame:
        return GridFrame(len(self.columns), self._cells.at(step), frozenset(self._cells.touched(step)))
