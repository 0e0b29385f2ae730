"""Generating and timing a large interleaved schedule, against torch's own table generation in the same run.

python tests/bench/bench_pipeline.py [ranks microbatches chunks]

Prints both times (best of interleaved rounds), their ratio (at most 1/20 is wanted), and the time to record the whole run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from core.simulation import record
from core.training.schedules import build
from core.training.timing import Costs, time_table

WANTED = 1 / 20


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main(ranks: int, microbatches: int, chunks: int, rounds: int = 3) -> int:
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    one = np.ones(ranks * chunks)
    params = {"schedule": "interleaved", "stages": ranks, "microbatches": microbatches, "chunks": chunks}
    runs: dict[str, Callable[[], object]] = {
        "torch: table generated": lambda: get_schedule_ops("Interleaved1F1B", ranks, microbatches, num_stages_per_rank=chunks),
        "here: table generated and timed": lambda: time_table(build("interleaved", ranks, microbatches, chunks), Costs(one, one, one)),
        "here: recorded (steps, spans, facts, checks)": lambda: record("pipeline", params),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], seconds(run))
    print(f"interleaved, {ranks} ranks, {microbatches} microbatches, {chunks} chunks: {2 * ranks * chunks * microbatches:,} actions")
    for name, took in best.items():
        print(f"  {took:8.3f} s  {name}")
    theirs, ours, recorded = best.values()
    print(f"  ratio {ours / theirs:.4f} = 1/{theirs / ours:.0f} (wanted at most 1/{1 / WANTED:.0f}); recording 1/{theirs / recorded:.0f}")
    return 0 if ours / theirs <= WANTED else 1


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:4]]
    sys.exit(main(*(sizes or (64, 512, 2))))
