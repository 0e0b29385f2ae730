"""Recompute and offload: gradients, FLOPs and bytes are torch's own; broken on purpose, the checks turn red."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from operator import attrgetter

import pytest
import torch
from recorded import failed, runs_of
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.flop_counter import FlopCounterMode

from core.errors import BadInput
from core.scenario import find
from core.simulation import load, parse
from core.training import recompute_checks as oracle
from core.training import recompute_layer as model
from core.training import recompute_run as module
from core.training.recompute_run import COMPUTE, Clock, Problem, Run
from core.training.recompute_setup import INPUT, LABELS, PROBABILITIES, Job, RecomputeParams, Shape
from core.training.recompute_store import Block, Store

METHODS = ("none", "every_layer", "sqrt", "selective", "offload", "both")
SMALL = {"layers": 6, "real_hidden": 16, "real_heads": 2, "real_sequence": 8}
GRADIENTS = "gradient elements that differ from the plain run"
LEDGER = "moments at which the ledger and the live storages differ"


run = runs_of("recompute", **SMALL)


def job_of(**params: object) -> Job:
    made = parse(load("recompute").params, {**SMALL, **params})
    assert isinstance(made, RecomputeParams)
    return Job.of(made)


def ran(job: Job) -> tuple[Run, Problem]:
    work = Problem.of(job, torch.Generator().manual_seed(0), "cpu")
    return Run(job, work).run(), work


# what it computes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("params", [{}, {"layers": 1}, {"layers": 2, "in_flight": 1}, {"layers": 7, "real_batch": 1, "ffn": 100}])
def test_every_method_leaves_exactly_the_plain_gradients_and_its_checks_hold(method, params):
    assert failed(run(method=method, **params)) == []


def test_layers_of_one_token_and_one_feature_are_accounted_too():
    tiny = {"real_hidden": 1, "real_heads": 1, "real_sequence": 1, "real_batch": 1, "sequence": 1, "hidden": 1, "heads": 1}
    assert all(failed(run(method=method, **tiny)) == [] for method in METHODS)


@pytest.mark.parametrize("layers", [4, 9, 11, 16])
def test_sqrt_cuts_and_executes_like_checkpoint_sequential(layers):
    job = job_of(method="sqrt", layers=layers)
    mine, work = ran(job)
    functions = oracle.layers_of(job, work)
    with FlopCounterMode(display=False) as counted:
        y = checkpoint_sequential(functions, round(layers**0.5), work.x.clone(), use_reentrant=False)
        loss = torch.nn.functional.mse_loss(y, work.target)
        gradient = torch.autograd.grad(loss, [work.x, *(t for p in work.parameters for t in p.values())])[0]
    assert mine.executed_flop == counted.get_total_flops()
    assert torch.equal(mine.input_gradient, gradient)


def test_offload_equals_torchs_save_on_cpu():
    mine, work = ran(job_of(method="offload"))
    x = work.x.clone()
    with save_on_cpu():
        for layer in oracle.layers_of(mine.job, work):
            x = layer(x)
    (gradient,) = torch.autograd.grad(torch.nn.functional.mse_loss(x, work.target), work.x)
    assert torch.equal(mine.input_gradient, gradient)


def test_bytes_of_a_layer_are_the_papers_without_dropout_masks():
    """arXiv 2205.05198 counts sbh (34 + 5 a s / h); without dropout 32 sbh and 2 a s² b are left, and the norms' statistics."""
    shape = Shape(batch=3, sequence=128, hidden=64, heads=4, ffn=256, element=2)
    sbh = 3 * 128 * 64
    assert shape.layer_bytes - shape.bytes("statistics") == 32 * sbh + 2 * 4 * 128**2 * 3
    assert shape.forward_flop == 24 * sbh * 64 + 4 * 128 * sbh


@pytest.mark.parametrize("sequence", [1, 7])
def test_the_core_is_causal_attention(sequence):
    q, k, v = torch.randn(3, 4, sequence, 8, generator=torch.Generator().manual_seed(0))
    shape = Shape(batch=1, sequence=sequence, hidden=32, heads=4, ffn=4, element=4)
    got = model.attention(q, k, v, mask=model.causal(shape, "cpu"), mark=lambda name, tensor: tensor)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(got, want)


def test_a_tensor_that_is_not_on_the_device_cannot_be_used():
    store = Store([])
    saved = store.keep(torch.ones(3))
    store.offload(0)
    with pytest.raises(RuntimeError, match="not on the device"):
        saved.tensor()
    store.fetch(0, "cpu")
    assert saved.tensor().tolist() == [1.0, 1.0, 1.0]


