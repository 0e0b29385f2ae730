"""What the stage holds and how it is painted: runs, their views, the frame loop, header and focus. Its actions build on this."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len
from textual import events
from textual._context import NoActiveAppError
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer

from core.formatting import format_value, parameter_text
from core.recording import Recording
from core.scenario import Scenario
from core.simulation import FAMILIES
from core.views import Gantt
from tui.config import Position, remember, remembered
from tui.keys import shown
from tui.player import Player
from tui.quick_keys import QuickKeys
from tui.runs import Run, Runs
from tui.screens.base import BaseScreen, key_parts
from tui.screens.lines import Part
from tui.screens.run_view import PanelBox, RunView
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import clip
from tui.widgets.gantt import GanttWidget
from tui.widgets.scrubber import Scrubber
from tui.worker import Recorders, RunEnded

WIDE = (100, 28)
"""Columns and rows from which narration and numbers stand beside the panels."""
FIRST_LOOKS = 0.03
"""Seconds between looks at a recording that has no step or panel yet; later ones come with the frames."""


class StageBase(BaseScreen):
    """Holds the runs of one scenario. Workers only post messages; everything shown is decided here, on the event loop."""

    SCOPE = "stage"
    DEFAULT_CSS = """
    StageBase #runs { width: 1fr; height: 1fr; }
    StageBase ViewWidget, StageBase Told, StageBase Facts, StageBase Scrubber { visibility: visible; }
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        variant: str | None,
        overrides: Mapping[str, object],
        device: str,
        seed: int,
        start_step: int | None,
        clock: Callable[[], float],
        message: tuple[str, str] = ("", "plain"),
        recording: Recording | None = None,
    ) -> None:
        """``recording`` is a finished one that is only looked at; without it the run is recorded here."""
        super().__init__()
        self.scenario = scenario
        self.device = device
        self.seed = seed
        self.clock = clock
        self.runs = Runs()
        self.scrubber = Scrubber()
        self.views: list[RunView] = []
        self._remembers = start_step is None
        self._message = message
        self._explained = ""
        self._frame_timer: Timer | None = None
        self._look_timer: Timer | None = None
        self._recorders: Recorders | None = None
        self._announced: tuple[str, str] = ("", "")
        self._left = False
        self._finds: list[str] = []
        self._conditions: list[str] = []
        self._pending = ""
        self._wants_difference = False
        self._asking = False
        self.notice = ""
        self._first_run(variant, overrides, start_step, recording)

    def _first_run(self, variant: str | None, overrides: Mapping[str, object], start_step: int | None, recording: Recording | None) -> None:
        place = remembered(self.scenario.name) if self._remembers and not overrides else Position()
        known = self.scenario.variant_names
        chosen = variant or (place.variant if place.variant in known else known[0])
        run = self.make_run(chosen if chosen in known else known[0], overrides, recording=recording)
        if variant is not None and variant not in known:
            self._message = (f"{self.scenario.name} has no variant {variant!r}: {', '.join(known)}", "bad")
        run.player.bookmarks = place.bookmarks
        step = start_step if start_step is not None else place.step if chosen == place.variant else 0
        if step:
            run.player.want(step)
            if start_step is None and not self._message[0]:
                start = shown(next(reversed(self.notes.keys["start"]), "home"))
                self._message = (f"continued at step {step + 1:,}; {start} goes to the start", "dim")
        self.runs.front = run

    def make_run(self, variant: str, overrides: Mapping[str, object], label: str = "", recording: Recording | None = None) -> Run:
        """A run that is not started yet (or one that is recorded already), among the runs of this stage."""
        made = Run(
            self.scenario, variant, overrides, device=self.device, seed=self.seed, label=label, clock=self.clock, recording=recording
        )
        return self.runs.add(made)

    # composition ---------------------------------------------------------------------------------------------------

    def body(self) -> ComposeResult:
        self._show_header()
        yield Horizontal(id="runs")
        yield self.scrubber

    def on_mount(self) -> None:
        self._recorders = Recorders(self._from_a_thread, self.notes.right_of_way)
        self.notes.recorders.append(self._recorders)
        if self.notes.quick_keys is None:
            self.notes.quick_keys = QuickKeys(self.notes.keys)
        if not self.front.done:
            self.start(self.front)
        self.call_later(self.set_out)

    @property
    def front(self) -> Run:
        assert self.runs.front is not None, "a stage has a run in front from its first moment"
        return self.runs.front

    @property
    def player(self) -> Player:
        return self.front.player

    def start(self, run: Run) -> None:
        """Record ``run`` in a worker thread, and look at it while it grows."""
        assert self._recorders is not None
        self._recorders.start(run)
        self._look_soon()

    async def set_out(self) -> None:
        """Mount one view a run in sight (one, or two side by side), keeping those that are there."""
        place = self.query("#runs").first(Horizontal) if self.query("#runs") else None
        if self._left or place is None:  # left again before it was set out
            return
        wanted = [run for run in (self.runs.front, self.runs.beside) if run is not None]
        for view in self.views:
            if view.run not in wanted:
                await view.remove()
        kept = {view.run: view for view in self.views}
        self.views = [kept.get(run) or RunView(run) for run in wanted]
        for number, view in enumerate(self.views):
            view.set_class(len(wanted) > 1, "-pair")
            if not view.is_mounted:
                await place.mount(view, before=0 if number == 0 and place.children else None)
                await view.build()
        self._announced = ("", "")
        self.resized(*self.size)
        self.paint()

    def resized(self, width: int, height: int) -> None:
        tall = len(self.views) > 1 or width < WIDE[0] or height < WIDE[1]
        side, panel = (next(iter(self.notes.keys[action]), "") for action in ("side_tab", "focus_panel"))
        for view in self.views:
            view.side_key, view.panel_key = (shown(key) if key else "" for key in (side, panel))
            if view.is_mounted:
                view.set_tall(tall, height)
                view.forget_shown()
        super().resized(width, height)
        self.call_after_refresh(self.paint)

    def _from_a_thread(self, message: Message) -> None:
        """A run may end after its stage, or the whole app, has."""
        with contextlib.suppress(NoActiveAppError, RuntimeError):
            self.post_message(message)

    # growing and ending --------------------------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if self._look_timer is None and not self._left:
            waiting = any(not len(view.run.recording) or not view.boxes for view in self.views) or not self.views
            self._look_timer = self.set_timer(FIRST_LOOKS if waiting else 1 / self.notes.config.fps, self._look)

    async def _look(self) -> None:
        """A recording may have grown: new panels, more steps; then look again while one of the runs is not done."""
        self._look_timer = None
        for view in self.views:
            await view.build()
        if not self.notes.writes_waiting():
            self.paint()
            self.show_footer()
        self.grown()
        if any(not run.done for run in self.runs.all):
            self._look_soon()

    async def on_run_ended(self, message: RunEnded) -> None:
        for view in self.views:
            await view.build()
            view.forget_shown()
        if message.run.error:
            self.say(message.run.error, "bad")
        self._announced = ("", "")
        self.paint()
        self.show_footer()
        self.grown()

    async def settled(self) -> None:
        """Return once every run is done, its panels are mounted and the screen is painted."""
        while not self.notes.ended and (not self.views or any(not run.done for run in self.runs.all)):
            await asyncio.sleep(0.01)
        for view in self.views:
            await view.build()
        for _ in range(2):
            painted = asyncio.Event()
            self.paint()
            if self.notes.ended or not self.call_after_refresh(painted.set):
                return
            await painted.wait()

    # playing -------------------------------------------------------------------------------------------------------

    def arm(self) -> None:
        """One frame ahead while playing; no timer otherwise."""
        if self.player.playing and self._frame_timer is None and not self._left:
            self._frame_timer = self.set_timer(1 / self.notes.config.fps, self._frame)

    def _frame(self) -> None:
        self._frame_timer = None
        if not self.notes.writes_waiting():  # on a slow link the next frame is the newest state, not one more in the queue
            self.paint()
        self.call_after_refresh(self.arm)

    def paint(self) -> None:
        """Show the step the player stands at; every part sends only what changed."""
        if self._left or not self.views or not self.is_mounted:
            return
        with self.one_frame():
            self._paint()

    def _paint(self) -> None:
        player = self.player
        step = player.tick()
        if self.runs.beside is not None:
            self.runs.beside.player.seek(self.runs.step_beside())
        self._announce(step)
        for view in self.views:
            view.show()
        if len(player.recording):
            self.scrubber.bookmarks = player.bookmarks
            self.scrubber.show(player.recording, step, playing=player.playing, speed=player.speed)
        self._show_header()

    def _announce(self, step: int) -> None:
        """The question first, the takeaway at the end, a failure always; each said once."""
        run = self.front
        said = ("", "note")
        if run.error:
            said = (run.error, "bad")
        elif step == 0 and self.notice:
            said = (self.notice, "bad")
        elif step == 0 and self.scenario.question:
            said = (self.scenario.question, "question")
        elif run.player.at_end and self.scenario.takeaway:
            said = (self.scenario.takeaway, "takeaway")
        if said != self._announced:
            self._announced = said
            self.views[0].narration.announce(*said)

    def go(self, move: Callable[[Player], object]) -> None:
        """Move the front run's playhead and show where it came to."""
        if self.message:
            self.say("")
        self._pending = ""
        move(self.player)
        self.paint()
        self.notes.right_of_way.give_back()
        self.arm()

    def grown(self) -> None:
        """More steps are recorded, or a run has ended: what waited for it may go on."""

    def on_scrubber_sought(self, message: Scrubber.Sought) -> None:
        self.go(lambda player: player.seek(message.step))

    # header and footer ---------------------------------------------------------------------------------------------

    def _show_header(self) -> None:
        run, pair = self.front, self.runs.pair
        right: list[Part] = []
        if pair is not None:
            right.append((f"{pair[0].label} | {pair[1].label}", "selected"))
        elif self.scenario.variants or run.label != "default":
            right.append((f"{run.label} ▾", "selected"))
        if run.overrides and pair is None and run.label == run.variant:
            right.append((f" {', '.join(f'{name} {parameter_text(value)}' for name, value in run.overrides.items())}", "selected"))
        dtype = run.recording.params.get("dtype")
        right.append((f"   {run.device}" + (f" · {dtype}" if dtype else ""), "dim"))
        right += [("   ", "plain"), *self._verdict(run), (" ", "plain")]
        self.header.set(self._crumbs(self.size.width - sum(cell_len(text) for text, _ in right)), right)

    def _crumbs(self, room: int) -> list[Part]:
        """Where this is, with as much of the way there as fits."""
        *openers, last = self.way()
        title: Part = (last, "plain")
        before: list[Part] = [part for opener in openers for part in ((opener, "dim"), (" › ", "dim"))]
        family: list[Part] = [(FAMILIES.get(self.scenario.family, self.scenario.family), "dim"), (" › ", "dim")]
        home: list[Part] = [("notes-tui", "strong"), (" › ", "dim")]
        tries = [[*home, *family, *before, title], [*family, *before, title]]
        tries += [[*before, title], [("… › ", "dim"), *before[-2:], title], [("… › ", "dim"), title]] if openers else [[*home, title]]
        for way in tries:
            if 2 + sum(cell_len(text) for text, _ in way) <= room:
                return [(" ", "plain"), *way]
        return [(" ", "plain"), title]

    def way(self) -> list[str]:
        """The title of this stage, after those of the stages that it was opened from."""
        return [self.scenario.title or self.scenario.name]

    def _verdict(self, run: Run) -> list[Part]:
        if not run.done:
            done, text = run.recording.progress
            share = f" {format_value(done, '%')}" if done else ""
            return [(f"recording{share}{' ' + text if text else ''}", "dim")]
        if run.error:
            return [("✗ stopped", "bad")]
        failed = run.failed_checks
        if failed:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            return [(f"✗ {failed[0].name}{more}", "bad")]
        count, expected = len(run.recording.checks), len(run.judged)
        parts = [(f"✓ {count} check{'' if count == 1 else 's'}", "good")] if count else []
        if expected and self.size.width >= WIDE[0]:
            parts += [(" · " if parts else "", "dim"), (f"✓ {expected} expected", "good")]
        return parts

    def hint(self) -> Sequence[Part]:
        if not self._explained:
            return ()
        focused, enter = self.focused, self.notes.keys["open_hops"]
        opens: list[Part] = []
        if isinstance(focused, GanttWidget) and focused.opens and enter:
            opens = [(f"   {shown(enter[0])}", "key"), (" opens it hop by hop", "dim")]
        room = self.size.width - 1 - sum(cell_len(text) for text, _ in opens)
        return [(" " + clip(self._explained, room), "selected"), *opens, ("   Esc leaves the panel", "dim")]

    def key_hint(self) -> list[Part]:
        return key_parts(self.notes.keys, self.SCOPE, self.size.width, self.not_offered())

    def not_offered(self) -> frozenset[str]:
        """What the footer leaves out: opening a collective while there is none to open."""
        opens = any(isinstance(box.panel.view, Gantt) and box.panel.view.children for view in self.views for box in view.boxes)
        return self.LEFT_OUT if opens else self.LEFT_OUT | {"open_hops"}

    def on_view_widget_cursor_moved(self, message: ViewWidget.CursorMoved) -> None:
        if message.widget.has_focus:
            self._explained = message.text or "the arrows move here"
            self.say("")

    # focus ---------------------------------------------------------------------------------------------------------

    def focused_box(self) -> PanelBox | None:
        return next((box for view in self.views for box in view.boxes if box.view.has_focus), None)

    def focused_kind(self) -> tuple[str, str]:
        """Kind and title of the focused panel; empty without one."""
        box = self.focused_box()
        return (box.panel.view.kind, box.panel.title) if box is not None else ("", "")

    def action_focus_panel(self) -> None:
        self._focus(1)

    def action_focus_panel_back(self) -> None:
        self._focus(-1)

    def _focus(self, direction: int) -> None:
        parts = [(view, part) for view in self.views for part in view.parts()]
        if not parts:
            return
        at = next((n for n, (_, part) in enumerate(parts) if part is self.focused), None)
        if at is not None:
            view, part = parts[(at + direction) % len(parts)]
        else:
            first = self.views[0].active if self.views[0].boxes else 0
            view, part = parts[first if direction > 0 else -1]
        view.activate(part)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for view in self.views:
            view.light(event.widget)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        self._explained = ""
        for view in self.views:
            view.light(None)
        self.show_footer()

    def action_side_tab(self) -> None:
        for view in self.views:
            if view.tall:
                view.toggle_numbers()

    def remember_position(self) -> None:
        run = self.runs.front
        if self._remembers and run is not None and len(run.recording) and not run.overrides:
            step = 0 if run.player.at_end else run.player.step
            remember(self.scenario.name, Position(step, run.variant, run.player.bookmarks))

    def on_unmount(self) -> None:
        self._left = True
        self.runs.cancel()

    def forget(self) -> None:
        super().forget()
        for view in self.views:
            view.forget()
