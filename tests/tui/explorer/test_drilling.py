"""Enter opens a collective hop by hop with its own tensors; Esc comes back to the very place."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of
from textual.pilot import Pilot

from core import simulation as registry
from core.recording import Recorder, Recording
from core.scenario import Scenario, find
from core.simulation import Params, simulation
from core.views import Axis, Gantt
from tui.app import NotesApp
from tui.config import Position, remembered
from tui.screens.help import Help
from tui.screens.hops import HopStage
from tui.screens.stage import StageScreen
from tui.widgets.gantt import GanttWidget

App = Callable[..., NotesApp]
BUILT: list[str] = []


class SumsParams(Params):
    pass


@simulation("sums")
def sums(params: SumsParams, rec: Recorder) -> None:
    """Three ranks sum what they hold, by a ring."""
    import torch

    from core.fabric import SimulatedFabric
    from core.hardware import LINKS

    fabric = SimulatedFabric(3, LINKS["nvlink_a100"])
    fabric.draw(rec.panel("Streams", fabric.lanes()))
    held = {rank: torch.arange(6.0) + 10 * rank for rank in range(3)}
    for rank in range(3):
        fabric.compute(rank, 2e-5, "forward")
    rec.step("Each rank has computed", "Six numbers each.", time=0.0)
    fabric.all_reduce(held, "sum", out=held, n=1).wait()
    rec.step("The sum is everywhere", "They are {first} first.", time=2e-5, first=held[0][0].item())
    for tensor in held.values():
        tensor.zero_()
    rec.step("The numbers are gone", "Each rank forgot its numbers.", time=4e-5)


@simulation("nest")
def nest(params: SumsParams, rec: Recorder) -> None:
    """A span that opens a recording whose span opens another; the third span fails to open."""

    def inside(depth: int) -> Recording:
        BUILT.append(threading.current_thread().name)
        own = Recorder(Recording(f"depth {depth}"))
        lane = own.panel("Inside", Gantt(Axis("lane {i}", 1)))
        lane.span(0, 0, 1, "comm", f"D{depth}", child=(lambda: inside(depth + 1)) if depth < 2 else None)
        own.step("At depth {depth}", depth=depth, time=0.0)
        own.recording.state = "finished"
        return own.recording

    def broken() -> Recording:
        raise RuntimeError("nothing was kept")

    lanes = rec.panel("Outside", Gantt(Axis("lane {i}", 2)))
    lanes.span(0, 0, 1, "comm", "D0", child=lambda: inside(1))
    rec.step("At the surface", "", time=0.0)
    lanes.span(0, 1, 2, "comm", "E0", child=broken)
    lanes.span(1, 1, 2, "forward", "F0")
    rec.step("Beyond it", "", time=1.0)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("hops_of_the_tests")
    for name, made in (("sums", sums), ("nest", nest)):
        setattr(module, name, made)
        monkeypatch.setitem(registry.REGISTRY, name, ("training", f"hops_of_the_tests:{name}"))
    monkeypatch.setitem(sys.modules, "hops_of_the_tests", module)
    BUILT.clear()


async def opened(app: NotesApp, pilot: Pilot[Any], key: str = "enter") -> HopStage:
    """Press ``key`` and wait for another collective's stage: its recording is made in a thread."""
    before = app.screen
    await pilot.press(key)
    for _ in range(250):
        if isinstance(app.screen, HopStage) and app.screen is not before:
            await app.wait_recorded()
            await pilot.pause()
            return app.screen
        await pilot.pause(0.02)
    raise AssertionError(f"nothing opened: {stage_of(app).message}")


def gantt_of(stage: StageScreen) -> GanttWidget:
    return next(box.view for box in stage.views[0].boxes if isinstance(box.view, GanttWidget))


async def focus_gantt(stage: StageScreen, pilot: Pilot[Any]) -> GanttWidget:
    for _ in range(8):
        await pilot.press("tab")
        if stage.focused_kind()[0] == "gantt":
            return gantt_of(stage)
    raise AssertionError("no schedule can be focused")


@pytest.mark.parametrize(
    ("name", "op", "hops"),
    [("training/ddp", "all_reduce", 9), ("training/zero", "all_reduce", 9), ("training/tensor_parallel", "all_reduce", 9)],
)
async def test_a_collective_of_a_scenario_opens_with_its_tensors_and_escape_returns(app: App, name: str, op: str, hops: int) -> None:
    made = app(scenario=find(name))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        gantt = gantt_of(stage).view
        index = min(gantt.children)
        step = gantt.get(index).step
        stage.go(lambda player: player.seek(step))
        hop_stage = await opened(made, pilot)
        child = hop_stage.front.recording
        assert child is gantt.child(index)
        assert (child.params["op"], len(child), child.state) == (op, hops, "finished")
        assert [check.name for check in child.checks if not check.ok] == []
        first = next(panel.view for panel in child.panels if panel.title.startswith("First value"))
        sums = [sum(first.at(0).cells[rank, chunk].value for rank in range(4)) for chunk in range(4)]
        ends = first.at(hops - 1).cells
        divided = child.fact("divided_by") if "divided_by" in child.facts else 1
        for chunk in range(4):
            assert len({ends[rank, chunk].value for rank in range(4)}) == 1, "every rank ends with the same"
            assert ends[0, chunk].value == pytest.approx(sums[chunk] / divided, rel=2e-2, abs=1e-4)
        assert f"Step 1 of {hops}" in screen_text(made)
        assert f"› {gantt.get(index).text} of rank 0" in hop_stage.header.text
        await pilot.press("right", "end")
        assert hop_stage.player.step == hops - 1
        await pilot.press("escape")
        await pilot.pause()
        assert made.screen is stage
        assert (stage.player.step, made.focused) == (step, None)
        assert f" {step + 1}/{len(stage.front.recording)} " in screen_text(made)