# when it happens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("params", [{}, {"in_flight": 1}, {"in_flight": 6}, {"sequence": 64, "hidden": 8192}, {"link": "pcie4"}])
def test_streams_never_overlap_themselves_and_nothing_starts_before_its_input(method, params):
    mine, _ = ran(job_of(method=method, **params))
    at = {(a.kind, a.layer): a for a in mine.actions}
    for stream in range(3):
        ours = sorted((a for a in mine.actions if a.stream == stream), key=attrgetter("start"))
        assert all(a.end <= b.start for a, b in pairwise(ours))
    for (kind, layer), action in at.items():
        if kind == "out":
            assert action.start >= at["forward", layer].end
        if kind == "in":
            assert action.start >= max(at["out", layer].end, at["forward", mine.job.params.layers - 1].end)
            assert at["recompute" if method == "both" else "backward", layer].start >= action.end
        if kind == "forward":
            leaving = sum(other.end > action.start for (what, before), other in at.items() if what == "out" and before < layer)
            assert leaving < mine.job.params.in_flight
        if kind == "recompute":
            assert action.end <= at["backward", layer].start


@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_no_more_layers_than_may_be_in_flight_wait_on_the_device(in_flight):
    rec = run(method="offload", layers=12, in_flight=in_flight)
    assert rec.fact("peak_bytes") <= (in_flight + 1) * rec.fact("layer_bytes")
    assert rec.fact("peak_bytes") > in_flight * rec.fact("layer_bytes") * 0.9


def test_pcie_falls_behind_in_one_step_and_compute_waits_from_then_on():
    rec = run(method="offload")
    behind = [step for step in range(len(rec)) if "PCIe falls behind" in rec.title(step)]
    waits = [step for step in range(len(rec)) if "only after waiting" in rec.title(step)]
    assert len(behind) == 1
    assert waits and behind[0] < waits[0]
    assert rec.fact("pcie_time") / 2 > rec.fact("compute_time") / 3, "out alone is longer than forward"
    assert rec.fact("step_time") == pytest.approx(rec.fact("compute_time") + rec.fact("exposed_pcie_time"))
    wide = run(method="offload", hidden=16384, heads=128, sequence=512, batch=4)
    assert not any("PCIe falls behind" in wide.title(step) for step in range(len(wide)))
    assert wide.fact("exposed_pcie_time") == 0


def test_inputs_alone_travel_without_being_noticed():
    every, both = run(method="every_layer"), run(method="both")
    assert both.fact("step_time") == pytest.approx(every.fact("step_time"))
    assert both.fact("peak_bytes") < every.fact("peak_bytes")
    assert both.fact("offload_bytes") == 5 * 2 * 2048 * 4096


# what the screen shows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_curve_of_live_bytes_reaches_the_peak_and_ends_at_zero(method):
    rec = run(method=method)
    curve = rec.panels[1].view.curves[0]
    assert max(curve.y) == rec.fact("peak_bytes")
    assert curve.y[-1] == 0
    assert list(curve.x) == sorted(curve.x)
    last = rec.panels[1].view.at(len(rec) - 1)
    assert last.values[0] == 0
    if method in ("offload", "both"):
        host = rec.panels[1].view.curves[1]
        assert max(host.y) == rec.fact("offload_bytes") and host.y[-1] == 0
        assert rec.fact("host_bytes") == 0


def test_recomputing_every_layer_makes_live_bytes_a_saw_tooth():
    rec = run(method="every_layer")
    held = list(rec.panels[1].view.curves[0].y)
    tops = sum(a < b > c for a, b, c in zip(held, held[1:], held[2:], strict=False))
    assert tops == 6


@pytest.mark.parametrize(
    ("method", "letters"),
    [("none", "K"), ("every_layer", "K✗R"), ("sqrt", "K✗R"), ("selective", "K✗R"), ("offload", "KO"), ("both", "KO✗R")],
)
def test_cells_show_what_became_of_every_saved_tensor(method, letters):
    rec = run(method=method)
    frames = [rec.panels[2].view.at(step).cells for step in range(len(rec))]
    assert {cell.text for cells in frames for cell in cells.values()} == set(letters)
    assert frames[-1] == {}
    if method == "selective":
        column = LABELS.index(PROBABILITIES)
        assert {at[1] for cells in frames for at, cell in cells.items() if cell.text == "R"} == {column}
    if method == "every_layer":
        assert all(cell.text == "K" for cells in frames for at, cell in cells.items() if at[1] == LABELS.index(INPUT))


@pytest.mark.parametrize("method", METHODS)
def test_steps_follow_time_and_say_numbers_instead_of_fields(method):
    rec = run(method=method)
    times = [rec.time(i) for i in range(len(rec))]
    assert times == sorted(times)
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))


