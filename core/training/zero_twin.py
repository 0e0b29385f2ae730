"""The same training without sharding: whole tensors, no fabric, one optimizer. What every ZeRO stage must equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from core.training.zero_model import Batch, Block, Layout, loss_and_gradient

LEARNING_RATE = {"adamw": 1e-2, "sgd": 0.1}
BF16_ROUNDING = 2.0**-8
"""Largest relative error of rounding to BF16 (8 bits of precision)."""


def make_optimizer(name: str, masters: Sequence[torch.Tensor]) -> torch.optim.Optimizer:
    """PyTorch's own AdamW or SGD over fp32 master tensors, AdamW's moments allocated at once.

    The plain (not fused) kernels round every element the same way wherever a shard begins.
    """
    if name == "sgd":
        return torch.optim.SGD(masters, lr=LEARNING_RATE[name], foreach=False)
    optimizer = torch.optim.AdamW(masters, lr=LEARNING_RATE[name], foreach=False)
    for master in masters:
        optimizer.state[master] = {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(master),
            "exp_avg_sq": torch.zeros_like(master),
        }
    return optimizer


@dataclass(frozen=True)
class Trajectory:
    """What a training leaves behind: averaged gradients (layers, padded) of every step, and the last states.

    ``magnitude`` is the mean over ranks and micro-batches of the size of each gradient element in the first step.
    """

    gradients: list[torch.Tensor]
    weights: torch.Tensor
    master: torch.Tensor
    exp_avg_sq: torch.Tensor | None
    magnitude: torch.Tensor


def ring_average(own: torch.Tensor) -> torch.Tensor:
    """Average of ``own`` (ranks, padded) over ranks, sums of its dtype in ring order: chunk j adds ranks j+1, j+2, ..., j."""
    ranks = len(own)
    chunks = own.view(ranks, ranks, -1)
    chunk = torch.arange(ranks)
    total = chunks[(chunk + 1) % ranks, chunk]
    for distance in range(2, ranks + 1):
        total.add_(chunks[(chunk + distance) % ranks, chunk])
    return total.div_(ranks).flatten()


def unsharded(
    start: Sequence[torch.Tensor], steps: Sequence[Sequence[Batch]], layout: Layout, optimizer: str, *, average_each: bool, device: str
) -> Trajectory:
    """Train on whole tensors. ``average_each``: after every micro-batch (stages 2, 3), else once a step (0, 1)."""
    block = Block(layout, device)
    masters = [flat.clone() for flat in start]
    weights = [flat.to(torch.bfloat16) for flat in start]
    update = make_optimizer(optimizer, masters)
    gradients, magnitude = [], torch.zeros(layout.layers, layout.padded, device=device)
    for number, group in enumerate(steps):
        own = torch.zeros(layout.layers, layout.ranks, layout.padded, dtype=torch.bfloat16, device=device)
        averaged: torch.Tensor | None = None
        for micro, batch in enumerate(group):
            accumulate = micro > 0 and not average_each
            before = own.clone() if accumulate else 0.0
            _local_gradients(block, weights, batch, len(group), own, add=accumulate)
            if number == 0:
                magnitude += (own - before).float().abs().mean(1)
            if average_each or micro == len(group) - 1:
                mean = torch.stack([ring_average(layer) for layer in own])
                averaged = mean if averaged is None else averaged.add_(mean)
        assert averaged is not None
        gradients.append(averaged)
        for master, gradient in zip(masters, averaged, strict=True):
            master.grad = gradient.float()
        update.step()
        for flat, master in zip(weights, masters, strict=True):
            flat.copy_(master)
    squares = torch.stack([update.state[m]["exp_avg_sq"] for m in masters]) if optimizer == "adamw" else None
    return Trajectory(gradients, torch.stack(weights), torch.stack(masters), squares, magnitude)


def _local_gradients(
    block: Block, weights: Sequence[torch.Tensor], batch: Batch, accumulation: int, own: torch.Tensor, *, add: bool
) -> None:
    """Write (or add) the gradient of every rank's micro-batch to ``own`` (layers, ranks, padded)."""
    for rank in range(own.shape[1]):
        y, saved = batch.x[rank], []
        for flat in weights:
            y, kept = block.forward(y, flat)
            saved.append(kept)
        _, grad = loss_and_gradient(y, batch.target[rank], accumulation)
        for layer in reversed(range(len(weights))):
            grad = block.backward(grad, saved[layer], weights[layer], own[layer, rank], add=add)
