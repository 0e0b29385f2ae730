"""When each action of a pipeline table runs, and what each rank holds meanwhile: one function for every schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.training.schedule_table import Action, Kind, Table


@dataclass(frozen=True)
class Costs:
    """Durations in units of time.

    forward, input_gradient, weight_gradient: (stages,); transfer: one message between two ranks; overlapped: (ranks,) an
    overlapped forward-backward pair, None: as long as both one after the other.
    """

    forward: np.ndarray
    input_gradient: np.ndarray
    weight_gradient: np.ndarray
    transfer: float = 0.0
    overlapped: np.ndarray | None = None

    def durations(self, table: Table) -> np.ndarray:
        """(rows,) how long the action takes that each row of ``table`` belongs to: both rows of a pair name the pair's time."""
        found = self.alone(table)
        second = np.flatnonzero(table.joined)
        if len(second):
            pair = found[second - 1] + found[second] if self.overlapped is None else self.overlapped[table.rank[second]]
            found[second - 1] = found[second] = pair
        return found

    def alone(self, table: Table) -> np.ndarray:
        """(rows,) how long each row would take as an action of its own."""
        by_kind = np.empty((len(Kind), table.stages))
        by_kind[Kind.FORWARD] = self.forward
        by_kind[Kind.BACKWARD] = self.input_gradient + self.weight_gradient
        by_kind[Kind.INPUT_GRADIENT] = self.input_gradient
        by_kind[Kind.WEIGHT_GRADIENT] = self.weight_gradient
        found: np.ndarray = by_kind[table.kind, table.stage]
        return found


@dataclass(frozen=True)
class Timing:
    """Each row of a table in time; every array is (rows,), in the table's order.

    source: the row whose result this one waits for, -1 for none; transfer: how long that result travels; arrived: when it is
    there (0 without a source); free: when the rank finished the action before; start = max(arrived, free); end = start + duration.
    Both rows of an overlapped pair start when all that either waits for is there (``free`` of the second is that start), and end
    together. order: all rows by start, every row behind the one it waits for (also when both start at once).
    """

    source: np.ndarray
    transfer: np.ndarray
    arrived: np.ndarray
    free: np.ndarray
    start: np.ndarray
    end: np.ndarray
    order: np.ndarray

    @property
    def makespan(self) -> float:
        return float(self.end.max())


def sources(table: Table) -> np.ndarray:
    """(rows,) the row whose result each row needs, -1 for none.

    A forward needs the forward of the stage before; a backward (or input gradient) that of the stage behind, at the last
    stage of its copy its own forward; a weight gradient its own input gradient.
    """
    kind, depth_in_copy, last = table.kind, table.stage % table.depth, table.depth - 1
    key = table.stage.astype(np.int64) * table.microbatches + table.microbatch
    forward, gradient = np.full((2, table.stages * table.microbatches), -1, dtype=np.int64)
    rows = np.arange(len(table))
    is_forward = kind == Kind.FORWARD
    is_gradient = (kind == Kind.BACKWARD) | (kind == Kind.INPUT_GRADIENT)
    is_weight = kind == Kind.WEIGHT_GRADIENT
    forward[key[is_forward]] = rows[is_forward]
    gradient[key[is_gradient]] = rows[is_gradient]

    found = np.full(len(table), -1, dtype=np.int64)
    later = is_forward & (depth_in_copy > 0)
    found[later] = forward[key[later] - table.microbatches]
    inner = is_gradient & (depth_in_copy < last)
    found[inner] = gradient[key[inner] + table.microbatches]
    loss = is_gradient & (depth_in_copy == last)
    found[loss] = forward[key[loss]]
    found[is_weight] = gradient[key[is_weight]]
    return found


