"""Expert parallelism: tokens live on ranks, experts live on ranks, and two all-to-alls bring them together (GShard, arXiv 2006.16668).

`Layer` is the algorithm. Its vectors are short and fp64; routing, copies, bytes and times are those of the full size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from core.fabric.base import Tensors
from core.fabric.ring import chunk_sizes
from core.fabric.simulated import SimulatedFabric
from core.moe.experts import Experts, sparse_forward
from core.moe.routers import Routing, route
from core.recording import Recorder
from core.simulation import simulation
from core.training import expert_parallel_checks as checks
from core.training.expert_parallel_routing import (
    Rows,
    Sent,
    node_limited,
    one_per_expert,
    one_per_target,
    seats_for_all,
    seats_of_rank,
    skewed_logits,
)
from core.training.expert_parallel_setup import FP8_BLOCK, ExpertParallelParams, Job, formula_facts
from core.training.expert_parallel_story import Story

FP8_LARGEST = 448.0
"""Of float8_e4m3fn."""


@simulation("expert_parallel")
def expert_parallel(params: ExpertParallelParams, rec: Recorder) -> None:
    """Where does a token go when its expert lives on another rank?"""
    job = Job.of(params)
    formula_facts(rec, job)
    layer = Layer(job, rec)
    out = layer.forward()
    checks.against_one_device(rec, layer, out)
    checks.counts(rec, layer)
    layer.story.end()


class Layer:
    """One MoE layer over the hosted ranks: route, seat, dispatch, experts, combine."""

    def __init__(self, job: Job, rec: Recorder) -> None:
        p = job.params
        self.job, self.rec = job, rec
        self.fabric = SimulatedFabric(p.ranks, job.link, inter_link=job.node_link, node_size=job.node_size)
        draw = rec.generator
        self.sizes = chunk_sizes(p.tokens, p.ranks)
        whole = torch.randn(p.tokens, job.hidden, generator=draw, dtype=torch.float64)
        logits = skewed_logits(p.tokens, p.experts, p.skew, draw)
        gate_up = torch.randn(p.experts, 2 * job.ffn, job.hidden, generator=draw, dtype=torch.float64) / job.hidden**0.5
        down = torch.randn(p.experts, job.hidden, job.ffn, generator=draw, dtype=torch.float64) / job.ffn**0.5
        self.whole, self.logits = whole.to(rec.device), logits.to(rec.device)
        self.experts = Experts(gate_up.to(rec.device), down.to(rec.device))
        self.tokens = self.local(self.whole)
        self.routing: dict[int, Routing] = {}
        self.kept: Tensors = {}
        self.story = Story(self)

    def local(self, whole: Tensor) -> Tensors:
        """The tokens of each hosted rank; as many on every rank, the first ranks one more where they do not divide."""
        parts = torch.split(whole, self.sizes)
        return {rank: parts[rank] for rank in self.fabric.ranks}

    def forward(self) -> Tensors:
        """Output (tokens, hidden) of every hosted rank."""
        p, ranks = self.job.params, self.fabric.ranks
        self.rec.phase("route")
        self.story.start()
        logits = self.local(self.logits)
        for rank in ranks:
            limited = node_limited(logits[rank], p.top_k, self.job.nodes, p.node_limit)
            self.routing[rank] = route("mixtral", limited, p.top_k)
            self.story.routed(rank)
        self.story.all_routed()
        self.kept = self.seat()

        self.rec.phase("dispatch")
        rows = {}
        for rank in ranks:
            chosen = torch.where(self.kept[rank], self.routing[rank].experts, -1)
            rows[rank] = Rows(as_sent(self.tokens[rank], p.dispatch_format), chosen, self.routing[rank].gates)
        if p.copies == "node":
            return self.through(rows, self.own_place_on_its_node, lambda there: self.through(there, self.owner, self.compute))
        return self.through(rows, self.owner, self.compute)

    def seat(self) -> Tensors:
        """Which choices are kept, (tokens, top_k) by rank."""
        factor = self.job.params.capacity_factor
        if not factor:
            return {rank: torch.ones_like(routing.experts, dtype=torch.bool) for rank, routing in self.routing.items()}
        self.rec.phase("capacity")
        if self.job.params.capacity == "rank":
            kept = {rank: seats_of_rank(routing, factor) for rank, routing in self.routing.items()}
        else:
            kept = seats_for_all(self.fabric, self.routing, factor, self.job.params.tokens)
        self.story.seated(kept)
        return kept

    def through(
        self, rows: dict[int, Rows], target: Callable[[int, Tensor], Tensor], inner: Callable[[dict[int, Rows]], Tensors]
    ) -> Tensors:
        """Send copies of ``rows`` where their experts are, let ``inner`` work there, and add up what comes back, (rows, hidden).

        ``target(rank, experts)`` is the rank that each slot goes to; a slot that is empty may go anywhere.
        """
        fabric, hidden = self.fabric, self.job.hidden
        copies = one_per_expert if self.job.params.copies == "expert" else one_per_target
        sent: dict[int, Sent] = {rank: copies(mine, target(rank, mine.experts.clamp(min=0)), fabric.size) for rank, mine in rows.items()}

        self.story.charge(self.job.dispatch_copy, next(iter(sent.values())).rows.packed().shape[1])
        began = fabric.now()
        work = fabric.all_to_all({rank: list(torch.split(mine.rows.packed(), mine.counts)) for rank, mine in sent.items()})
        self.story.dispatching(sent, began)
        got = work.wait()
        self.story.dispatched(sent)

        partial = inner({rank: Rows.unpacked(torch.cat(parts), hidden) for rank, parts in got.items()})

        self.story.charge(self.job.combine_copy, hidden)
        began = fabric.now()
        work = fabric.all_to_all({rank: list(torch.split(partial[rank], [len(part) for part in got[rank]])) for rank in fabric.ranks}, n=1)
        self.story.combining(sent, began)
        back = work.wait()
        self.story.combined(sent)
        return {rank: torch.zeros_like(rows[rank].x).index_add_(0, sent[rank].row, torch.cat(back[rank])) for rank in fabric.ranks}

    def compute(self, arrived: dict[int, Rows]) -> Tensors:
        """Every rank runs its own experts over the copies it got; a copy's outputs are weighted and summed where they are made."""
        outputs = {}
        for rank, rows in arrived.items():
            first = rank * self.job.per_rank
            mine = Experts(*(weights[first : first + self.job.per_rank] for weights in self.experts))
            kept = rows.experts >= 0
            local = (rows.experts - first).clamp(min=0)
            active = len(torch.unique(local[kept]))
            seconds = self.job.seconds(int(kept.sum()), active)
            start = self.fabric.compute(rank, seconds, "forward", "E{n}", rank)
            outputs[rank] = sparse_forward(rows.x, local, rows.gates, mine, kept=kept, path="slices")
            self.story.computed(rank, int(kept.sum()), active, start, seconds)
        self.story.all_computed()
        return outputs

    def owner(self, rank: int, experts: Tensor) -> Tensor:
        """The rank that has each expert."""
        return experts // self.job.per_rank

    def own_place_on_its_node(self, rank: int, experts: Tensor) -> Tensor:
        """On the node that has each expert, the rank that stands where ``rank`` stands on its own: it passes the token on."""
        size = self.job.node_size
        return self.owner(rank, experts) // size * size + rank % size


def as_sent(x: Tensor, form: str) -> Tensor:
    """The values that travel: as they are, or rounded to FP8 e4m3 with a scale for every block of 128 numbers."""
    if form != "fp8":
        return x
    blocks = torch.split(x, FP8_BLOCK, dim=1)
    scales = [block.abs().amax(1, keepdim=True).clamp(min=1e-30) / FP8_LARGEST for block in blocks]
    rounded = [(block / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale for block, scale in zip(blocks, scales, strict=True)]
    return torch.cat(rounded, 1)
