"""Bars on lanes over time: a schedule."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from core.formatting import FORMATTER
from core.views.base import ROLE_CODE, ROLES, Axis, View

if TYPE_CHECKING:
    import numpy as np

    from core.recording import Recording


class Span(msgspec.Struct, frozen=True):
    """One bar: ``lane``, from ``start`` to ``end`` (time units of the recording), first seen at ``step``."""

    index: int
    lane: int
    start: float
    end: float
    role: str
    text: str
    step: int


class GanttFrame(msgspec.Struct, frozen=True):
    """``known`` spans (the first so many) belong to steps so far, the rest is still to come; ``span`` is this step's or -1."""

    time: float
    known: int
    span: int
    lane: int


class Gantt(View):
    """Bars on lanes over time. Spans are written in order of their steps; spans of one lane do not overlap."""

    kind = "gantt"

    def __init__(self, lanes: Axis, unit: str = "", lane_groups: Sequence[int] = ()) -> None:
        """``unit`` of time ("s", or "" for unit times); ``lane_groups`` gives each lane a group (its rank), lanes of one stand together."""
        super().__init__()
        self.lanes = lanes
        self.unit = unit
        self.lane_groups = tuple(lane_groups)
        self.end = 0.0
        self.children: dict[int, Recording | Callable[[], Recording]] = {}
        self._lane, self._role, self._text, self._n, self._span_step = array("q"), array("b"), array("q"), array("q"), array("q")
        self._start, self._finish = array("d"), array("d")
        self._texts: list[str] = []
        self._text_codes: dict[str, int] = {}
        self._filled: dict[tuple[int, int], str] = {}
        self._by_lane: list[array[int]] = [array("q") for _ in range(len(lanes))]

    def span(
        self,
        lane: int,
        start: float,
        end: float,
        role: str,
        text: str = "",
        n: int = 0,
        *,
        step: int | None = None,
        child: Recording | Callable[[], Recording] | None = None,
    ) -> int:
        """Add one bar and return its index. ``text`` is a template over ``n`` ("F{n}").

        ``child`` opens it step by step: a finished recording, or a function that makes it when somebody asks (see `child`).
        """
        index = len(self._span_step)
        self._lane.append(lane)
        self._start.append(start)
        self._finish.append(end)
        self._role.append(ROLE_CODE[role])
        self._text.append(self._text_code(text))
        self._n.append(n)
        if child is not None:
            self.children[index] = child
        self.end = max(self.end, end)
        self._span_step.append(self._step(step))
        self._place(lane, index)  # last: who finds a span in its lane can read all of it
        return index

    def spans(
        self, lane: np.ndarray, start: np.ndarray, end: np.ndarray, role: np.ndarray, text: np.ndarray, n: np.ndarray, step: np.ndarray,
        *, roles: Sequence[str], texts: Sequence[str],
    ) -> None:  # fmt: skip
        """Add a block: arrays of one length, ``role`` and ``text`` index into ``roles`` and ``texts``; ``step`` never decreases."""
        import numpy as np

        if not len(lane):
            return
        first = len(self._span_step)
        role_codes = np.array([ROLE_CODE[r] for r in roles], dtype=np.int8)[role]
        text_codes = np.array([self._text_code(t) for t in texts], dtype=np.int64)[text]
        for store, values, dtype in (
            (self._lane, lane, np.int64), (self._start, start, np.float64), (self._finish, end, np.float64),
            (self._role, role_codes, np.int8), (self._text, text_codes, np.int64), (self._n, n, np.int64),
        ):  # fmt: skip
            store.frombytes(np.ascontiguousarray(values, dtype=dtype).tobytes())
        self.end = max(self.end, float(np.max(end)))
        self._span_step.frombytes(np.ascontiguousarray(step, dtype=np.int64).tobytes())
        order = np.lexsort((start, lane))
        bounds = np.searchsorted(np.asarray(lane)[order], np.arange(len(self.lanes) + 1))
        for row, mine in enumerate(self._by_lane):
            block = order[bounds[row] : bounds[row + 1]] + first
            if len(block) and len(mine) and self._start[int(block[0])] < self._start[mine[-1]]:
                merged = np.concatenate([np.array(mine, dtype=np.int64), block])
                starts = np.array([self._start[int(i)] for i in merged])
                self._by_lane[row] = array("q", merged[np.argsort(starts, kind="stable")].tolist())
            else:
                mine.frombytes(np.ascontiguousarray(block, dtype=np.int64).tobytes())

    def opens(self, index: int) -> bool:
        """Whether span ``index`` opens step by step (see `child`)."""
        return index in self.children

    def child(self, index: int) -> Recording | None:
        """The recording that span ``index`` opens step by step, made on the first call; None when it has none."""
        found = self.children.get(index)
        if callable(found):
            found = self.children[index] = found()
        return found

    def __len__(self) -> int:
        return len(self._span_step)

    def get(self, index: int) -> Span:
        return Span(
            index, self._lane[index], self._start[index], self._finish[index], ROLES[self._role[index]],
            self._written(self._text[index], self._n[index]), self._span_step[index],
        )  # fmt: skip

    def _written(self, code: int, n: int) -> str:
        """The text of a span; each is filled once."""
        text = self._filled.get((code, n))
        if text is None:
            text = self._filled[code, n] = FORMATTER.fill(self._texts[code], {"n": n})
        return text

    def at(self, step: int) -> GanttFrame:
        known = bisect_right(self._span_step, step)
        current = known - 1 if known and self._span_step[known - 1] == step else -1
        if current >= 0:
            current = bisect_left(self._span_step, step)
            return GanttFrame(self._start[current], known, current, self._lane[current])
        if known:
            return GanttFrame(self._finish[known - 1], known, -1, -1)
        return GanttFrame(0.0, 0, -1, -1)

    def in_window(self, lane: int, start: float, end: float) -> list[Span]:
        """The spans of ``lane`` that overlap [start, end), by time."""
        ids = self._by_lane[lane]
        at = bisect_right(ids, start, key=self._start.__getitem__)
        if at and self._finish[ids[at - 1]] > start:
            at -= 1
        found = []
        while at < len(ids) and self._start[ids[at]] < end:
            found.append(self.get(ids[at]))
            at += 1
        return found

    def spans_in(self, lane: int) -> int:
        """How many spans ``lane`` has so far."""
        return len(self._by_lane[lane])

    def role_at(self, index: int) -> str:
        """The role of one span, without the rest of it."""
        return ROLES[self._role[index]]

    def nearest(self, lane: int, time: float) -> int:
        """Index of the span of ``lane`` that covers ``time`` or lies closest to it; -1 in an empty lane."""
        ids = self._by_lane[lane]
        at = bisect_right(ids, time, key=self._start.__getitem__)
        near = [ids[k] for k in (at - 1, at) if 0 <= k < len(ids)]
        return min(near, key=lambda index: max(self._start[index] - time, time - self._finish[index], 0.0), default=-1)

    def current(self, frame: GanttFrame) -> range:
        """Indices of the spans of the frame's step: a collective has one on every rank."""
        return range(frame.span, frame.known) if frame.span >= 0 else range(0)

    def span_at(self, lane: int, time: float) -> int:
        """Index of the span of ``lane`` that covers ``time``, or -1."""
        ids = self._by_lane[lane]
        at = bisect_right(ids, time, key=self._start.__getitem__) - 1
        return ids[at] if at >= 0 and self._finish[ids[at]] > time else -1

    def neighbour(self, index: int, direction: int) -> int:
        """The next (+1) or previous (-1) span in the same lane; ``index`` itself at the end."""
        ids = self._by_lane[self._lane[index]]
        at = bisect_left(ids, self._start[index], key=self._start.__getitem__)
        while at < len(ids) and ids[at] != index:
            at += 1
        return ids[min(max(at + direction, 0), len(ids) - 1)]

    def _text_code(self, text: str) -> int:
        code = self._text_codes.get(text)
        if code is None:
            code = self._text_codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def _place(self, lane: int, index: int) -> None:
        ids = self._by_lane[lane]
        if ids and self._start[index] < self._start[ids[-1]]:
            ids.insert(bisect_right(ids, self._start[index], key=self._start.__getitem__), index)
        else:
            ids.append(index)
