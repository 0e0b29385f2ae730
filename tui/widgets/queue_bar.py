"""A price level's queue as a bar of blocks: one an order, sized by quantity, the own order starred, what is hidden shaded."""

from __future__ import annotations

import math
from typing import Literal

from core.formatting import digits
from core.views import Level
from tui.theme import GLYPHS, Palette
from tui.widgets.fitting import Row

Side = Literal["bid", "ask"]
HIDDEN = "░"


def amount(level: Level, reserves: bool = True) -> str:
    """What a level displays, and with ``reserves`` what it holds besides."""
    return f"{digits(level.quantity)}+{digits(level.reserve)}" if reserves and level.reserve else digits(level.quantity)


def explained(level: Level, ahead: float | None, unit: str, side: Side) -> str:
    """A level in words; ``ahead`` is displayed at better prices (None: it is the best one)."""
    unit = f" {unit}".rstrip()
    parts = [f"{digits(level.quantity)}{unit}"]
    if level.reserve:
        parts.append(f"{digits(level.reserve)} more hidden")
    if level.orders:
        parts.append("1 order" if len(level.orders) == 1 else f"{len(level.orders)} orders")
    parts.append(f"best {side}" if ahead is None else f"{digits(ahead)}{unit} ahead at better prices")
    before = 0.0
    for order in level.orders:
        if order.own:
            hidden = f" and {digits(order.reserve)} hidden" if order.reserve else ""
            parts.append(f"★ own order {digits(order.quantity)}{hidden}: {digits(before)}{unit} ahead of it in the queue")
        before += order.quantity
    return " · ".join(parts)


def paint_queue(row: Row, level: Level, side: Side, width: int, scale: float, palette: Palette) -> None:
    """The queue as blocks, the front beside the price: bids grow leftwards within ``width`` cells; ``scale`` fills them all."""
    if not width:
        return
    cells, own = blocks(level, min(max(round((level.quantity + level.reserve) / scale * width * 2), 1), width * 2))
    if side == "bid":
        swap = {"▌": "▐", "▐": "▌"}
        cells, own = [swap.get(c, c) for c in reversed(cells)], {len(cells) - 1 - c for c in own}
        row.to(width - len(cells))
    style, mine = palette.style(side), palette.style("own", bold=True)
    start = 0
    for at in range(1, len(cells) + 1):
        if at == len(cells) or (at in own) != (start in own):
            row.add("".join(cells[start:at]), mine if start in own else style)
            start = at


def blocks(level: Level, halves: int) -> tuple[list[str], set[int]]:
    """The cells of a bar of so many half cells, front first, and which of them are the own order's.

    Displayed orders share their part of the bar by quantity; all but the last give up their last half cell as a gap where they
    have two. What is not displayed comes behind all of them, shaded, for so it trades.
    """
    total, reserve = sum(order.quantity for order in level.orders), level.reserve
    shaded = _shaded(level.quantity, reserve, halves)
    halves = halves - 2 * len(shaded) if level.quantity or not shaded else 0
    filled = [True] * halves
    own: set[int] = set()
    stars: set[int] = set()
    done = 0.0
    for place, order in enumerate(level.orders if total > 0 else ()):
        first = round(done / total * halves)
        done += order.quantity
        end = round(done / total * halves)
        if order.own and order.quantity:
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
    own.update(len(cells) + at for at in _own_shade(level, len(shaded)))
    return cells + shaded, own


def _shaded(displayed: float, reserve: float, halves: int) -> list[str]:
    """The cells of what is not displayed: at least one, and one is left to what is displayed."""
    if not reserve:
        return []
    if not displayed:
        return [HIDDEN] * ((halves + 1) // 2)
    return [HIDDEN] * min(max(round(reserve / (displayed + reserve) * halves / 2), 1), (halves - 1) // 2)


def _own_shade(level: Level, cells: int) -> set[int]:
    """Which of the shaded cells are the own order's, in the order of the turns."""
    done = 0.0
    found: set[int] = set()
    for order in level.orders:
        first, done = done, done + order.reserve
        if order.own and cells:
            found.update(range(round(first / level.reserve * cells), round(done / level.reserve * cells)))
    return found


def round_up(value: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is not below ``value``."""
    if not value > 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 5) if step * power >= value), 10 * power)
