"""Export: every format, never over a file that is there unless told twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from test_stage_keys import WIDE, stage_of

from tui.app import NotesApp
from tui.screens.export import ExportForm
from tui.screens.saving import FORMATS

App = Callable[..., NotesApp]


@pytest.mark.parametrize(
    ("format", "holds"),
    [
        ("svg", lambda text: "<svg" in text and "Lanes" in text),
        ("text", lambda text: "distance" in text),
        ("json", lambda text: json.loads(text)["variants"]["forth"]["steps"] == 12),
        ("trace", lambda text: len(json.loads(text)["traceEvents"]) >= 12),
        ("csv", lambda text: "Rank 0 walks in round 0" in text),
    ],
)
async def test_each_format_is_written(app: App, format: str, holds: Callable[[str], bool]) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("x")
        await pilot.pause()
        assert isinstance(made.screen, ExportForm)
        await pilot.press(*["right"] * list(FORMATS).index(format), "enter")
        await pilot.pause()
        path = stage_of(made).default_path(format)
        assert stage_of(made).message == f"saved {path}"
        assert holds(path.read_text(encoding="utf-8"))


async def test_a_file_that_is_there_is_kept_until_enter_is_pressed_again(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        path = stage_of(made).default_path("json")
        path.write_text("mine", encoding="utf-8")
        await pilot.press("x", "right", "right", "enter")
        await pilot.pause()
        assert isinstance(made.screen, ExportForm)
        assert "exists" in made.screen.rows[1].error
        assert path.read_text(encoding="utf-8") == "mine"
        await pilot.press("enter")
        await pilot.pause()
        assert made.screen is stage_of(made)
        assert json.loads(path.read_text(encoding="utf-8"))["scenario"] == "training/walk"


async def test_a_place_that_cannot_be_written_is_said_at_the_field(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        Path("file").write_text("", encoding="utf-8")
        await pilot.press("x", "down", *"file/x.svg", "enter")
        await pilot.pause()
        assert isinstance(made.screen, ExportForm)
        assert made.screen.rows[1].error
        await pilot.press("escape")
        assert made.screen is stage_of(made)


async def test_a_folder_is_no_place_for_a_file_and_is_not_offered_to_be_overwritten(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        Path("folder").mkdir()
        await pilot.press("x", "down", *"folder", "enter")
        await pilot.pause()
        assert isinstance(made.screen, ExportForm)
        assert "folder is a folder" in made.screen.rows[1].error and "overwrite" not in made.screen.rows[1].error
