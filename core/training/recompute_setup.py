"""What `recompute` takes, what a layer's saved tensors weigh and cost at any size, and the accelerator they are timed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.simulation import Params

UTILISATION = 0.45
"""Share of an accelerator's BF16 peak that the matmuls of a dense model reach (41 to 57 % in arXiv 2205.05198)."""
MOST_FLOP = 2e10
"""Of one forward of the small layers that really run."""
MOST_BYTES = 2e9
"""Of everything their autograd saves."""
STATISTICS = "statistics"
"""Mean and reciprocal deviation of both norms: fp32 in every format."""
PROBABILITIES = "probabilities"
INPUT = "layer input"
LABELS = (
    INPUT, "norm 1", "q", "k", "v", PROBABILITIES, "context", "residual", "norm 2", "up", "gelu", STATISTICS,
)  # fmt: skip
"""What autograd saves of a layer, in the order in which it comes to be."""

SHORT = ("in", "ln1", "q", "k", "v", "P", "ctx", "res", "ln2", "up", "gelu", "stat")
"""The same for the head of a narrow column."""

Method = Literal["none", "every_layer", "sqrt", "selective", "offload", "both"]


class RecomputeParams(Params, frozen=True):
    """The sizes are those of the layers whose bytes and times are shown; ``real_*`` those of the layers that really run."""

    method: Annotated[
        Method,
        Meta(
            description="none; every_layer and sqrt checkpoint layers or runs of them; selective the attention core; "
            "offload moves to the host; both: every_layer, its inputs offloaded"
        ),
    ] = "every_layer"
    layers: Annotated[int, Meta(ge=1, le=128, description="transformer layers")] = 16
    hidden: Annotated[int, Meta(ge=1, le=65536, description="width of a layer, a multiple of heads")] = 4096
    heads: Annotated[int, Meta(ge=1, le=1024, description="attention heads")] = 32
    ffn: Annotated[int, Meta(ge=0, le=262144, description="width inside the MLP; 0 is four times hidden")] = 0
    sequence: Annotated[int, Meta(ge=1, le=131072, description="tokens of a sequence")] = 2048
    batch: Annotated[int, Meta(ge=1, le=1024, description="sequences")] = 1
    in_flight: Annotated[int, Meta(ge=1, le=128, description="layers that may wait on the device for their copy, out or in")] = 2
    accelerator: Annotated[str, Meta(description="device that computes: a100, h100, h200, b200, ...")] = "h100"
    link: Annotated[str, Meta(description="link to the host: pcie4, pcie5, ...")] = "pcie5"
    real_hidden: Annotated[int, Meta(ge=1, le=1024, description="width of the small layers that really run, a multiple of real_heads")] = 32
    real_heads: Annotated[int, Meta(ge=1, le=64, description="their heads")] = 4
    real_sequence: Annotated[int, Meta(ge=1, le=1024, description="their tokens")] = 16
    real_batch: Annotated[int, Meta(ge=1, le=64, description="their sequences")] = 2


