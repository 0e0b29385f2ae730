"""A limit order book by price, with the queues inside its levels."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Literal

import msgspec

from core.cells import Cells
from core.views.base import View


class Resting(msgspec.Struct, frozen=True, gc=False):
    """One order in a level's queue, front first. ``quantity`` is displayed, ``reserve`` is not: it trades after all that is."""

    order_id: int
    quantity: float
    own: bool = False
    reserve: float = 0


class Level(msgspec.Struct, frozen=True, gc=False):
    """A price with its displayed quantity; ``orders`` is the queue where it is known (else empty)."""

    price: float
    quantity: float
    orders: tuple[Resting, ...] = ()

    @property
    def reserve(self) -> float:
        """What the known orders hold besides: icebergs under their tips, hidden orders whole."""
        return sum(order.reserve for order in self.orders)


class Mark(msgspec.Struct, frozen=True, gc=False):
    """What happened at a price in this step: role own, trade, bid, ask, bad; ``text`` says it in two or three words."""

    price: float
    role: str
    text: str


class LadderFrame(msgspec.Struct, frozen=True):
    """Both sides, best price first, and this step's marks."""

    bids: tuple[Level, ...]
    asks: tuple[Level, ...]
    marks: tuple[Mark, ...]


class Ladder(View):
    """A limit order book by price, written level by level. ``tick`` is the smallest price step in the unit of the prices."""

    kind = "ladder"

    def __init__(self, tick: float = 0.01, price_unit: str = "$", quantity_unit: str = "") -> None:
        super().__init__()
        self.tick, self.price_unit, self.quantity_unit = tick, price_unit, quantity_unit
        self._levels: Cells[tuple[str, float], Level] = Cells()
        self._steps = array("q")
        self._marks: list[Mark] = []

    def level(
        self, side: Literal["bid", "ask"], price: float, quantity: float, orders: Iterable[Resting] = (), *, step: int | None = None
    ) -> None:
        """The level's state from this step on; one with neither quantity nor orders is gone."""
        level = Level(price, quantity, tuple(orders))
        self._levels.write(self._step(step), (side, price), level if quantity or level.orders else None)

    def mark(self, price: float, role: str, text: str, *, step: int | None = None) -> None:
        self._marks.append(Mark(price, role, text))
        self._steps.append(self._step(step))

    def at(self, step: int) -> LadderFrame:
        sides: dict[str, list[Level]] = {"bid": [], "ask": []}
        for (side, _), level in self._levels.at(step).items():
            sides[side].append(level)
        bids = sorted(sides["bid"], key=lambda level: -level.price)
        asks = sorted(sides["ask"], key=lambda level: level.price)
        first, end = bisect_left(self._steps, step), bisect_right(self._steps, step)
        return LadderFrame(tuple(bids), tuple(asks), tuple(self._marks[first:end]))
