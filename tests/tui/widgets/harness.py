"""Mounts one view widget at a size, shows steps, and gives back what is on screen as text lines or SVG.

    from harness import ViewApp, mounted, picture               # tests in this folder find it by name
    lines = await picture(view, step=3, size=(80, 24))      # a list of `height` strings
    async with mounted(view, size=(80, 24)) as stage:       # for several steps
        stage.show(4); await stage.settle(); stage.lines(); stage.repainted

For snapshots (sync test functions): ``assert snap_compare(ViewApp(view, step=3), terminal_size=(80, 24))``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from core.views import Axis, Cell, Exchange, Gantt, Heatmap, View
from tui.widgets import widget_for
from tui.widgets.base import ViewWidget


class ViewApp(App[None]):
    """One widget that fills the screen. Arrow keys move its cursor when ``focus`` is set."""

    CSS = "Screen { overflow: hidden; }"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def __init__(
        self, view: View, step: int = 0, *, focus: bool = False, theme: str = "textual-dark", colors: str = "truecolor", **options: Any
    ) -> None:
        """colors: truecolor, 256, standard, or none (as under NO_COLOR); what the terminal of the test run can do does not matter."""
        super().__init__(**options)
        self.console._color_system = COLOR_SYSTEMS.get(colors)
        self.no_color = colors == "none"
        self.first_theme = theme
        self.view = view
        self.step = step
        self.focus_it = focus
        self.explained: list[str] = []

    def compose(self) -> ComposeResult:
        yield widget_for(self.view, id="view")

    @property
    def widget(self) -> ViewWidget[Any]:
        return self.query_one("#view", ViewWidget)

    def on_mount(self) -> None:
        self.theme = self.first_theme
        if not self.focus_it:
            self.screen.set_focus(None)
        self.widget.show(self.step)
        if self.focus_it:
            self.widget.focus()

    def on_key(self, event: Any) -> None:
        move = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}.get(event.key)
        if move and self.focus_it:
            event.prevent_default()
            self.widget.cursor_by(*move)

    def on_view_widget_cursor_moved(self, message: ViewWidget.CursorMoved) -> None:
        self.explained.append(message.text)


class Stage:
    """A mounted view: show steps, read lines, and which rows were repainted since the last `settle`."""

    def __init__(self, app: ViewApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.widget = app.widget
        self.repainted: list[int] = []
        plain_refresh = self.widget.refresh

        def refresh(*regions: Region, **options: Any) -> Any:
            if regions:
                self.repainted += [y for region in regions for y in range(region.y, region.bottom)]
            elif options.get("repaint", True):
                self.repainted += list(range(self.widget.size.height))
            return plain_refresh(*regions, **options)

        self.widget.refresh = refresh  # type: ignore[method-assign]

    def show(self, step: int) -> list[int]:
        """Show ``step`` and return the rows that this asks to repaint, in order."""
        self.repainted.clear()
        self.widget.show(step)
        return sorted(set(self.repainted))

    async def settle(self) -> None:
        await self.pilot.pause()

    def strips(self) -> list[Strip]:
        return [self.widget.render_line(y) for y in range(self.widget.size.height)]

    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.strips()]

    def style_at(self, x: int, y: int) -> Any:
        """The rich style of one screen cell."""
        at = 0
        for text, style, _ in self.strips()[y]:
            width = Segment(text).cell_length
            if at <= x < at + width:
                return style
            at += width
        raise IndexError((x, y))

    def svg(self) -> str:
        return self.app.export_screenshot()


@asynccontextmanager
async def mounted(view: View, step: int = 0, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Stage]:
    app = ViewApp(view, step, **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Stage(app, pilot)


async def picture(view: View, step: int = 0, size: tuple[int, int] = (80, 24), **options: Any) -> list[str]:
    """What ``view`` looks like at ``step``: one string a row, right-stripped."""
    async with mounted(view, step, size, **options) as stage:
        return stage.lines()


# Realistic data ----------------------------------------------------------------------------------------------------


def one_f_one_b(stages: int = 4, microbatches: int = 8) -> tuple[Gantt, int]:
    """A 1F1B schedule in unit times (forward 1, backward 2), one step an action by (start, rank); returns its steps too."""
    queues = []
    for rank in range(stages):
        warm = min(stages - rank - 1, microbatches)
        order = [("F", m) for m in range(warm)]
        for m in range(microbatches - warm):
            order += [("F", warm + m), ("B", m)]
        order += [("B", m) for m in range(microbatches - warm, microbatches)]
        queues.append(order)
    done: dict[tuple[int, str, int], float] = {}
    free = [0.0] * stages
    actions = []
    left = [list(q) for q in queues]
    while any(left):
        for rank in range(stages):
            while left[rank]:
                kind, m = left[rank][0]
                needs = (rank - 1, "F", m) if kind == "F" else (rank + 1, "B", m)
                if kind == "B" and rank == stages - 1:
                    needs = (rank, "F", m)
                outside = not 0 <= needs[0] < stages
                if not outside and needs not in done:
                    break
                start = max(free[rank], 0.0 if outside else done[needs])
                free[rank] = done[rank, kind, m] = start + (1.0 if kind == "F" else 2.0)
                actions.append((start, rank, kind, m))
                left[rank].pop(0)
    view = Gantt(Axis("rank {i}", stages))
    for step, (start, rank, kind, m) in enumerate(sorted(actions)):
        long, role = (1.0, "forward") if kind == "F" else (2.0, "backward")
        view.span(rank, start, start + long, role, kind + "{n}", m, step=step)
    return view, len(actions)


def overlapped_streams(ranks: int = 2) -> tuple[Gantt, int]:
    """Compute and communication streams of data-parallel backward, in seconds, collectives on all ranks in one step."""
    names = [f"rank {r} {stream}" for r in range(ranks) for stream in ("compute", "comm")]
    view = Gantt(Axis.of(*names), unit="s", lane_groups=[r for r in range(ranks) for _ in range(2)])
    step, now, ready = 0, 0.0, 0.0
    for layer in reversed(range(6)):
        long = 0.0011 + 0.00013 * layer
        for r in range(ranks):
            view.span(2 * r, now, now + long, "backward", "layer {n}", layer, step=step)
        step, now = step + 1, now + long
        if layer % 2 == 0:
            begin = max(now, ready)
            ready = begin + 0.0019
            for r in range(ranks):
                view.span(2 * r + 1, begin, ready, "comm", "all-reduce {n}", layer // 2, step=step)
            step += 1
    for r in range(ranks):
        view.span(2 * r, ready, ready + 0.0008, "optimizer", "step", step=step)
    return view, step + 1


def ring_all_gather(ranks: int = 4, size: float = 4 * 2**20) -> tuple[Exchange, int]:
    """Ring AllGather: at every hop each rank passes one chunk to its right neighbour."""
    view = Exchange(Axis("rank {i}", ranks), slots=Axis("chunk {i}", ranks))
    for r in range(ranks):
        view.hold(r, r, size, f"group{r % 8}", f"c{r}", step=0)
    for hop in range(ranks - 1):
        for r in range(ranks):
            chunk, to = (r - hop) % ranks, (r + 1) % ranks
            view.send(r, to, size, "comm", f"c{chunk}", step=1 + hop)
            view.hold(to, chunk, size, f"group{chunk % 8}", f"c{chunk}", step=1 + hop)
    return view, ranks


def all_to_all(ranks: int = 4, size: float = 2**20) -> tuple[Exchange, int]:
    """Every rank sends every other rank its part; the first target gets more (a hot expert)."""
    view = Exchange(Axis("rank {i}", ranks))
    for r in range(ranks):
        view.hold(r, 0, size * ranks, f"group{r % 8}", f"x{r}", step=0)
    for source in range(ranks):
        for target in range(ranks):
            if source != target:
                view.send(source, target, size * (4 if target == 0 else 1), "comm", f"{source}→{target}", step=1)
    return view, 2


def traffic_matrix(size: int = 8) -> tuple[Heatmap, int]:
    """Bytes from rank to rank, one row a step, skewed towards low targets."""
    view = Heatmap(Axis("rank {i}", size), Axis("to {i}", size), unit="bytes")
    for r in range(size):
        for c in range(size):
            view.set(r, c, 0 if r == c else 1.5e6 * (1 + (r * 7 + c * 3) % 5) / (1 + c), "comm", step=r)
    return view, size


def shards(ranks: int = 4) -> tuple[Heatmap, int]:
    """Which rank holds which shard of parameters, gradients, optimizer state: letters in cells, changing over the steps."""
    columns = [f"{kind}{s}" for kind in ("P", "G", "O") for s in range(ranks)]
    view = Heatmap(Axis("rank {i}", ranks), Axis.of(*columns), show="text")
    kinds = (("P", "parameter"), ("G", "gradient"), ("O", "optimizer"))
    for r in range(ranks):
        for k, (letter, role) in enumerate(kinds):
            for s in range(ranks):
                if letter != "O" or s == r:
                    view.set(r, k * ranks + s, 1.0, role, f"{letter}{s}", step=0)
    for s in range(ranks):
        for r in range(ranks):
            if r != s:
                view.clear(r, ranks + s, step=1 + s)
            else:
                view.set(r, ranks + s, 1.0, "gradient", f"ΣG{s}", step=1 + s)
    return view, 1 + ranks


def gates(tokens: int = 12, experts: int = 8) -> tuple[Heatmap, int]:
    """Router probabilities of tokens over experts, the two largest kept, one token a step."""
    view = Heatmap(Axis("token {i}", tokens), Axis("E{i}", experts), low=0.0, high=1.0)
    for t in range(tokens):
        raw = [((t * 37 + e * 101 + t * e * 13) % 97) / 97 for e in range(experts)]
        total = sum(x**3 for x in raw)
        share = [x**3 / total for x in raw]
        best = sorted(share)[-2:]
        for e, p in enumerate(share):
            view.set(t, e, p, "kept" if p in best else "plain", step=t)
    return view, tokens


__all__ = ["Cell", "Stage", "ViewApp", "all_to_all", "gates", "mounted", "one_f_one_b", "overlapped_streams", "picture",
           "ring_all_gather", "shards", "traffic_matrix"]  # fmt: skip
