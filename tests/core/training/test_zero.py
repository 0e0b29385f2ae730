"""ZeRO on real tensors equals unsharded training at every stage; broken on purpose, its checks turn red."""

import json
from itertools import pairwise

import pytest
import torch
from recorded import failed, runs_of

from core.errors import BadInput
from core.fabric import ring
from core.recording import Recorder, Recording, first_difference
from core.simulation import load, parse, record
from core.training import zero as module
from core.training import zero_bytes
from core.training.zero import Training, train
from core.training.zero_memory import Memory
from core.training.zero_model import Layout
from core.transformer import read_config

SMALL = {"hidden": 8, "layers": 2, "batch": 4}


run = runs_of("zero", **SMALL)


def trained(**params):
    declared = parse(load("zero").params, {**SMALL, **params})
    return train(declared, Recorder(Recording("zero")))


# the published figures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("psi", "ranks", "stage", "want"),
    [(7e9, 1, 0, 112e9), (7e9, 4, 3, 28e9), (7.5e9, 64, 0, 120e9), (7.5e9, 64, 1, 31.4e9), (7.5e9, 64, 2, 16.6e9), (7.5e9, 64, 3, 1.9e9)],
)
def test_model_states_are_those_of_the_zero_paper(psi, ranks, stage, want):
    rec = run(parameters=psi, ranks=ranks, stage=stage, steps=1)
    assert rec.fact("model_state_bytes") == pytest.approx(want, abs=0.05e9)
    parts = [rec.fact(f"{group}_bytes") for group in ("parameter", "gradient", "optimizer")]
    assert sum(parts) == rec.fact("model_state_bytes")
    assert not failed(rec)


@pytest.mark.parametrize(("stage", "k", "times"), [(0, 1, 2), (1, 1, 2), (2, 1, 2), (3, 1, 3), (0, 4, 2), (1, 4, 2), (2, 4, 5), (3, 4, 12)])
def test_communication_is_two_or_three_times_the_parameters_and_grows_with_micro_batches(stage, k, times):
    rec = run(parameters=7e9, ranks=4, stage=stage, accumulation=k, steps=1)
    assert rec.fact("comm_elements_per_rank") == times * 7e9
    assert rec.fact("bytes_sent_per_rank") == times * 7e9 * 3 / 4 * 2
    assert not failed(rec)


# real training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_after_five_steps_parameters_equal_unsharded_training_exactly(stage, optimizer):
    rec = run(stage=stage, optimizer=optimizer, steps=5, ranks=4)
    assert not failed(rec)
    exact = [check for check in rec.checks if "largest difference" in check.name]
    assert len(exact) == (7 if optimizer == "adamw" else 3)
    assert all(check.got == 0.0 for check in exact)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize(("ranks", "k", "layers"), [(1, 1, 1), (1, 3, 2), (2, 3, 1), (3, 2, 4), (5, 1, 3), (9, 2, 2)])
def test_every_shape_of_run_holds_its_checks(stage, ranks, k, layers):
    assert not failed(run(stage=stage, ranks=ranks, accumulation=k, layers=layers, hidden=5))


def test_all_stages_reach_the_same_parameters():
    finals = []
    for stage in range(4):
        done = trained(stage=stage, steps=3)
        finals.append(torch.stack([done.whole("master", layer) for layer in done.layers]))
    assert all(torch.equal(finals[0], other) for other in finals[1:])
    assert not torch.equal(finals[0], torch.zeros_like(finals[0]))


def test_training_lowers_the_loss():
    rec = run(steps=20, hidden=16, batch=64)
    losses = [rec.fact("loss", step) for step in range(1, len(rec))]
    assert losses[-1] < 0.7 * next(loss for loss in losses if loss is not None)


def test_the_same_seed_records_the_same_steps_and_another_does_not():
    assert first_difference(run(), run()) is None
    assert record("zero", SMALL).fact("loss") != record("zero", SMALL, seed=1).fact("loss")


