"""Every built-in scenario can be walked through on the screen, in any direction and at any size, without a crash."""

from __future__ import annotations

import random

import pytest
from test_scenarios import FILES

from core.scenario import read
from tui.app import NotesApp
from tui.config import Config

KEYS = ["right", "left", "shift+right", "shift+left", "end", "home", *"0123456789", "left_square_bracket", "right_square_bracket"]
PANEL_KEYS = ["tab", "up", "right", "down", "escape"]
SIZES = [(120, 40), (80, 24), (30, 8)]


def sizes(name: str) -> list[tuple[int, int]]:
    """All sizes for the first scenario of a simulation; its others show the same panels, so one size will do."""
    simulation = read(FILES[name], name).simulation
    first = next(other for other in FILES if read(FILES[other], other).simulation == simulation)
    return SIZES if name == first else SIZES[:1]


@pytest.mark.parametrize("name", FILES)
async def test_it_is_walked_through_at_every_size(name):
    scenario = read(FILES[name], name)
    draw = random.Random(name)
    app = NotesApp(scenario=scenario, start_step=0, config=Config(motion=False))
    async with app.run_test(size=SIZES[0]) as pilot:
        await app.wait_recorded()
        assert app.stage is not None
        assert app.stage.front.error == ""
        for number, size in enumerate(sizes(name)):
            if number:
                await pilot.resize_terminal(*size)
            await pilot.press("end", "home", *draw.choices(KEYS, k=3), *PANEL_KEYS)
            assert len(app.stage.front.recording) > 0
        await pilot.press("c", "d", "end", "home", "c")
        await app.wait_recorded()
        await pilot.press("question_mark", "escape", "space", "space")
        await pilot.pause()
        assert app.is_running
