"""Parameter counts from config.json files: published models to the parameter, and configs nobody has seen before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import BadInput
from core.transformer import from_config, read_config

MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "models"
MANIFEST = json.loads((MODELS / "MANIFEST.json").read_text()) if (MODELS / "MANIFEST.json").exists() else {}
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.skipif(not MANIFEST, reason="the folder with published config.json files is absent")
@pytest.mark.parametrize("model", MANIFEST)
def test_published_models_are_counted_to_the_parameter(model):
    shape, row = read_config(MODELS / f"{model}.json"), MANIFEST[model]
    assert shape.parameters == row["hf_meta_total"]
    assert shape.active_parameters == row["hf_meta_active"]
    assert shape.active_parameters_without_embedding == row["hf_meta_active_excl_input_embedding"]


def test_a_small_llama_is_counted_by_hand():
    h, f, v = 64, 96, 100
    layer = h * h + 2 * h * 16 + h * h + 3 * h * f + 2 * h
    assert from_config(LLAMA).parameters == 2 * v * h + 3 * layer + h
    assert from_config({**LLAMA, "tie_word_embeddings": True}).parameters == v * h + 3 * layer + h


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("model_type", "extra"),
    [
        ("llama", {}),
        ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
        ("mistral", {"tie_word_embeddings": True}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 16, "attention_bias": True}),
        ("gemma", {"head_dim": 32}),
        ("gemma2", {"head_dim": 32}),
        ("gemma3_text", {"head_dim": 32}),
        ("phi3", {"pad_token_id": 0}),
        ("olmo2", {}),
        ("olmoe", {"num_experts": 8, "num_experts_per_tok": 2}),
        ("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
        ("qwen2_moe", {"num_experts": 6, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 36, "decoder_sparse_step": 2}),
        ("qwen3_moe", {"num_experts": 6, "moe_intermediate_size": 20, "mlp_only_layers": [1], "head_dim": 8}),
        ("gpt_oss", {"attention_bias": True, "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8}),
        (
            "deepseek_v3",
            {"n_routed_experts": 8, "n_shared_experts": 2, "moe_intermediate_size": 20, "first_k_dense_replace": 1, "q_lora_rank": 24,
             "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 10, "num_key_value_heads": 8,
             "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2},
        ),
        (
            "deepseek_v2",
            {"n_routed_experts": 8, "n_shared_experts": 1, "moe_intermediate_size": 20, "first_k_dense_replace": 0, "q_lora_rank": None,
             "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 10, "num_key_value_heads": 8},
        ),
    ],
)  # fmt: skip
def test_small_configs_count_what_the_real_modules_hold(model_type, extra):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    raw = {**LLAMA, "model_type": model_type, **extra}
    config = transformers.AutoConfig.for_model(**raw)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    shape = from_config({**raw, "tie_word_embeddings": config.tie_word_embeddings})
    assert shape.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["the file is empty"]),
        (b"[1, 2]", ["the JSON is a list"]),
        (b"{'a': 1}", ["line 1 column 2", "not JSON"]),
        (b"\x80\x81", ["byte 0", "UTF-8"]),
        (b"{}", ["hidden_size", "missing"]),
        (b"[" * 100_000, ["nested too deeply"]),
        (json.dumps({**LLAMA, "num_hidden_layers": None}).encode(), ["num_hidden_layers", "missing"]),
        (json.dumps({**LLAMA, "num_hidden_layers": "3"}).encode(), ["num_hidden_layers", "found '3'"]),
        (json.dumps({**LLAMA, "num_attention_heads": 7}).encode(), ["num_attention_heads"]),
        (json.dumps({**LLAMA, "num_key_value_heads": 3}).encode(), ["num_key_value_heads", "divisor of the 8"]),
        (json.dumps({**LLAMA, "vocab_size": -1}).encode(), ["vocab_size", "found -1"]),
        (json.dumps({**LLAMA, "num_experts": 2, "num_experts_per_tok": 3}).encode(), ["num_experts_per_tok", "at most the 2"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_config_is_refused_in_one_line(tmp_path, content, words):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(BadInput) as refused:
        read_config(path)
    line = str(refused.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    for word in words:
        assert word in line


def test_a_missing_file_and_a_huge_one_are_refused(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        read_config(tmp_path / "config.json")
    huge = tmp_path / "huge.json"
    with huge.open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(BadInput, match="at most"):
        read_config(huge)
