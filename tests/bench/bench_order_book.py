"""How fast a LOBSTER day is recorded and how fast any event of it is reached; the plain-Python engine's messages a second.

Run: python tests/bench/bench_order_book.py [LOBSTER zip]. Without a file it uses the GOOG level-10 day beside the repository,
or else a generated one of 20,000 events.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
SHARED = HERE.parents[2] / "../shared/data"
sys.path.insert(0, str(HERE.parents[1] / "core" / "markets"))

from core.recording import Recording  # noqa: E402
from core.simulation import record  # noqa: E402

JUMP_LIMIT = 0.020
RECORD_LIMIT = 3.0


def day_file(folder: Path) -> Path:
    if len(sys.argv) > 1:
        return Path(sys.argv[1])
    real = SHARED / "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip"
    if real.exists():
        return real
    from lobster_sample import write_day

    return write_day(folder, events=20_000, levels=10)


def bench_record(path: Path) -> tuple[Recording, float, float]:
    """The recording, seconds to record it whole, seconds until its first step could be read."""
    recording = Recording("order_book")
    first: list[float] = []

    def watch() -> None:
        while not len(recording):
            time.sleep(0.001)
        first.append(time.perf_counter() - start)

    watcher = threading.Thread(target=watch)
    start = time.perf_counter()
    watcher.start()
    record("order_book", {"file": str(path)}, recording=recording)
    whole = time.perf_counter() - start
    watcher.join()
    return recording, whole, first[0]


def bench_jumps(recording: Recording, jumps: int = 1000) -> list[float]:
    """Seconds for every view, title, detail and fact of a random event, one after the other."""
    rng = random.Random(0)
    times = []
    for _ in range(jumps):
        step = rng.randrange(len(recording))
        start = time.perf_counter()
        for panel in recording.panels:
            panel.view.at(step)
        recording.title(step), recording.detail(step), recording.facts_at(step)
        times.append(time.perf_counter() - start)
    return sorted(times)


def bench_engine() -> None:
    import numpy as np

    from core.markets.conformance import COLUMNS, report_lines, report_sha256

    path = SHARED / "matching/orders_normal.npz"
    if not path.exists():
        return
    with np.load(path) as stream:
        rows = list(zip(*(stream[name].tolist() for name in COLUMNS), strict=True))
    start = time.perf_counter()
    digest = report_sha256(report_lines(rows))
    took = time.perf_counter() - start
    print(f"engine, plain Python: {len(rows):,} messages in {took:.1f} s = {len(rows) / took / 1e6:.2f} M/s, report {digest[:12]}…")


def main() -> int:
    import numpy as np  # noqa: F401 (its import is not part of the reading)

    with tempfile.TemporaryDirectory() as folder:
        path = day_file(Path(folder))
        recording, whole, first = bench_record(path)
    print(f"{path.name}: {len(recording):,} events recorded in {whole:.2f} s (limit {RECORD_LIMIT:.0f} s), first step after {first:.2f} s")
    times = bench_jumps(recording)
    median, p95 = statistics.median(times), times[int(len(times) * 0.95)]
    print(
        f"jump to a random event, all views and facts: median {median * 1e3:.2f} ms, p95 {p95 * 1e3:.2f} ms, max {times[-1] * 1e3:.2f} ms"
    )
    for panel in recording.panels:
        alone = []
        for step in random.Random(1).choices(range(len(recording)), k=500):
            start = time.perf_counter()
            panel.view.at(step)
            alone.append(time.perf_counter() - start)
        alone.sort()
        print(f"  {panel.title:<8} median {alone[250] * 1e3:.3f} ms, p95 {alone[475] * 1e3:.3f} ms")
    bench_engine()
    return int(p95 > JUMP_LIMIT or whole > RECORD_LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
