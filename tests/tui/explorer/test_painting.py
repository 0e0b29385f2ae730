"""Whatever was pressed, the terminal shows what the screen would draw anew: an emulator is fed with every frame."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyte
import pytest
from rich.console import RenderableType
from textual import events
from textual._compositor import CompositorUpdate
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from walking import story

from core.scenario import find
from tui.app import NotesApp
from tui.compositor import RowsUpdate

App = Callable[..., NotesApp]
KEYS = (
    ["right"] * 6 + ["left"] * 3 + list("0579") + ["tab", "shift+tab", "down", "up", "c", "t", "v", "d", "m", "end", "home", "escape", "n"]
)


class Terminal:
    """What an emulator shows that was fed with every frame of ``app``."""

    def __init__(self, app: NotesApp, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
        self.app, self.size, self.rows_updates = app, size, 0
        self.screen = pyte.Screen(*size)
        self.stream = pyte.Stream(self.screen)
        show = app._display

        def fed(where: Screen[object], update: RenderableType | None) -> None:
            if isinstance(update, CompositorUpdate) and where is app.screen and not app._batch_count:
                self.rows_updates += isinstance(update, RowsUpdate)
                self.stream.feed("\x1b[?7l" + update.render_segments(app.console).replace("\n", "\r\n"))
            show(where, update)

        monkeypatch.setattr(app, "_display", fed)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def drawn_anew(self) -> list[str]:
        return [_text(strip).rstrip() for strip in self.app.screen._compositor.render_strips()]


def _text(strip: Strip) -> str:
    return "".join(segment.text for segment in strip)


async def walked(
    made: NotesApp, size: tuple[int, int], keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str], int]:
    terminal = Terminal(made, size, monkeypatch)
    async with made.run_test(size=size) as pilot:
        await made.wait_recorded()
        for key in keys:
            await pilot.press(key)
            if made.stage is not None:
                await made.wait_recorded()
        await pilot.pause()
        return terminal.lines, terminal.drawn_anew(), terminal.rows_updates


@pytest.mark.parametrize("size", [(120, 40), (100, 30), (80, 24)])
@pytest.mark.parametrize("seed", range(4))
async def test_after_any_keys_the_terminal_shows_what_would_be_drawn_anew(
    app: App, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], seed: int
) -> None:
    draw = random.Random(seed)
    keys = [draw.choice(KEYS) for _ in range(25)]
    shown, anew, at_once = await walked(app(scenario=story()), size, keys, monkeypatch)
    assert shown == anew, keys
    assert at_once > 5


@pytest.mark.parametrize("keys", [["c", "7", "escape"], ["c", "0", "right", "escape", "right", "right"], ["tab", "c", "9", "c", "left"]])
async def test_numbers_that_were_hidden_meanwhile_are_those_of_the_step(app: App, monkeypatch: pytest.MonkeyPatch, keys: list[str]) -> None:
    """Side by side there is no room for them; with one run again they stand beside the panels as before, and later steps change them."""
    made = app(scenario=find("markets/order_book_post_only"))
    shown, anew, _ = await walked(made, (100, 30), keys, monkeypatch)
    assert shown == anew


async def test_a_step_that_is_painted_while_widgets_move_is_not_lost(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app()
    terminal = Terminal(made, (120, 40), monkeypatch)
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        stage = made.stage
        assert stage is not None
        stage.refresh(layout=True)
        stage.action_forward()
        assert "Step 1 of" in "\n".join(terminal.lines)
        await pilot.pause()
        assert "Step 2 of" in "\n".join(terminal.lines)
        assert terminal.lines == terminal.drawn_anew()


async def test_all_that_a_step_changes_is_one_frame(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = app()
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        await pilot.pause()
        terminal = Terminal(made, (120, 40), monkeypatch)
        stage = made.stage
        assert stage is not None
        stage.action_forward()
        assert terminal.rows_updates == 1, "painted before the action returns"
        await pilot.pause()
        assert terminal.rows_updates == 1


async def test_a_title_is_fitted_to_the_room_it_has_now(app: App) -> None:
    """The rule over the narration is long while two runs stand side by side, and short again with one."""
    made = app(scenario=find("markets/order_book_post_only"))
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        for key in ("9", "c", "right", "escape"):
            await pilot.press(key)
            await made.wait_recorded()
        await pilot.pause()
        stage = made.stage
        assert stage is not None
        rule = stage.views[0].title_rule
        shown = rule.text
        assert len(shown) <= rule.size.width - 5
        stage.views[0].forget_shown()
        stage.paint()
        assert rule.text == shown


async def test_rows_that_a_widget_no_longer_has_are_not_painted_below_it(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """It became lower after they were due."""
    made = app()
    terminal = Terminal(made, (120, 40), monkeypatch)
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        stage = made.stage
        assert stage is not None
        with stage.one_frame():
            stage.rows_changed(stage.header, [0, 1])
        await pilot.pause()
        assert terminal.lines == terminal.drawn_anew()


async def test_no_step_is_painted_for_the_old_size_of_a_terminal(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app knows the new size a moment before its screen does."""
    made = app()
    painted: list[bool] = []
    async with made.run_test(size=(120, 40)) as pilot:
        await made.wait_recorded()
        stage = made.stage
        assert stage is not None
        forward, post, show = stage.action_forward, stage.post_message, made._display

        def moved_first(message: Message) -> bool:
            if isinstance(message, events.Resize):
                forward()
                painted.append(False)
            return post(message)

        def shown(where: Screen[object], update: RenderableType | None) -> None:
            painted.append(isinstance(update, RowsUpdate))
            show(where, update)

        monkeypatch.setattr(stage, "post_message", moved_first)
        monkeypatch.setattr(made, "_display", shown)
        await pilot.resize_terminal(100, 30)
        await pilot.pause(0.1)
        assert painted[:2] == [False, False], "the step, then the whole screen at its new size"
        assert stage.views[0].title_rule.text.startswith(f"Step {stage.player.step + 1} of")
        assert stage.player.step > 0
