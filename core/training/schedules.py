"""Pipeline schedules as data: one function per schedule says what each rank runs, in which order, and nothing about time.

A schedule's order is an array per rank with rows (kind, stage, microbatch). `build` puts the ranks together into a `Table`;
timing, memory and the real model only ever read a table. Those that split the backward are in `zero_bubble` and `dualpipe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from core.errors import BadInput, nearest
from core.training.dualpipe import dualpipe, dualpipev
from core.training.interleaving import chunk_turns, rounds
from core.training.schedule_table import Kind, Order, Placement, Table, both_ways, looped, rows_of, v_shaped
from core.training.zero_bubble import interleaved_zb, zb_h1, zbv


def gpipe(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """All forwards, then all backwards, both in the order of the microbatches (arXiv 1811.06965)."""
    every = np.arange(microbatches)
    return [np.concatenate([rows_of(Kind.FORWARD, rank, every), rows_of(Kind.BACKWARD, rank, every)]) for rank in range(ranks)]


def one_f_one_b(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """One forward, one backward in turn, once the ranks behind are filled (PipeDream-Flush, arXiv 2006.09503)."""
    every = np.arange(microbatches)
    return [
        _alternate(rows_of(Kind.FORWARD, rank, every), rows_of(Kind.BACKWARD, rank, every), warm_up=ranks - 1 - rank)
        for rank in range(ranks)
    ]


def interleaved(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """1F1B over several chunks of the model per rank, a round of microbatches through each chunk in turn (arXiv 2104.04473).

    Torch makes ``max(1, microbatches // ranks)`` equal rounds and refuses what does not divide; here the last rounds are then
    one microbatch short. (A round shorter than the number of ranks can block for ever, see `rounds`.)
    One chunk per rank is plain 1F1B.
    """
    if chunks == 1:
        return one_f_one_b(ranks, microbatches, chunks)
    upwards, downwards = chunk_turns(ranks, microbatches, chunks)
    orders = []
    for rank in range(ranks):
        forwards = rows_of(Kind.FORWARD, upwards[:, 0] * ranks + rank, upwards[:, 1])
        backwards = rows_of(Kind.BACKWARD, downwards[:, 0] * ranks + rank, downwards[:, 1])
        warm_up = (chunks - 1) * len(rounds(ranks, microbatches)[0]) + 2 * (ranks - 1 - rank)
        orders.append(_alternate(forwards, backwards, warm_up))
    return orders


def looped_bfs(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Breadth first: all microbatches through a chunk before the next chunk; then back, the last microbatch first (arXiv 2211.05953)."""
    every = np.arange(microbatches)
    return [
        np.concatenate([
            *[rows_of(Kind.FORWARD, chunk * ranks + rank, every) for chunk in range(chunks)],
            *[rows_of(Kind.BACKWARD, chunk * ranks + rank, every[::-1]) for chunk in reversed(range(chunks))],
        ])
        for rank in range(ranks)
    ]  # fmt: skip


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


# Where a schedule is defined -------------------------------------------------------------------------------------------

Refusal = tuple[str, str] | None
"""(found, allowed) of the one message that refuses a size; None where the schedule is defined."""


def any_chunks(ranks: int, microbatches: int, chunks: int) -> Refusal:
    return None


def single_chunk(ranks: int, microbatches: int, chunks: int) -> Refusal:
    return None if chunks == 1 else (f"chunks = {chunks}", "chunks = 1, since it puts one stage on each rank")


def two_chunks(ranks: int, microbatches: int, chunks: int) -> Refusal:
    return None if chunks == 2 else (f"chunks = {chunks}", "chunks = 2, since a V has two arms and each rank holds a chunk of either")


def folded(ranks: int, microbatches: int, chunks: int) -> Refusal:
    """DualPipeV's sizes."""
    if microbatches < 2 * ranks:
        least = f"microbatches >= 2 x stages = {2 * ranks}, since rank 0 runs so many forwards before its first pair is due"
        return two_chunks(ranks, microbatches, chunks) or (f"microbatches = {microbatches}", least)
    return two_chunks(ranks, microbatches, chunks)


def bidirectional(ranks: int, microbatches: int, chunks: int) -> Refusal:
    """DualPipe's sizes."""
    if chunks != 1:
        return f"chunks = {chunks}", "chunks = 1, since each rank holds one stage of each of the two copies"
    if ranks % 2:
        return f"stages = {ranks}", "an even number of stages, since two ranks meet in the middle"
    if microbatches % 2:
        return f"microbatches = {microbatches}", "an even number of microbatches, since half of them enter at each end"
    if microbatches < 2 * ranks:
        return f"microbatches = {microbatches}", (
            f"microbatches >= 2 x stages = {2 * ranks}, both directions together, since with fewer a rank's first pair finds no partner"
        )
    return None


class Schedule(NamedTuple):
    """A schedule's entry: what it is called, how its orders are made, and where it is defined.

    chunks: how many it usually has per rank; rigid: why its table cannot be run with less memory, '' when it can.
    """

    title: str
    orders: Callable[[int, int, int], list[Order]]
    undefined: Callable[[int, int, int], Refusal]
    chunks: int = 1
    placement: Callable[[int, int], Placement] = looped
    rigid: str = ""


_PAIRED = "its overlapped pairs fix which activations are held together"

SCHEDULES: dict[str, Schedule] = {
    "gpipe": Schedule("GPipe", gpipe, single_chunk),
    "1f1b": Schedule("1F1B", one_f_one_b, single_chunk),
    "interleaved": Schedule("Interleaved 1F1B", interleaved, any_chunks, chunks=2),
    "looped_bfs": Schedule("Looped BFS", looped_bfs, any_chunks, chunks=2, rigid="the last microbatch goes back first, so all are held"),
    "zb_h1": Schedule("ZB-H1", zb_h1, single_chunk),
    "interleaved_zb": Schedule("Interleaved zero bubble", interleaved_zb, any_chunks, chunks=2),
    "zbv": Schedule("ZB-V", zbv, two_chunks, chunks=2, placement=v_shaped),
    "dualpipe": Schedule("DualPipe", dualpipe, bidirectional, placement=both_ways, rigid=_PAIRED),
    "dualpipev": Schedule("DualPipeV", dualpipev, folded, chunks=2, placement=v_shaped, rigid=_PAIRED),
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
