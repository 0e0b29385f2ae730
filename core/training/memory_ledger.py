"""The one ledger: bytes on every pipeline stage, line by line, for one layout or for thousands at once.

Everything is an array over layouts, so that a planner and a single question go through the same sums. Parameters are divided
without padding. A line is for the rank of a stage that holds most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.training.memory_model import Model
from core.training.memory_saved import CUTS, Cut
from core.training.memory_stages import Stages

CONVENTIONS: dict[str, tuple[int, int, int, str]] = {
    "16": (2, 2, 12, "BF16 parameter 2 + BF16 gradient 2 + FP32 master 4 + Adam m 4 + v 4"),
    "18": (2, 4, 12, "BF16 parameter 2 + FP32 gradient 4 + FP32 master 4 + Adam m 4 + v 4; 6 + 12/N with ZeRO-1"),
    "20": (2, 6, 12, "BF16 parameter 2 + BF16 gradient 2 + FP32 accumulated gradient 4 + FP32 master 4 + Adam m 4 + v 4"),
    "fsdp2": (4, 4, 8, "FP32 parameter 4 + FP32 gradient 4 + Adam m 4 + v 4, all sharded: 16/N; gathered BF16 copies come and go"),
}
"""Bytes of parameter, gradient and optimizer states for each parameter, and what they are."""
SOURCES = {
    "16": "ZeRO, arXiv 1910.02054", "18": "Megatron's theoretical memory usage", "20": "Ultra-Scale Playbook", "fsdp2": "torch fully_shard",
}  # fmt: skip

LINES = ("parameters", "gradients", "optimizer", "scores", "activations", "outputs", "recomputed", "buffers", "reserve")
"""What the ledger adds up. ``scores``: softmax outputs and their dropout; ``outputs``: embedding, final norm, head and loss."""
STATES, SAVED = LINES[:3], LINES[3:5]


@dataclass(frozen=True)
class Setting:
    """What all layouts share. ``reserve``: bytes of context, communication libraries and fragmentation; ``bucket``: elements of
    a gradient bucket; ``offload``: what lives in the host's memory (none, optimizer, states, activations)."""

    sequence: int
    convention: str = "16"
    bucket: int = 40_000_000
    reserve: float = 1e9
    offload: str = "none"


@dataclass(frozen=True)
class Layouts:
    """One array (layouts,) for each degree of freedom; ``recompute`` 0 none, 1 selective, 2 full; ``microbatches`` a step."""

    data: np.ndarray
    zero: np.ndarray
    tensor: np.ndarray
    sequence: np.ndarray
    context: np.ndarray
    expert: np.ndarray
    expert_tensor: np.ndarray
    micro_batch: np.ndarray
    recompute: np.ndarray
    microbatches: np.ndarray

    @classmethod
    def one(cls, **values: float) -> Layouts:
        return cls(**{name: np.array([float(value)]) for name, value in values.items()})

    @property
    def replicas(self) -> np.ndarray:
        """Ranks that hold the same dense parameters: data x context parallel."""
        found: np.ndarray = self.data * self.context
        return found

    @property
    def expert_replicas(self) -> np.ndarray:
        """Ranks that hold the same experts."""
        found: np.ndarray = self.data * self.context * self.tensor / (self.expert * self.expert_tensor)
        return found

    def divisor(self, cut: Cut, kv_heads: int) -> np.ndarray:
        """What a group of saved tensors is divided by, besides context parallelism."""
        found: np.ndarray = np.ones_like(self.tensor)
        if cut in ("tensor", "routed_tensor"):
            found = self.tensor
        elif cut == "kv":
            found = np.minimum(self.tensor, kv_heads)
        elif cut == "sequence":
            found = np.where(self.sequence > 0, self.tensor, 1.0)
        elif cut == "routed":
            found = np.maximum(self.tensor / self.expert_tensor, 1.0)
        return found


