"""Context parallelism by all-gather (Llama 3, arXiv 2407.21783): every rank gets all K and V first, then computes on its own.

Backward computes dK and dV of the whole sequence from the rank's own queries; a reduce-scatter adds them up and brings them home.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core.attention.online_softmax import SoftmaxState, finish
from core.fabric.base import Tensors

if TYPE_CHECKING:
    from core.training.context_parallel import Run


class AllGather:
    """Forward and backward over the hosted ranks; the gathered K and V are kept in between."""

    def __init__(self, run: Run) -> None:
        self.run, self.fabric = run, run.fabric

    def forward(self, q: Tensors, kv: Tensors) -> Tensors:
        """Output of every hosted rank, like ``q``."""
        run, ranks, size = self.run, self.fabric.ranks, self.fabric.size
        began = self.fabric.now()
        flat = self.fabric.all_gather({rank: kv[rank].flatten() for rank in ranks}).wait()
        self.q, self.gathered = q, {rank: flat[rank].view(size, *kv[rank].shape) for rank in ranks}
        if size > 1:
            for rank in ranks:
                run.hold(rank, "here", flat[rank][kv[rank].numel() :], "all K")
                for target in range(size):
                    run.sends(rank, target, kv[rank], f"K{rank}")
            run.story.gathered(began)
        self.out, self.lse = {}, {}
        for rank in ranks:
            state = SoftmaxState.of(q[rank])
            for source in range(size):
                run.attend(rank, source, state, q[rank], self.gathered[rank][source], source)
            self.out[rank], self.lse[rank] = finish(state)
            run.story.rank("forward", rank)
        run.story.ranks("forward")
        return self.out

    def backward(self, grad_out: Tensors) -> tuple[Tensors, Tensors]:
        """dQ like q and (dK, dV) like kv of every hosted rank."""
        run, ranks, size = self.run, self.fabric.ranks, self.fabric.size
        grad_q = {rank: torch.zeros_like(self.q[rank]) for rank in ranks}
        whole: Tensors = {}
        for rank in ranks:
            delta = (grad_out[rank] * self.out[rank]).sum(-1)
            parts = [
                run.differentiate(
                    rank, source, self.q[rank], self.gathered[rank][source], grad_out[rank], self.lse[rank], delta, grad_q[rank], source
                )
                for source in range(size)
            ]
            whole[rank] = torch.stack(parts).flatten()
            run.hold(rank, "coming", whole[rank], "all dK")
            run.story.rank("backward", rank)
        run.story.ranks("backward")
        summed = self.fabric.reduce_scatter(whole).wait()
        for rank in ranks:
            for target in range(size):
                run.sends(rank, target, summed[rank], f"dK{target}")
            run.hold(rank, "here", None)
            run.hold(rank, "coming", None)
            run.hold(rank, "grads", summed[rank], f"dK{rank}")
        if size > 1:
            run.story.home()
        return grad_q, {rank: summed[rank].view(self.gathered[rank].shape[1:]) for rank in ranks}
