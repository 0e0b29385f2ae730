"""The small model that `zero` really trains: residual MLP blocks, each one flat vector of parameters that can be cut into shards.

Forward and backward are written out, so that a layer's parameters can leave a rank the moment its part is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn.functional import gelu

EXPANSION = 4
Saved = tuple[torch.Tensor, torch.Tensor]
"""What a block's backward needs: its input (tokens, hidden) and pre-activation (tokens, ffn)."""


@dataclass(frozen=True)
class Layout:
    """``layers`` blocks of width ``hidden``; each block's parameters are one vector, padded and cut into ``ranks`` shards."""

    layers: int
    hidden: int
    ranks: int

    @property
    def ffn(self) -> int:
        return EXPANSION * self.hidden

    @cached_property
    def elements(self) -> int:
        """Parameters of one block: W1 (ffn, hidden), b1 (ffn,), W2 (hidden, ffn), b2 (hidden,)."""
        return 2 * self.hidden * self.ffn + self.ffn + self.hidden

    @cached_property
    def shard(self) -> int:
        """Elements of one shard of one block."""
        return math.ceil(self.elements / self.ranks)

    @cached_property
    def padded(self) -> int:
        """Elements of one block once the last shards are filled up with zeros."""
        return self.shard * self.ranks

    @property
    def padding(self) -> int:
        return self.padded - self.elements

    def span(self, shard: int) -> slice:
        """Where ``shard`` stands in a block's padded vector."""
        return slice(shard * self.shard, (shard + 1) * self.shard)

    def is_padding(self, shard: int) -> bool:
        """Whether ``shard`` holds no parameter at all (more ranks than there are shards to fill)."""
        return shard * self.shard >= self.elements


def matrices(flat: torch.Tensor, layout: Layout) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views W1 (ffn, hidden), b1 (ffn,), W2 (hidden, ffn), b2 (hidden,) of one block's vector."""
    hidden, ffn = layout.hidden, layout.ffn
    w1, b1, w2, b2 = torch.split(flat[: layout.elements], [ffn * hidden, ffn, hidden * ffn, hidden])
    return w1.view(ffn, hidden), b1, w2.view(hidden, ffn), b2


class Block:
    """Forward and backward of one block, y = x + W2 gelu(W1 x + b1) + b2, on one rank's tokens.

    Parameters arrive as BF16 and gradients leave as BF16; the arithmetic between is fp32 (as tensor cores accumulate),
    in two scratch vectors that all ranks of this process share.
    """

    def __init__(self, layout: Layout, device: str) -> None:
        self.layout = layout
        self._weights = torch.empty(layout.padded, device=device)
        self._gradient = torch.zeros(layout.padded, device=device)

    def forward(self, x: torch.Tensor, flat: torch.Tensor) -> tuple[torch.Tensor, Saved]:
        """Output (tokens, hidden) and what backward needs."""
        w1, b1, w2, b2 = matrices(self._weights.copy_(flat), self.layout)
        inner = torch.addmm(b1, x, w1.t())
        return x + torch.addmm(b2, gelu(inner), w2.t()), (x, inner)

    def backward(self, grad: torch.Tensor, saved: Saved, flat: torch.Tensor, into: torch.Tensor, *, add: bool) -> torch.Tensor:
        """Gradient of the input (tokens, hidden); that of the block's vector is written (or added) to ``into``.

        ``into`` is (padded,) in BF16 and zero in the padding; an addition is rounded once, as in fused accumulation.
        """
        x, inner = saved
        w1, _, w2, _ = matrices(self._weights.copy_(flat), self.layout)
        g1, gb1, g2, gb2 = matrices(self._gradient, self.layout)
        torch.mm(grad.t(), gelu(inner), out=g2)
        torch.sum(grad, 0, out=gb2)
        grad_inner = torch.ops.aten.gelu_backward(grad @ w2, inner)
        torch.mm(grad_inner.t(), x, out=g1)
        torch.sum(grad_inner, 0, out=gb1)
        if add:
            into.add_(self._gradient)
        else:
            into.copy_(self._gradient)
        return torch.addmm(grad, grad_inner, w1)


def initial(layout: Layout, generator: torch.Generator, device: str) -> list[torch.Tensor]:
    """fp32 master vectors (padded,) of all blocks; values that BF16 holds exactly, zero in the padding."""
    vectors = []
    for _ in range(layout.layers):
        flat = torch.zeros(layout.padded)
        w1, _, w2, _ = matrices(flat, layout)
        w1.copy_(torch.randn(w1.shape, generator=generator) / math.sqrt(layout.hidden))
        w2.copy_(torch.randn(w2.shape, generator=generator) / math.sqrt(layout.ffn * layout.layers))
        vectors.append(flat.to(torch.bfloat16).float().to(device))
    return vectors


@dataclass(frozen=True)
class Batch:
    """One micro-batch of every rank: ``x`` and ``target`` of shape (ranks, tokens, hidden)."""

    x: torch.Tensor
    target: torch.Tensor


def batches(layout: Layout, tokens: int, count: int, generator: torch.Generator, device: str) -> list[Batch]:
    """``count`` micro-batches of random inputs whose targets come from one fixed random map."""
    teacher = torch.randn(layout.hidden, layout.hidden, generator=generator) / math.sqrt(layout.hidden)
    made = []
    for _ in range(count):
        x = torch.randn(layout.ranks, tokens, layout.hidden, generator=generator)
        made.append(Batch(x.to(device), torch.tanh(x @ teacher).to(device)))
    return made


def loss_and_gradient(y: torch.Tensor, target: torch.Tensor, accumulation: int) -> tuple[float, torch.Tensor]:
    """Mean squared error of one rank's micro-batch, and its gradient divided by ``accumulation``, shape of ``y``."""
    error = y - target
    return float(error.square().mean()), error * (2 / (error.numel() * accumulation))


def autograd_gradient(weights: Sequence[torch.Tensor], group: Sequence[Batch], layout: Layout) -> torch.Tensor:
    """Gradient (layers, padded) of the mean loss over the micro-batches of ``group`` and all ranks, as one batch.

    PyTorch's autograd in fp64: no ranks, no layers by hand. ``weights`` are the blocks' BF16 vectors (padded,).
    """
    leaves = [flat.double().requires_grad_() for flat in weights]
    total = torch.zeros((), dtype=torch.float64, device=leaves[0].device)
    for batch in group:
        y = batch.x.flatten(0, 1).double()
        for flat in leaves:
            w1, b1, w2, b2 = matrices(flat, layout)
            y = y + torch.nn.functional.linear(gelu(torch.nn.functional.linear(y, w1, b1)), w2, b2)
        total = total + torch.nn.functional.mse_loss(y, batch.target.flatten(0, 1).double()) / len(group)
    return torch.stack(torch.autograd.grad(total, leaves))
