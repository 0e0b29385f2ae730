"""What a panel can show, as plain data without drawing: eight kinds of view.

``view.at(step)`` gives a frame: cheap, pure, comparable with ``==``. What does not change is held once in the view (all
spans of a schedule, a curve); what changes is written cell by cell. Values are raw, roles say what they mean; colours,
glyphs and sizes belong to whoever draws. Numpy is imported only by the block writes.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from core.cells import Cells
from core.formatting import FORMATTER, Value, format_value

if TYPE_CHECKING:
    import numpy as np

    from core.recording import Recording

ROLES = (
    "plain", "forward", "backward", "weight", "comm", "idle",  # schedules
    "bid", "ask", "own", "trade",  # books
    "parameter", "gradient", "optimizer", "activation", "buffer",  # memory
    "selected", "kept", "dropped", "padding", "good", "bad", "dim",  # choices and verdicts
    "group0", "group1", "group2", "group3", "group4", "group5", "group6", "group7",  # things told apart (experts, ranks)
)  # fmt: skip
_ROLE_CODE = {role: code for code, role in enumerate(ROLES)}


class Axis(msgspec.Struct, frozen=True):
    """Labels of lanes, rows, columns or bars: a template over the index ``i``, or names given one by one."""

    template: str = "{i}"
    size: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, *names: str) -> Axis:
        return cls(size=len(names), names=names)

    def label(self, i: int) -> str:
        return self.names[i] if self.names else FORMATTER.fill(self.template, {"i": i})

    def __len__(self) -> int:
        return len(self.names) or self.size


class View:
    """Base of all views. ``now`` is bound by `Recorder.panel`: the index of the step being written."""

    kind: ClassVar[str] = ""

    def __init__(self) -> None:
        self.now: Callable[[], int] = _no_step

    def at(self, step: int) -> object:
        raise NotImplementedError

    def _step(self, step: int | None) -> int:
        return self.now() if step is None else step


def _no_step() -> int:
    return 0


# Gantt -------------------------------------------------------------------------------------------------------------


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
        self._role.append(_ROLE_CODE[role])
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
        role_codes = np.array([_ROLE_CODE[r] for r in roles], dtype=np.int8)[role]
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


# Grids, bars and tables ------------------------------------------------------------------------------------------


class Cell(msgspec.Struct, frozen=True, gc=False):
    """A raw value with what it means; ``text`` replaces the formatted value where letters say more ("P0", "×")."""

    value: Value = None
    role: str = "plain"
    text: str = ""


EMPTY = Cell(None, "dim")


class GridFrame(msgspec.Struct, frozen=True):
    """Cells by (row, column); missing ones are `EMPTY`. ``lit`` are the cells written in this step."""

    width: int
    cells: dict[tuple[int, int], Cell]
    lit: frozenset[tuple[int, int]]

    def row(self, r: int) -> tuple[Cell, ...]:
        cells = self.cells
        return tuple([cells.get((r, c), EMPTY) for c in range(self.width)])

    def lit_in(self, r: int) -> tuple[int, ...]:
        return tuple(sorted(c for row, c in self.lit if row == r))


class Heatmap(View):
    """Rows x columns of values. ``low`` and ``high`` fix the scale of the shades (None: from what is shown)."""

    kind = "heatmap"

    def __init__(
        self,
        rows: Axis,
        columns: Axis,
        unit: str = "",
        *,
        low: float | None = None,
        high: float | None = None,
        show: Literal["value", "text", "shade"] = "value",
        legend: Mapping[str, str] | None = None,
    ) -> None:
        """show: "value" writes the formatted number in each cell where it fits, "text" the cell's text, "shade" only shades.

        ``legend`` says what a role means in this view (its own name otherwise); "group" speaks for group0 to group7 together.
        """
        super().__init__()
        self.legend = dict(legend or {})
        self.rows, self.columns, self.unit, self.low, self.high, self.show = rows, columns, unit, low, high, show
        self.least, self.most = math.inf, -math.inf  # of all finite values ever written: the scale never jumps while stepping
        self._cells: Cells[tuple[int, int], Cell] = Cells()

    def set(self, row: int, column: int, value: Value, role: str = "plain", text: str = "", *, step: int | None = None) -> None:
        if isinstance(value, int | float) and math.isfinite(value):
            self.least, self.most = min(self.least, value), max(self.most, value)
        self._cells.write(self._step(step), (row, column), Cell(value, role, text))

    def put(self, places: Sequence[tuple[int, int]], cells: Sequence[Cell], *, step: int | None = None) -> None:
        """Write many cells of one step at once, each (row, column) at most once; a Cell may be shared."""
        numbers = [c.value for c in cells if isinstance(c.value, int | float) and math.isfinite(c.value)]
        self.least, self.most = min([self.least, *numbers]), max([self.most, *numbers])
        self._cells.write_all(self._step(step), places, cells)

    def clear(self, row: int, column: int, *, step: int | None = None) -> None:
        self._cells.write(self._step(step), (row, column), None)

    def fill(
        self,
        values: Sequence[Sequence[float]],
        role: str = "plain",
        roles: Sequence[Sequence[str]] | None = None,
        *,
        step: int | None = None,
    ) -> None:
        """Write a whole matrix (rows x columns), with one role or a matrix of them."""
        for r, line in enumerate(values):
            for c, value in enumerate(line):
                self.set(r, c, value, roles[r][c] if roles else role, step=step)

    def at(self, step: int) -> GridFrame:
        return GridFrame(len(self.columns), self._cells.at(step), frozenset(self._cells.touched(step)))


class Breakdown(View):
    """Stacked bars: every bar (a rank, a moment) is the sum of parts; ``capacity`` draws a line (a device's memory)."""

    kind = "breakdown"

    def __init__(
        self, bars: Axis, parts: Sequence[tuple[str, str]], unit: str = "bytes", *, capacity: float | None = None, capacity_name: str = ""
    ) -> None:
        """parts: (name, role) from the bottom of the stack on."""
        super().__init__()
        self.bars, self.parts, self.unit, self.capacity, self.capacity_name = bars, tuple(parts), unit, capacity, capacity_name
        self._cells: Cells[tuple[int, int], Cell] = Cells()
        self.maximum = 0.0
        self._totals: dict[int, dict[int, float]] = {}

    def set(self, bar: int, part: int, value: float, *, step: int | None = None) -> None:
        self._cells.write(self._step(step), (bar, part), Cell(float(value), self.parts[part][1]))
        totals = self._totals.setdefault(bar, {})
        totals[part] = float(value)
        self.maximum = max(self.maximum, sum(totals.values()))  # the scale never jumps while stepping

    def at(self, step: int) -> GridFrame:
        return GridFrame(len(self.parts), self._cells.at(step), frozenset(self._cells.touched(step)))


class Column(msgspec.Struct, frozen=True):
    """A table's column: header, the unit its values are formatted with, and which side they align to."""

    name: str
    unit: str = ""
    align: Literal["left", "right"] = "right"


class TableFrame(msgspec.Struct, frozen=True):
    """``rows`` in view order; ``lit`` are indices into them; ``first`` is the true number of the first row shown (a tail of a log)."""

    rows: tuple[tuple[Cell, ...], ...]
    lit: frozenset[int]
    first: int = 0


class Table(View):
    """Rows of values under named columns, written row by row or cell by cell, some rows lit."""

    kind = "table"

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self.columns = tuple(columns)
        self._cells: Cells[tuple[int, int], Cell] = Cells()
        self._lit: Cells[str, frozenset[int]] = Cells()
        self._rows = 0

    def row(self, *values: Value | Cell, row: int | None = None, step: int | None = None) -> int:
        """Write a whole row (a new one unless ``row`` says which) and return its index."""
        at = self._rows if row is None else row
        for c, value in enumerate(values):
            self.set(at, c, value, step=step)
        return at

    def set(self, row: int, column: int, value: Value | Cell, role: str = "plain", *, step: int | None = None) -> None:
        self._rows = max(self._rows, row + 1)
        self._cells.write(self._step(step), (row, column), value if isinstance(value, Cell) else Cell(value, role))

    def light(self, *rows: int, step: int | None = None) -> None:
        """These rows are lit until the next call."""
        self._lit.write(self._step(step), "rows", frozenset(rows))

    def at(self, step: int) -> TableFrame:
        cells = self._cells.at(step)
        height = 1 + max((r for r, _ in cells), default=-1)
        width = len(self.columns)
        rows = tuple(tuple(cells.get((r, c), EMPTY) for c in range(width)) for r in range(height))
        return TableFrame(rows, self._lit.at(step).get("rows", frozenset()))


class TableLog(View):
    """The last rows of a log held as arrays: what has happened up to a step (a tape of trades). Draws as a table."""

    kind = "table"

    def __init__(
        self,
        columns: Sequence[Column],
        steps: np.ndarray,
        values: Sequence[np.ndarray],
        roles: Sequence[str] = ("plain",),
        role: np.ndarray | None = None,
        tail: int = 200,
    ) -> None:
        """steps: (entries,), never decreasing; values: one (entries,) array per column; role: (entries,) into ``roles``."""
        super().__init__()
        self.columns, self.tail, self.roles = tuple(columns), tail, tuple(roles)
        self._entry_steps, self._columns, self._role = steps, tuple(values), role

    def at(self, step: int) -> TableFrame:
        import numpy as np

        end = int(np.searchsorted(self._entry_steps, step, side="right"))
        first = max(0, end - self.tail)
        rows = []
        for entry in range(end - 1, first - 1, -1):  # newest first
            role = self.roles[int(self._role[entry])] if self._role is not None else self.roles[0]
            rows.append(
                tuple(Cell(column[entry].item() if hasattr(column[entry], "item") else column[entry], role) for column in self._columns)
            )
        lit = frozenset(k for k in range(len(rows)) if self._entry_steps[end - 1 - k] == step)
        return TableFrame(tuple(rows), lit, first)


# Exchange ----------------------------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, gc=False):
    """What one actor hands to another in a step. ``size`` in the view's unit; ``text`` names it."""

    source: int
    target: int
    size: float
    role: str
    text: str


class ExchangeFrame(msgspec.Struct, frozen=True):
    """``held[actor]`` are the (slot, cell) pairs an actor holds, in slot order; ``messages`` travel in this step."""

    held: tuple[tuple[tuple[int, Cell], ...], ...]
    messages: tuple[Message, ...]


class Exchange(View):
    """Actors (ranks) in a row, what each holds, and the messages that travel between them in a step."""

    kind = "exchange"

    def __init__(self, actors: Axis, unit: str = "bytes", *, slots: Axis | None = None) -> None:
        super().__init__()
        self.actors, self.unit, self.slots = actors, unit, slots
        self._held: Cells[tuple[int, int], Cell] = Cells()
        self._steps = array("q")
        self._messages: list[Message] = []

    def hold(self, actor: int, slot: int, value: Value, role: str = "plain", text: str = "", *, step: int | None = None) -> None:
        """``actor`` holds this in ``slot`` from now on."""
        self._held.write(self._step(step), (actor, slot), Cell(value, role, text))

    def drop(self, actor: int, slot: int, *, step: int | None = None) -> None:
        self._held.write(self._step(step), (actor, slot), None)

    def send(self, source: int, target: int, size: float, role: str = "comm", text: str = "", *, step: int | None = None) -> None:
        """A message of this step only."""
        self._messages.append(Message(source, target, float(size), role, text))
        self._steps.append(self._step(step))

    def at(self, step: int) -> ExchangeFrame:
        held: list[list[tuple[int, Cell]]] = [[] for _ in range(len(self.actors))]
        for (actor, slot), cell in sorted(self._held.at(step).items(), key=lambda item: item[0]):
            held[actor].append((slot, cell))
        first, end = bisect_left(self._steps, step), bisect_right(self._steps, step)
        return ExchangeFrame(tuple(tuple(h) for h in held), tuple(self._messages[first:end]))


# Ladder ------------------------------------------------------------------------------------------------------------


class Resting(msgspec.Struct, frozen=True):
    """One order in a level's queue, front first."""

    order_id: int
    quantity: float
    own: bool = False


class Level(msgspec.Struct, frozen=True):
    """A price with its displayed quantity; ``orders`` is the queue where it is known (else empty)."""

    price: float
    quantity: float
    orders: tuple[Resting, ...] = ()


class Mark(msgspec.Struct, frozen=True):
    """What happened at a price in this step: role own, trade, bid, ask, bad; ``text`` says it in two or three words."""

    price: float
    role: str
    text: str


class LadderFrame(msgspec.Struct, frozen=True):
    """Both sides, best price first, and this step's marks."""

    bids: tuple[Level, ...]
    asks: tuple[Level, ...]
    marks: tuple[Mark, ...]


class Ladder(View):
    """A limit order book by price, written level by level. ``tick`` is the smallest price step in the unit of the prices."""

    kind = "ladder"

    def __init__(self, tick: float = 0.01, price_unit: str = "$", quantity_unit: str = "") -> None:
        super().__init__()
        self.tick, self.price_unit, self.quantity_unit = tick, price_unit, quantity_unit
        self._levels: Cells[tuple[str, float], Level] = Cells()
        self._steps = array("q")
        self._marks: list[Mark] = []

    def level(
        self, side: Literal["bid", "ask"], price: float, quantity: float, orders: Iterable[Resting] = (), *, step: int | None = None
    ) -> None:
        """The level's state from this step on; quantity 0 removes it."""
        self._levels.write(self._step(step), (side, price), Level(price, quantity, tuple(orders)) if quantity else None)

    def mark(self, price: float, role: str, text: str, *, step: int | None = None) -> None:
        self._marks.append(Mark(price, role, text))
        self._steps.append(self._step(step))

    def at(self, step: int) -> LadderFrame:
        sides: dict[str, list[Level]] = {"bid": [], "ask": []}
        for (side, _), level in self._levels.at(step).items():
            sides[side].append(level)
        bids = sorted(sides["bid"], key=lambda level: -level.price)
        asks = sorted(sides["ask"], key=lambda level: level.price)
        first, end = bisect_left(self._steps, step), bisect_right(self._steps, step)
        return LadderFrame(tuple(bids), tuple(asks), tuple(self._marks[first:end]))


# Plot --------------------------------------------------------------------------------------------------------------


class Curve(msgspec.Struct):
    """One series of a plot. ``style``: line, step (holds until the next point), scatter, bar."""

    name: str
    role: str
    style: Literal["line", "step", "scatter", "bar"]
    x: array[float]
    y: array[float]
    steps: array[int]

    def __len__(self) -> int:
        return len(self.steps)


class PlotFrame(msgspec.Struct, frozen=True):
    """``cursor`` is the x of this step (None: none yet), ``values`` each curve's last value up to this step."""

    cursor: float | None
    values: tuple[float | None, ...]


class Plot(View):
    """Curves over an axis. All points are held once; stepping moves a cursor over them."""

    kind = "plot"

    def __init__(self, x: str, y: str, *, x_unit: str = "", y_unit: str = "", x_log: bool = False, y_log: bool = False) -> None:
        super().__init__()
        self.x, self.y, self.x_unit, self.y_unit, self.x_log, self.y_log = x, y, x_unit, y_unit, x_log, y_log
        self.curves: list[Curve] = []
        self._cursor: Cells[str, float] = Cells()

    def curve(self, name: str, role: str = "plain", style: Literal["line", "step", "scatter", "bar"] = "line") -> int:
        self.curves.append(Curve(name, role, style, array("d"), array("d"), array("q")))
        return len(self.curves) - 1

    def point(self, curve: int, x: float, y: float, *, step: int | None = None) -> None:
        mine = self.curves[curve]
        mine.x.append(x)
        mine.y.append(y)
        mine.steps.append(self._step(step))

    def points(self, curve: int, x: np.ndarray, y: np.ndarray, steps: np.ndarray | None = None) -> None:
        """Add a block of points; without ``steps`` they all belong to the step being written."""
        import numpy as np

        mine = self.curves[curve]
        mine.x.frombytes(np.ascontiguousarray(x, dtype=np.float64).tobytes())
        mine.y.frombytes(np.ascontiguousarray(y, dtype=np.float64).tobytes())
        owner = np.full(len(x), self.now()) if steps is None else steps
        mine.steps.frombytes(np.ascontiguousarray(owner, dtype=np.int64).tobytes())

    def cursor(self, x: float, *, step: int | None = None) -> None:
        """Put the cursor here from this step on (otherwise it follows the first curve's newest point)."""
        self._cursor.write(self._step(step), "x", x)

    def at(self, step: int) -> PlotFrame:
        values: list[float | None] = []
        cursor = self._cursor.at(step).get("x")
        for number, curve in enumerate(self.curves):
            at = bisect_right(curve.steps, step) - 1
            values.append(curve.y[at] if at >= 0 else None)
            if number == 0 and cursor is None and at >= 0:
                cursor = curve.x[at]
        return PlotFrame(cursor, tuple(values))


# Listing -----------------------------------------------------------------------------------------------------------


class ListingFrame(msgspec.Struct, frozen=True):
    """Lines of text and which of them are lit."""

    lines: tuple[str, ...]
    lit: frozenset[int]


class Listing(View):
    """Lines of text (an algorithm, a log), some lit at a step. A line may be rewritten."""

    kind = "listing"

    def __init__(self, lines: Sequence[str] = ()) -> None:
        super().__init__()
        self._first = tuple(lines)
        self._lines: Cells[int, str] = Cells()
        self._lit: Cells[str, frozenset[int]] = Cells()

    def line(self, number: int, text: str, *, step: int | None = None) -> None:
        self._lines.write(self._step(step), number, text)

    def light(self, *lines: int, step: int | None = None) -> None:
        """These lines (from 0) are lit until the next call."""
        self._lit.write(self._step(step), "lines", frozenset(lines))

    def at(self, step: int) -> ListingFrame:
        changed = self._lines.at(step)
        height = max(len(self._first), 1 + max(changed, default=-1))
        lines = tuple(changed.get(n, self._first[n] if n < len(self._first) else "") for n in range(height))
        return ListingFrame(lines, self._lit.at(step).get("lines", frozenset()))


def cell_text(cell: Cell, unit: str = "") -> str:
    """The text a cell shows: its own, or its value in the view's unit."""
    return cell.text or ("" if cell.value is None else format_value(cell.value, unit))
