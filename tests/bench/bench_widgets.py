"""Cost of one step and of a full repaint, per view kind: processor time from `show` to what is sent, and bytes at true colour.

    python tests/bench/bench_widgets.py [kind …]

Bytes are what a terminal is sent that shows this widget alone. The last column compares a step with a full repaint of the same
widget in the same run: what sending only changed cells saves.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.color import ColorSystem

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui" / "widgets"))

from harness import ViewApp, all_to_all, gates, one_f_one_b, overlapped_streams, ring_all_gather, shards, traffic_matrix

from core.views import Axis, Breakdown, Column, Ladder, Listing, Plot, Table, View
from tui.shadow import Shadow, runs_of

Made = tuple[View, int]


def _ladder() -> Made:
    view = Ladder()
    for step in range(200):
        for depth in range(10):
            view.level("bid", round(99.99 - 0.01 * depth, 2), 100 + (step * 7 + depth * 13) % 90, step=step)
            view.level("ask", round(100.01 + 0.01 * depth, 2), 100 + (step * 11 + depth * 5) % 90, step=step)
        view.mark(100.01, "trade", "trade 10", step=step)
    return view, 200


def _breakdown() -> Made:
    parts = [("parameters", "parameter"), ("gradients", "gradient"), ("optimizer", "optimizer")]
    view = Breakdown(Axis("rank {i}", 8), parts, capacity=80e9)
    for step in range(100):
        view.set(step % 8, step % 3, 1e9 * (1 + step % 17), step=step)
    return view, 100


def _plot() -> Made:
    view = Plot("step", "loss")
    curve = view.curve("loss", "forward")
    for step in range(400):
        view.point(curve, step, 4 * math.exp(-step / 90) + 0.1 * math.sin(step), step=step)
    return view, 400


def _table() -> Made:
    view = Table([Column("name", align="left"), Column("bytes", "bytes"), Column("time", "s")])
    for step in range(100):
        view.row(f"bucket {step}", 1e6 * step, 1e-4 * step, step=step)
        view.light(step, step=step)
    return view, 100


def _listing() -> Made:
    view = Listing([f"line {k}: all_reduce(bucket[{k}])" for k in range(60)])
    for step in range(60):
        view.light(step, step=step)
    return view, 60


CASES: dict[str, Callable[[], Made]] = {
    "gantt 4x8": one_f_one_b,
    "gantt 16x64": lambda: one_f_one_b(16, 64),
    "gantt 64x512": lambda: one_f_one_b(64, 512),
    "gantt streams": lambda: overlapped_streams(4),
    "heatmap 8x8": traffic_matrix,
    "heatmap 64x64": lambda: traffic_matrix(64),
    "heatmap letters": lambda: shards(8),
    "heatmap gates": lambda: gates(64, 8),
    "exchange ring 8": lambda: ring_all_gather(8),
    "exchange ring 64": lambda: ring_all_gather(64),
    "exchange all-to-all": lambda: all_to_all(8),
    "ladder": _ladder,
    "breakdown": _breakdown,
    "plot": _plot,
    "table": _table,
    "listing": _listing,
}


async def measure(name: str, made: Made, size: tuple[int, int] = (84, 36)) -> None:
    """Print one line; the default size is what a single panel has on a 120x40 stage."""
    view, steps = made
    app = ViewApp(view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        widget, shadow = app.widget, Shadow()

        def sent_for(rows: Iterable[int]) -> int:
            runs = runs_of([(y, 0, widget.segments_now(y)) for y in rows], ColorSystem.TRUECOLOR)
            assert runs is not None
            return len(shadow.change(runs, None).encode())

        full_times, full_bytes = [], []
        for step in (0, steps // 2, steps - 1):
            widget.show(step)
            shadow.forget()
            started = time.thread_time()
            widget.forget()
            full_bytes.append(sent_for(range(size[1])))
            full_times.append(time.thread_time() - started)
        regions: list[Any] = []
        widget.refresh = lambda *areas, **_: regions.extend(areas)  # type: ignore[method-assign,assignment]
        times, sent = [], []
        first = max(steps // 2 - 250, 0)
        widget.show(first)
        sent_for(range(size[1]))
        for step in range(first + 1, min(steps, first + 500)):
            regions.clear()
            started = time.thread_time()
            widget.show(step)
            sent.append(sent_for(region.y for region in regions))
            times.append(time.thread_time() - started)
        times, sent = sorted(times), sorted(sent)
        p95, middle = len(times) * 95 // 100, len(times) // 2
        print(
            f"{name:20} step {times[middle] * 1e3:6.2f} ms  p95 {times[p95] * 1e3:6.2f} ms  {sent[middle]:6} B  p95 {sent[p95]:6} B"
            f"   full {max(full_times) * 1e3:6.2f} ms  {max(full_bytes):6} B   step/full {sent[middle] / max(full_bytes):5.2f}"
        )


def main() -> None:
    wanted = sys.argv[1:]
    for name, make in CASES.items():
        if not wanted or any(name.startswith(word) for word in wanted):
            try:
                asyncio.run(measure(name, make()))
            except ModuleNotFoundError as error:
                print(f"{name:20} skipped: {error}")


if __name__ == "__main__":
    main()
