"""Recordings as files and text for other programs: JSON, plain text, CSV of the steps, Chrome trace of the schedules.

Everything is produced piece by piece, so a recording of a million steps never becomes one string.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from core.errors import BadInput
from core.files import refuse_special
from core.formatting import Value, digits, format_value
from core.recording import Check, Fact, Recording
from core.scenario import Scenario
from core.views import Gantt

FORMAT = 1
_MICROSECONDS = {"s": 1e6, "ms": 1e3, "us": 1.0, "µs": 1.0, "ns": 1e-3}


class Run(msgspec.Struct, frozen=True):
    """One finished variant: its recording, and the scenario's expectations as judged (empty when they do not apply)."""

    recording: Recording
    expected: Sequence[Check] = ()

    @property
    def checks(self) -> list[Check]:
        return [*self.recording.checks, *self.expected]

    @property
    def holds(self) -> bool:
        return all(check.ok for check in self.checks)


# JSON ----------------------------------------------------------------------------------------------------------------


def json_pieces(scenario: Scenario, runs: Mapping[str, Run], *, steps: bool = False) -> Iterator[str]:
    """The object that ``run --json`` prints, in pieces: a fact, a check and a step a line. NaN and infinities become null.

    ``steps`` adds ``step_list`` to every variant: title, detail, time, phase and values of each step.
    """
    yield f'{{"format": {FORMAT}, "simulation": {_json(scenario.simulation)}, "scenario": {_json(scenario.name)}, "variants": {{'
    for number, (name, run) in enumerate(runs.items()):
        rec = run.recording
        yield f"{',' if number else ''}\n{_json(name)}: {{"
        yield f'"params": {_json(rec.params)},\n"steps": {len(rec)},\n"facts": '
        yield from _array(map(_json, rec.final_facts()))
        yield ',\n"checks": '
        yield from _array(map(_json, run.checks))
        if steps:
            yield ',\n"step_list": '
            yield from _array(map(_json, step_rows(rec)))
        yield "}"
    yield "}}\n"


def step_rows(rec: Recording) -> Iterator[dict[str, object]]:
    """Every step as title, detail, time, phase (a name or None) and values."""
    at, phases = -1, rec.phases
    for step in range(len(rec)):
        while at + 1 < len(phases) and phases[at + 1].first <= step:
            at += 1
        yield {
            "title": rec.title(step),
            "detail": rec.detail(step),
            "time": rec.time(step),
            "phase": phases[at].name if at >= 0 else None,
            "values": rec.values(step),
        }


def _array(items: Iterable[str]) -> Iterator[str]:
    yield "["
    for number, item in enumerate(items):
        yield f"{',' if number else ''}\n{item}"
    yield "]"


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a file's name need not be UTF-8, JSON is
        return msgspec.json.encode(_in_utf8(msgspec.to_builtins(value))).decode()


def _in_utf8(value: object) -> object:
    """``value`` with U+FFFD for what no UTF-8 text can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {_in_utf8(key): _in_utf8(held) for key, held in value.items()}
    return [_in_utf8(held) for held in value] if isinstance(value, list | tuple) else value


# text ----------------------------------------------------------------------------------------------------------------


def text_pieces(scenario: Scenario, runs: Mapping[str, Run]) -> Iterator[str]:
    """The scenario's heading and a section for each variant."""
    yield text_heading(scenario)
    for name, run in runs.items():
        yield "\n" + text_section(name, run)
    if scenario.takeaway:
        yield f"\n{scenario.takeaway}\n"


def text_heading(scenario: Scenario) -> str:
    title = f"{scenario.name} · {scenario.title}" if scenario.title not in ("", scenario.name) else scenario.name
    return f"{title}\n{scenario.question}\n" if scenario.question else f"{title}\n"


