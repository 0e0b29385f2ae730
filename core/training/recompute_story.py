"""Tells a `recompute` run in the order of time: what each stream does, what waits on the device, and what became of every saved tensor."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from core.recording import Recorder
from core.training import recompute_text as text
from core.training.recompute_run import COMPUTE, IN, OUT, Action, Run
from core.training.recompute_setup import INPUT, LABELS, SHORT, Job
from core.views import Axis, Gantt, Heatmap, Plot

MARKS = {"kept": ("kept", "K"), "recomputed": ("good", "R"), "dropped": ("dropped", "✗"), "offloaded": ("comm", "O")}
"""State of a saved tensor: role and letter."""
LETTERS = {
    "forward": ("forward", "F{n}"),
    "recompute": ("forward", "R{n}"),
    "backward": ("backward", "B{n}"),
    "out": ("comm", "{n}"),
    "in": ("comm", "{n}"),
}
"""Role and text of a span, by kind of action."""


class Change(NamedTuple):
    """What becomes of one saved tensor: ``state`` from now on ("" is freed), and the bytes the device and the host gain."""

    time: float
    takes: bool
    layer: int
    label: str
    state: str
    device: int
    host: int


@dataclass
class Ledger:
    """All changes in the order of time, and the bytes after each."""

    changes: list[Change]
    device: list[int]
    host: list[int]

    @classmethod
    def of(cls, job: Job, run: Run) -> Ledger:
        """At one moment what is given back goes first."""
        changes = sorted((c for action in run.actions for c in _changes(job, action)), key=lambda c: (c.time, c.takes))
        device = list(accumulate(change.device for change in changes))
        return cls(changes, device, list(accumulate(change.host for change in changes)))

    @property
    def peak(self) -> int:
        return max(self.device)

    def until(self, time: float) -> int:
        """How many changes have happened at ``time``."""
        return bisect_right(self.changes, time, key=attrgetter("time"))


def _changes(job: Job, action: Action) -> list[Change]:
    size = job.large.bytes
    state = "recomputed" if action.kind == "recompute" else "kept"
    comes_back = action.kind == "in"
    found = [
        Change(appears(job, action, label), True, action.layer, label, state, size(label), -size(label) if comes_back else 0)
        for label in action.takes
    ]
    leaves = action.kind == "out"
    found += [
        Change(action.end, False, action.layer, label, "offloaded" if leaves else "", -size(label), size(label) if leaves else 0)
        for label in action.gives
    ]
    if action.kind == "forward":
        found += [Change(action.end, True, action.layer, label, "dropped", 0, 0) for label in LABELS if label not in action.takes]
    return found


def appears(job: Job, action: Action, label: str) -> float:
    """When a tensor takes its room: a copy's at once, a computed one as soon as the matmuls before it are done."""
    if action.stream != COMPUTE:
        return action.start
    done = job.large.flop_before(label)
    if action.kind == "recompute" and job.params.method == "selective":
        done = job.large.scores_flop
    return min(action.start + job.seconds(done), action.end)


def tell(rec: Recorder, job: Job, run: Run) -> Ledger:
    """Record every action as a step, by start; returns the ledger. A step shows compute done, and copies begun."""
    ledger = Ledger.of(job, run)
    streams, plot, tensors = _panels(rec, job)
    actions = sorted(run.actions, key=attrgetter("start", "stream"))
    rec.phase("forward")
    _running_facts(rec, job, ledger, 0)
    rec.step(text.START[job.params.method], text.START_DETAIL, time=0.0, **_sizes(job))
    reached = 0
    curves = _Curves(plot, ledger)
    fallen_behind, backwards = False, False
    forward = job.seconds(job.large.forward_flop)
    for action in actions:
        if not backwards and action.kind in ("recompute", "backward", "in"):
            backwards = True
            rec.phase("backward")
        role, letter = LETTERS[action.kind]
        streams.span(action.stream, action.start, action.end, role, letter, action.layer)
        before, reached = reached, max(reached, ledger.until(action.end if action.stream == COMPUTE else action.start))
        _paint(tensors, ledger.changes[before:reached])
        curves.draw(before, reached)
        plot.cursor(action.start)
        _running_facts(rec, job, ledger, reached)
        behind = action.kind == "out" and not fallen_behind and action.end - action.start > forward
        fallen_behind = fallen_behind or behind
        title, detail = _sentence(job, action, behind)
        rec.step(title, detail, time=action.start, **_values(job, action, ledger, reached, title + detail))
    end = max(action.end for action in actions)
    rec.phase("done")
    _paint(tensors, ledger.changes[reached:])
    curves.draw(reached, len(ledger.changes))
    plot.cursor(end)
    _running_facts(rec, job, ledger, len(ledger.changes))
    _end(rec, job, run, ledger, end)
    return ledger


