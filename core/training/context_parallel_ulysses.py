"""Ulysses (arXiv 2309.14509): an all-to-all turns "some tokens, all heads" into "all tokens, some heads", and one turns it back.

Between the two every rank has the whole sequence for its own heads, so attention needs no communication and no split matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from core.attention.online_softmax import SoftmaxState, finish
from core.fabric.base import Tensors

if TYPE_CHECKING:
    from core.training.context_parallel import Run

Parts = dict[int, list[Tensor]]
"""By rank: one tensor for, or from, each rank."""
Q_HEADS, KV_HEADS, TOKENS = 1, 2, -2
"""Dimensions of q (batch, kv_heads, group, tokens, head_dim) and kv (2, batch, kv_heads, tokens, head_dim)."""


class Ulysses:
    """Forward and backward over the hosted ranks; q, K, V, output and lse of a rank's heads, all tokens, are kept in between."""

    def __init__(self, run: Run) -> None:
        self.run, self.fabric = run, run.fabric

    def forward(self, q: Tensors, kv: Tensors) -> Tensors:
        """Output of every hosted rank, like ``q``."""
        run, ranks = self.run, self.fabric.ranks
        began = self.fabric.now()
        self.q, self.kv = self.to_heads(q, Q_HEADS, "q"), self.to_heads(kv, KV_HEADS, "K, V")
        if self.fabric.size > 1:
            for rank in ranks:
                run.hold(rank, "here", self.kv[rank], "K heads")
            run.story.exchanged("forward", began)
        self.out, self.lse = {}, {}
        for rank in ranks:
            state = SoftmaxState.of(self.q[rank])
            run.attend_whole(rank, state, self.q[rank], self.kv[rank])
            self.out[rank], self.lse[rank] = finish(state)
            run.story.rank("forward", rank)
        run.story.ranks("forward")
        back = self.to_tokens(self.out, Q_HEADS, "o")
        if self.fabric.size > 1:
            run.story.back("forward")
        return back

    def backward(self, grad_out: Tensors) -> tuple[Tensors, Tensors]:
        """dQ like q and (dK, dV) like kv of every hosted rank."""
        run, ranks = self.run, self.fabric.ranks
        began = self.fabric.now()
        grads = self.to_heads(grad_out, Q_HEADS, "do")
        if self.fabric.size > 1:
            run.story.exchanged("backward", began)
        grad_q: Tensors = {}
        grad_kv: Tensors = {}
        for rank in ranks:
            delta = (grads[rank] * self.out[rank]).sum(-1)
            grad_q[rank], grad_kv[rank] = run.differentiate_whole(rank, self.q[rank], self.kv[rank], grads[rank], self.lse[rank], delta)
            run.hold(rank, "coming", grad_kv[rank], "dK head")
            run.story.rank("backward", rank)
        run.story.ranks("backward")
        back_q, back_kv = self.to_tokens(grad_q, Q_HEADS, "dq"), self.to_tokens(grad_kv, KV_HEADS, "dK, dV")
        for rank in ranks:
            run.hold(rank, "here", None)
            run.hold(rank, "coming", None)
            run.hold(rank, "grads", back_kv[rank], f"dK{rank}")
        if self.fabric.size > 1:
            run.story.back("backward")
        return back_q, back_kv

    def to_heads(self, tensors: Tensors, heads: int, name: str) -> Tensors:
        """Every rank sends each rank that one's heads of its own tokens, and gets its own heads of everybody's tokens, in rank order."""
        size = self.fabric.size
        got = self.exchange({rank: [part.contiguous() for part in tensors[rank].chunk(size, heads)] for rank in tensors}, name)
        return {rank: torch.cat(parts, TOKENS) for rank, parts in got.items()}

    def to_tokens(self, tensors: Tensors, heads: int, name: str) -> Tensors:
        """The way back: every rank gets its own tokens from each rank and puts the heads side by side."""
        size = self.fabric.size
        got = self.exchange({rank: [part.contiguous() for part in tensors[rank].chunk(size, TOKENS)] for rank in tensors}, name)
        return {rank: torch.cat(parts, heads) for rank, parts in got.items()}

    def exchange(self, parts: Parts, name: str) -> Parts:
        """The all-to-all: ``parts[r][p]`` goes from rank r to rank p."""
        for rank, mine in parts.items():
            for target, part in enumerate(mine):
                self.run.sends(rank, target, part, name)
        return self.fabric.all_to_all(parts).wait()
