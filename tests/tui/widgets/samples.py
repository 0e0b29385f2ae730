"""Views and recordings as simulations write them, for the tests of the widgets, and an app around one companion widget."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rich.console import COLOR_SYSTEMS
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widget import Widget

from core.recording import Recorder, Recording
from core.views import Axis, Breakdown, Cell, Column, Ladder, Listing, Plot, Resting, Table

# views -------------------------------------------------------------------------------------------------------------


def dense_book() -> Ladder:
    """Every tick near 580.20 holds orders; order 7 is one's own. Step 1 takes the best ask, step 2 bids at its price."""
    view, draw, number = Ladder(0.01, "$", "shares"), random.Random(3), 0
    for k in range(10):
        for side, sign in (("bid", -1), ("ask", 1)):
            orders = []
            for _ in range(draw.randint(1, 6)):
                number += 1
                orders.append(Resting(number, draw.choice([10, 25, 50, 100, 200]), number == 7))
            price = round((58020 + sign * (1 + k)) / 100, 2)
            view.level(side, price, sum(order.quantity for order in orders), orders, step=0)
    view.level("ask", 580.21, 0, step=1)
    view.mark(580.21, "trade", "trade 250", step=1)
    view.level("bid", 580.21, 120, [Resting(99, 120)], step=2)
    view.mark(580.21, "bid", "new bid 120", step=2)
    return view


def sparse_book() -> Ladder:
    """Levels seven ticks apart without queues, as a depth feed gives them; step 1 is a hidden execution inside the spread."""
    view = Ladder(0.01, "$", "shares")
    for k in range(6):
        view.level("bid", round(580.18 - 0.07 * k, 2), 100 + 40 * k, step=0)
        view.level("ask", round(580.23 + 0.07 * k, 2), 300 - 40 * k, step=0)
    view.mark(580.205, "trade", "hidden 100", step=1)
    view.level("ask", 580.30, 0, step=2)
    view.mark(580.30, "ask", "cancelled", step=2)
    return view


def activations(ranks: int = 4, steps: int = 64) -> Plot:
    view = Plot("time", "activations held", y_unit="microbatches")
    for rank in range(ranks):
        curve, held = view.curve(f"rank {rank}", f"group{rank % 8}", "step"), 0
        for step in range(steps):
            held = min(ranks - rank, held + 1) if step < 8 or (step % 2 == 0 and step < steps - 8) else max(0, held - 1)
            view.point(curve, step * 0.5, held, step=step)
    return view


def live_bytes(steps: int = 3000) -> Plot:
    view, draw = Plot("time", "live bytes", x_unit="s", y_unit="bytes"), random.Random(1)
    curve = view.curve("live bytes", "activation")
    for step in range(steps):
        view.point(curve, step * 1e-3, 14e9 + 8e9 * abs(math.sin(step / 200)) + 1e9 * draw.random(), step=step)
    return view


def roofline() -> Plot:
    view, draw = Plot("arithmetic intensity", "attained", x_unit="FLOP/byte", y_unit="flop/s", x_log=True, y_log=True), random.Random(1)
    roof, operations = view.curve("roof", "dim"), view.curve("operations", "own", "scatter")
    for k in range(60):
        x = 10 ** (k / 15 - 1)
        view.point(roof, x, min(989e12, x * 3.35e12), step=0)
    for step in range(20):
        x = 10 ** (draw.random() * 4 - 1)
        view.point(operations, x, min(989e12, x * 3.35e12) * draw.uniform(0.3, 0.9), step=step)
    return view


def tokens_per_expert() -> Plot:
    view = Plot("expert", "tokens")
    curve = view.curve("tokens", "group0", "bar")
    for expert in range(16):
        view.point(curve, expert, 20 + expert * 7 % 31, step=expert)
    return view


def bytes_per_rank(ranks: int = 4, capacity: float | None = 80e9) -> Breakdown:
    parts = [("parameters", "parameter"), ("gradients", "gradient"), ("optimizer", "optimizer"), ("activations", "activation")]
    view = Breakdown(Axis("rank {i}", ranks), parts, capacity=capacity, capacity_name="H100")
    for rank in range(ranks):
        for part, amount in enumerate((14e9, 14e9, 84e9 / ranks, (2 + 3 * rank) * 1e9)):
            view.set(rank, part, amount, step=0)
    view.set(1, 1, 3.5e9, step=1)
    return view