async def test_the_cursor_chooses_the_collective_and_is_still_there_afterwards(app: App) -> None:
    made = app(scenario=Scenario("training/sums", "sums"))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        widget = await focus_gantt(stage, pilot)
        await pilot.press("enter")
        assert stage.message == "this is no collective: it does not open"
        await pilot.press("down", "right")
        assert widget.opens
        assert "communication" in stage.footer.text
        assert "Enter opens it hop by hop" in stage.footer.text
        cursor = widget.cursor
        hop_stage = await opened(made, pilot)
        assert hop_stage.scenario.title == "AR1 of rank 0"
        view = next(panel.view for panel in hop_stage.front.recording.panels if panel.title.startswith("First value"))
        assert view.at(0).cells[2, 1].value == 22.0, "as they were when it was issued"
        await pilot.press("tab", "escape")
        assert made.screen is hop_stage, "a focused panel is left first"
        await pilot.press("escape")
        await pilot.pause()
        assert made.screen is stage
        assert (made.focused, widget.cursor, stage.player.step) == (widget, cursor, 0)
        assert "Enter opens it hop by hop" in stage.footer.text
        await pilot.press("up")
        assert "opens it" not in stage.footer.text


async def test_without_a_cursor_the_collective_of_this_step_opens_or_the_way_there_is_said(app: App) -> None:
    made = app(scenario=Scenario("training/sums", "sums"))
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        assert "Enter open" in stage_of(made).footer.text
        await pilot.press("enter")
        assert stage_of(made).message == "this step has no collective that opens; Tab to the schedule and choose one"
        await pilot.press("right", "space")
        hop_stage = await opened(made, pilot)
        assert not hop_stage.opener.player.playing, "nobody watches it now"
        await pilot.press("escape")
        assert stage_of(made).player.step == 1


async def test_where_nothing_opens_the_key_says_so_and_the_footer_does_not_offer_it(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        assert "Enter" not in stage_of(made).footer.text
        await pilot.press("enter")
        assert stage_of(made).message == "nothing in this schedule opens hop by hop"


async def test_an_opened_collective_has_no_second_run_and_says_so(app: App) -> None:
    made = app(scenario=Scenario("training/sums", "sums"))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("right")
        hop_stage = await opened(made, pilot)
        assert hop_stage.footer.text.startswith(" Esc back")
        assert "one run: no compare, no fork" in hop_stage.footer.text
        assert "params" not in hop_stage.footer.text
        assert "▾" not in hop_stage.header.text
        for key in ("p", "F", "v", "c", "d"):
            await pilot.press(key)
            assert "no parameters, variants or second run" in hop_stage.message
            assert made.screen is hop_stage
        assert len(hop_stage.runs.all) == 1
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(made.screen, Help)
        text = made.screen.text().plain
        assert "no variants and no second run" in text
        assert "side by side" not in text
        assert "Save as SVG" in text
        await pilot.press("escape", "slash", *"round", "enter", "escape", "x")
        await pilot.pause()
        assert type(made.screen).__name__ in ("ExportForm", "Prompt"), "find and export work as on any stage"


async def test_collectives_open_inside_collectives_and_close_one_by_one(app: App) -> None:
    made = app(scenario=Scenario("training/nest", "nest", "Nested"))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        outer = stage_of(made)
        first = await opened(made, pilot)
        second = await opened(made, pilot)
        assert second.opener is first
        assert "Nested › D0 of lane 0 › D1 of lane 0" in second.header.text
        assert "At depth 2" in screen_text(made)
        assert all(name != "MainThread" for name in BUILT), "recordings are made beside the event loop"
        await pilot.resize_terminal(*NARROW)
        await pilot.pause()
        assert "… › D0 of lane 0 › D1 of lane 0" in second.header.text or "Nested › D0" in second.header.text
        await pilot.press("escape")
        await pilot.pause()
        assert (made.screen, first.footer.size.width) == (first, NARROW[0])
        await pilot.press("escape")
        await pilot.pause()
        assert made.screen is outer
        assert "At the surface" in screen_text(made)
        assert len(BUILT) == 2, "each is made once"


async def test_a_collective_that_cannot_be_replayed_is_one_line(app: App) -> None:
    made = app(scenario=Scenario("training/nest", "nest"))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("right", "enter")
        await pilot.pause(0.2)
        assert stage_of(made).message == "E0 of lane 0 does not open: nothing was kept"


async def test_quitting_inside_a_collective_remembers_the_scenario_not_the_hop(app: App) -> None:
    made = app(scenario=Scenario("training/sums", "sums"), start_step=None)
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("right")
        await opened(made, pilot)
        await pilot.press("end", "q")
    assert remembered("training/sums") == Position(1, "default", ())
    assert remembered("training/sums/AR1 of rank 0") == Position()


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])
@pytest.mark.parametrize("keys", [(), ("right", "right", "tab")], ids=["opening", "focused"])
def test_pictures_of_an_opened_collective(
    app: App, snap_compare: Callable[..., bool], keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    made = app(scenario=Scenario("training/sums", "sums", "Three ranks sum"))

    async def before(pilot: Pilot[None]) -> None:
        await made.wait_recorded()
        await pilot.press("right")
        await opened(made, pilot)
        await pilot.press(*keys)
        await pilot.pause()

    assert snap_compare(made, terminal_size=size, run_before=before)
