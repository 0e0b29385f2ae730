"""The step that each of the rarer order types turns on, as pictures of the real scenarios."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_pictures import both_sizes, pressing

from core.scenario import find
from tui.app import NotesApp

App = Callable[..., NotesApp]
Compare = Callable[..., bool]

MOMENTS = {
    "iceberg": ("iceberg", "back of the queue"),
    "stops": ("stops", "stop 12 is triggered"),
    "self_trade": ("oldest", "order 3 is cancelled"),
    "auction": ("default", "order 7 is collected"),
}


@both_sizes
@pytest.mark.parametrize("name", MOMENTS)
def test_moment_of_a_rare_order(app: App, snap_compare: Compare, name: str, size: tuple[int, int]) -> None:
    variant, words = MOMENTS[name]
    shown = app(scenario=find(f"markets/order_book_{name}"), variant=variant)
    found = ("slash", *(("space" if letter == " " else letter) for letter in words), "enter")
    assert snap_compare(shown, terminal_size=size, run_before=pressing(*found))
