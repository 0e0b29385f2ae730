"""The model that trains: linear layers with GELU between, in any format, FP8 with real FP8 tensors and their scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, mse_loss

from core.training.mixed_precision_formats import E4M3, E5M2, quantise

Values = Mapping[str, Tensor]
SPREAD = 18
"""Inputs are features in different units: their sizes run from 1 down to 2 to the power of minus this."""


@dataclass(frozen=True)
class Batch:
    """``x`` and ``target`` (batch, hidden), fp32."""

    x: Tensor
    target: Tensor


def initial(layers: int, hidden: int, generator: torch.Generator, device: str) -> dict[str, Tensor]:
    """fp32 weights (hidden, hidden); like most language models it has no biases."""
    deviation = (2.0 / hidden) ** 0.5
    return {f"{k}.weight": (torch.randn(hidden, hidden, generator=generator) * deviation).to(device) for k in range(layers)}


def batches(count: int, batch: int, hidden: int, generator: torch.Generator, device: str) -> list[Batch]:
    """Random features, and targets from one fixed random map of them before they got their units."""
    teacher = torch.randn(hidden, hidden, generator=generator) / hidden**0.5
    units = torch.exp2(-torch.linspace(0, SPREAD, hidden))
    made = []
    for _ in range(count):
        x = torch.randn(batch, hidden, generator=generator)
        made.append(Batch((x * units).to(device), torch.tanh(x @ teacher).to(device)))
    return made


class Fp8Linear(torch.autograd.Function):
    """y = x wᵀ with x and w in E4M3, and both gradients from one in E5M2; sums in fp32, as tensor cores do (arXiv 2209.05433)."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, w: Tensor) -> Tensor:
        """x (batch, inputs) BF16; w (outputs, inputs) fp32: values that come from E4M3 and are found again there."""
        x8, x_scale = quantise(x, E4M3)
        w8, w_scale = quantise(w, E4M3)
        ctx.save_for_backward(x8, x_scale, w8, w_scale)
        return (linear(x8.float(), w8.float()) / (x_scale * w_scale)).to(torch.bfloat16)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of x and w in BF16."""
        x8, x_scale, w8, w_scale = ctx.saved_tensors  # type: ignore[attr-defined]
        g8, g_scale = quantise(grads[0], E5M2)
        of_x = g8.float() @ w8.float() / (g_scale * w_scale)
        of_w = g8.float().T @ x8.float() / (g_scale * x_scale)
        return of_x.to(torch.bfloat16), of_w.to(torch.bfloat16)


def forward(values: Values, x: Tensor, *, fp8: bool = False) -> Tensor:
    """(batch, hidden) to (batch, hidden), in the format of ``values`` and ``x``."""
    for layer in range(len(values)):
        w = values[f"{layer}.weight"]
        x = Fp8Linear.apply(x, w) if fp8 else linear(x, w)  # type: ignore[no-untyped-call]
        if layer < len(values) - 1:
            x = gelu(x)
    return x


def gradients(
    values: Values, batch: Batch, dtype: torch.dtype, scale: float = 1.0, *, fp8: bool = False
) -> tuple[float, dict[str, Tensor]]:
    """The loss (not scaled), and gradients of the scaled one in the format in which backward makes them.

    The loss itself is computed in fp32; backward starts from it in ``dtype``.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
    loss = mse_loss(forward(leaves, batch.x.to(dtype), fp8=fp8).float(), batch.target)
    found = torch.autograd.grad(loss * scale, list(leaves.values()))
    return float(loss.detach()), dict(zip(leaves, found, strict=True))
