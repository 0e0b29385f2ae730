"""The memory ledger against published figures, closed forms, real layers in torch, and torch's own memory tracker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from core.errors import BadInput
from core.simulation import record
from core.training.memory_checks import BATCH, TOKENS, by_operation
from core.training.memory_layers import Layer
from core.training.memory_ledger import LINES, Layouts, Setting, ledger
from core.training.memory_model import Model
from core.training.memory_saved import operations
from core.training.memory_setup import Job, MemoryParams
from core.training.memory_stages import Stages
from core.training.memory_views import ledger_of
from core.transformer import from_config

MODELS = Path(__file__).resolve().parents[4] / "shared" / "data" / "models"
GIB = 2**30
SEVEN_B = {"parameters": 7e9, "activation_model": "paper"}
SIZES_22B = {"layers": 48, "hidden": 6144, "heads": 64, "micro_batch": 4, "tensor_parallel": 8, "activation_model": "paper"}
SIZES_175B = {
    "layers": 96, "hidden": 12288, "heads": 96, "tensor_parallel": 8, "pipeline_parallel": 8, "chunks": 3, "activation_model": "paper",
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 2, "vocab_size": 100,
}  # fmt: skip


def facts(**params: object) -> dict[str, object]:
    recording = record("memory", params)
    assert [check for check in recording.checks if not check.ok] == []
    return {fact.name: fact.value for fact in recording.final_facts()}


def lines(**params: object) -> dict[str, float]:
    """The ledger of one rank (one stage) by line."""
    return {name: float(values.max()) for name, values in ledger_of(Job.of(MemoryParams(**params))).items()}


class TestPublishedFigures:
    def test_seven_b_on_one_device_and_on_four(self):
        assert facts(**SEVEN_B)["model_state_bytes"] == 112e9
        assert facts(**SEVEN_B, zero_stage=3, data_parallel=4)["model_state_bytes"] == 28e9

    @pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120.0), (1, 31.4), (2, 16.6), (3, 1.9)])
    def test_seven_and_a_half_b_on_64(self, stage, gigabytes):
        got = facts(parameters=75 * 10**8, zero_stage=stage, data_parallel=64)["model_state_bytes"]
        assert round(got / 1e9, 1) == gigabytes

    @pytest.mark.parametrize(("parameters", "gigabytes"), [(1e9, 16), (70e9, 1120), (405e9, 6480)])
    def test_states_of_known_sizes(self, parameters, gigabytes):
        assert facts(parameters=parameters)["model_state_bytes"] == gigabytes * 1e9

    def test_activations_of_seven_b_and_what_flash_removes(self):
        math, flash = facts(**SEVEN_B), facts(**SEVEN_B, attention="flash")
        assert round(math["activation_bytes"] / 1e9, 1) == 30.6
        assert round(math["score_bytes"] / 1e9, 1) == 21.5
        assert round(flash["activation_bytes"] / 1e9, 1) == 9.1
        assert flash["score_bytes"] == 0
        assert round((math["model_state_bytes"] + math["activation_bytes"]) / 1e9, 1) == 142.6

    @pytest.mark.parametrize(
        ("sequence", "recompute", "gib"),
        [(1024, "none", 9.25), (2048, "none", 28.5), (4096, "none", 97.0), (8192, "none", 354.0), (1024, "selective", 4.25),
         (4096, "selective", 17.0), (16384, "selective", 68.0)],
    )  # fmt: skip
    def test_activations_by_sequence(self, sequence, recompute, gib):
        got = facts(activation_model="paper", sequence=sequence, recompute=recompute)["activation_bytes"]
        assert got / GIB == gib

    @pytest.mark.parametrize(
        ("sizes", "savings", "gib"),
        [(SIZES_22B, False, 59.25), (SIZES_22B, True, 9.5625), (SIZES_175B, False, 66.84), (SIZES_175B, True, 12.35)],
    )
    def test_activations_of_megatron_models(self, sizes, savings, gib):
        more = {"sequence_parallel": True, "recompute": "selective"} if savings else {}
        got = facts(**sizes, **more)["activation_bytes"] / GIB
        assert abs(got - gib) < 0.005

    @pytest.mark.parametrize("sizes", [SIZES_22B, SIZES_175B])
    def test_states_of_megatron_models(self, sizes):
        count = 12 * sizes["layers"] * sizes["hidden"] ** 2
        got = facts(**sizes, parameters=count, convention="18")["model_state_bytes"]
        assert round(got / GIB, 2) == 45.56

    def test_deepspeed_estimate_of_t5_3b(self):
        found = facts(parameters=2851e6, largest_layer=32e6, data_parallel=8)
        assert round(found["deepspeed_zero2_bytes"] / GIB, 2) == 15.93
        assert round(found["deepspeed_zero3_bytes"] / GIB, 2) == 6.09

    @pytest.mark.parametrize(("convention", "size"), [("16", 16), ("18", 18), ("20", 20), ("fsdp2", 16)])
    def test_the_convention_is_stated(self, convention, size):
        found = facts(parameters=1e9, convention=convention)
        assert found["model_state_bytes"] == size * 1e9
        assert str(found["convention"]).startswith(f"{convention}:")

    def test_fsdp2_shards_everything_and_gathers_for_a_moment(self):
        found = facts(parameters=8e9, convention="fsdp2", zero_stage=3, data_parallel=8)
        assert found["model_state_bytes"] == 16e9
        assert found["buffer_bytes"] > 0


class TestWhatCalculatorsGetWrong:
    def test_experts_are_divided_by_expert_ranks_and_nothing_else_is(self):
        moe = {"layer_type": "llama", "experts": 8, "ffn": 512, "hidden": 256, "heads": 8, "layers": 4, "vocabulary": 0}
        whole, shared = lines(**moe, data_parallel=8), lines(**moe, data_parallel=8, expert_parallel=8)
        routed = 2 * 4 * 8 * 3 * 256 * 512
        assert whole["parameters"] - shared["parameters"] == routed * 7 / 8

    def test_expert_tensor_ranks_cut_experts_apart_from_the_rest(self):
        moe = {
            "layer_type": "llama",
            "experts": 8,
            "ffn": 512,
            "hidden": 256,
            "heads": 8,
            "layers": 4,
            "vocabulary": 0,
            "tensor_parallel": 4,
        }
        cut, uncut = lines(**moe), lines(**moe, expert_tensor_parallel=1)
        routed = 2 * 4 * 8 * 3 * 256 * 512
        assert uncut["parameters"] - cut["parameters"] == routed * 3 / 4

    def test_optimizer_states_of_experts_are_shared_by_fewer_ranks(self):
        moe = {"layer_type": "llama", "experts": 8, "ffn": 512, "hidden": 256, "heads": 8, "layers": 4, "vocabulary": 0, "zero_stage": 1}
        found = lines(**moe, data_parallel=8, expert_parallel=8)
        routed = 4 * 8 * 3 * 256 * 512
        dense = sum(m.parameters for m in Job.of(MemoryParams(**moe)).model.shape.modules) - routed
        assert found["optimizer"] == 12 * (dense / 8 + routed / 8)

    def test_norms_are_whole_on_every_tensor_rank(self):
        sizes = {"layer_type": "llama", "hidden": 256, "heads": 8, "ffn": 512, "layers": 4, "vocabulary": 0}
        one, four = lines(**sizes), lines(**sizes, tensor_parallel=4)
        matrices = 4 * (4 * 256 * 256 + 3 * 256 * 512)
        norms = 4 * 2 * 256
        assert one["parameters"] == 2 * (matrices + norms)
        assert four["parameters"] == 2 * (matrices / 4 + norms)

    def test_kv_heads_are_repeated_where_there_are_fewer_than_ranks(self):
        sizes = {"layer_type": "llama", "hidden": 256, "heads": 8, "kv_heads": 2, "ffn": 512, "layers": 1, "vocabulary": 0}
        four = lines(**sizes, tensor_parallel=4)
        qo, kv, mlp, norms = 2 * 256 * 256, 2 * 256 * 64, 3 * 256 * 512, 2 * 256
        assert four["parameters"] == 2 * ((qo + mlp) / 4 + kv / 2 + norms)

    def test_an_uneven_split_shows_on_its_stage(self):
        sizes = {"hidden": 256, "heads": 8, "layers": 8, "vocabulary": 0, "pipeline_parallel": 2, "activation_model": "paper"}
        even = ledger_of(Job.of(MemoryParams(**sizes)))
        uneven = ledger_of(Job.of(MemoryParams(**sizes, stage_layers=(3, 5))))
        assert even["parameters"].tolist()[0] == even["parameters"].tolist()[1]
        assert uneven["parameters"][0] / uneven["parameters"][1] == 3 / 5
        assert uneven["activations"][0] / even["activations"][0] == 3 / 4

    def test_embedding_and_head_stand_on_the_end_stages(self):
        sizes = {"layer_type": "llama", "hidden": 256, "heads": 8, "ffn": 512, "layers": 4, "vocabulary": 1000, "pipeline_parallel": 4}
        found = ledger_of(Job.of(MemoryParams(**sizes)))["parameters"]
        assert found[0] - found[1] == 2 * 1000 * 256
        assert found[3] - found[1] == 2 * (1000 * 256 + 256)

    def test_a_tied_embedding_is_held_twice_in_a_pipeline(self):
        sizes = {"hidden": 256, "heads": 8, "layers": 4, "vocabulary": 1000}
        found = ledger_of(Job.of(MemoryParams(**sizes, pipeline_parallel=2)))["parameters"]
        assert found.sum() == ledger_of(Job.of(MemoryParams(**sizes)))["parameters"].sum() + 2 * 1000 * 256

    def test_zero_2_may_need_more_than_zero_1_because_of_its_buckets(self):
        small = {"parameters": 100_000_000, "data_parallel": 2, "bucket": 200_000_000}
        one, two = (lines(**small, zero_stage=stage) for stage in (1, 2))
        assert two["gradients"] == one["gradients"] / 2
        assert sum(two.values()) > sum(one.values())

    def test_a_quantised_config_is_counted_as_trained_in_full(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}}))
        found = facts(model=str(path))
        assert found["quantised"] == "gptq"
        assert found["model_state_bytes"] == 16 * found["parameters"]


class TestInFlight:
    def test_stages_hold_as_many_microbatches_as_their_schedule_does(self):
        from core.training.schedules import Kind, build

        model = Model.of(from_config({**LLAMA, "num_hidden_layers": 24}), "operations", True)
        for schedule, chunks in (("1f1b", 1), ("interleaved", 2), ("interleaved", 3)):
            for stages in (2, 4):
                for microbatches in (stages, 4 * stages):
                    table = build(schedule, stages, microbatches, chunks)
                    held = Stages.of(model, stages, chunks).in_flight(torch.tensor([microbatches]).numpy())
                    for rank in range(stages):
                        forwards = [0] * chunks
                        for action in table.of_rank(rank):
                            if action.kind != Kind.FORWARD:
                                break
                            forwards[action.stage // stages] += 1
                        assert held[rank, :, 0].tolist() == forwards, (schedule, stages, microbatches, rank)

    def test_fewer_microbatches_than_stages_hold_less(self):
        model = Model.of(from_config(LLAMA), "operations", True)
        assert Stages.of(model, 4).in_flight(torch.tensor([2.0]).numpy())[:, 0, 0].tolist() == [2, 2, 2, 1]


CONFIGS = {
    "gelu": {**LLAMA, "model_type": "gpt2", "n_positions": 64, "num_key_value_heads": 8},
    "multi_head": {**LLAMA, "num_key_value_heads": 8},
    "grouped": LLAMA,
    "multi_query": {**LLAMA, "num_key_value_heads": 1},
    "qk_norm": {**LLAMA, "model_type": "qwen3"},
    "qk_norm_wide": {**LLAMA, "model_type": "olmo2"},
    "four_norms": {**LLAMA, "model_type": "gemma2"},
    "parallel_block": {**LLAMA, "model_type": "phi"},
    "mixture": {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
    "latent": {
        **LLAMA, "model_type": "deepseek_v3", "n_routed_experts": 8, "n_shared_experts": 2, "moe_intermediate_size": 20, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 12, "v_head_dim": 10, "num_experts_per_tok": 3,
    },
}  # fmt: skip


class TestWhatAutogradSaves:
    @pytest.mark.parametrize("flash", [False, True], ids=["math", "flash"])
    @pytest.mark.parametrize("name", CONFIGS)
    def test_every_operation_of_a_real_layer_saves_what_is_counted(self, name, flash):
        shape = from_config(CONFIGS[name])
        if flash and shape.latent:
            pytest.skip("torch's flash kernel on CPU takes one width for keys and values")
        got = Layer(shape, 0, flash=flash, generator=torch.Generator().manual_seed(1)).run(BATCH, TOKENS)
        assert dict(got) == dict(by_operation(operations(shape, 0, flash), shape))

    def test_a_llama_layer_saves_far_more_than_the_papers_34_sbh(self):
        shape = from_config(
            {**LLAMA, "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 32}
        )
        assert sum(item.per_token for item in operations(shape, 0, True)) / 4096 == pytest.approx(49.7, abs=0.25)

    def test_the_check_in_the_recording_can_fail(self, monkeypatch):
        from core.training import memory_saved

        monkeypatch.setattr(memory_saved, "norm_bytes", lambda shape, width, groups=1: groups * 8 * width)
        assert [check.name for check in record("memory", {"layer_type": "llama", "ffn": 64}).checks if not check.ok]


class TestRecomputeAndOffload:
    def test_full_keeps_inputs_and_brings_one_layer_back(self):
        sizes = {"layers": 4, "hidden": 256, "heads": 8, "sequence": 128, "vocabulary": 0}
        none, full = lines(**sizes), lines(**sizes, recompute="full")
        layer_input = 2 * 256 * 128
        assert full["activations"] + full["scores"] == 4 * layer_input
        assert full["recomputed"] == (none["activations"] + none["scores"]) / 4 - layer_input

    def test_offloaded_states_are_on_the_host(self):
        on_device, off = facts(parameters=1e9), facts(parameters=1e9, offload="optimizer")
        assert off["optimizer_bytes"] == 0
        assert off["host_bytes"] == on_device["optimizer_bytes"] == 12e9

    def test_context_ranks_share_the_sequence(self):
        one, four = lines(sequence=4096), lines(sequence=4096, context_parallel=4)
        assert four["activations"] == one["activations"] / 4
        assert four["scores"] == one["scores"] / 4


class TestOracles:
    @pytest.mark.oracle
    def test_memtracker_sees_the_same_parameters_gradients_and_moments(self, tmp_path):
        tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")
        from torch._subclasses.fake_tensor import FakeTensorMode

        transformers = pytest.importorskip("transformers")
        config = transformers.AutoConfig.for_model(**LLAMA)
        with FakeTensorMode():
            model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
            mem = tracker.MemTracker()
            mem.track_external(model, optimizer)
            with mem:
                model(torch.randint(0, 100, (2, 16)), use_cache=False).logits.sum().backward()
                optimizer.step()
                found = mem.get_tracker_snapshot()[torch.device("cpu")]
        sizes = {getattr(key, "value", str(key)): size for key, size in found.items()}
        raw = tmp_path / "config.json"
        raw.write_text(json.dumps(LLAMA))
        ours = lines(model=str(raw), convention="fsdp2")  # FP32 parameters and gradients, as the model here
        tensors = len(list(model.parameters()))
        assert sizes["Parameter"] == ours["parameters"]
        assert sizes["Gradient"] == ours["gradients"]
        assert sizes["Optstate"] - 4 * tensors == ours["optimizer"], "beside both moments AdamW keeps a step counter of 4 bytes"

    @pytest.mark.skipif(not MODELS.exists(), reason="the folder with published config.json files is absent")
    @pytest.mark.parametrize("model", ["Llama-3-8B", "Mixtral-8x7B-v0.1", "DeepSeek-V2-Lite", "GPT-2", "Gemma-2-9B", "gpt-oss-120b"])
    def test_published_configs_are_told_and_their_checks_hold(self, model):
        found = facts(model=str(MODELS / f"{model}.json"), attention="flash")
        manifest = json.loads((MODELS / "MANIFEST.json").read_text())[model]
        assert found["parameters"] == manifest["hf_meta_total"]
        assert found["active_parameters"] == manifest["hf_meta_active"]
        assert found["active_parameters_without_embedding"] == manifest["hf_meta_active_excl_input_embedding"]
        assert found["model_state_bytes"] == 16 * found["parameters"]


class TestTheRecording:
    def test_the_steps_add_up_line_by_line(self):
        recording = record("memory", SEVEN_B)
        series = recording.facts["bytes_so_far"]
        assert series.values == sorted(series.values)
        assert series.values[-1] == recording.fact("total_bytes")
        table = next(panel.view for panel in recording.panels if panel.title.startswith("Ledger"))
        rows = table.at(len(recording)).rows
        assert [len(rows), sum(row[1].value for row in rows)] == [len(LINES), recording.fact("total_bytes")]

    def test_one_step_is_the_switch_to_flash(self):
        recording = record("memory", SEVEN_B)
        titles = [recording.title(step) for step in range(len(recording))]
        assert any("Flash attention" in title and "21.47 GB less" in title for title in titles)

    def test_all_layouts_at_once_give_what_each_gives_alone(self):
        model, setting = Model.of(from_config(LLAMA), "operations", True), Setting(128)
        both = Layouts(
            **{name: torch.tensor([1.0, 2.0 if name in ("data", "tensor") else 1.0]).numpy() for name in Layouts.__dataclass_fields__}
        )
        together = ledger(model, setting, Stages.of(model, 2), both)
        for at in range(2):
            alone = Layouts.one(**{name: float(getattr(both, name)[at]) for name in Layouts.__dataclass_fields__})
            for name, values in ledger(model, setting, Stages.of(model, 2), alone).items():
                assert values[:, 0].tolist() == together[name][:, at].tolist()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"tensor_parallel": 3}, ["tensor_parallel", "3 tensor ranks for 32 heads", "2 and 4"]),
        ({"pipeline_parallel": 64}, ["pipeline_parallel", "64 stages", "32 layers"]),
        ({"pipeline_parallel": 2, "stage_layers": [30, 3]}, ["add up to 33"]),
        ({"pipeline_parallel": 2, "stage_layers": [32]}, ["found 1 numbers"]),
        ({"expert_parallel": 2}, ["expert_parallel", "no experts"]),
        ({"experts": 8, "expert_parallel": 3, "layer_type": "llama"}, ["expert_parallel", "8 experts"]),
        ({"experts": 8, "expert_parallel": 8, "layer_type": "llama"}, ["expert_parallel", "data x context x tensor"]),
        ({"context_parallel": 3}, ["context_parallel", "2,048"]),
        ({"convention": "fsdp2", "data_parallel": 2}, ["zero_stage = 3"]),
        ({"heads": 3}, ["3 heads do not divide"]),
        ({"accelerator": "h1000"}, ["did you mean 'h100'?"]),
        ({"micro_batch": 0}, ["micro_batch", "found 0"]),
        ({"recompute": "some"}, ["none, selective, full"]),
    ],
)
def test_layouts_that_contradict_the_model_are_refused_in_one_line(params, words):
    with pytest.raises(BadInput) as refused:
        record("memory", params)
    for word in words:
        assert word in str(refused.value)


def test_sizes_beside_a_config_are_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    with pytest.raises(BadInput, match="both layers = 2"):
        record("memory", {"model": str(path), "layers": 2})
