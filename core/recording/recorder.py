"""The writing end of a recording, handed to a simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from core.columns import Column
from core.errors import Cancelled
from core.formatting import FORMATTER, Value
from core.recording.facts import Check, FactKind, FactSeries
from core.recording.parts import Panel, Phase, Template
from core.recording.recording import Recording

if TYPE_CHECKING:
    import numpy as np
    import torch

    from core.views import View

ViewT = TypeVar("ViewT", bound="View")


class Recorder:
    """The writing end of a Recording, handed to a simulation.

    `step` closes a step: view and fact writes since the previous one belong to it.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._template_ids: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self._computed: list[str] = []
        self._block_ids: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], np.ndarray] = {}
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

    def step(self, title: str, detail: str = "", *, time: float | None = None, joins: Value = False, **values: Value) -> int:
        """Close one step and return its index. ``title`` and ``detail`` are templates over ``values``.

        ``joins`` (yes or no): it belongs to one happening with the step before; playing shows only the last of them.
        """
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
        if joins and row:
            rec.joins.steps.append(row)
        rec._count = row + 1
        return row

    def steps(
        self,
        templates: Sequence[tuple[str, str]],
        kind: np.ndarray | Sequence[int],
        time: np.ndarray | Sequence[float] | None = None,
        joins: np.ndarray | Sequence[object] | None = None,
        **columns: np.ndarray | Sequence[str],
    ) -> int:
        """Append a block of steps at once and return the index of its first.

        templates: (title, detail) pairs; kind: (steps,) index into them; time: (steps,) or None;
        joins: (steps,) bool, the steps that belong to one happening with the step before (see `step`), or None;
        columns: one (steps,) array (or sequence of text) per value name. Every template carries every name it mentions;
        names that no template mentions are tags of all of them.
        """
        self._go_on()
        import numpy as np

        rec = self.recording
        first = rec._count
        kinds = np.asarray(kind, dtype=np.int64)
        ids = self._ids_of(templates, (*self._computed, *columns))
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
        if joins is not None:
            later = np.flatnonzero(np.asarray(joins, dtype=bool)) + first
            rec.joins.steps.frombytes(later[later > 0].astype(np.int64).tobytes())
        rec._count = first + len(kinds)
        return first

    def _ids_of(self, templates: Sequence[tuple[str, str]], names: tuple[str, ...]) -> np.ndarray:
        """(templates,) their ids with those of ``names`` that they carry; found once for all blocks."""
        import numpy as np

        key = (tuple(templates), names)
        if key not in self._block_ids:
            mentioned = [{f for _, f, _, _ in FORMATTER.parse(t + d) if f} for t, d in templates]
            everywhere = set(names) - set().union(*mentioned) if mentioned else set(names)
            carried = [tuple(n for n in names if n in named or n in everywhere) for named in mentioned]
            ids = [self._template(t, d, mine) for (t, d), mine in zip(templates, carried, strict=True)]
            self._block_ids[key] = np.array(ids, dtype=np.int64)
        return self._block_ids[key]

    def computed(self, *columns: Column) -> None:
        """Value names of all `steps` that follow whose values are not handed over but computed where they are read."""
        for column in columns:
            self.recording.columns[column.name] = column
            self._computed.append(column.name)

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
        self._series(name, unit, kind, note, label).append(self.now, _plain(value, name))

    def fact_column(
        self, name: str, column: np.ndarray, unit: str = "", kind: FactKind = "simulated", note: str = "", *, label: str | int | None = None
    ) -> None:
        """One value a step: ``column`` has as many entries as the finished recording has steps."""
        self._series(name, unit, kind, note, label).set_column(column)

    def check(self, name: str, got: Value, want: Value, tolerance: float = 0.0, oracle: str = "", *, ok: bool | None = None) -> bool:
        """Compare ``got`` with an independent ``want``: numbers within ``tolerance`` (absolute), anything else exactly.

        ``ok`` overrides the comparison for statements such as "greater than" (say so in ``want``). NaN never holds.
        """
        got, want = _plain(got, name), _plain(want, name)
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
        recording = self.recording
        if recording.cancelled:
            raise Cancelled
        if recording.between is not None:
            recording.between()


def _plain(value: Value, name: str) -> Value:
    """A Python scalar: numpy and 0-d torch scalars lose their wrapper, NaN becomes None. TypeError for anything else."""
    item = getattr(value, "item", None)
    if callable(item):
        value = item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is not None and not isinstance(value, int | float | str):
        raise TypeError(f"{name!r} is a number, text, bool or None, not {type(value).__name__}")
    return value


def _block_kind(values: np.ndarray | Sequence[str]) -> str:
    dtype = getattr(values, "dtype", None)
    if dtype is None or dtype.kind in "UOS":
        first = values[0] if len(values) else ""
        if isinstance(first, str):
            return "text"
        return "bool" if isinstance(first, bool) else "int" if isinstance(first, int) else "float"
    return {"f": "float", "b": "bool"}.get(dtype.kind, "int")
