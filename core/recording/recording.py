"""The reading end: columns of steps, series of facts, checks, phases and panels, also while they grow."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Literal

from core.columns import Column
from core.formatting import FORMATTER, Value, clock_text, format_value
from core.joins import Joins
from core.recording.facts import Check, Fact, FactSeries
from core.recording.parts import Panel, Phase, Template, Word


class Recording:
    """What a simulation left behind. Readers use ``len()``, `title`, `detail`, `values`, `time`, `facts_at` and ``panels``.

    ``clock`` is the zone whose midnight the times count their seconds from ("UTC"); "" where times are no clock.
    ``joins`` are the steps that belong to one happening with the step before: the fills of one taker.
    ``between`` is called by the recorder between two steps and may take a moment: who reads along can have the interpreter first.
    """

    def __init__(self, simulation: str, params: Mapping[str, object] | None = None, *, device: str = "cpu", seed: int = 0) -> None:
        self.simulation = simulation
        self.params: dict[str, object] = dict(params or {})
        self.device = device
        self.seed = seed
        self.templates: list[Template] = []
        self.template_ids = array("q")
        self.times = array("d")
        self.columns: dict[str, Column] = {}
        self.facts: dict[str, FactSeries] = {}
        self.checks: list[Check] = []
        self.panels: list[Panel] = []
        self.phases: list[Phase] = []
        self.state: Literal["recording", "finished", "failed", "cancelled"] = "recording"
        self.progress: tuple[float, str] = (0.0, "")
        self.time_unit = ""
        self.clock = ""
        self.words: dict[str, Word] = {}
        self.joins = Joins()
        self.between: Callable[[], None] | None = None
        self._count = 0
        self._cancelled = threading.Event()

    # reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Steps published so far."""
        return self._count

    def template(self, step: int) -> Template:
        return self.templates[self.template_ids[step]]

    def values(self, step: int) -> dict[str, Value]:
        """The named values of ``step``: its searchable tags."""
        return {name: self.columns[name].value(step) for name in self.template(step).names}

    def title(self, step: int) -> str:
        return FORMATTER.fill(self.template(step).title, self.values(step))

    def detail(self, step: int) -> str:
        return FORMATTER.fill(self.template(step).detail, self.values(step))

    def time(self, step: int) -> float | None:
        """Simulated time of ``step`` in ``time_unit`` (s, or "" for unit times); None when it has none."""
        value = self.times[step]
        return None if value != value else value

    @property
    def has_time(self) -> bool:
        return self._count > 0 and self.time(0) is not None

    def time_text(self, step: int, places: int | None = None) -> str:
        """The time of ``step`` as a person reads it, with its unit or its clock's zone; "" when it has none.

        ``places``: digits of a clock's second, None for as many as it has.
        """
        value = self.time(step)
        if value is None:
            return ""
        if self.clock:
            return f"{format_value(value, 'clock') if places is None else clock_text(round(value * 1e9), places)} {self.clock}"
        return f"t = {format_value(int(value) if abs(value) < 1e15 and value == int(value) else value, self.time_unit)}"

    def phase(self, step: int) -> Phase | None:
        at = bisect_right(self.phases, step, key=lambda phase: phase.first) - 1
        return self.phases[at] if at >= 0 else None

    def facts_at(self, step: int) -> list[Fact]:
        """All facts that hold at ``step``, in the order in which they were first written.

        At the last step of a finished recording those written after it count too.
        """
        at = self._reach(step)
        return [series.fact(at) for series in list(self.facts.values()) if series.begun(at)]

    def fact(self, name: str, step: int | None = None) -> Value:
        """One fact's value at ``step`` (default: its last). KeyError when the recording has no such fact."""
        return self.facts[name].value(self._reach(step if step is not None else max(self._count - 1, 0)))

    def final_facts(self) -> list[Fact]:
        return self.facts_at(max(self._count - 1, 0))

    def cancel(self) -> None:
        """Abandon the run: its next `step`, `steps` or `progress` raises `Cancelled`."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def _is_last(self, step: int) -> bool:
        return self.state != "recording" and step >= self._count - 1

    def _reach(self, step: int) -> int:
        return max(step, self._count) if self._is_last(step) else step
