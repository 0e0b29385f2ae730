"""The parameters of `memory`, the model they describe, and the rules that a layout must keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, accelerator
from core.simulation import Params, PathText
from core.training.divisibility import divisors
from core.training.memory_ledger import Layouts, Setting
from core.training.memory_model import RECOMPUTE, Model, with_parameters
from core.training.memory_stages import Stages
from core.transformer import Shape, from_config, read_config

Degree = Annotated[int, Meta(ge=1, le=2**20)]


class ModelParams(Params, frozen=True):
    """The model of `memory` and `plan`: a config.json, or sizes."""

    model: Annotated[PathText, Meta(description="config.json of the model, in place of sizes")] = ""
    layers: Annotated[int, Meta(ge=1, le=10_000, description="layers, where no model is given")] = 32
    hidden: Annotated[int, Meta(ge=1, le=2**20, description="width of the residual stream")] = 4096
    heads: Annotated[int, Meta(ge=1, le=2**16, description="attention heads")] = 32
    kv_heads: Annotated[int, Meta(ge=0, le=2**16, description="key and value heads; 0 = as many as heads")] = 0
    ffn: Annotated[int, Meta(ge=0, le=2**24, description="width of the MLP or of one expert; 0 = 4 hidden")] = 0
    vocabulary: Annotated[int, Meta(ge=0, le=2**24, description="rows of the embedding and of the head; 0 leaves both out")] = 32_000
    layer_type: Annotated[Literal["gpt", "llama"], Meta(description="gpt: LayerNorm, GELU, biases, dropout; llama: RMSNorm, SwiGLU")] = (
        "gpt"
    )
    experts: Annotated[int, Meta(ge=0, le=2**16, description="routed experts in every layer; 0 = none (layer_type llama)")] = 0
    top_k: Annotated[int, Meta(ge=1, le=2**16, description="experts of a token")] = 2
    parameters: Annotated[int, Meta(ge=0, le=10**15, description="state the number of parameters; 0 counts them from the sizes")] = 0
    sequence: Annotated[int, Meta(ge=1, le=2**27, description="tokens of a sample")] = 2048
    chunks: Annotated[int, Meta(ge=1, le=64, description="parts of the model on a pipeline rank; more than 1 is interleaved")] = 1
    expert_tensor_parallel: Annotated[int, Meta(ge=0, le=2**20, description="ranks that share one expert; 0 = tensor_parallel")] = 0
    attention: Annotated[Literal["math", "flash"], Meta(description="math writes the score matrices, flash never does")] = "math"
    activation_model: Annotated[
        Literal["paper", "operations"], Meta(description="the GPT formula of arXiv 2205.05198, or what autograd saves for these layers")
    ] = "operations"
    convention: Annotated[
        Literal["16", "18", "20", "fsdp2"], Meta(description="bytes of states for each parameter: see the fact of this name")
    ] = "16"
    offload: Annotated[Literal["none", "optimizer", "states", "activations"], Meta(description="what lives in the host's memory")] = "none"
    bucket: Annotated[int, Meta(ge=1, le=10**12, description="elements of a gradient bucket (ZeRO-2)")] = 40_000_000
    reserve: Annotated[float, Meta(ge=0, le=1e15, description="bytes of CUDA context, NCCL and fragmentation")] = 1e9


class MemoryParams(ModelParams, frozen=True):
    """What `memory` takes: a model, and one layout."""

    micro_batch: Annotated[int, Meta(ge=1, le=10**6, description="samples of a microbatch")] = 1
    microbatches: Annotated[int, Meta(ge=0, le=10**6, description="microbatches in a step; 0 = enough to fill the pipeline")] = 0
    data_parallel: Annotated[Degree, Meta(description="copies of the model, or shards with ZeRO")] = 1
    zero_stage: Annotated[Literal[0, 1, 2, 3], Meta(description="0 shards nothing, 1 optimizer, 2 also gradients, 3 also parameters")] = 0
    tensor_parallel: Annotated[Degree, Meta(description="ranks that share every matrix")] = 1
    sequence_parallel: Annotated[bool, Meta(description="tensor ranks also share norms and dropout")] = False
    pipeline_parallel: Annotated[Degree, Meta(description="stages of the pipeline (1F1B)")] = 1
    stage_layers: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=10_000)], ...], Meta(description="layers of each part of the model; none = as even as possible")
    ] = ()
    context_parallel: Annotated[Degree, Meta(description="ranks that share every sequence")] = 1
    expert_parallel: Annotated[Degree, Meta(description="ranks that share the experts")] = 1
    recompute: Annotated[Literal["none", "selective", "full"], Meta(description="selective: the attention core; full: whole layers")] = (
        "none"
    )
    largest_layer: Annotated[
        int, Meta(ge=0, le=10**13, description="elements of the largest module; 0 = counted (DeepSpeed's estimate)")
    ] = 0
    accelerator: Annotated[str, Meta(description="device whose memory is drawn as a line: a100, h100, ...; empty for none")] = "a100"


@dataclass(frozen=True)
class Job:
    """One question: the model, what every layout shares, one layout, its stages and the device."""

    params: MemoryParams
    model: Model
    setting: Setting
    stages: Stages
    layouts: Layouts
    device: Accelerator | None

    @classmethod
    def of(cls, params: MemoryParams) -> Job:
        """BadInput for parameters that contradict each other or the model."""
        device = accelerator(params.accelerator) if params.accelerator else None
        model = model_of("memory", params)
        setting = setting_of(params)
        stages = Stages.of(model, params.pipeline_parallel, params.chunks, params.stage_layers, "memory.pipeline_parallel")
        expert_tensor = params.expert_tensor_parallel or params.tensor_parallel
        layouts = Layouts.one(
            data=params.data_parallel, zero=params.zero_stage, tensor=params.tensor_parallel, sequence=params.sequence_parallel,
            context=params.context_parallel, expert=params.expert_parallel, expert_tensor=expert_tensor if model.shape.experts else 1,
            micro_batch=params.micro_batch, recompute=RECOMPUTE.index(params.recompute),
            microbatches=params.microbatches or 2 * params.pipeline_parallel * params.chunks,
        )  # fmt: skip
        if not model.shape.experts and params.expert_parallel > 1:
            raise BadInput("memory.expert_parallel", f"found {params.expert_parallel}", "1, for the model has no experts")
        if params.convention == "fsdp2" and params.zero_stage != 3 and params.data_parallel * params.context_parallel > 1:
            raise BadInput(
                "memory.convention", f"fsdp2 with zero_stage = {params.zero_stage}", "zero_stage = 3, for FSDP2 shards everything"
            )
        for rule in rules(model, setting, layouts):
            if bool(rule.broken[0]):
                raise BadInput(f"memory.{rule.parameter}", rule.found(0), rule.allowed)
        return cls(params, model, setting, stages, layouts, device)


@dataclass(frozen=True)
class Rule:
    """A condition on ``parameter``: ``broken`` (layouts,) says where it does not hold, ``value`` (layouts,) what was found there."""

    parameter: str
    broken: np.ndarray
    value: np.ndarray
    text: str
    allowed: str

    def found(self, layout: int) -> str:
        return self.text.format(value=f"{int(self.value[layout]):,}")


def rules(model: Model, setting: Setting, layouts: Layouts) -> Iterator[Rule]:
    """What a layout must keep, whatever fits."""
    s, t = model.shape, layouts.tensor
    near = f" (near: {divisors(int(t.flat[0]), s.heads)})" if len(t) == 1 else ""
    heads = f"a divisor of the {s.heads} attention heads{near}"
    yield Rule("tensor_parallel", s.heads % t != 0, t, f"{{value}} tensor ranks for {s.heads} heads", heads)
    if not s.latent:
        apart = (s.kv_heads % t != 0) & (t % s.kv_heads != 0)
        yield Rule(
            "tensor_parallel", apart, t, f"{{value}} tensor ranks for {s.kv_heads} kv heads", "a divisor or a multiple of the kv heads"
        )
    width = s.ffn if any(kind.name != "sparse" for kind in model.kinds) else s.shared_ffn
    yield Rule(
        "tensor_parallel", width % t != 0, t, f"{{value}} tensor ranks for an MLP of width {width:,}", "a divisor of the MLP's width"
    )
    part = setting.sequence % (layouts.context * np.where(layouts.context > 1, 2, 1)) != 0
    yield Rule("context_parallel", part, layouts.context, f"{{value}} context ranks for a sequence of {setting.sequence:,}",
               "context ranks that cut the sequence into 2 equal blocks each")  # fmt: skip
    own = (layouts.sequence > 0) & (setting.sequence % (layouts.context * t) != 0)
    yield Rule("sequence_parallel", own, t, f"{{value}} tensor ranks share a sequence of {setting.sequence:,}", "ranks that divide it")
    if not s.experts:
        return
    yield Rule("expert_parallel", s.experts % layouts.expert != 0, layouts.expert, f"{{value}} ranks for {s.experts} experts",
               "a divisor of the number of experts")  # fmt: skip
    yield Rule("expert_tensor_parallel", s.expert_ffn % layouts.expert_tensor != 0, layouts.expert_tensor,
               f"{{value}} ranks for an expert of width {s.expert_ffn:,}", "a divisor of the expert's width")  # fmt: skip
    shared = (layouts.replicas * t) % (layouts.expert * layouts.expert_tensor) != 0
    yield Rule("expert_parallel", shared, layouts.expert, "{value} expert ranks do not divide the other ranks of a stage",
               "a divisor of data x context x tensor / expert_tensor")  # fmt: skip


def setting_of(params: ModelParams) -> Setting:
    return Setting(params.sequence, params.convention, params.bucket, params.reserve, params.offload)


def model_of(simulation: str, params: ModelParams) -> Model:
    """The model of a config.json, or of the sizes. BadInput where both are given, or sizes contradict each other."""
    shape = shape_of(simulation, params)
    return Model.of(shape, params.activation_model, params.attention == "flash")


def shape_of(simulation: str, params: ModelParams) -> Shape:
    if params.model:
        fields = {
            f: getattr(ModelParams(), f) for f in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary", "experts", "parameters")
        }
        both = next((name for name, default in fields.items() if getattr(params, name) != default), None)
        if both is not None:
            found = f"found both {both} = {getattr(params, both):,} and model = {params.model!r}"
            raise BadInput(f"{simulation}.{both}", found, "sizes or a config.json, not both")
        return read_config(params.model)
    raw: dict[str, object] = {
        "hidden_size": params.hidden, "num_hidden_layers": params.layers, "num_attention_heads": params.heads,
        "num_key_value_heads": params.kv_heads or params.heads, "intermediate_size": params.ffn or 4 * params.hidden,
        "vocab_size": params.vocabulary or 1, "tie_word_embeddings": params.layer_type == "gpt", "model_type": "llama",
    }  # fmt: skip
    if params.experts:
        raw |= {"num_experts": params.experts, "num_experts_per_tok": params.top_k}
    elif params.layer_type == "gpt":
        raw |= {"model_type": "gpt_bigcode", "n_positions": params.sequence}
    shape = _named(from_config(raw, simulation), params)
    return with_parameters(shape, params.parameters) if params.parameters else shape


def _named(shape: Shape, params: ModelParams) -> Shape:
    """Without a vocabulary the embedding, the positions, the final norm and the head are left out."""
    changes: dict[str, object] = {"name": "sizes"}
    if not params.vocabulary:
        nothing = {"parameters": 0, "active": 0, "whole": 0}
        from msgspec.structs import replace

        changes |= {part: replace(getattr(shape, part), **nothing) for part in ("embedding", "positions", "final_norm", "head")}
        changes["vocabulary"] = 0
    return Shape(**{name: getattr(shape, name) for name in shape.__struct_fields__} | changes)
