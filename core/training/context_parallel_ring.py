"""Ring attention (arXiv 2310.01889): every rank keeps its queries while K and V travel round the ring, block by block.

Forward: P - 1 hops of (K, V). Backward: (K, V) travel again, and dK, dV follow one hop behind, so that every rank that saw a
block adds its part before it comes home.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from core.attention.online_softmax import SoftmaxState, finish
from core.fabric import ring
from core.fabric.base import Tensors, Work

if TYPE_CHECKING:
    from core.training.context_parallel import Run

Coming = dict[int, Work[torch.Tensor]]
"""By rank, what the previous rank has sent and this one waits for."""


class Ring:
    """Forward and backward over the hosted ranks; what backward needs is kept in between."""

    def __init__(self, run: Run) -> None:
        self.run, self.fabric = run, run.fabric

    def source(self, rank: int, hop: int) -> int:
        """Whose block of K and V ``rank`` has on ``hop``: first its own, then what it receives."""
        return ring.gather_chunk(rank, hop, self.fabric.size)

    def forward(self, q: Tensors, kv: Tensors) -> Tensors:
        """Output of every hosted rank, like ``q``."""
        run, ranks = self.run, self.fabric.ranks
        self.q, self.kv = q, kv
        state = {rank: SoftmaxState.of(q[rank]) for rank in ranks}
        here = dict(kv)
        for hop in range(self.fabric.size):
            arriving = self.pass_on(here, hop)
            for rank in ranks:
                run.attend(rank, self.source(rank, hop), state[rank], q[rank], here[rank], hop)
                run.story.tile("forward", rank, self.source(rank, hop), hop)
            run.story.hop("forward", hop)
            here = self.receive(arriving, hop)
        self.out, self.lse = {}, {}
        for rank in ranks:
            self.out[rank], self.lse[rank] = finish(state[rank])
        return self.out

    def backward(self, grad_out: Tensors) -> tuple[Tensors, Tensors]:
        """dQ like q and (dK, dV) like kv of every hosted rank."""
        run, ranks = self.run, self.fabric.ranks
        grad_q = {rank: torch.zeros_like(self.q[rank]) for rank in ranks}
        delta = {rank: (grad_out[rank] * self.out[rank]).sum(-1) for rank in ranks}
        home: Tensors = {}
        here, following = dict(self.kv), Coming()
        for hop in range(self.fabric.size):
            arriving = self.pass_on(here, hop)
            grad_kv: Tensors = {}
            for rank in ranks:
                grad_kv[rank] = run.differentiate(
                    rank, self.source(rank, hop), self.q[rank], here[rank], grad_out[rank], self.lse[rank], delta[rank], grad_q[rank], hop
                )
                run.story.tile("backward", rank, self.source(rank, hop), hop)
            run.story.hop("backward", hop)
            if hop == 0:
                home = grad_kv  # a rank's own part waits at home for those of the others
                for rank in ranks:
                    run.hold(rank, "grads", home[rank], f"dK{rank}")
            else:
                for rank, work in following.items():
                    grad_kv[rank] += work.wait()
                following = self.send_after(grad_kv, hop)
            here = self.receive(arriving, hop)
        for rank, work in following.items():
            home[rank] += work.wait()
            run.hold(rank, "coming", None)
        if following:
            run.story.home()
        return grad_q, home

    def pass_on(self, here: Tensors, hop: int) -> Coming:
        """Every rank sends the (K, V) it has to the next one while it computes with them; what arrives is for the next hop."""
        size = self.fabric.size
        if hop == size - 1:
            return {}
        for rank in self.fabric.ranks:
            self.fabric.send(rank, ring.next_rank(rank, size), here[rank], n=self.source(rank, hop))
            self.run.sends(rank, ring.next_rank(rank, size), here[rank], f"K{self.source(rank, hop)}")
        arriving = {}
        for rank in self.fabric.ranks:
            buffer, source = torch.empty_like(here[rank]), self.source(rank, hop + 1)
            self.run.hold(rank, "arriving", buffer, f"K{source}…")
            arriving[rank] = self.fabric.recv(rank, ring.previous_rank(rank, size), buffer, n=source)
        self.run.story.pass_(hop)
        return arriving

    def receive(self, arriving: Coming, hop: int) -> Tensors:
        """Wait for the next block. The one before is dropped; a rank's own stays."""
        here = {}
        for rank in self.fabric.ranks:
            if rank in arriving:
                here[rank] = arriving[rank].wait()
                self.run.hold(rank, "here", here[rank], f"K{self.source(rank, hop + 1)}")
            else:
                self.run.hold(rank, "here", None)
            self.run.hold(rank, "arriving", None)
        return here

    def send_after(self, grad_kv: Tensors, hop: int) -> Coming:
        """The block that has left takes dK and dV with it, one hop behind: the next rank adds its own part to them."""
        size = self.fabric.size
        for rank in self.fabric.ranks:
            self.fabric.send(rank, ring.next_rank(rank, size), grad_kv[rank], n=self.source(rank, hop))
            self.run.sends(rank, ring.next_rank(rank, size), grad_kv[rank], f"dK{self.source(rank, hop)}")
        following = {}
        for rank in self.fabric.ranks:
            buffer, source = torch.empty_like(grad_kv[rank]), self.source(rank, hop + 1)
            self.run.hold(rank, "coming", buffer, f"dK{source}…")
            following[rank] = self.fabric.recv(rank, ring.previous_rank(rank, size), buffer, n=source)
        self.run.story.gradients_pass(hop)
        return following
