"""Keys that move the playhead are recognised in what a terminal sends, and go elsewhere where something else wants them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tui.app import NotesApp
from tui.keys import effective
from tui.quick_keys import MOVES, QuickKeys, cut_short

App = Callable[..., NotesApp]
RIGHT, LEFT = "\x1b[C", "\x1b[D"


def actions(received: str, **keymap: str) -> list[str]:
    return [key.action for key in QuickKeys(effective(keymap)).read(received)]


@pytest.mark.parametrize(
    ("sent", "action"),
    [
        (RIGHT, "forward"), ("\x1bOC", "forward"), ("l", "forward"), (LEFT, "back"), (",", "back"), ("\x1b[1;2C", "forward_far"),
        ("[", "previous_phase"), ("\x1b[H", "start"), ("g", "start"), ("G", "end"), ("7", "tenth(7)"),
    ],
)  # fmt: skip
def test_what_terminals_send_for_the_keys_of_the_registry(sent: str, action: str) -> None:
    assert actions(sent) == [action]


def test_every_key_of_these_actions_is_known() -> None:
    keys = effective({})
    known = {(key.key, key.action) for key in QuickKeys(keys)._known.values()}
    assert {key for key, _ in known} == {key for action in MOVES for key in keys[action]}


def test_a_key_held_down_sends_several_at_once() -> None:
    assert actions(RIGHT + RIGHT + LEFT) == ["forward", "forward", "back"]


@pytest.mark.parametrize("sent", ["", "p", RIGHT + "p", "\x1b", "\x1b[", "\x1b[<0;3;4M", "\x1b[200~1\x1b[201~", "ll?"])
def test_anything_else_in_it_goes_the_usual_way(sent: str) -> None:
    assert actions(sent) == []


def test_the_users_keymap_decides() -> None:
    assert actions("w", forward="w") == ["forward"]
    assert actions(RIGHT, forward="w") == []
    assert actions("5", bookmark="5") == []


@pytest.mark.parametrize("received", ["\x1b", "ab\x1b[1;", "\x1bO", RIGHT, "a", ""])
def test_a_sequence_cut_in_two_is_noticed(received: str) -> None:
    assert cut_short(received) is (received not in (RIGHT, "a", ""))


async def test_they_move_the_playhead_and_a_focused_panel_or_a_dialog_has_them_first(app: App) -> None:
    made = app()
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        stage = made.stage
        assert stage is not None and made.quick_keys is not None
        made.quick(made.quick_keys.read(RIGHT + RIGHT))
        assert stage.player.step == 2, "at once"
        await pilot.press("tab", "down")
        assert stage.focused is not None
        made.quick(made.quick_keys.read(RIGHT))
        assert stage.player.step == 2
        await pilot.pause()
        looked_at = stage.focused_box()
        assert looked_at is not None and stage.player.step == 2, "the panel's cursor moved instead"
        await pilot.press("escape", "p")
        await pilot.pause()
        made.quick(made.quick_keys.read("9"))
        await pilot.pause()
        assert stage.player.step == 2
        assert made.screen is not stage


async def test_at_home_there_are_none(app: App) -> None:
    made = NotesApp()
    async with made.run_test(size=(120, 40)):
        assert made.quick_keys is None
