"""One decoder layer, weight group by weight group: how many parameters, and how tensor parallelism cuts them."""

from __future__ import annotations

import msgspec

from core.transformer_config import Config
from core.transformer_families import Family


class Module(msgspec.Struct, frozen=True):
    """One weight group: how many parameters it holds and how many of them one token uses.

    Tensor parallelism cuts all but ``whole`` (norms, routers, biases of row-parallel matrices), and ``kv`` only up to the
    number of key and value heads.
    """

    name: str
    parameters: int
    active: int
    whole: int = 0
    kv: int = 0


class Latent(msgspec.Struct, frozen=True):
    """Multi-head latent attention (arXiv 2405.04434): ranks of the latents and widths of a head; ``query_rank`` 0: queries are direct."""

    query_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


class Linear(msgspec.Struct, frozen=True):
    """Gated DeltaNet layers (arXiv 2412.06464): heads, widths of a head, and the kernel of the short convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int


class Sizes(msgspec.Struct, frozen=True):
    """The widths from which every layer of a model is built."""

    config: Config
    family: Family
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    dense_ffn: int
    experts: int
    top_k: int
    expert_ffn: int
    shared_ffn: int
    latent: Latent | None
    linear: Linear | None

    @property
    def norm_size(self) -> int:
        """Parameters of one norm over the hidden width."""
        return {"rms": 1, "layer": 2, "layer_without_bias": 1, "none": 0}[self.family.norm] * self.hidden


def layer_modules(s: Sizes, index: int, layers: int) -> tuple[Module, ...]:
    """The weight groups of layer ``index``: attention, MLP or experts, norms."""
    mixer = experts(s) if is_sparse(s, index, layers) else [mlp(s, s.dense_ffn)]
    norms = s.norm_size * s.family.norms_per_layer + ((s.hidden + s.dense_ffn) if s.family.sub_norms else 0)
    if layer_kind(s, index) == "linear_attention":
        attention = linear_attention(s)
    else:
        attention = latent_attention(s) if s.latent else grouped_attention(s)
    return (attention, *mixer, Module("norms", norms, norms, whole=norms))


def layer_kind(s: Sizes, index: int) -> str:
    """What layer_types says of layer ``index``; full_attention where there is no such list."""
    types = s.config.raw.get("layer_types")
    return str(types[index]) if isinstance(types, list) else "full_attention"


def grouped_attention(s: Sizes) -> Module:
    """Query, key, value and output projections of MHA, GQA or MQA, with biases, QK norms and sinks where the family has them."""
    family, q, kv = s.family, s.heads * s.head_dim, s.kv_heads * s.head_dim
    queries = q * (2 if family.query_gate else 1)
    qkv_bias = s.config.flag(family.bias_key, family.qkv_bias)
    whole = s.hidden if s.config.flag(family.bias_key, family.output_bias) else 0
    keys = 2 * kv * (s.hidden + (1 if qkv_bias else 0))
    norm = {"none": 0, "head": 2 * s.head_dim, "head_bias": 4 * s.head_dim, "width": q + kv}[family.qk_norm]
    whole += norm
    count = s.hidden * queries + (queries if qkv_bias else 0) + keys + q * s.hidden + (s.heads if family.sinks else 0) + whole
    return Module("attention", count, count, whole, keys)


def latent_attention(s: Sizes) -> Module:
    """Multi-head latent attention (arXiv 2405.04434): low-rank keys and values, queries low-rank unless q_lora_rank is null.

    The projections down to the latents are whole on every tensor-parallel rank.
    """
    assert s.latent is not None
    m, bias = s.latent, s.config.flag("attention_bias", s.family.qkv_bias)
    wide = s.heads * (m.nope + m.rope)
    down = s.hidden * (m.kv_rank + m.rope) + m.kv_rank + (m.kv_rank + m.rope if bias else 0)
    if m.query_rank:
        down += s.hidden * m.query_rank + m.query_rank + (m.query_rank if bias else 0)
    if s.family.indexer:
        number, width = s.config.whole("index_n_heads"), s.config.whole("index_head_dim")
        down += m.query_rank * number * width + s.hidden * width + 2 * width + s.hidden * number
    up = (m.query_rank or s.hidden) * wide + m.kv_rank * s.heads * (m.nope + m.value) + s.heads * m.value * s.hidden
    whole = down + (s.hidden if bias else 0)
    return Module("attention", up + whole, up + whole, whole)


def linear_attention(s: Sizes) -> Module:
    """Gated DeltaNet (arXiv 2412.06464): projections to query, key, value and gates, a short convolution, an output projection."""
    assert s.linear is not None
    m = s.linear
    keys, values = m.key_heads * m.key_dim, m.value_heads * m.value_dim
    projections = s.hidden * (2 * keys + 2 * values + 2 * m.value_heads) + values * s.hidden
    count = projections + m.kernel * (2 * keys + values) + 2 * m.value_heads + m.value_dim
    return Module("attention", count, count, m.value_dim)


def mlp(s: Sizes, width: int) -> Module:
    """A gated (three matrices) or plain (two) MLP; the bias of the last matrix is whole on every rank."""
    matrices = 3 if s.family.mlp == "gated" else 2
    key = "mlp_bias" if s.family.bias_key in ("attention_bias", "use_qkv_bias") else s.family.bias_key
    bias = s.config.flag(key, s.family.mlp_bias)
    whole = (s.hidden if bias else 0) + s.family.mlp_extra
    count = matrices * s.hidden * width + ((matrices - 1) * width if bias else 0) + whole
    return Module("mlp", count, count, whole)


def experts(s: Sizes) -> list[Module]:
    """Router, routed experts (top_k of them active) and shared experts of one layer.

    Correction biases are buffers, not parameters, except where the family says so.
    """
    width = s.expert_ffn
    one = 3 * s.hidden * width + (2 * width + s.hidden if s.family.expert_bias else 0)
    router = s.hidden * s.experts + (s.experts if s.family.router_bias else 0) + (s.experts if s.family.correction_bias else 0)
    modules = [Module("router", router, router, whole=router), Module("experts", s.experts * one, s.top_k * one)]
    if s.shared_ffn:
        gate = s.hidden if s.family.shared_gate else 0
        shared = 3 * s.hidden * s.shared_ffn + gate
        modules.append(Module("shared experts", shared, shared, whole=gate))
    return modules


def is_sparse(s: Sizes, index: int, layers: int) -> bool:
    """Whether layer ``index`` routes to experts: the first k may be dense, and sparse layers may interleave."""
    if not s.experts:
        return False
    raw, whole = s.config.raw, s.config.optional
    if index in s.config.numbers("mlp_only_layers"):
        return False
    if isinstance(raw.get("mlp_layer_types"), list):
        kinds = raw["mlp_layer_types"]
        return isinstance(kinds, list) and index < len(kinds) and kinds[index] == "sparse"
    if isinstance(raw.get("moe_layers"), list):
        return index in s.config.numbers("moe_layers")
    if index < (whole("first_k_dense_replace") or 0):
        return False
    start, interval = whole("moe_layer_start_index"), whole("moe_layer_interval")
    if start is not None or interval is not None:  # ERNIE
        last = raw.get("moe_layer_end_index")
        end = last if isinstance(last, int) and last >= 0 else layers - 1
        return (index + 1) % (interval or 1) == 0 and (start or 0) <= index <= end
    every = whole("interleave_moe_layer_step") or whole("decoder_sparse_step")
    if every:
        return (index + 1) % every == 0
    return index % (whole("moe_layer_freq") or 1) == 0


def dense(name: str, parameters: int) -> Module:
    """A weight group that tensor parallelism cuts evenly and every token uses."""
    return Module(name, parameters, parameters)
