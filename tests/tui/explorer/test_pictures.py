"""Every screen as a picture, at 80x24 and 120x40. The player is paused, the clock stands, workers are awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from test_home import WALK
from test_stage_keys import NARROW, WIDE
from textual.pilot import Pilot
from walking import story

from tui.app import NotesApp
from tui.screens.form import Form

App = Callable[..., NotesApp]
Compare = Callable[..., bool]
both_sizes = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])


def pressing(*keys: str) -> Callable[[Pilot[None]], Awaitable[None]]:
    """Wait until everything is recorded, then press ``keys``; "…" waits again, "form" for a form to come."""

    async def before(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, NotesApp)
        await app.wait_recorded()
        await pilot.pause(0.1)
        for key in keys:
            if key == "…":
                await app.wait_recorded()
            elif key == "form":
                while not isinstance(app.screen, Form):
                    await pilot.pause(0.02)
                await pilot.pause()
            else:
                await pilot.press(key)
        await pilot.pause()

    return before


STAGES: dict[str, tuple[str, ...]] = {
    "opening": (),
    "step": ("5", "m", "right"),
    "end": ("end",),
    "numbers": ("5", "t"),
    "focused_panel": ("5", "tab", "up"),
    "side_by_side": ("d", "…"),
    "find": ("slash", *"rank:1"),
    "found": ("slash", *"round 2", "enter"),
    "until": ("u", *"distance > 99k", "enter"),
    "bookmarks": ("m", "5", "m", "apostrophe"),
    "help": ("question_mark",),
    "export": ("x", "form", "right"),
    "parameters": ("p", "form", "9", "9"),
    "fork": ("3", "F", "form", "4", "enter", "…"),
}


@pytest.fixture(autouse=True)
def settings_at_a_fixed_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help names the file, and its length must not turn lines."""
    monkeypatch.setattr("tui.screens.help.config_file", lambda: Path("/home/somebody/.config/notes-tui/config.toml"))


@both_sizes
@pytest.mark.parametrize("name", STAGES)
def test_stage(app: App, snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    assert snap_compare(app(), terminal_size=size, run_before=pressing(*STAGES[name]))


@both_sizes
def test_stage_whose_simulation_failed(app: App, snap_compare: Compare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.config.state_folder", lambda: Path("state"))
    failing = story(variants={"forth": {"fail": True}}, expect={})
    assert snap_compare(app(scenario=failing), terminal_size=size, run_before=pressing("right"))


@both_sizes
@pytest.mark.parametrize("keys", [(), ("G",), ("slash", *"back")], ids=["list", "broken", "search"])
def test_home(app: App, snap_compare: Compare, shelf: Path, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    assert snap_compare(app(scenario=None), terminal_size=size, run_before=pressing(*keys))


def test_too_small(app: App, snap_compare: Compare) -> None:
    assert snap_compare(app(), terminal_size=(59, 19), run_before=pressing())


def test_light_theme(app: App, snap_compare: Compare) -> None:
    from tui.config import Config

    assert snap_compare(app(config=Config(theme="light")), terminal_size=WIDE, run_before=pressing("5"))


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "training"
    folder.mkdir()
    (folder / "first.toml").write_text(WALK.format(title="Walking forth", question="Who goes first?", order=10), encoding="utf-8")
    (folder / "second.toml").write_text(WALK.format(title="Walking back", question="And back?", order=20), encoding="utf-8")
    (folder / "third.toml").write_text('simulation = "walk"\norder = 30\nquestoin = "?"\n', encoding="utf-8")
    monkeypatch.setattr("core.scenario.folders", lambda: [tmp_path])
    monkeypatch.setattr("tui.screens.home.REGISTRY", {"walk": ("training", "walk_of_the_tests:walk")})
    monkeypatch.setattr("tui.screens.home.families", lambda: {"walk": "training"})
    return folder
