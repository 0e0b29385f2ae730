"""How the slots that an actor holds are written: one a line, or side by side, and what the lines are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from core.formatting import format_value
from core.views import Cell
from tui.theme import GLYPHS
from tui.widgets.fitting import clip, pad

Held = tuple[tuple[int, Cell], ...]

_TOP_DOWN = "top down:"


def slot_caption(names: Sequence[str], width: int) -> list[str]:
    """What the lines of a box are, from the top, in lines of at most ``width`` cells; none without names or when one is too long."""
    lines = [_TOP_DOWN] if names else []
    for place, name in enumerate(names):
        text = name if place == len(names) - 1 else f"{name} ·"
        if cell_len(text) > width:
            return []
        if cell_len(lines[-1]) + 1 + cell_len(text) <= width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
    return lines


def token(cell: Cell) -> str:
    """A held slot in two or three cells."""
    return cell.text or GLYPHS.get(cell.role, " ").strip() or "▪"


def named(cell: Cell, unit: str) -> str:
    return cell.text or format_value(cell.value, unit)


def holding(cell: Cell, unit: str, width: int) -> str:
    """A slot in its own line: its name, and its value at the right end when both fit."""
    value = format_value(cell.value, unit) if isinstance(cell.value, int | float) and not isinstance(cell.value, bool) else ""
    name = cell.text or ("" if value else named(cell, unit))
    if name and value and cell_len(name) + cell_len(value) + 1 <= width:
        return name + pad(value, width - cell_len(name), right=True)
    if value and not name and cell_len(value) <= width:
        return pad(value, width, right=True)
    return clip(name or value, width)


def flowed(held: Held, width: int) -> list[list[tuple[int, Cell]]]:
    """Slots side by side in lines of ``width`` cells."""
    lines: list[list[tuple[int, Cell]]] = []
    used = width
    for slot, cell in held:
        size = cell_len(token(cell))
        if not lines or used + 1 + size > width:
            lines.append([])
            used = -1
        lines[-1].append((slot, cell))
        used += 1 + size
    return lines
