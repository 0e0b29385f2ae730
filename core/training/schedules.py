"""Pipeline schedules as data: one function per schedule says what each rank runs, in which order, and nothing about time.

A schedule's order is a ``(actions, 3)`` array per rank with rows (kind, stage, microbatch). `build` puts the ranks
together into a `Table`; timing, memory and the real model only ever read a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from core.errors import BadInput, nearest

Order = np.ndarray
"""What one rank runs: (actions, 3) int32, rows (kind, stage, microbatch) from first to last."""


class Kind(IntEnum):
    """What an action computes for one stage and one microbatch."""

    FORWARD = 0
    BACKWARD = 1  # both gradients in one action, I then W; the gradient leaves when the action ends
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3

    @property
    def letter(self) -> str:
        return "FBIW"[self]


class Action(NamedTuple):
    """One row of a table. ``str`` writes it as torch does: stage, letter, microbatch ("3F7")."""

    kind: Kind
    stage: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.letter}{self.microbatch}"


@dataclass(frozen=True)
class Table:
    """A schedule for one size, rank by rank.

    actions: (actions, 3) int32, the orders of all ranks one after another; first: (ranks + 1,) where each rank's begin;
    rank_of, chunk_of: (stages,) the rank that holds a stage and its number there.
    """

    ranks: int
    microbatches: int
    chunks: int
    actions: np.ndarray
    first: np.ndarray
    rank_of: np.ndarray
    chunk_of: np.ndarray

    @classmethod
    def of(cls, orders: Sequence[Order], microbatches: int, placement: tuple[np.ndarray, np.ndarray]) -> Table:
        """Put the orders of all ranks together; ``placement`` is (rank_of, chunk_of), both (stages,)."""
        rank_of, chunk_of = placement
        first = np.zeros(len(orders) + 1, dtype=np.int64)
        np.cumsum([len(order) for order in orders], out=first[1:])
        return cls(len(orders), microbatches, int(chunk_of.max()) + 1, np.concatenate(orders), first, rank_of, chunk_of)

    @property
    def stages(self) -> int:
        return len(self.rank_of)

    @property
    def kind(self) -> np.ndarray:
        return self.actions[:, 0]

    @property
    def stage(self) -> np.ndarray:
        return self.actions[:, 1]

    @property
    def microbatch(self) -> np.ndarray:
        return self.actions[:, 2]

    @property
    def rank(self) -> np.ndarray:
        """(actions,) the rank of each row."""
        return np.repeat(np.arange(self.ranks), np.diff(self.first))

    def __len__(self) -> int:
        return len(self.actions)

    def of_rank(self, rank: int) -> list[Action]:
        """What ``rank`` runs, in order."""
        rows = self.actions[self.first[rank] : self.first[rank + 1]].tolist()
        return [Action(Kind(kind), stage, microbatch) for kind, stage, microbatch in rows]


# The schedules ---------------------------------------------------------------------------------------------------------


def gpipe(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """All forwards, then all backwards, both in the order of the microbatches (arXiv 1811.06965)."""
    every = np.arange(microbatches)
    return [np.concatenate([_rows(Kind.FORWARD, rank, every), _rows(Kind.BACKWARD, rank, every)]) for rank in range(ranks)]


def one_f_one_b(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """One forward, one backward in turn, once the ranks behind are filled (PipeDream-Flush, arXiv 2006.09503)."""
    every = np.arange(microbatches)
    return [
        _alternate(_rows(Kind.FORWARD, rank, every), _rows(Kind.BACKWARD, rank, every), warm_up=ranks - 1 - rank) for rank in range(ranks)
    ]


def interleaved(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """1F1B over several chunks of the model per rank, a round of microbatches through each chunk in turn (arXiv 2104.04473).

    Torch makes ``max(1, microbatches // ranks)`` equal rounds and refuses what does not divide; here the last rounds are then
    one microbatch short. (A round shorter than the number of ranks can block for ever, see `rounds`.)
    One chunk per rank is plain 1F1B.
    """
    if chunks == 1:
        return one_f_one_b(ranks, microbatches, chunks)
    members = rounds(ranks, microbatches)
    upwards = np.array([(chunk, microbatch) for turn in members for chunk in range(chunks) for microbatch in turn])
    downwards = np.array([(chunk, microbatch) for turn in members for chunk in reversed(range(chunks)) for microbatch in turn])
    orders = []
    for rank in range(ranks):
        forwards = _rows(Kind.FORWARD, upwards[:, 0] * ranks + rank, upwards[:, 1])
        backwards = _rows(Kind.BACKWARD, downwards[:, 0] * ranks + rank, downwards[:, 1])
        orders.append(_alternate(forwards, backwards, warm_up=(chunks - 1) * len(members[0]) + 2 * (ranks - 1 - rank)))
    return orders


def rounds(ranks: int, microbatches: int) -> list[range]:
    """The microbatches of each interleaved round: as many rounds as in torch, as equal as they can be, the longer ones first.

    No round is shorter than ``ranks`` unless there are fewer microbatches than ranks, so a chunk's first result is there when
    the next chunk's turn comes. Cutting off full rounds and leaving a rest of 1 (4 ranks, 9 microbatches, 3 chunks) deadlocks.
    """
    count = max(1, microbatches // ranks)
    short, longer = divmod(microbatches, count)
    cuts = [turn * short + min(turn, longer) for turn in range(count + 1)]
    return [range(begin, end) for begin, end in pairwise(cuts)]


def _alternate(forwards: Order, backwards: Order, warm_up: int) -> Order:
    """``warm_up`` forwards, then forward and backward in turn, then the backwards that are left."""
    warm_up = min(warm_up, len(forwards))
    pairs = len(forwards) - warm_up
    order = np.empty((len(forwards) + len(backwards), 3), dtype=np.int32)
    order[:warm_up] = forwards[:warm_up]
    order[warm_up : warm_up + 2 * pairs : 2] = forwards[warm_up:]
    order[warm_up + 1 : warm_up + 2 * pairs : 2] = backwards[:pairs]
    order[warm_up + 2 * pairs :] = backwards[pairs:]
    return order


def _rows(kind: Kind, stage: int | np.ndarray, microbatch: np.ndarray) -> Order:
    rows = np.empty((len(microbatch), 3), dtype=np.int32)
    rows[:, 0], rows[:, 1], rows[:, 2] = kind, stage, microbatch
    return rows


# Where stages live, where a schedule is defined ------------------------------------------------------------------------


def looped(ranks: int, chunks: int) -> tuple[np.ndarray, np.ndarray]:
    """Stage s on rank s mod ranks, as its chunk s div ranks. Returns (rank_of, chunk_of)."""
    stages = np.arange(ranks * chunks)
    return stages % ranks, stages // ranks


def any_chunks(ranks: int, microbatches: int, chunks: int) -> tuple[str, str] | None:
    return None


def single_chunk(ranks: int, microbatches: int, chunks: int) -> tuple[str, str] | None:
    return None if chunks == 1 else (f"chunks = {chunks}", "chunks = 1, since it puts one stage on each rank")


class Schedule(NamedTuple):
    """A schedule's entry: what it is called, how its orders are made, and where it is defined.

    undefined: (ranks, microbatches, chunks) -> None, or (found, allowed) of the one message that refuses them;
    chunks: how many it usually has per rank; copies: of the parameters on each rank.
    """

    title: str
    orders: Callable[[int, int, int], list[Order]]
    undefined: Callable[[int, int, int], tuple[str, str] | None]
    chunks: int = 1
    placement: Callable[[int, int], tuple[np.ndarray, np.ndarray]] = looped
    copies: int = 1


SCHEDULES: dict[str, Schedule] = {
    "gpipe": Schedule("GPipe", gpipe, single_chunk),
    "1f1b": Schedule("1F1B", one_f_one_b, single_chunk),
    "interleaved": Schedule("Interleaved 1F1B", interleaved, any_chunks, chunks=2),
}


def build(name: str, ranks: int, microbatches: int, chunks: int = 0) -> Table:
    """The table of schedule ``name``; ``chunks`` 0 takes the schedule's usual number.

    Raises BadInput for an unknown name, or with the schedule's own message for sizes at which it is not defined.
    """
    schedule = SCHEDULES.get(name)
    if schedule is None:
        raise BadInput("pipeline.schedule", f"unknown name {name!r}", nearest(name, SCHEDULES))
    chunks = chunks or schedule.chunks
    refused = schedule.undefined(ranks, microbatches, chunks)
    if refused is not None:
        raise BadInput(f"pipeline schedule {name}", *refused)
    return Table.of(schedule.orders(ranks, microbatches, chunks), microbatches, schedule.placement(ranks, chunks))
