"""What a cut layer is held against: the whole layer under autograd in fp64, and calls and bytes by formula."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch

from core.recording import Recorder
from core.training import megatron_bytes
from core.training.megatron_layer import WHOLE, shard
from core.training.megatron_twin import Dense, dense

if TYPE_CHECKING:
    from core.training.tensor_parallel_layer import TensorParallel

TOLERANCE = 1e-12
"""Of fp64 sums in another order, as a share of the largest value."""
WRONG = 1e-3
"""What is wrong by design is off by more than this share of the largest value."""
TWIN = "the whole layer on one rank, PyTorch autograd in fp64"
LAYER_SECTIONS = ("forward", "backward", "regather")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")
MISTAKE = "the whole layer on one rank with the same mistake, PyTorch autograd in fp64"


def against_dense(rec: Recorder, run: TensorParallel, want: Dense) -> None:
    """Output, loss and all gradients equal the whole layer's; with GeLU before the sum they equal that mistake, and not the layer."""
    mistaken = run.layout == "row_first"
    same, oracle = (dense(run.problem, gelu_before_sum=True), MISTAKE) if mistaken else (want, TWIN)
    for name, error in differences(run, same).items():
        rec.check(f"{name}, largest difference / largest value", error, 0.0, TOLERANCE, oracle)
    error = max(value for name, value in differences(run, want).items() if name != "loss")
    rec.fact("max_error", error, note="output and all gradients against the dense layer, as a share of the largest value")
    if mistaken and run.ranks > 1:
        off = differences(run, want)["output"]
        name = "GeLU before the sum: output off, as a share of the largest value"
        rec.check(name, off, f"more than {WRONG}", WRONG, TWIN, ok=off > WRONG)


def differences(run: TensorParallel, want: Dense) -> dict[str, float]:
    """Largest difference of every rank's part from the same part of the whole, as a share of the whole's largest value."""
    found = {
        "output": max(_off(y, run.tokens_of(want.output, rank), want.output) for rank, y in run.output.items()),
        "loss": max(abs(float(loss) - want.loss) for loss in run.loss.values()),
        "gradient of the input": max(_off(g, run.tokens_of(want.x_gradient, rank), want.x_gradient) for rank, g in run.x_gradient.items()),
    }
    groups: dict[str, list[float]] = {"gradients of cut weights": [], "gradients of norms and row biases": []}
    for rank, tape in run.tapes.items():
        for name, whole in want.gradients.items():
            cut = run.cuts[name]
            group = "gradients of norms and row biases" if cut is WHOLE or whole.dim() == 1 else "gradients of cut weights"
            groups[group].append(_off(tape.gradients.get(name), shard(whole, cut, rank, run.ranks), whole))
    return found | {group: max(errors) for group, errors in groups.items()}


def traffic(rec: Recorder, run: TensorParallel, in_bf16: TensorParallel) -> None:
    """Calls and bytes of the layer, counted, against the formula; the loss and gradients of shared parameters apart."""
    layer_sent = sum(in_bf16.sent[section] for section in LAYER_SECTIONS)
    rec.fact("comm_bytes", layer_sent, "bytes", note="sent by each rank on the ring, one layer forward and backward, BF16")
    loss_sent = sum(size for section, size in in_bf16.sent.items() if section.startswith("loss"))
    rec.fact("comm_bytes", loss_sent, "bytes", note="sums of exponentials in fp32, the rest in BF16", label="loss")
    if run.shared_gradients():
        note = "sent by each rank to add up gradients of parameters that are whole everywhere"
        rec.fact("comm_bytes", in_bf16.sent["parameters"], "bytes", note=note, label="gradients")
    want = megatron_bytes.calls(run.layout, run.ranks)
    for section in ("forward", "backward"):
        counted = run.calls.get(section, Counter())
        if section == "backward":
            counted = counted + run.calls.get("regather", Counter())
        for operation in OPERATIONS:
            if counted[operation] or operation == "all_reduce":
                rec.fact(f"{operation}s_{section}", counted[operation], "count", note="one layer")
        loss_calls = run.calls.get(f"loss {section}", Counter())["all_reduce"]
        rec.fact(f"all_reduces_{section}", loss_calls, "count", note="vocabulary-parallel cross-entropy", label="loss")
        oracle = "Megatron's count: " + (", ".join(f"{count} {name}" for name, count in want[section].items()) or "none on one rank")
        rec.check(f"collectives {section}", counted.total(), want[section].total(), oracle=oracle, ok=counted == want[section])
    oracle = "all-reduce 2(t-1)/t, all-gather and reduce-scatter (t-1)/t of an array"
    formula = megatron_bytes.wire_bytes(run.shape, run.layout)
    rec.check("bytes sent in BF16, counted hop by hop", layer_sent, formula, 0.5, oracle)
    waited = float(run.fabric.clocks.waited.max())
    size = f"a layer {run.job.magnify} times as wide and as long" if run.job.magnify > 1 else "this layer"
    note = f"of {size}, with its loss; {run.job.device.name}, {run.job.link.name}"
    rec.fact("step_time", run.fabric.now(), "s", note=note)
    rec.fact("exposed_comm_time", waited, "s", note="compute waits for communication, the slowest rank")
    rec.fact("exposed_comm_share", waited / run.fabric.now(), "%", note="exposed_comm_time of step_time")


def _off(got: torch.Tensor | None, want: torch.Tensor, whole: torch.Tensor) -> float:
    """Largest difference as a share of the whole's largest value; infinite where anything is missing or NaN."""
    if got is None or got.shape != want.shape:
        return float("inf")
    scale = float(whole.abs().max()) or 1.0
    return float((got - want).abs().nan_to_num(nan=float("inf")).max()) / scale if got.numel() else 0.0
