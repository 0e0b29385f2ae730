"""A decoder's shape read from a Hugging Face config.json: every parameter, module by module.

Counts follow rules per architecture family (how attention, MLP, experts and norms are built there), never a table of
models. A family without a rule of its own is read by its keys as the common pre-norm decoder with RMSNorm and a gated MLP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from core.errors import BadInput

LARGEST_FILE = 16 * 2**20
"""A config.json is a few kB; anything above this many bytes is some other file."""


class Module(msgspec.Struct, frozen=True):
    """One weight group: how many parameters it holds and how many of them one token uses."""

    name: str
    parameters: int
    active: int


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How an architecture family builds its layers where the config's keys do not say."""

    qkv_bias: bool | None = None  # None: what the key attention_bias says
    output_bias: bool | None = None
    mlp: Literal["gated", "plain"] = "gated"
    mlp_bias: bool | None = None  # None: what the key mlp_bias says
    norm: Literal["rms", "layer"] = "rms"
    norms_per_layer: int = 2
    qk_norm: Literal["none", "head", "width"] = "none"
    attention: Literal["grouped", "latent"] = "grouped"
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    shared_gate: bool = False
    learned_positions: bool = False
    tied: bool = False


FAMILIES: dict[str, Family] = {
    "gpt2": Family(qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer", learned_positions=True, tied=True),
    "gpt_neox": Family(qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer"),
    "qwen2": Family(qkv_bias=True, output_bias=False),
    "qwen2_moe": Family(qkv_bias=True, output_bias=False, shared_gate=True),
    "qwen3": Family(qk_norm="head"),
    "qwen3_moe": Family(qk_norm="head"),
    "gemma": Family(tied=True),
    "gemma2": Family(norms_per_layer=4, tied=True),
    "gemma3_text": Family(norms_per_layer=4, qk_norm="head", tied=True),
    "olmoe": Family(qk_norm="width"),
    "olmo2": Family(qk_norm="width"),
    "deepseek_v2": Family(attention="latent"),
    "deepseek_v3": Family(attention="latent"),
    "kimi_k2": Family(attention="latent"),
    "gpt_oss": Family(sinks=True, expert_bias=True, router_bias=True),
}

_ALIASES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "num_heads"),
    "kv_heads": ("num_key_value_heads",),
    "ffn": ("intermediate_size", "n_inner", "ffn_dim"),
    "vocabulary": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "top_k": ("num_experts_per_tok", "experts_per_token", "num_experts_per_token"),
    "positions": ("n_positions", "max_position_embeddings"),
}


class Shape(msgspec.Struct, frozen=True):
    """A decoder as sizes and weight groups. ``layer_modules`` has one tuple of modules per layer."""

    name: str
    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    ffn: int
    experts: int
    top_k: int
    tied: bool
    embedding: Module
    positions: Module
    layer_modules: tuple[tuple[Module, ...], ...]
    final_norm: Module
    head: Module

    @property
    def modules(self) -> list[Module]:
        """All weight groups in the order of the forward pass."""
        return [self.embedding, self.positions, *(m for layer in self.layer_modules for m in layer), self.final_norm, self.head]

    @property
    def parameters(self) -> int:
        """Every parameter, a tied output head counted once."""
        return sum(m.parameters for m in self.modules)

    @property
    def active_parameters(self) -> int:
        """Parameters that take part in one token's forward pass, the input embedding table included whole."""
        return sum(m.active for m in self.modules)

    @property
    def active_parameters_without_embedding(self) -> int:
        """The other convention: the input embedding (a look-up, no multiplication) left out."""
        return self.active_parameters - self.embedding.parameters


def read_config(path: str | Path) -> Shape:
    """The shape described by the config.json at ``path``.

    BadInput names the file and the key that is missing, contradictory or of the wrong kind. A nested ``text_config`` is
    followed; quantisation settings change no count.
    """
    where = str(path)
    raw = _load(Path(path))
    nested = raw.get("text_config")
    if isinstance(nested, dict):
        raw = {**{k: v for k, v in raw.items() if k in ("tie_word_embeddings",)}, **nested}
    parent = Path(path).stem if Path(path).stem != "config" else Path(path).resolve().parent.name
    return from_config(raw, where, parent)


