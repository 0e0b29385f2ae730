"""How fast orders are matched and books rebuilt, against plain Python and against other packages, in the same run.

Run: python tests/bench/bench_engine.py [--peers PYTHON] [--rounds N]. ``--peers`` (or NOTES_TUI_BENCH_PEERS) is the Python of
an environment with mbo-queue and hftbacktest; without it the rebuild is only timed. Rounds are interleaved, best of each.
Limits: matching 20 x a SortedDict matcher on the benchmark's stream and on a generated crash; rebuild 5 x the fastest peer with
dense ids, 2.5 x with raw 64-bit ids.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()
STREAM = HERE.parents[2] / "../shared/data/matching/orders_normal.npz"
PEER = """
import sys, time
import numpy as np
columns = np.load(sys.argv[1])
name, rounds = sys.argv[2], int(sys.argv[3])
if name == "mbo-queue":
    from mboq import fast
    rec = {key: columns[key] for key in ("ts_event", "order_id", "price", "size", "flags", "action", "side")}
    run = lambda: fast.run(rec, 1)
else:
    import hftbacktest as h
    from numba import njit
    n = len(columns["price"])
    data = np.zeros(n, dtype=h.event_dtype)
    kind = {65: h.ADD_ORDER_EVENT, 67: h.CANCEL_ORDER_EVENT, 77: h.MODIFY_ORDER_EVENT}
    ev = np.array([kind.get(int(a), 0) for a in columns["action"]], dtype=np.uint64)
    side = np.where(columns["side"] == 66, h.BUY_EVENT, h.SELL_EVENT).astype(np.uint64)
    data["ev"] = ev | side | np.uint64(h.EXCH_EVENT) | np.uint64(h.LOCAL_EVENT)
    data["exch_ts"] = data["local_ts"] = columns["ts_event"].astype(np.int64)
    data["px"], data["qty"], data["order_id"] = columns["price"], columns["size"], columns["order_id"]
    @njit
    def play(hbt):
        while hbt.elapse(10**12) == 0:
            pass
        return True
    def run():
        asset = (h.BacktestAsset().data(data).linear_asset(1.0).constant_order_latency(0, 0).l3_fifo_queue_model()
                 .no_partial_fill_exchange().trading_value_fee_model(0, 0).tick_size(1).lot_size(1))
        hbt = h.HashMapMarketDepthBacktest([asset])
        start = time.perf_counter()
        play(hbt)
        took = time.perf_counter() - start
        hbt.close()
        return took
best = 1e9
for _ in range(rounds):
    start = time.perf_counter()
    own = run()
    took = time.perf_counter() - start
    best = min(best, own if isinstance(own, float) else took)
