"""The layer that `recompute` runs: pre-norm attention without fusion and a GELU MLP, as functions of named parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear

from core.training.recompute_setup import INPUT, PROBABILITIES, Shape

Mark = Callable[[str, Tensor], Tensor]
"""``mark(name, tensor)`` names the storage of a tensor that backward will need, and returns the tensor."""
Core = Callable[[Tensor, Tensor, Tensor], Tensor]
Values = Mapping[str, Tensor]


def parameter_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Of one layer: 4 h² + 2 h f in matrices, 9 h + f in vectors."""
    h, f = shape.hidden, shape.ffn
    return {
        "norm1.weight": (h,), "norm1.bias": (h,),
        "q.weight": (h, h), "q.bias": (h,), "k.weight": (h, h), "k.bias": (h,), "v.weight": (h, h), "v.bias": (h,),
        "proj.weight": (h, h), "proj.bias": (h,),
        "norm2.weight": (h,), "norm2.bias": (h,), "up.weight": (f, h), "up.bias": (f,), "down.weight": (h, f), "down.bias": (h,),
    }  # fmt: skip


def initial(shape: Shape, generator: torch.Generator, device: str) -> dict[str, Tensor]:
    """fp32 values of one layer's parameters, none of them zero or one."""
    values = {}
    for name, size in parameter_shapes(shape).items():
        value = torch.randn(size, generator=generator) * (size[-1] ** -0.5 if len(size) == 2 else 0.1)
        if name in ("norm1.weight", "norm2.weight"):
            value += 1.0
        values[name] = value.to(device).requires_grad_()
    return values


def causal(shape: Shape, device: str, dtype: torch.dtype = torch.float32) -> Tensor:
    """(s, s): 0 where a token may look, minus infinity where it may not. All layers share it, and autograd does not save it."""
    return torch.full((shape.sequence, shape.sequence), -math.inf, device=device, dtype=dtype).triu(1)


def attention(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor, mark: Mark) -> Tensor:
    """The core that ``selective`` runs again: softmax(q kᵀ / √d + mask) v, all (b a, s, d)."""
    scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5 + mask
    return torch.bmm(mark(PROBABILITIES, scores.softmax(-1)), v)


def layer(p: Values, x: Tensor, *, heads: int, mark: Mark, core: Core) -> Tensor:
    """(b, s, h) to (b, s, h). ``core`` computes `attention`, here or under a checkpoint of its own."""
    b, s, h = x.shape
    norm = mark("norm 1", layer_norm(mark(INPUT, x), (h,), p["norm1.weight"], p["norm1.bias"]))

    def by_head(name: str) -> Tensor:
        part = linear(norm, p[f"{name}.weight"], p[f"{name}.bias"]).view(b, s, heads, h // heads)
        return mark(name, part.transpose(1, 2).reshape(b * heads, s, h // heads))

    q, k, v = by_head("q"), by_head("k"), by_head("v")
    mixed = core(q, k, v).view(b, heads, s, h // heads).transpose(1, 2)
    context = mark("context", mixed.reshape(b, s, h))
    residual = mark("residual", x + linear(context, p["proj.weight"], p["proj.bias"]))
    norm = mark("norm 2", layer_norm(residual, (h,), p["norm2.weight"], p["norm2.bias"]))
    up = mark("up", linear(norm, p["up.weight"], p["up.bias"]))
    return residual + linear(mark("gelu", gelu(up)), p["down.weight"], p["down.bias"])
