"""What a `recompute` run is compared with: plain autograd, torch's own checkpoints, FLOPs and bytes counted by torch, closed forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from core.recording import Recorder
from core.training import recompute_layer as model
from core.training.recompute_run import OUT, Action, Problem, Run
from core.training.recompute_setup import INPUT, LABELS, PROBABILITIES, Job

Layer = Callable[[Tensor], Tensor]


class Outcome(NamedTuple):
    """What torch alone makes of the same problem: all gradients, and the FLOPs it executed."""

    gradients: list[Tensor]
    flop: int


def record_checks(rec: Recorder, job: Job, work: Problem, run: Run, peak: int, step_time: float) -> None:
    """All checks of one run; ``peak`` and ``step_time`` are what it says of the layers that are shown."""
    mine = [run.input_gradient, *(run.gradients[k][name] for k, p in enumerate(work.parameters) for name in p)]
    plain, saved = saved_by_torch(job, work)
    rec.check("gradient elements that differ from the plain run", differing(mine, plain.gradients), 0, 0.0, "autograd, nothing recomputed")
    executed = run.executed_flop
    accounted = sum(action.small_flop for action in run.actions)
    rec.check("FLOPs executed by the small layers", accounted, executed, 0.0, "torch.utils.flop_counter, a dispatch mode")
    if job.params.method not in ("none", "offload"):
        oracle = by_torchs_checkpoint(job, work)
        rec.check("FLOPs of the same checkpoints in torch", executed, oracle.flop, 0.0, "torch.utils.checkpoint, non-reentrant")
        rec.check(
            "gradient elements that differ from torch's checkpoints", differing(mine, oracle.gradients), 0, 0.0, "torch.utils.checkpoint"
        )
    rec.check(
        "bytes autograd saves of the small layers",
        job.params.layers * job.small.layer_bytes,
        saved,
        0.0,
        "saved_tensors_hooks, unique storages",
    )
    wrong = sum(action.alive != action.ledger for action in run.actions)
    rec.check("moments at which the ledger and the live storages differ", wrong, 0, 0.0, "weak references to every storage ever saved")
    left = run.store.alive() + run.store.in_host()
    rec.check("bytes left after backward", left, 0, 0.0, "weak references, host store")
    if job.params.method in ("offload", "both"):
        shown = sum(action.bytes for action in run.actions if action.stream == OUT)
        labels = LABELS if job.params.method == "offload" else (INPUT,)
        want = (job.params.layers - 1) * sum(job.small.bytes(label) for label in labels)
        rec.check("bytes the small layers sent to the host", run.offload_bytes, want, 0.0, "layers that leave x tensors that leave")
        rec.check("bytes that come back", sum(a.bytes for a in run.actions if a.kind == "in"), shown, 0.0, "bytes sent")
    traced, flop = traced_on_meta(job)
    rec.check(
        "bytes autograd saves of a layer as large as shown", job.large.layer_bytes, traced, 0.0, "the same layer on the meta device, BF16"
    )
    rec.check("FLOPs of a layer as large as shown", job.large.forward_flop, flop, 0.0, "FlopCounterMode on the meta device")
    rec.check("peak bytes", peak, peak_by_formula(job, run.actions), 0.0, "closed form, or intervals on the device where copies overlap")
    expected = step_time_by_formula(job)
    rec.check("step time", step_time, expected, 1e-9 * expected, "recurrence over the layers, without streams")


def differing(got: list[Tensor], want: list[Tensor]) -> int:
    """How many elements are not equal bit for bit (NaN never is)."""
    return sum(int((one != other).sum()) for one, other in zip(got, want, strict=True))


def layers_of(job: Job, work: Problem, core: model.Core | None = None) -> list[Layer]:
    """The model as plain functions, unnamed and unsaved."""
    attend = core or partial(model.attention, mask=work.mask, mark=_unnamed)
    return [partial(_layer, p, heads=job.small.heads, core=attend) for p in work.parameters]


def saved_by_torch(job: Job, work: Problem) -> tuple[Outcome, int]:
    """Plain autograd over the whole model, and the bytes of distinct storages that it saves in the layers."""
    own = {t.untyped_storage().data_ptr() for p in work.parameters for t in p.values()}
    saved: dict[int, tuple[Tensor, int]] = {}

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in own:
            saved[place] = tensor.detach(), tensor.untyped_storage().nbytes()
        return tensor

    def forward(x: Tensor) -> Tensor:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            for layer in layers_of(job, work):
                x = layer(x)
        return x

    outcome = _train(work, forward)
    return outcome, sum(size for _, size in saved.values())


def by_torchs_checkpoint(job: Job, work: Problem) -> Outcome:
    """The same stretches under torch.utils.checkpoint."""
    attend = partial(model.attention, mask=work.mask, mark=_unnamed)

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mixed: Tensor = checkpoint(attend, q, k, v, use_reentrant=False)
        return mixed

    layers = layers_of(job, work, core if job.params.method == "selective" else None)

    def forward(x: Tensor) -> Tensor:
        done = 0
        for segment in job.segments:
            x = checkpoint(partial(_chain, layers[segment.start : segment.stop]), x, use_reentrant=False)
            done = segment.stop
        return _chain(layers[done:], x)

    return _train(work, forward)


def traced_on_meta(job: Job) -> tuple[int, int]:
    """(bytes saved, forward FLOPs) of one layer as large as shown: real torch operations on tensors without values."""
    shape = job.large
    p = {
        name: torch.empty(size, device="meta", dtype=torch.bfloat16, requires_grad=True)
        for name, size in model.parameter_shapes(shape).items()
    }
    own = {int(tensor.untyped_storage()._cdata) for tensor in p.values()}
    saved: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        if int(tensor.untyped_storage()._cdata) not in own:
            saved[int(tensor.untyped_storage()._cdata)] = tensor.detach()
        return tensor

    x = torch.empty(shape.batch, shape.sequence, shape.hidden, device="meta", dtype=torch.bfloat16, requires_grad=True)
    core = partial(model.attention, mask=model.causal(shape, "meta", torch.bfloat16), mark=_unnamed)
    with FlopCounterMode(display=False) as counted, saved_tensors_hooks(pack, lambda tensor: tensor):
        _layer(p, x, heads=shape.heads, core=core)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values()), counted.get_total_flops()


def peak_by_formula(job: Job, actions: list[Action]) -> int:
    """Peak of what waits for backward, in bytes.

    none L A; every_layer (L - 1) I + A; sqrt (n - 1) I + the last run's layers x A; selective L (A - P) + P, with A all that is saved
    of a layer, I its input, P its probabilities. With copies: the largest sum over intervals on the device.
    """
    layers, whole, first = job.params.layers, job.large.layer_bytes, job.large.bytes(INPUT)
    match job.params.method:
        case "none":
            return layers * whole
        case "every_layer":
            return (layers - 1) * first + whole
        case "sqrt":
            checkpointed = len(job.segments)
            return checkpointed * first + (layers - sum(map(len, job.segments))) * whole
        case "selective":
            return layers * whole - (layers - 1) * job.large.bytes(PROBABILITIES)
        case _:
            return _peak_of_intervals(job, actions)


def _peak_of_intervals(job: Job, actions: list[Action]) -> int:
    """A tensor is on the device from the moment it is computed to the end of its copy out, and from its copy in to its backward's end."""
    at = {(action.kind, action.layer): action for action in actions}
    shape, rate = job.large, job.seconds(1)
    intervals: list[tuple[float, float, int]] = []
    for layer in range(job.params.layers):
        last, leaves = at["backward", layer].end, ("out", layer) in at
        for label in LABELS:
            again = job.params.method == "both" and label != INPUT
            made = at["recompute" if again else "forward", layer]
            begin = min(made.start + shape.flop_before(label) * rate, made.end)
            intervals.append((begin, at["out", layer].end if leaves and not again else last, shape.bytes(label)))
            if leaves and not again:
                intervals.append((at["in", layer].start, last, shape.bytes(label)))
    return max(sum(size for begin, end, size in intervals if begin <= start < end) for start, _, _ in intervals)


