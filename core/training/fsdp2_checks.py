"""What every fsdp2 run is held against: unsharded training, fp64 autograd, torch.chunk, live storages and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from core.fabric.ring import wire_share
from core.recording import Recorder
from core.training.fsdp2_memory import PARTS
from core.training.fsdp2_setup import Job
from core.training.fsdp2_shards import Group
from core.training.fsdp2_twin import Flat, Trajectory, exact_gradient, flatten, unsharded
from core.training.mlp import Batch, largest_error

if TYPE_CHECKING:
    from core.training.fsdp2 import Training

ShardsOf = Callable[[Group, int], Mapping[str, Tensor]]
Whole = Mapping[str, Mapping[str, Tensor]]
CONVENTION = {
    "adamw": "16 bytes a parameter, all sharded: fp32 parameter 4 + fp32 gradient 4 + m 4 + v 4; the gathered copy is transient",
    "sgd": "8 bytes a parameter, all sharded: fp32 parameter 4 + fp32 gradient 4; the gathered copy is transient",
}
TWIN = "the same training on whole tensors: whole-model autograd, one torch.optim optimizer, no sharding"
EQUAL = 1e-6
"""Room for a device whose fp32 kernels round differently for different shapes; a CPU gives zero."""
AUTOGRAD = {"bf16": 0.1, "fp32": 1e-4}
"""Room for computing in this dtype, as a share of a parameter's largest gradient."""


def against_unsharded(rec: Recorder, run: Training, start: Whole, steps: Sequence[Sequence[Batch]]) -> None:
    """Gradients of every step, second moments and parameters equal those of unsharded training; nothing read what was freed."""
    _compare(rec, run, unsharded(run.job, flatten(start), steps), "")
    assert run.gradients is not None
    dtype = run.job.params.param_dtype
    error, name = largest_error(flatten(run.gradients[0]), exact_gradient(run.job, flatten(start), steps[0]))
    oracle = f"autograd in fp64 over the whole batch at once, in units of the parameter's largest; worst: {name}"
    rec.check("averaged gradients of the first step against fp64", error, 0.0, AUTOGRAD[dtype], oracle)
    rec.check("NaN or infinite elements anywhere, though all that was freed became NaN", run.memory.not_finite(), 0, 0.0, "torch.isfinite")


def same_with_sgd(rec: Recorder, run: Training, start: Whole, steps: Sequence[Sequence[Batch]]) -> None:
    """One step with SGD: unlike AdamW its update shows a gradient of the wrong size."""
    _compare(rec, run, unsharded(run.job, flatten(start), steps), "with SGD, first step: ")


def _compare(rec: Recorder, run: Training, twin: Trajectory, prefix: str) -> None:
    assert run.gradients is not None
    errors = [largest_error(flatten(got), want) for got, want in zip(run.gradients, twin.gradients, strict=True)]
    error, name = max(errors)
    oracle = TWIN + ("; worst: {}" if error else "")
    rec.check(f"{prefix}averaged gradients of all steps, largest error", error, 0.0, EQUAL, oracle.format(name))
    held = flatten(run.put_together(lambda group, rank: run.shards[group.name, rank]))
    error, name = largest_error(held, twin.masters)
    rec.check(f"{prefix}fp32 parameters after all steps, largest error", error, 0.0, EQUAL, oracle.format(name))
    if twin.exp_avg_sq:
        error, name = largest_error(flatten(run.put_together(lambda group, rank: _squares(run, group, rank))), twin.exp_avg_sq)
        rec.check(f"{prefix}exp_avg_sq, largest error", error, 0.0, EQUAL, oracle.format(name))


def _squares(run: Training, group: Group, rank: int) -> Flat:
    state = run.optimizers[rank].state
    return {name: state[shard]["exp_avg_sq"] for name, shard in run.shards[group.name, rank].items()}


