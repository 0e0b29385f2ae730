"""What the screen shows of a ZeRO run: who holds which shard, bytes per rank, both streams of every rank, the formula table."""

from __future__ import annotations

from math import ceil

import numpy as np

from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.training import zero_bytes
from core.training.zero_memory import GROUPS, Memory
from core.training.zero_setup import Job
from core.views import Axis, Breakdown, Cell, Column, Heatmap, Table

SHOWN_ONE_BY_ONE = 8
"""Up to so many ranks every shard has its own column and every owner its own step; beyond, neighbours share."""

_LETTER = {"parameter": "P", "gradient": "G", "optimizer": "O"}


class Views:
    """The panels of one run, painted from the memory of the ranks.

    Cells hold the share of a shard's layers that is there; bytes are those of the full-size model.
    """

    def __init__(self, rec: Recorder, job: Job, memory: Memory, fabric: SimulatedFabric) -> None:
        self.layout, self.memory, self.scale = job.layout, memory, job.scale
        layout, params = job.layout, job.params
        ranks = layout.ranks
        self.together = ceil(ranks / SHOWN_ONE_BY_ONE)
        shard = layout.shard * layout.layers
        sizes = (zero_bytes.PARAMETER, zero_bytes.GRADIENT, zero_bytes.OPTIMIZER[params.optimizer])
        self.whole = {group: size * shard for group, size in zip(GROUPS, sizes, strict=True)}
        self.columns = ceil(ranks / self.together)
        names = [self._column(group, column) for group in GROUPS for column in range(self.columns)]
        rows = Axis("rank {i}", ranks)
        self.owners = rec.panel("Who holds which shard", Heatmap(rows, Axis.of(*names), "%", low=0.0, high=1.0, show="text"), 1.6)
        parts = [(group, group) for group in GROUPS]
        line = (job.device.memory, job.device.name) if params.accelerator else (None, "")
        bars = Breakdown(rows, parts, "bytes", capacity=line[0], capacity_name=line[1])
        self.bytes = rec.panel("Model states of each rank", bars, 1.4)
        _stage_table(rec, job)
        fabric.draw(rec.panel("Compute and comm streams", fabric.lanes(), 2.0))
        self._painted: dict[tuple[int, int], tuple[int, str]] = {}

    def paint(self) -> None:
        """Write the cells and bars of every rank whose memory has changed."""
        first = range(0, self.layout.ranks, self.together)
        for group, rank in sorted(self.memory.dirty):
            held = self.memory.group_bytes(group, rank)
            number = GROUPS.index(group)
            self.bytes.set(rank, number, float(held.sum()) * self.scale)
            local = self.memory.held["local"][rank] if group == "gradient" else held[:0]
            for column, size in enumerate(np.add.reduceat(held, first).tolist()):
                own = len(local) > 0 and local[column * self.together] > 0
                self._cell(rank, number * self.columns + column, group, column, size, own=own)
        self.memory.dirty.clear()

    def stale(self, rank: int) -> None:
        """The parameters that ``rank`` does not own are NaN until the owners' new values arrive."""
        for column in range(self.columns):
            if column != rank // self.together:
                self.owners.set(rank, column, 0.0, "dropped", "×")
                self._painted.pop((rank, column), None)

    def fresh(self, layer: int) -> None:
        """The owners' parameters of ``layer`` have replaced what was stale; after the last one all are whole again."""
        if layer == self.layout.layers - 1:
            self.memory.dirty.update(("parameter", rank) for rank in range(self.layout.ranks))

    def _cell(self, rank: int, at: int, group: str, column: int, held: int, *, own: bool) -> None:
        """P, G, O with the shard's number; small while only some layers are there, or the gradient is the rank's own."""
        letter = _LETTER[group]
        shards = min(self.together, self.layout.ranks - column * self.together)
        part = held < self.whole[group] * (shards if group == "parameter" else 1)
        text = letter.lower() if own or (part and (group == "parameter" or self.together == 1)) else letter
        text = "·" if not held else f"{text}{column}" if self.together == 1 else text
        if self._painted.get((rank, at)) != (held, text):
            self._painted[rank, at] = (held, text)
            role = "dim" if not held else "padding" if self.layout.is_padding(column * self.together) else group
            self.owners.set(rank, at, min(held / (self.whole[group] * shards), 1.0), role, text)

    def _column(self, group: str, column: int) -> str:
        if self.together == 1:
            return f"{_LETTER[group]}{column}"
        last = min((column + 1) * self.together, self.layout.ranks) - 1
        return f"{_LETTER[group]}{column * self.together}-{last}"


def _stage_table(rec: Recorder, job: Job) -> None:
    """The formula for all four stages side by side, the chosen one lit."""
    p = job.params
    states_columns = [Column(group, "bytes") for group in GROUPS]
    columns = [Column("stage"), Column("per rank", "bytes"), Column("communicated", "elements"), *states_columns]
    table = rec.panel("Every stage by formula", Table(columns), 1.0, beside=True)
    for row in range(4):
        states = zero_bytes.model_states(job.psi, row, p.ranks, p.optimizer)
        cells = [Cell(value, group) for group, value in zip(GROUPS, states, strict=True)]
        table.row(row, sum(states), zero_bytes.comm_elements(job.psi, row, p.accumulation), *cells)
    table.light(p.stage)
