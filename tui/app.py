"""The explorer: screens, themes, settings, and a terminal that is given back however the app ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from rich.console import RenderableType
from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme

from core.errors import BadInput
from core.scenario import Scenario
from tui.compositor import RowsUpdate
from tui.config import Config, read_config
from tui.keys import ACTIONS, Scope, bindings, effective, shown
from tui.right_of_way import RightOfWay
from tui.screens.base import BaseScreen

if TYPE_CHECKING:
    from tui.examining import Examination
    from tui.quick_keys import QuickKey, QuickKeys
    from tui.screens.stage import StageScreen
    from tui.worker import Recorders

THEMES: dict[str, Theme] = {
    "dark": Theme(
        "notes-dark", primary="#56b4e9", secondary="#009e73", accent="#e69f00", warning="#e69f00", error="#d55e00", success="#009e73",
        foreground="#d0d0d0", background="#121212", surface="#1e1e1e", panel="#262626", dark=True,
        variables={"quiet": "#5a5a5a", "lit": "#f0e442", "scrollbar": "#5a5a5a", "scrollbar-background": "#1e1e1e"},
    ),
    "light": Theme(
        "notes-light", primary="#0072b2", secondary="#00704f", accent="#b35900", warning="#b35900", error="#c04a00", success="#00704f",
        foreground="#303030", background="#fafafa", surface="#eeeeee", panel="#e4e4e4", dark=False,
        variables={"quiet": "#a8a8a8", "lit": "#8a7d00", "scrollbar": "#a8a8a8", "scrollbar-background": "#eeeeee"},
    ),
}  # fmt: skip
_ANSI = {
    "ansi-background": "ansi_default", "ansi-foreground": "ansi_default", "border-blurred": "ansi_bright_black",
    "block-cursor-foreground": "ansi_black", "block-cursor-background": "ansi_white", "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black", "input-cursor-text-style": "none", "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black", "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black", "quiet": "ansi_bright_black", "lit": "ansi_bright_yellow",
}  # fmt: skip
for _name, _dark in (("dark", True), ("light", False)):
    THEMES[f"{_name}-16"] = Theme(
        f"notes-{_name}-16", ansi=True, primary="ansi_bright_blue", secondary="ansi_cyan", accent="ansi_yellow", warning="ansi_yellow",
        error="ansi_bright_red", success="ansi_green", foreground="ansi_default", background="ansi_default", surface="ansi_default",
        panel="ansi_default", boost="ansi_default", dark=_dark, variables=_ANSI,
    )  # fmt: skip


class NotesApp(App[None]):
    """Opens at home, or on a scenario: ``target`` is a NAME or FILE, ``scenario`` one that is read already.

    ``device`` None is the one of the settings. ``start_step`` counts from 0, and keeps what is remembered of earlier sessions
    out of this one.
    """

    TITLE = "notes-tui"
    BINDINGS = bindings("app")
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        target: str | None = None,
        *,
        scenario: Scenario | None = None,
        variant: str | None = None,
        overrides: Mapping[str, object] | None = None,
        device: str | None = None,
        seed: int = 0,
        start_step: int | None = None,
        config: Config | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.config = config if config is not None else read_config()
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        for theme in THEMES.values():
            self.register_theme(theme)
        few = self.no_color or self.console.color_system in ("standard", None)
        self.theme = THEMES[f"{self.config.theme}-16" if few else self.config.theme].name
        self.target = target
        self.first_scenario = scenario
        self.first_variant = variant
        self.overrides = dict(overrides or {})
        self.device = device if device is not None else self.config.device
        self.seed = seed
        self.start_step = start_step
        self.clock = clock
        self.recorders: list[Recorders] = []
        self.examinations: list[Examination] = []
        self.right_of_way = RightOfWay()
        self.quick_keys: QuickKeys | None = None
        self.keys = effective(self.config.keymap)
        self.set_keymap(dict(self.config.keymap))
        if not self.config.motion:
            self.animation_level = "none"

    def get_driver_class(self) -> type[Driver]:
        usual = super().get_driver_class()
        if sys.platform == "win32" or usual.__name__ != "LinuxDriver":
            return usual
        from tui.driver import TerminalDriver

        return TerminalDriver

    def on_resize(self) -> None:
        forget = getattr(self._driver, "forget_frame", None)
        if forget is not None:
            forget()

    # keys ----------------------------------------------------------------------------------------------------------

    def quick(self, keys: Sequence[QuickKey]) -> None:
        """Move the stage in front if nothing else may want these keys (a focused panel, a dialog); else they go the usual way."""
        with self._context():
            for key in keys:
                stage = self.stage
                if stage is None or stage is not self.screen or stage.focused is not None:
                    self.post_message(key.event)
                    continue
                try:
                    stage.move(key.action)
                except Exception as error:
                    self._handle_exception(error)
                    return

    # painting ------------------------------------------------------------------------------------------------------

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        """Rows go to the terminal cell by cell, without being written as text first."""
        show = getattr(self._driver, "show", None)
        shown = False
        if show is not None and isinstance(renderable, RowsUpdate) and self._running and not self._closed and not self._batch_count:
            cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
            self._begin_update()
            try:
                shown = show(renderable.pieces, cursor)
            finally:
                self._end_update()
            self._previous_cursor_position = cursor
        if not shown:
            super()._display(screen, renderable)

    # screens -------------------------------------------------------------------------------------------------------

    def on_unmount(self) -> None:
        """Abandoned runs and looks at files get a moment, so that the interpreter does not end under them."""
        for examination in self.examinations:
            examination.cancel()
        for recorders in self.recorders:
            recorders.join(0.5)
        for examination in self.examinations:
            examination.join(0.5)

    def get_default_screen(self) -> Screen[object]:
        """Home itself where the app opens there: one screen less before the first frame."""
        if self.first_scenario is not None or self.target is not None:
            return super().get_default_screen()
        return self._home(self._greeting)

    @property
    def _greeting(self) -> tuple[str, str]:
        first, *more = self.config.problems or ("",)
        return (f"{1 + len(more)} settings cannot be used (? tells them): {first}" if more else first, "bad" if first else "plain")

    def _home(self, message: tuple[str, str] = ("", "plain")) -> Screen[object]:
        from tui.screens.home import HomeScreen

        return cast("Screen[object]", HomeScreen(message))

    def on_mount(self) -> None:
        self._give_the_terminal_back()
        scenario = self.first_scenario
        if scenario is None and self.target is not None:
            from core.scenario import find

            try:
                scenario = find(self.target)
            except BadInput as error:
                self.push_screen(self._home((str(error), "bad")))
        if scenario is not None:
            self.open_stage(scenario, first=True, message=self._greeting)

    def open_stage(self, scenario: Scenario, *, first: bool = False, message: tuple[str, str] = ("", "plain")) -> None:
        """Put ``scenario`` on the stage. What the command line said of variant, parameters and step holds for the first one."""
        from tui.screens.stage import StageScreen

        self.push_screen(
            StageScreen(
                scenario,
                variant=self.first_variant if first else None,
                overrides=self.overrides if first else {},
                device=self.device,
                seed=self.seed,
                start_step=self.start_step if first else None,
                clock=self.clock,
                message=message,
            )
        )

    def leave_stage(self, stage: StageScreen) -> None:
        """Home again; it is made now if the app opened on the stage."""
        from tui.screens.home import HomeScreen

        if any(isinstance(screen, HomeScreen) for screen in self.screen_stack):
            stage.dismiss()
        else:
            self.call_later(self.switch_screen, self._home())

    @property
    def stage(self) -> StageScreen | None:
        """The stage in front, if there is one."""
        from tui.screens.stage import StageScreen

        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, StageScreen)), None)

    @property
    def ended(self) -> bool:
        """Whether the app is on its way out (asked to, or because of an error)."""
        return self._exit or self._exception is not None

    async def wait_recorded(self) -> None:
        """Return once all runs of the stage are recorded and painted (at once where there is no stage)."""
        while (stage := self.stage) is None and self.first_scenario is not None and not self.ended:
            await asyncio.sleep(0.01)
        if stage is not None:
            await stage.settled()

    def _base(self) -> BaseScreen | None:
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, BaseScreen)), None)

    # actions -------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        """Each screen knows what back means there."""
        if isinstance(self.screen, BaseScreen):
            self.screen.action_leave()

    def action_help(self) -> None:
        from tui.screens.help import Help

        base = self._base()
        if base is not None and base is self.screen:
            kind, title = self.stage.focused_kind() if self.stage is base else ("", "")
            problems = self.config.problems
            self.push_screen(Help(base.SCOPE, self.keys, kind, title, about=base.ABOUT, left_out=base.LEFT_OUT, problems=problems))

    def action_help_quit(self) -> None:
        """Ctrl+C: what leaves, said where everything else is said."""
        base = self._base()
        if base is not None:
            base.say(f"{shown(next(iter(self.keys['quit']), 'ctrl+q'))} quits")

    async def action_quit(self) -> None:
        from tui.screens.stage import StageScreen

        for screen in self.screen_stack:
            if isinstance(screen, StageScreen):
                screen.remember_position()
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every action of the registry that works on ``screen``."""
        base = screen if isinstance(screen, BaseScreen) else self._base()
        scopes: tuple[Scope, ...] = (base.SCOPE, "app") if base is not None else ("app",)
        left_out = {"command_palette", "select_previous", "select_next", *(base.LEFT_OUT if base is not None else ())}
        for action in ACTIONS:
            if action.scope in scopes and action.id not in left_out:
                place = base if action.scope != "app" or hasattr(base, f"action_{action.id}") else self
                yield SystemCommand(action.name.capitalize(), action.help, partial(self._run, action.call, place))

    async def _run(self, call: str, place: object) -> None:
        await self.run_action(call, cast(BaseScreen, place))

    # ending --------------------------------------------------------------------------------------------------------

    def _give_the_terminal_back(self) -> None:
        if self.is_headless or sys.platform == "win32":
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end_by_signal, number)

    def _end_by_signal(self, number: int) -> None:
        """End as if asked to, with 128 + n; a terminal that is gone must not keep the process."""
        last_resort = threading.Timer(3.0, os._exit, (128 + number,))
        last_resort.daemon = True
        last_resort.start()
        self.exit(return_code=128 + number)

    def writes_waiting(self) -> bool:
        """Whether the terminal has not taken the last frame yet: then the next one waits."""
        thread = getattr(self._driver, "_writer_thread", None)
        return thread is not None and thread._queue.qsize() > 0
