"""A layer cut over ranks equals the whole layer, in every layout that is right; broken on purpose, its checks turn red."""

from itertools import pairwise

import pytest
import torch
from recorded import failed_kinds as failed
from recorded import runs_of

from core.errors import BadInput
from core.fabric.base import Work
from core.fabric.simulated import SimulatedFabric
from core.recording import first_difference
from core.simulation import record
from core.training import tensor_parallel_loss as loss_module
from core.training.megatron_layer import add_dropped
from core.training.megatron_setup import multiple
from core.training.megatron_tape import Tape
from core.training.tensor_parallel_layer import TensorParallel

SMALL = {"ranks": 2, "hidden": 12, "ffn": 20, "heads": 4, "sequence": 6, "batch": 2, "vocabulary": 10}
OUTPUT, LOSS, INPUT = "output", "loss", "gradient of the input"
CUT, WHOLE = "gradients of cut weights", "gradients of norms and row biases"
LAYOUTS = ("column_row", "column_column", "row_first")


run = runs_of("tensor_parallel", **SMALL)


def step_of(rec, words):
    return next(i for i in range(len(rec)) if words in rec.title(i))


# equal to the whole layer ------------------------------------------------------------------------------------------------


SIZES = (
    {},
    {"ranks": 1},
    {"ranks": 4},
    {"ranks": 3, "heads": 3, "ffn": 21},
    {"ranks": 4, "sequence": 1, "batch": 1},
    {"vocabulary": 2, "ranks": 4},
)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_layout_and_size_holds_its_checks(layout, sizes):
    rec = run(layout=layout, **sizes)
    assert not failed(rec)
    assert len(rec.checks) >= 8


def test_columns_then_rows_need_two_all_reduces_forward_and_two_backward_of_sbh():
    rec = run(ranks=4)
    assert (rec.fact("all_reduces_forward"), rec.fact("all_reduces_backward")) == (2, 2)
    assert rec.fact("comm_bytes") == 4 * (2 * 3 / 4) * (6 * 2 * 12 * 2)
    assert (rec.fact("all_reduces_forward[loss]"), rec.fact("all_reduces_backward[loss]")) == (3, 1)
    assert rec.fact("max_error") < 1e-12


def test_columns_twice_need_two_all_gathers_and_more_bytes():
    rec = run(layout="column_column")
    assert (rec.fact("all_gathers_forward"), rec.fact("all_reduces_forward"), rec.fact("reduce_scatters_backward")) == (2, 1, 1)
    assert rec.fact("comm_bytes") > run().fact("comm_bytes")
    assert rec.fact("max_error") < 1e-12


def test_rows_first_is_wrong_by_what_gelu_before_the_sum_costs():
    rec = run(layout="row_first")
    assert rec.fact("max_error") > 0.1
    assert rec.fact("gelu_error") > 0.1
    (wrong,) = [check for check in rec.checks if check.name.startswith("GeLU before the sum")]
    assert wrong.ok and wrong.got > 1e-3
    assert run(layout="row_first", ranks=1).fact("max_error") < 1e-12


def test_one_rank_sends_nothing():
    for layout in LAYOUTS:
        rec = run(ranks=1, layout=layout)
        assert (rec.fact("comm_bytes"), rec.fact("all_reduces_forward"), rec.fact("all_reduces_backward")) == (0, 0, 0)
        assert not any("All-" in rec.title(i) or "Reduce-" in rec.title(i) for i in range(len(rec)))


def test_the_same_seed_records_the_same_steps_and_another_does_not():
    assert first_difference(run(), run()) is None
    assert record("tensor_parallel", SMALL, seed=1).fact("loss") != run().fact("loss")


# broken on purpose -------------------------------------------------------------------------------------------------------


def test_a_row_bias_added_by_every_rank_is_caught(monkeypatch):
    honest = TensorParallel.attention
    monkeypatch.setattr(TensorParallel, "attention", lambda self, rank, x: honest(self, rank, x) + self.own(rank)["out.bias"].detach())
    assert {OUTPUT, LOSS} <= failed(run())


def test_a_row_bias_left_out_is_caught(monkeypatch):
    def without(self, rank, y, residual):
        return add_dropped(self.tapes[rank], "mask", None, y, residual, self.problem.keep_attention)

    monkeypatch.setattr(TensorParallel, "add_attention", without)
    assert {OUTPUT, WHOLE} <= failed(run())


def test_input_gradients_that_are_not_added_up_are_caught(monkeypatch):
    def alone(self, piece, partial):
        return Work({rank: value.flatten() for rank, value in partial.items()}, lambda: None)

    monkeypatch.setattr(TensorParallel, "enter_backward", alone)
    assert {INPUT, CUT, WHOLE, "collectives backward", "bytes sent in BF16"} <= failed(run())


