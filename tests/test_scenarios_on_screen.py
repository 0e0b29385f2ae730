"""The built-in scenarios can be walked through on the screen, in any direction and at any size, without a crash.

One scenario of each simulation is walked through at every size, beside a second run. Its others show the same panels: they are
opened and walked through as far as they are recorded within a moment.
"""

from __future__ import annotations

import random
import time

import pytest
from test_scenarios import FILES

from core.scenario import Scenario, read
from tui.app import NotesApp
from tui.config import Config
from tui.screens.stage import StageScreen

KEYS = ["right", "left", "shift+right", "shift+left", "end", "home", *"0123456789", "left_square_bracket", "right_square_bracket"]
PANEL_KEYS = ["tab", "up", "right", "down", "escape"]
SIZES = [(120, 40), (80, 24), (30, 8)]
MOMENT = 0.5
"""Seconds that a scenario gets once its first step is there."""
SCENARIOS = {name: read(path, name) for name, path in FILES.items()}
FIRST = {scenario.simulation: name for name, scenario in reversed(SCENARIOS.items())}.values()


def opened(scenario: Scenario) -> NotesApp:
    return NotesApp(scenario=scenario, start_step=0, config=Config(motion=False))


def stage_of(app: NotesApp) -> StageScreen:
    assert app.stage is not None
    return app.stage


def faults(stage: StageScreen) -> list[Exception]:
    """What the views raised: a person sees one line in a box, here it is an error."""
    return [box.view.first_fault for view in stage.views for box in view.boxes if box.view.first_fault is not None]


@pytest.mark.parametrize("name", [name for name in FILES if name in FIRST])
async def test_it_is_walked_through_at_every_size_and_beside_a_second_run(name):
    draw = random.Random(name)
    app = opened(SCENARIOS[name])
    async with app.run_test(size=SIZES[0]) as pilot:
        await app.wait_recorded()
        stage = stage_of(app)
        assert stage.front.error == ""
        for number, size in enumerate(SIZES):
            if number:
                await pilot.resize_terminal(*size)
            await pilot.press("end", "home", *draw.choices(KEYS, k=2), *PANEL_KEYS)
            assert len(stage.front.recording) > 0
        await pilot.press("c", "d", "end", "home", "c")
        await app.wait_recorded()
        await pilot.press("question_mark", "escape", "space", "space")
        await pilot.pause()
        assert app.is_running and faults(stage) == []


@pytest.mark.parametrize("name", [name for name in FILES if name not in FIRST])
async def test_it_opens_and_is_walked_through(name):
    app = opened(SCENARIOS[name])
    async with app.run_test(size=SIZES[len(name) % 2]) as pilot:
        stage, recording = stage_of(app), stage_of(app).front.recording
        while not stage.front.done and not len(recording):
            await pilot.pause(0.02)
        end = time.monotonic() + MOMENT
        while not stage.front.done and time.monotonic() < end:
            await pilot.pause(0.02)
        await pilot.press("end", "home", *random.Random(name).choices(KEYS, k=3), *PANEL_KEYS)
        await pilot.pause()
        assert stage.front.error == ""
        assert len(recording) > 0
        assert app.is_running and faults(stage) == []