def ledger(model: Model, setting: Setting, stages: Stages, layouts: Layouts) -> dict[str, np.ndarray]:
    """Bytes by line, each (stages, layouts), in the order of `LINES`."""
    states, units, held_here = _states(model, setting, stages, layouts)
    saved, scores = saved_per_layer(model, setting, layouts)
    flight = stages.in_flight(layouts.microbatches)
    held = np.einsum("scn,sck->skn", flight, stages.counts.astype(np.float64))
    lines = dict(states)
    lines["scores"] = np.einsum("skn,kn->sn", held, scores)
    lines["activations"] = np.einsum("skn,kn->sn", held, saved)
    if setting.offload == "activations":  # two layers' stay: one in use, one on its way
        staged = 2 * np.max(saved + scores, axis=0)
        whole = lines["scores"] + lines["activations"]
        lines["scores"] = lines["scores"] * 0
        lines["activations"] = np.minimum(whole, staged)
    outputs, buffers = _ends(model, setting, stages, layouts)
    lines["outputs"] = outputs
    lines["recomputed"] = np.broadcast_to(_recomputed(model, setting, layouts, saved + scores), outputs.shape)
    lines["buffers"] = buffers + _gathered(setting, layouts, units, held_here)
    lines["reserve"] = np.full(outputs.shape, float(setting.reserve))
    return {name: lines[name] for name in LINES}


def total(lines: dict[str, np.ndarray], names: Sequence[str] = LINES) -> np.ndarray:
    """(stages, layouts) the sum of some lines."""
    summed: np.ndarray = np.sum([lines[name] for name in names], axis=0)
    return summed


def dense_share(model: Model, layouts: Layouts) -> np.ndarray:
    """(kinds, layouts) parameters of a layer that one rank holds, experts apart."""
    shape = model.shape
    w = [kind.weights for kind in model.kinds]
    cut, kv, whole = (np.array([[getattr(x, name)] for x in w], dtype=np.float64) for name in ("cut", "kv", "whole"))
    share: np.ndarray = cut / layouts.tensor + kv / np.minimum(layouts.tensor, shape.kv_heads) + whole
    return share


def expert_share(model: Model, layouts: Layouts) -> np.ndarray:
    """(kinds, layouts) parameters of a layer's experts that one rank holds."""
    experts = np.array([[kind.weights.experts] for kind in model.kinds], dtype=np.float64)
    share: np.ndarray = experts / (layouts.expert * layouts.expert_tensor)
    return share


def end_parameters(model: Model, stages: Stages, layouts: Layouts) -> np.ndarray:
    """(stages, layouts) parameters beside the layers: the embedding on the first stage; final norm and head on the last, which
    holds a copy of a tied embedding when it is not the first."""
    shape, found = model.shape, np.zeros((stages.size, len(layouts.tensor)))
    for module, stage in ((shape.embedding, 0), (shape.positions, 0), (shape.final_norm, -1), (shape.head, -1)):
        found[stage] += (module.parameters - module.whole) / layouts.tensor + module.whole
    if shape.tied and stages.size > 1:
        found[-1] += shape.embedding.parameters / layouts.tensor
    return found


def _states(model: Model, setting: Setting, stages: Stages, layouts: Layouts) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Bytes of parameters, gradients, optimizer states; the largest unit of gathering and all parameters, in elements. (stages, layouts)"""
    dense, routed = dense_share(model, layouts), expert_share(model, layouts)
    counts = stages.counts.sum(axis=1).astype(np.float64)
    ends = end_parameters(model, stages, layouts)
    mine, experts = counts @ dense + ends, counts @ routed
    sizes = CONVENTIONS[setting.convention][:3]
    found: dict[str, np.ndarray] = {}
    for name, size, stage in zip(STATES, sizes, (3, 2, 1), strict=True):
        sharded = layouts.zero >= stage
        found[name] = size * (mine / np.where(sharded, layouts.replicas, 1.0) + experts / np.where(sharded, layouts.expert_replicas, 1.0))
    if setting.offload in ("optimizer", "states"):
        found["optimizer"] = found["optimizer"] * 0
    if setting.offload == "states":
        found["parameters"] = found["parameters"] * 0
        found["gradients"] = found["gradients"] * 0
    present = np.where(counts[:, :, None] > 0, (dense + routed)[None], 0.0).max(axis=1)
    return found, np.maximum(present, ends), mine + experts


def saved_per_layer(model: Model, setting: Setting, layouts: Layouts) -> tuple[np.ndarray, np.ndarray]:
    """(kinds, layouts) bytes that one layer keeps of one microbatch: by token, and for its score matrices."""
    level = layouts.recompute.astype(np.int64)
    return _saved(model, setting, layouts, level)


def _saved(model: Model, setting: Setting, layouts: Layouts, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tokens = setting.sequence / layouts.context * layouts.micro_batch
    over = np.stack([1.0 / layouts.divisor(cut, model.shape.kv_heads) for cut in CUTS])
    by_token = np.einsum("nkc,cn->kn", model.per_token[level], over) * tokens
    by_score = model.per_score[level].T * (tokens * setting.sequence * model.shape.heads / layouts.tensor)
    return by_token, by_score


def _recomputed(model: Model, setting: Setting, layouts: Layouts, kept: np.ndarray) -> np.ndarray:
    """(layouts,) what one layer's recomputation brings back for its backward: all it would have saved, less what was kept."""
    token, score = _saved(model, setting, layouts, np.zeros(len(layouts.tensor), dtype=np.int64))
    back: np.ndarray = np.where(layouts.recompute > 0, np.max(token + score - kept, axis=0), 0.0)
    return back


