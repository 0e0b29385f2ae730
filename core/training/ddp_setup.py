"""The parameters of `ddp`, and the plan that follows: what each half of a block computes, in which parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import torch
from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.simulation import Params
from core.training import mlp
from core.training.ddp_buckets import MIB
from core.training.ddp_timing import Half, Plan
from core.training.zero_setup import UTILISATION

MOST_BYTES = 4e9
"""What all ranks together may hold: parameters, gradients and buckets in fp32, and the fp64 model that checks them."""
UPDATE_BYTES = 12
"""Memory traffic of an SGD update in bytes an element: parameter and gradient read, parameter written."""
LEARNING_RATE = 0.1
MegaBytes = Annotated[float, Meta(gt=0, le=1e6)]


class DdpParams(Params, frozen=True):
    """What `ddp` takes. Every size is that of the model that really trains; only ``tokens`` is charged and not run."""

    ranks: Annotated[int, Meta(ge=1, le=64, description="data-parallel ranks")] = 4
    bucket_mb: Annotated[MegaBytes, Meta(description="MiB at which a bucket is closed; a bucket may overshoot")] = 25.0
    first_bucket_mb: Annotated[MegaBytes, Meta(description="MiB at which the first bucket is closed")] = 1.0
    layers: Annotated[int, Meta(ge=1, le=256, description="residual MLP blocks")] = 8
    hidden: Annotated[int, Meta(ge=1, le=4096, description="width of the model; a block has 8 hidden² + 7 hidden parameters")] = 256
    link: Annotated[str, Meta(description="link between ranks: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_a100"
    accelerator: Annotated[str, Meta(description="device whose compute time is charged: a100, h100, ...")] = "a100"
    tokens: Annotated[int, Meta(ge=1, le=10**7, description="tokens of a rank whose compute time is charged")] = 2048
    batch: Annotated[int, Meta(ge=1, le=1024, description="rows of a rank that are really computed")] = 8
    steps: Annotated[int, Meta(ge=1, le=20, description="iterations; buckets are rebuilt before the second")] = 2


@dataclass(frozen=True)
class Job:
    """One run: parameters of the model by name in the model's order, and the halves that compute them."""

    params: DdpParams
    link: Link
    device: Accelerator

    @classmethod
    def of(cls, params: DdpParams) -> Job:
        """BadInput for a name that is not known and for more memory than allowed."""
        job = cls(params, link(params.link), accelerator(params.accelerator))
        held = (12 * params.ranks + 24) * params.layers * mlp.count(mlp.block_shapes(params.hidden))
        if held > MOST_BYTES:
            found = f"hidden={params.hidden}, layers={params.layers} on {params.ranks} ranks takes {held / 1e9:.1f} GB"
            raise BadInput("ddp.hidden", found, f"tensors of all simulated ranks up to {MOST_BYTES / 1e9:.0f} GB")
        return job

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter: ``"3.up.weight"`` and its shape."""
        block = mlp.block_shapes(self.params.hidden)
        return {f"{layer}.{name}": shape for layer in range(self.params.layers) for name, shape in block.items()}

    @cached_property
    def names(self) -> list[str]:
        return list(self.shapes)

    @cached_property
    def plan(self) -> Plan:
        """Compute times: 2 FLOP a parameter and token forward, 4 backward."""
        p = self.params
        elements = tuple(math.prod(shape) for shape in self.shapes.values())
        number = {name: index for index, name in enumerate(self.names)}
        rate = self.device.flops["bf16"] * UTILISATION
        halves = []
        for layer in range(p.layers):
            for name, shapes in (("up", mlp.up_shapes(p.hidden)), ("down", mlp.down_shapes(p.hidden))):
                forward = 2 * mlp.count(shapes) * p.tokens / rate
                mine = tuple(number[f"{layer}.{its}"] for its in shapes)
                halves.append(Half(layer, name, mine, forward, 2 * forward))
        update = sum(elements) * UPDATE_BYTES / self.device.bandwidth
        return Plan(p.ranks, self.link, tuple(halves), elements, update)

    @property
    def limits(self) -> tuple[int, int]:
        """Bytes at which the first bucket is closed, and every later one."""
        return int(self.params.first_bucket_mb * MIB), int(self.params.bucket_mb * MIB)


def ready_order(job: Job) -> list[int]:
    """Parameters in the order in which one backward through the whole model makes their gradients ready: shapes only, no values."""
    p = job.params
    leaves = {name: torch.empty(shape, device="meta", requires_grad=True) for name, shape in job.shapes.items()}
    order: list[int] = []
    for index, leaf in enumerate(leaves.values()):
        leaf.register_post_accumulate_grad_hook(lambda _, index=index: order.append(index))  # type: ignore[misc, no-untyped-call]
    x = torch.empty(1, p.hidden, device="meta")
    for layer in range(p.layers):
        x = mlp.block(of_layer(leaves, layer), x)
    x.sum().backward()  # type: ignore[no-untyped-call]
    return order


def of_layer(values: dict[str, torch.Tensor], layer: int) -> dict[str, torch.Tensor]:
    """One block's parameters under their own names."""
    prefix = f"{layer}."
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
