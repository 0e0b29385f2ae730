"""Cross-entropy whose logits never meet: each rank has some rows of the vocabulary (arXiv 1909.08053, section 3).

Three all-reduces of one number a token take the place of gathering (tokens, vocabulary) logits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch

from core.fabric.base import Tensors

if TYPE_CHECKING:
    from core.training.tensor_parallel_layer import TensorParallel


def vocabulary_loss(layer: TensorParallel, logits: Tensors) -> tuple[Tensors, Tensors]:
    """Mean loss of all tokens on every rank, and the gradients of its logits (s, b, own rows).

    Sums are made in fp32 at least. Rows that only fill up the vocabulary have the logit -inf.
    """
    shape, target = layer.shape, layer.problem.target
    rows = shape.padded_vocabulary // shape.ranks
    scores, largest, inside, own_target = {}, {}, {}, {}
    for rank, value in logits.items():
        scores[rank] = value.to(torch.promote_types(value.dtype, torch.float32), copy=True)
        scores[rank][..., max(shape.vocabulary - rank * rows, 0) :] = -math.inf
        largest[rank] = scores[rank].amax(-1)
        own_target[rank] = (target - rank * rows).clamp(0, rows - 1)[..., None]
        inside[rank] = (target >= rank * rows) & (target < (rank + 1) * rows)
    largest = _all_reduce(layer, largest, "max")
    picked, total = {}, {}
    for rank, value in scores.items():
        picked[rank] = value.gather(-1, own_target[rank]).squeeze(-1).where(inside[rank], 0.0)
        scores[rank] = (value - largest[rank][..., None]).exp()
        total[rank] = scores[rank].sum(-1)
    picked = _all_reduce(layer, picked, "sum")
    total = _all_reduce(layer, total, "sum")
    loss, gradient = {}, {}
    for rank, value in scores.items():
        loss[rank] = (total[rank].log() + largest[rank] - picked[rank]).mean()
        share = value / total[rank][..., None]
        share.scatter_add_(-1, own_target[rank], -inside[rank][..., None].to(share.dtype))
        gradient[rank] = (share / shape.tokens).to(logits[rank].dtype)
    layer.story.loss(loss)
    return loss, gradient


def _all_reduce(layer: TensorParallel, tensors: Tensors, op: Literal["sum", "max"]) -> Tensors:
    """One number a token, (s, b), over all ranks."""
    with layer.counted("loss forward", "all_reduce", shown_as=2):  # fp32
        found = layer.fabric.all_reduce({rank: value.flatten() for rank, value in tensors.items()}, op, n=layer.issued).wait()
    return {rank: value.view_as(tensors[rank]) for rank, value in found.items()}
