"""Keys that move the playhead are recognised in what a terminal sends, and go elsewhere where something else wants them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic
from types import SimpleNamespace

import pytest

from tui.app import NotesApp
from tui.driver import TerminalDriver
from tui.keys import effective
from tui.quick_keys import MOVES, QuickKeys, Received
from tui.right_of_way import RightOfWay

App = Callable[..., NotesApp]
RIGHT, LEFT = "\x1b[C", "\x1b[D"


def unfinished(*reads: str) -> bool:
    received = Received()
    for read in reads:
        received.add(read)
    return received.unfinished


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


def test_of_two_actions_that_the_user_gave_one_key_the_first_has_it() -> None:
    assert actions("j", back="j", forward="j") == ["back"]
    assert actions("j", play="j", start="j") == []


def test_a_key_that_always_quits_and_one_that_begins_sequences_are_none_of_them() -> None:
    assert actions("\x11", forward="ctrl+q") == []
    assert actions("\x1b", forward="escape") == []


@pytest.mark.parametrize("received", ["\x1b", "ab\x1b[1;", "\x1bO", RIGHT, "a", ""])
def test_a_sequence_cut_in_two_is_noticed(received: str) -> None:
    assert unfinished(received) is (received not in (RIGHT, "a", ""))


@pytest.mark.parametrize(
    "reads", [["\x1b", "[", "1", ";2", "C"], ["\x1b[", "2", "00~"], ["\x1b[200~1", "23", "45"], ["\x1b[20", "0~", "7"]]
)
def test_what_is_cut_into_many_reads_stays_one(reads: list[str]) -> None:
    for end in range(1, len(reads)):
        assert unfinished(*reads[:end])


@pytest.mark.parametrize(
    "reads", [["\x1b", "[", "1", ";2", "C"], ["\x1b[200~1", "2", "\x1b[201~"], ["\x1b[200~1\x1b[20", "1~"], ["\x1b", "h"]]
)
def test_it_ends_with_its_last_read(reads: list[str]) -> None:
    assert not unfinished(*reads)


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


def test_a_recording_that_goes_on_does_not_make_a_key_answered() -> None:
    """It waits for a key once; what is typed next must still not overtake the key."""
    way = RightOfWay()
    assert way.free
    way.take()
    way.wait()
    assert not way.free
    started = monotonic()
    way.wait()
    assert monotonic() - started < way.LONGEST
    way.give_back()
    assert way.free


def test_escape_which_is_known_only_after_a_while_waits_its_turn_like_any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    ended = threading.Event()
    driver = TerminalDriver.__new__(TerminalDriver)
    driver.fileno, driver.exit_event, driver._debug, driver._app = reading, ended, False, SimpleNamespace(quick_keys=None)  # type: ignore
    happened: list[str] = []
    monkeypatch.setattr(driver, "_one_key_at_a_time", lambda: happened.append("turn"))
    monkeypatch.setattr(driver, "process_message", lambda event: (happened.append(event.key), ended.set()))
    os.write(writing, b"\x1b")
    threading.Timer(5.0, ended.set).start()
    driver.run_input_thread()
    os.close(reading)
    os.close(writing)
    assert happened == ["turn", "escape"]
