"""What each key does on the stage, seen where a person sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.containers import VerticalScroll
from textual.widgets import Static
from walking import Clock, story

from tui.app import NotesApp
from tui.config import Config, config_file, read_config
from tui.keys import ACTIONS, Scope
from tui.screens.base import key_parts
from tui.screens.bookmarks import Bookmarks
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.prompt import Prompt
from tui.screens.run_view import shares
from tui.screens.stage import StageScreen

App = Callable[..., NotesApp]
WIDE, NARROW = (120, 40), (80, 24)


def stage_of(app: NotesApp) -> StageScreen:
    assert app.stage is not None
    return app.stage


def screen_text(app: NotesApp) -> str:
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize(
    ("keys", "step"),
    [
        ("right", 1), ("l", 1), ("full_stop", 1), ("right right left", 1), ("right h", 0), ("right comma", 0),
        ("shift+right", 1), ("end shift+left", 10), ("right_square_bracket", 6), ("end left_square_bracket left_square_bracket", 0),
        ("end", 11), ("G g", 0), ("G home", 0), ("5", 6), ("9", 10), ("5 0", 0),
    ],
)  # fmt: skip
async def test_keys_move_the_playhead(app: App, keys: str, step: int) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press(*keys.split())
        await pilot.pause()
        assert stage_of(made).player.step == step
        assert f"Step {step + 1} of 12" in screen_text(made)
        assert f"Rank {step % 3} walks in round {step // 3}" in screen_text(made)


async def test_space_plays_by_the_clock_and_pauses(app: App, clock: Clock) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        await pilot.press("space")
        assert stage.player.playing
        clock.now += 2.0
        await pilot.pause(0.3)
        assert stage.player.step == 4
        await pilot.press("plus")
        clock.now += 1.0
        await pilot.press("space")
        assert (stage.player.step, stage.player.playing, stage.player.speed) == (8, False, 2.0)
        clock.now += 100
        await pilot.pause(0.3)
        assert stage.player.step == 8


async def test_no_timer_runs_while_paused_and_nothing_is_painted(app: App, clock: Clock) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("space", "space")
        await pilot.pause(0.3)
        stage = stage_of(made)
        assert stage._frame_timer is None
        assert stage._look_timer is None
        painted: list[object] = []
        made._display = lambda *args: painted.append(args)  # type: ignore[method-assign]
        clock.now += 5
        await pilot.pause(0.5)
        assert painted == []


async def test_question_comes_first_and_the_takeaway_last(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        assert "Who walks last?" in screen_text(made)
        await pilot.press("right")
        assert "Who walks last?" not in screen_text(made)
        await pilot.press("end")
        assert "It depends on the order." in screen_text(made)


async def test_find_goes_to_matches_and_says_which(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("slash", *"round 2", "enter")
        await pilot.pause()
        stage = stage_of(made)
        assert made.screen is stage
        assert (stage.player.step, stage.message) == (6, "match 1 of 3 for 'round 2'")
        await pilot.press("n", "n", "n")
        assert (stage.player.step, stage.message) == (6, "match 1 of 3 for 'round 2', around the end")
        await pilot.press("N")
        assert stage.player.step == 8
        await pilot.press("right")
        assert stage.message == ""


async def test_find_takes_tags_and_a_miss_stays_in_the_prompt(app: App) -> None:
    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        await pilot.press("slash", *"rnak:2", "enter")
        assert isinstance(made.screen, Prompt)
        assert "did you mean 'rank'" in made.screen.note.text
        for _ in range(6):
            await pilot.press("backspace")
        await pilot.press(*"rank:2 turn:3", "enter")
        await pilot.pause()
        assert (made.screen, stage_of(made).player.step) == (stage_of(made), 11)


async def test_until_runs_on_and_back(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        await pilot.press("u", *"distance > 5k", "enter")
        await pilot.pause()
        assert stage.player.step == 5
        await pilot.press("end", "U", *"rank:0", "enter")
        await pilot.pause()
        assert stage.player.step == 9, "the last round walks forth in this variant"
        await pilot.press("u", *"< turn:1", "enter")
        await pilot.pause()
        assert stage.player.step == 5
        await pilot.press("u", *"distance > 50k", "enter")
        assert isinstance(made.screen, Prompt)
        assert "no step after this one where" in made.screen.note.text


@pytest.mark.parametrize("size", [(44, 24), NARROW, WIDE])
async def test_what_a_key_does_stays_in_its_column_where_it_takes_two_lines(app: App, size: tuple[int, int]) -> None:
    made = app()
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        await pilot.press("question_mark")
        await pilot.pause()
        help_text = made.screen.text().plain  # type: ignore[attr-defined]
        box = made.screen.query_one(VerticalScroll)
        drawn = [line.rstrip() for line in box.query_one(Static).render().plain.splitlines()]  # type: ignore[union-attr]
        assert drawn == [line.rstrip() for line in help_text.splitlines()]
        keys = help_text[help_text.index("On the stage") : help_text.index("Settings")].splitlines()[1:]
        assert max(map(len, keys)) <= box.scrollable_content_region.width, "so that no line is broken again, at the left end"
        folded = [line for line in keys if line.startswith(" " * 20)]
        assert all(line[20:21].strip() for line in folded) and (len(folded) > 9) == (size[0] == 44) and bool(folded) == (size != WIDE)
        assert " ".join(" ".join(keys).split()).count("Two runs side by side with one playhead, or one again") == 1


@pytest.mark.parametrize("size", [(80, 24), (44, 16), (20, 5)])
async def test_a_refusal_longer_than_the_terminal_is_wide_is_shown_whole(app: App, size: tuple[int, int]) -> None:
    made = app()
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        asked = "a condition of many words that has no operator"
        await pilot.press("u", *("space" if letter == " " else letter for letter in asked), "enter")
        await pilot.pause()
        assert isinstance(made.screen, Prompt)
        lines = screen_text(made).splitlines()
        refusal = f"until {asked!r}: no condition; allowed: fact op number (peak_stash >= 3) or tag:value (rank:2)"
        said = " ".join(" ".join(lines[:-1]).split())
        assert refusal in said if size[1] > 5 else said[-1] == "…" and refusal.startswith(said[:-1]), "what does not fit is cut at the end"
        assert lines[-1].strip().endswith(asked[-10:]), "the answer stays in sight"
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        assert screen_text(made).splitlines()[-2].strip() == refusal


@pytest.mark.parametrize("scope", ["stage", "home", "doctor"])
def test_no_width_cuts_a_key_of_the_footer(scope: Scope) -> None:
    keys = {action.id: action.keys for action in ACTIONS}
    names = {action.name for action in ACTIONS}
    for width in range(20, 160):
        parts = key_parts(keys, scope, width)
        assert sum(cell_len(text) for text, _ in parts) <= width
        assert {text.strip() for text, role in parts if role == "dim"} <= names
        assert " help" in [text.rstrip() for text, _ in parts]


async def test_bookmarks_are_set_listed_and_gone_to(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("apostrophe")
        assert stage_of(made).message == "no bookmarks yet"
        await pilot.press("right", "m", "5", "m", "end", "apostrophe")
        await pilot.pause()
        assert isinstance(made.screen, Bookmarks)
        assert "Rank 1 walks in round 0" in screen_text(made)
        await pilot.press("up", "enter")
        await pilot.pause()
        assert stage_of(made).player.step in (1, 6)
        assert stage_of(made).player.bookmarks == (1, 6)
        await pilot.press("apostrophe", "delete", "delete")
        await pilot.pause()
        assert stage_of(made).player.bookmarks == ()


async def test_tab_focuses_panels_in_turn_and_escape_leaves_first_the_panel(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        stage = stage_of(made)
        assert made.focused is None
        await pilot.press("tab")
        assert stage.focused_kind() == ("gantt", "Lanes")
        await pilot.press("right", "down")
        assert stage.player.step == 0, "the arrows belong to the panel now"
        assert "rank 1" in stage.footer.text
        await pilot.press("tab")
        assert stage.focused_kind() == ("table", "Where")
        await pilot.press("escape")
        assert made.focused is None
        assert made.screen is stage
        assert "rank 1" not in stage.footer.text
        await pilot.press("right")
        assert stage.player.step == 1
        await pilot.press("shift+tab")
        assert made.focused is stage.views[0].facts
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert isinstance(made.screen, HomeScreen)


async def test_help_is_of_the_focused_panel_and_shows_the_keys_in_effect(app: App) -> None:
    made = app(config=Config(keymap={"play": "P"}))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(made.screen, Help)
        text = made.screen.text().plain
        assert "  P                 Play or pause" in text
        assert all(action.help in text for action in ACTIONS if action.scope == "stage" and not action.id.startswith("tenth"))
        await pilot.press("escape", "tab", "f1")
        await pilot.pause()
        assert "Lanes over time" in made.screen.text().plain
        await pilot.press("escape")
        assert made.screen is stage_of(made)


async def test_copy_takes_what_the_step_says(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("right", "y")
        assert made.clipboard == "Rank 1 walks in round 0\nIt is the turn of 1."


async def test_narrow_screens_show_narration_or_numbers(app: App) -> None:
    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        assert "Rank 0 walks" in screen_text(made)
        assert "distance" not in screen_text(made)
        await pilot.press("t")
        await pilot.pause()
        assert "Rank 0 walks" not in screen_text(made)
        assert "distance" in screen_text(made)
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert "Rank 0 walks" in screen_text(made)
        assert "distance" in screen_text(made)


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (59, 40), (120, 19)])
async def test_a_terminal_too_small_says_so_and_recovers(app: App, size: tuple[int, int]) -> None:
    made = app()
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        assert "Step 1" not in screen_text(made)
        if size[0] >= 20:
            assert "too small" in screen_text(made)
        await pilot.press("right")
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert "Step 2 of 12" in screen_text(made)


async def test_resizing_while_playing_is_safe(app: App, clock: Clock) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("space")
        for width, height in ((80, 24), (30, 9), (200, 60), (60, 20), (120, 40)):
            clock.now += 0.5
            await pilot.resize_terminal(width, height)
            await pilot.pause(0.12)
        assert stage_of(made).player.step == 5
        assert "Step 6 of 12" in screen_text(made)


@pytest.mark.parametrize("scope", ["home", "stage", "panel", "app"])
async def test_every_action_can_be_bound_to_another_key(app: App, scope: str) -> None:
    """The new key runs the action and the old one does not, wherever the action stands."""
    made = app(scenario=None) if scope == "home" else app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        called: list[str] = []
        for action in ACTIONS:
            if action.scope != scope:
                continue
            made.set_keymap({action.id: "ctrl+y"})
            if scope == "panel" and made.focused is None:
                await pilot.press("tab")
            name = action.call.partition("(")[0]
            place = {"panel": lambda: stage_of(made).views[0], "app": lambda: made}.get(scope, lambda: made.screen)()
            setattr(place, f"action_{name}", lambda *args, pressed=action.id: called.append(pressed))
            await pilot.press("ctrl+y")
            assert called == [action.id]
            if action.id != "command_palette":
                await pilot.press(action.keys[0])
                assert called == [action.id], f"the old key of {action.id} is free"
            delattr(place, f"action_{name}")
            called.clear()


async def test_keys_of_the_settings_file_are_in_effect(app: App) -> None:
    Path("config.toml").write_text('[keys]\nforward = "ctrl+y"\nstart = "]"\n', encoding="utf-8")
    made = app(config=read_config(Path("config.toml"), {}))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("ctrl+y", "ctrl+y", "right")
        assert stage_of(made).player.step == 2
        assert "ctrl+y" in stage_of(made).footer.text.lower()
        await pilot.press("right_square_bracket")
        assert stage_of(made).player.step == 0


async def test_command_palette_offers_the_actions_of_the_registry(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        commands = {command.title: command for command in made.get_system_commands(made.screen)}
        assert {"Find", "Fork", "Export", "Quit", "Help"} <= set(commands)
        assert all(command.help for command in commands.values())
        await commands["Last step" if "Last step" in commands else "End"].callback()
        assert stage_of(made).player.step == 11
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert type(made.screen).__name__ == "CommandPalette"


async def test_position_is_remembered_and_said_quietly(app: App) -> None:
    first = app(start_step=None)
    async with first.run_test(size=WIDE) as pilot:
        await first.wait_recorded()
        await pilot.press("v")
        await first.wait_recorded()
        await pilot.press("5", "m", "q")
    again = app(start_step=None)
    async with again.run_test(size=WIDE) as pilot:
        await again.wait_recorded()
        stage = stage_of(again)
        assert (stage.front.variant, stage.player.step, stage.player.bookmarks) == ("back", 6, (6,))
        assert stage.message == "continued at step 7; g goes to the start"
        await pilot.press("g")
        assert (stage.player.step, stage.message) == (0, "")
    pictured = app(start_step=2)
    async with pictured.run_test(size=WIDE):
        await pictured.wait_recorded()
        assert stage_of(pictured).player.step == 2


async def test_problems_of_the_settings_are_told_and_the_app_starts(app: App) -> None:
    made = app(config=Config(problems=("config.toml: fps: found 500",)))
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        assert "found 500" in stage_of(made).footer.text
        await pilot.press("right")
        assert "found 500" not in stage_of(made).footer.text


async def test_without_variants_there_is_no_variant_in_the_header(app: App) -> None:
    made = app(scenario=story(variants={}, expect={}))
    async with made.run_test(size=WIDE):
        await made.wait_recorded()
        assert "▾" not in stage_of(made).header.text
        assert "✓ 1 check" in stage_of(made).header.text


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (1.6, 1.0, 1.2, 0.8)])
@pytest.mark.parametrize("room", [0, 5, 12, 13, 36, 57])
def test_rows_of_panels_share_all_the_room_and_none_gets_too_little_where_there_is_enough(room: int, weights: tuple[float, ...]) -> None:
    heights = shares(room, weights, 6)
    assert sum(heights) == room and (room < 6 * len(weights) or min(heights) >= 6)
    if room >= 36:
        assert sorted(range(len(weights)), key=heights.__getitem__) == sorted(range(len(weights)), key=weights.__getitem__)


async def test_panels_that_would_be_too_low_stand_one_at_a_time_with_the_key_that_turns_them(app: App) -> None:
    made = app()
    async with made.run_test(size=NARROW) as pilot:
        await made.wait_recorded()
        view = stage_of(made).views[0]
        for height, alone in ((24, False), (20, True), (40, False)):
            await pilot.resize_terminal(80, height)
            await pilot.pause()
            heights = [row.size.height or row.region.height for row in view.rows if row.display]
            assert view.several == alone and len(heights) == (1 if alone else len(view.rows)), (height, heights)
            assert ("Tab 1 of" in screen_text(made)) == alone


async def test_help_says_where_the_settings_are_and_all_that_is_wrong_with_them(app: App, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('theme = 3\nfps = "x"\n')
    made = app(config=read_config(path), scenario=None)
    async with made.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "2 settings cannot be used (? tells them)" in screen_text(made)
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(made.screen, Help)
        said = made.screen.text().plain
        assert str(config_file()) in said and "theme: found 3" in said and "fps: found 'x'" in said


async def test_ctrl_c_says_what_quits_in_the_footer(app: App) -> None:
    made = app()
    async with made.run_test(size=WIDE) as pilot:
        await made.wait_recorded()
        await pilot.press("ctrl+c")
        assert stage_of(made).message == "q quits"
        assert not made._notifications and made.is_running
