"""Token dispatch in a mixture of experts: route, seat within capacity, sort by expert, grouped GEMM, combine.

Only the experts a token chose compute it: y_t = sum over kept k of g_tk E_k(x_t), after 1701.06538, 2006.16668 and 2401.04088.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor

from core.errors import BadInput
from core.moe import dispatch_checks as checks
from core.moe.dispatch_stage import FOLLOWED_OF_MANY, FOLLOWED_WHOLE, WORDS, Stage
from core.moe.dispatch_steps import announce, record_capacity, record_combine, record_experts, record_permute, record_route
from core.moe.experts import Experts, combine, expert_rows, path_for, sort_by_expert
from core.moe.layer_load import record_layers
from core.moe.router_logits import MAX_EXPERTS, MAX_TOKENS, RouterLogits, read_router_logits
from core.moe.routers import DropOrder, RouterName, expert_capacity, route, seat
from core.recording import Recorder
from core.simulation import Params, PathText, simulation

MAX_FLOPS = 1e12
MAX_BYTES = 4e9


class DispatchParams(Params, frozen=True):
    """What `dispatch` takes."""

    tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS, description="tokens in the batch")] = 8
    experts: Annotated[int, Meta(ge=1, le=MAX_EXPERTS, description="experts in the layer")] = 4
    top_k: Annotated[int, Meta(ge=1, le=64, description="experts each token goes to")] = 2
    hidden: Annotated[int, Meta(ge=1, le=8192, description="numbers in a token's vector")] = 64
    ffn: Annotated[int, Meta(ge=1, le=32768, description="inner width of one expert")] = 128
    router: Annotated[
        RouterName,
        Meta(description="mixtral, qwen3: softmax, top k, gates renormalised; softmax: not renormalised; uniform: experts drawn at random"),
    ] = "mixtral"
    capacity_factor: Annotated[float, Meta(ge=0, le=1024, description="rows an expert takes, over the mean; 0: no limit")] = 0.0
    drop_order: Annotated[
        DropOrder, Meta(description="who is seated first: choice (all first choices), position (token by token), gate (largest gate)")
    ] = "choice"
    logits: Annotated[PathText, Meta(description="file of router logits, .npy, .safetensors or .pt; it then gives tokens and experts")] = ""
    tensor: Annotated[str, Meta(description="name of the tensor in a file that holds several")] = ""
    layer: Annotated[int, Meta(ge=0, description="layer of the file that is walked through, from 0")] = 0
    step: Annotated[int, Meta(ge=0, description="step of the file that is walked through, from 0")] = 0
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16", "float64"], Meta(description="type of tokens and weights; float64 has no grouped_mm")
    ] = "float32"


class Layer(NamedTuple):
    """What one MoE layer is given: tokens (T, hidden), logits (T, experts), weights, and a word for each token."""

    tokens: Tensor
    logits: Tensor
    experts: Experts
    words: tuple[str, ...]


@simulation("dispatch")
def dispatch(params: DispatchParams, rec: Recorder) -> None:
    """Mixture-of-experts dispatch: what moves where between the router and the layer's output."""
    if not params.logits:
        count, experts, logits = params.tokens, params.experts, None
    else:
        logits = read_router_logits(params.logits, params.tensor)
        count, experts = (int(n) for n in logits.values.shape[2:])
    check_sizes(params, count, experts, logits)
    announce(rec, limited=params.capacity_factor > 0)
    if logits is not None:
        rec.fact("tokens", count, "count", "simulated", "read from the file of router logits")
        rec.fact("experts", experts, "count", "simulated", "read from the file of router logits")
    layer = draw_layer(params, rec, count, experts, logits)
    if logits is not None and logits.steps * logits.layers > 1:
        record_layers(rec, logits, params.top_k)
    walk(layer, params, rec)


def check_sizes(params: DispatchParams, tokens: int, experts: int, logits: RouterLogits | None) -> None:
    """BadInput for sizes that do not fit each other, or that would not finish in seconds."""
    if params.top_k > experts:
        raise BadInput("dispatch.top_k", f"found {params.top_k} with {experts} experts", f"a whole number from 1 to {experts}")
    if logits is not None:
        for name, value, bound in (("layer", params.layer, logits.layers), ("step", params.step, logits.steps)):
            if value >= bound:
                raise BadInput(
                    f"dispatch.{name}", f"found {value}, but {logits.source} has {bound}", f"a whole number from 0 to {bound - 1}"
                )
    rows, width = tokens * params.top_k, {"float64": 8, "float32": 4}.get(params.dtype, 2)
    flops = 6.0 * rows * params.hidden * params.ffn
    if flops > MAX_FLOPS:
        raise BadInput("dispatch: 6 x tokens x top_k x hidden x ffn", f"found {flops:.3g} FLOP", f"at most {MAX_FLOPS:.0e} FLOP")
    memory = width * (3.0 * experts * params.hidden * params.ffn + rows * (3.0 * params.hidden + 4.0 * params.ffn))
    if memory > MAX_BYTES:
        raise BadInput("dispatch: weights of all experts and their rows", f"found {memory:.3g} bytes", f"at most {MAX_BYTES:.0e} bytes")


