"""The action that opens a collective hop by hop: on a stage of its own, over the one whose schedule it stands in."""

from __future__ import annotations

from functools import partial

from core.formatting import FORMATTER
from core.recording import Recording
from core.views import Gantt
from tui.keys import shown
from tui.screens.stage_base import StageBase
from tui.widgets.gantt import GanttWidget

_TITLE = "{text} of {lane}"


class Drilling(StageBase):
    """Part of the stage screen."""

    _opening = False

    def action_open_hops(self) -> None:
        """Open the collective under the cursor; without a schedule in focus, that of this step."""
        found = self._under_the_cursor() or self._of_this_step()
        if self._opening or found is None:
            return
        gantt, index = found
        if not gantt.opens(index):
            self.say(self._why_not(gantt, index), "dim")
            return
        self._opening = True
        self.player.pause()
        self.paint()
        self.run_worker(partial(self._make, gantt, index), thread=True, exit_on_error=False)

    def _under_the_cursor(self) -> tuple[Gantt, int] | None:
        box = self.focused_box()
        if box is None or not isinstance(box.view, GanttWidget):
            return None
        view = box.view.view
        return (view, box.view.cursor) if isinstance(view, Gantt) else None

    def _of_this_step(self) -> tuple[Gantt, int] | None:
        """The first span of this step that opens, else any schedule with -1; None where there is no schedule."""
        gantts = [(view.run.player.step, box.panel.view) for view in self.views for box in view.boxes if isinstance(box.panel.view, Gantt)]
        for step, gantt in gantts:
            try:
                opening = next((index for index in gantt.current(gantt.at(step)) if gantt.opens(index)), None)
            except Exception:  # its box says that it cannot be looked at
                continue
            if opening is not None:
                return gantt, opening
        return (gantts[0][1], -1) if gantts else None

    def _why_not(self, gantt: Gantt, index: int) -> str:
        if not gantt.children:
            return "nothing in this schedule opens hop by hop"
        if index < 0:
            key = shown(next(iter(self.notes.keys["focus_panel"]), "tab"))
            return f"this step has no collective that opens; {key} to the schedule and choose one"
        if gantt.role_at(index) == "comm":
            return "of this one no tensors were kept: it does not open"
        return "this is no collective: it does not open"

    def _make(self, gantt: Gantt, index: int) -> None:
        """In a thread: the recording is made when it is first asked for."""
        try:
            recording = gantt.child(index)
        except Exception as error:  # one collective that cannot be replayed is told, not fatal
            self.app.call_from_thread(self._opened, None, f"{title_of(gantt, index)} does not open: {error}")
        else:
            self.app.call_from_thread(self._opened, recording, title_of(gantt, index))

    def _opened(self, recording: Recording | None, text: str) -> None:
        from tui.screens.hops import HopStage

        self._opening = False
        if recording is None:
            self.say(text, "bad")
        elif self.app.screen is self:
            self.say("")
            self.app.push_screen(HopStage(self, text, recording))


def title_of(gantt: Gantt, index: int) -> str:
    """What an opened span is called: ``AR1 of rank 0``, its lane by the name that the lanes of its group have in common."""
    span = gantt.get(index)
    return FORMATTER.fill(_TITLE, {"text": span.text, "lane": _owner(gantt, span.lane)})


def _owner(gantt: Gantt, lane: int) -> str:
    own = gantt.lanes.label(lane)
    if not gantt.lane_groups:
        return own
    mates = [n for n, group in enumerate(gantt.lane_groups) if group == gantt.lane_groups[lane] and n != lane]
    words = own.split()
    for mate in mates:
        other = gantt.lanes.label(mate).split()
        same = next((n for n, pair in enumerate(zip(words, other, strict=False)) if pair[0] != pair[1]), min(len(words), len(other)))
        words = words[:same]
    return " ".join(words) or own
