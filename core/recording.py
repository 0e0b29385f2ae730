"""The one data model: a Recording is columns of steps, series of facts, checks, phases and a few views.

A simulation writes through a `Recorder`; everything else reads the `Recording`, also while it grows: data is published
before the step count, so a reader that stays below ``len(recording)`` never sees half a step.
"""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from core.columns import Column
from core.errors import Cancelled
from core.formatting import FORMATTER, Value

if TYPE_CHECKING:
    import numpy as np
    import torch

    from core.views import View

FactKind = Literal["measured", "simulated", "formula", "reference"]
ViewT = TypeVar("ViewT", bound="View")


class Fact(msgspec.Struct, frozen=True):
    """One named number (text, bool) at one step. ``name`` includes its label: ``tpr[group_a]``.

    kind: measured (timed on this machine), simulated (counted or computed), formula, reference (published; ``note`` says where).
    """

    name: str
    value: Value
    unit: str = ""
    kind: FactKind = "simulated"
    note: str = ""


class Check(msgspec.Struct, frozen=True):
    """Equality with an independent computation. ``oracle`` says what it was compared with."""

    name: str
    ok: bool
    got: Value
    want: Value
    tolerance: float = 0.0
    oracle: str = ""


class Panel(msgspec.Struct, frozen=True):
    """A titled view on the stage. ``weight`` is its share of the height; ``beside`` puts it right of the panel before."""

    title: str
    view: View
    weight: float = 1.0
    beside: bool = False


class Template(msgspec.Struct, frozen=True):
    """What a kind of step says: a title and a detail with ``{name}`` or ``{name:unit}`` fields, and the value names it carries."""

    title: str
    detail: str
    names: tuple[str, ...]


class Phase(msgspec.Struct, frozen=True):
    first: int
    name: str


class FactSeries:
    """One fact over the steps: each value holds from its step until the next one."""

    __slots__ = ("_block", "kind", "name", "note", "steps", "unit", "values")

    def __init__(self, name: str, unit: str, kind: FactKind, note: str) -> None:
        self.name = name
        self.unit = unit
        self.kind: FactKind = kind
        self.note = note
        self.steps = array("q")
        self.values: list[Value] = []
        self._block: np.ndarray | None = None

    def append(self, step: int, value: Value) -> None:
        if self.steps and self.steps[-1] == step:
            self.values[-1] = value
            return
        self.values.append(value)
        self.steps.append(step)

    def set_column(self, column: np.ndarray) -> None:
        """One value for every step, as an array (NaN reads as None)."""
        self._block = column

    def value(self, step: int) -> Value:
        """The value that holds at ``step``; None before the first."""
        if self._block is not None:
            if not len(self._block):
                return None
            raw = self._block[min(step, len(self._block) - 1)].item()
            return None if isinstance(raw, float) and math.isnan(raw) else raw
        at = bisect_right(self.steps, step) - 1
        return self.values[at] if at >= 0 else None

    def begun(self, step: int) -> bool:
        """Whether the fact has been written at or before ``step``."""
        return self._block is not None or (len(self.steps) > 0 and self.steps[0] <= step)

    def changed(self, step: int) -> bool:
        """Whether the value at ``step`` differs from the one a step earlier."""
        return self.value(step) != (self.value(step - 1) if step > 0 else None)

    def column(self, length: int) -> np.ndarray:
        """The numeric series as one float per step, NaN where it has no number yet."""
        import numpy as np

        if self._block is not None:
            return np.asarray(self._block[:length], dtype=np.float64)
        out = np.full(length, np.nan)
        steps = [*self.steps, length]
        for first, end, value in zip(steps, steps[1:], self.values, strict=False):
            if isinstance(value, int | float):
                out[min(first, length) : min(end, length)] = value
        if length and steps[0] >= length and self.values and isinstance(self.values[-1], int | float):
            out[-1] = self.values[-1]  # written after the last step: it holds at the end
        return out

    def fact(self, step: int) -> Fact:
        return Fact(self.name, self.value(step), self.unit, self.kind, self.note)


