"""Find and run-until on market data: a clock time, an order, a trade of a size; matches one by one and takers whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of
from textual.pilot import Pilot
from walking import Clock

from core.recording import Recorder, Recording, Word
from core.scenario import find
from tui.app import NotesApp
from tui.player import STEPS_PER_SECOND
from tui.screens.prompt import Prompt

App = Callable[..., NotesApp]
both_sizes = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "120x40"])
HEAD = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
START = 1_583_020_803_145_000
"""2020-03-01 00:00:03.145 UTC in microseconds."""


def trades(path: Path) -> Path:
    """Forty trades fifteen seconds apart, from 00:00:03.145 on; every seventh is of 50, each tenth comes with a second one."""
    rows = []
    for k in range(40):
        stamp = START + 15_000_000 * k
        side, amount = "buy" if k % 2 else "sell", 50 if k % 7 == 6 else 3
        rows += [f"x,X,{stamp},{stamp},{10 * k + part},{side},{100 + part},{amount}" for part in range(2 if k % 10 == 9 else 1)]
    path.write_text("\n".join([HEAD, *rows, ""]))
    return path


async def asked(pilot: Pilot[None], key: str, text: str) -> None:
    await pilot.press(key, *("space" if letter == " " else letter for letter in text), "enter")
    await pilot.pause()


@both_sizes
async def test_clock_times_are_shown_and_found(app: App, tmp_path: Path, size: tuple[int, int]) -> None:
    made = app(scenario=find(str(trades(tmp_path / "t.csv"))))
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        stage = stage_of(made)
        assert "00:00:03.145 UTC" in screen_text(made).splitlines()[-2], "the scrubber tells the time of day"
        assert any("00:00:03.145 UTC" in line for line in screen_text(made).splitlines()[:-2]), "and so does the step's title"
        await asked(pilot, "slash", "0:05")
        times = stage.player.recording.times
        wanted = next(step for step, time in enumerate(times) if time >= 300)
        assert (stage.player.step, stage.message) == (wanted, "match 1 of 1 for '0:05'")
        assert "00:05:03.145 UTC" in screen_text(made)
        await asked(pilot, "U", "@0:01:10.5")
        assert stage.player.step == next(step for step, time in enumerate(times) if time >= 70.5)
        await pilot.press("m", "apostrophe")
        await pilot.pause()
        assert "00:01:18.145 UTC  A " in screen_text(made), "bookmarks tell their time"
        await pilot.press("escape", "y")
        assert made.clipboard.startswith("00:01:18.145 UTC\n"), "and so does the step when it is copied"
        await asked(pilot, "u", "00:09:00")
        assert stage.player.step == next(step for step, time in enumerate(times) if time >= 540)
        await asked(pilot, "u", "00:11")
        assert isinstance(made.screen, Prompt)
        assert made.screen.note.text.strip() == "until '00:11': no step at or after 00:11:00; allowed: 00:00:03 to 00:09:48 UTC"


async def test_trades_of_a_size_are_found_in_both_directions(app: App, tmp_path: Path) -> None:
    made = app(scenario=find(str(trades(tmp_path / "t.csv"))))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        values = [stage.player.recording.values(step) for step in range(len(stage.player.recording))]
        large = [step for step, held in enumerate(values) if held["quantity"] >= 50]
        assert len(large) > 4
        await asked(pilot, "u", "trade >= 50")
        assert stage.player.step == large[0]
        await asked(pilot, "u", "trade >= 50")
        assert stage.player.step == large[1]
        await asked(pilot, "U", "trade >= 50")
        assert stage.player.step == large[0]
        await asked(pilot, "slash", "trade >= 50")
        await pilot.press("n", "n", "N")
        assert (stage.player.step, stage.message) == (large[1], f"match 2 of {len(large)} for 'trade >= 50'")


@both_sizes
async def test_orders_of_a_seeded_flow_are_found_and_the_prompts_say_how(app: App, size: tuple[int, int]) -> None:
    made = app(scenario=find("order_book"))
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        recording = stage.player.recording
        values = [recording.values(step) for step in range(len(recording))]
        mine = [n for n, held in enumerate(values) if 12 in (held["order"], held.get("maker"), held.get("taker"))]
        await asked(pilot, "slash", "#12")
        assert (stage.player.step, stage.message) == (mine[0], f"match 1 of {len(mine)} for '#12'")
        await pilot.press("n")
        assert stage.player.step == mine[1]
        await pilot.press("home")
        await asked(pilot, "u", "order 12")
        assert stage.player.step == mine[0]
        await pilot.press("slash")
        await pilot.pause()
        hint = made.screen.hint  # type: ignore[attr-defined]
        number = next(str(values[mine[0]][tag]) for tag in ("order", "maker", "taker") if tag in values[mine[0]])
        assert f"order {number}" in hint and "trade >= " in hint and len(hint) < size[0] - 2
        await pilot.press("escape")
        await asked(pilot, "slash", "#99999")
        assert isinstance(made.screen, Prompt)
        assert "find '#99999': no step with it; allowed: a number as" in made.screen.note.text


async def test_steps_are_matches_and_playing_shows_whole_takers(app: App, clock: Clock) -> None:
    made = app(scenario=find("order_book"))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        player, recording = stage.player, stage.player.recording
        actions = [recording.values(step)["action"] for step in range(len(recording))]
        first = next(n for n in range(1, len(actions)) if actions[n - 1] == actions[n] == "trade")
        player.seek(first - 3)
        await pilot.press("right", "right")
        assert player.step == first - 1, "the first match is a step of its own"
        ladder = recording.panels[0].view
        before, within, after = (ladder.at(step) for step in (first - 2, first - 1, first))
        assert before != within != after != before, "with its own book"
        player.seek(0)
        await pilot.press("space")
        seen = []
        while player.playing:
            clock.now += 1 / STEPS_PER_SECOND
            seen.append(player.tick())
        taken = [recording.values(step).get("taker", recording.values(step)["order"]) for step in range(len(recording))]
        for step in seen:
            more = step + 1 < len(actions) and actions[step + 1] == "trade"
            assert not (more and taken[step + 1] == taken[step]), f"step {step + 1} is in the middle of a taker"
        assert len(seen) < len(recording) and seen[-1] == len(recording) - 1


async def test_a_time_that_is_not_recorded_yet_is_waited_for(app: App) -> None:
    rec = Recorder(Recording("hand"))
    rec.recording.clock, rec.recording.words = "UTC", {"order": Word(("order",), identity=True)}
    rec.step("Order {order}", time=36_000.0, order=1)
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        run = stage.front
        run.recording = run.player.recording = rec.recording
        run.done = False
        for view in stage.views:
            view.forget_shown()
        await asked(pilot, "u", "10:00:05")
        assert stage.message == "waiting for 10:00:05: the recording goes on"
        for second in range(1, 8):
            rec.step("Order {order}", time=36_000.0 + second, order=second)
        stage.grown()
        await pilot.pause()
        assert stage.player.step == 5 and stage.message == "10:00:05 comes at step 6"
