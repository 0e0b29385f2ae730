"""Context parallelism: one sequence over many ranks, attention computed for real, forward and backward.

The algorithms stand in context_parallel_ring, _gather and _ulysses. Their tensors are small and fp64; bytes and times on
screen are those of the full size in BF16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from core.attention.online_softmax import SoftmaxState, tile_gradients, update
from core.fabric.base import Tensors
from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.simulation import simulation
from core.training import context_parallel_checks as checks
from core.training.context_parallel_gather import AllGather
from core.training.context_parallel_ring import Ring
from core.training.context_parallel_rope import rotate
from core.training.context_parallel_setup import BACKWARD_FLOP, FORWARD_FLOP, ContextParallelParams, Job, formula_facts
from core.training.context_parallel_splits import Chunk, chunks, unmasked
from core.training.context_parallel_story import Story
from core.training.context_parallel_ulysses import Ulysses
from core.training.context_parallel_views import Pass, Slot, Views


class Method(Protocol):
    """Attention over the hosted ranks: q (batch, kv_heads, group, tokens, head_dim), kv (2, batch, kv_heads, tokens, head_dim)."""

    def forward(self, q: Tensors, kv: Tensors) -> Tensors: ...
    def backward(self, grad_out: Tensors) -> tuple[Tensors, Tensors]: ...


METHODS: dict[str, type[Ring] | type[AllGather] | type[Ulysses]] = {"ring": Ring, "all_gather": AllGather, "ulysses": Ulysses}


@simulation("context_parallel")
def context_parallel(params: ContextParallelParams, rec: Recorder) -> None:
    """One sequence over many ranks under a causal mask: who idles?"""
    job = Job.of(params)
    formula_facts(rec, job)
    whole = checks.Whole.draw(job, rec.generator, rec.device)
    run = Run(job, rec)
    method: Method = METHODS[params.method](run)
    q, kv = run.local(whole.q), run.local(whole.kv)
    run.story.start(q, kv)

    rec.phase("forward")
    out = method.forward(run.rotated(q), run.rotated_keys(kv))
    run.story.output(checks.output(rec, run, whole, out))

    rec.phase("backward")
    grad_q, grad_kv = method.backward(run.local(whole.grad_out))
    checks.gradients(rec, run, whole, run.rotated(grad_q, back=True), run.rotated_keys(grad_kv, back=True))
    checks.work_and_bytes(rec, run)
    run.story.end()


class Run:
    """One run: the hosted ranks' tensors, what each computes and when, and the steps that say so."""

    def __init__(self, job: Job, rec: Recorder) -> None:
        self.job, self.rec = job, rec
        self.fabric = SimulatedFabric(job.ranks, job.link, scale=job.scale)
        self.views = Views(rec, job, self.fabric)
        self.device = rec.device
        self.work = dict.fromkeys(self.fabric.ranks, 0.0)
        self.busy = dict.fromkeys(self.fabric.ranks, 0.0)
        self.counted = dict.fromkeys(self.fabric.ranks, 0)
        self.miscounted = 0
        self.story = Story(self)

    def chunks(self, rank: int) -> list[Chunk]:
        """The positions of ``rank`` in the small sequence."""
        return chunks(self.job.params.split, self.job.small.sequence, self.fabric.size, rank)

    def positions(self, rank: int) -> Tensor:
        """(tokens,) the same as a tensor, in the order in which the rank holds them."""
        parts = [torch.arange(c.first, c.last + 1, c.step, device=self.device) for c in self.chunks(rank)]
        return torch.cat(parts)

    def local(self, whole: Tensor) -> Tensors:
        """What each hosted rank has of a tensor (..., sequence, head_dim)."""
        return {rank: whole[..., self.positions(rank), :] for rank in self.fabric.ranks}

    def rotated(self, tensors: Tensors, *, back: bool = False) -> Tensors:
        """RoPE by the positions that each rank takes its tokens to have; ``back`` is its transpose, for gradients."""
        rope = self.job.params.rope
        if rope == "off":
            return tensors
        turned = {}
        for rank, tensor in tensors.items():
            positions = self.positions(rank)
            turned[rank] = rotate(tensor, positions if rope == "global" else torch.arange(len(positions), device=self.device), back=back)
        return turned

    def rotated_keys(self, kv: Tensors, *, back: bool = False) -> Tensors:
        """The same for the K of (K, V)."""
        keys = self.rotated({rank: pair[0] for rank, pair in kv.items()}, back=back)
        return {rank: torch.stack([keys[rank], pair[1]]) for rank, pair in kv.items()}

    # compute ---------------------------------------------------------------------------------------------------------------

    def attend(self, rank: int, source: int, state: SoftmaxState, q: Tensor, kv: Tensor, column: int) -> None:
        """``rank`` takes the block of ``source`` into its state, chunk by chunk, and skips what the mask hides."""
        for rows, columns, mask in self._tiles(rank, source):
            k, v = (part[..., columns, :].unsqueeze(2) for part in kv)
            update(state.rows(rows), q[..., rows, :], k, v, mask)
        self._spend("forward", rank, source, self.job.work(rank, source), column)

    def differentiate(
        self, rank: int, source: int, q: Tensor, kv: Tensor, grad_out: Tensor, lse: Tensor, delta: Tensor, grad_q: Tensor, column: int
    ) -> Tensor:
        """Adds to ``grad_q`` and returns what ``rank`` contributes to (dK, dV) of the block of ``source``."""
        grad_kv = torch.zeros_like(kv)
        for rows, columns, mask in self._tiles(rank, source, count=False):
            k, v = (part[..., columns, :].unsqueeze(2) for part in kv)
            dq, dk, dv = tile_gradients(q[..., rows, :], k, v, grad_out[..., rows, :], lse[..., rows], delta[..., rows], mask)
            grad_q[..., rows, :] += dq
            grad_kv[0][..., columns, :] += dk.sum(2)  # the query heads of a group share one K, V head
            grad_kv[1][..., columns, :] += dv.sum(2)
        self._spend("backward", rank, source, self.job.work(rank, source), column)
        return grad_kv

    def attend_whole(self, rank: int, state: SoftmaxState, q: Tensor, kv: Tensor) -> None:
        """``rank`` attends over the whole sequence (tokens in rank order) for its own heads."""
        mask = self._whole_mask()
        update(state, q, kv[0].unsqueeze(2), kv[1].unsqueeze(2), mask)
        self._count(rank, mask, self.job.small.sequence**2, self.fabric.size)
        self._spend_whole("forward", rank)

    def differentiate_whole(self, rank: int, q: Tensor, kv: Tensor, grad_out: Tensor, lse: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """dQ and (dK, dV) of the heads of ``rank``, all tokens."""
        dq, dk, dv = tile_gradients(q, kv[0].unsqueeze(2), kv[1].unsqueeze(2), grad_out, lse, delta, self._whole_mask())
        self._spend_whole("backward", rank)
        return dq, torch.stack([dk.sum(2), dv.sum(2)])

    def _tiles(self, rank: int, source: int, *, count: bool = True) -> list[tuple[slice, slice, Tensor | None]]:
        """(rows, columns, mask) of every pair of chunks that is not wholly masked; the mask is None where nothing is."""
        tiles: list[tuple[slice, slice, Tensor | None]] = []
        causal, left = self.job.params.causal, 0
        for i, queries in enumerate(self.chunks(rank)):
            for j, keys in enumerate(self.chunks(source)):
                size, expected = queries.size, unmasked(queries, keys, causal=causal)
                if causal and keys.first > queries.last:
                    continue
                rows, columns = (slice(at * size, (at + 1) * size) for at in (i, j))
                mask = None
                if causal and keys.last > queries.first:
                    mask = self._range(queries).unsqueeze(1) >= self._range(keys)
                left += expected
                tiles.append((rows, columns, mask))
                if count:
                    self.miscounted += self._count(rank, mask, size * size) != expected
        return tiles

    def _range(self, chunk: Chunk) -> Tensor:
        return torch.arange(chunk.first, chunk.last + 1, chunk.step, device=self.device)

    def _whole_mask(self) -> Tensor | None:
        if not self.job.params.causal:
            return None
        order = torch.cat([self.positions(rank) for rank in range(self.fabric.size)])
        return order.unsqueeze(1) >= order

    def _count(self, rank: int, mask: Tensor | None, elements: int, parts: int = 1) -> int:
        """Score elements that ``mask`` leaves, counted from the mask itself and added up for all heads that the rank has."""
        left = elements if mask is None else int(mask.sum())
        self.counted[rank] += left * self.job.small.heads * self.job.small.batch // parts
        return left

    def _spend(self, which: Pass, rank: int, source: int, work: float, column: int) -> None:
        """Charge the rank's compute stream for so many score elements of the full size."""
        seconds = self.job.seconds(work, FORWARD_FLOP if which == "forward" else BACKWARD_FLOP)
        start = self.fabric.compute(rank, seconds, which, "K{n}", source)
        if which == "forward":
            self.work[rank] += work
        self.busy[rank] += seconds
        self.views.tile(which, rank, column, source, self.views.share(work))
        self.story.computed(rank, start, seconds, work)

    def _spend_whole(self, which: Pass, rank: int) -> None:
        """The same for all tokens and the rank's share of the heads."""
        size = self.fabric.size
        for source in range(size):
            self._spend(which, rank, source, sum(self.job.work(owner, source) for owner in range(size)) / size, source)

    # memory and messages, as they are shown ----------------------------------------------------------------------------------

    def hold(self, rank: int, slot: Slot, tensors: Tensor | Sequence[Tensor] | None, label: str = "") -> None:
        self.views.hold(rank, slot, tensors, label)

    def sends(self, rank: int, target: int, tensor: Tensor, label: str) -> None:
        if target != rank:
            self.views.send(rank, target, tensor, label)