def shards_bytes_and_traffic(rec: Recorder, run: Training, start: Whole) -> None:
    """Shapes by torch.chunk, bytes by closed forms of the small model, collectives and messages by counting."""
    job, ranks = run.job, run.fabric.size
    wrong = sum(_chunked(start[group.name][name], ranks) != _held(run, group, name) for group in job.groups for name in group.shapes)
    rec.check("parameters whose shards have other shapes", wrong, 0, 0.0, "torch.chunk along dimension 0, empty where it gives fewer")
    walked = [run.memory.walked("sharded", rank) == run.memory.live["sharded"][rank] for rank in run.fabric.ranks]
    rec.check("ranks whose counted bytes are not those of live storages", walked.count(False), 0, 0.0, "storages counted one by one")
    each = 16 if job.params.optimizer == "adamw" else 8
    padded = sum(math.ceil(shape[0] / ranks) * math.prod(shape[1:]) for group in job.groups for shape in group.shapes.values())
    rec.check("sharded bytes of live storages", run.sharded_bytes, each * padded, 0.0, f"{each} bytes x rows of the fullest shard")
    left = sum(int(run.memory.live[part].max()) for part in PARTS if part != "sharded")
    rec.check("bytes of activations, gathered parameters and gradients after the last step", left, 0, 0.0, "all were transient")
    activations, room = _activations(job)
    oracle = "of each block input, norm and twice 4 hidden; of the head input and norm; plus norm statistics"
    rec.check("most activation bytes at once", int(run.memory.peak["activations"].max()), activations, room, oracle)
    oracle = "root + blocks whole at once + all-gather buffers at once"
    rec.check("most gathered bytes at once", int(run.memory.peak["gathered"].max()), _gathered(job), 0.0, oracle)
    _traffic(rec, run)


def _traffic(rec: Recorder, run: Training) -> None:
    p, job = run.job.params, run.job
    times, root = p.steps * p.accumulation, int(job.root is not None)
    gathers = times * (root + len(job.blocks) * (2 if p.reshard_after_forward else 1))
    reduces = times * (root + len(job.blocks))
    traffic = [run.fabric.traffic[rank] for rank in run.fabric.ranks]
    rec.check("all-gathers", traffic[0].calls["all_gather"], gathers, 0.0, "root once, every other group twice unless it stays whole")
    rec.check("reduce-scatters", traffic[0].calls["reduce_scatter"], reduces, 0.0, "every group once a micro-batch")
    share, width = wire_share(run.fabric.size), job.dtype.itemsize
    whole = {group.name: group.shard * group.ranks for group in job.groups}
    twice = 2 if p.reshard_after_forward else 1
    gathered = sum(size * (1 if job.root and name == job.root.name else twice) for name, size in whole.items())
    sent = times * share * (gathered * width + sum(whole.values()) * 4)
    rec.check("bytes on the wire, counted hop by hop", max(t.bytes_sent for t in traffic), sent, 0.5, "(n - 1) / n of every buffer")


def _chunked(whole: Tensor, ranks: int) -> list[tuple[int, ...]]:
    shapes = [tuple(part.shape) for part in torch.chunk(whole, ranks)]
    return shapes + [(0, *whole.shape[1:])] * (ranks - len(shapes))


def _held(run: Training, group: Group, name: str) -> list[tuple[int, ...]]:
    return [tuple(run.shards[group.name, rank][name].shape) for rank in run.fabric.ranks]


def _activations(job: Job) -> tuple[int, int]:
    """Bytes that autograd must keep at the end of forward, and room for each norm's mean and deviation (up to fp32)."""
    p = job.params
    rows, norms = p.batch * job.dtype.itemsize, len(job.blocks) + int(job.root is not None)
    return rows * p.hidden * (10 * len(job.blocks) + (2 if job.root else 0)), norms * 2 * 4 * p.batch


def _gathered(job: Job) -> int:
    """Most bytes of whole parameters and buffers: with prefetch the last buffer used, and the next on its way, add to those in use."""
    p, layers = job.params, len(job.blocks)
    width = job.dtype.itemsize * p.ranks
    block = job.blocks[0].shard * width
    root = job.root.shard * width if job.root else 0
    in_use = 1 if p.reshard_after_forward else layers
    if not p.prefetch:
        return max(2 * root, root + (in_use + 1) * block)
    buffers = 2 if layers > 1 and p.reshard_after_forward else 1
    return max(2 * root + block, root + (in_use + buffers) * block)
