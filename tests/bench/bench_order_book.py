"""How fast a LOBSTER day and a market-by-order day are recorded, how much memory an event takes, how fast any event is reached.

Run: python tests/bench/bench_order_book.py [--lobster ZIP] [--events N] [--engine]. Without a zip it uses the GOOG level-10 day
beside the repository, or else a generated one of 4,000 events. The market-by-order day is generated (Databento and ITCH, N
events). Peers, interleaved in the same process by processor time: the plain-Python book of the tests on the same events, and
databento-dbn decoding the same file into its record objects. ``--engine`` adds the plain-Python matching engine.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

HERE = Path(__file__).resolve()
SHARED = HERE.parents[2] / "../shared/data"
sys.path.insert(0, str(HERE.parents[1] / "core" / "markets"))

from core.recording import Recording  # noqa: E402
from core.simulation import record  # noqa: E402

JUMP_LIMIT = 0.020
RECORD_LIMIT = 3.0
BYTES_LIMIT = 200
BOOK_RATIO = 10
"""The compiled book against the plain one, at least."""
DAY = 23_400_000_000_000


def day_file(folder: Path, given: str) -> Path:
    if given:
        return Path(given)
    real = SHARED / "lobster/LOBSTER_SampleFile_GOOG_2012-06-21_10.zip"
    if real.exists():
        return real
    from lobster_sample import write_day

    return write_day(folder, events=4_000, levels=10)


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
    """Processor seconds for every view, title, detail and fact of a random event, one after the other."""
    rng = random.Random(0)
    times = []
    for _ in range(jumps):
        step = rng.randrange(len(recording))
        start = time.thread_time()
        for panel in recording.panels:
            panel.view.at(step)
        recording.title(step), recording.detail(step), recording.facts_at(step)
        times.append(time.thread_time() - start)
    return sorted(times)


def bench_engine() -> None:
    import numpy as np

    from core.markets.stream.conformance import COLUMNS, report_lines, report_sha256

    path = SHARED / "matching/orders_normal.npz"
    if not path.exists():
        return
    with np.load(path) as stream:
        rows = list(zip(*(stream[name].tolist() for name in COLUMNS), strict=True))
    start = time.perf_counter()
    digest = report_sha256(report_lines(rows))
    took = time.perf_counter() - start
    print(f"engine, plain Python: {len(rows):,} messages in {took:.1f} s = {len(rows) / took / 1e6:.2f} M/s, report {digest[:12]}…")


def mbo_rows(count: int) -> list[tuple[int, int, int, int, int, bool]]:
    """A consistent flow (action, order, side, price in ticks, size, last) around a wandering middle, some 6,000 orders resting."""
    from plain_book import PlainBook

    from core.markets.readers.forms import ADD, CANCEL, FILL, MODIFY, TRADE

    rng, book = random.Random(1), PlainBook()
    rows: list[tuple[int, int, int, int, int, bool]] = []
    alive: list[int] = []
    number = 6_411_000_000_000

    def write(*row: int, last: bool = True) -> None:
        rows.append((*row, last))
        book.apply(*row)

    def pick() -> int:
        while True:
            at = rng.randrange(len(alive))
            if alive[at] in book.orders:
                return at
            alive[at] = alive[-1]
            alive.pop()

    while len(rows) < count:
        dice, bid, ask = rng.random(), book.best(1), book.best(-1)
        if dice < 0.45 or len(book.orders) < 6000:
            side = 1 if rng.random() < 0.5 else -1
            inside = (ask - 1 if side > 0 else bid + 1) if len(book.orders) > 100 else 20_000 - side
            number += rng.randint(1, 3)
            alive.append(number)
            write(ADD, number, side, inside - side * int(rng.expovariate(0.1)), rng.randint(1, 30))
        elif dice < 0.93:
            at = pick()
            side, price, size = book.orders[alive[at]]
            write(CANCEL, alive[at], side, price, size if rng.random() < 0.9 else max(size // 2, 1))
        elif dice < 0.97:
            at = pick()
            side, price, size = book.orders[alive[at]]
            write(MODIFY, alive[at], side, price, max(size - 1, 1))
        else:
            side = 1 if rng.random() < 0.5 else -1  # of the orders that are hit
            price = book.best(side)
            order, size = book.queue(side, price)[0]
            done = min(size, rng.randint(1, 20))
            write(TRADE, 0, -side, price, done, last=False)
            write(FILL, order, side, price, done, last=False)
            write(*((CANCEL, order, side, price, size) if done == size else (MODIFY, order, side, price, size - done)))
        if rows[-1][-1]:
            book.end_event()
    return rows


def dbn_file(folder: Path, rows: list[tuple[int, int, int, int, int, bool]]) -> Path:
    from market_files import dbn_header, mbo, write

    letters, step = "ACMRTF", DAY // len(rows)
    records = [mbo(letters[a], o, "B" if s > 0 else "A", p / 4, q, at=n * step, last=last) for n, (a, o, s, p, q, last) in enumerate(rows)]
    return write(folder / "day.dbn", dbn_header(), *records)


def itch_file(folder: Path, rows: list[tuple[int, int, int, int, int, bool]]) -> Path:
    """The same orders as ITCH messages: fills become executions, and what books them is left out."""
    from market_files import itch_add, itch_cancel, itch_directory, itch_executed, itch_open, write

    parts, filled, step = [itch_open(), itch_directory("TEST")], 0, DAY // len(rows)
    left: dict[int, int] = {}
    for n, (action, order, side, price, size, _) in enumerate(rows):
        if action == 0:
            left[order] = size
            parts.append(itch_add(order, "B" if side > 0 else "S", size, price / 100, time=n * step))
        elif action == 5:
            left[order] -= size
            filled = order
            parts.append(itch_executed(order, size, time=n * step))
        elif order == filled:
            filled = 0
        elif action == 1 or (action == 2 and left[order] > size):
            taken = size if action == 1 else left[order] - size
            left[order] -= taken
            parts.append(itch_cancel(order, taken, time=n * step))
    return write(folder / "day.itch", *parts)


def bench_orders(path: Path) -> bool:
    """Record a market-by-order file: events a second, bytes an event, first step, jumps; whether the limits hold."""
    record("order_book", {"file": str(path)})  # compiled
    took = []
    for _ in range(3):
        start = time.process_time()
        record("order_book", {"file": str(path)})
        took.append(time.process_time() - start)
    recording, _, first = bench_record(path)
    measured = Recording("order_book")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    record("order_book", {"file": str(path)}, recording=measured)
    taken = (tracemalloc.get_traced_memory()[0] - before) / len(measured)
    tracemalloc.stop()
    times = bench_jumps(recording, 300)
    p95 = times[int(len(times) * 0.95)]
    print(
        f"{path.name}: {len(recording):,} events recorded at {len(recording) / min(took) / 1e6:.2f} M/s, {taken:.0f} bytes an event, "
        f"first step after {first:.2f} s; jump median {statistics.median(times) * 1e3:.2f} ms, p95 {p95 * 1e3:.2f} ms"
    )
    return p95 <= JUMP_LIMIT and taken < BYTES_LIMIT


def bench_peers(path: Path, most: int = 200_000) -> bool:
    """The compiled book against the plain one, and a recording against databento-dbn's decoding of the file; best of three."""
    import databento_dbn
    from plain_book import PlainBook

    from core.markets.events.book import EventBook
    from core.markets.readers.dbn import open_dbn
    from core.markets.readers.forms import part_of

    whole = list(open_dbn(path).blocks())
    blocks, count = [], 0
    for block in whole:
        blocks.append(part_of(block, 0, min(len(block), most - count)))
        count += len(blocks[-1])
        if count >= most:
            break
    raw = path.read_bytes()

    def decoded() -> None:
        decoder = databento_dbn.DBNDecoder()
        decoder.write(raw)
        assert len(decoder.decode()) > count // 2

    jobs = {
        "compiled": lambda: [book.run(block) for book in (EventBook(),) for block in blocks],
        "plain": lambda: [book.run(block) for book in (PlainBook(),) for block in blocks],
        "recorded": lambda: record("order_book", {"file": str(path)}),
        "decoded": decoded,
    }
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(3):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - start)
    ratio = best["plain"] / best["compiled"]
    print(
        f"book of {count:,} events with all effects: {count / best['compiled'] / 1e6:.1f} M/s, the plain-Python book "
        f"{count / best['plain'] / 1e6:.2f} M/s: {ratio:.1f} x; recording a file takes {best['recorded'] / best['decoded']:.2f} x "
        "the time databento-dbn takes to decode it into objects"
    )
    return ratio >= BOOK_RATIO


def main() -> int:
    import numpy as np  # noqa: F401 (its import is not part of the reading)

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lobster", default="")
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--engine", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = day_file(Path(folder), given.lobster)
        recording, whole, first = bench_record(path)
        print(
            f"{path.name}: {len(recording):,} events recorded in {whole:.2f} s (limit {RECORD_LIMIT:.0f} s), first step after {first:.2f} s"
        )
        times = bench_jumps(recording)
        p95 = times[int(len(times) * 0.95)]
        print(f"jump, all views and facts: median {statistics.median(times) * 1e3:.2f} ms, p95 {p95 * 1e3:.2f} ms")
        held = [p95 <= JUMP_LIMIT, whole <= RECORD_LIMIT]
        rows = mbo_rows(given.events)
        dbn, itch = dbn_file(Path(folder), rows), itch_file(Path(folder), rows)
        held += [bench_orders(dbn), bench_orders(itch), bench_peers(dbn)]
    if given.engine:
        bench_engine()
    return int(not all(held))


if __name__ == "__main__":
    raise SystemExit(main())
