"""The parameters of `plan`, and the machine and model they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from core.errors import BadInput
from core.hardware import accelerator, link
from core.measure import Rates, rates
from core.training.memory_ledger import Setting
from core.training.memory_model import Model
from core.training.memory_setup import ModelParams, model_of, setting_of
from core.training.plan_layouts import count
from core.training.plan_time import Machine

MOST_LAYOUTS = 1_000_000


class PlanParams(ModelParams, frozen=True):
    """What `plan` takes: a model, the GPUs, and how much is trained in a step."""

    gpus: Annotated[int, Meta(ge=1, le=2**20, description="GPUs in all")] = 64
    accelerator: Annotated[str, Meta(description="kind of GPU: a100, h100, ...")] = "h100"
    sequence: Annotated[int, Meta(ge=1, le=2**27, description="tokens of a sample")] = 4096
    global_batch: Annotated[int, Meta(ge=1, le=10**7, description="samples of an optimizer step, over all ranks")] = 512
    node_size: Annotated[int, Meta(ge=1, le=2**16, description="GPUs of a node, joined by the accelerator's own link")] = 8
    inter_link: Annotated[str, Meta(description="link between nodes: infiniband_ndr, ...")] = "infiniband_ndr"
    host_link: Annotated[str, Meta(description="link to the host's memory, for offload")] = "pcie5"
    utilisation: Annotated[float, Meta(gt=0, le=1, description="share of the BF16 peak that matmuls reach")] = 0.6
    profile: Annotated[bool, Meta(description="matmul and memory rates measured on this machine's device, not the data sheet's")] = False
    largest_micro_batch: Annotated[int, Meta(ge=1, le=4096, description="samples of the largest microbatch considered")] = 8
    attention: Annotated[Literal["math", "flash"], Meta(description="math writes the score matrices, flash never does")] = "flash"


@dataclass(frozen=True)
class Job:
    """One search: what is trained, on what."""

    params: PlanParams
    model: Model
    setting: Setting
    machine: Machine
    measured: Rates | None = None

    @classmethod
    def of(cls, params: PlanParams, device_here: str = "cpu") -> Job:
        """BadInput for names nobody knows, FSDP2's convention (it allows no other ZeRO stage) and more layouts than can be searched."""
        device, utilisation = accelerator(params.accelerator), params.utilisation
        measured = rates(device_here) if params.profile else None
        if measured is not None:  # attained, not peak: nothing more is taken off
            device, utilisation = msgspec.structs.replace(device, flops={"bf16": measured.flops}, bandwidth=measured.bandwidth), 1.0
        machine = Machine(device, link(device.link), link(params.inter_link), link(params.host_link), params.node_size, utilisation)
        model = model_of("plan", params)
        if params.convention == "fsdp2":
            raise BadInput("plan.convention", "found fsdp2, which allows no other ZeRO stage than 3", "16, 18 or 20")
        if params.expert_tensor_parallel and params.gpus % params.expert_tensor_parallel:
            raise BadInput("plan.expert_tensor_parallel", f"found {params.expert_tensor_parallel}", f"a divisor of {params.gpus} GPUs")
        many = count(params.gpus, params.global_batch, model.shape.experts, params.largest_micro_batch)
        if many > MOST_LAYOUTS:
            raise BadInput("plan.gpus", f"{params.gpus:,} GPUs can be laid out in {many:,} ways", f"up to {MOST_LAYOUTS:,} layouts")
        return cls(params, model, setting_of(params), machine, measured)
