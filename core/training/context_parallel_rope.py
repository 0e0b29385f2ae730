"""Rotary position embedding (RoFormer, arXiv 2104.09864), the two halves of a head paired as in Llama."""

from __future__ import annotations

import torch
from torch import Tensor

BASE = 10_000.0


def angles(positions: Tensor, head_dim: int, dtype: torch.dtype) -> Tensor:
    """position x base^(-2i / head_dim), (tokens, head_dim / 2)."""
    pair = torch.arange(head_dim // 2, dtype=dtype, device=positions.device)
    return torch.outer(positions.to(dtype), BASE ** (-2 * pair / head_dim))


def rotate(x: Tensor, positions: Tensor, *, back: bool = False) -> Tensor:
    """Rotate every pair (x_i, x_{i + head_dim/2}) of x (..., tokens, head_dim) by its angle; ``back`` turns the other way."""
    angle = angles(positions, x.shape[-1], x.dtype)
    cos, sin = angle.cos(), angle.sin() * (-1 if back else 1)
    one, other = x.chunk(2, dim=-1)
    return torch.cat([one * cos - other * sin, other * cos + one * sin], dim=-1)