def _panels(rec: Recorder, job: Job) -> tuple[Gantt, Plot, Heatmap]:
    names = ("compute", "PCIe out", "PCIe in") if job.params.method in ("offload", "both") else ("compute",)
    streams = rec.panel("Streams of the device", Gantt(Axis.of(*names), "s"), 1.0 + 0.2 * len(names))
    plot = rec.panel("Bytes that wait for backward", Plot("time", "bytes", x_unit="s", y_unit="bytes"), 1.6)
    view = Heatmap(Axis("layer {i}", job.params.layers), Axis.of(*SHORT), "bytes", show="text")
    return streams, plot, rec.panel("Saved tensors: K kept, ✗ dropped, R recomputed, O in the host", view, 2.0)


class _Curves:
    """The bytes on the device and in the host (where any go there), a point for every change; they grow with the steps."""

    def __init__(self, plot: Plot, ledger: Ledger) -> None:
        self.plot, self.ledger = plot, ledger
        held = (("on the device", "activation", ledger.device), ("in the host", "buffer", ledger.host))
        self.curves = [(plot.curve(name, role, "step"), sizes) for name, role, sizes in held if any(sizes)]

    def draw(self, before: int, reached: int) -> None:
        """The changes from ``before`` up to ``reached`` belong to the step being written."""
        times = np.array([change.time for change in self.ledger.changes[before:reached]])
        for curve, sizes in self.curves:
            self.plot.points(curve, times, np.array(sizes[before:reached], dtype=np.float64))


def _paint(tensors: Heatmap, changes: list[Change]) -> None:
    """The last state of every tensor among ``changes``."""
    for (layer, label), state in {(change.layer, change.label): change.state for change in changes}.items():
        if state:
            role, letter = MARKS[state]
            tensors.set(layer, LABELS.index(label), 1.0, role, letter)
        else:
            tensors.clear(layer, LABELS.index(label))


def _running_facts(rec: Recorder, job: Job, ledger: Ledger, reached: int) -> None:
    live, host = (ledger.device[reached - 1], ledger.host[reached - 1]) if reached else (0, 0)
    peak = max(ledger.device[:reached], default=0)
    rec.fact("peak_bytes", peak, "bytes", note="saved tensors on the device so far; model states come on top")
    rec.fact("live_bytes", live, "bytes", note="saved tensors on the device now")
    if job.params.method in ("offload", "both"):
        rec.fact("host_bytes", host, "bytes", note="saved tensors in the host now")


def _sentence(job: Job, action: Action, behind: bool) -> tuple[str, str]:
    match action.kind:
        case "forward" if action.waited > 0:
            return text.WAITED, text.WAITED_DETAIL
        case "forward" if not action.takes:
            return text.INSIDE, text.INSIDE_DETAIL
        case "forward" if INPUT in action.takes and len(action.takes) == 1:
            return text.CHECKPOINTED, text.CHECKPOINTED_DETAIL
        case "forward":
            return text.KEPT, text.KEPT_DETAIL
        case "out" if behind:
            return text.OUT_LONGER, text.OUT_LONGER_DETAIL
        case "out" if action.end - action.start > job.seconds(job.large.forward_flop):
            return text.OUT_BEHIND, text.OUT_BEHIND_DETAIL
        case "out":
            return text.OUT, text.OUT_DETAIL
        case "in":
            return text.IN, text.IN_DETAIL
        case "recompute" if job.params.method == "selective":
            return text.RECOMPUTE_CORE, text.RECOMPUTE_CORE_DETAIL
        case "recompute" if action.flop < job.large.forward_flop:
            return text.RECOMPUTE, text.RECOMPUTE_LAST_DETAIL
        case "recompute":
            return text.RECOMPUTE, text.RECOMPUTE_DETAIL
        case _ if action.waited > 0:
            return text.BACKWARD_WAITED, text.BACKWARD_WAITED_DETAIL
        case _:
            return text.BACKWARD, text.BACKWARD_DETAIL


