"""Sequence parallelism equals the whole layer, holds what the published formulas say and sends what they say."""

import pytest
import torch
from recorded import failed_kinds as failed
from recorded import runs_of

from core.errors import BadInput
from core.fabric import ring
from core.recording import Recorder, Recording
from core.training import megatron_bytes
from core.training.megatron_layer import Shape, problem
from core.training.megatron_setup import Job
from core.training.megatron_tape import Tape
from core.training.sequence_parallel import SequenceParallelParams
from core.training.sequence_parallel_layer import SequenceParallel
from core.training.sequence_parallel_views import SequenceStory

SMALL = {"ranks": 2, "hidden": 12, "ffn": 20, "heads": 4, "sequence": 8, "batch": 3, "vocabulary": 10}
LAYOUTS = ("tp", "tp_sp", "tp_sp_regather")
GIB = 2**30
NORMS = "gradients of norms and row biases"
COUNTED = "activation bytes counted"
MEGATRON_22B = Shape(ranks=8, hidden=6144, ffn=24576, heads=64, sequence=2048, batch=4, vocabulary=51200)


run = runs_of("sequence_parallel", **SMALL)


# equal, and as large as published ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [{}, {"ranks": 1}, {"ranks": 4}, {"ranks": 4, "sequence": 4, "batch": 1}, {"vocabulary": 3, "ranks": 4}])
def test_every_layout_and_size_holds_its_checks(layout, sizes):
    rec = run(layout=layout, **sizes)
    assert not failed(rec)
    assert rec.fact("max_error") < 1e-12
    assert len(rec.checks) == 11


