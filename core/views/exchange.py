"""Actors, what each holds, and the messages between them."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

import msgspec

from core.cells import Cells
from core.formatting import Value
from core.views.base import Axis, View
from core.views.cell import Cell


class Message(msgspec.Struct, frozen=True, gc=False):
    """What one actor hands to another in a step. ``size`` in the view's unit; ``text`` names it."""

    source: int
    target: int
    size: float
    role: str
    text: str


class ExchangeFrame(msgspec.Struct, frozen=True):
    """``held[actor]`` are the (slot, cell) pairs an actor holds, in slot order; ``messages`` travel in this step."""

    held: tuple[tuple[tuple[int, Cell], ...], ...]
    messages: tuple[Message, ...]


class Exchange(View):
    """Actors (ranks) in a row, what each holds, and the messages that travel between them in a step."""

    kind = "exchange"

    def __init__(self, actors: Axis, unit: str = "bytes", *, slots: Axis | None = None) -> None:
        super().__init__()
        self.actors, self.unit, self.slots = actors, unit, slots
        self._held: Cells[tuple[int, int], Cell] = Cells()
        self._steps = array("q")
        self._messages: list[Message] = []

    def hold(self, actor: int, slot: int, value: Value, role: str = "plain", text: str = "", *, step: int | None = None) -> None:
        """``actor`` holds this in ``slot`` from now on."""
        self._held.write(self._step(step), (actor, slot), Cell(value, role, text))

    def drop(self, actor: int, slot: int, *, step: int | None = None) -> None:
        self._held.write(self._step(step), (actor, slot), None)

    def send(self, source: int, target: int, size: float, role: str = "comm", text: str = "", *, step: int | None = None) -> None:
        """A message of this step only."""
        self._messages.append(Message(source, target, float(size), role, text))
        self._steps.append(self._step(step))

    def at(self, step: int) -> ExchangeFrame:
        held: list[list[tuple[int, Cell]]] = [[] for _ in range(len(self.actors))]
        for (actor, slot), cell in sorted(self._held.at(step).items(), key=lambda item: item[0]):
            held[actor].append((slot, cell))
        first, end = bisect_left(self._steps, step), bisect_right(self._steps, step)
        return ExchangeFrame(tuple(tuple(h) for h in held), tuple(self._messages[first:end]))
