"""How architecture families build their layers where a config's keys do not say, and the kinds of model that are refused.

Rules per family, never a table of models. A family without a rule of its own is read by its keys as the common pre-norm
decoder with RMSNorm and a gated MLP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """What a family adds to the keys of its configs. ``None`` for a bias: what the key named beside it says."""

    qkv_bias: bool | None = None  # attention_bias
    output_bias: bool | None = None  # attention_bias
    bias_key: str = "attention_bias"
    mlp: Literal["gated", "plain"] = "gated"
    mlp_bias: bool | None = None  # mlp_bias, or bias_key where that is another
    mlp_extra: int = 0  # parameters of the activation function itself
    norm: Literal["rms", "layer", "layer_without_bias", "none"] = "rms"
    norms_per_layer: int = 2
    sub_norms: bool = False  # a norm before the output projection and one before the down projection
    embedding_norm: bool = False
    qk_norm: Literal["none", "head", "head_bias", "width"] = "none"
    qk_norm_key: str = ""  # the norm is there only where this key is true
    attention: Literal["grouped", "latent"] = "grouped"
    indexer: bool = False  # a small attention picks the tokens that the large one looks at
    all_kv_heads: bool = False  # as many key and value heads as query heads, whatever a key says
    query_gate: bool = False  # the query projection also gives a gate of the output
    sinks: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    correction_bias: bool = False  # counted only where the family makes it a parameter instead of a buffer
    shared_gate: bool = False
    learned_positions: bool = False
    extra_positions: int = 0
    head_bias: bool = False
    tied: bool = False
    dropout: bool = False  # trained with dropout on attention and on both residual branches


_GPT = Family(
    qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer", learned_positions=True, tied=True, dropout=True
)  # fmt: skip
_OPT = Family(
    qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer", learned_positions=True, extra_positions=2, tied=True,
    dropout=True, all_kv_heads=True,
)  # fmt: skip
_NEOX = Family(qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer", all_kv_heads=True)

FAMILIES: dict[str, Family] = {
    "gpt2": msgspec.structs.replace(_GPT, all_kv_heads=True),
    "gpt_bigcode": _GPT,
    "opt": _OPT,
    "biogpt": _OPT,
    "gpt_neox": _NEOX,
    "gptj": Family(
        qkv_bias=False, output_bias=False, mlp="plain", mlp_bias=True, norm="layer", norms_per_layer=1, all_kv_heads=True, head_bias=True
    ),
    "bloom": msgspec.structs.replace(_NEOX, embedding_norm=True, tied=True),
    "falcon": Family(bias_key="bias", mlp="plain", norm="layer", norms_per_layer=1, tied=True),
    "mpt": Family(qkv_bias=False, output_bias=False, mlp="plain", norm="layer_without_bias", all_kv_heads=True, tied=True),
    "phi": Family(qkv_bias=True, output_bias=True, mlp="plain", mlp_bias=True, norm="layer", norms_per_layer=1, head_bias=True),
    "persimmon": msgspec.structs.replace(_NEOX, qk_norm="head_bias"),
    "stablelm": Family(bias_key="use_qkv_bias", output_bias=False, mlp_bias=False, norm="layer"),
    "starcoder2": Family(bias_key="use_bias", mlp="plain", norm="layer", tied=True),
    "qwen2": Family(qkv_bias=True, output_bias=False),
    "qwen2_moe": Family(qkv_bias=True, output_bias=False, shared_gate=True),
    "qwen3": Family(qk_norm="head"),
    "qwen3_moe": Family(qk_norm="head"),
    "qwen3_next": Family(qk_norm="head", query_gate=True, shared_gate=True),
    "qwen3_5": Family(qk_norm="head", query_gate=True),
    "qwen3_5_moe": Family(qk_norm="head", query_gate=True, shared_gate=True),
    "gemma": Family(tied=True),
    "gemma2": Family(norms_per_layer=4, tied=True),
    "gemma3": Family(norms_per_layer=4, qk_norm="head", tied=True),
    "glm": Family(output_bias=False),
    "glm4": Family(output_bias=False, norms_per_layer=4),
    "seed_oss": Family(bias_key="attention_bias", output_bias=False),
    "glm4_moe": Family(output_bias=False, qk_norm="head", qk_norm_key="use_qk_norm"),
    "cohere": Family(norm="layer_without_bias", norms_per_layer=1, qk_norm="width", qk_norm_key="use_qk_norm", tied=True),
    "cohere2": Family(norm="layer_without_bias", norms_per_layer=1, tied=True),
    "olmo": Family(norm="none"),
    "olmoe": Family(qk_norm="width"),
    "olmo2": Family(qk_norm="width"),
    "olmo3": Family(qk_norm="width"),
    "flex_olmo": Family(qk_norm="width"),
    "nanochat": Family(mlp="plain", norm="none"),
    "nemotron": Family(mlp="plain", norm="layer"),
    "arcee": Family(mlp="plain"),
    "apertus": Family(mlp="plain", mlp_extra=2, qk_norm="head"),
    "jais2": Family(mlp="plain", norm="layer"),
    "exaone4": Family(qk_norm="head"),
    "exaone_moe": Family(qk_norm="head"),
    "bitnet": Family(sub_norms=True),
    "phimoe": Family(norm="layer"),
    "ernie4_5": Family(bias_key="use_bias", tied=True),
    "ernie4_5_moe": Family(bias_key="use_bias", correction_bias=True, tied=True),
    "minimax_m2": Family(qk_norm="width"),
    "deepseek_v2": Family(attention="latent"),
    "deepseek_v3": Family(attention="latent"),
    "deepseek_v32": Family(attention="latent", indexer=True),
    "glm_moe_dsa": Family(attention="latent", indexer=True),
    "kimi_k2": Family(attention="latent"),
    "gpt_oss": Family(sinks=True, expert_bias=True, router_bias=True),
}

NOT_DECODERS: dict[str, str] = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "albert", "electra", "deberta", "deberta-v2", "distilbert", "modernbert", "mpnet", "camembert"),
        "an encoder",
    ),
    **dict.fromkeys(("t5", "mt5", "umt5", "bart", "mbart", "pegasus", "marian", "m2m_100", "led", "t5gemma"), "an encoder-decoder"),
    **dict.fromkeys(("vit", "deit", "swin", "beit", "dinov2", "dinov3_vit", "convnext", "resnet", "siglip", "clip", "clip_vision_model",
                     "siglip_vision_model", "sam", "detr"), "a vision model"),
    **dict.fromkeys(("whisper", "wav2vec2", "hubert", "wavlm", "speecht5"), "a speech model"),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), "a recurrent model without attention"),
    **dict.fromkeys(("jamba", "bamba", "zamba", "zamba2", "nemotron_h", "granitemoehybrid", "falcon_h1", "recurrent_gemma", "lfm2",
                     "lfm2_moe", "minimax", "plamo2", "olmo_hybrid", "kimi_linear"), "a hybrid of attention and recurrent layers"),
    **dict.fromkeys(("helium", "doge", "afmoe", "jetmoe", "longcat_flash", "mimo_v2_flash", "diffllama", "gemma3n", "gemma3n_text", "dbrx",
                     "xglm", "codegen", "reformer", "xlnet", "openelm"), "a decoder of a design that has no rule yet"),
}  # fmt: skip
"""model_type -> what it is, for kinds whose keys look like a decoder's but would be counted wrong."""

