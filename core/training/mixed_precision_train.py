"""Training in one precision, step by step: weights in their format, gradients, loss scale, Adam, and the rounding of every update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from core.training import mixed_precision_model as model
from core.training.mixed_precision_formats import E4M3, quantise, stochastic_bf16
from core.training.mixed_precision_model import Batch
from core.training.mixed_precision_setup import Layout

BETAS = 0.9, 0.999
EPSILON = 1e-8
LARGEST_SCALE = 2.0**128
"""The scale is an fp32 number."""
Values = dict[str, Tensor]


@dataclass
class LossScale:
    """Multiplies the loss so that small gradients stay above zero in FP16 (arXiv 1710.03740).

    Dynamic as in torch.amp.GradScaler: an infinite or NaN gradient skips the step and halves the scale, ``growth_interval`` good steps
    in a row double it. Static: such a step is skipped. None: no gradient is looked at.
    """

    kind: Literal["dynamic", "static", "none"] = "none"
    scale: float = 1.0
    growth_interval: int = 1
    good_steps: int = 0

    def accept(self, gradients: Values) -> bool:
        """Whether all gradients are finite, so that the step may be taken; sets the scale of the next step."""
        finite = self.kind == "none" or all(bool(torch.isfinite(g).all()) for g in gradients.values())
        if self.kind != "dynamic":
            return finite
        if not finite:
            self.scale, self.good_steps = self.scale / 2, 0
            return False
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.scale, self.good_steps = self.scale * 2 if self.scale * 2 < LARGEST_SCALE else self.scale, 0
        return True


@dataclass
class Adam:
    """Adam (arXiv 1412.6980) with moments in ``dtype``; arithmetic in fp32, as fused kernels do it."""

    rate: float
    dtype: torch.dtype
    step: int = 0
    m: Values = field(default_factory=dict)
    v: Values = field(default_factory=dict)

    def updates(self, gradients: Values) -> Values:
        """What is to be added to every weight, in fp32: -rate x m̂ / (√v̂ + ε)."""
        self.step += 1
        first, second = (1 - beta**self.step for beta in BETAS)
        found = {}
        for name, g in gradients.items():
            m = self.m.get(name, torch.zeros_like(g, dtype=self.dtype)).float().lerp(g, 1 - BETAS[0])
            v = self.v.get(name, torch.zeros_like(g, dtype=self.dtype)).float() * BETAS[1] + (1 - BETAS[1]) * g * g
            self.m[name], self.v[name] = m.to(self.dtype), v.to(self.dtype)
            found[name] = -self.rate / first * m / ((v / second).sqrt() + EPSILON)
        return found


@dataclass(frozen=True)
class Step:
    """What one training step did. Gradients are those of the scaled loss, in their format; ``exact`` is the same backward in fp32.

    ``before`` and ``after`` are what the optimizer keeps (master or weights), ``copy_before`` and ``copy_after`` the weights that compute.
    """

    loss: float
    scale: float
    gradients: Values
    exact: Values
    taken: bool
    updates: Values
    before: Values
    after: Values
    copy_before: Values
    copy_after: Values

    @property
    def gone(self) -> Values:
        """Which gradients are zero here, and are not in fp32."""
        return {name: (g == 0) & (self.exact[name] != 0) for name, g in self.gradients.items()}

    @property
    def lost(self) -> tuple[int, int]:
        """Updates that are not zero but leave what they are added to as it is, and all that are not zero."""
        wanted = {name: u != 0 for name, u in self.updates.items()}
        stuck = sum(int((wanted[name] & (self.after[name] == self.before[name])).sum()) for name in wanted)
        return stuck, sum(int(mask.sum()) for mask in wanted.values())

    @property
    def moved(self) -> tuple[float, float]:
        """How far weights went in the direction of their updates, and how far they should have gone: sums over all of them."""
        went = sum(float(((self.after[n].double() - self.before[n].double()) * u.sign()).sum()) for n, u in self.updates.items())
        return went, sum(float(u.double().abs().sum()) for u in self.updates.values())

    @property
    def still(self) -> float:
        """Share of the weights that compute whose value is what it was before an update that is not zero."""
        wanted = sum(int((u != 0).sum()) for u in self.updates.values())
        same = sum(int(((u != 0) & (self.copy_after[n] == self.copy_before[n])).sum()) for n, u in self.updates.items())
        return same / wanted if wanted else 0.0


class Training:
    """A model in one layout. ``stored`` holds the tensors that are really there, by part, for the bytes a parameter takes."""

    def __init__(self, layout: Layout, start: Values, rate: float, scale: LossScale, generator: torch.Generator) -> None:
        self.layout, self.scale, self.generator = layout, scale, generator
        self.kept = {name: value.to(layout.kept.dtype) for name, value in start.items()}
        self.scales: Values = {}
        self.weights = self.compute_weights()
        self.adam = Adam(rate, layout.state.dtype)
        self.gradients: Values = {}

    def train(self, batch: Batch, *, compare: bool = True) -> Step:
        """One step: backward of the scaled loss, unscale, skip or update, and a fresh copy of the weights."""
        layout, scale = self.layout, self.scale.scale
        values = self.values()
        fp8 = layout.weight is E4M3
        loss, found = model.gradients(values, batch, layout.compute, scale, fp8=fp8)
        self.gradients = {name: g.to(layout.gradient.dtype) for name, g in found.items()}
        full = {name: value.float() for name, value in values.items()}
        exact = model.gradients(full, batch, torch.float32)[1] if compare else {}
        taken = self.scale.accept(self.gradients)
        before, copy_before = self.kept, values
        updates: Values = {}
        if taken:
            updates = self.adam.updates({name: g.float() / scale for name, g in self.gradients.items()})
            self.kept = {name: self.rounded(before[name].float() + u) for name, u in updates.items()}
            self.weights = self.compute_weights()
        return Step(loss, scale, self.gradients, exact, taken, updates, before, self.kept, copy_before, self.values())

    def rounded(self, value: Tensor) -> Tensor:
        """fp32 to the format in which weights are kept."""
        return stochastic_bf16(value, self.generator) if self.layout.stochastic else value.to(self.layout.kept.dtype)

    def compute_weights(self) -> Values:
        """The weights that forward and backward read, made from what the optimizer keeps; FP8 comes with a scale for each tensor."""
        if self.layout.weight is not E4M3:
            return {name: value.to(self.layout.weight.dtype) for name, value in self.kept.items()}
        made = {}
        for name, value in self.kept.items():
            made[name], self.scales[name] = quantise(value, E4M3)
        return made

    def values(self) -> Values:
        """The numbers that the compute weights stand for: FP8 codes divided by their scale."""
        return {name: w.float() / self.scales[name] for name, w in self.weights.items()} if self.scales else dict(self.weights)

    def stored(self) -> tuple[int, ...]:
        """Bytes of the tensors that are there, by part; a master that is the weights themselves is no part of its own."""
        master = self.kept if self.layout.master else {}
        return tuple(
            sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in part.values()}.values())
            for part in (self.weights, self.gradients, master, self.adam.m, self.adam.v)
        )