class Recording:
    """What a simulation left behind. Readers use ``len()``, `title`, `detail`, `values`, `time`, `facts_at` and ``panels``."""

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


class Recorder:
    """The writing end of a Recording, handed to a simulation.

    `step` closes a step: view and fact writes since the previous one belong to it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._template_ids: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self._generator: torch.Generator | None = None

    # where and with what -------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """Where tensors live (cpu, cuda, cuda:1)."""
        return self.recording.device

    @property
    def seed(self) -> int:
        return self.recording.seed

    @property
    def generator(self) -> torch.Generator:
        """A seeded torch.Generator on the CPU: draw there, then move, so that every device sees the same numbers."""
        if self._generator is None:
            import torch

            self._generator = torch.Generator().manual_seed(self.recording.seed)
        return self._generator

    # steps -----------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Index of the step being written."""
        return len(self.recording)

    def step(self, title: str, detail: str = "", *, time: float | None = None, **values: Value) -> int:
        """Close one step and return its index. ``title`` and ``detail`` are templates over ``values``."""
        self._go_on()
        rec = self.recording
        row = rec._count
        names = tuple(values)
        template = self._template(title, detail, names)
        for name, value in values.items():
            column = rec.columns.get(name)
            if column is None:
                column = rec.columns[name] = Column.like(name, value)
            column.pad(row)
            column.append(value)
        rec.template_ids.append(template)
        rec.times.append(float("nan") if time is None else time)
        rec._count = row + 1
        return row

    def steps(
        self,
        templates: Sequence[tuple[str, str]],
        kind: np.ndarray | Sequence[int],
        time: np.ndarray | Sequence[float] | None = None,
        **columns: np.ndarray | Sequence[str],
    ) -> int:
        """Append a block of steps at once and return the index of its first.

        templates: (title, detail) pairs; kind: (steps,) index into them; time: (steps,) or None;
        columns: one (steps,) array (or sequence of text) per value name. Every template carries every name it mentions;
        names that no template mentions are tags of all of them.
        """
        self._go_on()
        import numpy as np

        rec = self.recording
        first = rec._count
        kinds = np.asarray(kind, dtype=np.int64)
        mentioned = [{f for _, f, _, _ in FORMATTER.parse(t + d) if f} for t, d in templates]
        everywhere = set(columns) - set().union(*mentioned) if mentioned else set(columns)
        ids = np.array(
            [
                self._template(t, d, tuple(n for n in columns if n in named or n in everywhere))
                for (t, d), named in zip(templates, mentioned, strict=True)
            ],
            dtype=np.int64,
        )
        for name, values in columns.items():
            if len(values) != len(kinds):
                raise ValueError(f"column {name!r} has {len(values)} values for {len(kinds)} steps")
            column = rec.columns.get(name)
            if column is None:
                column = rec.columns[name] = Column(name, _block_kind(values))
            column.pad(first)
            column.extend(values)
        rec.template_ids.frombytes(ids[kinds].tobytes())
        times = np.full(len(kinds), np.nan) if time is None else np.asarray(time, dtype=np.float64)
        rec.times.frombytes(times.tobytes())
        rec._count = first + len(kinds)
        return first

    def phase(self, name: str, first: int | None = None) -> None:
        """The step being written (or ``first``) opens a phase of this name."""
        self.recording.phases.append(Phase(self.now if first is None else first, name))

    def progress(self, done: float, text: str = "") -> None:
        """Say how far the run is, as a fraction; also the place where long compiled work can be cancelled."""
        self._go_on()
        self.recording.progress = (min(max(done, 0.0), 1.0), text)

    # facts, checks, panels ---------------------------------------------------------------------------------------------

    def fact(
        self, name: str, value: Value, unit: str = "", kind: FactKind = "simulated", note: str = "", *, label: str | int | None = None
    ) -> None:
        """``value`` holds from the step being written until it is set again. A label gives ``name[label]``."""
        self._series(name, unit, kind, note, label).append(self.now, _plain(value))

    def fact_column(
        self, name: str, column: np.ndarray, unit: str = "", kind: FactKind = "simulated", note: str = "", *, label: str | int | None = None
    ) -> None:
        """One value a step: ``column`` has as many entries as the finished recording has steps."""
        self._series(name, unit, kind, note, label).set_column(column)

    def check(self, name: str, got: Value, want: Value, tolerance: float = 0.0, oracle: str = "", *, ok: bool | None = None) -> bool:
        """Compare ``got`` with an independent ``want``: numbers within ``tolerance`` (absolute), anything else exactly.

        ``ok`` overrides the comparison for statements such as "greater than" (say so in ``want``). NaN never holds.
        """
        got, want = _plain(got), _plain(want)
        if ok is None:
            numbers = isinstance(got, int | float) and isinstance(want, int | float)
            ok = abs(got - want) <= tolerance if numbers else (got is not None and got == want)  # type: ignore[operator]
        self.recording.checks.append(Check(name, bool(ok), got, want, float(tolerance), oracle))
        return bool(ok)

    def panel(self, title: str, view: ViewT, weight: float = 1.0, *, beside: bool = False) -> ViewT:
        """Put ``view`` on the stage and return it; its writes belong to the step being written."""
        view.now = lambda: self.now
        if view.kind == "gantt":  # the times of its spans are those of the steps
            self.recording.time_unit = self.recording.time_unit or getattr(view, "unit", "")
        self.recording.panels.append(Panel(title, view, weight, beside))
        return view

    def _series(self, name: str, unit: str, kind: FactKind, note: str, label: str | int | None) -> FactSeries:
        key = name if label is None else f"{name}[{label}]"
        series = self.recording.facts.get(key)
        if series is None:
            series = self.recording.facts[key] = FactSeries(key, unit, kind, note)
        return series

    def _template(self, title: str, detail: str, names: tuple[str, ...]) -> int:
        key = (title, detail, names)
        found = self._template_ids.get(key)
        if found is None:
            self.recording.templates.append(Template(title, detail, names))
            found = self._template_ids[key] = len(self.recording.templates) - 1
        return found

    def _go_on(self) -> None:
        if self.recording.cancelled:
            raise Cancelled


