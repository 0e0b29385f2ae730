"""Token-choice routers: logits to experts and gates, the capacity of an expert, and who is dropped when it is full."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, NamedTuple

import torch
from torch import Tensor

RouterName = Literal["mixtral", "qwen3", "softmax", "uniform"]
DropOrder = Literal["choice", "position", "gate"]

RENORMALISED = frozenset({"mixtral", "qwen3", "uniform"})
"""Routers whose k gates are divided by their sum. ``softmax`` keeps the probabilities (norm_topk_prob = false)."""


class Routing(NamedTuple):
    """What the router decided: probabilities (tokens, experts); experts and gates (tokens, top_k), the strongest first."""

    probabilities: Tensor
    experts: Tensor
    gates: Tensor


def route(router: RouterName, logits: Tensor, top_k: int) -> Routing:
    """Softmax over all experts, then the top k; mixtral, qwen3 and uniform renormalise the k gates to sum to 1.

    logits: (tokens, experts). The softmax runs in float32, as in Mixtral (2401.04088) and Qwen3-MoE (2505.09388);
    float64 stays. Softmax over all and renormalising over k equals softmax over the k chosen logits.
    """
    probabilities = torch.softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)
    gates, experts = torch.topk(probabilities, top_k, dim=-1)
    if router in RENORMALISED:
        gates = gates / gates.sum(dim=-1, keepdim=True)
    return Routing(probabilities, experts, gates)


def expert_capacity(factor: float, tokens: int, top_k: int, experts: int) -> int | None:
    """C = ceil(CF x T x k / E) rows an expert takes (GShard, 2006.16668); None when ``factor`` is 0: no limit.

    The factor is taken as the decimal that is written (1.1 x 10 is 11, not 11.000000000000002).
    """
    return math.ceil(Fraction(repr(factor)) * tokens * top_k / experts) if factor else None


class Capacity(NamedTuple):
    """Who came when: ``queue`` (tokens x top_k,) assignment ids in the order they are seated; ``place`` (tokens, top_k)
    the seat of each in its expert's queue, from 0; ``kept`` (tokens, top_k), place < capacity."""

    queue: Tensor
    place: Tensor
    kept: Tensor


def seat(routing: Routing, capacity: int | None, order: DropOrder) -> Capacity:
    """Seat the assignments at their experts; those past the capacity are dropped.

    order: "choice" seats all first choices by token, then all second choices (GShard, 2006.16668, Algorithm 1);
    "position" goes token by token; "gate" seats the largest gate first, so the weakest assignments are dropped.
    """
    tokens, top_k = routing.experts.shape
    ids = torch.arange(tokens * top_k, device=routing.experts.device)
    if order == "choice":
        queue = ids.view(tokens, top_k).T.reshape(-1)
    elif order == "position":
        queue = ids
    else:
        queue = torch.argsort(routing.gates.reshape(-1), descending=True, stable=True)
    in_queue = routing.experts.reshape(-1)[queue]
    by_expert = torch.argsort(in_queue, stable=True)
    counts = torch.bincount(in_queue, minlength=routing.probabilities.shape[1])
    first = (torch.cumsum(counts, 0) - counts)[in_queue[by_expert]]
    place = torch.empty_like(ids)
    place[queue[by_expert]] = ids - first
    place = place.view(tokens, top_k)
    return Capacity(queue, place, torch.ones_like(place, dtype=torch.bool) if capacity is None else place < capacity)


def uniform_drops(tokens: int, experts: int, top_k: int, capacity: int) -> tuple[float, float]:
    """Expected drop rate of a uniform router, and a bound on its standard deviation, both as shares of all assignments.

    An expert's load is exactly Binomial(T, k/E), so the rate is E x mean of max(load - C, 0) / (T k). Loads of different
    experts are negatively associated, so E x variance bounds the variance of the sum.
    """
    p = top_k / experts
    if capacity >= tokens:
        return 0.0, 0.0
    if p == 1.0:
        return (tokens - capacity) / tokens, 0.0
    mean = square = 0.0
    for load in range(capacity + 1, tokens + 1):
        log_ways = math.lgamma(tokens + 1) - math.lgamma(load + 1) - math.lgamma(tokens - load + 1)
        chance = math.exp(log_ways + load * math.log(p) + (tokens - load) * math.log1p(-p))
        mean += (load - capacity) * chance
        square += (load - capacity) ** 2 * chance
    assignments = tokens * top_k
    return experts * mean / assignments, math.sqrt(experts * max(square - mean * mean, 0.0)) / assignments
