"""The step that makes each idea click, as a picture of the real scenario. One of them opens the README."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_pictures import pressing
from test_stage_keys import NARROW, WIDE

from core.scenario import find
from tui.app import NotesApp

App = Callable[..., NotesApp]
Compare = Callable[..., bool]

MOMENTS: dict[str, tuple[str, str, str]] = {
    "pipeline": ("training/pipeline", "1f1b", "rank 0 runs backward of microbatch 0"),
    "zero": ("training/zero", "stage2", "rank 0 keeps"),
    "dispatch": ("moe/dispatch", "default", "contiguous"),
    "order_book": ("markets/order_book", "default", "the mid jumps"),
}


def at(app: App, system: str) -> tuple[NotesApp, Callable[..., object]]:
    name, variant, words = MOMENTS[system]
    found = ("slash", *(("space" if letter == " " else letter) for letter in words), "enter", "left", "right")
    return app(scenario=find(name), variant=variant), pressing(*found)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])
@pytest.mark.parametrize("system", list(MOMENTS)[1:])
def test_moment(app: App, snap_compare: Compare, system: str, size: tuple[int, int]) -> None:
    shown, keys = at(app, system)
    assert snap_compare(shown, terminal_size=size, run_before=keys)


def test_moment_of_the_pipeline(app: App, snap_compare: Compare) -> None:
    shown, keys = at(app, "pipeline")
    assert snap_compare(shown, terminal_size=WIDE, run_before=keys)
