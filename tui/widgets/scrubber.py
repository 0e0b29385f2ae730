"""The line of playback: state, speed, the track with its phases and the playhead, the count and the time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message

from core.formatting import digits
from core.recording import Recording
from tui.widgets.fitting import Row
from tui.widgets.rows import RowsWidget


@dataclass(frozen=True, slots=True)
class Track:
    """The track as characters. ``known`` cells stand for the steps recorded so far, the rest for those to come."""

    cells: str
    known: int
    head: int
    current: tuple[int, int]
    marks: frozenset[int]


class Scrubber(RowsWidget):
    """A click on the track asks for its step with `Sought`."""

    DEFAULT_CSS = "Scrubber { height: 1; width: 1fr; }"

    class Sought(Message):
        """A step was picked on the track."""

        def __init__(self, step: int) -> None:
            self.step = step
            super().__init__()

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._bookmarks: tuple[int, ...] = ()
        self._recording: Recording | None = None
        self._step = 0
        self._playing = False
        self._speed = 1.0
        self._left = self._right = ""
        self._time_width = 0
        self._track = Track("", 0, 0, (0, 0), frozenset())
        self._skeleton: tuple[Hashable, str, list[tuple[int, int]]] = (None, "", [])

    @property
    def bookmarks(self) -> tuple[int, ...]:
        """Steps that carry a mark on the track."""
        return self._bookmarks

    @bookmarks.setter
    def bookmarks(self, steps: tuple[int, ...]) -> None:
        self._bookmarks = tuple(steps)
        self.repaint()

    def show(self, recording: Recording, step: int, playing: bool = False, speed: float = 1.0) -> None:
        """The playhead at ``step``; of a recording that still grows, also how far it is."""
        if recording is not self._recording:
            self._recording, self._time_width = recording, 0
        self._step, self._playing, self._speed = step, playing, speed
        self.repaint()

    def plan(self, size: Size) -> None:
        recording = self._recording
        if recording is None:
            self._left = self._right = ""
            return
        # the state and the count belong to the line even where it is too short for the rest
        play, speed = (" ▶" if self._playing else " ‖"), f"{digits(self._speed)}×"
        count, time = self._count(recording), self._time(recording, None if size.width >= 100 else 3)
        self._left = f"{play}  {speed:<3} " if size.width >= 50 else f"{play} "
        self._right = f"  {count}  {time}" if time and size.width >= 50 else f"  {count}"
        width = size.width - cell_len(self._left) - cell_len(self._right) - 1
        self._track = self._laid_out(recording, max(width, 0))

    def row_key(self, y: int) -> Hashable:
        return (self._left, self._track, self._right) if y == 0 else None

    def draw_row(self, y: int) -> list[Segment]:
        if y or self._recording is None:
            return []
        row, palette, track = Row(), self.palette, self._track
        row.add(self._left, palette.style("selected" if self._playing else "plain", bold=True))
        looks = {
            "head": ("selected", True), "mark": ("own", True), "here": ("plain", True), "played": ("plain", False), "ahead": ("dim", False),
        }  # fmt: skip
        for look, run in groupby(range(len(track.cells)), self._look_of):
            role, bold = looks[look]
            text = {"head": "●", "mark": "◆"}
            row.add("".join(text.get(look, track.cells[at]) for at in run), palette.style(role, bold=bold))
        return row.add(self._right, palette.style("plain")).segments

    def _look_of(self, at: int) -> str:
        """What cell ``at`` of the track is: the playhead, a bookmark, of the current phase (not its line), played, or still ahead."""
        track = self._track
        first, last = track.current
        if at == track.head:
            return "head"
        if at in track.marks:
            return "mark"
        if at >= track.known:
            return "ahead"
        if first <= at < last and track.cells[at] not in "├┤┼┬─━":
            return "here"
        return "played" if at < track.head else "ahead"

    def on_click(self, event: events.Click) -> None:
        recording = self._recording
        width = len(self._track.cells)
        at = event.x - cell_len(self._left)
        if recording is None or not len(recording) or not 0 <= at < width:
            return
        known = max(self._track.known, 1)
        step = round(min(at / max(known - 1, 1), 1.0) * (len(recording) - 1))
        self.post_message(self.Sought(step))

    # pieces --------------------------------------------------------------------------------------------------------

    def _count(self, recording: Recording) -> str:
        total = len(recording)
        now = f"{min(self._step + 1, total):,}"
        growing = recording.state == "recording"
        percent = f"  recording {recording.progress[0] * 100:.0f} %" if growing and recording.progress[0] > 0 else ""
        whole = f"{total:,}" + ("…" if growing else "")
        return f"{now:>{len(f'{total:,}')}}/{whole}{percent}"

    def _time(self, recording: Recording, places: int | None) -> str:
        """The step's time, as wide as the longest seen; ``places``: digits of a clock's second (None: all it has)."""
        if not len(recording) or not recording.has_time:
            return ""
        now, end = (recording.time_text(min(max(step, 0), len(recording) - 1), places) for step in (self._step, len(recording) - 1))
        self._time_width = max(self._time_width, cell_len(now), cell_len(end))
        return now + " " * (self._time_width - cell_len(now))

    def _laid_out(self, recording: Recording, width: int) -> Track:
        total = len(recording)
        done = recording.progress[0] if recording.state == "recording" else 1.0
        known = max(round(width * done), 1) if done > 0 else width
        if not width or not total:
            return Track("·" * width, 0, -1, (0, 0), frozenset())
        cells, spans = self._phases(recording, known)
        head = _cell(min(max(self._step, 0), total - 1), total, known)
        at = bisect_right([phase.first for phase in recording.phases[: len(spans)]], self._step) - 1
        current = spans[at] if at >= 0 else (0, 0)
        marks = frozenset(_cell(step, total, known) for step in self._bookmarks if 0 <= step < total)
        played = "".join("━" if mark == "─" and k < head else mark for k, mark in enumerate(cells))
        return Track(played + "·" * (width - known), known, head, current, marks)

    def _phases(self, recording: Recording, width: int) -> tuple[str, list[tuple[int, int]]]:
        """The bare track over ``width`` cells and where each phase lies on it; kept until something of it changes."""
        total = len(recording)
        phases = list(recording.phases)  # a copy: it grows while it is read
        key = (id(recording), total, len(phases), width, self._bookmarks)
        if self._skeleton[0] == key:
            return self._skeleton[1], self._skeleton[2]
        starts = [_cell(min(phase.first, total - 1), total, width) for phase in phases]
        spans = list(zip(starts, [*starts[1:], width], strict=False))
        cells = ["─"] * width
        crowded = len(set(starts)) > width // 4
        for start in starts:
            cells[start] = "┴" if crowded else "┼"
        cells[0], cells[-1] = "├", "┤"
        marked = {_cell(step, total, width) for step in self._bookmarks if 0 <= step < total}
        for phase, (start, end) in zip(phases, spans, strict=True):
            name, room = phase.name, end - start - 1 - (end == width)
            if name.isprintable() and cell_len(name) == len(name) and cell_len(name) + 2 <= room and not crowded:
                left = _free(start + 1, room, len(name), marked)
                if left is not None:
                    cells[left : left + len(name)] = name
        self._skeleton = (key, "".join(cells), spans)
        return self._skeleton[1], spans


def _cell(step: int, total: int, width: int) -> int:
    """The cell of ``step`` on a track of ``width`` cells: the first step at its left end, the last at its right."""
    return round(step / (total - 1) * (width - 1)) if total > 1 else 0


def _free(start: int, room: int, size: int, marked: set[int]) -> int | None:
    """Where a name of ``size`` cells begins: as near the middle of its room as the bookmarks let it; None: they do not."""
    middle = start + (room - size) // 2
    places = sorted(range(start + 1, start + room - size), key=lambda left: abs(left - middle))
    return next((left for left in places if marked.isdisjoint(range(left, left + size))), None)
