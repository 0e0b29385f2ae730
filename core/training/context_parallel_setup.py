"""The parameters of `context_parallel`, the full-size attention they describe, and the smaller tensors that stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.recording import Recorder
from core.simulation import Params
from core.training.context_parallel_splits import Split, tile_work, unit
from core.training.divisibility import divisors, multiples

Method = Literal["ring", "all_gather", "ulysses"]
BF16 = 2
"""Bytes of an element of the full-size tensors."""
FORWARD_FLOP = 4
"""FLOP of a score element and head dimension: Q K^T and P V, each a multiply and an add."""
BACKWARD_FLOP = 10
"""Five products instead of two: the scores again, dP, dV, dQ, dK (FlashAttention-2, arXiv 2307.08691)."""
LARGEST_PRODUCT = 2**26
"""Bound of batch x heads x sequence² x head_dim of the tensors that are really computed."""
LONGEST_HEAD = 16
FEWEST_KV_HEADS = 2


class ContextParallelParams(Params, frozen=True):
    """What `context_parallel` takes; sizes are those of the full-size attention layer."""

    ranks: Annotated[int, Meta(ge=1, le=64, description="ranks that share one sequence")] = 4
    sequence: Annotated[int, Meta(ge=1, le=2**27, description="tokens of the whole sequence")] = 32768
    heads: Annotated[int, Meta(ge=1, le=1024, description="query heads")] = 32
    kv_heads: Annotated[int, Meta(ge=0, le=1024, description="key and value heads; 0: as many as heads, fewer: GQA")] = 0
    head_dim: Annotated[int, Meta(ge=1, le=1024, description="numbers in a head's vector")] = 128
    batch: Annotated[int, Meta(ge=1, le=4096, description="sequences side by side")] = 1
    split: Annotated[Split, Meta(description="which tokens a rank has: a block, two mirrored chunks, every P-th token")] = "contiguous"
    method: Annotated[Method, Meta(description="pass K, V round a ring, gather them, or exchange heads for tokens")] = "ring"
    causal: Annotated[bool, Meta(description="a query sees no later key")] = True
    rope: Annotated[
        Literal["global", "local", "off"],
        Meta(description="rotate q and k by positions in the whole sequence; local counts from 0 on every rank, which is wrong"),
    ] = "global"
    link: Annotated[str, Meta(description="link between ranks: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_a100"
    accelerator: Annotated[str, Meta(description="device whose BF16 peak times the compute: a100, h100, ...")] = "a100"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of q (batch, heads, sequence, head_dim) and of k and v (batch, kv_heads, sequence, head_dim)."""

    batch: int
    heads: int
    kv_heads: int
    sequence: int
    head_dim: int

    @property
    def kv_elements(self) -> int:
        """Elements of K, and as many of V, of the whole sequence."""
        return self.batch * self.kv_heads * self.sequence * self.head_dim

    @property
    def q_elements(self) -> int:
        return self.batch * self.heads * self.sequence * self.head_dim


@dataclass(frozen=True)
class Job:
    """One run: what was asked for at full size, and the small tensors (same split, same heads per K, V head) that do the work."""

    params: ContextParallelParams
    full: Shape
    small: Shape
    link: Link
    device: Accelerator

    @classmethod
    def of(cls, params: ContextParallelParams) -> Job:
        """BadInput for sizes that the ranks do not divide, with the nearest that work."""
        _check(params)
        kv_heads = params.kv_heads or params.heads
        full = Shape(batch=params.batch, heads=params.heads, kv_heads=kv_heads, sequence=params.sequence, head_dim=params.head_dim)
        return cls(params, full, _stand_in(params, full), link(params.link), accelerator(params.accelerator))

    @property
    def ranks(self) -> int:
        return self.params.ranks

    @property
    def scale(self) -> float:
        """Bytes of the full-size tensors in BF16 for one byte of the small ones in fp64."""
        return self.full.kv_elements * BF16 / (self.small.kv_elements * 8)

    @property
    def block(self) -> int:
        """Tokens of one rank."""
        return self.params.sequence // self.ranks

    @property
    def kv_block_bytes(self) -> float:
        """K and V of one rank's tokens."""
        return 2 * self.full.kv_elements / self.ranks * BF16

    def work(self, rank: int, source: int) -> float:
        """Score elements of the tile (queries of ``rank``, keys of ``source``) over all heads of the batch, at full size."""
        p = self.params
        return tile_work(p.split, p.sequence, p.ranks, rank, source, causal=p.causal) * self.full.heads * self.full.batch

    @property
    def whole_work(self) -> float:
        """The same of the whole sequence with itself."""
        return self.params.sequence**2 / (2 if self.params.causal else 1) * self.full.heads * self.full.batch

    def seconds(self, elements: float, flop: int) -> float:
        """Compute of so many score elements at the accelerator's BF16 peak."""
        return elements * flop * self.full.head_dim / self.device.flops["bf16"]

    def sent_bytes(self, backward: bool) -> float:
        """Bytes that each rank puts on the wire, by the formula of its method."""
        p, share = self.ranks, (self.ranks - 1) / self.ranks
        if self.params.method == "ulysses":
            return share * 2 * (self.full.q_elements + self.full.kv_elements) / p * BF16
        kv = share * 2 * self.full.kv_elements * BF16
        return 2 * kv if backward and self.params.method == "ring" else kv

    @property
    def minimum_block(self) -> float:
        """Tokens of a block whose compute hides the next block's journey (arXiv 2310.01889: c = F/B; B in bytes, BF16 K and V).

        4 c² h d FLOP against 4 c h_kv d bytes; where causal masks half of every hop's tile (zigzag, striped), twice as many.
        """
        halved = self.params.causal and self.params.split != "contiguous"
        return self.device.flops["bf16"] / self.link.bandwidth * self.full.kv_heads / self.full.heads * (2 if halved else 1)


