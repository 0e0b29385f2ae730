"""A plan on measured rates: the same search, with what this machine attains in place of the data sheet."""

from __future__ import annotations

import time

import msgspec
import pytest
import torch

from core import hardware
from core.measure import Rates, rates
from core.simulation import record

SMALL = {"layers": 4, "hidden": 512, "heads": 8, "ffn": 2048, "vocabulary": 1000, "gpus": 4, "global_batch": 16, "sequence": 256}


def test_measured_rates_take_the_place_of_the_data_sheet(monkeypatch):
    monkeypatch.setattr("core.training.plan_setup.rates", lambda device: Rates(2e12, 1e11))
    profiled = record("plan", {**SMALL, "profile": True})
    sheet = msgspec.structs.replace(hardware.ACCELERATORS["h100"], flops={"bf16": 2e12}, bandwidth=1e11)
    monkeypatch.setitem(hardware.ACCELERATORS, "h100", sheet)
    by_sheet = record("plan", {**SMALL, "utilisation": 1.0})
    assert profiled.fact("best_step_time") == by_sheet.fact("best_step_time")
    assert profiled.fact("best_step_time") != record("plan", {**SMALL, "utilisation": 0.5}).fact("best_step_time")
    assert profiled.facts["measured_flops"].kind == "measured"
    assert (profiled.fact("measured_flops"), profiled.fact("measured_bandwidth")) == (2e12, 1e11)
    assert "measured_flops" not in by_sheet.facts


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_rates_agree_with_a_stopwatch_within_a_factor(dtype):
    found = rates("cpu", dtype)
    side = 1024
    matrix = torch.ones(side, side, dtype={"fp32": torch.float32, "bf16": torch.bfloat16}[dtype])
    best = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    assert 0.2 < found.flops / (2 * side**3 / best) < 5
    assert found.bandwidth > 1e8
