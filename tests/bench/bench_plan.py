"""Layouts planned a second, against a naive loop that asks the memory ledger and the clock for one layout at a time.

python tests/bench/bench_plan.py [gpus]

Rounds are interleaved; the best of each is printed. At least 10,000 layouts a second are wanted, enumeration included, and the
whole recording (steps, views, checks) is timed beside them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from core.recording import Recorder, Recording
from core.simulation import record
from core.training.memory_ledger import ledger, total
from core.training.memory_stages import Stages
from core.training.plan import search_all
from core.training.plan_layouts import take
from core.training.plan_setup import Job, PlanParams
from core.training.plan_time import step_parts

WANTED = 10_000
NAIVE = 400
"""Layouts that the naive loop goes through."""
SIZES = {"layers": 80, "hidden": 8192, "heads": 64, "kv_heads": 8, "ffn": 28672, "vocabulary": 128256, "layer_type": "llama"}


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def main(gpus: int, rounds: int = 3) -> int:
    job = Job.of(PlanParams(**SIZES, gpus=gpus))
    found = search_all(job, Recorder(Recording("plan")))
    some = np.flatnonzero(found.verdict <= 1)[:: max(1, len(found) // NAIVE)]

    def naive() -> None:
        for row in some.tolist():
            one = take(found.layouts, np.array([row]))
            stages = Stages.of(job.model, int(found.stages[row]))
            total(ledger(job.model, job.setting, stages, one)).max(axis=0)
            step_parts(job.model, job.setting, stages, one, job.machine)

    runs: dict[str, tuple[int, Callable[[], object]]] = {
        "naive loop, a layout at a time": (len(some), naive),
        "here: all layouts together": (len(found), lambda: search_all(job, Recorder(Recording("plan")))),
        "here: recorded (steps, views, checks)": (len(found), lambda: record("plan", {**SIZES, "gpus": gpus})),
    }
    best = dict.fromkeys(runs, 0.0)
    for _ in range(rounds):
        for name, (layouts, run) in runs.items():
            best[name] = max(best[name], layouts / seconds(run))
    print(f"{len(found):,} layouts of a 70B model on {gpus} GPUs")
    for name, rate in best.items():
        print(f"  {rate:12,.0f} layouts/s  {name}")
    slow, fast, _ = best.values()
    print(f"  {fast / slow:.0f} x the naive loop; wanted at least {WANTED:,} layouts/s")
    return 0 if fast >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 64))