_GENERATES = ("CausalLM", "LMHeadModel", "ConditionalGeneration", "LMHead")


def family_of(model_type: str) -> Family:
    """The rules of a model_type; those of its base where it ends in _text."""
    return FAMILIES.get(model_type) or FAMILIES.get(model_type.removesuffix("_text")) or Family()


def not_a_decoder(raw: Mapping[str, object]) -> str:
    """What a config describes instead of a decoder-only transformer ("bert is an encoder"); '' when nothing speaks against it."""
    model_type = str(raw.get("model_type", ""))
    if model_type in NOT_DECODERS:
        return f"{model_type} is {NOT_DECODERS[model_type]}"
    if raw.get("is_encoder_decoder") is True:
        return f"{model_type or 'the model'} is an encoder-decoder"
    if "patch_size" in raw and "vocab_size" not in raw:
        return f"{model_type or 'the model'} is a vision model"
    names = raw.get("architectures")
    if isinstance(names, list) and names and model_type not in FAMILIES:
        last = str(names[0])
        if "For" in last and not any(part in last for part in _GENERATES):
            return f"{last} does not generate text"
    state_space = next((key for key in raw if key.startswith(("mamba_", "ssm_")) and raw[key] is not None), None)
    return f"key {state_space} belongs to a state-space model" if state_space else ""
