"""What the screen shows of a memory ledger: bars by stage, the ledger as a table, what a layer saves, the layers of the model."""

from __future__ import annotations

import numpy as np

from core.recording import Recorder
from core.training import memory_text as text
from core.training.memory_ledger import LINES, ledger, saved_per_layer
from core.training.memory_setup import Job
from core.views import Axis, Breakdown, Cell, Column, Table

BARS = 16
"""Pipeline stages drawn one by one; of more, the first ones and the last."""


class Views:
    """The panels. ``found`` is the ledger by line, each (stages,); the bars grow line by line."""

    def __init__(self, rec: Recorder, job: Job, found: dict[str, np.ndarray], choices: list[str]) -> None:
        self.job, self.found = job, found
        stages = job.stages.size
        self.shown = list(range(stages)) if stages <= BARS else [*range(BARS - 1), stages - 1]
        line = (job.device.memory, job.device.name) if job.device else (None, "")
        parts = [(text.NAMES[name], text.ROLES[name]) for name in LINES]
        label = "one rank" if stages == 1 else "stage {i}"
        bars = Axis.of(*(label.format(i=stage) for stage in self.shown))
        self.bars = rec.panel(
            "A rank of each stage", Breakdown(bars, parts, capacity=line[0], capacity_name=line[1]), 1.2 + 0.12 * len(self.shown)
        )
        columns = [Column("line", align="left"), Column("bytes", "bytes"), Column("GiB"), Column("share", "%"), Column("how", align="left")]
        self.lines = rec.panel("Ledger of the fullest stage", Table(columns), 1.6)
        columns = [
            Column("operation", align="left"), Column("B a token"), Column("a layer", "bytes"), Column("in flight", "bytes"),
            Column("what", align="left"),
        ]  # fmt: skip
        self.saved = rec.panel("What a layer saves for backward", Table(columns), 2.0)
        names = Axis.of("as asked", *choices)
        self.choices = rec.panel("One choice changed", Breakdown(names, parts, capacity=line[0], capacity_name=line[1]), 1.6)
        columns = [
            Column("layers", align="left"), Column("kind", align="left"), Column("stage"), Column("parameters each", "elements"),
            Column("states each", "bytes"), Column("saved each", "bytes"),
        ]  # fmt: skip
        self.layers = rec.panel("Layer by layer", Table(columns), 1.2)
        self._layers()

    def line(self, name: str, stage: int, so_far: float, how: str) -> None:
        """Add one line to the bars and to the ledger."""
        for bar, at in enumerate(self.shown):
            self.bars.set(bar, LINES.index(name), float(self.found[name][at]))
        size = float(self.found[name][stage])
        whole = sum(float(values[stage]) for values in self.found.values())
        row = self.lines.row(Cell(text.NAMES[name], text.ROLES[name]), size, gib(size), size / whole if whole else 0.0, how)
        self.lines.light(row)

    def choice(self, bar: int, found: dict[str, np.ndarray], stage: int) -> None:
        for part, name in enumerate(LINES):
            self.choices.set(bar, part, float(found[name][stage]))

    def _layers(self) -> None:
        """Runs of equal layers of one stage, in the model's order."""
        job, kinds = self.job, self.job.model.kind_of.tolist()
        token, score = saved_per_layer(job.model, job.setting, job.layouts)
        states = layer_states(job)
        rows = sorted((first, first + count, stage) for stage in range(job.stages.size) for first, count in job.stages.rows(stage))
        for first, end, stage in rows:
            start = first
            for layer in range(first + 1, end + 1):
                if layer == end or kinds[layer] != kinds[start]:
                    kind = job.model.kinds[kinds[start]]
                    span = f"{start}" if layer - start == 1 else f"{start}-{layer - 1}"
                    saved = float(token[kinds[start], 0] + score[kinds[start], 0])
                    self.layers.row(span, kind.name, stage, kind.weights.parameters, states[kinds[start]], saved)
                    start = layer


def layer_states(job: Job) -> list[float]:
    """Bytes of parameters, gradients and optimizer states of one layer of each kind on one rank: what the ledger grows by."""
    from core.training.memory_ledger import CONVENTIONS, dense_share, expert_share

    layouts, found = job.layouts, []
    dense, experts = dense_share(job.model, layouts), expert_share(job.model, layouts)
    for kind in range(len(job.model.kinds)):
        size = 0.0
        for each, stage in zip(CONVENTIONS[job.params.convention][:3], (3, 2, 1), strict=True):
            shared = job.params.zero_stage >= stage
            size += each * float(dense[kind, 0] / (layouts.replicas[0] if shared else 1))
            size += each * float(experts[kind, 0] / (layouts.expert_replicas[0] if shared else 1))
        found.append(size)
    return found


def gib(size: float) -> float:
    """Bytes as GiB, with the digits a ledger shows."""
    return round(size / 2**30, 2)


def fullest(found: dict[str, np.ndarray]) -> int:
    """The stage that holds most."""
    return int(np.argmax(np.sum(list(found.values()), axis=0)))


def ledger_of(job: Job) -> dict[str, np.ndarray]:
    """The ledger of a job's one layout: by line, (stages,)."""
    return {name: values[:, 0] for name, values in ledger(job.model, job.setting, job.stages, job.layouts).items()}
