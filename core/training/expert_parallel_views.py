"""What the screen shows of an expert-parallel run: bytes from rank to rank, load, what each rank holds, both streams."""

from __future__ import annotations

import numpy as np

from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.training.expert_parallel_setup import Job
from core.views import Axis, Breakdown, Column, Exchange, Heatmap, Table

SHOWN_ONE_BY_ONE = 8
"""Up to so many ranks each has its own steps."""
_SLOTS = ("tokens", "copies", "outputs")
_ROLES = ("activation", "buffer", "weight")


class Views:
    """The panels of one run; bytes are those of the full size."""

    def __init__(self, rec: Recorder, job: Job, fabric: SimulatedFabric) -> None:
        ranks = job.params.ranks
        rows = Axis("rank {i}", ranks)
        few = ranks <= SHOWN_ONE_BY_ONE
        meanings = {"comm": "sent", "bad": "sent to the busiest rank"}
        grid = Heatmap(rows, Axis("{i}", ranks), "bytes", low=0.0, show="value" if few else "shade", legend=meanings)
        self.bytes = rec.panel("Bytes: row sends, column receives", grid, 1.5)
        columns = [Column("rank"), Column("rows"), Column("of mean", "%"), Column("compute", "s"), Column("waits", "s")]
        self.load = rec.panel("Load of each rank's experts", Table(columns), beside=True)
        self.exchange = rec.panel("What each rank holds and sends", Exchange(rows, "bytes", slots=Axis.of(*_SLOTS)), 1.4)
        bars = Breakdown(rows, list(zip(_SLOTS, _ROLES, strict=True)), "bytes")
        self.held = rec.panel("Activation bytes on each rank", bars, beside=True)
        fabric.draw(rec.panel("Compute and comm streams", fabric.lanes(), 1.6))
        self._held: dict[tuple[int, int], float] = {}

    def hold(self, rank: int, what: str, size: float, text: str = "") -> None:
        """``rank`` has so many bytes of tokens, copies or outputs from now on."""
        slot = _SLOTS.index(what)
        if self._held.get((rank, slot), 0.0) == size:
            return
        self._held[rank, slot] = size
        self.held.set(rank, slot, size)
        if size:
            self.exchange.hold(rank, slot, size, _ROLES[slot], text)
        else:
            self.exchange.drop(rank, slot)

    def inbox(self, target: int, sizes: np.ndarray, *, hottest: bool) -> None:
        """``sizes`` (ranks,): bytes that each rank sends to ``target`` in this all-to-all; the hottest column is marked."""
        for source, size in enumerate(sizes.tolist()):
            role = "dim" if source == target else "bad" if hottest else "comm"
            self.bytes.set(source, target, 0.0 if source == target else size, role)

    def messages(self, sizes: np.ndarray) -> None:
        """``sizes`` (ranks, ranks): every message of this all-to-all."""
        for source, target in np.argwhere(sizes).tolist():
            if source != target:
                self.exchange.send(source, target, float(sizes[source, target]), "comm", "")

    def row(self, rank: int, rows: int, ratio: float, compute: float, waits: float) -> None:
        """A rank's row of the table: rows for its experts, over the mean, and how long its compute stream ran and waited."""
        self.load.row(rank, rows, ratio, compute or None, waits if compute else None, row=rank)  # not yet is no zero
