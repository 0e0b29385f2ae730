"""A view that cannot be drawn costs its own box and nothing else: the explorer and the other panels go on."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from core import simulation as registry
from core.recording import Recorder
from core.scenario import Scenario
from core.simulation import Params, simulation
from core.views import Axis, Gantt, GanttFrame, Heatmap, Span, View
from tui.app import NotesApp
from tui.config import state_folder
from tui.widgets.shelter import Sheltered

App = Callable[..., NotesApp]
LINE = "this view cannot be drawn"


class NoFrames(Gantt):
    """Its frames are never there, not even when its size is asked for."""

    def at(self, step: int) -> GanttFrame:
        raise RuntimeError(f"no frame at {step}")


class OddFrames(Gantt):
    """Says nonsense at odd steps only."""

    def at(self, step: int) -> Any:
        return "nonsense" if step % 2 else super().at(step)


class LameLane(Gantt):
    """Its first lane is drawn before the second one raises."""

    def in_window(self, lane: int, start: float, end: float) -> list[Span]:
        if lane == 1:
            raise LookupError("no such lane")
        return super().in_window(lane, start, end)


class Unknown(View):
    kind = "hologram"


class NoLabels(Axis, frozen=True):
    """Labels are asked for while rows are drawn."""

    def label(self, i: int) -> str:
        raise LookupError("no label")


def _gantt(made: Gantt) -> Gantt:
    for turn in range(8):
        made.span(0, turn, turn + 1, "forward", "F{n}", turn, step=turn)
    return made


def _no_labels() -> Heatmap:
    made = Heatmap(NoLabels(size=2), NoLabels(size=2))
    made.set(0, 0, 1.0, step=0)
    return made


BROKEN: dict[str, Callable[[], View]] = {
    "a frame that raises": lambda: _gantt(NoFrames(Axis("lane {i}", 1))),
    "a row that raises": lambda: _gantt(LameLane(Axis("lane {i}", 2))),
    "an unknown kind": Unknown,
    "labels that raise": _no_labels,
}


def scenario_of(monkeypatch: pytest.MonkeyPatch, make: Callable[[], View]) -> Scenario:
    @simulation("odd")
    def odd(params: Params, rec: Recorder) -> None:
        """Shows a view that cannot be drawn beside one that can."""
        rec.panel("Broken", make())
        sound = rec.panel("Sound", Gantt(Axis("lane {i}", 1)))
        for turn in range(6):
            sound.span(0, turn, turn + 1, "forward", "S{n}", turn)
            rec.step("Turn {turn}", "It is turn {turn}.", turn=turn)

    module = types.ModuleType("odd_of_the_tests")
    module.odd = odd  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "odd_of_the_tests", module)
    monkeypatch.setitem(registry.REGISTRY, "odd", ("training", "odd_of_the_tests:odd"))
    return Scenario("training/odd", "odd", "Odd", "Does it go on?")


def text_of(app: NotesApp) -> str:
    return "\n".join("".join(part.text for part in strip) for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_broken_view_is_one_line_in_its_box_and_the_explorer_goes_on(app: App, monkeypatch, kind, size) -> None:
    explorer = app(scenario=scenario_of(monkeypatch, BROKEN[kind]))
    async with explorer.run_test(size=size) as pilot:
        await explorer.wait_recorded()
        await pilot.pause()
        assert text_of(explorer).count(LINE) == 1
        assert explorer.stage is not None
        painted = explorer.stage.views[0].boxes[0].view._painted
        assert {key[0] for key in painted.values()} == {Sheltered}  # also the rows that were drawn before it failed
        await pilot.press("right", "right")
        await pilot.pause()
        text = text_of(explorer)
        assert text.count(LINE) == 1 and "Turn 2" in text and "S2" in text
        await pilot.press(
            "tab", "up", "down", "left", "right", "enter", "question_mark", "escape", "escape", "c", "x", "escape", "end", "home"
        )
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert "Turn 0" in text_of(explorer)
        assert explorer.is_running
    assert (state_folder() / "notes-tui.log").read_text().count("Traceback") >= 1


async def test_a_view_that_fails_at_some_steps_is_drawn_at_the_others(app: App, monkeypatch) -> None:
    explorer = app(scenario=scenario_of(monkeypatch, lambda: _gantt(OddFrames(Axis("lane {i}", 1)))))
    async with explorer.run_test(size=(120, 40)) as pilot:
        await explorer.wait_recorded()
        for step in range(4):
            await pilot.pause()
            text = text_of(explorer)
            assert (LINE in text) == bool(step % 2) and ("F0" in text) == (not step % 2)
            await pilot.press("right")


async def test_a_value_that_is_none_of_the_kinds_stops_the_run_and_not_the_explorer(app: App, monkeypatch) -> None:
    scenario = scenario_of(monkeypatch, _no_labels)
    declared = registry.load("odd")

    def careless(params: Params, rec: Recorder) -> None:
        rec.step("One", "step")
        rec.fact("pair", [1, 2])  # type: ignore[arg-type]

    monkeypatch.setattr(sys.modules["odd_of_the_tests"], "odd", registry.Simulation("odd", declared.params, careless))
    explorer = app(scenario=scenario)
    async with explorer.run_test(size=(120, 40)) as pilot:
        await explorer.wait_recorded()
        await pilot.pause()
        assert explorer.stage is not None and "pair" in explorer.stage.front.error and "list" in explorer.stage.front.error


async def test_rows_that_were_drawn_before_one_failed_give_way_to_the_line(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = _gantt(LameLane(Axis("lane {i}", 2)))
    monkeypatch.setattr(LameLane, "in_window", Gantt.in_window)
    explorer = app(scenario=scenario_of(monkeypatch, lambda: made))
    async with explorer.run_test(size=(120, 40)) as pilot:
        await explorer.wait_recorded()
        await pilot.pause()
        assert explorer.stage is not None
        view = explorer.stage.views[0].boxes[0].view
        assert view.fault is None and LINE not in text_of(explorer)
        monkeypatch.undo()
        view._windows.clear()  # type: ignore[attr-defined]
        explorer.stage.go(lambda player: player.seek(1))
        await pilot.pause()
        assert {key[0] for key in view._painted.values()} == {Sheltered}
