"""All ranks in one process: values really move, hop by hop, and every hop costs time on the link.

A message hands over the values that arrive; a rank only ever reads its own tensors and what it was sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch

from core.fabric import ring
from core.fabric.base import Fabric, Reduction, Tensors, Work
from core.fabric.clock import Clocks, LinkCost
from core.views import Axis, Gantt

Pieces = dict[int, list[torch.Tensor]]
Sent = dict[int, tuple[int, int]]


class SimulatedFabric(Fabric):
    """``size`` ranks on a full-duplex link. ``scale`` multiplies the bytes whose time is charged (not those counted)."""

    def __init__(self, size: int, link: LinkCost | None = None, *, scale: float = 1.0) -> None:
        super().__init__(size, range(size))
        self.clocks = Clocks(size, link, scale)
        self._mail: dict[tuple[int, int], deque[tuple[torch.Tensor, float, float]]] = {}

    def draw(self, gantt: Gantt) -> None:
        """From now on every compute and collective leaves a span: lane 2 r is rank r's compute, 2 r + 1 its comm stream."""
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
        self, tensors: Tensors, op: Reduction = "sum", *, sizes: Sequence[int] | None = None, out: Tensors | None = None, n: int = 0
    ) -> Work[Tensors]:
        sizes = self._sizes("all_reduce", tensors, sizes)
        start = at = self.clocks.begin()
        owned, at = self._reduce_scatter(_cut(tensors, sizes), op, at)
        out = _given("all_reduce", out, tensors, sizes)
        at = self._all_gather(owned, _cut(out, sizes), at)
        self._handed("all_reduce", {rank: 2 * sum(sizes) for rank in self.ranks})
        return self._issued(out, start, at, "AR{n}", n)

    def reduce_scatter(self, tensors: Tensors, op: Reduction = "sum", *, sizes: Sequence[int] | None = None, n: int = 0) -> Work[Tensors]:
        sizes = self._sizes("reduce_scatter", tensors, sizes)
        start = self.clocks.begin()
        owned, at = self._reduce_scatter(_cut(tensors, sizes), op, start)
        self._handed("reduce_scatter", {rank: sum(sizes) for rank in self.ranks})
        return self._issued(owned, start, at, "RS{n}", n)

    def all_gather(self, shards: Tensors, *, sizes: Sequence[int] | None = None, out: Tensors | None = None, n: int = 0) -> Work[Tensors]:
        self._hosted("all_gather", shards)
        sizes = [shards[rank].numel() for rank in self.ranks] if sizes is None else list(sizes)
        if sizes != [shards[rank].numel() for rank in self.ranks]:
            raise ValueError(f"all_gather: shards do not have the sizes {sizes}")
        out = _given("all_gather", out, shards, sizes)
        start = self.clocks.begin()
        at = self._all_gather(shards, _cut(out, sizes), start)
        self._handed("all_gather", {rank: sum(sizes) for rank in self.ranks})
        return self._issued(out, start, at, "AG{n}", n)

    def all_to_all(self, chunks: Mapping[int, Sequence[torch.Tensor]], *, n: int = 0) -> Work[dict[int, list[torch.Tensor]]]:
        self._hosted("all_to_all", chunks)
        if any(len(chunks[rank]) != self.size for rank in self.ranks):
            raise ValueError(f"all_to_all: every rank hands {self.size} chunks, one for each rank")
        start = at = self.clocks.begin()
        got: Pieces = {rank: [chunks[rank][rank].clone()] * self.size for rank in self.ranks}
        for distance in range(1, self.size):
            sent: Sent = {}
            for rank in self.ranks:
                target = (rank + distance) % self.size
                got[target][rank] = chunks[rank][target].clone()
                sent[rank] = (target, chunks[rank][target].nbytes)
            at = self._hop(at, sent)
        self._handed("all_to_all", {rank: sum(chunk.numel() for chunk in chunks[rank]) for rank in self.ranks})
        return self._issued(got, start, at, "A2A{n}", n)

    def broadcast(self, tensors: Tensors, root: int, *, algorithm: Literal["ring", "direct"] = "ring", n: int = 0) -> Work[Tensors]:
        self._hosted("broadcast", tensors)
        start = at = self.clocks.begin()
        if algorithm == "direct":
            for distance in range(1, self.size):
                target = (root + distance) % self.size
                tensors[target].copy_(tensors[root])
                at = self._hop(at, {root: (target, tensors[root].nbytes)})
        else:
            at = self._chain(tensors, root, at)
        self._handed("broadcast", {rank: tensors[rank].numel() for rank in self.ranks})
        return self._issued(tensors, start, at, "BC{n}", n)

    # point to point ----------------------------------------------------------------------------------------------------

    def send(self, rank: int, target: int, tensor: torch.Tensor, *, n: int = 0) -> Work[None]:
        start = float(self.clocks.begin()[rank])
        end = start + self.clocks.cost(tensor.nbytes)
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

    def _reduce_scatter(self, pieces: Pieces, op: Reduction, at: np.ndarray) -> tuple[Tensors, np.ndarray]:
        """Partial sums travel the ring; after size - 1 hops each rank is left with its own chunk, summed over all ranks."""
        size = self.size
        travelling = {rank: pieces[rank][ring.reduce_chunk(rank, 0, size)].clone() for rank in self.ranks}
        for hop in range(size - 1):
            sent: Sent = {}
            arrived: Tensors = {}
            for rank in self.ranks:
                target = ring.next_rank(rank, size)
                arrived[target] = travelling[rank]
                sent[rank] = (target, travelling[rank].nbytes)
            for rank, partial in arrived.items():
                partial.add_(pieces[rank][ring.reduce_chunk(rank, hop + 1, size)])
            travelling = arrived
            at = self._hop(at, sent)
        if op == "avg":
            for total in travelling.values():
                total.div_(size)
        return travelling, at

    def _all_gather(self, shards: Tensors, into: Pieces, at: np.ndarray) -> np.ndarray:
        """Finished chunks travel the ring; each rank passes on what it received the hop before."""
        size = self.size
        for rank in self.ranks:
            into[rank][rank].copy_(shards[rank])
        for hop in range(size - 1):
            sent: Sent = {}
            for rank in self.ranks:
                target, chunk = ring.next_rank(rank, size), ring.gather_chunk(rank, hop, size)
                into[target][chunk].copy_(into[rank][chunk])
                sent[rank] = (target, into[rank][chunk].nbytes)
            at = self._hop(at, sent)
        return at

    def _chain(self, tensors: Tensors, root: int, at: np.ndarray) -> np.ndarray:
        """The root's tensor in as many pieces as there are ranks, passed from neighbour to neighbour one behind the other."""
        size = self.size
        pieces = _cut({rank: tensor.view(-1) for rank, tensor in tensors.items()}, ring.chunk_sizes(tensors[root].numel(), size))
        for hop in range(2 * (size - 1)):
            sent: Sent = {}
            for position in range(min(hop, size - 2), -1, -1):  # the far end first: nobody passes on what arrives in this hop
                piece = hop - position
                if piece < size:
                    rank = (root + position) % size
                    target = ring.next_rank(rank, size)
                    pieces[target][piece].copy_(pieces[rank][piece])
                    sent[rank] = (target, pieces[rank][piece].nbytes)
            at = self._hop(at, sent)
        return at

    def _hop(self, at: np.ndarray, sent: Sent) -> np.ndarray:
        for rank, (_, size) in sent.items():
            self.traffic[rank].bytes_sent += size
        return self.clocks.hop(at, sent)

    def _issued(self, result: object, start: np.ndarray, end: np.ndarray, text: str, n: int) -> Work:
        self.clocks.end(start, end, text, n)

        def wait() -> None:
            for rank in self.ranks:
                self.clocks.wait(rank, float(end[rank]))

        return Work(result, wait)

    def _sizes(self, operation: str, tensors: Tensors, sizes: Sequence[int] | None) -> list[int]:
        self._hosted(operation, tensors)
        elements = {tensor.numel() for tensor in tensors.values()}
        if len(elements) != 1:
            raise ValueError(f"{operation}: every rank hands as many elements, not {sorted(elements)}")
        chunks = ring.chunk_sizes(elements.pop(), self.size) if sizes is None else list(sizes)
        if len(chunks) != self.size or sum(chunks) != next(iter(tensors.values())).numel():
            raise ValueError(f"{operation}: {self.size} chunk sizes that add up to the tensor, not {chunks}")
        return chunks


def _cut(tensors: Tensors, sizes: Sequence[int]) -> Pieces:
    """Each tensor as views of its chunks."""
    return {rank: list(torch.split(tensor.view(-1), list(sizes))) for rank, tensor in tensors.items()}


def _given(operation: str, out: Tensors | None, like: Tensors, sizes: Sequence[int]) -> Tensors:
    """The caller's result buffers, checked, or new ones."""
    if out is None:
        return {rank: tensor.new_empty(sum(sizes)) for rank, tensor in like.items()}
    if any(tensor.numel() != sum(sizes) for tensor in out.values()):
        raise ValueError(f"{operation}: out has room for {sum(sizes)} elements on every rank")
    return out
