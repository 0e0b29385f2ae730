"""What a dispatch recording tells: a token's path, the moment, facts that are counted, and a user's own routing."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from core.errors import BadInput, Cancelled
from core.moe import layer_load
from core.moe.dispatch_stage import FOLLOWED_WHOLE, WORDS
from core.moe.router_logits import read_router_logits
from core.recording import Recorder, Recording
from core.simulation import fields, load, record
from core.views import Heatmap, Plot


def panel(recording, word):
    return next(p.view for p in recording.panels if word in p.title)


def steps_of(recording, token):
    return [i for i in range(len(recording)) if recording.values(i).get("token") == token and "token" in recording.template(i).names]


def test_phases_come_in_the_order_of_the_algorithm():
    r = record("dispatch")
    assert [p.name for p in r.phases] == ["route", "capacity", "permute", "experts", "combine"]
    assert [p.first for p in r.phases] == sorted({p.first for p in r.phases})
    assert all(c.ok for c in r.checks) and len(r.checks) >= 8


def test_a_token_is_followed_from_its_choice_to_its_sum():
    r = record("dispatch")
    path = steps_of(r, 1)
    assert [r.phase(i).name for i in path] == ["route", "route", "permute", "permute", "combine"]
    assert all("token 1 (bank)" in r.title(i).lower() for i in path)
    chosen = {r.values(i)["slot"]: r.values(i)["expert"] for i in path[:2]}
    assert {r.values(i)["slot"]: r.values(i)["expert"] for i in path[2:4]} == chosen
    assert sum(r.values(i)["gate"] for i in path[:2]) == pytest.approx(1.0, abs=1e-6)


def test_rows_are_scattered_before_and_contiguous_after_the_sort_and_back_at_the_end():
    r = record("dispatch")
    view = panel(r, "Rows")
    moment = next(i for i in range(len(r)) if "contiguous now" in r.title(i))
    before = [view.at(moment).row(n)[0].role for n in range(16)]
    after = [view.at(moment).row(n)[1].role for n in range(16)]
    assert sorted(before) == sorted(after) and after == sorted(after) and before != after
    assert r.fact("expert_changes", moment) == sum(a != b for a, b in pairwise(after)) == 3
    assert r.fact("expert_changes", moment - 1) == sum(a != b for a, b in pairwise(before))
    last = view.at(len(r) - 1)
    assert [last.row(n)[3].role for n in range(16)] == before
    gates = panel(r, "Router").at(len(r) - 1).cells
    for n in range(16):
        back = last.row(n)[3]
        assert last.row(n)[0].text == WORDS[n // 2] and back.text == f"×{back.value:.2f}"
        assert back.value in [gates[n // 2, e].value for e in range(4) if gates[n // 2, e].role == back.role]


def test_the_same_word_goes_to_the_same_experts():
    r = record("dispatch")
    experts = {t: {r.values(i)["expert"] for i in steps_of(r, t)[:2]} for t in range(8)}
    the = [experts[t] for t in range(8) if WORDS[t] == "the"]
    assert len(the) == 3 and the[0] == the[1] == the[2]


def test_the_table_lists_each_experts_two_gemms_and_its_flops_add_up():
    r = record("dispatch", {"hidden": 48, "ffn": 80})
    rows = [[cell.value for cell in row] for row in panel(r, "GEMM").at(len(r) - 1).rows]
    assert len(rows) == 8
    assert {(row[1], *row[3:5]) for row in rows} == {("up", 160, 48), ("down", 48, 80)}
    assert sum(row[5] for row in rows) == r.fact("flops") == 16 * 6 * 48 * 80
    assert sum(row[2] for row in rows) == 2 * 16


@pytest.mark.parametrize("order", ["choice", "position", "gate"])
@pytest.mark.parametrize("tokens", [24, 200])
def test_bars_of_load_split_into_kept_dropped_and_padding(order, tokens):
    r = record("dispatch", {"tokens": tokens, "experts": 5, "capacity_factor": 1.0, "drop_order": order})
    cells = panel(r, "Load").at(len(r) - 1).cells
    kept, chosen, dropped, padding = (np.array([cells[e, part].value for e in range(5)]) for part in range(4))
    assert (chosen == 0).all() and kept.sum() + dropped.sum() == 2 * tokens
    assert (kept + padding == r.fact("capacity")).all()
    assert dropped.sum() == r.fact("dropped_tokens") > 0
    assert r.fact("drop_rate") == dropped.sum() / (2 * tokens)
    assert r.fact("padding_fraction") == pytest.approx(padding.sum() / (5 * r.fact("capacity")))
    assert (kept + dropped).max() == r.fact("tokens_per_expert_max") and (kept + dropped).min() == r.fact("tokens_per_expert_min")
    assert kept.max() == r.fact("kept_per_expert_max") and all(c.ok for c in r.checks)


def test_dropped_assignments_are_steps_and_their_tokens_get_less_back():
    r = record("dispatch", {"tokens": 12, "capacity_factor": 1.0})
    lost = [r.values(i)["token"] for i in range(len(r)) if r.title(i).endswith("is dropped")]
    assert len(lost) == r.fact("dropped_tokens") and len(set(lost)) == r.fact("tokens_with_a_drop")
    less = {r.values(i)["token"] for i in range(len(r)) if " of 2 rows back" in r.title(i) or "nothing back" in r.title(i)}
    assert less == set(lost)
    assert sum("nothing back" in r.title(i) for i in range(len(r))) == r.fact("tokens_without_expert") == 1
    assert r.fact("kept_gate_sum_min") == 0.0
    assert r.fact("permuted_bytes") == (24 - len(lost)) * 64 * 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("router", ["mixtral", "qwen3", "softmax", "uniform"])
def test_checks_hold_for_every_type_and_router(dtype, router):
    r = record("dispatch", {"tokens": 30, "experts": 7, "top_k": 3, "capacity_factor": 0.9, "dtype": dtype, "router": router})
    assert [c for c in r.checks if not c.ok] == []
    assert r.fact("grouped_mm") is (dtype != "float64")


@pytest.mark.parametrize(
    "params",
    [
        {"tokens": 1, "experts": 1, "top_k": 1, "hidden": 1, "ffn": 1},
        {"tokens": 3, "experts": 5, "top_k": 5, "hidden": 7, "ffn": 3},
        {"tokens": 64, "experts": 200, "top_k": 1},
        {"tokens": 65, "experts": 2, "top_k": 2, "capacity_factor": 0.01},
        {"tokens": 2000, "experts": 1024, "top_k": 2, "hidden": 16, "ffn": 8, "capacity_factor": 1024},
    ],
)
def test_sizes_at_the_edges_record(params):
    r = record("dispatch", params)
    assert [c for c in r.checks if not c.ok] == []
    for i in range(len(r)):
        assert "{" not in r.title(i) + r.detail(i)
    for p in r.panels:
        assert p.view.at(len(r) - 1) == p.view.at(len(r) - 1)


def test_many_tokens_stay_few_steps_and_small_views():
    r = record("dispatch", {"tokens": 20_000, "experts": 64, "hidden": 32, "ffn": 32, "capacity_factor": 1.25})
    assert len(r) < 400 and [c for c in r.checks if not c.ok] == []
    assert sum(r.title(i).startswith("Expert") and r.phase(i).name == "route" for i in range(len(r))) == 64
    assert any("first 32 of 20,000 tokens" in p.title for p in r.panels)
    for p in r.panels:
        frame = p.view.at(len(r) - 1)
        assert len(getattr(frame, "cells", getattr(frame, "rows", ()))) <= 4_096
    path = steps_of(r, 2)
    assert {r.phase(i).name for i in path} >= {"route", "capacity", "combine"}


def test_many_tokens_rows_shown_are_contiguous_by_expert_with_their_true_row_numbers():
    r = record("dispatch", {"tokens": 500, "experts": 8, "hidden": 16, "ffn": 16})
    view = panel(r, "Rows").at(len(r) - 1)
    cells = [view.row(n)[1] for n in range(64)]
    numbers = [c.value for c in cells]
    assert numbers == sorted(numbers) and numbers[-1] > 500
    assert [c.role for c in cells] == sorted(c.role for c in cells)


def test_a_seed_gives_the_same_recording_and_another_seed_another():
    one, two, other = record("dispatch"), record("dispatch"), record("dispatch", seed=1)
    assert [one.title(i) for i in range(len(one))] == [two.title(i) for i in range(len(two))]
    assert [one.title(i) for i in range(len(one))] != [other.title(i) for i in range(len(other))]


def test_facts_about_drops_stand_only_where_there_is_a_capacity():
    free, limited = record("dispatch"), record("dispatch", {"capacity_factor": 1.25})
    assert free.fact("dropped_tokens") == 0 and "capacity" not in free.facts
    more = {"capacity", "tokens_with_a_drop", "tokens_without_expert", "kept_per_expert_max", "kept_gate_sum_min", "uniform_drop_rate"}
    assert set(limited.facts) - set(free.facts) == more


def test_every_parameter_is_described():
    assert all(f.description for f in fields(load("dispatch").params))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"top_k": 5}, "dispatch.top_k: found 5 with 4 experts"),
        ({"tokens": 0}, "dispatch.tokens"),
        ({"capacity_factor": -1}, "dispatch.capacity_factor"),
        ({"router": "deepseek"}, "mixtral, qwen3, softmax, uniform"),
        ({"dtype": "int8"}, "dispatch.dtype"),
        ({"tokens": 65536, "hidden": 4096, "ffn": 4096}, "FLOP"),
        ({"tokens": 2, "experts": 1024, "hidden": 1024, "ffn": 2048}, "bytes"),
        ({"logits": "missing.npy"}, "missing.npy: No such file"),
    ],
)  # fmt: skip
def test_parameters_that_cannot_be_are_one_line(params, words):
    with pytest.raises(BadInput, match=words.replace(".", r"\.")):
        record("dispatch", params)


# a user's own routing ----------------------------------------------------------------------------------------------------


def saved(tmp_path, *shape):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(4))
    np.save(tmp_path / "logits.npy", values.numpy())
    return values, str(tmp_path / "logits.npy")


def test_a_users_logits_decide_experts_tokens_and_routing(tmp_path):
    values, path = saved(tmp_path, 20, 6)
    r = record("dispatch", {"logits": path, "tokens": 999, "experts": 3, "top_k": 2})
    want = np.bincount(np.argsort(-values.numpy(), axis=1)[:, :2].reshape(-1), minlength=6)
    assert (r.fact("tokens_per_expert_max"), r.fact("tokens_per_expert_min")) == (want.max(), want.min())
    assert r.fact("tokens_per_expert_mean") == pytest.approx(20 * 2 / 6)
    assert (r.fact("tokens"), r.fact("experts")) == (20, 6)
    first = [r.values(i) for i in steps_of(r, 0)[:2]]
    assert [v["expert"] for v in first] == np.argsort(-values.numpy()[0])[:2].tolist() and first[0]["word"] == "t0"
    assert "logits.npy" in r.detail(0) and [c for c in r.checks if not c.ok] == []


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_users_logits_work_with_every_type(tmp_path, dtype):
    _, path = saved(tmp_path, 20, 6)
    assert [c for c in record("dispatch", {"logits": path, "dtype": dtype}).checks if not c.ok] == []


def test_several_layers_show_load_by_layer_and_walk_the_one_asked_for(tmp_path):
    values, path = saved(tmp_path, 3, 20, 6)
    r = record("dispatch", {"logits": path, "layer": 2})
    chosen = np.argsort(-values.numpy(), axis=2)[:, :, :2]
    load = np.stack([np.bincount(layer.reshape(-1), minlength=6) for layer in chosen])
    heat, plot = panel(r, "Load by layer"), panel(r, "Busiest expert")
    assert isinstance(heat, Heatmap) and isinstance(plot, Plot)
    cells = heat.at(len(r) - 1).cells
    assert [[cells[layer, e].value for e in range(6)] for layer in range(3)] == load.tolist()
    assert list(plot.curves[0].y) == pytest.approx((load.max(1) / load.mean(1)).tolist())
    for layer in range(3):
        assert r.fact(f"max_over_mean_load[layer_{layer}]") == pytest.approx(load[layer].max() / load[layer].mean())
        assert r.fact(f"dead_experts[layer_{layer}]") == (load[layer] == 0).sum()
    assert r.fact("tokens_per_expert_max") == load[2].max() and r.phases[0].name == "layers"
    assert next(iter(r.facts)) == "tokens_per_expert_max", "the walked layer's facts stand first"


@pytest.mark.parametrize("at_once", [1, 400, 10**9])
def test_load_is_the_same_however_many_layers_are_routed_at_once(tmp_path, monkeypatch, at_once):
    values, path = saved(tmp_path, 3, 5, 20, 6)
    monkeypatch.setattr(layer_load, "_ROUTED_AT_ONCE", at_once)
    chosen = np.argsort(-values.numpy(), axis=3)[..., :2]
    want = [[np.bincount(layer.reshape(-1), minlength=6).tolist() for layer in step] for step in chosen]
    rec = Recorder(Recording("dispatch"))
    assert layer_load.load_by_layer(read_router_logits(path), 2, rec).tolist() == want


def test_routing_a_long_file_can_be_abandoned(tmp_path):
    _, path = saved(tmp_path, 3, 5, 20, 6)
    recording = Recording("dispatch")
    recording.cancel()
    with pytest.raises(Cancelled):
        layer_load.load_by_layer(read_router_logits(path), 2, Recorder(recording))


def test_more_loads_than_can_be_held_are_refused(tmp_path, monkeypatch):
    _, path = saved(tmp_path, 4, 3, 9, 6)
    monkeypatch.setattr(layer_load, "MAX_LOADS", 71)
    with pytest.raises(BadInput, match=r"72 loads \(steps x layers x experts\); allowed: at most 71"):
        record("dispatch", {"logits": path})


def test_steps_of_a_file_are_told_one_after_the_other(tmp_path):
    values, path = saved(tmp_path, 4, 2, 9, 6)
    r = record("dispatch", {"logits": path, "layer": 1, "step": 3})
    told = [r.values(i) for i in range(len(r)) if r.phase(i).name == "layers"]
    assert [(v["file_step"], v["layer"]) for v in told] == [(s, n) for s in range(4) for n in range(2)]
    walked = np.argsort(-values.numpy()[3, 1], axis=1)[:, :2]
    assert [[r.values(i)["expert"] for i in steps_of(r, t)[:2]] for t in range(9)] == walked.tolist()
    first = values.numpy()[1, 0]
    load = np.bincount(np.argsort(-first, axis=1)[:, :2].reshape(-1), minlength=6)
    assert told[2]["load"] == load.max()
    cells = panel(r, "Load by layer").at(2).cells
    assert [cells[0, e].value for e in range(6)] == load.tolist()


def test_a_layer_or_step_the_file_lacks_is_named_with_its_range(tmp_path):
    _, path = saved(tmp_path, 3, 20, 6)
    with pytest.raises(BadInput, match=r"dispatch\.layer: found 3, but .* has 3; allowed: a whole number from 0 to 2"):
        record("dispatch", {"logits": path, "layer": 3})
    with pytest.raises(BadInput, match=r"dispatch\.step: found 1"):
        record("dispatch", {"logits": path, "step": 1})


@pytest.mark.parametrize("scale", [0.0, 1e4, 1e30])
def test_ties_and_huge_logits_keep_the_checks(tmp_path, scale):
    values = np.random.default_rng(0).integers(-3, 3, (50, 8)).astype(np.float32) * np.float32(scale)
    np.save(tmp_path / "a.npy", values)
    r = record("dispatch", {"logits": str(tmp_path / "a.npy"), "top_k": 3, "capacity_factor": 1.0})
    assert [c for c in r.checks if not c.ok] == []


def test_words_are_enough_for_all_tokens_that_are_followed_whole():
    assert len(WORDS) == FOLLOWED_WHOLE
