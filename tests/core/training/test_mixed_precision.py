"""Mixed precision: formats, roundings, loss scale and Adam are torch's own; broken on purpose, the checks turn red."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import failed, runs_of

from core.errors import BadInput
from core.simulation import record
from core.training import mixed_precision_checks as checks
from core.training import mixed_precision_model as model
from core.training import mixed_precision_train as module
from core.training.mixed_precision_formats import (
    BF16,
    E4M3,
    E5M2,
    FORMATS,
    FP16,
    FP32,
    codes,
    decode,
    fields,
    gap,
    nearest,
    quantise,
    running_sum_of_ones,
    stochastic_bf16,
)
from core.training.mixed_precision_setup import LAYOUTS, PRECISIONS
from core.training.mixed_precision_train import Adam, LossScale, Training

SMALL = {"steps": 12, "hidden": 24, "batch": 16}
SCALER = "steps in which skip or next loss scale differ"


run = runs_of("mixed_precision", **SMALL)


# formats -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_ends_of_a_format_are_torchs(form):
    info = torch.finfo(form.dtype)
    assert form.largest == info.max
    assert form.bits == info.bits
    assert form.smallest == info.tiny * 2.0**-form.mantissa
    assert float(torch.tensor(form.smallest, dtype=torch.float64).to(form.dtype)) == form.smallest


@pytest.mark.parametrize("form", [BF16, FP16, E4M3, E5M2], ids=lambda form: form.name)
def test_every_code_is_read_as_torch_reads_it(form):
    assert checks.misread(form) == 0


@settings(max_examples=300, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from([BF16, FP16, E5M2]))
def test_rounding_by_arithmetic_equals_torchs_conversion(value, form):
    number = torch.tensor(value)
    assert float(nearest(number, form)) == float(number.to(form.dtype))


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, min_value=-448, max_value=448))
def test_rounding_to_e4m3_equals_torchs_conversion_within_its_range(value):
    number = torch.tensor(value)
    assert float(nearest(number, E4M3)) == float(number.to(torch.float8_e4m3fn))


@settings(max_examples=100, deadline=None)
@given(st.floats(width=32, min_value=-60000, max_value=60000), st.sampled_from([FP32, BF16, FP16]))
def test_a_gap_leads_to_the_next_number_of_the_format(value, form):
    stored = torch.tensor(value).to(form.dtype)
    away = math.inf if value >= 0 else -math.inf
    assert float(gap(stored, form)) == abs(float(torch.nextafter(stored, torch.tensor(away, dtype=form.dtype)).double() - stored.double()))


def test_bits_of_a_number_are_sign_exponent_and_mantissa():
    assert fields(int(codes(torch.tensor([-0.75], dtype=torch.bfloat16), BF16)), BF16) == ("1", "01111110", "1000000")
    assert fields(int(codes(torch.tensor([448.0]).to(torch.float8_e4m3fn), E4M3)), E4M3) == ("0", "1111", "110")
    assert float(decode(codes(torch.tensor([math.pi]), FP32), FP32)) == float(torch.tensor(math.pi))


@pytest.mark.parametrize(("form", "stop"), [(BF16, 256), (FP16, 2048)])
def test_a_running_sum_of_ones_stops_where_numbers_become_two_apart(form, stop):
    assert running_sum_of_ones(3000, form, "cpu") == stop
    assert torch.ones(1000, dtype=form.dtype).sum() == 1000


def test_stochastic_rounding_takes_one_of_both_neighbours_and_is_right_on_average():
    generator = torch.Generator().manual_seed(1)
    for value in (1.001, -0.30001, 123.4, -1e-30, 2.0):
        rounded = stochastic_bf16(torch.full((40_000,), value), generator).double()
        exact = float(torch.tensor(value))
        down, up = sorted({float(rounded.min()), float(rounded.max())})[0], float(rounded.max())
        assert down <= exact <= up and set(rounded.tolist()) == {down, up}
        share = (exact - down) / (up - down) if up > down else 0.0
        deviation = (up - down) * (share * (1 - share) / len(rounded)) ** 0.5
        assert abs(float(rounded.mean()) - exact) <= 5 * deviation + 1e-12 * abs(exact)
    assert stochastic_bf16(torch.tensor([math.inf, -math.inf]), generator).tolist() == [math.inf, -math.inf]
    assert stochastic_bf16(torch.tensor([math.nan]), generator).isnan().all()


def test_a_quantised_tensor_fills_its_format_without_overflow():
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 1e-3
    for form in (E4M3, E5M2):
        stored, scale = quantise(values, form)
        assert stored.dtype == form.dtype
        assert form.largest / 2 < float((values * scale).abs().max()) <= form.largest
        assert torch.equal(torch.frexp(scale)[0], torch.tensor(0.5)), "a power of two"
    assert quantise(torch.zeros(3), E4M3)[0].float().tolist() == [0, 0, 0]


# training --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("params", [{}, {"steps": 1, "layers": 1, "hidden": 4, "batch": 1}, {"learning_rate": 1, "layers": 6}])
def test_every_precision_trains_and_its_checks_hold(precision, params):
    rec = run(precision=precision, **params)
    assert failed(rec) == []
    assert not any("{" in rec.title(i) + rec.detail(i) for i in range(len(rec)))


def test_fp8_layers_multiply_as_torchs_scaled_mm():
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(32, 48, generator=generator).bfloat16(), torch.randn(64, 48, generator=generator)
    x8, x_scale = quantise(x, E4M3)
    w8, w_scale = quantise(w, E4M3)
    want = torch._scaled_mm(x8, w8.t(), scale_a=1 / x_scale, scale_b=1 / w_scale, out_dtype=torch.bfloat16)
    got = model.Fp8Linear.apply(x, w)
    assert torch.equal(got, want)


def test_fp8_gradients_are_near_those_of_fp32():
    generator = torch.Generator().manual_seed(0)
    start = model.initial(2, 32, generator, "cpu")
    (batch,) = model.batches(1, 64, 32, generator, "cpu")
    exact = model.gradients(start, batch, torch.float32)[1]
    found = model.gradients(start, batch, torch.bfloat16, fp8=True)[1]
    for name, want in exact.items():
        assert float((found[name] - want).norm() / want.norm()) < 0.2


@pytest.mark.parametrize("growth_interval", [1, 2, 5])
def test_loss_scale_decides_as_torchs_grad_scaler(growth_interval):
    rec = run(precision="fp16", steps=40, growth_interval=growth_interval, loss_scale=2.0**30)
    assert failed(rec) == []
    assert rec.fact("skipped_steps") >= 8
    assert SCALER in [check.name for check in rec.checks]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 5))
def test_any_row_of_overflows_gives_grad_scalers_scale(overflows, growth_interval):
    weight = torch.zeros(2, requires_grad=True)
    theirs = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=growth_interval)
    theirs.scale(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    mine = LossScale("dynamic", 1024.0, growth_interval)
    for overflow in overflows:
        weight.grad = torch.tensor([1.0, math.inf if overflow else 1.0])
        assert mine.accept({"w": weight.grad}) is not overflow
        theirs.step(optimizer)
        theirs.update()
        assert mine.scale == theirs.get_scale()


def test_pure_bf16_equals_torchs_fused_adam_in_bf16():
    rec = run(precision="bf16")
    check = next(check for check in rec.checks if "fused" in check.oracle)
    assert check.ok and check.got == 0


# what it is about ----------------------------------------------------------------------------------------------------------------


def test_the_bf16_weight_does_not_move_while_its_fp32_master_does():
    rec = record("mixed_precision", {"precision": "bf16_master"})
    still = [step for step in range(len(rec)) if "does not move, its fp32 master does" in rec.title(step)]
    moves = [step for step in range(len(rec)) if "master has come far enough" in rec.title(step)]
    table = rec.panels[0].view
    first = still[0]
    before, after = table.at(first - 1).rows, table.at(first).rows
    assert after[0][1].value != before[0][1].value, "the master's value"
    assert [cell.value for cell in after[1][1:5]] == [cell.value for cell in before[1][1:5]], "the BF16 copy, bit for bit"
    assert abs(float(after[2][1].value)) < float(after[3][1].value), "the update is less than half the gap"
    assert moves and moves[0] > first


def test_what_bf16_alone_loses_a_master_and_chance_keep():
    pure, master, chance = (run(precision=name, steps=30) for name in ("bf16", "bf16_master", "bf16_stochastic"))
    assert pure.fact("lost_updates_fraction") > 0.5 and pure.fact("update_kept_fraction") < 0.7
    assert master.fact("lost_updates_fraction") < 1e-3
    assert master.fact("update_kept_fraction") == pytest.approx(1, abs=1e-5)
    assert chance.fact("update_kept_fraction") == pytest.approx(1, abs=0.1)
    assert pure.fact("loss") > master.fact("loss")


def test_a_loss_scale_saves_gradients_that_fp16_rounds_to_zero():
    bare, scaled = run(precision="fp16", loss_scaling="none"), run(precision="fp16")
    assert bare.fact("underflow_fraction") > 0.01
    assert scaled.fact("underflow_fraction") < 0.001
    assert run(precision="bf16").fact("underflow_fraction") == 0


def test_a_static_scale_that_is_too_large_never_takes_a_step():
    rec = run(precision="fp16", loss_scaling="static", loss_scale=2.0**40)
    assert rec.fact("skipped_steps") == SMALL["steps"]
    assert rec.fact("loss_scale") == 2.0**40


def test_bytes_a_parameter_are_the_conventions():
    want = {"fp32": 16, "bf16": 8, "bf16_master": 16, "bf16_stochastic": 12, "fp16": 16, "fp8": 15}
    assert {name: sum(layout.bytes) for name, layout in LAYOUTS.items()} == want
    bars = run().panels[3].view
    assert bars.maximum == 16


def test_the_histogram_counts_every_gradient_once():
    rec = run(precision="fp16", loss_scaling="none")
    alive, gone = (sum(curve.y) for curve in rec.panels[1].view.curves)
    elements = 3 * 24 * 24
    assert alive <= elements * SMALL["steps"]
    assert gone / alive == pytest.approx(rec.fact("underflow_fraction"))


def test_the_cursor_stands_where_the_loss_scale_puts_the_smallest_number():
    rec = run(precision="fp16", loss_scaling="static", loss_scale=1024)
    assert rec.panels[1].view.at(len(rec) - 1).cursor == -24 - 10


# broken on purpose -----------------------------------------------------------------------------------------------------------------


def broken_accept(self, gradients):
    """Grows too early: does not count from the last overflow."""
    finite = all(bool(torch.isfinite(g).all()) for g in gradients.values())
    if not finite:
        self.scale /= 2
        return False
    self.good_steps += 1
    if self.good_steps % self.growth_interval == 0:
        self.scale *= 2
    return True


@pytest.mark.parametrize("mutation", [broken_accept, lambda self, gradients: True])
def test_a_scaler_that_counts_wrongly_or_never_skips_is_found(monkeypatch, mutation):
    monkeypatch.setattr(LossScale, "accept", mutation)
    assert SCALER in failed(run(precision="fp16", steps=30, growth_interval=3, loss_scale=2.0**30))


def test_gradients_that_stay_scaled_are_found(monkeypatch):
    updates = Adam.updates
    monkeypatch.setattr(Adam, "updates", lambda self, gradients: updates(self, {n: g * 1e-6 for n, g in gradients.items()}))
    assert any("Adam" in name for name in failed(run(precision="bf16_master")))


def test_cutting_in_place_of_rounding_is_found(monkeypatch):
    cut = lambda self, value: (value.view(torch.int32) & -(2**16)).view(torch.float32).to(self.layout.kept.dtype)  # noqa: E731
    monkeypatch.setattr(Training, "rounded", cut)
    assert "kept weights that are no rounding of weight + update" in failed(run(precision="bf16"))


def test_chance_that_always_rounds_down_is_found(monkeypatch):
    for place in (module, checks):
        monkeypatch.setattr(place, "stochastic_bf16", lambda x, generator: (x.view(torch.int32) & -(2**16)).view(torch.float32).bfloat16())
    assert any("stochastic" in name for name in failed(run(precision="bf16_stochastic")))


def test_weights_that_are_not_made_anew_from_their_master_are_found(monkeypatch):
    fresh = Training.compute_weights
    monkeypatch.setattr(Training, "compute_weights", lambda self: self.weights if hasattr(self, "weights") else fresh(self))
    for precision in ("bf16_master", "fp8"):
        assert "weights that compute and are no rounding of what is kept" in failed(run(precision=precision))


def test_moments_kept_in_another_format_are_found_in_the_bytes(monkeypatch):
    updates = Adam.updates

    def wide(self, gradients):
        found = updates(self, gradients)
        self.m = {name: value.float() for name, value in self.m.items()}
        return found

    monkeypatch.setattr(Adam, "updates", wide)
    assert "bytes a parameter, from the storages that are there" in failed(run(precision="bf16"))


# input -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"batch": 0}, "batch"),
        ({"layers": 0}, "layers"),
        ({"steps": -1}, "steps"),
        ({"hidden": 0}, "hidden"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": "nan"}, "learning_rate"),
        ({"loss_scale": 0}, "loss_scale"),
        ({"growth_interval": 0}, "growth_interval"),
        ({"precision": "bf17"}, "bf16_master"),
        ({"loss_scaling": "dynamical"}, "dynamic"),
        ({"presicion": "bf16"}, "precision"),
        ({"hidden": 1024, "batch": 4096}, "20 GFLOP"),
    ],
)
def test_input_out_of_bounds_is_refused_in_one_line(params, said):
    with pytest.raises(BadInput) as error:
        run(**params)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
