"""A price level's queue as a bar of blocks: one block an order, sized by quantity, the own order starred."""

from __future__ import annotations

import math

from core.views import Level
from tui.theme import GLYPHS


def blocks(level: Level, halves: int) -> tuple[list[str], set[int]]:
    """The cells of a bar of so many half cells, front first, and which of them are the own order's.

    Orders share the bar by quantity; all but the last give up their last half cell as a gap where they have two.
    """
    total = sum(order.quantity for order in level.orders)
    filled = [True] * halves
    own: set[int] = set()
    stars: set[int] = set()
    done = 0.0
    for place, order in enumerate(level.orders if total > 0 else ()):
        first = round(done / total * halves)
        done += order.quantity
        end = round(done / total * halves)
        if order.own:
            cell = min(first, halves - 1) // 2
            stars.add(cell)
            own.update({cell, *range((first + 1) // 2, end // 2)})
        if end - first >= 2 and place < len(level.orders) - 1:
            filled[end - 1] = False
    filled += [False] * (len(filled) % 2)
    shapes = {(True, True): "█", (True, False): "▌", (False, True): "▐", (False, False): " "}
    cells = [shapes[filled[k], filled[k + 1]] for k in range(0, len(filled), 2)]
    for cell in stars:
        cells[cell] = GLYPHS["own"]
    return cells, own


def round_up(value: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is not below ``value``."""
    if not value > 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)
