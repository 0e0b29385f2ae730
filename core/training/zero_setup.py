"""The parameters of `zero`, what they mean for the full-size model, and the facts that follow by formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link
from core.recording import Recorder
from core.simulation import Params, PathText
from core.training import zero_bytes
from core.training.zero_model import Layout
from core.transformer import read_config

DEFAULT_PARAMETERS = 7_500_000_000
LARGEST_MEMORY = 4e9
"""Bytes that training the small model may take: all ranks together, and what the checks keep."""
LARGEST_WORK = 1e12
"""FLOP of forward and backward of the small model on all ranks, some seconds of one processor."""
KEPT = 33, 8, 35
"""Bytes a parameter of the small model beside its states, as measured: once (start, twin), for each rank, for each step (gradients)."""
KEPT_OF_A_SAMPLE = 80
"""Bytes an element that autograd's check keeps of a sample in each layer: ten of its fp64 values, the inner ones four times as wide."""
UTILISATION = 0.45
"""Share of an accelerator's BF16 peak that the matmuls of a dense model reach (41 to 57 % in arXiv 2205.05198)."""
TIMED_ON = "a100"
"""Whose figures give compute times when no accelerator is named."""
UPDATE_BYTES = {"adamw": 28, "sgd": 12}
"""Memory traffic of an update in bytes an element: states read and written, gradient read, BF16 parameter written."""


