"""Attention tile by tile: the online softmax state (m, l, O) of a block of queries, and the gradients of one tile.

Forward after arXiv 1805.02867 and 2205.14135: m' = max(m, rowmax S), l' = e^(m - m') l + sum e^(S - m'),
O' = e^(m - m') O + e^(S - m') V; at the end O / l, and lse = m + ln l is all that the backward needs of the softmax.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SoftmaxState(NamedTuple):
    """What a row of queries knows of the keys seen so far: m and l (..., rows), O (..., rows, head_dim), not yet divided by l."""

    m: Tensor
    l: Tensor  # noqa: E741 - the paper's name
    o: Tensor

    @classmethod
    def of(cls, q: Tensor) -> SoftmaxState:
        """No key seen yet. q: (..., rows, head_dim)."""
        return cls(q.new_full(q.shape[:-1], -torch.inf), q.new_zeros(q.shape[:-1]), torch.zeros_like(q))

    def rows(self, which: slice) -> SoftmaxState:
        """The state of some of the rows; writing to it writes to this one."""
        return SoftmaxState(self.m[..., which], self.l[..., which], self.o[..., which, :])


def tile_scores(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    """S = Q K^T / sqrt(head_dim), -inf where ``mask`` (rows, columns) is False. q: (..., rows, head_dim), k: (..., columns, head_dim)."""
    scores: Tensor = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores if mask is None else scores.masked_fill(~mask, -torch.inf)


def update(state: SoftmaxState, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> None:
    """Take one tile of keys and values into ``state``, in place. A row that has seen no key stays at m = -inf, l = 0, O = 0."""
    scores = tile_scores(q, k, mask)
    m = torch.maximum(state.m, scores.amax(-1))
    safe = torch.where(m == -torch.inf, 0.0, m)
    weights = torch.exp(scores - safe.unsqueeze(-1))
    shrink = torch.exp(state.m - safe)
    state.l.mul_(shrink).add_(weights.sum(-1))
    state.o.mul_(shrink.unsqueeze(-1)).add_(weights @ v)
    state.m.copy_(m)


def finish(state: SoftmaxState) -> tuple[Tensor, Tensor]:
    """Output O / l (..., rows, head_dim) and lse = m + ln l (..., rows). Every row must have seen a key."""
    return state.o / state.l.unsqueeze(-1), state.m + torch.log(state.l)


def tile_gradients(
    q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, lse: Tensor, delta: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """What one tile adds to dQ, dK and dV, the weights recomputed from ``lse`` (arXiv 2205.14135, Algorithm 4).

    delta: (..., rows), the row sums of grad_out x output. dK and dV have the queries' leading dimensions.
    """
    weights = torch.exp(tile_scores(q, k, mask) - lse.unsqueeze(-1))
    grad_scores = weights * (grad_out @ v.transpose(-1, -2) - delta.unsqueeze(-1)) * q.shape[-1] ** -0.5
    return grad_scores @ k, grad_scores.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ grad_out