def test_more_ranks_than_shards_pad_and_show_it():
    rec = run(stage=3, ranks=64, hidden=2, layers=1, steps=1)
    layout = Layout(1, 2, 64)
    assert layout.elements == 42
    assert rec.fact("padding_elements") == 22
    assert {cell.role for cell in rec.panels[0].view.at(0).cells.values()} >= {"padding", "parameter"}
    assert not failed(rec)


# broken on purpose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_summing_instead_of_averaging_gradients_is_caught(monkeypatch, stage):
    monkeypatch.setattr(module, "REDUCTION", "sum")
    wrong = failed(run(stage=stage))
    assert "averaged gradients of all steps, largest difference" in wrong
    assert any("autograd" in name for name in wrong)
    assert "with SGD, first step: fp32 parameters after all steps, largest difference" in wrong


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_chunk_sent_to_the_wrong_rank_is_caught(monkeypatch, stage):
    monkeypatch.setattr(ring, "next_rank", ring.previous_rank)
    assert "averaged gradients of all steps, largest difference" in failed(run(stage=stage))


@pytest.mark.parametrize("stage", [2, 3])
def test_an_owner_that_updates_the_wrong_shard_is_caught(monkeypatch, stage):
    monkeypatch.setattr(Training, "owned", lambda self, rank: self.layout.span((rank + 1) % self.layout.ranks))
    assert "fp32 parameters after all steps, largest difference" in failed(run(stage=stage))


@pytest.mark.parametrize("stage", [1, 2])
def test_parameters_that_owners_never_send_back_are_nan_and_caught(monkeypatch, stage):
    monkeypatch.setattr(Training, "publish", lambda self: None)
    assert "NaN or infinite elements anywhere, though all that was dropped became NaN" in failed(run(stage=stage))


def test_reading_a_gradient_that_belongs_to_another_rank_is_caught(monkeypatch):
    honest = Training.owned

    def neighbour_while_updating(self, rank):
        updating = self.memory.has("averaged", self.layers[-1], rank) and self.memory.has("averaged", 0, rank)
        return honest(self, (rank + 1) % self.fabric.size if updating else rank)

    monkeypatch.setattr(Training, "owned", neighbour_while_updating)
    assert "NaN or infinite elements anywhere, though all that was dropped became NaN" in failed(run(stage=1))


def test_a_gradient_that_is_not_freed_is_caught(monkeypatch):
    honest = Memory.drop

    def leaky(self, kind, layer, rank):
        return 0 if kind == "local" else honest(self, kind, layer, rank)

    monkeypatch.setattr(Memory, "drop", leaky)
    assert "gradient bytes of live storages" in failed(run(stage=2, steps=1))


def test_an_extra_collective_is_caught(monkeypatch):
    honest = Training.publish
    monkeypatch.setattr(Training, "publish", lambda self: (honest(self), honest(self)))
    wrong = failed(run(stage=1))
    assert {"elements handed to collectives", "collectives"} <= set(wrong)


# what is shown -----------------------------------------------------------------------------------------------------------


def test_when_the_average_arrives_every_rank_but_the_owner_drops_it():
    rec = run(stage=2, ranks=4)
    owners = rec.panels[0].view
    step = next(i for i in range(len(rec)) if rec.title(i) == "Rank 2 keeps the averaged gradient of shard 2 and drops the rest")
    gradient = {shard: 4 + shard for shard in range(4)}  # columns P0..P3, G0..G3, O0..O3
    before, after = owners.at(step - 1), owners.at(step)
    assert all(before.cells[2, column].text.startswith("g") for column in gradient.values())
    held = [after.cells[2, column].value for column in gradient.values()]
    assert held[2] == max(held)
    assert {(2, column) for column in gradient.values()} >= after.lit > set()
    assert rec.values(step)["dropped"] > 0
    last = next(i for i in range(len(rec)) if rec.title(i).startswith("Rank 0 updates"))
    cells = owners.at(last - 1).cells
    assert [(cells[r, gradient[s]].role == "gradient") == (r == s) for r in range(4) for s in range(4)] == [True] * 16


