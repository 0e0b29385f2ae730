"""Runs on the stage: variants, two side by side, forks, parameters, recordings that grow, fail or are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from test_stage_keys import NARROW, WIDE, screen_text, stage_of
from textual import events
from textual.pilot import Pilot
from waiting import until
from walking import GATE, Clock, story

from core.errors import BadInput
from core.recording import first_difference
from tui.app import NotesApp
from tui.config import state_folder
from tui.screens.form import Form, FormField
from tui.screens.home import HomeScreen
from tui.short_turns import SWITCH_INTERVAL

App = Callable[..., NotesApp]


async def form_of(app: NotesApp, pilot: Pilot[None], key: str) -> Form:
    """Press ``key`` and wait for the form: the declaration is loaded in a thread."""
    await pilot.press(key)
    await until(pilot, lambda: isinstance(app.screen, Form))
    assert isinstance(app.screen, Form)
    return app.screen


async def test_next_variant_is_recorded_when_first_asked_for_and_opens_at_the_same_place(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        assert [run.variant for run in stage.runs.all] == ["forth"]
        await pilot.press("9", "v")
        await made.wait_recorded()
        assert (stage.front.variant, stage.player.step) == ("back", 10)
        assert "back ▾" in stage.header.text
        await pilot.press("v")
        await made.wait_recorded()
        assert stage.front.variant == "forth"
        assert len(stage.runs.all) == 2, "each is recorded once"


async def test_side_by_side_playheads_move_together_and_the_first_difference_is_found(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        await pilot.press("c")
        await made.wait_recorded()
        assert len(stage.views) == 2
        await pilot.press("right", "right")
        pair = stage.runs.pair
        assert pair is not None
        assert (pair[0].player.step, pair[1].player.step) == (2, 2)
        await pilot.press("d")
        await pilot.pause()
        assert pair[0].player.step == first_difference(pair[0].recording, pair[1].recording) == 6
        assert stage.message == "first difference, step 7: Rank 0 walks in round 2 | Rank 2 walks in round 2"
        text = screen_text(made)
        assert "Rank 0 walks in round 2" in text
        assert "Rank 2 walks in round 2" in text
        await pilot.press("c")
        await pilot.pause()
        assert len(stage.views) == 1
        assert stage.runs.beside is None


async def test_difference_opens_the_other_variant_by_itself(app: App) -> None:
    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        await pilot.press("d")
        await made.wait_recorded()
        await pilot.pause()
        assert (len(stage_of(made).views), stage_of(made).player.step) == (2, 6)


async def test_a_lone_run_says_how_to_get_a_second(app: App) -> None:
    made = app(scenario=story(variants={}, expect={}))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        for key in ("v", "c", "d"):
            await pilot.press(key)
            assert "F forks it" in stage_of(made).message


async def test_form_comes_from_the_declaration_and_enter_records_again(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        form = await form_of(made, pilot, "p")
        assert [(row.field.name, row.value) for row in form.rows] == [
            ("ranks", "3"), ("rounds", "4"), ("order", "forth"), ("rates", "1,2"),
            ("fail", "false"), ("refuse", "false"), ("hold", "false"),
        ]  # fmt: skip
        assert form.rows[0].field.allowed == "a whole number from 1 to 64"
        assert form.about.text.strip() == "ranks that walk"
        await pilot.press("5", "down", "down", "right", "enter")
        await pilot.pause()
        await made.wait_recorded()
        stage = stage_of(made)
        assert stage.front.overrides == {"ranks": 5, "order": "back"}
        assert len(stage.front.recording) == 20
        assert "ranks 5" in stage.header.text
        assert "expected" not in stage.header.text, "expectations are of unmodified parameters"
        form = await form_of(made, pilot, "p")
        await pilot.press("3", "down", "down", "left", "enter")
        await pilot.pause()
        await made.wait_recorded()
        assert stage.front.overrides == {}, "what the scenario says anyway is no change"


async def test_form_keeps_what_is_wrong_and_says_so_at_the_field(app: App) -> None:
    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        form = await form_of(made, pilot, "p")
        await pilot.press("9", "9", "9")
        assert form.rows[0].error == "a whole number from 1 to 64"
        assert "✗ a whole number" in screen_text(made)
        await pilot.press("enter")
        assert made.screen is form
        await pilot.press("backspace", "backspace", "enter")
        await pilot.pause()
        await made.wait_recorded()
        assert len(stage_of(made).front.recording) == 36


async def test_what_a_field_means_and_what_is_wrong_with_it_are_read_whole_below_the_fields_at_80_columns(app: App) -> None:
    long = "a sentence of more words than one row of the form has cells, which ends with what the reader has to know"

    def refuse(values: dict[str, str]) -> None:
        raise BadInput("the whole form", "nothing that could be used in any of its fields", f"{long[:40]} {values['one']}")

    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        made.push_screen(Form("A form", [FormField("one", "1", description=long), FormField("two", "2", description="short")], refuse))
        await until(pilot, lambda: isinstance(made.screen, Form) and made.screen.about.text.strip() == long)

        def below() -> str:
            lines = screen_text(made).splitlines()
            end = next(k for k, line in enumerate(lines) if "Esc leaves" in line)
            return " ".join(" ".join(line[4:76].strip(" │") for line in lines[end - 2 : end]).split())

        await pilot.pause()
        assert below() == long
        await pilot.press("down")
        await pilot.pause()
        assert below() == "short", "nothing of the longer text is left"
        await pilot.press("enter")
        await pilot.pause()
        assert below() == f"the whole form: nothing that could be used in any of its fields; allowed: {long[:40]} 1"


async def test_escape_leaves_the_form_and_changes_nothing(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        front = stage_of(made).front
        await form_of(made, pilot, "p")
        await pilot.press("9", "escape")
        assert made.screen is stage_of(made)
        assert stage_of(made).front is front


async def test_fork_stands_beside_the_first_run_at_this_place(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        await pilot.press("5")
        form = await form_of(made, pilot, "F")
        await pilot.press("enter")
        assert made.screen is form, "a fork changes something"
        assert "nothing is changed" in form.about.text
        await pilot.press("6", "enter")
        await pilot.pause()
        await made.wait_recorded()
        pair = stage.runs.pair
        assert pair is not None
        assert [run.label for run in pair] == ["forth", "forth, ranks 6"]
        assert (pair[0].player.step, pair[1].player.step) == (6, 12), "both stand where round 2 begins"
        assert pair[1].recording.params["ranks"] == 6
        await pilot.press("escape", "v", "v")
        await made.wait_recorded()
        assert stage.front.label == "forth, ranks 6", "a fork is among the runs that v goes through"


async def test_first_steps_are_on_screen_while_the_rest_is_computed(app: App) -> None:
    made = app(scenario=story(variants={"forth": {"hold": True}}, expect={}))
    usual = sys.getswitchinterval()
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "Step 1 of 6…" in screen_text(made))
        assert "resting" in screen_text(made)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL)
        await pilot.press("right", "right")
        assert "Step 3 of 6…" in screen_text(made)
        await pilot.press("u", *"turn:3", "enter")
        await pilot.pause()
        assert stage_of(made).message.startswith("waiting for turn:3")
        GATE.set()
        await made.wait_recorded()
        await until(pilot, lambda: stage_of(made).player.step == 9)  # what was waited for is gone to once it is recorded
        assert sys.getswitchinterval() == pytest.approx(usual)


async def test_leaving_cancels_the_recording(app: App) -> None:
    made = app(scenario=story(variants={"forth": {"hold": True}}, expect={}))
    async with made.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: made.stage is not None)
        run = stage_of(made).front
        await pilot.press("escape")
        await until(pilot, lambda: run.done)
        assert run.recording.state == "cancelled"
        assert isinstance(made.screen, HomeScreen)


async def test_a_defect_in_a_simulation_is_one_line_and_the_app_goes_on(app: App) -> None:
    made = app(scenario=story(variants={"forth": {"fail": True}, "back": {}}, expect={}))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        stage = stage_of(made)
        assert stage.front.error.startswith("walk stopped with RuntimeError: the floor gives way (this is a defect; see ")
        assert "✗ stopped" in stage.header.text
        assert "the floor gives way" in screen_text(made)
        assert "the floor gives way" in (state_folder() / "notes-tui.log").read_text(encoding="utf-8")
        await pilot.press("right", "right")
        assert stage.player.step == 2, "the steps before it can be looked at"
        await pilot.press("v")
        await made.wait_recorded()
        assert stage.front.error == ""


async def test_bad_input_is_one_line_and_the_app_goes_on(app: App) -> None:
    made = app(scenario=story(variants={"forth": {"refuse": True}}, expect={}))
    async with made.run_test(size=WIDE):
        await made.wait_recorded()
        assert stage_of(made).front.error == "walk.rounds: found too many; allowed: fewer"


async def test_parameters_out_of_bounds_are_named_on_the_stage(app: App) -> None:
    made = app(overrides={"ranks": 100})
    async with made.run_test(size=WIDE):
        await made.wait_recorded()
        assert "walk.ranks: found 100; allowed: a whole number from 1 to 64" in stage_of(made).front.error


async def test_a_failed_check_is_red_and_named(app: App) -> None:
    made = app(scenario=story(expect={"forth.distance": 13}))
    async with made.run_test(size=WIDE):
        await made.wait_recorded()
        assert "✗ expect distance" in stage_of(made).header.text
        assert [role for text, role in stage_of(made).header.right if "distance" in text] == ["bad"]


async def test_playing_goes_on_side_by_side(app: App, clock: Clock) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("c")
        await made.wait_recorded()
        await pilot.press("space")
        clock.now += 3
        await pilot.pause(0.3)
        pair = stage_of(made).runs.pair
        assert pair is not None
        assert (pair[0].player.step, pair[1].player.step) == (6, 6)


async def test_a_stage_that_is_left_before_it_is_set_out_ends_quietly(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter and q in one breath: the stage is gone when its panels were to be mounted, and its run ends after it."""
    raised: list[BaseException | None] = []
    monkeypatch.setattr("threading.excepthook", lambda told: raised.append(told.exc_value))
    explorer = app()
    async with explorer.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for _ in range(3):
            explorer.open_stage(story())
            stage = explorer.screen
            stage.dismiss()
            await pilot.pause(0.05)
        explorer.open_stage(story(variants={"long": {"rounds": 3000}}))
        explorer.exit()
    assert raised == []


async def test_what_is_typed_right_after_a_move_goes_into_the_next_field(app: App) -> None:
    """A slow link brings several keys at once: they are on their way before the move has been drawn."""
    explorer = app()
    async with explorer.run_test(size=WIDE) as pilot:
        await explorer.wait_recorded()
        form = await form_of(explorer, pilot, "p")
        for key, character in (("7", "7"), ("down", None), ("9", "9")):
            explorer.post_message(events.Key(key, character))
        await until(pilot, lambda: [row.value for row in form.rows[:2]] == ["7", "9"])