# broken on purpose ---------------------------------------------------------------------------------------------------------------


def test_running_the_wrong_layer_again_breaks_the_gradients(monkeypatch):
    whole = Run.layer
    monkeypatch.setattr(Run, "layer", lambda self, layer, x: whole(self, layer, x if not self.copied else x + 1e-3))
    monkeypatch.setattr(Run, "copied", False, raising=False)
    again = Run.recompute

    def wrong(self, frame):
        self.copied = True
        again(self, frame)

    monkeypatch.setattr(Run, "recompute", wrong)
    assert GRADIENTS in failed(run(method="every_layer"))


def test_going_on_to_the_end_of_a_checkpoint_is_not_what_torch_does(monkeypatch):
    rerun = Store.rerun
    monkeypatch.setattr(Store, "rerun", lambda self, frame, function, *x, last: rerun(self, frame, function, *x, last=False))
    assert "FLOPs of the same checkpoints in torch" in failed(run(method="every_layer"))


def test_a_copy_that_loses_digits_breaks_the_gradients(monkeypatch):
    fetch = Store.fetch

    def coarse(self, layer, device):
        for block in self.blocks[layer]:
            if block.host is not None:
                block.host = block.host.to(torch.bfloat16).to(block.host.dtype)
        return fetch(self, layer, device)

    monkeypatch.setattr(Store, "fetch", coarse)
    assert GRADIENTS in failed(run(method="offload"))


def test_a_layer_that_is_never_freed_shows_in_the_ledger(monkeypatch):
    free = Store.free
    monkeypatch.setattr(Store, "free", lambda self, layer: free(self, layer) if layer != 3 else None)
    assert {LEDGER, "bytes left after backward"} <= set(failed(run(method="none")))


def test_a_host_copy_that_stays_on_the_device_shows_in_the_ledger(monkeypatch):
    held = []
    give_up = Store._give_up

    def leak(self, block: Block):
        held.append(block.device)
        give_up(self, block)

    monkeypatch.setattr(Store, "_give_up", leak)
    assert LEDGER in failed(run(method="offload"))


def test_an_accounted_tensor_that_is_wrong_by_one_element_shows(monkeypatch):
    elements = Shape.elements
    monkeypatch.setattr(Shape, "elements", lambda self, label: elements(self, label) + (label == "gelu"))
    assert len(failed(run(method="selective"))) >= 3


def test_wrong_flops_show(monkeypatch):
    flop = Shape.forward_flop.fget
    monkeypatch.setattr(Shape, "forward_flop", property(lambda self: flop(self) + self.scores_flop))
    assert {"FLOPs executed by the small layers", "FLOPs of a layer as large as shown"} <= set(failed(run(method="none")))


def test_compute_that_does_not_wait_for_its_copy_shows_in_the_step_time(monkeypatch):
    go = Clock.run
    monkeypatch.setattr(Clock, "run", lambda self, stream, ready, seconds: go(self, stream, 0.0 if stream == COMPUTE else ready, seconds))
    assert "step time" in failed(run(method="offload"))


def test_a_cancelled_run_stops():
    class Enough(Exception):
        pass

    def tick(done):
        if done > 0.1:
            raise Enough

    job = job_of(method="none")
    with pytest.raises(Enough):
        Run(job, Problem.of(job, torch.Generator(), "cpu"), tick).run()


# input ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"layers": 0}, "layers"),
        ({"batch": 0}, "batch"),
        ({"hidden": -4096}, "hidden"),
        ({"sequence": 0}, "sequence"),
        ({"in_flight": 0}, "in_flight"),
        ({"hidden": 100, "heads": 7}, "multiple of 7"),
        ({"real_hidden": 30, "real_heads": 4}, "real_hidden"),
        ({"method": "everylayer"}, "every_layer"),
        ({"accelerator": "h1000"}, "h100"),
        ({"link": "pcie6"}, "pcie5"),
        ({"lyers": 3}, "layers"),
        ({"real_hidden": 1024, "real_sequence": 1024, "real_heads": 4}, "2 GB"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_run_of_layers_that_saves_other_tensors_the_second_time_is_an_error():
    store = Store([])
    frame = module.Frame([])
    x = torch.ones(2, requires_grad=True)
    store.run(store.dropping(frame), partial(torch.mul, x), x, dropping=True)
    with pytest.raises(RuntimeError, match="fewer"):
        store.rerun(frame, lambda t: t + 1, x, last=False)
    with pytest.raises(RuntimeError, match="more"):
        store.rerun(frame, lambda t: (t * t).sin().cos(), x, last=False)


def test_the_main_scenario_has_all_six_methods_as_variants():
    assert tuple(find("training/recompute").variant_names) == METHODS