def test_bars_reach_the_formula_and_the_peak():
    rec = run(stage=3, ranks=4, parameters=7e9, accelerator="a100")
    bars = rec.panels[1].view
    assert bars.capacity == 80 * 2**30
    totals = [sum(cell.value for (bar, _), cell in bars.at(i).cells.items() if bar == 0) for i in range(len(rec))]
    assert max(totals) == pytest.approx(rec.fact("peak_bytes"))
    assert rec.fact("model_state_bytes") in [pytest.approx(total) for total in totals]
    assert run().panels[1].view.capacity is None


def test_averaging_runs_beside_the_backward_of_the_layer_below():
    rec = run(stage=2, layers=3)
    lanes = rec.panels[3].view
    spans = [lanes.get(i) for i in range(len(lanes))]
    wire = next(s for s in spans if s.lane == 1 and s.text == "RS2")
    below = next(s for s in spans if s.lane == 0 and s.text == "B1")
    assert wire.start == below.start < wire.end
    for lane in range(len(lanes.lanes)):
        mine = sorted((s.start, s.end) for s in spans if s.lane == lane)
        assert all(first[1] <= second[0] for first, second in pairwise(mine))


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 12])
def test_steps_follow_time_and_say_numbers_instead_of_fields(stage, ranks):
    rec = run(stage=stage, ranks=ranks)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert all(rec.detail(i) for i in range(len(rec)))


def test_without_checks_the_recording_is_the_same():
    params = parse(load("zero").params, SMALL)
    rec = Recording("zero")
    train(params, Recorder(rec), check=False)
    assert rec.checks == []
    assert first_difference(rec, run()) is None


# input ---------------------------------------------------------------------------------------------------------------------


def config(tmp_path):
    path = tmp_path / "config.json"
    sizes = {"hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100}
    path.write_text(json.dumps({"model_type": "llama", **sizes}))
    return path


def test_a_config_gives_parameters_and_layers(tmp_path):
    path = config(tmp_path)
    rec = run(model=str(path), stage=3, ranks=2)
    psi = read_config(path).parameters
    assert rec.fact("parameters") == psi
    assert rec.fact("model_state_bytes") == 8 * psi
    assert rec.fact("peak_bytes") == 8 * psi + zero_bytes.transient(psi, 3, 2, 5, 1)


def test_parameters_and_model_together_are_refused(tmp_path):
    with pytest.raises(BadInput, match="one of the two"):
        run(model=str(config(tmp_path)), parameters=7e9)
    run(model=str(config(tmp_path)), parameters=0)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranks": 65}, "ranks"),
        ({"ranks": 0}, "ranks"),
        ({"accumulation": 0}, "accumulation"),
        ({"stage": 4}, "stage"),
        ({"parameters": 0}, "parameters"),
        ({"parameters": -7e9}, "parameters"),
        ({"parameters": "many"}, "parameters"),
        ({"link": "nvlink_a10"}, "nvlink_a100"),
        ({"accelerator": "a1000"}, "a100"),
        ({"model": "no/such/config.json"}, "no/such/config.json"),
        ({"hidden": 1024, "layers": 64, "ranks": 64}, "4 GB"),
        ({"hidden": 1024, "layers": 12, "ranks": 1}, "4 GB"),  # its states alone would be 1.6 GB
        ({"hidden": 512, "layers": 4, "steps": 20}, "steps=20"),  # gradients of every step are kept
        ({"ranks": 64, "batch": 1024, "accumulation": 16, "hidden": 32}, "batch=1024"),  # autograd's check holds all samples at once
        ({"hidden": 256, "batch": 1024, "accumulation": 4, "steps": 20}, "1e+12 FLOP"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