def draw_layer(params: DispatchParams, rec: Recorder, tokens: int, experts: int, file: RouterLogits | None) -> Layer:
    """Real tokens and weights from the seed. The same word has nearly the same vector, so it chooses nearly the same experts.

    Weights have standard deviation 1/sqrt(fan in). Where a file gives the logits, tokens and experts are still real, only
    small and drawn here, so that rows really travel.
    """
    dtype, draw = getattr(torch, params.dtype), rec.generator
    hidden, ffn = params.hidden, params.ffn
    router = torch.randn(experts, hidden, generator=draw) / hidden**0.5
    gate_up = torch.randn(experts, 2 * ffn, hidden, generator=draw) / hidden**0.5
    down = torch.randn(experts, hidden, ffn, generator=draw) / ffn**0.5
    if file is None and tokens <= FOLLOWED_WHOLE:
        words = WORDS[:tokens]
        vocabulary = sorted(set(WORDS))
        embedding = torch.randn(len(vocabulary), hidden, generator=draw)
        x = embedding[[vocabulary.index(word) for word in words]] + 0.2 * torch.randn(tokens, hidden, generator=draw)
    else:
        words = tuple(f"t{i}" for i in range(tokens))
        x = torch.randn(tokens, hidden, generator=draw)
    x, router = x.to(rec.device, dtype), router.to(rec.device, dtype)
    if file is not None:
        logits = torch.from_numpy(np.array(file.values[params.step, params.layer])).to(rec.device)
    elif params.router == "uniform":
        logits = torch.randn(tokens, experts, generator=draw).to(rec.device)
    else:
        logits = x @ router.T
    if dtype == torch.float64:  # float32 gates would be the only rounding left
        logits = logits.double()
    return Layer(x, logits, Experts(gate_up.to(rec.device, dtype), down.to(rec.device, dtype)), words)


def walk(layer: Layer, params: DispatchParams, rec: Recorder) -> Tensor:
    """The five phases over one layer, each recorded where it happens; returns the output (tokens, hidden)."""
    (count, experts), k = layer.logits.shape, params.top_k
    capacity = expert_capacity(params.capacity_factor, count, k, experts)
    stage = Stage(rec, layer.words, experts, k, capacity)
    followed = count if count <= FOLLOWED_WHOLE else FOLLOWED_OF_MANY

    rec.phase("route")
    routing = route(params.router, layer.logits, k)
    gates = checks.check_routing(rec, params.router, layer.logits, routing)
    record_route(rec, stage, params.router, params.logits, params.hidden, routing, followed)

    rec.phase("capacity")
    seated = seat(routing, capacity, params.drop_order)
    kept = checks.check_capacity(rec, routing, seated, capacity, params.drop_order)
    if params.router == "uniform" and not params.logits and capacity is not None:
        checks.check_uniform(rec, seated.kept, experts, capacity)
    record_capacity(rec, stage, routing, seated, capacity, params.capacity_factor, params.drop_order, followed)
    rec.progress(0.4, "experts")

    rec.phase("permute")
    permutation = sort_by_expert(routing.experts, seated.kept, experts)
    source = permutation.order // k
    rows = layer.tokens[source]
    carried = torch.arange(count, device=source.device)[source]
    checks.check_permutation(rec, routing, seated, permutation, carried)
    record_permute(rec, stage, routing, permutation, rows, followed)

    rec.phase("experts")
    path, refusal = path_for(layer.experts)
    outputs = expert_rows(rows, layer.experts, permutation, path)
    record_experts(rec, stage, permutation, params.hidden, params.ffn, k, refusal)

    rec.phase("combine")
    output = combine(outputs, routing.gates, permutation)
    error = checks.check_output(rec, routing, seated.kept, gates * kept, layer.tokens, layer.experts, output)
    record_combine(rec, stage, routing, seated.kept, layer.tokens, output, error, followed)
    return output
