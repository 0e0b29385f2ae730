"""The same layer on one device, whole: what every cut of it must equal. Written apart, so that an error is not shared."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from core.training.megatron_layer import KEEP, Problem


@dataclass(frozen=True)
class Dense:
    """Results in fp64: output (s, b, h), mean loss, the first token's GeLU output (ffn,), gradients of the input and of every parameter."""

    output: Tensor
    loss: float
    hidden: Tensor
    x_gradient: Tensor
    gradients: dict[str, Tensor]


def dense(problem: Problem, *, gelu_before_sum: bool = False) -> Dense:
    """Forward and backward by PyTorch autograd.

    ``gelu_before_sum`` is the mistake that `row_first` makes: the GeLU of each rank's part of a sum, added up afterwards.
    """
    shape = problem.shape
    p = {name: value.detach().clone().requires_grad_() for name, value in problem.parameters.items()}
    x = problem.x.detach().clone().requires_grad_()
    normed = _norm(x, p["norm1.weight"], p["norm1.bias"])
    qkv = (normed @ p["qkv.weight"].T + p["qkv.bias"]).reshape(*normed.shape[:-1], shape.heads, 3, shape.head_dim)
    q, k, v = qkv.unbind(-2)
    scores = torch.einsum("sbad,tbad->bast", q, k) / shape.head_dim**0.5
    ahead = torch.ones(shape.sequence, shape.sequence, dtype=torch.bool, device=x.device).triu(1)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(ahead, 0.0)
    weights = weights / weights.sum(-1, keepdim=True) * problem.keep_scores / KEEP
    context = torch.einsum("bast,tbad->sbad", weights, v).flatten(2)
    x1 = x + (context @ p["out.weight"].T + p["out.bias"]) * problem.keep_attention / KEEP
    normed = _norm(x1, p["norm2.weight"], p["norm2.bias"])
    if gelu_before_sum:
        parts = zip(normed.chunk(shape.ranks, -1), p["up.weight"].chunk(shape.ranks, 1), strict=True)
        inner = [part @ weight.T + (p["up.bias"] if rank == 0 else 0.0) for rank, (part, weight) in enumerate(parts)]
        hidden = torch.stack([_gelu(part) for part in inner]).sum(0)
    else:
        hidden = _gelu(normed @ p["up.weight"].T + p["up.bias"])
    output = x1 + (hidden @ p["down.weight"].T + p["down.bias"]) * problem.keep_mlp / KEEP
    logits = (output @ p["head.weight"].T)[..., : shape.vocabulary]
    log_share = logits - logits.logsumexp(-1, keepdim=True)
    loss = -log_share.gather(-1, problem.target[..., None]).mean()
    found = torch.autograd.grad(loss, [x, *p.values()])
    return Dense(output.detach(), float(loss.detach()), hidden.detach()[0, 0], found[0], dict(zip(p, found[1:], strict=True)))


def _norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias


def _gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / 2**0.5)) / 2
