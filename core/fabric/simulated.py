"""All ranks in one process: values really move, hop by hop, and every hop costs time on the link.

A message hands over the values that arrive; a rank only ever reads its own tensors and what it was sent. Who sends what
to whom stands in `core.fabric.schedules`; this file executes it, counts it and times it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from core.fabric import ring
from core.fabric.base import Fabric, Reduction, Tensors, Work
from core.fabric.clock import Clocks, LinkCost
from core.fabric.drill import Keeper
from core.fabric.hops import Algorithm, Operation, Schedule
from core.fabric.mover import Chunks, Mover
from core.fabric.schedules import build
from core.views import Axis, Gantt

Pieces = dict[int, Chunks]


class SimulatedFabric(Fabric):
    """``size`` ranks on a full-duplex link. ``scale`` multiplies the bytes whose time is charged (not those counted).

    With ``inter_link`` and ``node_size``, so many neighbours share ``link`` and messages between nodes take ``inter_link``.
    """

    def __init__(
        self, size: int, link: LinkCost | None = None, *, scale: float = 1.0, inter_link: LinkCost | None = None, node_size: int = 0
    ) -> None:
        super().__init__(size, range(size))
        self.clocks = Clocks(size, link, scale, inter_link=inter_link, node_size=node_size)
        self._keeper = Keeper(self.clocks)
        self._mail: dict[tuple[int, int], deque[tuple[torch.Tensor, float, float]]] = {}
        self._schedules: dict[tuple[Operation, Algorithm, int], Schedule] = {}

    def draw(self, gantt: Gantt) -> None:
        """From now on every compute and collective leaves a span: lane 2 r is rank r's compute, 2 r + 1 its comm stream.

        The span of a collective opens hop by hop (`Gantt.child`), replayed from its tensors as they were when it was issued.
        """
        self.clocks.gantt = gantt

    def lanes(self) -> Gantt:
        """An empty Gantt with this fabric's lanes, in seconds."""
        names = [f"rank {rank} {stream}" for rank in self.ranks for stream in ("compute", "comm")]
        return Gantt(Axis.of(*names), "s", lane_groups=[rank for rank in self.ranks for _ in range(2)])

    def compute(self, rank: int, seconds: float, role: str, text: str = "", n: int = 0) -> float:
        return self.clocks.run(rank, seconds, role, text, n)

    def now(self) -> float:
        return float(self.clocks.compute.max())

    # collectives -----------------------------------------------------------------------------------------------------

    def all_reduce(
        self,
        tensors: Tensors,
        op: Reduction = "sum",
        *,
        sizes: Sequence[int] | None = None,
        out: Tensors | None = None,
        algorithm: Algorithm = "ring",
        n: int = 0,
    ) -> Work[Tensors]:
        schedule = self._schedule("all_reduce", algorithm)
        sizes = self._sizes(schedule, tensors, sizes)
        out = _given("all_reduce", out, tensors, sizes)
        mover = Mover(schedule, _cut(tensors, sizes), _cut(out, sizes), self._divisor(op), op == "max")
        self._handed("all_reduce", {rank: 2 * sum(sizes) for rank in self.ranks})
        return self._issue(out, mover, "AR{n}", n)

    def reduce_scatter(
        self,
        tensors: Tensors,
        op: Reduction = "sum",
        *,
        sizes: Sequence[int] | None = None,
        algorithm: Algorithm = "ring",
        n: int = 0,
    ) -> Work[Tensors]:
        schedule = self._schedule("reduce_scatter", algorithm)
        sizes = self._sizes(schedule, tensors, sizes)
        mover = Mover(schedule, _cut(tensors, sizes), divide_by=self._divisor(op), largest=op == "max")
        self._handed("reduce_scatter", {rank: sum(sizes) for rank in self.ranks})
        work = self._issue(None, mover, "RS{n}", n)
        return self._with({rank: mover.results[rank][rank] for rank in self.ranks}, work)

    def all_gather(
        self,
        shards: Tensors,
        *,
        sizes: Sequence[int] | None = None,
        out: Tensors | None = None,
        algorithm: Algorithm = "ring",
        n: int = 0,
    ) -> Work[Tensors]:
        self._hosted("all_gather", shards)
        sizes = [shards[rank].numel() for rank in self.ranks] if sizes is None else list(sizes)
        if sizes != [shards[rank].numel() for rank in self.ranks]:
            raise ValueError(f"all_gather: shards do not have the sizes {sizes}")
        out = _given("all_gather", out, shards, sizes)
        own: Pieces = {rank: {rank: shard.reshape(-1)} for rank, shard in shards.items()}
        mover = Mover(self._schedule("all_gather", algorithm), own, _cut(out, sizes))
        self._handed("all_gather", {rank: sum(sizes) for rank in self.ranks})
        return self._issue(out, mover, "AG{n}", n)

    def all_to_all(
        self, chunks: Mapping[int, Sequence[torch.Tensor]], *, algorithm: Algorithm = "direct", n: int = 0
    ) -> Work[dict[int, list[torch.Tensor]]]:
        self._hosted("all_to_all", chunks)
        size = self.size
        if any(len(chunks[rank]) != size for rank in self.ranks):
            raise ValueError(f"all_to_all: every rank hands {size} chunks, one for each rank")
        blocks: Pieces = {rank: {rank * size + target: chunk for target, chunk in enumerate(chunks[rank])} for rank in self.ranks}
        mover = Mover(self._schedule("all_to_all", algorithm), blocks)
        self._handed("all_to_all", {rank: sum(chunk.numel() for chunk in chunks[rank]) for rank in self.ranks})
        work = self._issue(None, mover, "A2A{n}", n)
        return self._with({rank: [mover.results[rank][source * size + rank] for source in range(size)] for rank in self.ranks}, work)

    def broadcast(self, tensors: Tensors, root: int, *, algorithm: Algorithm = "ring", n: int = 0) -> Work[Tensors]:
        self._hosted("broadcast", tensors)
        schedule = self._schedule("broadcast", algorithm, root)
        pieces = _cut(tensors, ring.chunk_sizes(tensors[root].numel(), schedule.chunks))
        self._handed("broadcast", {rank: tensors[rank].numel() for rank in self.ranks})
        return self._issue(tensors, Mover(schedule, pieces, pieces), "BC{n}", n)

    def reduce(
        self, tensors: Tensors, root: int, op: Reduction = "sum", *, out: Tensors | None = None, algorithm: Algorithm = "ring", n: int = 0
    ) -> Work[Tensors]:
        schedule = self._schedule("reduce", algorithm, root)
        sizes = self._sizes(schedule, tensors, None)
        mine = {root: tensors[root]}
        out = _given("reduce", out, mine, sizes)
        into: Pieces = {rank: {} for rank in self.ranks}
        into.update(_cut({root: out[root]}, sizes))
        mover = Mover(schedule, _cut(tensors, sizes), into, self._divisor(op), op == "max")
        self._handed("reduce", {rank: sum(sizes) for rank in self.ranks})
        return self._issue({root: out[root]}, mover, "RE{n}", n)

    # point to point ----------------------------------------------------------------------------------------------------

    def send(self, rank: int, target: int, tensor: torch.Tensor, *, n: int = 0) -> Work[None]:
        start = float(self.clocks.begin()[rank])
        end = start + self.clocks.cost(rank, target, tensor.nbytes)
        self._mail.setdefault((rank, target), deque()).append((tensor.clone(), start, end))
        self.traffic[rank].bytes_sent += tensor.nbytes
        self._handed("send", {rank: tensor.numel()})
        self.clocks.occupy(rank, start, end, "S{n}", n)
        return Work(None, lambda: self.clocks.wait(rank, end))

    def recv(self, rank: int, source: int, out: torch.Tensor, *, n: int = 0) -> Work[torch.Tensor]:
        mail = self._mail.get((source, rank))
        if not mail:
            raise RuntimeError(f"rank {rank} waits for a message of rank {source} that was never sent")
        tensor, sent_at, end = mail.popleft()
        if tensor.shape != out.shape or tensor.dtype != out.dtype:
            raise ValueError(f"rank {rank} receives {tensor.dtype} {tuple(tensor.shape)} into {out.dtype} {tuple(out.shape)}")
        out.copy_(tensor)
        self.clocks.occupy(rank, max(sent_at, float(self.clocks.comm[rank])), end, "R{n}", n)
        return Work(out, lambda: self.clocks.wait(rank, end))

    # hop by hop --------------------------------------------------------------------------------------------------------

    def _issue(self, result: object, mover: Mover, text: str, n: int) -> Work:
        """Run a schedule from where every rank's streams are now."""
        start = at = self.clocks.begin()
        child = self._keeper.keep(mover, start)
        schedule = mover.schedule
        for number, phase in enumerate(schedule.phases):
            if number == schedule.settled:
                mover.settle()
            for transfers in phase.rounds:
                sizes = mover.round(transfers)
                for transfer, size in zip(transfers, sizes, strict=True):
                    self.traffic[transfer.source].bytes_sent += size
                source = np.fromiter((t.source for t in transfers), np.int64, len(transfers))
                target = np.fromiter((t.target for t in transfers), np.int64, len(transfers))
                at = self.clocks.round(at, source, target, np.array(sizes)).after
        if schedule.settled == len(schedule.phases):
            mover.settle()
        end = at
        self.clocks.end(start, end, text, n, child)

        def wait() -> None:
            for rank in self.ranks:
                self.clocks.wait(rank, float(end[rank]))

        return Work(result, wait)

    @staticmethod
    def _with(result: object, work: Work) -> Work:
        return Work(result, lambda: work.wait())

    def _schedule(self, op: Operation, algorithm: Algorithm, root: int = 0) -> Schedule:
        key = (op, algorithm, root)
        if key not in self._schedules:
            self._schedules[key] = build(op, algorithm, self.size, root)
        return self._schedules[key]

    def _divisor(self, op: Reduction) -> int:
        return self.size if op == "avg" else 1

    def _sizes(self, schedule: Schedule, tensors: Tensors, sizes: Sequence[int] | None) -> list[int]:
        """Elements of each chunk: as given where every rank has its own, else as equal as possible."""
        self._hosted(schedule.op, tensors)
        elements = {tensor.numel() for tensor in tensors.values()}
        if len(elements) != 1:
            raise ValueError(f"{schedule.op}: every rank hands as many elements, not {sorted(elements)}")
        total = elements.pop()
        if sizes is not None and (len(sizes) != self.size or sum(sizes) != total):
            raise ValueError(f"{schedule.op}: {self.size} chunk sizes that add up to the tensor, not {list(sizes)}")
        if sizes is None or schedule.chunks != self.size:
            return ring.chunk_sizes(total, schedule.chunks)
        return list(sizes)


def _cut(tensors: Tensors, sizes: Sequence[int]) -> Pieces:
    """Each tensor as views of its chunks."""
    return {rank: dict(enumerate(torch.split(tensor.view(-1), list(sizes)))) for rank, tensor in tensors.items()}


def _given(operation: str, out: Tensors | None, like: Tensors, sizes: Sequence[int]) -> Tensors:
    """The caller's result buffers, checked, or new ones."""
    if out is None:
        return {rank: tensor.new_empty(sum(sizes)) for rank, tensor in like.items()}
    if any(tensor.numel() != sum(sizes) for tensor in out.values()):
        raise ValueError(f"{operation}: out has room for {sum(sizes)} elements on every rank")
    return out