print("SECONDS", best)
"""


class SortedDictMatcher:
    """Price-time priority in plain Python: a SortedDict of OrderedDicts a side; formats nothing."""

    def __init__(self) -> None:
        from sortedcontainers import SortedDict

        self.sides = (SortedDict(), SortedDict())
        self.where: dict[int, tuple[int, int]] = {}
        self.trades = 0

    def run(self, rows: list[tuple[int, ...]]) -> None:
        sides, where = self.sides, self.where
        for kind, side, ioc, quantity, order_id, price in rows:
            if kind:
                place = where.pop(order_id, None)
                if place is None:
                    continue
                side, key = place
                level = sides[side][key]
                del level[order_id]
                if not level:
                    del sides[side][key]
                if kind == 1:
                    continue
            left = self._match(side, order_id, quantity, price)
            if left and not ioc:
                key = price if side else -price
                level = sides[side].get(key)
                if level is None:
                    level = sides[side][key] = OrderedDict()
                level[order_id] = left
                where[order_id] = (side, key)

    def _match(self, side: int, taker: int, left: int, price: int) -> int:
        other = self.sides[1 - side]
        while left and other:
            key, level = other.peekitem(0)
            if (key > price) if side == 0 else (-key < price):
                break
            while left and level:
                maker, resting = next(iter(level.items()))
                traded = min(left, resting)
                left -= traded
                self.trades += 1
                if traded == resting:
                    del level[maker]
                    del self.where[maker]
                else:
                    level[maker] = resting - traded
            if not level:
                del other[key]
        return left


def crash(messages: int = 400_000) -> dict[str, np.ndarray]:
    """Prices fall through thousands of levels and come back: bids over a wide range, sells that take them level by level."""
    rng = np.random.default_rng(5)
    wave = 30_000 + 12_000 * np.cos(np.linspace(0, 10 * np.pi, messages))
    side = rng.integers(0, 2, messages)
    new = rng.random(messages) < 0.75
    price = (wave + rng.normal(0, 40, messages) + np.where(side == 0, -20, 20) * rng.exponential(8, messages)).astype(np.int64)
    ids = np.where(new, np.arange(1, messages + 1), np.maximum(np.arange(1, messages + 1) - rng.integers(1, 20_000, messages), 1))
    return {
        "type": np.where(new, 0, 1), "side": side, "ioc": (rng.random(messages) < 0.05) & new,
        "quantity": rng.integers(1, 100, messages), "order_id": ids, "price": price,
    }  # fmt: skip


def bench_matching(name: str, columns: dict[str, np.ndarray], rounds: int) -> float:
    from core.markets.engine.engine import Engine, Rules, stream_messages
    from core.markets.engine.state import S_TRADES
    from core.markets.stream.archive import COLUMNS

    rows = list(zip(*(columns[column].tolist() for column in COLUMNS), strict=True))
    messages = stream_messages(columns)
    rules = Rules(lowest=-(1 << 40))
    Engine(rules).skip(messages[:, :1000].copy())
    ours, theirs = [], []
    for _ in range(rounds):
        matcher, engine = SortedDictMatcher(), Engine(rules)
        start = time.perf_counter()
        engine.skip(messages)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        matcher.run(rows)
        theirs.append(time.perf_counter() - start)
        assert matcher.trades == engine.state.scalars[S_TRADES], "both sides must make the same trades"
    ratio = min(theirs) / min(ours)
    print(
        f"{name}: {len(rows):,} messages, {matcher.trades:,} trades; engine {len(rows) / min(ours) / 1e6:.1f} M/s, "
        f"SortedDict {len(rows) / min(theirs) / 1e6:.2f} M/s: {ratio:.1f} x"
    )
    return ratio


def events(count: int = 1_000_000) -> dict[str, np.ndarray]:
    """Market-by-order events around a wandering middle: adds, cancels of part or all, modifies; ids from 0."""
    rng = np.random.default_rng(7)
    action = np.empty(count, dtype=np.uint8)
    order, price, size, side = (np.zeros(count, dtype=np.int64) for _ in range(4))
    middle = 100_000 + np.cumsum(rng.integers(-1, 2, count)) // 8
    dice, distance, lots, choice = rng.random(count), rng.geometric(0.08, count), rng.integers(1, 20, count), rng.random(count)
    alive: list[int] = []
    resting: dict[int, tuple[int, int, int]] = {}
    last = 0
    for n in range(count):
        if dice[n] < 0.48 or len(alive) < 500:
            s = 1 if choice[n] < 0.5 else -1
            action[n], order[n], side[n], price[n], size[n] = 0, last, s, middle[n] - s * distance[n], lots[n]
            resting[last] = (s, int(price[n]), int(lots[n]))
            alive.append(last)
            last += 1
            continue
        at = int(choice[n] * len(alive))
        chosen = alive[at]
        s, p, q = resting[chosen]
        order[n], side[n] = chosen, s
        if dice[n] < 0.90:
            action[n], price[n], size[n] = 1, p, q
            alive[at] = alive[-1]
            alive.pop()
            del resting[chosen]
        else:
            action[n], price[n], size[n] = 2, middle[n] - s * distance[n], lots[n]
            resting[chosen] = (s, int(price[n]), int(lots[n]))
    return {"action": action, "order": order, "side": side.astype(np.int8), "price": price, "size": size}


def bench_rebuild(peers: str, rounds: int) -> list[bool]:
    from core.markets.events.book import EventBook

    stream = events()
    count = len(stream["action"])
    most = int(stream["order"].max()) + 1
    raw = np.random.default_rng(1).permutation(np.arange(most, dtype=np.int64) * 9_176_543_210_987 + 6_411_000_000_000_000_000 % (1 << 62))
    raw_order = raw[stream["order"]]
    columns = [stream[name] for name in ("action", "side", "order", "price", "size")]
    raw_columns = [raw_order if column is stream["order"] else column for column in columns]
    names = ("mbo-queue", "hftbacktest")
    took: dict[str, list[float]] = {"dense": [], "raw": [], **{name: [] for name in names}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.npz"
        np.savez(
            path, ts_event=np.arange(count, dtype=np.uint64) * 1000 + 1_700_000_000_000_000_000, order_id=raw_order.astype(np.uint64),
            price=stream["price"], size=stream["size"].astype(np.uint64), flags=np.full(count, 128, dtype=np.uint8),
            action=np.array([65, 67, 77], dtype=np.uint8)[stream["action"]], side=np.where(stream["side"] > 0, 66, 65).astype(np.uint8),
        )  # fmt: skip
        for _ in range(rounds):
            for kind, dense, mine in (("dense", most, columns), ("raw", None, raw_columns)):
                EventBook(dense).apply(*(column[:100] for column in mine))  # compiled
                start = time.perf_counter()
                EventBook(dense).apply(*mine)
                took[kind].append(time.perf_counter() - start)
            for name in names if peers else ():
                run = subprocess.run([peers, "-c", PEER, str(path), name, "1"], capture_output=True, text=True, check=False)
                line = next((line for line in run.stdout.splitlines() if line.startswith("SECONDS")), "")
                if line:
                    took[name].append(float(line.split()[1]))
                else:
                    print(f"  {name} skipped: {(run.stderr.strip().splitlines() or ['it printed nothing'])[-1]}")
    rates = {name: count / min(times) for name, times in took.items() if times}
    print("rebuild of 1e6 events: " + ", ".join(f"{name} {rate / 1e6:.1f} M/s" for name, rate in rates.items()))
    fastest = max((rates[name] for name in names if name in rates), default=0.0)
    if not fastest:
        print("  no peer could be run: give --peers the Python of an environment with mbo-queue or hftbacktest")
        return []
    print(f"  dense ids {rates['dense'] / fastest:.1f} x, raw ids {rates['raw'] / fastest:.1f} x the fastest peer")
    return [rates["dense"] >= 5 * fastest, rates["raw"] >= 2.5 * fastest]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=os.environ.get("NOTES_TUI_BENCH_PEERS", ""))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rebuild", type=int, default=1)
    given = parser.parse_args()
    held = [bench_matching("crash", crash(), given.rounds) >= 20]
    if STREAM.exists():
        with np.load(STREAM) as stream:
            held.append(bench_matching("normal", {name: stream[name] for name in stream.files}, given.rounds) >= 20)
    else:
        print("normal: skipped, the benchmark's messages are not here (../shared/data/matching)")
    held += bench_rebuild(given.peers, given.rounds) if given.rebuild else []
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
