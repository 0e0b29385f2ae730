"""A collective as data: phases of rounds of transfers, which one mover executes and one clock times.

In a round every rank sends at most one message and receives at most one, all of them at the same time. Nothing here
holds values; `core.fabric.mover` moves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Operation = Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"]
Algorithm = Literal["ring", "tree", "recursive_doubling", "direct"]
Mode = Literal["reduce", "exchange", "copy"]
PhaseName = Literal["reduce-scatter", "all-gather", "reduce", "broadcast", "exchange", "fold in", "fold out", "all-to-all"]


class Transfer(NamedTuple):
    """One message: ``chunks`` go from rank ``source`` to rank ``target``.

    reduce: the target adds them to its own, the source's partial sums are spent. exchange: the same, but the source keeps
    its own (both ends send). copy: the target stores them, the source keeps them.
    """

    source: int
    target: int
    chunks: tuple[int, ...]
    mode: Mode


Round = tuple[Transfer, ...]


@dataclass(frozen=True)
class Phase:
    name: PhaseName
    rounds: tuple[Round, ...]


@dataclass(frozen=True)
class Schedule:
    """Who sends which chunk to whom, and when.

    The buffer is cut into ``chunks``. After the first ``settled`` phases no sum changes any more: ``owners`` are the
    (rank, chunks) that hold it then, and what is left only copies. An all-to-all numbers the block from r to p r n + p.
    """

    op: Operation
    algorithm: Algorithm
    ranks: int
    chunks: int
    phases: tuple[Phase, ...]
    settled: int
    owners: tuple[tuple[int, tuple[int, ...]], ...]
    root: int = 0

    @property
    def messages(self) -> int:
        return sum(len(transfers) for phase in self.phases for transfers in phase.rounds)

    @property
    def rounds(self) -> int:
        return sum(len(phase.rounds) for phase in self.phases)

    def starting(self, rank: int) -> tuple[int, ...]:
        """The chunks that ``rank`` brings along."""
        if self.op == "all_gather":
            return (rank,)
        if self.op == "broadcast":
            return tuple(range(self.chunks)) if rank == self.root else ()
        if self.op == "all_to_all":
            return tuple(range(rank * self.ranks, (rank + 1) * self.ranks))
        return tuple(range(self.chunks))

    def wanted(self, rank: int) -> dict[int, int]:
        """What ``rank`` must end with: chunk -> bitmask of the ranks whose values it is made of."""
        everyone = (1 << self.ranks) - 1
        if self.op == "all_reduce":
            return dict.fromkeys(range(self.chunks), everyone)
        if self.op == "reduce_scatter":
            return {rank: everyone}
        if self.op == "reduce":
            return dict.fromkeys(range(self.chunks), everyone) if rank == self.root else {}
        if self.op == "broadcast":
            return dict.fromkeys(range(self.chunks), 1 << self.root)
        if self.op == "all_gather":
            return {chunk: 1 << chunk for chunk in range(self.chunks)}
        return {source * self.ranks + rank: 1 << source for source in range(self.ranks)}


class Contributors:
    """Replays a schedule on bitmasks: ``held[rank][chunk]`` has the bit of every rank whose values are in it.

    ``twice`` counts contributions that arrived where they already were; a sum would then be wrong though its mask is full.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.held: list[dict[int, int]] = [dict.fromkeys(schedule.starting(rank), 1 << rank) for rank in range(schedule.ranks)]
        self.twice = 0

    def round(self, transfers: Sequence[Transfer]) -> None:
        landed: list[tuple[int, int, int]] = []
        for source, target, chunks, mode in transfers:
            for chunk in chunks:
                bits = self.held[source].get(chunk, 0)
                if mode == "reduce":
                    self.held[source].pop(chunk, None)
                if mode != "copy":
                    own = self.held[target].get(chunk, 0)
                    self.twice += (own & bits).bit_count()
                    bits |= own
                landed.append((target, chunk, bits))
        for target, chunk, bits in landed:
            self.held[target][chunk] = bits

    def settle(self, schedule: Schedule) -> None:
        """Only the owners' sums count from here on."""
        kept = dict(schedule.owners)
        if schedule.op in ("all_reduce", "reduce_scatter", "reduce"):
            self.held = [{c: bits for c, bits in held.items() if c in kept.get(rank, ())} for rank, held in enumerate(self.held)]
