"""A decoder's shape read from a Hugging Face config.json: every parameter, module by module.

Counts follow rules per architecture family (`core.transformer_families`), never a table of models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from core.errors import BadInput
from core.transformer_config import KIND, LARGEST_FILE, Config, load
from core.transformer_families import FAMILIES, Family, family_of, not_a_decoder
from core.transformer_layers import Latent, Linear, Module, Sizes, dense, layer_kind, layer_modules

__all__ = ["FAMILIES", "LARGEST_FILE", "Family", "Latent", "Linear", "Module", "Shape", "from_config", "read_config"]


class Shape(msgspec.Struct, frozen=True):
    """A decoder as sizes and weight groups. ``layer_modules`` has one tuple of modules per layer.

    ``ffn`` is the width of dense layers, ``expert_ffn`` of one expert, ``shared_ffn`` of the shared experts together.
    ``quantised`` names a quantisation the config asks for; it changes no count. ``part`` names the nested config that was read.
    """

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
    expert_ffn: int = 0
    shared_ffn: int = 0
    gated: bool = True
    norm: str = "rms"
    norms_per_layer: int = 2
    qk_norm: str = "none"
    dropout: bool = False
    latent: Latent | None = None
    linear_layers: tuple[int, ...] = ()
    quantised: str = ""
    part: str = ""

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

    def is_sparse(self, layer: int) -> bool:
        """Whether ``layer`` routes its tokens to experts."""
        return any(module.name == "experts" for module in self.layer_modules[layer])


def read_config(path: str | Path) -> Shape:
    """The shape described by the config.json at ``path``.

    BadInput names the file and the key that is missing, contradictory or of the wrong kind, and a model that is no decoder.
    A nested ``text_config`` is followed; quantisation settings change no count.
    """
    where = str(path)
    raw = load(Path(path))
    part = next((key for key in ("text_config", "llm_config", "language_config") if isinstance(raw.get(key), dict)), "")
    if part:
        outer = {key: value for key, value in raw.items() if key in ("tie_word_embeddings", "quantization_config")}
        raw = {**outer, **raw[part]}  # type: ignore[dict-item]
        where = f"{where}: {part}"
    parent = Path(path).stem if Path(path).stem != "config" else Path(path).resolve().parent.name
    return msgspec.structs.replace(from_config(raw, where, parent), part=part)


def from_config(raw: Mapping[str, object], where: str = "config", name: str = "") -> Shape:
    """The shape that the keys of a config describe; ``where`` stands before the key in error messages."""
    reason = not_a_decoder(raw)
    if reason:
        raise BadInput(f"{where}: model_type", reason, KIND)
    config = Config(raw, where)
    model_type = str(raw.get("model_type", ""))
    family = _refined(family_of(model_type), config)
    hidden, layers, heads = config.whole("hidden"), config.whole("layers"), config.whole("heads")
    if layers > 100_000:
        raise config.refuse("num_hidden_layers", f"found {layers:,}", "up to 100,000 layers")
    sizes = _sizes(config, family, hidden, heads)
    _agrees(config, layers)
    vocabulary = config.whole("vocabulary")
    tied = family.tied if raw.get("tie_word_embeddings") is None else config.flag("tie_word_embeddings")
    table = vocabulary * hidden
    positions = config.whole("positions") + family.extra_positions if family.learned_positions else 0
    head = (0 if tied else table) + (vocabulary if family.head_bias or config.flag("lm_head_bias") else 0)
    first = dense("embedding", table)
    if family.embedding_norm:
        first = Module("embedding", table + sizes.norm_size, table + sizes.norm_size, whole=sizes.norm_size)
    final = 0 if model_type == "opt" and raw.get("do_layer_norm_before") is False else sizes.norm_size
    quantised = raw.get("quantization_config")
    return Shape(
        name=name or model_type, model_type=model_type, hidden=hidden, layers=layers, heads=heads, kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim, vocabulary=vocabulary, ffn=sizes.dense_ffn, experts=sizes.experts, top_k=sizes.top_k, tied=tied,
        embedding=first,
        positions=Module("positions", positions * hidden, positions * hidden, whole=positions * hidden),
        layer_modules=tuple(layer_modules(sizes, index, layers) for index in range(layers)),
        final_norm=Module("final norm", final, final, whole=final),
        head=dense("output head", head),
        expert_ffn=sizes.expert_ffn, shared_ffn=sizes.shared_ffn, gated=family.mlp == "gated", norm=family.norm,
        norms_per_layer=family.norms_per_layer, qk_norm=family.qk_norm, dropout=family.dropout, latent=sizes.latent,
        linear_layers=tuple(i for i in range(layers) if layer_kind(sizes, i) == "linear_attention"),
        quantised=str(quantised.get("quant_method", "yes")) if isinstance(quantised, dict) else "",
    )  # fmt: skip


def _refined(family: Family, config: Config) -> Family:
    """The family's rules where a key of this config turns one of them on or off."""
    change: dict[str, object] = {}
    if family.attention == "grouped" and config.raw.get("kv_lora_rank") is not None:
        change["attention"] = "latent"
    if family.qk_norm_key and not config.flag(family.qk_norm_key):
        change["qk_norm"] = "none"
    if config.raw.get("model_type") == "falcon" and config.flag("new_decoder_architecture"):
        change["norms_per_layer"] = config.whole("num_ln_in_parallel_attn", 2)
    elif config.raw.get("model_type") == "falcon" and config.raw.get("parallel_attn") is False:
        change["norms_per_layer"] = 2
    return msgspec.structs.replace(family, **change) if change else family


