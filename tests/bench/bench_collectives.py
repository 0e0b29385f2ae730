"""A recorded ring all-reduce of 64 ranks x 1M elements against the plain sum of the 64 tensors.

Run with ``python tests/bench/bench_collectives.py``. 8,064 messages, each with its values, steps, views, spans and facts.
The plain sum adds the 64 tensors one after the other into one. Checks are off here; the whole simulation with drawing and
checking is printed beside. Rounds are interleaved and the best of each is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from core.fabric import SimulatedFabric, ring
from core.fabric.clock import Clocks
from core.fabric.hop_by_hop import Collective, HopByHop
from core.fabric.schedules import build
from core.hardware import LINKS
from core.recording import Recorder, Recording
from core.simulation import record

AIM = 10.0
ROUNDS = 5
RANKS, ELEMENTS = 64, 1_000_000


def plain_sum(tensors: dict[int, torch.Tensor]) -> torch.Tensor:
    total = tensors[0].clone()
    for rank in range(1, RANKS):
        total += tensors[rank]
    return total


def recorded(tensors: dict[int, torch.Tensor]) -> Recording:
    """Every message of the all-reduce, recorded."""
    recording = Recording("collectives")
    sizes = ring.chunk_sizes(ELEMENTS, RANKS)
    chunks = {rank: dict(enumerate(torch.split(tensor, sizes))) for rank, tensor in tensors.items()}
    clocks = Clocks(RANKS, LINKS["nvlink_h100"], 1.0)
    job = Collective(build("all_reduce", "ring", RANKS), chunks, dict(enumerate(sizes)), 4, clocks, np.zeros(RANKS), exact=True)
    counted = HopByHop(Recorder(recording), job).play()
    assert counted.hops == 2 * (RANKS - 1) * RANKS == 8064
    return recording


def on_a_fabric(tensors: dict[int, torch.Tensor]) -> SimulatedFabric:
    """The same inside a larger run: one span a rank, which opens hop by hop."""
    fabric = SimulatedFabric(RANKS, LINKS["nvlink_h100"])
    fabric.draw(fabric.lanes())
    fabric.all_reduce(tensors).wait()
    return fabric


def ratios() -> dict[str, float]:
    """Time of each over the plain sum."""
    drawn = torch.Generator().manual_seed(0)
    tensors = {rank: torch.randint(-9, 10, (ELEMENTS,), generator=drawn).float() for rank in range(RANKS)}
    runs: dict[str, Callable[[], object]] = {
        "plain sum": lambda: plain_sum(tensors),
        "recorded hop by hop": lambda: recorded(tensors),
        "on a fabric": lambda: on_a_fabric(tensors),
        "whole simulation, drawn and checked": lambda: record("collectives", {"ranks": RANKS, "elements": ELEMENTS}),
    }
    best = dict.fromkeys(runs, float("inf"))
    for number in range(ROUNDS + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if number:  # the first round warms up
                best[name] = min(best[name], time.perf_counter() - began)
    plain = best["plain sum"]
    print(f"plain sum {plain * 1e3:.1f} ms, {torch.get_num_threads()} threads")
    for name, took in best.items():
        print(f"  {took * 1e3:7.1f} ms  {took / plain:5.2f} x  {name}")
    return {name: took / plain for name, took in best.items()}


def test_recorded_ring_all_reduce_costs_at_most_ten_plain_sums() -> None:
    assert ratios()["recorded hop by hop"] <= AIM


if __name__ == "__main__":
    test_recorded_ring_all_reduce_costs_at_most_ten_plain_sums()
