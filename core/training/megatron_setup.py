"""What `tensor_parallel` and `sequence_parallel` take: the layer's sizes, what of it divides by what, and what its pieces cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.simulation import Params
from core.training.megatron_layer import Shape

MOST_FLOP = 4e9
"""Of a forward and backward. A larger layer has its shapes, messages and saved tensors, but no values."""
UTILISATION = 0.45
"""Share of an accelerator's BF16 peak that the matmuls of a dense model reach (41 to 57 % in arXiv 2205.05198)."""
TIMED_ON = "a100"
FULL_SIZE = 4096
"""Width at which a small layer is timed: its own matmuls would be shorter than a message's latency."""
BYTES = 2
"""Of a number of an activation, a gradient, a parameter: the convention on screen is BF16; dropout masks take one byte."""


class LayerParams(Params, frozen=True):
    """One transformer layer over tensor-parallel ranks."""

    ranks: Annotated[int, Meta(ge=1, le=64, description="tensor-parallel ranks")] = 4
    hidden: Annotated[int, Meta(ge=1, le=65536, description="width of the layer, a multiple of heads")] = 64
    ffn: Annotated[int, Meta(ge=1, le=262144, description="width inside the MLP, a multiple of ranks")] = 256
    heads: Annotated[int, Meta(ge=1, le=1024, description="attention heads, a multiple of ranks")] = 8
    sequence: Annotated[int, Meta(ge=1, le=131072, description="tokens of a sequence")] = 32
    batch: Annotated[int, Meta(ge=1, le=1024, description="sequences")] = 2
    vocabulary: Annotated[int, Meta(ge=2, le=10**6, description="rows of the output embedding; padded to a multiple of ranks")] = 64
    link: Annotated[str, Meta(description="link between ranks: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_a100"
    magnify: Annotated[
        int, Meta(ge=0, le=4096, description="times are those of a layer so many times as wide and as long; 0 = about 4096 wide")
    ] = 0


class PieceTime(NamedTuple):
    """Seconds on one rank: forward, backward without the part that can wait, and that part (a weight gradient)."""

    forward: float
    backward: float
    weight: float = 0.0


@dataclass(frozen=True)
class Job:
    """One layer to be cut: its shape, the hardware it is timed on, and whether its values fit this machine."""

    shape: Shape
    link: Link
    device: Accelerator
    magnify: int

    @classmethod
    def of(cls, params: LayerParams, where: str, *, cut_sequence: bool = False) -> Job:
        """BadInput where a size does not divide, with the nearest that do."""
        multiple(where, "hidden", params.hidden, "heads", params.heads)
        multiple(where, "heads", params.heads, "ranks", params.ranks)
        multiple(where, "ffn", params.ffn, "ranks", params.ranks)
        if cut_sequence:
            multiple(where, "sequence", params.sequence, "ranks", params.ranks)
        shape = Shape(params.ranks, params.hidden, params.ffn, params.heads, params.sequence, params.batch, params.vocabulary)
        magnify = params.magnify or max(1, round(FULL_SIZE / params.hidden))
        return cls(shape, link(params.link), accelerator(TIMED_ON), magnify)

    @property
    def has_values(self) -> bool:
        return self.shape.flop <= MOST_FLOP

    def times(self, layout: str, norm_share: float) -> dict[str, PieceTime]:
        """Each piece on one rank; ``norm_share`` is the share of the tokens that norms, dropouts and residuals see."""
        s, m = self.shape, self.magnify
        h, f, t = s.hidden, s.ffn, s.ranks

        def product(flop: float, weight: float = 0.0) -> PieceTime:
            rate = self.device.flops["bf16"] * UTILISATION / m**3
            return PieceTime(flop / rate, (2 * flop - weight) / rate, weight / rate)

        def elementwise(per_element: float) -> PieceTime:
            seconds = per_element * s.sbh * norm_share * m**2 / self.device.bandwidth
            return PieceTime(seconds, 2 * seconds)

        qkv, scores, matrix = 6.0 * s.tokens * h * h / t, 4.0 * s.sequence * s.sbh / t, 2.0 * s.tokens * h * f / t
        head = 2.0 * s.tokens * h * s.padded_vocabulary / t
        norm, add = elementwise(2 * BYTES), elementwise(3 * BYTES + 1)
        return {
            "norm1": norm,
            "attention": product(qkv + scores + qkv / 3, qkv),
            "add1": add,
            "norm2": norm,
            "up": product(matrix, matrix),
            "down": product(matrix * (t if layout == "row_first" else 1)),
            "add2": add,
            "head": product(head, head),
        }


def multiple(where: str, name: str, value: int, of: str, divisor: int) -> None:
    """BadInput unless ``value`` is a multiple of ``divisor``; names the nearest values of both that work."""
    if value % divisor == 0:
        return
    below, above = value // divisor * divisor, (value // divisor + 1) * divisor
    fits = [str(n) for n in (below, above) if n]
    divisors = [n for n in range(1, value + 1) if value % n == 0]
    nearest = [max((n for n in divisors if n < divisor), default=1), min((n for n in divisors if n > divisor), default=value)]
    others = " or ".join(str(n) for n in sorted(set(nearest)))
    raise BadInput(
        f"{where}.{name}",
        f"{name} = {value:,} is no multiple of {of} = {divisor:,}",
        f"each {of.removesuffix('s')} takes an equal part: {name} = {' or '.join(fits)}, or {of} = {others}",
    )
