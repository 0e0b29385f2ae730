"""Load by layer: the same router over every layer (and step) of a file of router logits."""

from __future__ import annotations

import numpy as np
import torch

from core.moe.router_logits import RouterLogits
from core.moe.routers import route
from core.recording import Recorder
from core.views import Axis, Heatmap, Plot

_FACTS_OF_LAYERS = 128
_STEPS_PER_LAYER = 1_024
_MEANINGS = {"kept": "rows", "bad": "not chosen"}


def load_by_layer(logits: RouterLogits, top_k: int) -> np.ndarray:
    """Rows each expert is chosen for, (steps, layers, experts); every router here chooses by the same top k."""
    steps, layers, _, experts = logits.values.shape
    load = np.zeros((steps, layers, experts), dtype=np.int64)
    for step in range(steps):
        for layer in range(layers):
            chosen = route("mixtral", torch.from_numpy(np.array(logits.values[step, layer])), top_k).experts
            load[step, layer] = torch.bincount(chosen.reshape(-1), minlength=experts).numpy()
    return load


def record_layers(rec: Recorder, logits: RouterLogits, top_k: int) -> None:
    """A phase of its own before the walk: one step a layer, or one for each of many steps; facts are those of the last step."""
    load = load_by_layer(logits, top_k)
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
            for expert, count in enumerate(load[step, layer].tolist()):
                role = "kept" if count else "bad"
                if not step or count != load[step - 1, layer, expert]:
                    heat.set(layer, expert, count, role)
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
