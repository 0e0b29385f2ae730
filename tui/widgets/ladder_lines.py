"""A ladder's rows and how its width is shared out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.views import Level, Mark
from tui.widgets.queue_bar import Side


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the ladder. ``tick`` is its price in ticks (None: the row has no price of its own).

    ``across``: the bids at this price where ``level`` are its asks; only a crossed book has both.
    """

    kind: Literal["level", "empty", "gap", "spread"]
    side: Side = "ask"
    tick: int | None = None
    level: Level | None = None
    marks: tuple[Mark, ...] = ()
    text: str = ""
    across: Level | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Cells of a bar, the bids' and the asks' quantity and a price; the scale, what a full bar stands for, if reserves are written."""

    bar: int
    bids: int
    asks: int
    price: int
    scale: float
    full: float
    reserves: bool = False