def test_an_average_in_place_of_the_sum_is_caught(monkeypatch):
    honest = SimulatedFabric.all_reduce

    def average(self, tensors, op="sum", **rest):
        return honest(self, tensors, "avg" if op == "sum" else op, **rest)

    monkeypatch.setattr(SimulatedFabric, "all_reduce", average)
    assert {OUTPUT, LOSS, INPUT, CUT, WHOLE} <= failed(run())


def test_a_gradient_that_is_added_up_once_too_often_is_caught(monkeypatch):
    monkeypatch.setattr(TensorParallel, "shared_gradients", lambda self: ["norm2.weight"])
    assert failed(run()) == {WHOLE}


def test_a_dropout_of_other_positions_is_caught(monkeypatch):
    monkeypatch.setattr(
        TensorParallel,
        "add_mlp",
        lambda self, rank, y, residual: add_dropped(
            self.tapes[rank], "mask", self.own(rank)["down.bias"], y, residual, self.problem.keep_mlp.flip(0)
        ),
    )
    assert OUTPUT in failed(run(sequence=16))


def test_a_gradient_through_another_ranks_columns_is_caught(monkeypatch):
    honest = TensorParallel.gather_columns

    def turned(self, what, columns, section="forward"):
        return honest(self, what, {rank: columns[(rank + 1) % self.ranks] for rank in columns}, section)

    monkeypatch.setattr(TensorParallel, "gather_columns", turned)
    assert OUTPUT in failed(run(layout="column_column"))
    assert {INPUT, WHOLE} <= failed(run(layout="row_first")) and OUTPUT not in failed(run(layout="row_first"))


def test_a_target_counted_by_the_wrong_rank_is_caught(monkeypatch):
    honest = loss_module._all_reduce

    def first_only(layer, tensors, op):
        calls.append(op)
        return honest(layer, tensors, op) if len(calls) % 3 != 2 else tensors

    calls = []
    monkeypatch.setattr(loss_module, "_all_reduce", first_only)
    assert LOSS in failed(run())


# the largest of all ranks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("elements", [1, 5, 16])
def test_all_reduce_takes_the_largest_of_all_ranks(size, elements):
    values = torch.randn(size, elements, generator=torch.Generator().manual_seed(size)) - 5
    values[0, 0] = -torch.inf
    found = SimulatedFabric(size).all_reduce(dict(enumerate(values.clone())), "max").wait()
    for got in found.values():
        assert torch.equal(got, values.amax(0))


# what is held for backward -------------------------------------------------------------------------------------------------


def test_a_storage_saved_by_two_pieces_counts_once_and_parameters_do_not_count():
    tape = Tape({"w": torch.ones(3, 3)})
    x = tape.label("x", torch.ones(5, 3))
    for piece in ("one", "other"):
        tape.run(piece, lambda x: x @ tape.parameters["w"], x)
    assert [(held.label, held.bytes) for held in tape.held()] == [("x", 5 * 3 * 4)]
    tape.weight_gradients("one", torch.ones(5, 3), ["w"])
    assert len(tape.held()) == 1
    tape.weight_gradients("other", torch.ones(5, 3), ["w"])
    assert tape.held() == [] and torch.equal(tape.gradients["w"], torch.full((3, 3), 5.0))


# what is shown -----------------------------------------------------------------------------------------------------------


def test_the_moment_shows_columns_side_by_side_equal_to_the_dense_layer_and_parts_that_do_not_add_up():
    right, wrong = run(), run(layout="row_first")
    for rec, name in ((right, "GeLU works column by column"), (wrong, "GeLU of a part of a sum")):
        step = step_of(rec, name)
        grid = next(panel.view for panel in rec.panels if panel.title.startswith("GeLU"))
        cells = grid.at(step).cells
        columns = range(len(grid.columns))
        together, dense, off = ([cells[2 + row, c].value for c in columns] for row in range(3))
        assert off == pytest.approx([abs(a - b) for a, b in zip(together, dense, strict=True)])
        if rec is right:
            assert together == pytest.approx(dense, abs=1e-12)
            assert [sum((rank, c) in cells for rank in range(2)) for c in columns] == [1] * len(columns)
        else:
            assert together == pytest.approx([cells[0, c].value + cells[1, c].value for c in columns])
            assert max(off) > 0.01
        assert not grid.at(step - 1).cells


