"""The parameters of `fsdp2`, and the model that stands for a larger one: same shape, ``scale`` times the elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import torch
from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.simulation import Params, PathText
from core.training import mlp
from core.training.fsdp2_shards import Group
from core.training.zero_setup import DEFAULT_PARAMETERS, UPDATE_BYTES, UTILISATION, full_size

MOST_BYTES = 4e9
"""What all simulated ranks together may hold."""
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Fsdp2Params(Params, frozen=True):
    """What `fsdp2` takes; ``layers``, ``hidden``, ``outputs`` and ``batch`` are those of the small model that really trains."""

    ranks: Annotated[int, Meta(ge=1, le=64, description="ranks over which every parameter is cut")] = 4
    parameters: Annotated[int, Meta(ge=0, le=10**15, description="parameters of the full-size model; 0 takes them from model")] = (
        DEFAULT_PARAMETERS
    )
    model: Annotated[PathText, Meta(description="config.json of the full-size model, in place of parameters")] = ""
    reshard_after_forward: Annotated[bool, Meta(description="free the gathered parameters after forward (all but the root's)")] = True
    prefetch: Annotated[bool, Meta(description="issue the next group's all-gather before this group computes")] = True
    accumulation: Annotated[int, Meta(ge=1, le=16, description="micro-batches of a rank in one optimizer step")] = 1
    steps: Annotated[int, Meta(ge=1, le=20, description="optimizer steps")] = 2
    link: Annotated[str, Meta(description="link between ranks: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_a100"
    accelerator: Annotated[str, Meta(description="device whose compute time is charged: a100, h100, ...")] = "a100"
    param_dtype: Annotated[Literal["bf16", "fp32"], Meta(description="dtype of gathered parameters and of compute; shards are fp32")] = (
        "bf16"
    )
    optimizer: Annotated[Literal["adamw", "sgd"], Meta(description="AdamW keeps two fp32 moments, SGD none")] = "adamw"
    layers: Annotated[int, Meta(ge=1, le=64, description="residual MLP blocks, each a group of its own")] = 4
    hidden: Annotated[int, Meta(ge=1, le=2048, description="width of the small model")] = 64
    outputs: Annotated[int, Meta(ge=1, le=2048, description="rows of the root's head; 5 on 4 ranks are cut 2, 2, 1, 0")] = 8
    root_parameters: Annotated[bool, Meta(description="the root has a norm and a head of its own; false: it is empty")] = True
    batch: Annotated[int, Meta(ge=1, le=4096, description="tokens of a rank in a micro-batch of the small model")] = 32


@dataclass(frozen=True)
class Job:
    """One run. The full-size model is this one with width and tokens multiplied by the square root of ``scale``.

    Matrices and activations then both grow by ``scale`` (vectors less, which is neglected), compute by its 1.5th power.
    """

    params: Fsdp2Params
    psi: int
    name: str
    link: Link
    device: Accelerator

    @classmethod
    def of(cls, params: Fsdp2Params) -> Job:
        """BadInput for parameters that contradict each other, name nothing known or ask for too much memory."""
        psi, name, _ = full_size("fsdp2", params.parameters, params.model, params.layers)
        job = cls(params, psi, name, link(params.link), accelerator(params.accelerator))
        saved = 44 * params.batch * params.hidden * params.layers
        held = job.elements * (24 + 12 * params.ranks) + saved * params.ranks
        if held > MOST_BYTES:
            found = (
                f"hidden={params.hidden}, layers={params.layers}, batch={params.batch} on {params.ranks} ranks takes {held / 1e9:.1f} GB"
            )
            raise BadInput("fsdp2.hidden", found, f"tensors of all simulated ranks up to {MOST_BYTES / 1e9:.0f} GB")
        return job

    @cached_property
    def blocks(self) -> list[Group]:
        shapes = mlp.block_shapes(self.params.hidden)
        return [Group(f"block {layer}", shapes, self.params.ranks) for layer in range(self.params.layers)]

    @cached_property
    def root(self) -> Group | None:
        """The outermost group; None when every parameter belongs to a block."""
        if not self.params.root_parameters:
            return None
        return Group("root", mlp.head_shapes(self.params.hidden, self.params.outputs), self.params.ranks)

    @property
    def groups(self) -> list[Group]:
        """The root first, as it is gathered first."""
        return [*([self.root] if self.root else []), *self.blocks]

    @property
    def outputs(self) -> int:
        """Width of what the model returns."""
        return self.params.outputs if self.root else self.params.hidden

    @cached_property
    def elements(self) -> int:
        """Parameters of the small model."""
        return sum(group.elements for group in self.groups)

    @property
    def scale(self) -> float:
        return self.psi / self.elements

    @property
    def tokens(self) -> float:
        """Tokens of a rank in a micro-batch of the full-size model."""
        return self.params.batch * math.sqrt(self.scale)

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.params.param_dtype]

    def forward_time(self, group: Group) -> float:
        """Seconds of a group's forward: 2 FLOP a parameter and token."""
        return 2 * group.elements * self.scale * self.tokens / (self.device.flops[self.params.param_dtype] * UTILISATION)

    @property
    def update_time(self) -> float:
        """Seconds of a rank's optimizer update, bound by memory bandwidth."""
        return self.psi / self.params.ranks * UPDATE_BYTES[self.params.optimizer] / self.device.bandwidth
