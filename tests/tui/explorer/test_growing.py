"""A recording that gets panels, points and its end while one step stays on the screen."""

from __future__ import annotations

import asyncio
import sys
import threading
import types
from collections.abc import Callable

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of

from core import simulation as registry
from core.recording import Recorder
from core.scenario import Scenario
from core.simulation import Params, simulation
from core.views import Axis, Column, Gantt, Plot, Table
from tui.app import NotesApp
from tui.screens.run_view import PanelBox, RunView
from tui.widgets.plot import PlotWidget

App = Callable[..., NotesApp]
GATES = {1: threading.Event(), 2: threading.Event(), 20: threading.Event()}
"""Before these steps the recording rests until its gate is opened."""
LATE = Scenario("training/late", "late")


class LateParams(Params):
    prepare: bool = False


@simulation("late")
def late(params: LateParams, rec: Recorder) -> None:
    """Two panels at first; two more behind the first gate, most points of the curve behind the others."""
    while params.prepare and not GATES[1].wait(0.01):
        rec.progress(0.0, "compiling the engine, once")
    lanes = rec.panel("Lanes", Gantt(Axis("rank {i}", 2)))
    plot = rec.panel("Loss", Plot("step", "loss"))
    curve = plot.curve("loss", "forward")
    for step in range(40):
        while step in GATES and not GATES[step].wait(0.01):
            rec.progress(0.1, "resting")
        if step == 1:
            rec.panel("Beside", Table([Column("a")]), beside=True)
            rec.panel("Below", Table([Column("b")]))
        lanes.span(0, step, step + 1, "forward", "F{n}", step)
        plot.point(curve, step, 40.0 - step)
        rec.step("Step {n}", n=step, time=float(step))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for gate in GATES.values():
        gate.clear()
    module = types.ModuleType("late_of_the_tests")
    module.late = late  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "late_of_the_tests", module)
    monkeypatch.setitem(registry.REGISTRY, "late", ("training", "late_of_the_tests:late"))


async def begun(app: NotesApp) -> RunView:
    """The view once the first step is on the screen."""
    for _ in range(250):
        await asyncio.sleep(0.01)
        if app.stage is not None and app.stage.views and len(app.stage.views[0].boxes) == 2:
            return app.stage.views[0]
    raise AssertionError("the first panels never came")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_panels_added_later_join_those_that_stand_whoever_asks_for_them(app: App, size: tuple[int, int]) -> None:
    made = app(scenario=LATE)
    async with made.run_test(size=size) as pilot:
        view = await begun(made)
        first = list(view.boxes)
        await pilot.press("tab", "right")
        focused = made.focused
        assert focused is first[0].view
        for gate in GATES.values():
            gate.set()
        while not view.run.done:
            await asyncio.sleep(0.005)
        await asyncio.gather(view.build(), made.wait_recorded(), view.build(), made.wait_recorded())
        await pilot.pause()
        assert [box.panel.title for box in view.boxes] == ["Lanes", "Loss", "Beside", "Below"]
        assert [[box.panel.title for box in row.boxes] for row in view.rows] == [["Lanes"], ["Loss", "Beside"], ["Below"]]
        assert list(view.query(PanelBox)) == view.boxes, "each is mounted once, in its place"
        assert view.boxes[:2] == first, "those that stood still stand"
        assert made.focused is focused
        assert list(view.panels.children)[-1].has_class("end")


async def test_what_a_recording_got_since_is_shown_though_the_step_stays(app: App) -> None:
    made = app(scenario=LATE)
    async with made.run_test(size=WIDE) as pilot:
        view = await begun(made)
        plot = next(box.view for box in view.boxes if isinstance(box.view, PlotWidget))
        GATES[1].set()
        await until(lambda: len(view.boxes) == 4 and drawn(plot) == 2)
        await pilot.pause(PlotWidget.redraw_after + 0.1)  # no redrawing is still to come
        before = screen_text(made)
        GATES[2].set()
        await until(lambda: drawn(plot) == 20)
        assert screen_text(made) != before
        GATES[20].set()
        await made.wait_recorded()
        await until(lambda: drawn(plot) == 40)
        assert stage_of(made).player.step == 0


async def test_what_a_run_does_before_its_first_step_is_told(app: App) -> None:
    made = app(scenario=Scenario("training/late", "late", params={"prepare": True}))
    async with made.run_test(size=WIDE) as pilot:
        await until(lambda: "Compiling the engine, once" in screen_text(made))
        for gate in GATES.values():
            gate.set()
        await made.wait_recorded()
        await pilot.pause()
        assert "ompiling the engine" not in screen_text(made)
        assert "Step 0" in screen_text(made)


def drawn(plot: PlotWidget) -> int:
    """How many points of its curve the picture has."""
    return plot._drawn[1][0] if plot._drawn is not None else 0


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        await asyncio.sleep(0.02)
        if holds():
            return
    raise AssertionError("it never came to hold")