PAPER = {
    "tp": lambda t, scores: 10 + 24 / t + scores / t,
    "tp_sp": lambda t, scores: 4 + 30 / t + scores / t,
    "tp_sp_regather": lambda t, scores: (34 + scores) / t,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_counted_bytes_are_the_papers_formula_with_its_gpt_shape(layout):
    rec = run(layout=layout, ranks=4, hidden=16, ffn=64, heads=4)
    want = 8 * 3 * 16 * PAPER[layout](4, 5 * 4 * 8 / 16)
    assert rec.fact("activation_bytes_per_layer") == want
    assert rec.fact("activation_bytes_per_layer[counted]") == want


def test_each_all_reduce_becomes_an_all_gather_and_a_reduce_scatter_of_equal_volume():
    tp, sp, again = (run(layout=layout, ranks=4) for layout in LAYOUTS)
    assert tp.fact("comm_bytes") == sp.fact("comm_bytes") == 8 * 3 / 4 * (8 * 3 * 12 * 2)
    assert [sp.fact(f"{name}_{way}") for name in ("all_gathers", "reduce_scatters") for way in ("forward", "backward")] == [2, 2, 2, 2]
    assert (sp.fact("all_reduces_forward"), sp.fact("all_reduces_backward")) == (0, 0)
    assert again.fact("comm_bytes") == 1.25 * sp.fact("comm_bytes")
    assert again.fact("regather_bytes") == again.fact("comm_bytes") - sp.fact("comm_bytes")
    assert again.fact("all_gathers_backward") == 4
    assert tp.fact("regather_bytes") == sp.fact("regather_bytes") == 0


@pytest.mark.parametrize(("layout", "gib"), [("tp", None), ("tp_sp", 17.44), ("tp_sp_regather", 9.5625)])
def test_22b_under_selective_recomputation_holds_what_is_published(layout, gib):
    if gib is not None:
        assert 48 * megatron_bytes.without_scores(MEGATRON_22B, layout) / GIB == pytest.approx(gib, abs=0.005)
    else:
        assert 48 * megatron_bytes.activation_bytes(MEGATRON_22B, layout) / GIB == pytest.approx(59.25)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layer_of_22b_is_counted_without_values(layout):
    sizes = {name: getattr(MEGATRON_22B, name) for name in ("ranks", "hidden", "ffn", "heads", "sequence", "batch", "vocabulary")}
    rec = run(layout=layout, **sizes)
    assert rec.fact("values_computed") is False
    assert rec.fact("activation_bytes_per_layer[counted]") == megatron_bytes.activation_bytes(MEGATRON_22B, layout)
    assert not failed(rec)


# broken on purpose -------------------------------------------------------------------------------------------------------


def test_norm_gradients_that_are_not_added_up_are_caught(monkeypatch):
    monkeypatch.setattr(SequenceParallel, "shared_gradients", lambda self: [])
    assert failed(run(layout="tp_sp")) == {NORMS}


@pytest.mark.parametrize("name", ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias", "out.bias", "down.bias"])
def test_each_shared_gradient_alone_is_missed(monkeypatch, name):
    honest = SequenceParallel.shared_gradients
    monkeypatch.setattr(SequenceParallel, "shared_gradients", lambda self: [n for n in honest(self) if n != name])
    assert failed(run(layout="tp_sp")) == {NORMS}


def test_masks_of_another_ranks_tokens_are_caught(monkeypatch):
    honest = SequenceParallel.tokens_of

    def turned(self, whole, rank):
        return honest(self, whole, (rank + 1) % self.ranks if whole.dtype == torch.bool else rank)

    monkeypatch.setattr(SequenceParallel, "tokens_of", turned)
    assert "output" in failed(run(layout="tp_sp"))


@pytest.mark.parametrize("layout", ["tp_sp", "tp_sp_regather"])
def test_a_chunk_sent_to_the_wrong_rank_is_caught(monkeypatch, layout):
    monkeypatch.setattr(ring, "gather_chunk", lambda rank, hop, ranks: (rank - hop + 1) % ranks)
    assert "output" in failed(run(layout=layout, ranks=4))


def test_an_input_gathered_again_in_the_wrong_order_is_caught(monkeypatch):
    honest = Tape.kept_instead
    monkeypatch.setattr(Tape, "kept_instead", lambda self, name: honest(self, name).flip(0))
    wrong = failed(run(layout="tp_sp_regather"))
    assert "gradients of cut weights" in wrong and "output" not in wrong


def test_an_input_that_is_not_gathered_again_cannot_be_read(monkeypatch):
    monkeypatch.setattr(SequenceParallel, "bring_back", lambda self, piece: None)
    with pytest.raises(RuntimeError):
        run(layout="tp_sp_regather")


def test_an_input_that_stays_is_caught_by_its_bytes(monkeypatch):
    honest = Tape.run

    def keep_all(self, name, function, *inputs, instead=None):
        return honest(self, name, function, *inputs)

    monkeypatch.setattr(Tape, "run", keep_all)
    monkeypatch.setattr(SequenceParallel, "bring_back", lambda self, piece: None)
    assert {COUNTED, "bytes gathered again", "bytes sent in BF16"} <= failed(run(layout="tp_sp_regather"))


def test_norms_on_all_tokens_are_caught_by_their_bytes(monkeypatch):
    class Replicated(SequenceParallel):
        def tokens_of(self, whole, rank):
            own = super().tokens_of(whole, rank)
            return torch.cat([own] * self.ranks)[: len(own)] if whole.dtype == torch.bool else own

    from core.training import sequence_parallel as module

    monkeypatch.setitem(module.LAYERS, "tp_sp", Replicated)
    assert failed(run(layout="tp_sp")) == {COUNTED}


# what is shown -----------------------------------------------------------------------------------------------------------


def test_norm_and_dropout_blocks_shrink_to_one_of_t():
    def held(layout):
        rec = run(layout=layout, ranks=4, hidden=16, ffn=64)
        step = max(range(len(rec)), key=lambda i: rec.fact("held_bytes", i))
        bars = next(panel.view for panel in rec.panels if panel.title == "Held for backward")
        cells = bars.at(step).cells
        assert [name for name, _ in bars.parts][:2] == ["norm, drop", "inputs"]
        return [cells[0, part].value for part in range(4)]

    (norms, inputs, attention, mlp), sp, again = map(held, LAYOUTS)
    assert sp[0] == norms / 4 and again[0] == norms / 4
    assert sp[1] >= inputs and again[1] < inputs
    assert sp[2:] == again[2:] == [attention, mlp]


def test_an_input_is_gathered_again_while_its_gradient_is_computed():
    rec = run(layout="tp_sp_regather", hidden=64, ffn=256, sequence=16)
    lanes = next(panel.view for panel in rec.panels if panel.title.startswith("Compute"))
    spans = [lanes.get(i) for i in range(len(lanes))]
    for step in (i for i in range(len(rec)) if "once more" in rec.title(i)):
        wire = next(s for s in spans if s.step == step and s.lane == 1)
        assert any(s.lane == 0 and s.role == "backward" and s.start == wire.start for s in spans)


def test_the_storage_of_an_input_that_is_not_kept_is_really_empty():
    params = SequenceParallelParams(**SMALL, layout="tp_sp_regather")
    job = Job.of(params, "sequence_parallel")
    rec = Recorder(Recording("sequence_parallel"))
    layer = SequenceParallel(job, "tp_sp_regather", problem(job.shape, rec.generator, "cpu"), SequenceStory(rec))
    layer.forward({rank: layer.tokens_of(layer.problem.x, rank) for rank in layer.fabric.ranks})
    for tape in layer.tapes.values():
        assert [tape._pieces[name].inputs[0].untyped_storage().nbytes() for name in ("attention", "up")] == [0, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranks", [1, 4])
def test_steps_follow_time_and_say_numbers_instead_of_fields(layout, ranks):
    rec = run(layout=layout, ranks=ranks)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert rec.fact("comm_bytes") == 0 if ranks == 1 else rec.fact("comm_bytes") > 0


# input ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"sequence": 9}, r"sequence = 9 is no multiple of ranks = 2.*sequence = 8 or 10, or ranks = 1 or 3"),
        ({"ranks": 3}, "heads"),
        ({"layout": "sp"}, "tp, tp_sp, tp_sp_regather"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput, match=said):
        run(**{"layout": "tp_sp", **params})


def test_tensor_parallelism_alone_takes_any_sequence():
    assert not failed(run(layout="tp", sequence=9))
