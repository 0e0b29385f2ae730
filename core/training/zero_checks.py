"""What every ZeRO run is held against: unsharded training, autograd, live storages, and the published formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from core.recording import Recorder
from core.training import zero_bytes
from core.training.zero_memory import GROUPS
from core.training.zero_model import Batch, autograd_gradient
from core.training.zero_twin import BF16_ROUNDING, LEARNING_RATE, Trajectory, unsharded

if TYPE_CHECKING:
    from core.training.zero import Training

TWIN = "the same training on whole tensors: one process, one torch.optim optimizer, no sharding"


def against_unsharded(rec: Recorder, run: Training, start: Sequence[torch.Tensor], groups: Sequence[Sequence[Batch]]) -> None:
    """Gradients, optimizer states and parameters after all steps equal those of unsharded training."""
    twin = _twin(run, start, groups)
    _compare(rec, run, twin, "")
    error = _gradient_error(run, start, groups[0], twin)
    oracle = "PyTorch autograd in fp64 over the whole batch at once; 1 is the largest error that BF16 rounding allows"
    rec.check("averaged gradient against autograd, in units of the rounding bound", error, "at most 1", 1.0, oracle, ok=error <= 1)
    rec.check(
        "NaN or infinite elements anywhere, though all that was dropped became NaN", run.memory.not_finite(), 0, 0.0, "torch.isfinite"
    )


def same_with_sgd(rec: Recorder, run: Training, start: Sequence[torch.Tensor], groups: Sequence[Sequence[Batch]]) -> None:
    """One step with SGD: unlike AdamW its update shows a gradient of the wrong size."""
    _compare(rec, run, _twin(run, start, groups), "with SGD, first step: ")


def bytes_and_traffic(rec: Recorder, run: Training) -> None:
    """Live storages and counted messages of the small model give the formulas with its own Psi."""
    p, small = run.job.params, run.job.small
    states = zero_bytes.model_states(small, p.stage, p.ranks, p.optimizer)
    for group, want in zip(GROUPS, states, strict=True):
        got = max(run.storages[rank][group] for rank in run.fabric.ranks)
        rec.check(f"{group} bytes of live storages", got, want, 0.5, "formula with the small model's Psi")
    peak = sum(states) + zero_bytes.transient(small, p.stage, p.ranks, p.layers, p.accumulation)
    rec.check("largest bytes held at any moment", int(run.memory.peak.max()), peak, 0.5, "formula with the small model's Psi")
    traffic = [run.fabric.traffic[rank] for rank in run.fabric.ranks]
    elements = p.steps * zero_bytes.comm_elements(small, p.stage, p.accumulation)
    rec.check("elements handed to collectives", max(t.elements for t in traffic), elements, 0.0, "formula x optimizer steps")
    sent = p.steps * zero_bytes.wire_bytes(small, p.stage, p.ranks, p.accumulation)
    rec.check("bytes on the wire, counted hop by hop", max(t.bytes_sent for t in traffic), sent, 0.5, "formula x optimizer steps")
    calls = {name: count * p.steps for name, count in zero_bytes.collectives(p.stage, p.layers, p.accumulation).items()}
    rec.check("collectives", sum(traffic[0].calls.values()), sum(calls.values()), 0.0, "formula", ok=dict(traffic[0].calls) == calls)


def _twin(run: Training, start: Sequence[torch.Tensor], groups: Sequence[Sequence[Batch]]) -> Trajectory:
    return unsharded(start, groups, run.layout, run.job.params.optimizer, average_each=run.stage >= 2, device=run.rec.device)


def _compare(rec: Recorder, run: Training, twin: Trajectory, prefix: str) -> None:
    """Exact on a CPU (same sums in the same order); the tolerance leaves room for one BF16 rounding of a gradient."""
    assert run.gradients is not None
    gradients, wanted = torch.stack(run.gradients).double(), torch.stack(twin.gradients).double()
    largest = float(wanted.abs().max())
    name = f"{prefix}averaged gradients of all steps, largest difference"
    rec.check(name, _distance(gradients, wanted), 0.0, BF16_ROUNDING * largest, TWIN)
    update = LEARNING_RATE[run.job.params.optimizer] * (largest if run.job.params.optimizer == "sgd" else 1.0)
    tolerance = len(twin.gradients) * update * 2 * BF16_ROUNDING
    if twin.exp_avg_sq is not None:
        squares = torch.stack([run.whole("exp_avg_sq", layer) for layer in run.layers])
        room = 2 * BF16_ROUNDING * float(twin.exp_avg_sq.max())
        rec.check(f"{prefix}exp_avg_sq, largest difference", _distance(squares, twin.exp_avg_sq), 0.0, room, TWIN)
    master = torch.stack([run.whole("master", layer) for layer in run.layers])
    rec.check(f"{prefix}fp32 parameters after all steps, largest difference", _distance(master, twin.master), 0.0, tolerance, TWIN)
    room = tolerance + BF16_ROUNDING * float(twin.weights.abs().max())
    worst = max(_distance(held, twin.weights[layer, at]) for layer in run.layers for at, held in _copies(run, layer))
    rec.check(f"{prefix}BF16 parameters on every rank, largest difference", worst, 0.0, room, TWIN)


def _copies(run: Training, layer: int) -> list[tuple[slice, torch.Tensor]]:
    """Every rank's BF16 parameters of ``layer`` and where they stand in it."""
    everything = slice(0, run.layout.padded)
    return [(run.owned(rank) if run.is_shard(t) else everything, t) for rank, t in run.memory.of("weights", layer).items()]


def _gradient_error(run: Training, start: Sequence[torch.Tensor], group: Sequence[Batch], twin: Trajectory) -> float:
    """First step's averaged gradient minus the exact one, element by element in units of what roundings can do.

    Every gradient is rounded to BF16 once, every addition rounds its partial sum, the division once more; fp32 matmuls add
    1e-5 of the layer's largest element.
    """
    assert run.gradients is not None
    exact = autograd_gradient([flat.to(torch.bfloat16) for flat in start], group, run.layout)
    roundings = run.layout.ranks + 1 + 2 * len(group)
    bound = roundings * BF16_ROUNDING * twin.magnitude.double() + 1e-5 * exact.abs().amax(1, keepdim=True)
    return float(((run.gradients[0].double() - exact).abs() / bound).nan_to_num(nan=float("inf")).max())


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Largest absolute difference; infinite when anything is NaN."""
    return float((got.double() - want.double()).abs().nan_to_num(nan=float("inf")).max())
