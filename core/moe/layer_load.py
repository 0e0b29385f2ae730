"""Load by layer: the same router over every layer (and step) of a file of router logits."""

from __future__ import annotations

import numpy as np
import torch

from core.errors import BadInput
from core.moe.router_logits import RouterLogits
from core.moe.routers import route
from core.recording import Recorder
from core.views import Axis, Heatmap, Plot

MAX_LOADS = 10_000_000
"""Loads of experts that are held, some 200 bytes each."""
_ROUTED_AT_ONCE = 4_000_000
_FACTS_OF_LAYERS = 128
_STEPS_PER_LAYER = 1_024
_MEANINGS = {"kept": "rows", "bad": "not chosen"}


def load_by_layer(logits: RouterLogits, top_k: int, rec: Recorder) -> np.ndarray:
    """Rows each expert is chosen for, (steps, layers, experts); every router here chooses by the same top k."""
    steps, layers, tokens, experts = logits.values.shape
    load = np.zeros((steps, layers, experts), dtype=np.int64)
    group = max(1, _ROUTED_AT_ONCE // (tokens * experts))
    for step in range(steps):
        rec.progress(0.2 * step / steps, "routing every layer of the file")
        for first in range(0, layers, group):
            rows = np.array(logits.values[step, first : first + group])
            count = len(rows)
            chosen = route("mixtral", torch.from_numpy(rows.reshape(-1, experts)), top_k).experts.reshape(count, -1)
            places = (chosen + experts * torch.arange(count)[:, None]).reshape(-1)
            load[step, first : first + count] = torch.bincount(places, minlength=count * experts).reshape(count, experts).numpy()
    return load


def record_layers(rec: Recorder, logits: RouterLogits, top_k: int) -> None:
    """A phase of its own before the walk: one step a layer, or one for each of many steps; facts are those of the last step."""
    size = logits.steps * logits.layers * logits.values.shape[3]
    if size > MAX_LOADS:
        raise BadInput(logits.source, f"{size:,} loads (steps x layers x experts)", f"at most {MAX_LOADS:,}: fewer steps in the file")
    load = load_by_layer(logits, top_k, rec)
    steps, layers, experts = load.shape
    mean = load.sum(axis=2, keepdims=True) / experts
    ratio = load.max(axis=2) / mean[:, :, 0]
    heat = rec.panel("Load by layer", Heatmap(Axis("layer {i}", layers), Axis("E{i}", experts), "count", low=0.0, legend=_MEANINGS), 1.5)
    plot = rec.panel("Busiest expert / mean", Plot("layer", "max / mean load"), beside=True)
    curve = plot.curve("max / mean load" if steps == 1 else "last step", "forward", "step")
    rec.phase("layers")
    total = int(load[0, 0].sum())
    for step in range(steps):
        one_by_one = steps * layers <= _STEPS_PER_LAYER
        for layer in range(layers):
            counts = load[step, layer].tolist()
            for expert in np.flatnonzero(load[step, layer] != load[step - 1, layer]).tolist() if step else range(experts):
                heat.set(layer, expert, counts[expert], "kept" if counts[expert] else "bad")
            if step == steps - 1:  # a plot holds each layer once
                plot.point(curve, layer, float(ratio[step, layer]))
            if one_by_one:
                _narrate(rec, load, ratio, step, layer, total)
        if not one_by_one:
            _narrate(rec, load, ratio, step, int(ratio[step].argmax()), total)
    last = load[-1]
    for layer in range(min(layers, _FACTS_OF_LAYERS)):
        note = "busiest expert over the mean, last step of the file"
        rec.fact("max_over_mean_load", float(ratio[-1, layer]), "", "simulated", note, label=f"layer_{layer}")
        rec.fact("dead_experts", int((last[layer] == 0).sum()), "count", "simulated", "experts no token chose", label=f"layer_{layer}")


def _narrate(rec: Recorder, load: np.ndarray, ratio: np.ndarray, step: int, layer: int, total: int) -> None:
    mine = load[step, layer]
    rec.step(
        "Layer {layer}: expert {expert} carries {ratio:.2f} times the mean",
        "At step {file_step} of the file it is chosen for {load} of {assignments} rows; {dead} of {experts} experts are not chosen at all. "
        "A layer is as slow as its busiest expert.",
        layer=layer, expert=int(mine.argmax()), ratio=float(ratio[step, layer]), file_step=step, load=int(mine.max()),
        assignments=total, dead=int((mine == 0).sum()), experts=len(mine),
    )  # fmt: skip
