"""A small simulation for tests of the explorer, its scenario, and a clock that tests move."""

from __future__ import annotations

import threading
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.recording import Recorder
from core.scenario import Scenario
from core.simulation import Params, simulation
from core.views import Axis, Column, Gantt, Table


class WalkParams(Params):
    ranks: Annotated[int, Meta(ge=1, le=64, description="ranks that walk")] = 3
    rounds: Annotated[int, Meta(ge=1, le=100_000, description="steps of each rank")] = 4
    order: Literal["forth", "back"] = "forth"
    rates: tuple[float, ...] = (1.0, 2.0)
    fail: bool = False
    refuse: bool = False
    hold: bool = False


GATE = threading.Event()
"""Walks with ``hold`` stand still after half of their steps until it is set."""


@simulation("walk")
def walk(params: WalkParams, rec: Recorder) -> None:
    """Ranks walk in turn."""
    lanes = rec.panel("Lanes", Gantt(Axis("rank {i}", params.ranks)), 2)
    table = rec.panel("Where", Table([Column("rank"), Column("round")]))
    half = params.rounds // 2
    for turn in range(params.rounds):
        if turn == 0:
            rec.phase("first half")
        if turn == half and turn:
            rec.phase("second half")
            if params.fail:
                raise RuntimeError("the floor gives way")
            if params.refuse:
                raise BadInput("walk.rounds", "found too many", "fewer")
            while params.hold and not GATE.wait(0.01):
                rec.progress(0.5, "resting")
        for place in range(params.ranks):
            rank = place if params.order == "forth" or turn < half else params.ranks - 1 - place
            lanes.span(place, turn, turn + 1, "forward", "F{n}", turn)
            table.row(rank, turn, row=0)
            rec.fact("distance", (turn * params.ranks + place + 1) * 1000, "bytes")
            rec.fact("half", "second" if turn >= half else "first")
            rec.step("Rank {rank} walks in round {turn}", "It is the turn of {rank}.", time=float(turn), rank=rank, turn=turn)
    rec.check("steps", len(rec.recording), params.ranks * params.rounds, oracle="ranks x rounds")


def story(**changes: object) -> Scenario:
    """The scenario of the walk; 12 steps a variant."""
    parts: dict[str, object] = {
        "name": "training/walk",
        "simulation": "walk",
        "title": "A walk",
        "question": "Who walks last?",
        "takeaway": "It depends on the order.",
        "variants": {"forth": {"order": "forth"}, "back": {"order": "back"}},
        "expect": {"forth.distance": 12000},
    }
    return Scenario(**{**parts, **changes})  # type: ignore[arg-type]


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
