"""Architectures beyond the published files: counted as transformers' own modules count, or refused by name."""

from __future__ import annotations

import json

import pytest

from core.errors import BadInput
from core.transformer import from_config, read_config

COMMON = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
    "vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 128,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
LATENT = {
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 10, "num_key_value_heads": 8,
    "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1, "index_n_heads": 4, "index_head_dim": 8,
    "index_topk": 8,
}  # fmt: skip
DENSE = [
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi", "phi3", "olmo", "olmo2", "olmo3", "stablelm",
    "starcoder2", "glm", "glm4", "granite", "cohere", "cohere2", "nemotron", "smollm3", "seed_oss", "arcee", "ernie4_5", "exaone4",
    "bitnet", "apertus", "ministral3", "persimmon", "gpt_neox", "gpt2", "gptj", "bloom", "falcon", "mpt", "opt", "gpt_bigcode",
    "biogpt", "nanochat", "jais2",
]  # fmt: skip
SPARSE = [
    "mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "gpt_oss", "glm4_moe", "phimoe", "granitemoe", "granitemoeshared", "ernie4_5_moe",
    "minimax_m2", "llama4_text", "flex_olmo", "exaone_moe", "solar_open",
]  # fmt: skip
LATENTS = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe_lite")
HYBRID = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
NO_INTERMEDIATE = {"gpt2", "gptj", "bloom", "mpt", "gpt_bigcode", "falcon", "opt"}
"""Families whose configs name the MLP's width otherwise, or have it at four times the hidden width."""


@pytest.mark.oracle
@pytest.mark.parametrize("model_type", [*DENSE, *SPARSE, *LATENTS, *HYBRID])
def test_an_architecture_counts_what_its_real_modules_hold(model_type):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    known = transformers.AutoConfig.for_model(model_type)
    wanted = dict(COMMON) | (EXPERTS if model_type in (*SPARSE, *LATENTS, *HYBRID) else {}) | (LATENT if model_type in LATENTS else {})
    if model_type in NO_INTERMEDIATE:
        del wanted["intermediate_size"]
        if model_type == "opt":
            wanted["ffn_dim"] = 96
    config = transformers.AutoConfig.for_model(model_type, **{k: v for k, v in wanted.items() if k in COMMON or hasattr(known, k)})
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    shape = from_config(json.loads(config.to_json_string(use_diff=False)))
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())


LLAMA = {"model_type": "llama"} | {k: COMMON[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
LLAMA |= {"num_key_value_heads": 2, "vocab_size": 100}


def test_a_nested_text_config_is_followed_and_named(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "some_vl", "vision_config": {"patch_size": 14}, "text_config": LLAMA}))
    shape = read_config(path)
    assert shape.parameters == from_config(LLAMA).parameters
    assert shape.part == "text_config"


def test_quantisation_changes_no_count_and_is_remembered():
    shape = from_config({**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4}})
    assert (shape.parameters, shape.quantised) == (from_config(LLAMA).parameters, "awq")


def test_what_tensor_ranks_share_and_what_stays_whole_add_up():
    shape = from_config({**LLAMA, "model_type": "qwen3", "attention_bias": True})
    for module in shape.modules:
        assert 0 <= module.whole + module.kv <= module.parameters
    attention = shape.layer_modules[0][0]
    assert attention.whole == 64 + 2 * 8  # the output's bias, and both QK norms
    assert attention.kv == 2 * 2 * 8 * (64 + 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "bert"}, ["model_type", "bert is an encoder"]),
        ({"model_type": "t5", "is_encoder_decoder": True}, ["t5 is an encoder-decoder"]),
        ({"model_type": "newthing", "is_encoder_decoder": True}, ["newthing is an encoder-decoder"]),
        ({"model_type": "vit", "patch_size": 16}, ["vit is a vision model"]),
        ({"model_type": "newvision", "patch_size": 16, "vocab_size": None}, ["missing"]),
        ({"model_type": "mamba"}, ["without attention"]),
        ({"model_type": "jamba"}, ["hybrid"]),
        ({"model_type": "newthing", "mamba_d_state": 16}, ["mamba_d_state", "state-space"]),
        ({"model_type": "newthing", "architectures": ["NewForSequenceClassification"]}, ["does not generate text"]),
        ({"n_embd": 128}, ["hidden_size 64 and n_embd 128 contradict"]),
        ({"num_local_experts": 4, "num_experts": 8}, ["contradict"]),
        ({"layer_types": ["full_attention"]}, ["1 entries for 4 layers"]),
        ({"layer_types": ["full_attention"] * 3 + ["recurrent"]}, ["found 'recurrent'"]),
        ({"tie_word_embeddings": "yes"}, ["tie_word_embeddings", "true or false"]),
        ({"num_experts": 4, "first_k_dense_replace": 9}, ["9 of 4 layers"]),
        ({"num_hidden_layers": 10**9}, ["100,000 layers"]),
        ({"hidden_size": 10**30}, ["hidden_size"]),
        ({"hidden_size": True}, ["hidden_size", "found True"]),
    ],
)
def test_what_is_no_decoder_or_contradicts_itself_is_named(change, words):
    with pytest.raises(BadInput) as refused:
        from_config({**LLAMA, **change}, "config.json")
    for word in words:
        assert word in str(refused.value)