def _sizes(config: Config, family: Family, hidden: int, heads: int) -> Sizes:
    """The widths of a layer. BadInput for heads, experts or widths that contradict each other."""
    where, latent = config.where, None
    if family.attention == "latent":
        whole = config.whole
        latent = Latent(
            config.optional("q_lora_rank") or 0, whole("kv_lora_rank"), whole("qk_nope_head_dim"), whole("qk_rope_head_dim", least=0),
            whole("v_head_dim"),
        )  # fmt: skip
    head_dim = config.optional("head_dim") or (0 if latent else _even_split(hidden, heads, where))
    kv_heads = _kv_heads(config, family, heads)
    if latent is None and heads % kv_heads:
        raise BadInput(f"{where}: num_key_value_heads", f"found {kv_heads}", f"a divisor of the {heads} attention heads")
    experts = config.whole("experts", 0, least=0)
    top_k = config.whole("top_k", 1) if experts else 0
    if top_k > experts:
        raise BadInput(f"{where}: num_experts_per_tok", f"found {top_k}", f"at most the {experts} experts")
    default = 4 * hidden if family.mlp == "plain" else None
    if experts and config.optional("expert width"):
        default = config.whole("expert width")  # a model of experts alone may leave out the width of dense layers
    ffn = config.whole("ffn", default)
    expert_ffn = config.whole("expert width", ffn) if experts else 0
    shared = config.optional("shared experts") or 0
    shared_ffn = (config.optional("shared width") or shared * expert_ffn) if experts else 0
    if experts and config.raw.get("interleave_moe_layer_step") is not None:  # Llama 4: one shared expert of the experts' width
        shared_ffn = expert_ffn
    dense_ffn = config.optional("intermediate_size_mlp") or ffn  # Llama 4 gives its dense layers another width
    linear = _linear(config) if "linear_attention" in _layer_types(config) else None
    return Sizes(config, family, hidden, heads, kv_heads, head_dim, dense_ffn, experts, top_k, expert_ffn, shared_ffn, latent, linear)


def _kv_heads(config: Config, family: Family, heads: int) -> int:
    if family.all_kv_heads:
        return heads
    new = config.flag("new_decoder_architecture")
    if config.raw.get("multi_query") is True and not new:
        return 1
    if config.raw.get("model_type") == "falcon" and not new:
        return heads
    return config.whole("kv_heads", heads)


def _layer_types(config: Config) -> list[object]:
    found = config.raw.get("layer_types")
    return found if isinstance(found, list) else []


def _linear(config: Config) -> Linear:
    whole = config.whole
    return Linear(
        whole("linear_num_key_heads"), whole("linear_num_value_heads"), whole("linear_key_head_dim"), whole("linear_value_head_dim"),
        whole("linear_conv_kernel_dim"),
    )  # fmt: skip


def _agrees(config: Config, layers: int) -> None:
    """BadInput where keys about single layers contradict the number of layers, or name layers nobody can count."""
    types = _layer_types(config)
    if types and len(types) != layers:
        raise config.refuse("layer_types", f"{len(types)} entries for {layers} layers", "one for each of num_hidden_layers")
    known = {"full_attention", "sliding_attention", "chunked_attention", "linear_attention", "indexed_attention", "attention"}
    strange = next((str(kind) for kind in types if kind not in known), None)
    if strange is not None:
        raise config.refuse("layer_types", f"found {strange!r}", ", ".join(sorted(known)))
    first = config.optional("first_k_dense_replace") or 0
    if first > layers:
        raise config.refuse("first_k_dense_replace", f"{first} of {layers} layers", "at most num_hidden_layers")


def _even_split(hidden: int, heads: int, where: str) -> int:
    if hidden % heads:
        raise BadInput(f"{where}: num_attention_heads", f"{heads} heads do not divide hidden_size {hidden}", "a divisor, or a head_dim key")
    return hidden // heads