class ZeroParams(Params, frozen=True):
    """What `zero` takes; ``layers``, ``hidden`` and ``batch`` are those of the small model that really trains."""

    stage: Annotated[Literal[0, 1, 2, 3], Meta(description="0 shards nothing, 1 optimizer states, 2 also gradients, 3 also parameters")] = 2
    ranks: Annotated[int, Meta(ge=1, le=64, description="data-parallel ranks")] = 4
    parameters: Annotated[int, Meta(ge=0, le=10**15, description="parameters of the full-size model; 0 takes them from model")] = (
        DEFAULT_PARAMETERS
    )
    model: Annotated[PathText, Meta(description="config.json of the full-size model, in place of parameters")] = ""
    accumulation: Annotated[int, Meta(ge=1, le=16, description="micro-batches of a rank in one optimizer step")] = 1
    steps: Annotated[int, Meta(ge=1, le=20, description="optimizer steps")] = 2
    link: Annotated[str, Meta(description="link between ranks: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_a100"
    accelerator: Annotated[str, Meta(description="device whose memory is drawn as a line: a100, h100, ...; empty for none")] = ""
    tokens: Annotated[int, Meta(ge=1, le=10**7, description="tokens in a micro-batch of a rank, for compute time")] = 2048
    optimizer: Annotated[Literal["adamw", "sgd"], Meta(description="AdamW keeps two fp32 moments, SGD none")] = "adamw"
    layers: Annotated[int, Meta(ge=1, le=64, description="equal layers, the unit in which parameters and gradients travel")] = 3
    hidden: Annotated[int, Meta(ge=2, le=1024, description="width of the small model")] = 32
    batch: Annotated[int, Meta(ge=1, le=1024, description="samples in a micro-batch of a rank of the small model")] = 8


@dataclass(frozen=True)
class Job:
    """One run: its parameters, the small model's layout, and the full-size model it stands for.

    ``scale`` is how many parameters of the full-size model one element of the small one stands for.
    """

    params: ZeroParams
    psi: int
    name: str
    model_layers: int
    layout: Layout
    link: Link
    device: Accelerator

    @classmethod
    def of(cls, params: ZeroParams) -> Job:
        """BadInput for parameters that contradict each other, name nothing known or ask for too much memory."""
        psi, name, model_layers = full_size("zero", params.parameters, params.model, params.layers)
        layout = Layout(params.layers, params.hidden, params.ranks)
        job = cls(params, psi, name, model_layers, layout, link(params.link), accelerator(params.accelerator or TIMED_ON))
        if job.memory > LARGEST_MEMORY:
            raise BadInput(
                "zero: the small model's states, samples and checks",
                f"hidden={params.hidden}, layers={params.layers}, stage={params.stage}, ranks={params.ranks}, steps={params.steps}, "
                f"batch={params.batch}, accumulation={params.accumulation} take about {job.memory / 1e9:.1f} GB",
                f"at most {LARGEST_MEMORY / 1e9:.0f} GB on all simulated ranks together",
            )
        if job.work > LARGEST_WORK:
            found = f"found {job.work:.3g} FLOP"
            raise BadInput(
                "zero: 6 x the small model's parameters x ranks x batch x accumulation x steps", found, f"at most {LARGEST_WORK:.0e} FLOP"
            )
        return job

    @property
    def small(self) -> int:
        """Elements of the small model, padding included."""
        return self.layout.padded * self.layout.layers

    @property
    def memory(self) -> float:
        """About as many bytes as the run takes on this machine."""
        p, (once, each_rank, each_step) = self.params, KEPT
        states = sum(zero_bytes.model_states(self.small, p.stage, p.ranks, p.optimizer)) * p.ranks
        samples = p.ranks * p.accumulation * p.batch * p.hidden * p.layers
        return states + self.small * (once + each_rank * p.ranks + each_step * p.steps) + KEPT_OF_A_SAMPLE * samples

    @property
    def work(self) -> float:
        """FLOP of all optimizer steps: 2 a parameter and sample forward, 4 backward."""
        p = self.params
        return 6.0 * self.small * p.ranks * p.batch * p.accumulation * p.steps

    @property
    def scale(self) -> float:
        return self.psi / self.small

    @property
    def forward_time(self) -> float:
        """Seconds of one layer's forward: 2 FLOP a parameter and token."""
        return 2 * self.psi / self.layout.layers * self.params.tokens / (self.device.flops["bf16"] * UTILISATION)

    @property
    def backward_time(self) -> float:
        """Seconds of one layer's backward: input and weight gradients, each as much as the forward."""
        return 2 * self.forward_time

    @property
    def update_time(self) -> float:
        """Seconds of a rank's optimizer update, bound by memory bandwidth."""
        owned = self.psi / (self.params.ranks if self.params.stage >= 1 else 1)
        return owned * UPDATE_BYTES[self.params.optimizer] / self.device.bandwidth


def full_size(simulation: str, parameters: int, model: str, layers: int) -> tuple[int, str, int]:
    """Parameters, name and layers of the full-size model: a count, or what a config.json describes. BadInput for both or none."""
    if not model:
        if parameters < 1:
            found = f"found {parameters}"
            raise BadInput(f"{simulation}.parameters", found, "a whole number from 1, or model = the path of a config.json")
        return parameters, "", layers
    if parameters not in (0, DEFAULT_PARAMETERS):
        found = f"found both parameters = {parameters:,} and model = {model!r}"
        raise BadInput(f"{simulation}.parameters", found, "one of the two (parameters = 0 takes the count from model)")
    shape = read_config(model)
    return shape.parameters, shape.name, shape.layers


def formula_facts(rec: Recorder, job: Job) -> None:
    """Bytes and traffic of one rank of the full-size model, by the formulas of `zero_bytes`."""
    p, psi = job.params, job.psi
    states = zero_bytes.model_states(psi, p.stage, p.ranks, p.optimizer)
    for group, size in zip(("parameter", "gradient", "optimizer"), states, strict=True):
        rec.fact(f"{group}_bytes", size, "bytes", "formula", "per rank")
    rec.fact("model_state_bytes", sum(states), "bytes", "formula", "per rank, no activations")
    above = zero_bytes.transient(psi, p.stage, p.ranks, job.model_layers, p.accumulation)
    rec.fact(
        "peak_bytes",
        sum(states) + above,
        "bytes",
        "formula",
        f"per rank, {job.model_layers} equal layers as the unit of gathering and averaging",
    )
    rec.fact("convention", zero_bytes.CONVENTION[p.optimizer], "", "reference", "ZeRO, arXiv 1910.02054")
    elements = zero_bytes.comm_elements(psi, p.stage, p.accumulation)
    rec.fact("comm_elements_per_rank", elements, "elements", "formula", "handed to collectives in one optimizer step")
    sent = zero_bytes.wire_bytes(psi, p.stage, p.ranks, p.accumulation)
    rec.fact("bytes_sent_per_rank", sent, "bytes", "formula", "on the wire of a ring in one optimizer step, BF16")
    if job.name:
        rec.fact("model", job.name, note=f"{psi:,} parameters in {job.model_layers} layers")
    rec.fact("parameters", psi, "elements", note="of the full-size model")
    if job.layout.padding:
        rec.fact("padding_elements", job.layout.padding, "elements", note="zeros that fill up the last shards of each small layer")