def _ends(model: Model, setting: Setting, stages: Stages, layouts: Layouts) -> tuple[np.ndarray, np.ndarray]:
    """(stages, layouts) saved by embedding, final norm, head and loss; and the buffers that come and go there and in the layers.

    The loss keeps FP32 log-probabilities; BF16 logits and their FP32 copy pass by. Sequence parallelism gathers the whole input
    of a layer; ring attention holds a block of keys and values, and the next.
    """
    shape, size = model.shape, (stages.size, len(layouts.tensor))
    tokens = setting.sequence / layouts.context * layouts.micro_batch
    outputs, buffers = np.zeros(size), np.zeros(size)
    if shape.dropout and model.activation_model == "operations":
        outputs[0] += tokens * shape.hidden * np.minimum(stages.size, layouts.microbatches) / layouts.divisor("sequence", 1)
    if shape.vocabulary:
        norm = 8 * shape.hidden if shape.norm == "rms" and model.activation_model == "operations" else 2 * shape.hidden
        outputs[-1] += tokens * ((norm + 2 * shape.hidden) / layouts.divisor("sequence", 1) + 4 * shape.vocabulary / layouts.tensor)
        buffers[-1] += tokens * 6 * shape.vocabulary / layouts.tensor
    split = (layouts.sequence > 0) & (layouts.tensor > 1)
    buffers += np.where(split, 2 * tokens * shape.hidden, 0.0)
    keys = 2 * shape.kv_heads * (shape.head_dim or 1) / np.minimum(layouts.tensor, shape.kv_heads)
    buffers += np.where(layouts.context > 1, 2 * 2 * tokens * keys, 0.0)
    if shape.experts:
        buffers += 2 * tokens * shape.top_k * shape.hidden / layouts.divisor("routed", 1)
    return outputs, buffers


def _gathered(setting: Setting, layouts: Layouts, units: np.ndarray, all_of_them: np.ndarray) -> np.ndarray:
    """(stages, layouts) what sharding brings together for a moment, none of it where nobody shares.

    ZeRO-2: two gradient buckets, one filling, one on the wire (ZeRO-0 and 1 reduce inside the gradients themselves). ZeRO-3:
    BF16 parameters of two units (the layer in use and the next) and gradients of two. A unit is a layer, the embedding or the head.
    """
    gradient = CONVENTIONS[setting.convention][1] if setting.convention != "20" else 2
    shares = np.maximum(layouts.replicas, layouts.expert_replicas) > 1
    offloaded = setting.offload == "states"
    buckets = 2.0 * gradient * np.minimum(setting.bucket, all_of_them)
    gathered = 2 * 2 * units + 2 * gradient * units
    held = np.where(layouts.zero == 3, gathered, np.where(layouts.zero == 2, buckets, 0.0))
    comes = np.broadcast_to(shares | (setting.convention == "fsdp2") | offloaded, units.shape)
    return np.where(comes, np.where(offloaded, gathered, held), 0.0)