def _values(job: Job, action: Action, ledger: Ledger, reached: int, template: str) -> dict[str, int | float]:
    """The values of an action that ``template`` names."""
    forward = job.seconds(job.large.forward_flop)
    size = sum(job.large.bytes(label) for label in (*action.takes, *action.gives))
    values: dict[str, int | float] = {
        "layer": action.layer, "kept": size, "size": size, "freed": size, "layer_size": job.large.layer_bytes, "flop": action.flop,
        "seconds": action.end - action.start, "compute": forward, "ratio": (action.end - action.start) / forward,
        "live": ledger.device[reached - 1] if reached else 0, "waited": action.waited, "in_flight": job.params.in_flight,
    }  # fmt: skip
    return {name: value for name, value in values.items() if f"{{{name}}}" in template or f"{{{name}:" in template}


def _sizes(job: Job) -> dict[str, int | float | str]:
    values: dict[str, int | float | str] = {
        "layers": job.params.layers, "batch": job.large.batch, "sequence": job.large.sequence, "hidden": job.large.hidden,
        "device": job.device.name, "link": job.link.name, "small": job.small.hidden, "layer_size": job.large.layer_bytes,
    }  # fmt: skip
    more = {"input": job.large.bytes(INPUT), "probabilities": job.large.bytes("probabilities")}
    return values | {name: size for name, size in more.items() if f"{{{name}:" in text.START[job.params.method]}


def _end(rec: Recorder, job: Job, run: Run, ledger: Ledger, end: float) -> None:
    """The facts of the whole step, and its last words."""
    layers, shape = job.params.layers, job.large
    plain_flop = layers * (shape.forward_flop + shape.backward_flop)
    plain_time, plain_peak = job.seconds(plain_flop), layers * shape.layer_bytes
    again = sum(action.flop for action in run.actions if action.kind == "recompute")
    how = f"matmuls at 45 % of the BF16 peak of {job.device.name}, copies on {job.link.name}"
    rec.fact("step_time", end, "s", note=how)
    rec.fact("recompute_flops_fraction", again / plain_flop, "%", note="recomputed FLOPs over those of a plain forward and backward")
    out = sum(action.bytes for action in run.actions if action.stream == OUT)
    rec.fact("offload_bytes", out, "bytes", note="sent to the host; the same comes back")
    rec.fact("compute_time", run.clock.busy[COMPUTE], "s", note="the compute stream is busy")
    rec.fact("pcie_time", run.clock.busy[OUT] + run.clock.busy[IN], "s", note="both PCIe streams together are busy")
    rec.fact("exposed_pcie_time", run.clock.waited, "s", note="compute waits for a copy")
    rec.fact(
        "layer_bytes",
        shape.layer_bytes,
        "bytes",
        "formula",
        "what autograd saves of one layer: b s (8 h + 2 f) + a b s² numbers, and statistics",
    )
    saved = plain_peak - ledger.peak
    price = max(end - plain_time, 0.0) / saved * 1e9 if saved > 0 else None
    rec.fact("seconds_per_gb_saved", price, "s", note="step time over the plain step's, for each GB less at the peak")
    values: dict[str, int | float] = {"step_time": end, "peak": ledger.peak, "plain_time": plain_time, "plain_peak": plain_peak}
    if price is not None:
        values["price"] = price
    said = "saved" if price is not None else "wasted" if again or out else "nothing"
    rec.step(text.END, text.END_DETAIL[said], time=end, **values)
