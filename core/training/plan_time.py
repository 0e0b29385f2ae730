"""How long a training step takes in a layout, from the figures of the hardware: compute, bubble, and what communication shows.

Matmuls run at a share of the peak; everything else in a layer is bound by memory: what it saves is written once in forward and
read twice in backward. Ranks are numbered tensor first, then context, data, pipeline, so tensor ranks are neighbours; a group
that does not lie within a node takes the slower link. Communication that has compute beside it shows only where it is longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.hardware import Accelerator, Link
from core.training.memory_ledger import CONVENTIONS, Layouts, Setting, dense_share, end_parameters, expert_share, saved_per_layer
from core.training.memory_model import Model
from core.training.memory_stages import Stages

PARTS = ("compute", "bubble", "tensor", "context", "expert", "pipeline", "data", "host", "update")
"""What a step's time adds up from. All but compute, bubble and update are exposed communication."""
COMMUNICATION = PARTS[2:8]
UPDATE_BYTES = 28
"""Memory traffic of AdamW in bytes an element: master and moments read and written, gradient read, BF16 parameter written."""


@dataclass(frozen=True)
class Machine:
    """``node_size`` accelerators share a node; ``inside`` links them, ``between`` links nodes. ``utilisation``: of the peak, in matmuls."""

    device: Accelerator
    inside: Link
    between: Link
    host: Link
    node_size: int
    utilisation: float

    def within(self, extent: np.ndarray) -> np.ndarray:
        """Whether groups of ``extent`` neighbours never cross a node."""
        inside: np.ndarray = self.node_size % np.maximum(extent, 1) == 0
        return inside

    def cost(self, size: np.ndarray, messages: np.ndarray, extent: np.ndarray) -> np.ndarray:
        """Seconds of ``messages`` in a row that carry ``size`` bytes together, over the slowest link of the group."""
        near = self.within(extent)
        bandwidth = np.where(near, self.inside.bandwidth, self.between.bandwidth)
        latency = np.where(near, self.inside.latency, self.between.latency)
        seconds: np.ndarray = messages * latency + size / bandwidth
        return seconds


def step_parts(model: Model, setting: Setting, stages: Stages, layouts: Layouts, machine: Machine) -> dict[str, np.ndarray]:
    """Seconds of one optimizer step by part, each (layouts,); their sum is the step."""
    forward, backward, attention = _layer_times(model, setting, layouts, machine)
    tensor, context, expert = _layer_communication(model, setting, layouts, machine, attention)
    counts = stages.counts.sum(axis=1).astype(np.float64)
    m, p = layouts.microbatches, stages.size
    ahead, back = counts @ forward, counts @ backward
    head = _head_time(model, setting, layouts, machine)
    ahead[-1] += head
    back[-1] += 2 * head
    compute = ahead + back
    shown = {"tensor": counts @ tensor, "context": counts @ context, "expert": counts @ expert}
    each = compute + sum(shown.values())
    slowest = np.argmax(each, axis=0)
    columns = np.arange(each.shape[1])
    parts = {name: m * values[slowest, columns] for name, values in shown.items()}
    parts["compute"] = m * compute[slowest, columns]
    parts["bubble"] = (each.sum(axis=0) - each[slowest, columns]) / stages.chunks
    message = 2 * setting.sequence / layouts.context * layouts.micro_batch * model.shape.hidden / layouts.divisor("sequence", 1)
    hop = machine.cost(message, np.ones_like(m), layouts.tensor * layouts.context * layouts.data * 2) * (p > 1)
    hidden = np.maximum(hop * stages.chunks - 0.5 * each[slowest, columns], 0.0)
    parts["pipeline"] = 2 * (p - 1) * hop + 2 * m * hidden
    parts["data"] = _data_time(model, setting, stages, layouts, machine, ahead.min(axis=0), back.min(axis=0))
    parts["host"], parts["update"] = _update_time(model, setting, stages, layouts, machine, compute[slowest, columns])
    return {name: parts[name] for name in PARTS}


def step_flop(model: Model, sequence: int, global_batch: int) -> float:
    """FLOP that training needs in one step, nothing computed twice: 6 a parameter and token in use, and causal attention."""
    shape = model.shape
    used = sum(kind.active * model.layers_of(k) for k, kind in enumerate(model.kinds)) + shape.vocabulary * shape.hidden
    width = shape.heads * ((shape.latent.nope + shape.latent.rope) if shape.latent else shape.head_dim)
    return sequence * global_batch * (6.0 * used + 6.0 * shape.layers * sequence * width)


