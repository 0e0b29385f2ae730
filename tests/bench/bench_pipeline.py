"""Generating and timing large schedules, against torch's own table generation in the same run; and scrubbing a long recording.

python tests/bench/bench_pipeline.py [ranks microbatches [schedule ...]]

Prints for each schedule torch's time for the table, the time here for the table and its timing (best of rounds, the two in turn),
and their ratio: at most 1/20 is wanted of schedules with two chunks, at most 2 of gpipe and 1f1b. Then one recording is opened
and every key of a walk through it timed: 10 ms a key are wanted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from core.recording import Recording
from core.simulation import record
from core.training.schedules import SCHEDULES, build
from core.training.timing import Costs, time_table

TORCH_NAMES = {
    "gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B", "interleaved_zb": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble", "dualpipev": "DualPipeV",
}  # fmt: skip
WANTED = {"gpipe": 2.0, "1f1b": 2.0}
WANTED_ELSE = 1 / 20
KEY_SECONDS = 0.010
KEYS = 400


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def generated_and_timed(name: str, ranks: int, microbatches: int) -> object:
    table = build(name, ranks, microbatches)
    one = np.ones(table.stages)
    return time_table(table, Costs(one, one, one))


def against_torch(name: str, ranks: int, microbatches: int) -> bool:
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops

    chunks = SCHEDULES[name].chunks if SCHEDULES[name].chunks > 1 else None
    theirs = ours = float("inf")
    for _ in range(5 if chunks is None else 1):  # torch takes 8 to 20 s for two chunks
        theirs = min(theirs, seconds(lambda: get_schedule_ops(TORCH_NAMES[name], ranks, microbatches, num_stages_per_rank=chunks)))
        for _ in range(3):
            ours = min(ours, seconds(lambda: generated_and_timed(name, ranks, microbatches)))
    wanted = WANTED.get(name, WANTED_ELSE)
    verdict = "ok" if ours / theirs <= wanted else "TOO SLOW"
    print(f"  {name:15} torch {theirs:7.3f} s, here {ours:6.3f} s, ratio {ours / theirs:.4f} (at most {wanted:g}): {verdict}")
    return ours / theirs <= wanted


def shown(rec: Recording, step: int) -> object:
    """Everything that a screen asks for after a key."""
    return rec.title(step), rec.detail(step), rec.facts_at(step), rec.phase(step), [panel.view.at(step) for panel in rec.panels]


def scrubbing(name: str, ranks: int, microbatches: int) -> bool:
    opened: list[Recording] = []
    took = seconds(lambda: opened.append(record("pipeline", {"schedule": name, "stages": ranks, "microbatches": microbatches})))
    rec = opened[0]
    draw = np.random.default_rng(0)
    keys = sorted(seconds(partial(shown, rec, step)) for step in draw.integers(0, len(rec), KEYS).tolist())
    late = keys[int(0.99 * KEYS)]
    ok = late <= KEY_SECONDS
    verdict = "ok" if ok else "TOO SLOW"
    print(f"  {name}: {len(rec):,} actions recorded in {took:.2f} s, all checks {'hold' if all(c.ok for c in rec.checks) else 'FAIL'}")
    print(f"  a key {1e3 * median(keys):.2f} ms, 99 % within {1e3 * late:.2f} ms (at most {1e3 * KEY_SECONDS:g}): {verdict}")
    return ok


def main(ranks: int, microbatches: int, names: list[str]) -> int:
    print(f"{ranks} ranks, {microbatches} microbatches: table generated and timed, against torch's table alone")
    good = [against_torch(name, ranks, microbatches) for name in names]
    good.append(scrubbing("interleaved", ranks, microbatches))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]] or [64, 512]
    sys.exit(main(sizes[0], sizes[1], sys.argv[3:] or list(TORCH_NAMES)))