@dataclass(frozen=True)
class Shape:
    """One pre-norm layer with an unfused (math) attention and a GELU MLP. ``element`` is the bytes of a number of an activation."""

    batch: int
    sequence: int
    hidden: int
    heads: int
    ffn: int
    element: int

    def elements(self, label: str) -> int:
        """Elements of one saved tensor: b s h, b s f, or a b s²."""
        tokens = self.batch * self.sequence
        if label == PROBABILITIES:
            return self.heads * tokens * self.sequence
        if label == STATISTICS:
            return 4 * tokens
        return tokens * (self.ffn if label in ("up", "gelu") else self.hidden)

    def bytes(self, label: str) -> int:
        return self.elements(label) * (4 if label == STATISTICS else self.element)

    @property
    def layer_bytes(self) -> int:
        """All that autograd saves of one layer."""
        return sum(self.bytes(label) for label in LABELS)

    @property
    def scores_flop(self) -> int:
        """q kᵀ: 2 b s² h."""
        return 2 * self.batch * self.sequence**2 * self.hidden

    @property
    def down_flop(self) -> int:
        """The last matmul of a layer: 2 b s f h."""
        return 2 * self.batch * self.sequence * self.ffn * self.hidden

    @property
    def forward_flop(self) -> int:
        """Matmuls of a layer: q, k, v and output 8 b s h², scores and mixture 4 b s² h, MLP 4 b s f h."""
        return 8 * self.batch * self.sequence * self.hidden**2 + 2 * self.scores_flop + 2 * self.down_flop

    @property
    def stopped_flop(self) -> int:
        """A forward that stops once all it saves is there: its last matmul, down, saves its input only."""
        return self.forward_flop - self.down_flop

    def flop_before(self, label: str) -> int:
        """FLOPs of a layer's forward that are done when this tensor is there (statistics: with the second norm)."""
        product = 2 * self.batch * self.sequence * self.hidden**2
        stages = {"q": 1, "k": 2, "v": 3, PROBABILITIES: 3, "context": 3, "residual": 4, "norm 2": 4, "up": 4, "gelu": 4, STATISTICS: 4}
        scores = 0 if label in (INPUT, "norm 1", "q", "k", "v") else 1 if label == PROBABILITIES else 2
        return stages.get(label, 0) * product + scores * self.scores_flop + (self.down_flop if label in ("up", "gelu") else 0)

    @property
    def backward_flop(self) -> int:
        """Two matmuls for each of the forward's."""
        return 2 * self.forward_flop


@dataclass(frozen=True)
class Job:
    """One run: the layers that are shown (``large``), those that really run (``small``), and what carries out both."""

    params: RecomputeParams
    large: Shape
    small: Shape
    device: Accelerator
    link: Link

    @classmethod
    def of(cls, params: RecomputeParams) -> Job:
        """BadInput for sizes that do not divide, unknown hardware, or small layers that are too large to run."""
        p = params
        _multiple("hidden", p.hidden, "heads", p.heads)
        _multiple("real_hidden", p.real_hidden, "real_heads", p.real_heads)
        large = Shape(p.batch, p.sequence, p.hidden, p.heads, p.ffn or 4 * p.hidden, 2)
        small = Shape(p.real_batch, p.real_sequence, p.real_hidden, p.real_heads, 4 * p.real_hidden, 4)
        job = cls(p, large, small, accelerator(p.accelerator), link(p.link))
        flop, size = p.layers * small.forward_flop, p.layers * small.layer_bytes
        if flop > MOST_FLOP or size > MOST_BYTES:
            raise BadInput(
                "recompute.real_hidden",
                f"the small layers take {flop / 1e9:.1f} GFLOP forward and save {size / 1e9:.2f} GB",
                f"up to {MOST_FLOP / 1e9:.0f} GFLOP and {MOST_BYTES / 1e9:.0f} GB: smaller real_* sizes or fewer layers",
            )
        return job

    def seconds(self, flop: int) -> float:
        """Compute time of so many FLOP."""
        return flop / (self.device.flops["bf16"] * UTILISATION)

    @property
    def segments(self) -> list[range]:
        """Runs of layers that are recomputed together: one layer each, or about √L runs of √L (arXiv 1604.06174).

        As in ``torch.utils.checkpoint.checkpoint_sequential``, the last run of ``sqrt`` is not checkpointed: it takes what is left
        of the division, and its backward comes at once.
        """
        layers = self.params.layers
        if self.params.method in ("every_layer", "both"):
            return [range(layer, layer + 1) for layer in range(layers)]
        if self.params.method == "sqrt":
            count = max(round(layers**0.5), 1)
            length = layers // count
            return [range(k * length, (k + 1) * length) for k in range(count - 1)]
        return []

    def offloaded(self, layer: int) -> bool:
        """Whether a layer's saved tensors leave the device: all but the last layer's, whose backward comes at once."""
        return self.params.method in ("offload", "both") and layer < self.params.layers - 1


def _multiple(name: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise BadInput(f"recompute.{name}", f"{name} = {value:,} is no multiple of {of} = {divisor:,}", f"a multiple of {divisor:,}")
