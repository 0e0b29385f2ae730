"""Stacked bars: sums of named parts."""

from __future__ import annotations

from collections.abc import Sequence

from core.cells import Cells
from core.views.base import Axis, View
from core.views.cell import Cell, GridFrame


class Breakdown(View):
    """Stacked bars: every bar (a rank, a moment) is the sum of parts; ``capacity`` draws a line (a device's memory)."""

    kind = "breakdown"

    def __init__(
        self, bars: Axis, parts: Sequence[tuple[str, str]], unit: str = "bytes", *, capacity: float | None = None, capacity_name: str = ""
    ) -> None:
        """parts: (name, role) from the bottom of the stack on."""
        super().__init__()
        self.bars, self.parts, self.unit, self.capacity, self.capacity_name = bars, tuple(parts), unit, capacity, capacity_name
        self._cells: Cells[tuple[int, int], Cell] = Cells()
        self.maximum = 0.0
        self._totals: dict[int, dict[int, float]] = {}

    def set(self, bar: int, part: int, value: float, *, step: int | None = None) -> None:
        self._cells.write(self._step(step), (bar, part), Cell(float(value), self.parts[part][1]))
        totals = self._totals.setdefault(bar, {})
        totals[part] = float(value)
        self.maximum = max(self.maximum, sum(totals.values()))  # the scale never jumps while stepping

    def at(self, step: int) -> GridFrame:
        return GridFrame(len(self.parts), self._cells.at(step), frozenset(self._cells.touched(step)))