def expert_table(experts: int = 16) -> Table:
    names = [
        Column("expert", "", "left"),
        Column("M"),
        Column("N"),
        Column("load", "%"),
        Column("bytes", "bytes"),
        Column("fate", "", "left"),
    ]
    view = Table(names)
    for e in range(experts):
        fate = "kept" if e % 4 else "dropped"
        view.row(f"E{e}", e * 37 % 91, 1024, (e * 7 % 13) / 13, e * 3e8, Cell(fate, fate), step=0)
    view.light(3, step=0)
    view.light(4, 5, step=1)
    view.light(12, step=2)
    return view


DISPATCH = (
    "def dispatch(tokens, router, experts, top_k):",
    "    logits = router(tokens)                      # (tokens, experts)",
    "    gates, chosen = softmax(logits).topk(top_k)  # (tokens, top_k)",
    "    order = chosen.flatten().argsort(stable=True)",
    "    rows = tokens[order // top_k]                # contiguous by expert",
    "    counts = bincount(chosen.flatten(), minlength=experts)",
    "    out = grouped_matmul(rows, weights, counts)",
    "    out = out * gates.flatten()[order, None]",
    "    result = zeros_like(tokens)",
    "    result.index_add_(0, order // top_k, out)    # combine puts every row back where its token stood, weighted",
    "    return result",
)


def dispatch_listing() -> Listing:
    view = Listing(DISPATCH)
    view.light(3, 4, step=0)
    view.light(6, step=1)
    view.light(10, step=2)
    return view


# recordings ----------------------------------------------------------------------------------------------------------


def pipeline_run(steps: int = 64, *, failing: bool = False, finished: bool = True) -> Recording:
    recording = Recording("pipeline")
    rec = Recorder(recording)
    for step in range(steps):
        name = {0: "warm-up", steps // 5: "steady", steps * 4 // 5: "cool-down"}.get(step)
        if name:
            rec.phase(name)
        rec.fact("bubble_of_makespan", 0.272727, "%", "formula", "(p-1)/(m+p-1)")
        rec.fact("peak_stash", min(step, 4), "microbatches")
        rec.fact("live_bytes", 28e9 - step * 1e8, "bytes", "measured")
        rec.fact("tpr", 0.81, label="group_a")
        rec.fact("tpr", 0.61 + step * 0.001, label="group_b")
        rec.fact("published", 120e9, "bytes", "reference", "arXiv 1910.02054")
        rec.step(
            "Rank {rank} runs backward of microbatch {microbatch}",
            "Its gradient came from rank {peer} in {t:s}, {size:bytes}. It frees the activations now, so it never holds more than {held}.",
            time=step * 0.5, rank=step % 4, microbatch=step // 4, peer=(step + 1) % 4, size=4e6, t=1.2e-3, held=3,
        )  # fmt: skip
    rec.check("gradients equal", 1, 1)
    rec.check("makespan", 33, 33)
    if failing:
        rec.check("bubble equals formula", 0.27, 0.2727, 1e-3)
    if finished:
        recording.state = "finished"
    return recording


# an app around one companion -----------------------------------------------------------------------------------------


class CompanionApp(App[None]):
    """One narration, facts or scrubber that fills the screen; ``prepare`` shows something on it."""

    CSS = "Screen { overflow: hidden; }"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def __init__(self, widget: Widget, prepare: Any = None, *, colors: str = "truecolor", **options: Any) -> None:
        super().__init__(**options)
        self.console._color_system = COLOR_SYSTEMS.get(colors)
        self.no_color = colors == "none"
        self.widget: Any = widget
        self.prepare = prepare
        self.sought: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        if self.prepare:
            self.prepare(self.widget)

    def on_scrubber_sought(self, message: Any) -> None:
        self.sought.append(message.step)


class Companion:
    """A mounted companion: its lines, and the rows that each call asks to repaint."""

    def __init__(self, app: CompanionApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot, self.widget = app, pilot, app.widget
        self.repainted: list[int] = []
        plain_refresh = self.widget.refresh

        def refresh(*regions: Region, **options: Any) -> Any:
            rows = [y for region in regions for y in range(region.y, region.bottom)] if regions else range(self.widget.size.height)
            self.repainted += rows if options.get("repaint", True) else []
            return plain_refresh(*regions, **options)

        self.widget.refresh = refresh

    def rows(self, *arguments: Any, **options: Any) -> list[int]:
        """The rows that ``show`` with these arguments asks to repaint."""
        self.repainted.clear()
        self.widget.show(*arguments, **options)
        return sorted(set(self.repainted))

    def lines(self) -> list[str]:
        return [self.widget.render_line(y).text.rstrip() for y in range(self.widget.size.height)]


@asynccontextmanager
async def companion(widget: Widget, prepare: Any = None, size: tuple[int, int] = (37, 12), **options: Any) -> AsyncIterator[Companion]:
    app = CompanionApp(widget, prepare, **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Companion(app, pilot)
