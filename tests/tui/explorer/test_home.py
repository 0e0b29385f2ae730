"""Home: the list, the question beside it, search, files, and scenario files that are broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of

from tui.app import NotesApp
from tui.screens.home import HomeScreen
from tui.screens.prompt import Prompt

App = Callable[..., NotesApp]
WALK = 'simulation = "walk"\ntitle = "{title}"\nquestion = "{question}"\ntakeaway = "secret"\norder = {order}\n'


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three scenarios in place of the installed ones; the last in the story is a broken file."""
    folder = tmp_path / "scenarios" / "training"
    folder.mkdir(parents=True)
    (folder / "second.toml").write_text(WALK.format(title="Walking back", question="And back?", order=20), encoding="utf-8")
    (folder / "first.toml").write_text(WALK.format(title="Walking forth", question="Who goes first?", order=10), encoding="utf-8")
    (folder / "third.toml").write_text('simulation = "walk"\norder = 30\ntitle = "Lost"\nquestoin = "?"\n', encoding="utf-8")
    monkeypatch.setattr("core.scenario.folders", lambda: [tmp_path / "scenarios"])
    monkeypatch.setattr("tui.screens.home.REGISTRY", {"walk": ("training", "walk_of_the_tests:walk")})
    monkeypatch.setattr("tui.screens.home.families", lambda: {"walk": "training"})
    return folder


def home(app: NotesApp) -> HomeScreen:
    assert isinstance(app.screen, HomeScreen)
    return app.screen


async def test_scenarios_stand_in_the_order_of_their_story_with_the_question_beside(app: App, shelf: Path) -> None:
    made = app(scenario=None)
    async with made.run_test(size=WIDE) as pilot:
        await pilot.pause(0.1)
        text = screen_text(made)
        assert (
            text.index("Training across devices") < text.index("Walking forth") < text.index("Walking back") < text.index("training/third")
        )
        assert "Who goes first?" in text
        assert "secret" not in text, "the takeaway is not told before"
        await pilot.press("down")
        await pilot.pause()
        assert "And back?" in screen_text(made)


async def test_a_broken_file_is_shown_as_such_and_opens_nothing(app: App, shelf: Path) -> None:
    made = app(scenario=None)
    async with made.run_test(size=NARROW) as pilot:
        await pilot.pause(0.1)
        assert "training/third  broken file" in screen_text(made)
        await pilot.press("G", "enter")
        await pilot.pause()
        assert "questoin: unknown key" in home(made).message
        assert "third.toml: questoin: unknown key; did you mean 'question'?" in screen_text(made)


async def test_enter_opens_and_escape_comes_back_to_the_same_row(app: App, shelf: Path) -> None:
    made = app(scenario=None, start_step=None)
    async with made.run_test(size=WIDE) as pilot:
        await pilot.pause(0.1)
        await pilot.press("j", "enter")
        await pilot.pause()
        await made.wait_recorded()
        assert stage_of(made).scenario.name == "training/second"
        await pilot.press("escape")
        await pilot.pause()
        selected = home(made).selected
        assert selected is not None
        assert selected.name == "training/second"


async def test_search_narrows_while_typing(app: App, shelf: Path) -> None:
    made = app(scenario=None)
    async with made.run_test(size=NARROW) as pilot:
        await pilot.pause(0.1)
        await pilot.press("slash", *"goes")
        await pilot.pause()
        text = screen_text(made)
        assert "Walking forth" in text
        assert "Walking back" not in text
        await pilot.press("x")
        await pilot.pause()
        assert "nothing has 'goesx' in it" in screen_text(made)
        await pilot.press("escape")
        await pilot.pause()
        assert "Walking back" in screen_text(made)
        await pilot.press("slash", *"back", "enter")
        await pilot.pause()
        assert stage_of(made).scenario.name == "training/second"


async def test_a_file_is_opened_by_its_path_and_a_wrong_one_is_said(app: App, shelf: Path) -> None:
    Path("own.toml").write_text(WALK.format(title="Mine", question="Mine?", order=1), encoding="utf-8")
    made = app(scenario=None)
    async with made.run_test(size=WIDE) as pilot:
        await pilot.pause(0.1)
        await pilot.press("o", *"none.toml", "enter")
        await pilot.pause()
        assert isinstance(made.screen, Prompt)
        assert "no such file" in made.screen.note.text
        await pilot.press("home", *["delete"] * 9, *"own.toml", "enter")
        await pilot.pause()
        assert stage_of(made).scenario.title == "Mine"


async def test_an_unknown_target_is_said_at_home(app: App) -> None:
    made = app(scenario=None, target="training/pipelin")
    async with made.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "did you mean 'training/pipeline'" in home(made).message


async def test_first_frame_needs_nothing_heavy() -> None:
    """In a process of its own: what the home screen's first frames have imported."""
    script = """
import asyncio, sys
from tui.app import NotesApp
async def main():
    app = NotesApp()
    async with app.run_test(size=(120, 40)) as pilot:
        heavy = {"torch", "numpy", "numba", "plotext", "core.views", "pandas"} & set(sys.modules)
        await pilot.pause(0.5)
        print(sorted(heavy), sorted({"torch", "numpy", "numba", "plotext"} & set(sys.modules)))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[] []", done.stderr[-2000:]
