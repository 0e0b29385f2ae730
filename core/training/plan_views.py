"""What the screen shows of a plan: the ranking, the frontier of memory against time, bytes and seconds of the best, and who is out."""

from __future__ import annotations

from collections import Counter

import numpy as np

from core.recording import Recorder
from core.training import memory_text
from core.training.memory_ledger import LINES
from core.training.plan_search import FITS, TOO_LARGE, Found, lines_of
from core.training.plan_setup import Job
from core.training.plan_time import PARTS
from core.views import Axis, Breakdown, Cell, Column, Plot, Table

RANKED = 40
"""Layouts listed one by one, the fastest ones."""
BARS = 8
SLOWEST = 5.0
"""Layouts that take so many times as long as the best are left out of the plot."""
POINTS = 1500
"""Layouts in the plot besides the frontier."""

TIME_ROLES = {
    "compute": "forward", "bubble": "idle", "tensor": "comm", "context": "group5", "expert": "group4", "pipeline": "group3",
    "data": "group6", "host": "buffer", "update": "optimizer",
}  # fmt: skip
WORDS = {"tensor": "tensor comm", "context": "context comm", "expert": "expert comm", "pipeline": "pipeline comm", "data": "data comm"}


def draw(rec: Recorder, job: Job, found: Found, order: np.ndarray) -> None:
    """All panels; step 0 is the opening, step k + 1 the layout in place k of ``order``."""
    best = [int(row) for row in order[: int((found.verdict == FITS).sum())]]
    _ranking(rec, job, found, best[:RANKED])
    _frontier(rec, job, found, order)
    placements = {label(found, row): row for row in reversed(best)}  # the fastest of each
    _bars(rec, job, found, sorted(placements.values(), key=lambda row: float(found.seconds[row]))[:BARS])
    _rejected(rec, job, found)


def label(found: Found, row: int) -> str:
    """A layout in a few letters: t8 p4 c1 d2."""
    layouts = found.layouts
    experts = f" e{int(layouts.expert[row])}" if layouts.expert[row] > 1 else ""
    return f"t{int(layouts.tensor[row])} p{int(found.stages[row])} c{int(layouts.context[row])} d{int(layouts.data[row])}{experts}"


def _ranking(rec: Recorder, job: Job, found: Found, best: list[int]) -> None:
    columns = [
        Column("place"), Column("step", "s"), Column("memory", "bytes"), Column("exposed", "s"), Column("tp"), Column("sp"), Column("pp"),
        Column("cp"), Column("dp"), Column("ep"), Column("ZeRO"), Column("mb"), Column("recompute", align="left"),
        Column("tensor group", align="left"),
    ]  # fmt: skip
    table = rec.panel("Layouts that fit, fastest first", Table(columns), 2.0)
    layouts = found.layouts
    within = job.machine.within(layouts.tensor)
    for place, row in enumerate(best, 1):
        where = (
            Cell("one GPU", "dim")
            if layouts.tensor[row] == 1
            else Cell("in a node", "plain")
            if within[row]
            else Cell("crosses nodes", "bad")
        )
        table.row(
            place, float(found.seconds[row]), float(found.bytes[row]), float(found.exposed[row]), int(layouts.tensor[row]),
            "yes" if layouts.sequence[row] else "no", int(found.stages[row]), int(layouts.context[row]), int(layouts.data[row]),
            int(layouts.expert[row]), int(layouts.zero[row]), int(layouts.micro_batch[row]),
            ("none", "selective", "full")[int(layouts.recompute[row])], where, step=0,
        )  # fmt: skip
    for place in range(len(best)):
        table.light(place, step=place + 1)
    table.light(step=len(best) + 1)


def frontier(found: Found) -> list[int]:
    """Fitting layouts that no other beats in both memory and time, from the least memory on."""
    fitting = np.flatnonzero(found.verdict == FITS)
    fitting = fitting[np.lexsort((found.seconds[fitting], found.bytes[fitting]))]
    kept, fastest = [], np.inf
    for row in fitting.tolist():
        if found.seconds[row] < fastest:
            kept.append(row)
            fastest = found.seconds[row]
    return kept


def _frontier(rec: Recorder, job: Job, found: Found, order: np.ndarray) -> None:
    plot = rec.panel("Memory against step time", Plot("memory of the fullest rank", "step", x_unit="bytes", y_unit="s"), 1.6)
    edge = frontier(found)
    line = plot.curve("frontier", "own", "step")
    plot.points(line, found.bytes[edge], found.seconds[edge], np.zeros(len(edge), dtype=np.int64))
    for name, role, verdict in (("fits", "good", FITS), ("too large", "bad", TOO_LARGE)):
        rows = order[found.verdict[order] == verdict]
        if verdict == TOO_LARGE:
            rows = rows[found.bytes[rows] < 2 * job.machine.device.memory]
        rows = rows[found.seconds[rows] < SLOWEST * found.seconds[order[0]]]
        rows = rows[:: max(1, len(rows) // POINTS)]
        plot.points(plot.curve(name, role, "scatter"), found.bytes[rows], found.seconds[rows], np.zeros(len(rows), dtype=np.int64))
    for place, row in enumerate(order[:2000].tolist()):
        if found.verdict[row] == FITS:
            plot.cursor(float(found.bytes[row]), step=place + 1)


def _bars(rec: Recorder, job: Job, found: Found, best: list[int]) -> None:
    names = Axis.of(*(label(found, row) for row in best))
    device = job.machine.device
    parts = [(memory_text.NAMES[name], memory_text.ROLES[name]) for name in LINES]
    memory = rec.panel(
        "Bytes of the fastest of each placement", Breakdown(names, parts, capacity=device.memory, capacity_name=device.name), 1.6
    )
    used = [name for name in PARTS if any(found.parts[name][row] > 0 for row in best)]
    seconds = rec.panel(
        "Seconds of the fastest of each placement", Breakdown(names, [(WORDS.get(name, name), TIME_ROLES[name]) for name in used], "s"), 1.6
    )
    for bar, row in enumerate(best):
        for part, (_, size) in enumerate(lines_of(job.model, job.setting, found, row, job.params.chunks).items()):
            memory.set(bar, part, size, step=0)
        for part, name in enumerate(used):
            seconds.set(bar, part, float(found.parts[name][row]), step=0)


def reason_of(found: Found, row: int) -> tuple[str, str]:
    """Why a layout breaks a rule, with its numbers, and what the rule allows."""
    reason = found.reasons[int(found.verdict[row]) - 2]
    return reason.text.format(value=f"{int(found.value[row]):,}"), reason.allowed


def _rejected(rec: Recorder, job: Job, found: Found) -> None:
    columns = [Column("why not", align="left"), Column("layouts", "count"), Column("nearest", align="left")]
    table = rec.panel("Layouts that are out", Table(columns), 1.0)
    many = Counter(found.verdict.tolist())
    if many[TOO_LARGE]:
        rows = np.flatnonzero(found.verdict == TOO_LARGE)
        near = int(rows[np.argmin(found.bytes[rows])])
        from core.formatting import format_value

        why = f"memory above {format_value(job.machine.device.memory, 'bytes')}"
        table.row(why, many[TOO_LARGE], f"{label(found, near)}: {format_value(float(found.bytes[near]), 'bytes')}", step=0)
    for index, reason in enumerate(found.reasons):
        first = int(np.argmax(found.verdict == index + 2))
        table.row(f"{reason.parameter}: {reason.allowed}", many[index + 2], reason_of(found, first)[0], step=0)
