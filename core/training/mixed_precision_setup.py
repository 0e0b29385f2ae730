"""What `mixed_precision` takes, and what each way to train keeps in which format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from msgspec import Meta

from core.errors import BadInput
from core.simulation import Params
from core.training.mixed_precision_formats import BF16, E4M3, FP16, FP32, Format

MOST_FLOP = 2e10
"""Of the whole training: 6 FLOP a parameter, sample and step."""
PARTS = (("weights", "parameter"), ("gradients", "gradient"), ("fp32 master", "own"), ("Adam m", "optimizer"), ("Adam v", "optimizer"))
PRECISIONS = ("fp32", "bf16", "bf16_master", "bf16_stochastic", "fp16", "fp8")
Precision = Literal["fp32", "bf16", "bf16_master", "bf16_stochastic", "fp16", "fp8"]


class MixedPrecisionParams(Params, frozen=True):
    """A small MLP that trains in one precision."""

    precision: Annotated[
        Precision,
        Meta(
            description="fp32; bf16: everything in BF16; bf16_master: with fp32 master and states; bf16_stochastic: no master, "
            "stochastic rounding; fp16 with loss scaling; fp8: E4M3 weights and activations, E5M2 gradients"
        ),
    ] = "bf16_master"
    steps: Annotated[int, Meta(ge=1, le=1000, description="training steps")] = 40
    batch: Annotated[int, Meta(ge=1, le=4096, description="samples")] = 64
    layers: Annotated[int, Meta(ge=1, le=8, description="linear layers")] = 3
    hidden: Annotated[int, Meta(ge=4, le=1024, description="width of the model")] = 48
    learning_rate: Annotated[float, Meta(gt=0, le=1, description="of Adam")] = 3e-4
    loss_scaling: Annotated[
        Literal["dynamic", "static", "none"], Meta(description="fp16 only: grow and back off, keep the first scale, or do not scale")
    ] = "dynamic"
    loss_scale: Annotated[float, Meta(ge=1, le=2.0**40, description="the first loss scale, fp16 only")] = 2.0**16
    growth_interval: Annotated[int, Meta(ge=1, le=10**6, description="steps without overflow before the scale doubles; torch: 2,000")] = 10


@dataclass(frozen=True)
class Layout:
    """Formats by part; ``master`` None: the weights themselves are updated. ``scaled``: the loss is, before backward."""

    name: Precision
    weight: Format
    gradient: Format
    master: Format | None
    state: Format
    stochastic: bool = False
    scaled: bool = False

    @property
    def kept(self) -> Format:
        """The format of what the optimizer updates."""
        return self.master or self.weight

    @property
    def compute(self) -> torch.dtype:
        """The format of activations; FP8 layers hand on BF16."""
        return torch.bfloat16 if self.weight is E4M3 else self.weight.dtype

    @property
    def bytes(self) -> tuple[int, ...]:
        """Bytes a parameter, in the order of `PARTS`."""
        master = self.master.bytes if self.master else 0
        return self.weight.bytes, self.gradient.bytes, master, self.state.bytes, self.state.bytes


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("fp32", FP32, FP32, None, FP32),
        Layout("bf16", BF16, BF16, None, BF16),
        Layout("bf16_master", BF16, BF16, FP32, FP32),
        Layout("bf16_stochastic", BF16, BF16, None, FP32, stochastic=True),
        Layout("fp16", FP16, FP16, FP32, FP32, scaled=True),
        Layout("fp8", E4M3, BF16, FP32, FP32),
    )
}
"""By precision. 16 bytes: ZeRO's convention, arXiv 1910.02054; FP8 keeps BF16 weight gradients and an fp32 master."""


def require_small(params: MixedPrecisionParams) -> None:
    """BadInput for a training that takes more than `MOST_FLOP`."""
    flop = 6 * params.layers * params.hidden**2 * params.batch * params.steps
    if flop > MOST_FLOP:
        raise BadInput(
            "mixed_precision.hidden",
            f"hidden={params.hidden}, layers={params.layers}, batch={params.batch}, steps={params.steps} takes {flop / 1e9:,.0f} GFLOP",
            f"up to {MOST_FLOP / 1e9:.0f} GFLOP: 6 x layers x hidden² x batch x steps",
        )
