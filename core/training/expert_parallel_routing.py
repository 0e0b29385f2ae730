"""Who goes where: a skewed router, the nodes a token may use, seats under a capacity, and which copies are sent.

Every function works on the tokens of one rank; what it must know of others is gathered through the fabric.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from core.fabric.base import Fabric
from core.moe.routers import Routing, expert_capacity, seat


def skewed_logits(tokens: int, experts: int, skew: float, generator: torch.Generator) -> Tensor:
    """Router logits (tokens, experts) in fp64: Gumbel noise plus ln of the weight (expert + 1)^-skew.

    Their top k is a draw of k experts without replacement by these weights (Plackett-Luce): uniform at skew 0.
    """
    uniform = torch.rand(tokens, experts, generator=generator, dtype=torch.float64).clamp_(1e-300, 1 - 1e-16)
    weight = -skew * torch.log(torch.arange(1, experts + 1, dtype=torch.float64))
    return weight - torch.log(-torch.log(uniform))


def node_limited(logits: Tensor, top_k: int, nodes: int, limit: int) -> Tensor:
    """Logits with -inf outside the ``limit`` nodes that suit a token best (DeepSeek-V3, arXiv 2412.19437).

    A node's score is the sum of the token's top_k / limit highest affinities (softmax probabilities) among its experts.
    """
    if not limit or limit >= nodes:
        return logits
    by_node = torch.softmax(logits, -1).view(len(logits), nodes, -1)
    highest = min(max(top_k // limit, 1), by_node.shape[2])
    scores = by_node.topk(highest, dim=-1).values.sum(-1)
    allowed = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, scores.topk(limit, dim=-1).indices, value=True)
    return logits.masked_fill(~allowed.repeat_interleave(by_node.shape[2], dim=1), -torch.inf)


def seats_of_rank(routing: Routing, factor: float) -> Tensor:
    """kept (tokens, top_k): every rank has a share of an expert's seats, C = ceil(factor x own tokens x k / E); nothing is exchanged."""
    tokens, top_k = routing.experts.shape
    return seat(routing, expert_capacity(factor, tokens, top_k, routing.probabilities.shape[1]), "choice").kept


def seats_for_all(fabric: Fabric, routings: dict[int, Routing], factor: float, tokens: int) -> dict[int, Tensor]:
    """kept (tokens, top_k) by rank when an expert's seats are for the tokens of all ranks, C = ceil(factor x tokens x k / E).

    All first choices by token, then all second choices (GShard, arXiv 2006.16668): a rank must know how many of the others'
    come before its own, so the counts by choice and expert are gathered.
    """
    own = {}
    for rank, routing in routings.items():
        experts = routing.probabilities.shape[1]
        own[rank] = torch.stack([torch.bincount(choice, minlength=experts) for choice in routing.experts.T])
    top_k, experts = next(iter(own.values())).shape
    gathered = fabric.all_gather({rank: counts.flatten() for rank, counts in own.items()}).wait()
    capacity = expert_capacity(factor, tokens, top_k, experts)
    assert capacity is not None
    kept = {}
    for rank, routing in routings.items():
        counts = gathered[rank].view(fabric.size, top_k, experts)
        earlier_choices = counts.sum(0).cumsum(0) - counts.sum(0)
        before = earlier_choices + counts[:rank].sum(0)
        places = [before[slot, choice] + _place(choice) for slot, choice in enumerate(routing.experts.T)]
        kept[rank] = torch.stack(places, 1) < capacity
    return kept


def _place(chosen: Tensor) -> Tensor:
    """How many earlier entries of ``chosen`` (tokens,) are the same, for each entry."""
    order = torch.argsort(chosen, stable=True)
    counts = torch.bincount(chosen)
    first = (torch.cumsum(counts, 0) - counts)[chosen[order]]
    place = torch.empty_like(chosen)
    place[order] = torch.arange(len(chosen), device=chosen.device) - first
    return place


class Rows(NamedTuple):
    """Vectors (rows, hidden), and for each the experts (rows, slots) it is for with their gates; an empty slot holds expert -1."""

    x: Tensor
    experts: Tensor
    gates: Tensor

    def packed(self) -> Tensor:
        """One message: (rows, hidden + 2 slots)."""
        return torch.cat([self.x, self.experts.to(self.x.dtype), self.gates], dim=1)

    @classmethod
    def unpacked(cls, message: Tensor, hidden: int) -> Rows:
        slots = (message.shape[1] - hidden) // 2
        x, experts, gates = torch.split(message, [hidden, slots, slots], dim=1)
        return cls(x, experts.to(torch.int64), gates)


class Sent(NamedTuple):
    """The copies that one rank sends: of which row, how many to each rank, and what each is for (sorted by target)."""

    row: Tensor
    counts: list[int]
    rows: Rows


def one_per_expert(rows: Rows, target: Tensor, ranks: int) -> Sent:
    """A copy for every filled slot. target: (rows, slots), the rank that each slot goes to."""
    row, slot = (rows.experts >= 0).nonzero(as_tuple=True)
    order = torch.argsort(target[row, slot], stable=True)
    row, slot = row[order], slot[order]
    counts = torch.bincount(target[row, slot], minlength=ranks).tolist()
    return Sent(row, counts, Rows(rows.x[row], rows.experts[row, slot].unsqueeze(1), rows.gates[row, slot].unsqueeze(1)))


def one_per_target(rows: Rows, target: Tensor, ranks: int) -> Sent:
    """One copy for all slots of a row that go to the same rank; it says which experts it is for."""
    used = torch.zeros(len(rows.x), ranks + 1, dtype=torch.bool, device=target.device)
    used.scatter_(1, torch.where(rows.experts >= 0, target, ranks), value=True)
    to, row = used[:, :ranks].T.nonzero(as_tuple=True)
    mine = (target[row] == to.unsqueeze(1)) & (rows.experts[row] >= 0)
    copies = Rows(rows.x[row], torch.where(mine, rows.experts[row], -1), torch.where(mine, rows.gates[row], 0.0))
    return Sent(row, torch.bincount(to, minlength=ranks).tolist(), copies)
