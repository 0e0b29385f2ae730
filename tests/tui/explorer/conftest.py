"""The walk stands in the registry, and apps see neither the user's settings nor the past."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import pytest
from walking import GATE, Clock, story, walk

from core import simulation as registry
from tui.app import NotesApp
from tui.config import Config


@pytest.fixture(autouse=True)
def private_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("home")
    for name, folder in (("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(name, str(home / folder))
    for name in ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "NOTES_TUI_FPS", "NOTES_TUI_THEME", "NOTES_TUI_MOTION", "TEXTUAL_ANIMATIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.chdir(home)
    module = types.ModuleType("walk_of_the_tests")
    module.walk = walk  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "walk_of_the_tests", module)
    monkeypatch.setitem(registry.REGISTRY, "walk", ("training", "walk_of_the_tests:walk"))
    GATE.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app(clock: Clock) -> Callable[..., NotesApp]:
    """Makes an app on the walk (or on what is given), at the first step and with plain settings."""

    def make(**options: object) -> NotesApp:
        options.setdefault("scenario", story())
        options.setdefault("start_step", 0)
        options.setdefault("config", Config())
        return NotesApp(clock=clock, **options)  # type: ignore[arg-type]

    return make
