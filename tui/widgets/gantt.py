"""Draws a Gantt view: lanes of coloured spans over time, turned by half pages, one or two rows a step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size

from core.formatting import FORMATTER, format_value
from core.recording import Recording
from core.views import Gantt, GanttFrame, Span
from tui.theme import GLYPHS, NAMES
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, clip, pad, turned
from tui.widgets.grid import window_name
from tui.widgets.legend import flow
from tui.widgets.spans import Sampled, State, draw_samples, span_text
from tui.widgets.timescale import Sample, TimeScale, choose, sample, ticks

_EXPLAINED = "{lane} · {text} · {start} → {end} · {role} · step {step}"
_AHEAD = 8
"""So many parts of the window: one of them right of the playhead is kept in view."""
_TO_COME = "still to come"


class Box(NamedTuple):
    """A span in the window: from column ``left`` to ``right`` (exclusive, clipped to the window)."""

    span: int
    left: int
    right: int
    role: str
    text: str


class LaneWindow(NamedTuple):
    """What one lane shows in the time window; ``order`` are its span indices sorted, to count the known ones."""

    key: Hashable
    boxes: list[Box]
    order: list[int]


class GanttWidget(ViewWidget[Gantt]):
    """Spans that have happened are blocks, the others are outlines; the current ones stand out, ▾ on the axis is the playhead."""

    def __init__(self, view: Gantt, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(view, id=id, classes=classes)
        self.cursor = -1
        """Index of the span under the cursor, -1 without."""
        self._reset()

    def _reset(self) -> None:
        self._seen: tuple[int, Sample] | None = None
        self._scale = TimeScale(1.0, True)
        self._left = 0
        self._top = 0
        self._rows: list[int] = []
        self._windows: dict[int, LaneWindow] = {}
        self._now = range(0)
        self._labels: list[str] = []
        self._label_width = 0
        self._cursor_time = 0.0

    @property
    def opens(self) -> bool:
        """Whether the span under the cursor opens step by step."""
        return self.view.opens(self.cursor)

    @property
    def child(self) -> Recording | None:
        """The recording that the span under the cursor opens step by step, if it has one; made on the first call."""
        return self.view.child(self.cursor)

    def forget(self) -> None:
        self._reset()
        super().forget()

    # where everything is -----------------------------------------------------------------------------------------------

    def plan(self, size: Size) -> None:
        view, frame = self.view, self._frame
        lanes = len(view.lanes)
        if not self._labels:
            self._labels = [view.lanes.label(lane) for lane in range(lanes)]
        longest = max((cell_len(label) for label in self._labels), default=0)
        self._label_width = max(min(longest, size.width // 3), 4) + 2
        self._width = max(size.width - self._label_width, 1)
        if self._seen is None or len(view) >= 2 * self._seen[0] or (len(view) != self._seen[0] and len(view) < 2000):
            self._seen = (len(view), sample(view))
        self._stack(size.height, lanes)
        shown = min(lanes, max(size.height - 1, 1))
        self._scale = choose(self._seen[1], view.end, self._width, shown, max(len(view) // max(lanes, 1), 1))
        current = view.current(frame)
        self._now = current if len(current) <= lanes else current[:1]
        self._follow(frame)

    def _stack(self, height: int, lanes: int) -> None:
        """Which lane each row shows (-1: none): apart when there is room, groups apart when there is a little."""
        room = max(height - 1, 0)
        groups = self.view.lane_groups
        gaps = [lane for lane in range(1, lanes) if not groups or groups[lane] != groups[lane - 1]]
        if lanes + len(gaps) + 1 <= room and (groups or lanes <= 16):
            self._rows = []
            for lane in range(lanes):
                self._rows += [-1, lane] if lane in gaps else [lane]
        else:
            self._rows = list(range(min(self._top, max(lanes - room, 0)), lanes))[:room]
        self._room = room

    def _follow(self, frame: GanttFrame) -> None:
        """Turn the windows so that the playhead, or the cursor of a focused widget, is in them."""
        view, lanes = self.view, len(self.view.lanes)
        lane, first, last = frame.lane, frame.time, frame.time
        if self._pointing:
            span = view.get(self.cursor)
            lane, first, last = span.lane, span.start, span.end
        elif frame.span >= 0:
            last = view.get(frame.span).end
        if lanes > self._room > 0:
            if lane >= 0:
                self._top = turned(self._top, self._room, lanes, lane)
            self._rows = list(range(self._top, lanes))[: self._room]
        total = max(self._scale.column(view.end), self._scale.column(first) + 1)
        ahead = self._width // _AHEAD if not self._pointing else 0
        last_column = min(max(self._scale.column(last) - 1, 0) + ahead, total - 1)
        self._left = turned(self._left, self._width, total, self._scale.column(first), last_column)

    @property
    def _frame(self) -> GanttFrame:
        assert isinstance(self.frame, GanttFrame)
        return self.frame

    @property
    def _pointing(self) -> bool:
        return self.has_focus and 0 <= self.cursor < len(self.view)

    def _window(self, lane: int) -> LaneWindow:
        """The boxes of a lane in the time window, kept until the window or the lane changes."""
        key = (self._left, self._width, self._scale, self.view.spans_in(lane))
        kept = self._windows.get(lane)
        if kept is not None and kept.key == key:
            return kept
        boxes = self._wide_boxes(lane) if self._scale.letters else self._narrow_boxes(lane)
        made = self._windows[lane] = LaneWindow(key, boxes, sorted({box.span for box in boxes}))
        return made

    def _wide_boxes(self, lane: int) -> list[Box]:
        scale, left = self._scale, self._left
        boxes = []
        for span in self.view.in_window(lane, left / scale.density, (left + self._width) / scale.density):
            start, end = max(scale.column(span.start) - left, 0), min(scale.column(span.end) - left, self._width)
            if end > start:
                boxes.append(Box(span.index, start, end, span.role, span.text))
        return boxes

    def _narrow_boxes(self, lane: int) -> list[Box]:
        """Zoomed out: each cell shows the span at the time of its middle."""
        boxes: list[Box] = []
        for column in range(self._width):
            index = self.view.span_at(lane, self._scale.middle(self._left + column))
            if index < 0:
                continue
            if boxes and boxes[-1].span == index:
                boxes[-1] = boxes[-1]._replace(right=column + 1)
            else:
                boxes.append(Box(index, column, column + 1, self.view.role_at(index), ""))
        return boxes

    # rows ----------------------------------------------------------------------------------------------------------------

    def row_key(self, y: int) -> Hashable:
        frame = self._frame
        if y == 0:
            return (self._left, self._scale, tuple(self._rows[:1]), self._scale.column(frame.time), self.view.end)
        if y > len(self._rows):
            return ("legend", y - len(self._rows), self._seen and self._seen[1].roles)
        lane = self._rows[y - 1]
        if lane < 0:
            return "gap"
        window = self._window(lane)
        known = bisect_left(window.order, frame.known)
        first, last = (bisect_left(window.order, index) for index in (self._now.start, self._now.stop))
        cursor = self.cursor if self._pointing and self.view.get(self.cursor).lane == lane else -1
        return (lane, window.key, known, first if last > first else -1, last if last > first else -1, lane == frame.lane, cursor)

    def draw_row(self, y: int) -> list[Segment]:
        if y == 0:
            return self._draw_axis()
        if y > len(self._rows):
            return self._draw_legend(y)
        lane = self._rows[y - 1]
        if lane < 0:
            return []
        here = lane == self._frame.lane
        row = Row()
        label = pad(self._labels[lane], self._label_width - 2)
        row.add("▸" if here else " ", self.palette.style("selected") if here else None)
        row.add(label + " ", Style(bold=True) if here else None)
        boxes = self._window(lane).boxes
        if self._scale.letters:
            self._draw_wide(row, boxes)
        else:
            self._draw_narrow(row, boxes)
        return row.segments

    def _draw_axis(self) -> list[Segment]:
        marks, unit = ticks(self._scale, self._left, self._width, self.view.unit)
        head = self._scale.column(self._frame.time) - self._left
        cells = [" "] * (self._width + 1)
        free = 0
        end = self._scale.column(self.view.end) - self._left
        for column, label in marks:
            if column > end:
                break
            at = column + 1 if column <= head < column + len(label) and column == head else column
            clash = at <= head < at + len(label)
            if at >= free and at + len(label) <= self._width and not clash:
                cells[at : at + len(label)] = label
                free = at + len(label) + 1
        total = self._scale.column(self.view.end)
        if self._left + self._width < total and cells[self._width - 1] == " ":
            cells[self._width - 1] = "›"
        quiet = self.palette.style("dim")
        row = Row().add(pad(f" {self._place(unit)}", self._label_width), quiet)
        if 0 <= head < self._width:
            row.add("".join(cells[:head]), quiet)
            row.add("▾", self.palette.style("selected", bold=True))
            row.add("".join(cells[head + 1 : self._width]), quiet)
        else:
            row.add("".join(cells[: self._width]), quiet)
        return row.segments

    def _place(self, unit: str) -> str:
        """What stands left of the axis: which lanes of how many are shown, or the unit of time."""
        lanes = len(self.view.lanes)
        if 0 < len(self._rows) < lanes and self._room < lanes:
            return window_name(self._rows[0], len(self._rows), lanes, self._label_width - 2)
        return clip(unit or "t", self._label_width - 1)

    def _draw_legend(self, y: int) -> list[Segment]:
        """Below the lanes, after a blank row where there is one to spare: what the roles are called, and how spans to come look."""
        palette, roles = self.palette, self._seen[1].roles if self._seen else ()
        top = min(len(self._rows) + 2, self.room.height - 1)
        names = [NAMES.get(role, role) for role in roles] + [_TO_COME] * bool(roles)
        row = Row()
        for number, place in enumerate(flow([(2, name) for name in names], self.room.width, self.room.height - top, self._label_width)):
            if place.row == y - top:
                role = roles[number] if number < len(roles) else roles[0]
                swatch = palette.block(role) if number < len(roles) else palette.ghost(role)
                row.to(place.column).add(f"{GLYPHS.get(role, ' ')} ", swatch)
                row.add(pad(f" {place.name}", place.end - row.width) if number < len(roles) else f" {place.name}", palette.style("dim"))
        return row.segments

    def _state_style(self, index: int, role: str) -> Style:
        palette = self.palette
        if index == self.cursor and self._pointing:
            return palette.cursor
        if index in self._now:
            return palette.current(role)
        return palette.block(role) if index < self._frame.known else palette.ghost(role)

    def _draw_wide(self, row: Row, boxes: list[Box]) -> None:
        at = 0
        outlined = self.palette.system != "truecolor"
        for place, box in enumerate(boxes):
            self._draw_idle(row, at, box.left)
            style = self._state_style(box.span, box.role)
            follows = place + 1 < len(boxes) and boxes[place + 1].left == box.right
            fill = "╌" if outlined and box.span >= self._frame.known else " "
            row.add(span_text(box.text, GLYPHS.get(box.role, " "), box.right - box.left, follows, fill), style)
            at = box.right
        self._draw_idle(row, at, self._width)

    def _draw_idle(self, row: Row, start: int, end: int) -> None:
        """A gap between spans: a dim dot a unit of time, nothing behind the end of the schedule."""
        end = min(end, self._scale.column(self.view.end) - self._left)
        if end <= start:
            return
        quantum = self._seen[1].quantum if self._seen else 0.0
        every = max(round(self._scale.density * quantum), 1) if self._scale.letters else 1
        every = every if 2 <= every <= 8 else 3
        dots = "".join("·" if (self._left + column) % every == every // 2 else " " for column in range(start, end))
        row.add(dots, self.palette.style("idle"))

    def _draw_narrow(self, row: Row, boxes: list[Box]) -> None:
        """One cell a sample: runs of two roles share one style (the first as full blocks, the second as letters on its ground)."""
        within = min(max(self._scale.column(self.view.end) - self._left, 0), self._width)
        cells = [Sampled("", "idle")] * max([within, *(box.right for box in boxes)])
        for box in boxes:
            state: State = "now" if box.span in self._now else "known" if box.span < self._frame.known else "ghost"
            if box.span == self.cursor and self._pointing:
                state = "cursor"
            cells[box.left] = Sampled(box.role, state)
            cells[box.left + 1 : box.right] = [Sampled(box.role, state, False)] * (box.right - box.left - 1)
        self._mark_now(cells, boxes)
        draw_samples(row, cells, self.palette)

    def _mark_now(self, cells: list[Sampled], boxes: list[Box]) -> None:
        """A current span too short to be sampled still shows at its time."""
        lane = self.view.get(boxes[0].span).lane if boxes else -1
        for index in self._now:
            span = self.view.get(index)
            column = self._scale.column(span.start) - self._left
            if span.lane == lane and 0 <= column < len(cells) and all(box.span != index for box in boxes):
                cells[column] = Sampled(span.role, "now")

    # the cursor ----------------------------------------------------------------------------------------------------------

    def on_focus(self) -> None:
        if not 0 <= self.cursor < len(self.view):
            frame = self._frame if self.frame is not None else self.view.at(self.step)
            self._point_at(frame.span if frame.span >= 0 else min(frame.known, len(self.view)) - 1)

    def move_cursor(self, dx: int, dy: int) -> bool:
        """Left and right: the spans of a lane; up and down: the lane above or below, at the same time."""
        view, before = self.view, self.cursor
        if not 0 <= before < len(view):
            self._point_at(max(self._frame.span, 0))
            return self.cursor >= 0
        if dx:
            self._point_at(view.neighbour(before, 1 if dx > 0 else -1))
        elif dy:
            lane = view.get(before).lane + dy
            while 0 <= lane < len(view.lanes):
                found = view.nearest(lane, self._cursor_time)
                if 0 <= found < len(view):
                    self.cursor = found
                    break
                lane += dy
        return self.cursor != before

    def _point_at(self, index: int) -> None:
        if 0 <= index < len(self.view):
            self.cursor = index
            span = self.view.get(index)
            self._cursor_time = (span.start + span.end) / 2

    def explain(self) -> str:
        if not 0 <= self.cursor < len(self.view):
            return ""
        span: Span = self.view.get(self.cursor)
        return FORMATTER.fill(
            _EXPLAINED,
            {
                "lane": self.view.lanes.label(span.lane), "text": span.text or GLYPHS.get(span.role, ""),
                "start": format_value(span.start, self.view.unit), "end": format_value(span.end, self.view.unit),
                "role": NAMES.get(span.role, span.role), "step": span.step + 1,
            },
        )  # fmt: skip
