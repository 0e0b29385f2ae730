"""What an expert-parallel run is held against: the same layer on one device, and copies counted token by token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from core.fabric.base import Tensors
from core.moe.dispatch_checks import dense_mixture, evenly, expected_gates, expected_kept, numpy
from core.moe.experts import sparse_forward
from core.moe.routers import expert_capacity, route
from core.recording import Recorder
from core.training.expert_parallel_routing import node_limited
from core.training.expert_parallel_setup import distinct_deviation, expected_distinct

if TYPE_CHECKING:
    from core.training.expert_parallel import Layer

TOLERANCE = 1e-9
_DENSE_FLOP = 5e8
_SIGMAS = 6.0


def against_one_device(rec: Recorder, layer: Layer, out: Tensors) -> None:
    """Routing, drops and output equal those of one device with all tokens and all experts."""
    from core.training.expert_parallel import as_sent

    p, job = layer.job.params, layer.job
    limited = node_limited(layer.logits, p.top_k, job.nodes, p.node_limit)
    routing = route("mixtral", limited, p.top_k)
    chosen = torch.cat([layer.routing[rank].experts for rank in layer.fabric.ranks])
    rec.check("tokens whose experts differ", int((chosen != routing.experts).any(1).sum()), 0, oracle="the router on all tokens at once")
    want_kept = _kept(layer, numpy(routing.experts), numpy(routing.gates))
    kept = torch.cat([layer.kept[rank] for rank in layer.fabric.ranks])
    rec.check("choices kept or dropped otherwise", int((numpy(kept) != want_kept).sum()), 0, oracle="numpy, expert by expert")
    got = torch.cat([out[rank] for rank in layer.fabric.ranks])
    tokens = as_sent(layer.whole, p.dispatch_format)
    seats = torch.from_numpy(want_kept).to(got.device)
    one = sparse_forward(tokens, routing.experts, routing.gates, layer.experts, kept=seats, path="slices")
    layer.story.error = _distance(got, one)
    rec.check("output, largest difference", layer.story.error, 0.0, TOLERANCE, "the sparse layer on one device, all tokens and experts")
    sample = evenly(len(got), max(1, int(_DENSE_FLOP / (6.0 * p.experts * job.hidden * job.ffn))))
    gates = np.zeros((len(sample), p.experts))
    exact = expected_gates("mixtral", numpy(limited)[sample], numpy(routing.experts)[sample])
    np.put_along_axis(gates, numpy(routing.experts)[sample], exact * want_kept[sample], axis=1)
    dense = dense_mixture(tokens[sample], torch.from_numpy(gates).to(got.device), layer.experts)
    oracle = f"all experts on each token by einsum, {len(sample):,} of {len(got):,} tokens"
    rec.check("output of a sample, largest difference", _distance(got[sample], dense), 0.0, TOLERANCE, oracle)


def counts(rec: Recorder, layer: Layer) -> None:
    """Copies and bytes counted again token by token, and how many ranks a token needs."""
    p, job, story = layer.job.params, layer.job, layer.story
    experts = np.concatenate([numpy(layer.routing[rank].experts) for rank in layer.fabric.ranks])
    kept = np.concatenate([numpy(layer.kept[rank]) for rank in layer.fabric.ranks])
    home = np.repeat(np.arange(p.ranks), layer.sizes)
    sent, crossing = _copies(layer, experts, kept, home)
    oracle = "sets of ranks, token by token"
    rec.check("dispatch bytes", story.totals["dispatch"], sent * job.dispatch_copy, oracle=oracle)
    rec.check("combine bytes", story.totals["combine"], sent * job.combine_copy, oracle=oracle)
    rec.check("dispatch bytes between nodes", story.between["dispatch"], crossing * job.dispatch_copy, oracle=oracle)
    slots = 1 if p.copies == "expert" else p.top_k
    wire = sent * 8 * (job.hidden + 2 * slots) + sent * 8 * job.hidden
    if p.capacity_factor and p.capacity == "global":
        wire += p.ranks * (p.ranks - 1) * p.top_k * p.experts * 8
    total = sum(traffic.bytes_sent for traffic in layer.fabric.traffic.values())
    rec.check("bytes on the wire of the small tensors", total, wire, oracle=f"{oracle}; counts gathered for the capacity")
    rows = np.bincount(experts[kept] // job.per_rank, minlength=p.ranks)
    rec.check(
        "rows computed by the wrong rank or not at all", int(np.abs(story.rows - rows).sum()), 0, oracle="numpy bincount of kept choices"
    )
    if p.node_limit:
        nodes = max(len(set(row.tolist())) for row in experts // (job.per_rank * job.node_size))
        rec.check(
            "most nodes of a token", nodes, f"at most {p.node_limit}", oracle="sets of nodes, token by token", ok=nodes <= p.node_limit
        )
    if not p.skew and not p.node_limit and kept.all():
        want = expected_distinct(p.experts, p.top_k, p.ranks)
        got = float(np.mean([len(set(row.tolist())) for row in experts // job.per_rank]))
        room = _SIGMAS * distinct_deviation(p.experts, p.top_k, p.ranks) / len(experts) ** 0.5 + 1e-9
        rec.check("distinct ranks of a token, mean", got, want, room, "closed form for a uniform router, six standard deviations")


def _kept(layer: Layer, experts: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """Who keeps a seat, decided again by numpy: over all tokens, or over each rank's own."""
    p = layer.job.params
    if not p.capacity_factor:
        return np.ones(experts.shape, dtype=bool)
    parts = [len(experts)] if p.capacity == "global" else layer.sizes
    kept, start = [], 0
    for size in parts:
        mine = slice(start, start + size)
        seats = expert_capacity(p.capacity_factor, size, p.top_k, p.experts)
        kept.append(expected_kept(experts[mine], gates[mine], p.experts, seats, "choice"))
        start += size
    return np.concatenate(kept)


def _copies(layer: Layer, experts: np.ndarray, kept: np.ndarray, home: np.ndarray) -> tuple[int, int]:
    """Copies that leave their rank, and those that leave their node, one token at a time."""
    job, size = layer.job, layer.job.node_size
    sent = crossing = 0
    for row, mask, source in zip(experts.tolist(), kept.tolist(), home.tolist(), strict=True):
        owners = [expert // job.per_rank for expert, keep in zip(row, mask, strict=True) if keep]
        hops: list[tuple[int, int]]
        if job.params.copies == "expert":
            hops = [(source, owner) for owner in owners]
        elif job.params.copies == "rank":
            hops = [(source, owner) for owner in set(owners)]
        else:
            stops = {owner // size: owner // size * size + source % size for owner in owners}
            hops = [(source, stop) for stop in stops.values()] + [(stops[owner // size], owner) for owner in set(owners)]
        sent += sum(a != b for a, b in hops)
        crossing += sum(a // size != b // size for a, b in hops)
    return sent, crossing


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Largest absolute difference; infinite when anything is NaN."""
    return float((got - want).abs().nan_to_num(nan=float("inf")).max()) if len(want) else 0.0
