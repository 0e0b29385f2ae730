"""The runs on a stage: variants, forks and recordings that still grow, two of them side by side with one playhead."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Literal

from core.device import require
from core.errors import BadInput
from core.recording import Check, Recording
from core.scenario import Scenario, judge
from tui.defects import told
from tui.player import Player


class Run:
    """One recording of a scenario's variant, with its player. ``overrides`` are parameters changed on the stage."""

    def __init__(
        self,
        scenario: Scenario,
        variant: str,
        overrides: Mapping[str, object] | None = None,
        *,
        device: str = "cpu",
        seed: int = 0,
        label: str = "",
        clock: Callable[[], float] = time.monotonic,
        recording: Recording | None = None,
    ) -> None:
        """``recording`` is a finished one, which is only looked at."""
        self.scenario = scenario
        self.variant = variant
        self.overrides = dict(overrides or {})
        self.device = device
        self.seed = seed
        self.label = label or variant
        self.recording = recording if recording is not None else Recording(scenario.simulation, device=device, seed=seed)
        self.player = Player(self.recording, clock)
        self.error = ""
        self.done = recording is not None
        self.judged: list[Check] = []

    @property
    def checks(self) -> list[Check]:
        """The recording's own checks and, on unmodified parameters, those of the scenario's [expect]."""
        return [*self.recording.checks, *self.judged]

    @property
    def failed_checks(self) -> list[Check]:
        return [check for check in self.checks if not check.ok]

    def record(self) -> None:
        """Run to the end; blocks, and never raises: `error` says in one line what went wrong. Belongs in a worker thread."""
        from core.errors import Cancelled
        from core.simulation import record

        try:
            if self.device != "cpu":
                require(self.device)
            params = self.scenario.parsed(self.variant, self.overrides)
            record(self.scenario.simulation, params, self.device, seed=self.seed, recording=self.recording)
            if not self.overrides:
                self.judged = judge(self.scenario, self.variant, self.recording)
        except Cancelled:
            self.recording.state = "cancelled"
        except BadInput as error:
            self._fail(str(error))
        except BaseException as error:
            self._fail(told(f"{self.scenario.simulation} stopped with", error))
        finally:
            self.done = True

    def _fail(self, line: str) -> None:
        self.recording.state = "failed"
        self.error = line


class Runs:
    """All runs of one stage: which is in front, and which stands beside it."""

    def __init__(self) -> None:
        self.all: list[Run] = []
        self.front: Run | None = None
        self.beside: Run | None = None

    def add(self, run: Run) -> Run:
        self.all.append(run)
        return run

    def replace(self, old: Run, new: Run) -> None:
        """``new`` takes the place of ``old``, which is cancelled."""
        old.recording.cancel()
        self.all[self.all.index(old)] = new
        self.front = new if self.front is old else self.front
        self.beside = new if self.beside is old else self.beside

    def named(self, variant: str) -> Run | None:
        """The first run of ``variant`` (forks are not counted)."""
        return next((run for run in self.all if run.variant == variant and run.label == variant), None)

    @property
    def pair(self) -> tuple[Run, Run] | None:
        return (self.front, self.beside) if self.front is not None and self.beside is not None else None

    def step_beside(self) -> int:
        """The step at which the run beside stands when the front one stands at its own."""
        if self.front is None or self.beside is None:
            return 0
        return synchronise(self.front.recording, self.front.player.step, self.beside.recording)

    def cancel(self) -> None:
        for run in self.all:
            run.recording.cancel()


def way(source: Recording, target: Recording) -> Literal["time", "phase", "index"]:
    """How two playheads are held together: by simulated time if both have it, else by equally named phases, else by index."""
    if source.has_time and target.has_time and source.time_unit == target.time_unit and _ordered(source) and _ordered(target):
        return "time"
    if {p.name for p in source.phases} & {p.name for p in target.phases}:
        return "phase"
    return "index"


def synchronise(source: Recording, step: int, target: Recording) -> int:
    """The step of ``target`` that belongs to ``step`` of ``source``; the shorter one stays at its end."""
    last = max(len(target) - 1, 0)
    if not len(source) or not len(target):
        return 0
    step = min(step, len(source) - 1)
    how = way(source, target)
    if how == "time":
        return min(_by_time(source, step, target), last)
    if how == "phase":
        return min(_by_phase(source, step, target), last)
    return min(step, last)


def _by_time(source: Recording, step: int, target: Recording) -> int:
    """The last step up to the same time; of several steps at that very time, the one with the same place among them."""
    now = source.times[step]
    place = step - bisect_left(source.times, now, 0, len(source))
    first, end = bisect_left(target.times, now, 0, len(target)), bisect_right(target.times, now, 0, len(target))
    if first == end:
        return max(first - 1, 0)
    return min(first + place, end - 1)


def _by_phase(source: Recording, step: int, target: Recording) -> int:
    """The same share of the equally named phase; a phase the target lacks leaves it where its last shared phase ended."""
    at = bisect_right(source.phases, step, key=lambda phase: phase.first) - 1
    nth: dict[str, int] = {}
    known: dict[tuple[str, int], tuple[int, int]] = {}
    for number, phase in enumerate(target.phases):
        end = target.phases[number + 1].first if number + 1 < len(target.phases) else len(target)
        known[phase.name, nth.setdefault(phase.name, 0)] = (phase.first, end)
        nth[phase.name] += 1
    while at >= 0:
        phase = source.phases[at]
        earlier = sum(other.name == phase.name for other in source.phases[:at])
        if (phase.name, earlier) in known:
            first, end = known[phase.name, earlier]
            source_end = source.phases[at + 1].first if at + 1 < len(source.phases) else len(source)
            if step >= source_end:
                return max(end - 1, first)
            share = (step - phase.first) / max(source_end - phase.first, 1)
            return first + int(share * max(end - first, 1))
        at -= 1
    return 0


_ORDER: dict[int, tuple[Recording, int, bool]] = {}


def _ordered(recording: Recording) -> bool:
    """Whether times never go back (looked at once for every length)."""
    kept = _ORDER.get(id(recording))
    if kept is not None and kept[0] is recording and (kept[1] == len(recording) or not kept[2]):
        return kept[2]
    import numpy as np

    length = len(recording)
    times = np.frombuffer(recording.times[:length], dtype=np.float64)
    ordered = not np.isnan(times).any() and bool((np.diff(times) >= 0).all())
    while len(_ORDER) >= 8:
        _ORDER.pop(next(iter(_ORDER)))
    _ORDER[id(recording)] = (recording, length, ordered)
    return ordered