def test_the_weights_panel_says_columns_rows_and_all():
    def texts(layout):
        view = next(panel.view for panel in run(layout=layout).panels if panel.title.startswith("Weights"))
        cells = view.at(0).cells
        return {view.rows.label(row): [cells[row, rank].text for rank in range(2)] for row in range(len(view.rows))}

    assert texts("column_row")["A"] == ["c0", "c1"] and texts("column_row")["B"] == ["r0", "r1"]
    assert texts("column_column")["B"] == ["c0", "c1"]
    assert texts("row_first")["A"] == ["r0", "r1"] and texts("row_first")["B"] == ["all", "all"]
    assert texts("column_row")["norm 1"] == texts("column_row")["B bias"] == ["all", "all"]


def test_between_the_two_products_of_the_mlp_no_message_travels():
    rec = run()
    exchange = next(panel.view for panel in rec.panels if panel.title.startswith("Messages"))
    first, end = step_of(rec, "The MLP starts"), step_of(rec, "partial outputs of the MLP")
    assert not any(exchange.at(i).messages for i in range(first, end))
    assert {(m.source, m.target) for m in exchange.at(end).messages} == {(0, 1), (1, 0)}
    assert sum(m.size for m in exchange.at(end).messages) == 2 * (2 * 1 / 2) * (6 * 2 * 12 * 2)


def test_a_collective_opens_hop_by_hop_with_its_own_tensors():
    rec = run()
    lanes = next(panel.view for panel in rec.panels if panel.title.startswith("Compute"))
    wires = [lanes.get(i) for i in range(len(lanes)) if lanes.get(i).text.startswith("AR")]
    opened = [child for wire in wires if (child := lanes.child(wire.index)) is not None]
    assert len(opened) >= 2 * 5  # both ranks of the layer's four and the loss's one; a maximum does not open
    assert all(child.simulation == "collectives" and child.checks and all(c.ok for c in child.checks) for child in opened)


def test_backward_all_reduce_runs_beside_the_weight_gradient():
    rec = run(ranks=2, hidden=64, ffn=256, heads=4, sequence=16)
    lanes = next(panel.view for panel in rec.panels if panel.title.startswith("Compute"))
    spans = [lanes.get(i) for i in range(len(lanes))]
    weights = [s for s in spans if s.lane == 0 and s.role == "weight"]
    assert len(weights) == 3
    for weight in weights:
        assert any(s.lane == 1 and s.start <= weight.start < s.end for s in spans)
    for lane in range(len(lanes.lanes)):
        mine = sorted((s.start, s.end) for s in spans if s.lane == lane)
        assert all(first[1] <= second[0] for first, second in pairwise(mine))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ranks", [1, 4])
def test_steps_follow_time_and_say_numbers_instead_of_fields(layout, ranks):
    rec = run(layout=layout, ranks=ranks)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))
    assert all(rec.detail(i) for i in range(len(rec)))
    assert [phase.name for phase in rec.phases] == ["start", "forward", "loss", "backward"]
    assert rec.fact("held_bytes") == 0


def test_a_layer_too_large_for_values_has_its_shapes_and_messages():
    rec = run(hidden=2048, ffn=8192, heads=16, sequence=1024, batch=1, vocabulary=32000, ranks=8)
    assert rec.fact("values_computed") is False
    assert rec.fact("comm_bytes") == 4 * (2 * 7 / 8) * (1024 * 2048 * 2)
    assert not failed(rec) and len(rec) > 20


# input ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ranks": 3}, r"heads = 4 is no multiple of ranks = 3.*heads = 3 or 6, or ranks = 2 or 4"),
        ({"ranks": 2, "ffn": 21}, r"ffn = 21 is no multiple of ranks = 2.*ffn = 20 or 22, or ranks = 1 or 3"),
        ({"hidden": 13}, r"hidden = 13 is no multiple of heads = 4.*hidden = 12 or 16"),
        ({"ranks": 8}, r"heads = 4 .*heads = 8, or ranks = 4"),
        ({"ranks": 0}, "ranks"),
        ({"ranks": 65}, "ranks"),
        ({"layout": "rows"}, "column_row, column_column, row_first"),
        ({"link": "nvlink_a10"}, "nvlink_a100"),
        ({"vocabulary": 1}, "vocabulary"),
        ({"hidden": "1e99"}, "hidden"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput, match=said) as error:
        run(**params)
    assert "\n" not in str(error.value)


def test_the_nearest_values_that_are_named_do_divide():
    for value in range(1, 40):
        for divisor in range(1, 20):
            if value % divisor == 0:
                multiple("x", "heads", value, "ranks", divisor)
                continue
            with pytest.raises(BadInput) as error:
                multiple("x", "heads", value, "ranks", divisor)
            heads, ranks = error.value.allowed.split("heads = ")[1].split(", or ranks = ")
            assert all(int(word) % divisor == 0 for word in heads.split(" or "))
            assert all(value % int(word) == 0 for word in ranks.split(" or "))