def formula_facts(rec: Recorder, job: Job) -> None:
    """What needs no run: the shapes, and the block that ring attention needs."""
    p = job.params
    causal = "causal " if p.causal else ""
    part = "2F/B" if p.causal and p.split != "contiguous" else "F/B"
    note = f"ring attention, {causal}{p.split}: {part} x kv_heads / heads, F of {job.device.name}, B of {job.link.name} (arXiv 2310.01889)"
    rec.fact("minimum_block", job.minimum_block, "tokens", "formula", note)
    rec.fact("block", job.block, "tokens", "formula", "sequence / ranks")
    if job.small != job.full:
        s = job.small
        shape = f"{s.sequence:,} tokens, {s.heads} heads, {s.kv_heads} of K and V, {s.head_dim} numbers each"
        rec.fact("computed_sequence", s.sequence, "tokens", note=f"tensors that are really computed: {shape}; figures are of the full size")


def _stand_in(params: ContextParallelParams, full: Shape) -> Shape:
    """The full shape, or a smaller one with the same split and as many query heads to each K, V head."""
    group = full.heads // full.kv_heads
    kv_heads = params.ranks if params.method == "ulysses" else min(full.kv_heads, FEWEST_KV_HEADS)
    head_dim = min(full.head_dim, LONGEST_HEAD)
    batch = min(full.batch, 2)
    width = batch * kv_heads * group * head_dim
    step = 2 * params.ranks
    longest = int((LARGEST_PRODUCT / width) ** 0.5)
    sequence = full.sequence if full.sequence <= longest else max(longest // step, 1) * step
    if full.batch * full.heads * full.head_dim * full.sequence**2 <= LARGEST_PRODUCT:
        return full
    return Shape(batch=batch, heads=kv_heads * group, kv_heads=kv_heads, sequence=min(sequence, full.sequence), head_dim=head_dim)


def _check(p: ContextParallelParams) -> None:
    step = unit(p.split, p.ranks)
    if p.sequence % step:
        cut = f"2 x {p.ranks} = {step}" if p.split == "zigzag" else f"{step}"
        found = f"{p.sequence:,} tokens do not cut into {cut} equal chunks ({p.split} split on {p.ranks} ranks)"
        raise BadInput("context_parallel.sequence", found, f"a multiple of {step}, nearest {multiples(p.sequence, step)}")
    kv_heads = p.kv_heads or p.heads
    if p.heads % kv_heads:
        found = f"{kv_heads} do not divide {p.heads} heads"
        raise BadInput("context_parallel.kv_heads", found, f"a divisor of {p.heads}, nearest {divisors(kv_heads, p.heads)}")
    if p.head_dim % 2 and p.rope != "off":
        found = f"{p.head_dim} numbers do not make pairs to rotate"
        raise BadInput("context_parallel.head_dim", found, f"an even number, nearest {multiples(p.head_dim, 2)}; or rope = off")
    for name, count in (("heads", p.heads), ("kv_heads", kv_heads)) if p.method == "ulysses" else ():
        if count % p.ranks:
            found = f"{count} heads do not go over {p.ranks} ranks in equal parts (ulysses gives each rank whole heads)"
            raise BadInput(f"context_parallel.{name}", found, f"a multiple of {p.ranks}, nearest {multiples(count, p.ranks)}")
