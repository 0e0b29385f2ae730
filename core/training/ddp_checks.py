"""What every DDP run is held against: one process on the whole batch, torch's own bucketing, and the alpha-beta formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed

from core.recording import Recorder
from core.training import mlp
from core.training.ddp_setup import LEARNING_RATE, of_layer
from core.training.ddp_timing import GRADIENT, by_formula, time_iteration
from core.training.mlp import Batch

if TYPE_CHECKING:
    from core.training.ddp import Training

ONE_PROCESS = "one process, the whole batch at once, whole-model autograd in fp64"
FP32 = 1e-4
"""Room for fp32 sums in another order, as a share of a parameter's largest gradient."""


def against_one_process(rec: Recorder, run: Training, start: dict[str, Tensor], batches: Sequence[Batch]) -> None:
    """Averaged gradients of every iteration, parameter by parameter, and the parameters at the end; all ranks hold the same."""
    leaves = {name: value.double().requires_grad_() for name, value in start.items()}
    assert run.gradients is not None
    worst, where = 0.0, ""
    for got, batch in zip(run.gradients, batches, strict=True):
        rec.progress(0.85)
        x = batch.x.flatten(0, 1).double()
        for layer in range(run.job.params.layers):
            x = mlp.block(of_layer(leaves, layer), x)
        loss = mlp.loss_of(x, batch.target.flatten(0, 1).double())
        exact = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        error, name = mlp.largest_error(got, exact)
        if error >= worst:
            worst, where = error, name
        with torch.no_grad():
            for name, leaf in leaves.items():
                leaf -= LEARNING_RATE * exact[name]
    oracle = f"{ONE_PROCESS}; worst of every parameter and iteration: {where}"
    rec.check("averaged gradients, largest error in units of the parameter's largest", worst, 0.0, FP32, oracle)
    first = run.values[run.fabric.ranks[0]]
    error, name = mlp.largest_error({n: v.detach() for n, v in first.items()}, {n: v.detach() for n, v in leaves.items()})
    rec.check("parameters after all iterations, largest error", error, 0.0, FP32, f"{ONE_PROCESS}; worst: {name}")
    others = [run.values[rank] for rank in run.fabric.ranks[1:]]
    unequal = sum(not torch.equal(mine[name], first[name]) for mine in others for name in first)
    rec.check("parameters on any rank that differ from rank 0's", unequal, 0, 0.0, "bit for bit")


def buckets_and_time(rec: Recorder, run: Training) -> None:
    """Bucket membership by torch's own code, times by a formula without clocks, messages by formula."""
    want = run.expected_order
    strangers = sum(order != want for order in run.order.values())
    rec.check("ranks whose gradients became ready in another order", strangers, 0, 0.0, "whole-model autograd, hooks on every parameter")
    rec.check("buckets in iteration 0", len(run.membership[0]), 1, 0.0, "torch DDP: one bucket until the order is known")
    if len(run.membership) > 1 and distributed.is_available():
        buckets = torch_buckets(run, want)
        same = all(membership == buckets for membership in run.membership[1:])
        got = _written(run.membership[-1])
        rec.check("bucket membership after the rebuild", got, _written(buckets), 0.0, "torch's own reducer.cpp", ok=same)
    hops = 2 * (run.fabric.size - 1) * len(run.membership[-1])  # on each, one chunk may be an element longer than another
    for number, (timed, membership) in enumerate(zip(run.times, run.membership, strict=True)):
        exposed, step = by_formula(run.plan, membership)
        room = 1e-9 * step + hops * GRADIENT / run.plan.link.bandwidth
        oracle = "end = max(end before, ready) + 2 (n - 1) (alpha + chunk / bandwidth)"
        rec.check(f"exposed communication of iteration {number}", timed.exposed, exposed, room, oracle)
        rec.check(f"step time of iteration {number}", timed.step_time, step, room, oracle)
        alone = time_iteration(run.plan, membership)
        oracle = "the same iteration on clocks without tensors, as in the sweep"
        rec.check(f"exposed communication of iteration {number} without tensors", timed.exposed, alone.exposed, room, oracle)
        rec.check(f"all-reduces of iteration {number}", run.calls[number], len(membership), 0.0, "one for each bucket")
    sent = sum(run.fabric.traffic[rank].bytes_sent - run.order_bytes[rank] for rank in run.fabric.ranks)
    ranks, iterations = run.fabric.size, len(run.times)
    total = iterations * 2 * (ranks - 1) * sum(run.plan.sizes)
    rec.check("bytes on the wire in all-reduces, all ranks together", sent, total, 0.0, "2 (n - 1) x gradient bytes x iterations")


def torch_buckets(run: Training, order: Sequence[int]) -> list[list[int]]:
    """What torch's DDP would put together: its own C++ function on tensors of these sizes in this order."""
    tensors = [torch.empty(run.plan.elements[index], device="meta") for index in order]
    torchs = distributed._compute_bucket_assignment_by_size  # type: ignore[attr-defined]
    found, _ = torchs(tensors, list(run.job.limits), [False] * len(tensors), list(order))
    return [list(bucket) for bucket in found]


def _written(buckets: Sequence[Sequence[int]]) -> str:
    text = " | ".join(",".join(map(str, bucket)) for bucket in buckets)
    return text if len(text) <= 200 else text[:199] + "…"
