"""The same training without sharding: whole parameters, whole-model autograd, one optimizer. What fsdp2 must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.training import mlp
from core.training.fsdp2_setup import Job
from core.training.mlp import Batch
from core.training.zero_twin import make_optimizer, ring_average

Flat = dict[str, Tensor]
"""Parameters by ``"block 0.up.weight"``."""


def flatten(whole: Mapping[str, Mapping[str, Tensor]]) -> Flat:
    """Names joined: group and parameter."""
    return {f"{group}.{name}": value for group, values in whole.items() for name, value in values.items()}


def output(job: Job, values: Flat, x: Tensor) -> Tensor:
    """The whole model: (tokens, hidden) to (tokens, outputs)."""
    for group in job.blocks:
        x = mlp.block({name: values[f"{group.name}.{name}"] for name in group.shapes}, x)
    if job.root:
        x = mlp.head({name: values[f"{job.root.name}.{name}"] for name in job.root.shapes}, x)
    return x


@dataclass(frozen=True)
class Trajectory:
    """Averaged gradients of every step, and the masters and second moments after the last."""

    gradients: list[Flat]
    masters: Flat
    exp_avg_sq: Flat


def unsharded(job: Job, start: Flat, steps: Sequence[Sequence[Batch]]) -> Trajectory:
    """Train whole fp32 masters; each rank's gradient comes from a copy in the compute dtype, the average is made in fp32."""
    masters = {name: value.clone() for name, value in start.items()}
    optimizer = make_optimizer(job.params.optimizer, list(masters.values()))
    gradients = []
    for group in steps:
        total: Flat = {}
        for batch in group:
            leaves = {name: value.to(job.dtype).detach().clone().requires_grad_() for name, value in masters.items()}
            own: list[tuple[Tensor, ...]] = []
            for rank in range(job.params.ranks):
                y = output(job, leaves, batch.x[rank].to(job.dtype))
                loss = mlp.loss_of(y.float(), batch.target[rank], len(group))
                own.append(torch.autograd.grad(loss, list(leaves.values())))
            for at, name in enumerate(leaves):
                mean = _average([found[at].float() for found in own])
                total[name] = total[name].add_(mean) if name in total else mean
        gradients.append({name: value.clone() for name, value in total.items()})
        for name, master in masters.items():
            master.grad = total[name]
        optimizer.step()
        optimizer.zero_grad()
    squares = {name: optimizer.state[value]["exp_avg_sq"] for name, value in masters.items() if optimizer.state}
    return Trajectory(gradients, masters, squares)


def exact_gradient(job: Job, start: Flat, group: Sequence[Batch]) -> Flat:
    """The first step's gradient in fp64 over the whole batch at once, from the parameters as they are gathered."""
    leaves = {name: value.to(job.dtype).double().requires_grad_() for name, value in start.items()}
    total = torch.zeros((), dtype=torch.float64, device=next(iter(leaves.values())).device)
    for batch in group:
        y = output(job, leaves, batch.x.flatten(0, 1).to(job.dtype).double())
        total = total + mlp.loss_of(y, batch.target.flatten(0, 1).double(), len(group))
    return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))


def _average(own: Sequence[Tensor]) -> Tensor:
    """Mean over ranks in the ring's order: the rows that rank r owns add ranks r + 1, r + 2, ..., r."""
    ranks, rows = len(own), len(own[0])
    stacked = torch.stack(list(own))
    missing = -rows % ranks
    padded = torch.cat([stacked, stacked.new_zeros(ranks, missing, *stacked.shape[2:])], 1) if missing else stacked
    return ring_average(padded.reshape(ranks, -1)).view(-1, *stacked.shape[2:])[:rows]