def from_config(raw: Mapping[str, object], where: str = "config", name: str = "") -> Shape:
    """The shape that the keys of a config describe; ``where`` stands before the key in error messages."""
    config = _Config(raw, where)
    model_type = str(raw.get("model_type", ""))
    family = FAMILIES.get(model_type) or FAMILIES.get(model_type.removesuffix("_text")) or Family()
    if family.attention == "grouped" and raw.get("kv_lora_rank") is not None:
        family = msgspec.structs.replace(family, attention="latent")
    hidden, layers, heads = config.whole("hidden"), config.whole("layers"), config.whole("heads")
    kv_heads = config.whole("kv_heads", heads)
    head_dim = config.optional("head_dim") or (0 if family.attention == "latent" else _even_split(hidden, heads, where))
    if family.attention == "grouped" and heads % kv_heads:
        raise BadInput(f"{where}: num_key_value_heads", f"found {kv_heads}", f"a divisor of the {heads} attention heads")
    vocabulary = config.whole("vocabulary")
    experts = config.whole("experts", 0, least=0)
    ffn = config.whole("ffn", 4 * hidden if family.mlp == "plain" else None)
    tied = raw.get("tie_word_embeddings")
    tied = family.tied if tied is None else bool(tied)
    sizes = _Sizes(config, family, hidden, heads, kv_heads, head_dim, ffn, experts, config.whole("top_k", 1) if experts else 0)
    if sizes.top_k > experts:
        raise BadInput(f"{where}: num_experts_per_tok", f"found {sizes.top_k}", f"at most the {experts} experts")
    norm = hidden * (2 if family.norm == "layer" else 1)
    table = vocabulary * hidden
    return Shape(
        name=name or model_type, model_type=model_type, hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, vocabulary=vocabulary, ffn=ffn, experts=experts, top_k=sizes.top_k, tied=tied,
        embedding=_dense("embedding", table),
        positions=_dense("positions", config.whole("positions") * hidden if family.learned_positions else 0),
        layer_modules=tuple(_layer(sizes, index, layers) for index in range(layers)),
        final_norm=_dense("final norm", norm),
        head=_dense("output head", 0 if tied else table),
    )  # fmt: skip


