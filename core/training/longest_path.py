"""A second opinion on a pipeline's timing: longest paths through an explicit graph of actions and dependencies.

It shares nothing with `core.training.timing`: the graph is written out edge by edge (also those that others imply) and its
nodes are relaxed in topological order, whichever rank they are on.
"""

from __future__ import annotations

import numpy as np

from core.training.schedule_table import Kind, Table


def edges(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(before, after, travels): one entry per dependency; rows of the table, and whether a message between ranks carries it.

    A rank runs its rows in order; activations go from stage to stage of a copy, gradients back; a gradient needs the stage's
    own forward, a weight gradient its own input gradient.
    """
    rows, stage, microbatch = np.arange(len(table)), table.stage, table.microbatch
    where = np.full((len(Kind), table.stages, table.microbatches), -1, dtype=np.int64)
    where[table.kind, stage, microbatch] = rows
    forward, weight = where[Kind.FORWARD], where[Kind.WEIGHT_GRADIENT]
    gradient = np.maximum(where[Kind.BACKWARD], where[Kind.INPUT_GRADIENT])
    in_rank = ~table.joined
    in_rank[table.first[:-1]] = False
    groups = [
        (rows[in_rank] - 1, rows[in_rank]),
        (forward[:-1], forward[1:]),
        (gradient[1:], gradient[:-1]),
        (forward, gradient),
        (gradient, weight),
    ]
    before = np.concatenate([group[0].ravel() for group in groups])
    after = np.concatenate([group[1].ravel() for group in groups])
    real = (before >= 0) & (after >= 0)
    before, after = before[real], after[real]
    rank = table.rank_of[stage]
    return before, after, rank[before] != rank[after]


def longest_path_starts(table: Table, duration: np.ndarray, transfer: float) -> np.ndarray:
    """(rows,) the earliest start of every row: the longest path that leads to its action. NaN on a cycle or behind one.

    duration: (rows,) of the action each row belongs to. Both rows of an overlapped pair are one node of the graph.
    """
    before, after, travels = edges(table)
    node = np.cumsum(~table.joined) - 1
    before, after = node[before], node[after]
    by_source = np.argsort(before, kind="stable")
    targets = after[by_source].tolist()
    delays = np.where(travels, transfer, 0.0)[by_source].tolist()
    nodes = int(node[-1]) + 1
    heads = np.searchsorted(before[by_source], np.arange(nodes + 1)).tolist()
    missing = np.bincount(after, minlength=nodes).tolist()
    lengths = duration[table.heads].tolist()
    start = [0.0] * nodes
    ready = [row for row, count in enumerate(missing) if not count]
    while ready:
        row = ready.pop()
        end = start[row] + lengths[row]
        for edge in range(heads[row], heads[row + 1]):
            target, there = targets[edge], end + delays[edge]
            if there > start[target]:
                start[target] = there
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    earliest: np.ndarray = np.where(np.array(missing) == 0, np.array(start), np.nan)[node]
    return earliest
