"""The answer of a planner as JSON and text: its best layouts, and every layout with the reason where it is out.

Reads a recording whose steps are layouts, best first; the first step is the opening.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from core.export import FORMAT, Run, _array, _json
from core.formatting import Value, format_value
from core.recording import Recording

DEGREES = (
    "data_parallel", "zero_stage", "tensor_parallel", "sequence_parallel", "pipeline_parallel", "context_parallel", "expert_parallel",
    "micro_batch", "microbatches", "recompute",
)  # fmt: skip
SECONDS = ("compute", "bubble", "tensor", "context", "expert", "pipeline", "data", "host", "update")
_FIGURES = {"total_bytes": "bytes", "step_time": "seconds", "exposed_communication": "exposed"}
_HEADINGS = ("step", "memory", "exposed", "dp", "zero", "tp", "sp", "pp", "cp", "ep", "micro", "of", "recompute")


def plan_json(run: Run) -> Iterator[str]:
    """One object: params, facts, checks, and ``layouts``: place, fits, reason (null where it fits), the degrees, bytes and seconds."""
    rec = run.recording
    yield f'{{"format": {FORMAT}, "simulation": {_json(rec.simulation)}, "params": {_json(rec.params)},\n"facts": '
    yield from _array(map(_json, rec.final_facts()))
    yield ',\n"checks": '
    yield from _array(map(_json, run.checks))
    yield ',\n"layouts": '
    yield from _array(map(_json, layouts(rec)))
    yield "}\n"


def layouts(rec: Recording) -> Iterator[dict[str, object]]:
    """Every layout as a flat mapping, best first. Bytes and seconds are null where a rule already broke."""
    for step in range(1, len(rec)):
        fits = _value(rec, "fits", step)
        row: dict[str, object] = {"place": _value(rec, "place", step), "fits": fits, "reason": None if fits else reason(rec, step)}
        row |= {name: _value(rec, name, step) for name in DEGREES}
        row |= {name: _value(rec, column, step) for name, column in _FIGURES.items()}
        row["seconds"] = {name: _value(rec, name, step) for name in SECONDS}
        yield row


def reason(rec: Recording, step: int) -> str:
    """Why the layout of ``step`` is out, with its numbers."""
    allowed = _value(rec, "allowed", step)
    if allowed:
        return f"{_value(rec, 'reason', step)}; it takes {allowed}"
    needs, has, over = (format_value(_value(rec, name, step), "bytes") for name in ("bytes", "capacity", "over"))
    return f"needs {needs} of {has}, {over} too much"


def plan_text(run: Run, top: int) -> Iterator[str]:
    """The opening, a table of the ``top`` fastest layouts, and how many others are out for which reason."""
    rec = run.recording
    yield f"{rec.title(0)}\n{rec.detail(0)}\n\n"
    fitting = [step for step in range(1, min(top + 1, len(rec))) if _value(rec, "fits", step)]
    rows = [_HEADINGS, *(_row(rec, step) for step in fitting)]
    widths = [max(len(row[c]) for row in rows) for c in range(len(_HEADINGS))]
    for row in rows:
        yield "  " + "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)).rstrip() + "\n"
    yield "\n"
    yield from _out(rec)
    failed = [check for check in run.checks if not check.ok]
    yield f"{len(run.checks)} checks, {f'{len(failed)} failed' if failed else 'all hold'}\n"
    for check in failed:
        yield f"  ✗ {check.name}: got {check.got}, want {check.want} ({check.oracle})\n"


def _row(rec: Recording, step: int) -> tuple[str, ...]:
    shown = [format_value(_value(rec, name, step), unit) for name, unit in (("seconds", "s"), ("bytes", "bytes"), ("exposed", "s"))]
    return (*shown, *(format_value(_value(rec, name, step)) for name in DEGREES))


def _out(rec: Recording) -> Iterator[str]:
    """Counted by reason; of those too large the first is the nearest."""
    many: Counter[str] = Counter()
    first: dict[str, int] = {}
    for step in range(1, len(rec)):
        if not _value(rec, "fits", step):
            key = str(_value(rec, "allowed", step))
            many[key] += 1
            first.setdefault(key, step)
    for key, count in many.most_common():
        example = reason(rec, first[key])
        yield f"  {count:>9,} out: {'such as ' + example if key else 'memory; the nearest ' + example}\n"


def _value(rec: Recording, name: str, step: int) -> Value:
    return rec.columns[name].value(step)
