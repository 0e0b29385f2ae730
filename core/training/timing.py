"""When each action of a pipeline table runs, and what each rank holds meanwhile: one function for every schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.training.schedules import Action, Kind, Table


@dataclass(frozen=True)
class Costs:
    """Durations in units of time. forward, input_gradient, weight_gradient: (stages,); transfer: one message between two ranks."""

    forward: np.ndarray
    input_gradient: np.ndarray
    weight_gradient: np.ndarray
    transfer: float = 0.0

    def durations(self, table: Table) -> np.ndarray:
        """(actions,) how long each row of ``table`` takes."""
        by_kind = np.empty((len(Kind), table.stages))
        by_kind[Kind.FORWARD] = self.forward
        by_kind[Kind.BACKWARD] = self.input_gradient + self.weight_gradient
        by_kind[Kind.INPUT_GRADIENT] = self.input_gradient
        by_kind[Kind.WEIGHT_GRADIENT] = self.weight_gradient
        found: np.ndarray = by_kind[table.kind, table.stage]
        return found


@dataclass(frozen=True)
class Timing:
    """Each row of a table in time; every array is (actions,), in the table's order.

    source: the row whose result this one waits for, -1 for none; transfer: how long that result travels; arrived: when it is
    there (0 without a source); free: when the rank finished the row before; start = max(arrived, free); end = start + duration;
    order: all rows by start, every row behind the one it waits for (also when both start at once).
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
    """(actions,) the row whose result each row needs, -1 for none.

    A forward needs the forward of the stage before; a backward (or input gradient) that of the stage behind, at the last
    stage its own forward; a weight gradient its own input gradient.
    """
    kind, last = table.kind, table.stages - 1
    key = table.stage.astype(np.int64) * table.microbatches + table.microbatch
    forward, gradient = np.full((2, table.stages * table.microbatches), -1, dtype=np.int64)
    rows = np.arange(len(table))
    is_forward = kind == Kind.FORWARD
    is_gradient = (kind == Kind.BACKWARD) | (kind == Kind.INPUT_GRADIENT)
    is_weight = kind == Kind.WEIGHT_GRADIENT
    forward[key[is_forward]] = rows[is_forward]
    gradient[key[is_gradient]] = rows[is_gradient]

    found = np.full(len(table), -1, dtype=np.int64)
    later = is_forward & (table.stage > 0)
    found[later] = forward[key[later] - table.microbatches]
    inner = is_gradient & (table.stage < last)
    found[inner] = gradient[key[inner] + table.microbatches]
    loss = is_gradient & (table.stage == last)
    found[loss] = forward[key[loss]]
    found[is_weight] = gradient[key[is_weight]]
    return found


def time_table(table: Table, costs: Costs, tick: Callable[[float], None] | None = None) -> Timing:
    """Run the table: each rank goes down its rows, and a row starts once the rank is free and its input has arrived.

    Transfers run beside the computation and beside each other. ``tick`` hears the fraction done now and then and may raise.
    Raises ValueError when the ranks wait for each other for ever.
    """
    source = sources(table)
    rank = table.rank
    transfer = np.where((source >= 0) & (rank[source] != rank), costs.transfer, 0.0)
    start, end, order = _run(table, source.tolist(), transfer.tolist(), costs.durations(table).tolist(), tick)
    arrived = np.where(source >= 0, end[source] + transfer, 0.0)
    free = np.zeros(len(table))
    free[1:] = end[:-1]
    free[table.first[:-1]] = 0.0
    return Timing(source, transfer, arrived, free, start, end, order[np.argsort(start[order], kind="stable")])


def _run(
    table: Table, source: list[int], transfer: list[float], duration: list[float], tick: Callable[[float], None] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
            needed = source[row]
            if needed >= 0:
                arrived = end[needed]
                if arrived < 0.0:
                    waiting[needed] = rank
                    break
                arrived += transfer[row]
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
    """How many activations (one per chunk and microbatch) a rank holds while each row runs and after it: two (actions,) arrays.

    A forward holds its activation from its start; it is freed at the end of the backward, or of the weight gradient
    (``freed_at`` "weight") or of the input gradient ("input") where the two are apart.
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
