"""A pipeline table run with less memory: a forward for which a rank has no room waits, and what can run meanwhile goes first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from core.training.schedule_table import Kind, Placement, Table
from core.training.timing import Costs, peak_by_rank, sources


@dataclass
class Room:
    """What one rank holds. A microbatch that is not its oldest may not take the last ``chunks`` places.

    So the oldest can always pass through all chunks of the rank and free them: whatever the limit, nobody waits for ever.
    """

    limit: int
    chunks: int
    oldest: int = 0
    held: dict[int, int] = field(default_factory=dict)
    freed: dict[int, int] = field(default_factory=dict)

    def has(self, microbatch: int) -> bool:
        """Whether a forward of ``microbatch`` may start."""
        younger = sum(self.held.values()) - self.held.get(self.oldest, 0)
        return microbatch == self.oldest or younger < self.limit - self.chunks

    def take(self, microbatch: int) -> None:
        self.held[microbatch] = self.held.get(microbatch, 0) + 1

    def free(self, microbatch: int) -> None:
        self.held[microbatch] -= 1
        self.freed[microbatch] = self.freed.get(microbatch, 0) + 1
        while self.freed.get(self.oldest, 0) == self.chunks:
            del self.held[self.oldest]
            self.oldest += 1


def within(table: Table, limits: np.ndarray, costs: Costs, tick: Callable[[float], None] | None = None) -> Table:
    """``table`` so that rank r holds at most ``limits[r]`` activations, each a chunk's for one microbatch, until its W.

    limits: (ranks,) whole numbers, at least ``table.chunks``. A table that keeps to them is returned as it is. Otherwise each
    rank, when free, runs the first action in its order that is ready and has room; forwards, I and W of a stage stay in order.
    The table must have no overlapped pairs and take its microbatches in ascending order.
    """
    if (peak_by_rank(table) <= limits).all():
        return table
    source = sources(table)
    needs, kinds, microbatches = source.tolist(), table.kind.tolist(), table.microbatch.tolist()
    rank_of_row = table.rank
    delay = np.where((source >= 0) & (rank_of_row[source] != rank_of_row), costs.transfer, 0.0).tolist()
    lasts = costs.durations(table).tolist()
    queues = [_queues(table, rank) for rank in range(table.ranks)]
    rooms = [Room(int(limit), table.chunks) for limit in limits]
    end = [float("inf")] * len(table)
    after = _followers(needs)
    orders: list[list[int]] = [[] for _ in range(table.ranks)]
    events = [(0.0, rank) for rank in range(table.ranks)]  # when a rank looks for work
    free_at, running = [0.0] * table.ranks, [-1] * table.ranks
    ranks = rank_of_row.tolist()
    while events:
        now, rank = heapq.heappop(events)
        if now < free_at[rank]:
            continue
        if running[rank] >= 0:  # what ran has ended
            row, running[rank] = running[rank], -1
            if kinds[row] in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT):
                rooms[rank].free(microbatches[row])
        row = _first_ready(queues[rank], rooms[rank], needs, kinds, microbatches, end, delay, now)
        if row < 0:
            continue
        if kinds[row] == Kind.FORWARD:
            rooms[rank].take(microbatches[row])
        orders[rank].append(row)
        end[row] = free_at[rank] = now + lasts[row]
        running[rank] = row
        heapq.heappush(events, (free_at[rank], rank))
        for follower in after.get(row, ()):
            if ranks[follower] != rank:
                heapq.heappush(events, (end[row] + delay[follower], ranks[follower]))
        if tick is not None and not len(orders[rank]) & 0xFF:
            tick(sum(map(len, orders)) / len(table))
    placement = Placement(table.rank_of, table.place_of, table.copies)
    return Table.of([table.actions[order] for order in orders], table.microbatches, placement)


def _queues(table: Table, rank: int) -> list[list[int]]:
    """The rows of a rank by kind and stage, the next one last."""
    found: dict[tuple[int, int], list[int]] = {}
    for row in range(int(table.first[rank + 1]) - 1, int(table.first[rank]) - 1, -1):
        found.setdefault((int(table.kind[row]), int(table.stage[row])), []).append(row)
    return list(found.values())


def _followers(needs: list[int]) -> dict[int, list[int]]:
    after: dict[int, list[int]] = {}
    for row, needed in enumerate(needs):
        if needed >= 0:
            after.setdefault(needed, []).append(row)
    return after


def _first_ready(
    queues: list[list[int]],
    room: Room,
    needs: list[int],
    kinds: list[int],
    microbatches: list[int],
    end: list[float],
    delay: list[float],
    now: float,
) -> int:
    """Take the first row in the rank's order that may start now out of its queue; -1 for none."""
    best: list[int] | None = None
    for queue in queues:
        if not queue or (best is not None and queue[-1] > best[-1]):
            continue
        row = queue[-1]
        if needs[row] >= 0 and end[needs[row]] + delay[row] > now:
            continue
        if kinds[row] == Kind.FORWARD and not room.has(microbatches[row]):
            continue
        best = queue
    return best.pop() if best is not None else -1
