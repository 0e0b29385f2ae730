"""What the screen shows of a context-parallel run: tiles by rank, the blocks that travel, bytes per rank, both streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.training.context_parallel_setup import Job
from core.training.context_parallel_splits import chunks, written
from core.views import Axis, Breakdown, Cell, Column, Exchange, Heatmap, Table

SHOWN_ONE_BY_ONE = 8
"""Up to so many ranks each has its own steps and its tiles show numbers."""

Pass = Literal["forward", "backward"]
Slot = Literal["q", "own", "here", "arriving", "grads", "coming"]
_SLOTS: dict[Slot, tuple[str, int, str]] = {
    "q": ("q, o", 0, "activation"),
    "own": ("own K, V", 1, "kept"),
    "here": ("K, V here", 2, "buffer"),
    "arriving": ("arriving", 2, "buffer"),
    "grads": ("gradients", 3, "gradient"),
    "coming": ("passing", 3, "gradient"),
}
_PARTS = (("q, o", "activation"), ("own K, V", "kept"), ("others' K, V", "buffer"), ("gradients", "gradient"))


class Views:
    """The panels of one run. Bytes are those of the full-size tensors in BF16."""

    def __init__(self, rec: Recorder, job: Job, fabric: SimulatedFabric) -> None:
        self.job, self.fabric, ranks = job, fabric, job.ranks
        rows = Axis("rank {i}", ranks)
        ring = job.params.method == "ring"
        names = [f"{before}{i}" for before in ("" if ring else "K", "b" if ring else "bK") for i in range(ranks)]
        show: Literal["text", "shade"] = "text" if ranks <= SHOWN_ONE_BY_ONE else "shade"
        tiles = Heatmap(rows, Axis.of(*names), "%", low=0.0, high=1.0, show=show)
        self.tiles = rec.panel("Tiles by rank, hop (b: backward)" if ring else "Tiles by rank, block (b: backward)", tiles, 1.3)
        columns = [Column("rank"), Column("tokens", align="left"), Column("of mean", "%"), Column("busy", "s"), Column("idle", "s")]
        self.by_rank = rec.panel("Work of each rank", Table(columns), beside=True)
        slots = Axis.of(*(name for name, _, _ in _SLOTS.values()))
        self.exchange = rec.panel("Who holds and sends which block", Exchange(rows, "bytes", slots=slots), 1.5)
        self.bytes = rec.panel("Bytes on each rank", Breakdown(rows, _PARTS, "bytes"), beside=True)
        fabric.draw(rec.panel("Compute and comm streams", fabric.lanes(), 1.4))
        self.held: dict[tuple[int, Slot], float] = {}
        self.peak_kv = [0.0] * ranks
        self._tile_work = job.block**2 * job.full.heads * job.full.batch
        self._written = [written(chunks(job.params.split, job.params.sequence, ranks, r)) for r in range(ranks)]

    def hold(self, rank: int, slot: Slot, tensors: Tensor | Sequence[Tensor] | None, text: str = "") -> None:
        """``rank`` holds these in ``slot`` from now on; None frees it."""
        name, part, role = _SLOTS[slot]
        number = list(_SLOTS).index(slot)
        parts = [] if tensors is None else [tensors] if isinstance(tensors, Tensor) else list(tensors)
        size = sum(t.nbytes for t in parts) * self.job.scale
        before = self.held.get((rank, slot), 0.0)
        self.held[rank, slot] = size
        if parts:
            self.exchange.hold(rank, number, size, role, text or name)
        elif before:
            self.exchange.drop(rank, number)
        if before != size:
            self.bytes.set(rank, part, sum(self.held.get((rank, s), 0.0) for s, (_, p, _) in _SLOTS.items() if p == part))
        self.peak_kv[rank] = max(self.peak_kv[rank], self.kv_held(rank))

    def kv_held(self, rank: int) -> float:
        """Bytes of K and V on ``rank`` now, its own among them."""
        slots: tuple[Slot, ...] = ("own", "here", "arriving")
        return sum(self.held.get((rank, slot), 0.0) for slot in slots)

    def send(self, source: int, target: int, tensor: Tensor, text: str) -> None:
        self.exchange.send(source, target, tensor.nbytes * self.job.scale, "comm", text)

    def tile(self, which: Pass, rank: int, column: int, source: int, share: float) -> None:
        """The tile of this column: whose keys, and (as the shade) which part of it is not masked."""
        at = column + (self.job.ranks if which == "backward" else 0)
        if share:
            self.tiles.set(rank, at, share, which, f"K{source}")
        else:
            self.tiles.set(rank, at, 0.0, "idle" if self.job.params.method == "ring" else "dim", "–")

    def work(self, rank: int, done: float, mean: float, busy: float) -> None:
        """A rank's row in the table: its scores of the forward so far over the mean, compute and idle time of its compute stream."""
        idle = float(self.fabric.clocks.compute[rank]) - busy
        self.by_rank.row(rank, Cell(self._written[rank]), done / mean, busy, idle, row=rank)
        self.by_rank.light(rank)

    def share(self, work: float) -> float:
        """Score elements as a share of one full tile."""
        return work / self._tile_work