def _plain(value: Value) -> Value:
    """A Python scalar: numpy and 0-d torch scalars lose their wrapper, NaN becomes None."""
    item = getattr(value, "item", None)
    if callable(item):
        value = item()
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def _block_kind(values: np.ndarray | Sequence[str]) -> str:
    dtype = getattr(values, "dtype", None)
    if dtype is None or dtype.kind in "UOS":
        first = values[0] if len(values) else ""
        if isinstance(first, str):
            return "text"
        return "bool" if isinstance(first, bool) else "int" if isinstance(first, int) else "float"
    return {"f": "float", "b": "bool"}.get(dtype.kind, "int")


def first_difference(left: Recording, right: Recording) -> int | None:
    """First step whose template or values differ (or that only one has); None when all are the same."""
    import numpy as np

    shared = min(len(left), len(right))
    different = np.zeros(shared, dtype=bool)
    known: dict[Template, int] = {}
    codes = []
    for rec in (left, right):
        table = np.array([known.setdefault(template, len(known)) for template in rec.templates], dtype=np.int64)
        codes.append(table[np.frombuffer(rec.template_ids[:shared], dtype=np.int64)] if shared else table[:0])
    different |= codes[0] != codes[1]
    for name in {*left.columns, *right.columns}:
        one, other = left.columns.get(name), right.columns.get(name)
        if one is None or other is None:
            continue  # a name only one side has shows in its templates
        if one.kind == "text" and other.kind == "text":
            renumber = np.array([_code_or(one, text) for text in other.texts], dtype=np.int64)
            b = renumber[other.array(shared)] if len(renumber) else other.array(shared)
            different |= one.array(shared) != b
        elif one.kind != other.kind and "text" in (one.kind, other.kind):
            different[:] = True
        else:
            a, b = one.array(shared), other.array(shared)
            different |= ~((a == b) | ((a != a) & (b != b)))
    if different.any():
        return int(different.argmax())
    return shared if len(left) != len(right) else None


def _code_or(column: Column, text: str) -> int:
    code = column.code(text)
    return -1 if code is None else code
