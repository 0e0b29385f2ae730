"""A value with what it means, and the frame of everything made of such cells."""

from __future__ import annotations

import msgspec

from core.formatting import Value, format_value


class Cell(msgspec.Struct, frozen=True, gc=False):
    """A raw value with what it means; ``text`` replaces the formatted value where letters say more ("P0", "×")."""

    value: Value = None
    role: str = "plain"
    text: str = ""


EMPTY = Cell(None, "dim")


class GridFrame(msgspec.Struct, frozen=True):
    """Cells by (row, column); missing ones are `EMPTY`. ``lit`` are the cells written in this step."""

    width: int
    cells: dict[tuple[int, int], Cell]
    lit: frozenset[tuple[int, int]]

    def row(self, r: int) -> tuple[Cell, ...]:
        cells = self.cells
        return tuple([cells.get((r, c), EMPTY) for c in range(self.width)])

    def lit_in(self, r: int) -> tuple[int, ...]:
        return tuple(sorted(c for row, c in self.lit if row == r))


def cell_text(cell: Cell, unit: str = "") -> str:
    """The text a cell shows: its own, or its value in the view's unit."""
    return cell.text or ("" if cell.value is None else format_value(cell.value, unit))
