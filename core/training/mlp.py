"""The small model that data parallelism trains here: residual MLP blocks with LayerNorm and a head, as functions of named parameters.

A block runs in two halves, y = x + down(gelu(up(norm(x)))), so that gradients of its lower half can be on the wire while the
upper half still computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, mse_loss

EXPANSION = 4
Values = Mapping[str, Tensor]
Shapes = dict[str, tuple[int, ...]]


def up_shapes(hidden: int) -> Shapes:
    """Parameters of a block's first half."""
    return {
        "norm.weight": (hidden,),
        "norm.bias": (hidden,),
        "up.weight": (EXPANSION * hidden, hidden),
        "up.bias": (EXPANSION * hidden,),
    }


def down_shapes(hidden: int) -> Shapes:
    """Parameters of a block's second half."""
    return {"down.weight": (hidden, EXPANSION * hidden), "down.bias": (hidden,)}


def block_shapes(hidden: int) -> Shapes:
    """Parameters of a block: 8 hidden² + 7 hidden."""
    return up_shapes(hidden) | down_shapes(hidden)


def head_shapes(hidden: int, outputs: int) -> Shapes:
    """Parameters of the head."""
    return {"norm.weight": (hidden,), "norm.bias": (hidden,), "head.weight": (outputs, hidden), "head.bias": (outputs,)}


def count(shapes: Shapes) -> int:
    """Elements of all of them."""
    return sum(math.prod(shape) for shape in shapes.values())


def up(p: Values, x: Tensor) -> Tensor:
    """First half: (rows, hidden) to (rows, 4 hidden), before the activation."""
    return linear(_norm(p, x), p["up.weight"], p["up.bias"])


def down(p: Values, x: Tensor, inner: Tensor) -> Tensor:
    """Second half: the block's input (rows, hidden) and ``inner`` (rows, 4 hidden) to its output (rows, hidden)."""
    return x + linear(gelu(inner), p["down.weight"], p["down.bias"])


def block(p: Values, x: Tensor) -> Tensor:
    """Both halves: (rows, hidden) to (rows, hidden)."""
    return down(p, x, up(p, x))


def head(p: Values, x: Tensor) -> Tensor:
    """(rows, hidden) to (rows, outputs)."""
    return linear(_norm(p, x), p["head.weight"], p["head.bias"])


def _norm(p: Values, x: Tensor) -> Tensor:
    return layer_norm(x, x.shape[-1:], p["norm.weight"], p["norm.bias"])


def initial(shapes: Shapes, generator: torch.Generator, device: str, depth: int = 1) -> dict[str, Tensor]:
    """fp32 values, none of them zero or one; what adds to the residual stream is smaller by the square root of ``depth``."""
    values = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator)
        if len(shape) == 2:
            value /= math.sqrt(shape[1] * (depth if name.startswith("down") else 1))
        else:
            value *= 0.1
            if name == "norm.weight":
                value += 1.0
        values[name] = value.to(device)
    return values


@dataclass(frozen=True)
class Batch:
    """One micro-batch of every rank: ``x`` (ranks, rows, hidden) and ``target`` (ranks, rows, outputs)."""

    x: Tensor
    target: Tensor


def batches(ranks: int, rows: int, hidden: int, outputs: int, count: int, generator: torch.Generator, device: str) -> list[Batch]:
    """``count`` micro-batches of random inputs whose targets come from one fixed random map."""
    teacher = torch.randn(hidden, outputs, generator=generator) / math.sqrt(hidden)
    made = []
    for _ in range(count):
        x = torch.randn(ranks, rows, hidden, generator=generator)
        made.append(Batch(x.to(device), torch.tanh(x @ teacher).to(device)))
    return made


def loss_of(output: Tensor, target: Tensor, accumulation: int = 1) -> Tensor:
    """Mean squared error; gradients of ``accumulation`` micro-batches add up to that of their mean."""
    return mse_loss(output, target) / accumulation


def largest_error(got: Mapping[str, Tensor], want: Mapping[str, Tensor]) -> tuple[float, str]:
    """The worst parameter: its largest difference over the largest size of what is wanted, and its name; infinite for NaN or none."""
    if set(got) != set(want):
        return math.inf, ", ".join(sorted(set(got) ^ set(want)))
    worst, where = 0.0, ""
    for name, right in want.items():
        apart = float((got[name].double() - right.double()).abs().nan_to_num(nan=math.inf).amax()) if right.numel() else 0.0
        error = apart / max(float(right.abs().max()), 1e-300) if apart else 0.0
        if error > worst or not where:
            worst, where = error, name
    return worst, where