def _layer_times(model: Model, setting: Setting, layouts: Layouts, machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(kinds, layouts) seconds of one layer's forward and backward of one microbatch, and of its attention core alone."""
    shape, device = model.shape, machine.device
    peak = device.flops["bf16"] * machine.utilisation
    tokens = setting.sequence / layouts.context * layouts.micro_batch
    active = np.array([[float(kind.active)] for kind in model.kinds])
    width = shape.heads * ((shape.latent.nope + shape.latent.rope) if shape.latent else shape.head_dim)
    core = np.broadcast_to(2.0 * setting.sequence * width * tokens / layouts.tensor / peak, (len(model.kinds), len(tokens)))
    matmul = 2.0 * active * tokens / layouts.tensor / peak
    weights = 2.0 * (dense_share(model, layouts) + expert_share(model, layouts)) / device.bandwidth
    token, score = _nothing_recomputed(model, setting, layouts)
    moved = (token + score) / device.bandwidth
    forward = np.maximum(matmul, weights) + core + moved
    backward = 2 * np.maximum(matmul, weights) + 2 * core + 2 * moved
    again = np.where(layouts.recompute == 2, forward, np.where(layouts.recompute == 1, core + score / device.bandwidth, 0.0))
    return forward, backward + again, core


def _nothing_recomputed(model: Model, setting: Setting, layouts: Layouts) -> tuple[np.ndarray, np.ndarray]:
    whole = Layouts(
        **{**{name: getattr(layouts, name) for name in Layouts.__dataclass_fields__}, "recompute": np.zeros_like(layouts.tensor)}
    )
    return saved_per_layer(model, setting, whole)


def _head_time(model: Model, setting: Setting, layouts: Layouts, machine: Machine) -> np.ndarray:
    """Seconds of the output head's forward for one microbatch."""
    tokens = setting.sequence / layouts.context * layouts.micro_batch
    flop = 2.0 * model.shape.hidden * model.shape.vocabulary * tokens / layouts.tensor
    seconds: np.ndarray = flop / (machine.device.flops["bf16"] * machine.utilisation)
    return seconds


def _layer_communication(
    model: Model, setting: Setting, layouts: Layouts, machine: Machine, attention: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(kinds, layouts) exposed seconds in one layer, forward and backward of one microbatch: tensor, context, expert parallelism."""
    shape, t, c = model.shape, layouts.tensor, layouts.context
    tokens = setting.sequence / c * layouts.micro_batch
    message = 2.0 * tokens * shape.hidden
    calls = np.where(layouts.recompute == 2, 6, 4)  # all-reduces, or as many pairs of all-gather and reduce-scatter
    one = machine.cost(2 * (t - 1) / t * message, 2 * (t - 1), t)
    tensor = np.broadcast_to(calls * one, attention.shape)
    keys = 2.0 * tokens * 2 * shape.kv_heads * (shape.head_dim or 1) / np.minimum(t, shape.kv_heads)
    ring = machine.cost((c - 1) * keys, c - 1, t * c)
    context = np.maximum(ring - attention, 0.0) + np.maximum(2 * ring - 2 * attention, 0.0)
    e = layouts.expert
    sparse = np.array([[1.0 if kind.weights.experts else 0.0] for kind in model.kinds])
    routed = message * shape.top_k / layouts.divisor("routed", 1)
    exchange = machine.cost((e - 1) / e * routed, e - 1, layouts.expert_tensor * e)
    return tensor, context, sparse * np.where(layouts.recompute == 2, 6, 4) * exchange


def _data_time(
    model: Model, setting: Setting, stages: Stages, layouts: Layouts, machine: Machine, ahead: np.ndarray, back: np.ndarray
) -> np.ndarray:
    """(layouts,) exposed seconds of gradients and parameters among the ranks that hold the same ones.

    Reduce-scatter of gradients runs beside backward, all-gather of parameters beside forward; ZeRO-0 and 1 once a step, ZeRO-2
    reduces and ZeRO-3 also gathers in every microbatch.
    """
    counts = stages.counts.sum(axis=1).astype(np.float64)
    units = counts.sum(axis=1).max()
    dense = (counts @ dense_share(model, layouts) + end_parameters(model, stages, layouts)).max(axis=0)
    experts = (counts @ expert_share(model, layouts)).max(axis=0)
    gradient = 4 if setting.convention == "18" else 2
    gather, scatter = np.zeros_like(dense), np.zeros_like(dense)
    for elements, ranks in ((dense, layouts.replicas), (experts, layouts.expert_replicas)):
        share = np.maximum(ranks - 1, 0.0) / np.maximum(ranks, 1.0)
        extent = layouts.tensor * layouts.context * layouts.data
        messages = np.where(elements > 0, np.maximum(ranks - 1, 0.0) * units, 0.0)
        gather = gather + machine.cost(2 * elements * share, messages, extent)
        scatter = scatter + machine.cost(gradient * elements * share, messages, extent)
    m, zero = layouts.microbatches, layouts.zero
    once = np.maximum(scatter - back, 0.0) + np.maximum(gather - ahead, 0.0)
    reduced = np.maximum(scatter + gather - back, 0.0)
    second = m * np.maximum(scatter - back, 0.0) + np.maximum(gather - ahead, 0.0)
    third = m * (np.maximum(gather - ahead, 0.0) + np.maximum(gather + scatter - back, 0.0)) + gather / units
    exposed: np.ndarray = np.select([zero == 0, zero == 1, zero == 2], [reduced, once, second], third)
    return exposed


def _update_time(
    model: Model, setting: Setting, stages: Stages, layouts: Layouts, machine: Machine, compute: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(layouts,) seconds that traffic with the host shows, and of the optimizer's update, which memory bounds."""
    counts = stages.counts.sum(axis=1).astype(np.float64)
    dense = (counts @ dense_share(model, layouts) + end_parameters(model, stages, layouts)).max(axis=0)
    experts = (counts @ expert_share(model, layouts)).max(axis=0)
    sharded = layouts.zero >= 1
    owned = dense / np.where(sharded, layouts.replicas, 1.0) + experts / np.where(sharded, layouts.expert_replicas, 1.0)
    host = np.zeros_like(owned)
    if setting.offload in ("optimizer", "states"):
        host = (CONVENTIONS[setting.convention][1] + 2) * owned / machine.host.bandwidth
    if setting.offload == "states":
        host = host + layouts.microbatches * np.maximum(2 * 2 * (dense + experts) / machine.host.bandwidth - compute, 0.0)
    if setting.offload == "activations":
        token, score = saved_per_layer(model, setting, layouts)
        saved = (counts @ (token + score)).max(axis=0)
        host = layouts.microbatches * np.maximum(2 * saved / machine.host.bandwidth - compute, 0.0)
    return host, UPDATE_BYTES * owned / machine.device.bandwidth