def step_time_by_formula(job: Job) -> float:
    """Seconds of the step. Without copies the sum of all FLOPs; with them end by end, layer by layer:

    f[l] = max(f[l-1], o[l-w]) + F, o[l] = max(f[l], o[l-1]) + C, i[l] = max(i[l+1], o[l], b[l+w+1]) + C, b[l] = max(b[l+1], i[l]) + R + B,
    where w layers may be in flight, and b beyond the last layer is the end of the forward.
    """
    shape, layers, window = job.large, job.params.layers, job.params.in_flight
    forward, backward = job.seconds(shape.forward_flop), job.seconds(shape.backward_flop)
    stopped, scores = job.seconds(shape.stopped_flop), job.seconds(shape.scores_flop)
    runs = [len(segment) for segment in job.segments]
    again = scores * layers if job.params.method == "selective" else sum((n - 1) * forward + stopped for n in runs)
    if job.params.method not in ("offload", "both"):
        return layers * (forward + backward) + again
    labels = LABELS if job.params.method == "offload" else (INPUT,)
    copy = job.link.latency + sum(shape.bytes(label) for label in labels) / job.link.bandwidth
    f, o, i, b = ([0.0] * (layers + window + 2) for _ in range(4))
    for layer in range(layers):
        f[layer] = max(f[layer - 1] if layer else 0.0, o[layer - window] if layer >= window else 0.0) + forward
        if layer < layers - 1:
            o[layer] = max(f[layer], o[layer - 1] if layer else 0.0) + copy
    b[layers:] = [f[layers - 1]] * len(b[layers:])
    for layer in reversed(range(layers)):
        if layer < layers - 1:
            i[layer] = max(i[layer + 1], o[layer], b[layer + window + 1]) + copy
        b[layer] = max(b[layer + 1], i[layer]) + (stopped if job.params.method == "both" else 0.0) + backward
    return b[0]


def _train(work: Problem, forward: Layer) -> Outcome:
    """Gradients of the input and of every parameter, in the order of the layers."""
    leaves = [work.x, *(t for p in work.parameters for t in p.values())]
    with FlopCounterMode(display=False) as counted:
        loss = torch.nn.functional.mse_loss(forward(work.x.clone()), work.target)
        gradients = list(torch.autograd.grad(loss, leaves))
    return Outcome(gradients, counted.get_total_flops())


def _layer(p: model.Values, x: Tensor, *, heads: int, core: model.Core) -> Tensor:
    return model.layer(p, x, heads=heads, mark=_unnamed, core=core)


def _chain(layers: list[Layer], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x


def _unnamed(name: str, tensor: Tensor) -> Tensor:
    return tensor