class _Config:
    """The keys of one config, read by meaning; what is missing is named."""

    def __init__(self, raw: Mapping[str, object], where: str) -> None:
        self.raw = raw
        self.where = where

    def whole(self, meaning: str, default: int | None = None, least: int = 1) -> int:
        names = _ALIASES.get(meaning, (meaning,))
        for name in names:
            if self.raw.get(name) is not None:
                return self._checked(name, self.raw[name], least)
        if default is None:
            raise BadInput(f"{self.where}: {names[0]}", "missing", "the config.json of a decoder-only transformer")
        return default

    def optional(self, name: str) -> int | None:
        value = self.raw.get(name)
        return None if value is None else self._checked(name, value, 0)

    def flag(self, name: str, rule: bool | None) -> bool:
        return rule if rule is not None else bool(self.raw.get(name, False))

    def _checked(self, name: str, value: object, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise BadInput(f"{self.where}: {name}", f"found {value!r}", f"a whole number from {least}")
        return value


class _Sizes(msgspec.Struct, frozen=True):
    config: _Config
    family: Family
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    experts: int
    top_k: int


def _layer(sizes: _Sizes, index: int, layers: int) -> tuple[Module, ...]:
    attention = _latent_attention if sizes.family.attention == "latent" else _grouped_attention
    norm = sizes.hidden * (2 if sizes.family.norm == "layer" else 1)
    mixer = _experts(sizes) if _is_sparse(sizes, index, layers) else [_dense("mlp", _mlp(sizes, _dense_width(sizes)))]
    return (_dense("attention", attention(sizes)), *mixer, _dense("norms", norm * sizes.family.norms_per_layer))


def _grouped_attention(s: _Sizes) -> int:
    """Query, key, value and output projections of MHA, GQA or MQA, with biases, QK norms and sinks where the family has them."""
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    count = s.hidden * (q + 2 * kv) + q * s.hidden
    if s.config.flag("attention_bias", s.family.qkv_bias):
        count += q + 2 * kv
    if s.config.flag("attention_bias", s.family.output_bias):
        count += s.hidden
    if s.family.qk_norm != "none":
        count += 2 * s.head_dim if s.family.qk_norm == "head" else q + kv
    return count + (s.heads if s.family.sinks else 0)


def _latent_attention(s: _Sizes) -> int:
    """Multi-head latent attention (arXiv 2405.04434): low-rank keys and values, queries low-rank unless q_lora_rank is null."""
    whole = s.config.whole
    kv_rank, rope, nope, value = whole("kv_lora_rank"), whole("qk_rope_head_dim", least=0), whole("qk_nope_head_dim"), whole("v_head_dim")
    q_rank = s.config.optional("q_lora_rank")
    bias = s.config.flag("attention_bias", s.family.qkv_bias)
    wide = s.heads * (nope + rope)
    queries = s.hidden * q_rank + q_rank + q_rank * wide + (q_rank if bias else 0) if q_rank else s.hidden * wide
    latent = s.hidden * (kv_rank + rope) + kv_rank + (kv_rank + rope if bias else 0)
    expanded = kv_rank * s.heads * (nope + value)
    return queries + latent + expanded + s.heads * value * s.hidden + (s.hidden if bias else 0)


def _mlp(s: _Sizes, width: int) -> int:
    matrices = 3 if s.family.mlp == "gated" else 2
    bias = (matrices - 1) * width + s.hidden if s.config.flag("mlp_bias", s.family.mlp_bias) else 0
    return matrices * s.hidden * width + bias


def _dense_width(s: _Sizes) -> int:
    """Llama 4 gives its dense layers another width than its experts."""
    return s.config.optional("intermediate_size_mlp") or s.ffn


def _is_sparse(s: _Sizes, index: int, layers: int) -> bool:
    """Whether layer ``index`` routes to experts: the first k may be dense, and sparse layers may interleave."""
    if not s.experts:
        return False
    raw = s.config.raw
    if index in _numbers(raw.get("mlp_only_layers")):
        return False
    if isinstance(raw.get("moe_layers"), list):
        return index in _numbers(raw.get("moe_layers"))
    if index < (s.config.optional("first_k_dense_replace") or 0):
        return False
    every = s.config.optional("interleave_moe_layer_step") or s.config.optional("decoder_sparse_step")
    if every:
        return (index + 1) % every == 0
    return index % (s.config.optional("moe_layer_freq") or 1) == 0


def _experts(s: _Sizes) -> list[Module]:
    """Router, routed experts (top_k of them active) and shared experts of one layer. Correction biases are buffers, not parameters."""
    whole = s.config.whole
    width = whole("moe_intermediate_size", s.ffn)
    one = 3 * s.hidden * width + (2 * width + s.hidden if s.family.expert_bias else 0)
    modules = [
        _dense("router", s.hidden * s.experts + (s.experts if s.family.router_bias else 0)),
        Module("experts", s.experts * one, s.top_k * one),
    ]
    shared = s.config.optional("n_shared_experts") or 0
    shared_width = s.config.optional("shared_expert_intermediate_size") or shared * width
    if s.config.raw.get("interleave_moe_layer_step") is not None:  # Llama 4: one shared expert of the experts' width
        shared_width = width
    if shared_width:
        modules.append(_dense("shared experts", 3 * s.hidden * shared_width + (s.hidden if s.family.shared_gate else 0)))
    return modules


def _dense(name: str, parameters: int) -> Module:
    return Module(name, parameters, parameters)


def _numbers(value: object) -> frozenset[int]:
    return frozenset(v for v in value if isinstance(v, int)) if isinstance(value, list) else frozenset()


def _even_split(hidden: int, heads: int, where: str) -> int:
    if hidden % heads:
        raise BadInput(f"{where}: num_attention_heads", f"{heads} heads do not divide hidden_size {hidden}", "a divisor, or a head_dim key")
    return hidden // heads


def _load(path: Path) -> dict[str, object]:
    where = str(path)
    kind = "the config.json of a decoder-only transformer"
    try:
        if path.is_file() and path.stat().st_size > LARGEST_FILE:
            raise BadInput(where, f"{path.stat().st_size:,} bytes", f"{kind}, at most {LARGEST_FILE:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(where, error.strerror or str(error), kind) from None
    if not content.strip():
        raise BadInput(where, "the file is empty", kind)
    try:
        raw = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(where, f"byte {error.start} is not UTF-8", kind) from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where} line {error.lineno} column {error.colno}", f"not JSON: {error.msg}", kind) from None
    except RecursionError:
        raise BadInput(where, "JSON nested too deeply", kind) from None
    if not isinstance(raw, dict):
        raise BadInput(where, f"the JSON is a {type(raw).__name__}", "an object with keys such as hidden_size")
    return raw
