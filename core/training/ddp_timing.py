"""When DDP's buckets travel, without any tensors: one iteration on the fabric's clocks alone, for as many bucket sizes as one likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.fabric import ring
from core.fabric.clock import Clocks, LinkCost
from core.training.ddp_buckets import assign

GRADIENT = 4
"""Bytes of a gradient element: fp32."""


@dataclass(frozen=True)
class Half:
    """A half of a block: the unit of compute. ``parameters`` are indices in the model's order, times are seconds."""

    layer: int
    name: str
    parameters: tuple[int, ...]
    forward_time: float
    backward_time: float


@dataclass(frozen=True)
class Plan:
    """What an iteration computes and what it must average: ``elements[index]`` of every parameter, ``halves`` in forward order."""

    ranks: int
    link: LinkCost
    halves: tuple[Half, ...]
    elements: tuple[int, ...]
    update_time: float

    @property
    def sizes(self) -> list[int]:
        return [count * GRADIENT for count in self.elements]


@dataclass(frozen=True)
class Timed:
    """``step_time``, and of it what the rank that computes longest waited for communication; ``comm_time``: the wire is busy."""

    step_time: float
    exposed: float
    comm_time: float


def time_iteration(plan: Plan, buckets: Sequence[Sequence[int]]) -> Timed:
    """One iteration: a bucket starts once all it holds is ready and the one before has started."""
    clocks = Clocks(plan.ranks, plan.link, 1.0)
    everyone = range(plan.ranks)
    for rank in everyone:
        clocks.run(rank, sum(half.forward_time for half in plan.halves), "forward", "", 0)
    missing = [set(bucket) for bucket in buckets]
    started = 0
    for half in reversed(plan.halves):
        for rank in everyone:
            clocks.run(rank, half.backward_time, "backward", "", 0)
        for bucket in missing:
            bucket.difference_update(half.parameters)
        while started < len(missing) and not missing[started]:
            start = clocks.begin()
            clocks.end(start, _all_reduce(clocks, start, sum(plan.elements[index] for index in buckets[started])), "", 0)
            started += 1
    for rank in everyone:
        clocks.wait(rank, float(clocks.comm[rank]))
        clocks.run(rank, plan.update_time, "optimizer", "", 0)
    return Timed(float(clocks.compute.max()), float(clocks.waited.min()), float(clocks.busy.min()))


def sweep(plan: Plan, order: Sequence[int], first_limit: int, limits: Sequence[int]) -> list[Timed]:
    """The same iteration for every bucket size in ``limits`` (bytes); the first bucket closes at ``first_limit`` or sooner."""
    known: dict[tuple[tuple[int, ...], ...], Timed] = {}
    found = []
    for limit in limits:
        buckets = tuple(tuple(bucket) for bucket in assign(order, plan.sizes, min(first_limit, limit), limit))
        if buckets not in known:
            known[buckets] = time_iteration(plan, buckets)
        found.append(known[buckets])
    return found


def _all_reduce(clocks: Clocks, at: np.ndarray, elements: int) -> np.ndarray:
    """When a ring all-reduce that starts ``at`` (ranks,) ends: each hop as the simulated fabric charges it."""
    ranks = len(at)
    sizes = [count * GRADIENT for count in ring.chunk_sizes(elements, ranks)]
    for chunk_sent in (ring.reduce_chunk, ring.gather_chunk):
        for hop in range(ranks - 1):
            at = clocks.hop(at, {rank: (ring.next_rank(rank, ranks), sizes[chunk_sent(rank, hop, ranks)]) for rank in range(ranks)})
    return at


def by_formula(plan: Plan, buckets: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Exposed time and step time by recursion, with no clocks and no hops: all ranks alike, largest chunk on every hop.

    end[b] = max(end[b - 1], ready[b]) + 2 (n - 1) (alpha + ceil(elements / n) bytes / bandwidth).
    """
    forward = sum(half.forward_time for half in plan.halves)
    ready, now = {}, forward
    for half in reversed(plan.halves):
        now += half.backward_time
        ready.update(dict.fromkeys(half.parameters, now))
    end = 0.0
    for bucket in buckets:
        chunk = -(-sum(plan.elements[index] for index in bucket) // plan.ranks) * GRADIENT
        hop = plan.link.latency + chunk / plan.link.bandwidth
        end = max(end, *(ready[index] for index in bucket)) + 2 * (plan.ranks - 1) * hop
    exposed = max(end - now, 0.0)
    return exposed, now + exposed + plan.update_time