def text_section(name: str, run: Run) -> str:
    """One variant: parameters, facts with their units aligned, checks with ✓ or ✗."""
    rec = run.recording
    count = f"{len(rec):,} step" + ("" if len(rec) == 1 else "s")
    place = "" if rec.device == "cpu" else f" on {rec.device}"
    lines = [f"[{name}] {rec.simulation}, {count}{place}"]
    if rec.params:
        lines.append("  " + " ".join(f"{key}={_plain_param(value)}" for key, value in rec.params.items()))
    lines += _fact_lines(rec.final_facts())
    lines += _check_lines(run.checks)
    return "\n".join(lines) + "\n"


def _plain_param(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(_plain_param(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else (str(value) or "''")


def _fact_lines(facts: Sequence[Fact]) -> list[str]:
    """Name, number (right-aligned), unit, kind and note in columns."""
    rows = []
    for fact in facts:
        number, unit = _number_and_unit(fact)
        rows.append((fact.name, number, unit, fact.kind, fact.note))
    widths = [max((len(row[k]) for row in rows if k != 1 or len(row[1]) <= 24), default=0) for k in range(4)]
    return [
        f"  {name:<{widths[0]}}  {number:>{widths[1]}} {unit:<{widths[2]}}  {kind:<{widths[3]}}  {note}".rstrip()
        for name, number, unit, kind, note in rows
    ]


def _number_and_unit(fact: Fact) -> tuple[str, str]:
    text = format_value(fact.value, fact.unit)
    if isinstance(fact.value, bool | str) or fact.value is None:
        return text, ""
    number, _, unit = text.partition(" ")
    return number, unit


def _check_lines(checks: Sequence[Check]) -> list[str]:
    width = max((len(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        oracle = f"  {check.oracle}" if check.oracle else ""
        if check.ok:
            lines.append(f"  ✓ {check.name:<{width}}{oracle}".rstrip())
        else:
            allowed = f" ± {digits(check.tolerance)}" if check.tolerance else ""
            lines.append(f"  ✗ {check.name:<{width}}{oracle}: got {_exact(check.got)}, want {_exact(check.want)}{allowed}")
    return lines


def _exact(value: Value) -> str:
    """A checked value with all its digits, so that a near miss is seen."""
    return repr(value) if isinstance(value, float) else format_value(value)


# CSV -----------------------------------------------------------------------------------------------------------------


def csv_pieces(runs: Mapping[str, Run]) -> Iterator[str]:
    """The steps of all runs: variant, step (from 1), time, phase, title, detail and one column per value name."""
    names = list(dict.fromkeys(name for run in runs.values() for name in run.recording.columns))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    fixed = ["variant", "step", "time", "phase", "title", "detail"]
    writer.writerow([*fixed, *(f"value {name}" if name in fixed else name for name in names)])
    for variant, run in runs.items():
        for step, row in enumerate(step_rows(run.recording), start=1):
            values = row["values"]
            assert isinstance(values, dict)
            writer.writerow([variant, step, row["time"], row["phase"], row["title"], row["detail"], *(values.get(n) for n in names)])
            if buffer.tell() > 1 << 16:
                yield _take(buffer)
    yield _take(buffer)


def _take(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


# Chrome trace --------------------------------------------------------------------------------------------------------


def trace_pieces(scenario: Scenario, runs: Mapping[str, Run]) -> Iterator[str]:
    """Every Gantt panel as Chrome trace events: a process per panel, a thread per lane, times in microseconds.

    Opens in Perfetto and chrome://tracing. A time without a unit counts one unit as one microsecond; ``otherData`` says so.
    Raises BadInput when no run has a Gantt panel.
    """
    charts = [(name, run.recording, panel) for name, run in runs.items() for panel in run.recording.panels if isinstance(panel.view, Gantt)]
    if not charts:
        raise BadInput(scenario.name, "no panel of this recording is a schedule over time", "a recording with a Gantt panel")
    notes = {"scenario": scenario.name, "simulation": scenario.simulation}
    processes = []
    for pid, (name, rec, panel) in enumerate(charts, start=1):
        view = panel.view
        assert isinstance(view, Gantt)
        title = panel.title if len(runs) == 1 else f"{name} · {panel.title}"
        notes[f"time of {title}"] = "seconds" if view.unit in _MICROSECONDS else f"1 {view.unit or 'unit'} is drawn as 1 µs"
        processes.append((pid, title, rec, view))
    yield f'{{"displayTimeUnit": "ms", "otherData": {_json(notes)}, "traceEvents": '
    yield from _array(_json(event) for pid, title, rec, view in processes for event in _trace_events(pid, title, rec, view))
    yield "}\n"


def _trace_events(pid: int, title: str, rec: Recording, view: Gantt) -> Iterator[dict[str, object]]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": title}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for lane in range(len(view.lanes)):
        yield {"ph": "M", "pid": pid, "tid": lane, "name": "thread_name", "args": {"name": view.lanes.label(lane)}}
        yield {"ph": "M", "pid": pid, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": lane}}
    scale = _MICROSECONDS.get(view.unit, 1.0)
    for index in range(len(view)):
        span = view.get(index)
        yield {
            "ph": "X",
            "pid": pid,
            "tid": span.lane,
            "name": span.text or span.role,
            "cat": span.role,
            "ts": span.start * scale,
            "dur": (span.end - span.start) * scale,
            "args": {"step": span.step + 1, "title": rec.title(span.step)} if span.step < len(rec) else {},
        }


# files ---------------------------------------------------------------------------------------------------------------

FORMATS: dict[str, tuple[str, Callable[[Scenario, Mapping[str, Run]], Iterator[str]]]] = {
    "json": (".json", lambda scenario, runs: json_pieces(scenario, runs, steps=True)),
    "text": (".txt", text_pieces),
    "csv": (".csv", lambda scenario, runs: csv_pieces(runs)),
    "trace": (".trace.json", trace_pieces),
}
"""format -> (usual suffix, what writes it)"""


def write(recordings: Mapping[str, Recording], scenario: Scenario, format: str, path: Path | str, *, overwrite: bool = False) -> Path:
    """Write ``recordings`` (by variant) as ``format`` (json, text, csv, trace) and return the file's full path.

    The file appears when it is complete. Raises BadInput for an unknown format, a file that stands there already
    (unless ``overwrite``), or a place that cannot be written.
    """
    if format not in FORMATS:
        raise BadInput("format", f"found {format!r}", ", ".join(FORMATS))
    target = Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - never raises
    if os.path.isdir(target):  # noqa: PTH112 - never raises
        raise BadInput(str(target), "found a directory", "the path of a file")
    if os.path.exists(target) and not overwrite:  # noqa: PTH110 - never raises
        raise BadInput(str(target), "a file stands there already", "another name, or overwriting it")
    runs = {name: Run(recording) for name, recording in recordings.items()}
    write_pieces(FORMATS[format][1](scenario, runs), target)
    return target


def write_pieces(pieces: Iterable[str], target: Path) -> None:
    """Write UTF-8 text beside ``target`` and rename it over ``target`` when complete. Raises BadInput when it cannot be written.

    A link stays a link, a file keeps its mode, and neither a device nor a file that may not be written is replaced.
    """
    allowed = "a file in a folder that can be written"
    refuse_special(target, allowed)
    if os.path.exists(target) and not os.access(target, os.W_OK):  # noqa: PTH110 - never raises
        raise BadInput(str(target), "Permission denied", allowed)
    shown, part = str(target), None
    try:
        target = target.resolve()
        part = target.with_name(f".notes-tui.{os.getpid()}.part")
        with part.open("w", encoding="utf-8", errors="replace", newline="") as file:
            file.writelines(pieces)
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        raise BadInput(shown, error.strerror or str(error), allowed) from None
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink()