def time_table(table: Table, costs: Costs, tick: Callable[[float], None] | None = None) -> Timing:
    """Run the table: each rank goes down its actions, and one starts once the rank is free and its inputs have arrived.

    Transfers run beside the computation and beside each other. ``tick`` hears the fraction done now and then and may raise.
    Raises ValueError when the ranks wait for each other for ever.
    """
    source = sources(table)
    rank = table.rank
    transfer = np.where((source >= 0) & (rank[source] != rank), costs.transfer, 0.0)
    second = np.flatnonzero(table.joined)
    duration, first_needs, partner = costs.durations(table), source.copy(), np.full(len(table), -1)
    partner[second - 1] = second
    duration[second], first_needs[second] = 0.0, -1  # a pair runs as its first row, its second ends with it
    start, end, order = _run(table, first_needs.tolist(), partner.tolist(), source, transfer.tolist(), duration.tolist(), tick)
    start[second] = start[second - 1]
    arrived = np.where(source >= 0, end[source] + transfer, 0.0)
    free = np.zeros(len(table))
    free[1:] = end[:-1]
    free[table.first[:-1]] = 0.0
    free[second] = start[second]
    return Timing(source, transfer, arrived, free, start, end, order[np.argsort(start[order], kind="stable")])


def _run(
    table: Table,
    needs: list[int],
    partner: list[int],
    source: np.ndarray,
    transfer: list[float],
    duration: list[float],
    tick: Callable[[float], None] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and order of all rows. ``partner`` is the row that starts together with a row, whose ``source`` counts too."""
    first = table.first.tolist()
    begin, end = [0.0] * len(table), [-1.0] * len(table)  # a row that has not run ends at -1
    order: list[int] = []
    at, clock = first[:-1], [0.0] * table.ranks
    waiting: dict[int, int] = {}  # row -> the rank that waits for its result: no result is needed on two other ranks
    ready = list(range(table.ranks))
    turns = 0
    while ready:
        rank = ready.pop()
        row, last, now = at[rank], first[rank + 1], clock[rank]
        while row < last:
            needed = needs[row]
            if needed >= 0:
                arrived = end[needed]
                if arrived < 0.0:
                    waiting[needed] = rank
                    break
                arrived += transfer[row]
                if arrived > now:
                    now = arrived
            if partner[row] >= 0 and (needed := int(source[partner[row]])) >= 0:
                arrived = end[needed]
                if arrived < 0.0:
                    waiting[needed] = rank
                    break
                arrived += transfer[partner[row]]
                if arrived > now:
                    now = arrived
            begin[row] = now
            now += duration[row]
            end[row] = now
            order.append(row)
            if row in waiting:
                ready.append(waiting.pop(row))
            row += 1
        at[rank], clock[rank] = row, now
        turns += 1
        if tick is not None and not turns & 0xFFF:
            tick(len(order) / len(table))
    stuck = [rank for rank in range(table.ranks) if at[rank] < first[rank + 1]]
    if stuck:
        kind, stage, microbatch = table.actions[at[stuck[0]]].tolist()
        raise ValueError(f"the schedule never ends: rank {stuck[0]} waits for ever at {Action(Kind(kind), stage, microbatch)}")
    return np.array(begin), np.array(end), np.array(order)


def held(table: Table, freed_at: Literal["weight", "input"] = "weight") -> tuple[np.ndarray, np.ndarray]:
    """How many activations (one per chunk and microbatch) a rank holds while each row runs and after it: two (rows,) arrays.

    A forward holds its activation from its start; it is freed at the end of the backward, or of the weight gradient
    (``freed_at`` "weight") or of the input gradient ("input") where the two are apart. A pair holds its forward's, too,
    while both run, and its second row tells what is left after it.
    """
    forward = (table.kind == Kind.FORWARD).astype(np.int64)
    frees = (table.kind == Kind.BACKWARD) | (table.kind == (Kind.WEIGHT_GRADIENT if freed_at == "weight" else Kind.INPUT_GRADIENT))
    after = np.cumsum(forward - frees)
    before = np.concatenate([[0], after])[table.first[:-1]]  # what the ranks before left over: nothing, if all is freed
    after = after - np.repeat(before, np.diff(table.first))
    return after + frees, after


def peak_by_rank(table: Table, freed_at: Literal["weight", "input"] = "weight") -> np.ndarray:
    """(ranks,) the most activations each rank holds at once."""
    during, _ = held(table, freed_at)
    return np.maximum.reduceat(during, table.first[:-1])
