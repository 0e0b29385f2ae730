"""What a fabric promises: collectives over ``{rank: tensor}`` for the ranks this process hosts.

A simulated fabric hosts every rank; under torch.distributed a process hosts one. An algorithm loops over
`Fabric.ranks` and never assumes that all ranks are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import torch

from core.fabric.hops import Algorithm

Tensors = dict[int, torch.Tensor]
"""One tensor for each hosted rank."""

Reduction = Literal["sum", "avg", "max"]
Result = TypeVar("Result")


@dataclass
class Traffic:
    """What one rank has communicated so far.

    ``elements`` handed to collectives: the whole array of a reduce-scatter (its input), all-gather (its output),
    all-to-all or broadcast once; an all-reduce twice, because it is a reduce-scatter and an all-gather (so that
    data parallelism costs 2 Psi, as in ZeRO, arXiv 1910.02054). ``bytes_sent`` are the bytes this rank put on the
    wire, counted message by message. ``calls`` counts by operation.
    """

    elements: int = 0
    bytes_sent: int = 0
    calls: Counter[str] = field(default_factory=Counter)


class Work(Generic[Result]):
    """A collective that has been issued; `wait` orders the compute stream of the hosted ranks behind it."""

    def __init__(self, result: Result, on_wait: Callable[[], None]) -> None:
        self._result = result
        self._on_wait = on_wait

    def wait(self) -> Result:
        """The result. Compute issued from now on starts after the collective has ended."""
        self._on_wait()
        return self._result


class Fabric(ABC):
    """``size`` ranks, of which ``ranks`` live in this process.

    Every rank has two streams. `compute` adds to the compute stream. A collective runs on the comm stream, once the
    compute issued before it has ended (as in torch.distributed, where the collective's stream waits for the current
    one): overlap follows from the order in which the program issues things.

    ``algorithm`` says how a simulated fabric moves the values; a pair of collective and algorithm that does not exist is
    refused (BadInput). A communication library chooses its own.
    """

    def __init__(self, size: int, ranks: Sequence[int]) -> None:
        self.size = size
        self.ranks = tuple(ranks)
        self.traffic: dict[int, Traffic] = {rank: Traffic() for rank in self.ranks}

    # compute ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def compute(self, rank: int, seconds: float, role: str, text: str = "", n: int = 0) -> float:
        """``rank`` computes for ``seconds``; returns when it starts. ``role``, ``text`` and ``n`` label the span."""

    @abstractmethod
    def now(self) -> float:
        """When the compute streams of the hosted ranks are free (the latest of them), in seconds."""

    # collectives -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def all_reduce(
        self, tensors: Tensors, op: Reduction = "sum", *, sizes: Sequence[int] | None = None, out: Tensors | None = None, n: int = 0
    ) -> Work[Tensors]:
        """Every rank gets the sum (or the average) of all tensors, each of shape (elements,).

        The sum is made in the tensors' own dtype, chunk by chunk in ring order. "avg" divides the finished
        sum by the number of ranks, "max" takes the largest of all values instead. ``sizes`` are the chunks
        (default: as equal as possible), ``out`` receives the result (may be ``tensors`` itself), ``n`` labels the span.
        """

    @abstractmethod
    def reduce_scatter(
        self,
        tensors: Tensors,
        op: Reduction = "sum",
        *,
        sizes: Sequence[int] | None = None,
        algorithm: Algorithm = "ring",
        n: int = 0,
    ) -> Work[Tensors]:
        """Rank r gets chunk r of the sum (or average) of all tensors, each of shape (elements,); new tensors (sizes[r],)."""

    @abstractmethod
    def all_gather(
        self,
        shards: Tensors,
        *,
        sizes: Sequence[int] | None = None,
        out: Tensors | None = None,
        algorithm: Algorithm = "ring",
        n: int = 0,
    ) -> Work[Tensors]:
        """Every rank gets all shards in rank order, shape (sum of sizes,). ``sizes`` are needed where shards differ in length."""

    @abstractmethod
    def all_to_all(
        self, chunks: Mapping[int, Sequence[torch.Tensor]], *, algorithm: Algorithm = "direct", n: int = 0
    ) -> Work[dict[int, list[torch.Tensor]]]:
        """``chunks[r][p]`` goes from rank r to rank p; the result ``[r][p]`` is what r got from p. Lengths may differ."""

    @abstractmethod
    def broadcast(self, tensors: Tensors, root: int, *, algorithm: Algorithm = "ring", n: int = 0) -> Work[Tensors]:
        """Every rank's tensor is overwritten by that of ``root``: along a chain in pieces, down a tree, or by the root to each in turn."""

    @abstractmethod
    def reduce(
        self, tensors: Tensors, root: int, op: Reduction = "sum", *, out: Tensors | None = None, algorithm: Algorithm = "ring", n: int = 0
    ) -> Work[Tensors]:
        """``root`` alone gets the sum (or average) of all tensors: the result holds its rank, where it is hosted, and no other."""

    # point to point ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def send(self, rank: int, target: int, tensor: torch.Tensor, *, n: int = 0) -> Work[None]:
        """Hosted ``rank`` sends ``tensor`` to ``target``. All sends of a round are issued before its receives."""

    @abstractmethod
    def recv(self, rank: int, source: int, out: torch.Tensor, *, n: int = 0) -> Work[torch.Tensor]:
        """Hosted ``rank`` receives the next message of ``source`` into ``out`` (same shape and dtype as what was sent)."""

    # for implementations -------------------------------------------------------------------------------------------------

    def _handed(self, operation: str, elements: Mapping[int, int]) -> None:
        for rank, count in elements.items():
            self.traffic[rank].elements += count
            self.traffic[rank].calls[operation] += 1

    def _hosted(self, operation: str, tensors: Mapping[int, object]) -> None:
        if set(tensors) != set(self.ranks):
            raise ValueError(f"{operation}: tensors of ranks {sorted(tensors)}, but this process hosts {list(self.ranks)}")
