"""One run on the stage: its panels, and beside or under them what happens and the numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from core.recording import Panel, Recording
from core.views import View
from tui.keys import bindings
from tui.runs import Run
from tui.screens.lines import Edge, Part, Rule
from tui.widgets.base import ViewWidget
from tui.widgets.facts import Facts
from tui.widgets.narration import Narration
from tui.widgets.shelter import sheltered

LOWEST_PANEL = 6
"""Rows a panel needs, its rule included; with less, one panel is shown at a time."""
SIDE_ROWS = 9
"""Rows of narration and numbers where they stand under the panels."""
AROUND = 3
"""Rows of a screen that are not the runs: header, scrubber and footer. (A hidden container is never told its own size.)"""


GROWTH_EVERY = 0.5
"""Seconds after which panels show again what a growing recording has got, while the step stays."""


class Framed(Horizontal):
    """A widget between its two edges; what it is called and its foot are rules above and below."""

    DEFAULT_CSS = "Framed { width: 1fr; height: 1fr; }"

    def __init__(self, *inside: Widget, id: str | None = None) -> None:
        self.edges = (Edge(), Edge())
        super().__init__(self.edges[0], *inside, self.edges[1], id=id)

    def light(self, lit: bool) -> None:
        for edge in self.edges:
            edge.light(lit)


class PanelBox(Vertical):
    """A titled panel: a rule and the view under it. Where it stands alone its rule opens the box."""

    DEFAULT_CSS = """
    PanelBox { width: 1fr; height: 1fr; }
    """

    def __init__(self, panel: Panel, place: str) -> None:
        super().__init__()
        self.panel = panel
        self.rule = Rule(panel.title, place)
        self.view = sheltered(panel.view)
        self.frame = Framed(self.view)

    def compose(self) -> ComposeResult:
        yield self.rule
        yield self.frame

    def light(self, lit: bool) -> None:
        self.rule.show(lit=lit)
        self.frame.light(lit)


class Told(Narration):
    """Narration whose heading stands in the rule above it, so that a new heading does not repaint the text."""

    border_title: str | None = None  # type: ignore[assignment]


Focusable = ViewWidget[View] | Narration | Facts


class Row(Horizontal):
    """Panels that stand beside each other."""

    DEFAULT_CSS = "Row { width: 1fr; }"

    def __init__(self, boxes: Sequence[PanelBox]) -> None:
        super().__init__(*boxes)
        self.boxes = list(boxes)

    @property
    def weight(self) -> float:
        return max(box.panel.weight for box in self.boxes)


class RunView(Widget):
    """Panels with narration and numbers. ``tall`` puts the latter under the panels, one at a time.

    The arrow keys move the cursor of the focused one.
    """

    BINDINGS = bindings("panel")
    DEFAULT_CSS = """
    RunView { width: 1fr; height: 1fr; layout: horizontal; }
    RunView > .panels { width: 1fr; height: 1fr; }
    RunView > .side { width: 30%; min-width: 34; max-width: 60; height: 1fr; }
    RunView.-tall { layout: vertical; }
    RunView.-tall > .side { width: 1fr; max-width: 100%; }
    RunView.-tall #numbers-rule { display: none; }
    RunView.-tall > .panels > .end { display: none; }
    RunView > .panels > .early { display: none; }
    RunView.-tall #numbers { display: none; }
    RunView.-tall.-numbers #numbers { display: block; }
    RunView.-tall.-numbers #told { display: none; }
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.panels = Vertical(classes="panels")
        self._end = Rule("", "bottom").add_class("end", "early")
        self.title_rule = Rule("", "top")
        self.numbers_rule = Rule("Numbers", "middle", id="numbers-rule")
        self.narration = Told()
        self.facts = Facts()
        self.told_frame = Framed(self.narration, id="told")
        self.numbers_frame = Framed(self.facts, id="numbers")
        self.boxes: list[PanelBox] = []
        self.rows: list[Row] = []
        self.active = 0
        self._building = asyncio.Lock()
        self._grown_at = 0.0
        self._shown: tuple[int, int, bool, str] | None = None
        self.side_key = ""
        self.panel_key = ""
        self.several = False
        self._side_rows = SIDE_ROWS
        self._height = 0

    def compose(self) -> ComposeResult:
        with self.panels:
            yield self._end
        with Vertical(classes="side"):
            yield self.title_rule
            yield self.told_frame
            yield self.numbers_rule
            yield self.numbers_frame
            yield Rule("", "bottom")

    # layout --------------------------------------------------------------------------------------------------------

    @property
    def tall(self) -> bool:
        return self.has_class("-tall")

    def set_tall(self, tall: bool, height: int) -> None:
        """Narration and numbers under the panels (of a screen with ``height`` rows), or beside them."""
        self.set_class(tall, "-tall")
        self.title_rule.move("middle" if tall else "top")
        self._height = height - AROUND
        self._side_rows = min(SIDE_ROWS, max(height // 3, 6))
        self.query_one(".side").styles.height = self._side_rows if tall else "1fr"
        self.choose_panels()

    def toggle_numbers(self) -> None:
        self.toggle_class("-numbers")
        self._shown = None
        self.show()

    async def build(self) -> bool:
        """Mount the panels that the recording has got since the last time; True when there are any. Those that stand keep their place.

        Several ask for this at the same time (a look, the end of the run, who waits for it): one after the other.
        """
        async with self._building:
            fresh = self.run.recording.panels[len(self.boxes) :]
            if not fresh or not self._end.is_attached:
                return False
            rows: list[Row] = []
            for panel in fresh:
                box = PanelBox(panel, "top" if not self.rows and not rows else "middle")
                self.boxes.append(box)
                if not panel.beside or not (rows or self.rows):
                    rows.append(Row([box]))
                elif rows:
                    rows[-1].compose_add_child(box)
                    rows[-1].boxes.append(box)
                else:
                    self.rows[-1].boxes.append(box)
                    await self.rows[-1].mount(box)
            self.rows += rows
            self._end.remove_class("early")
            await self.panels.mount(*rows, before=self._end)
            self.choose_panels()
            self._shown = None
            return True

    def choose_panels(self) -> None:
        """Show all panels, or where they would be too low only the active one."""
        if not self.rows:
            return
        room = max(self._height - (self._side_rows if self.tall else 1), 0)
        heights = shares(room, [row.weight for row in self.rows], LOWEST_PANEL)
        self.several = len(self.rows) > 1 and min(heights) < LOWEST_PANEL
        for row, height in zip(self.rows, heights, strict=True):
            row.styles.height = "1fr" if self.several else height
        self.active = min(self.active, max(len(self.boxes) - 1, 0))
        for row in self.rows:
            row.display = not self.several or self.boxes[self.active] in row.boxes
        for number, box in enumerate(self.boxes):
            box.rule.move("top" if self.several or box in self.rows[0].boxes else "middle")
            box.rule.show(note=self._place(number) if self.several else [])

    def _place(self, number: int) -> list[Part]:
        """Where a row that is shown alone stands among the panels, said at its end."""
        row = next(row for row in self.rows if self.boxes[number] in row.boxes)
        if row.boxes[-1] is not self.boxes[number]:
            return []
        first = number + 2 - len(row.boxes)
        place = f"{first}" if len(row.boxes) == 1 else f"{first}–{number + 1}"
        return [(f"{self.panel_key} ", "key"), (f"{place} of {len(self.boxes)}", "dim")]

    def parts(self) -> list[Focusable]:
        """What can be focused, in the order of the Tab key: the panels, the narration, the numbers."""
        return [*(box.view for box in self.boxes), self.narration, self.facts]

    def activate(self, part: Focusable) -> None:
        """Bring ``part`` to where it can be seen, and focus it."""
        number = next((n for n, box in enumerate(self.boxes) if box.view is part), -1)
        if number >= 0 and number != self.active:
            self.active = number
            self.choose_panels()
        elif number < 0 and self.tall:
            self.set_class(part is self.facts, "-numbers")
        self.forget_shown()
        self.show()
        part.focus()

    def light(self, focused: Widget | None) -> None:
        """The rule over the focused part is lit."""
        for box in self.boxes:
            box.light(box.view is focused)
        self.title_rule.show(lit=focused is self.narration or (self.tall and focused is self.facts))
        self.told_frame.light(focused is self.narration)
        self.numbers_rule.show(lit=focused is self.facts)
        self.numbers_frame.light(focused is self.facts)

    async def _cursor(self, dx: int, dy: int) -> None:
        """Move the focused part's cursor; a part without one leaves left and right to stepping."""
        part = self.screen.focused
        if not isinstance(part, ViewWidget | Narration | Facts):
            return
        explained = part.explain() if isinstance(part, ViewWidget) else ""
        if not part.cursor_by(dx, dy) and dx and not explained:
            await self.screen.run_action("forward" if dx > 0 else "back")

    async def action_cursor_left(self) -> None:
        await self._cursor(-1, 0)

    async def action_cursor_right(self) -> None:
        await self._cursor(1, 0)

    async def action_cursor_up(self) -> None:
        await self._cursor(0, -1)

    async def action_cursor_down(self) -> None:
        await self._cursor(0, 1)

    # painting ------------------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Draw the step of the run's player; each part sends only what changed."""
        recording, step = self.run.recording, self.run.player.step
        length = len(recording)
        shown = (step, length, recording.state != "recording", "" if length else recording.progress[1])
        if shown == self._shown:
            return
        last = self._shown
        self._shown = shown
        self._show_title(step, length)
        if not length:
            if recording.state == "recording":  # what it does before its first step (compiling, reading) may take a while
                self.narration.show(recording, step)
            return
        if last is None or last[0] != step or last[2] != shown[2] or self._grown():
            for box in (box for row in self.rows if row.display for box in row.boxes):
                box.view.show(step)
        numbers = self.has_class("-numbers") and self.tall
        if not (self.tall and numbers):
            self.narration.show(recording, step)
        if not self.tall or numbers:
            self.facts.show(recording, step)

    def _grown(self) -> bool:
        """Whether it is time to show what a recording got while the step stayed: its end always shows, the rest now and then."""
        now = monotonic()
        if now - self._grown_at < GROWTH_EVERY:
            return False
        self._grown_at = now
        return True

    def _show_title(self, step: int, length: int) -> None:
        recording = self.run.recording
        if not length:
            titles: list[list[Part]] = [[({"recording": "recording…", "failed": "failed"}.get(recording.state, "no steps"), "dim")]]
        else:
            growing = "" if recording.state != "recording" else "…"
            counts = (f"Step {step + 1:,} of {length:,}{growing}", f"{step + 1:,}/{length:,}{growing}")
            titles = [[(count, "strong"), *([(name, "plain")] if name else [])] for name in _names(recording, step) for count in counts]
        if self.run.label != "default" and self.has_class("-pair"):
            titles = [[(f"{self.run.label} ", "selected"), *title] for title in titles]
        note: list[Part] = []
        if self.tall:
            other = "narration" if self.has_class("-numbers") else "numbers"
            note = [(self.side_key + " ", "key"), (other, "dim")] if self.side_key else [(other, "dim")]
        self.title_rule.show(*titles, note=note)

    def forget_shown(self) -> None:
        """What was shown last says nothing any more (another size, another layout): the next `show` looks at everything."""
        self._shown = None

    def forget(self) -> None:
        """Colours may have changed: everything again."""
        self._shown = None
        for part in self.parts():
            part.forget()
        self.show()


def _names(recording: Recording, step: int) -> list[str]:
    """What stands behind the count of steps, the longest first: the phase, or the time of day where the steps have one."""
    phase = recording.phase(step)
    name = f" · {phase.name}" if phase is not None else ""
    if not recording.clock:
        return [name]
    times = [f" · {recording.time_text(step, places)}" for places in (None, 3, 0)]
    return times if ":" in name else [*(time + name for time in times if name), *times]  # a phase may be an hour of this very clock


def shares(room: int, weights: Sequence[float], least: int = 0) -> list[int]:
    """``room`` rows divided in proportion to ``weights``, all of them given out; each gets ``least`` where that is possible."""
    if room < least * len(weights):
        least = 0
    room -= least * len(weights)
    total = sum(weights)
    wanted = [max(weight / total * (room + least * len(weights)) - least, 0.0) for weight in weights]
    scale = room / max(sum(wanted), 1e-9)
    ends = [round(sum(wanted[: n + 1]) * scale) for n in range(len(weights))]
    return [least + end - start for start, end in zip([0, *ends], ends, strict=False)]
