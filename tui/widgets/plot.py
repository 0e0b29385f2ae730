"""Draws a Plot: the curves as a cached picture, the step as a mark on the axis, so that a step sends two rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.timer import Timer

from core.formatting import clock_text, format_value
from core.views import Curve, Plot, PlotFrame
from tui.widgets.axes import SCALED
from tui.widgets.base import ViewWidget
from tui.widgets.canvas import Chart, draw_chart
from tui.widgets.fitting import Row, centred, clip
from tui.widgets.legend import Entry, ranges, shortened

_LEAST_CHART = 8
"""Rows a chart keeps, its axis included, before its legend may take more than one."""
_SWATCHES = {"line": "━", "step": "━", "scatter": "•", "bar": "█"}


class PlotWidget(ViewWidget[Plot]):
    """Arrows left and right move a probe along the x axis and read every curve there.

    The picture is drawn again when the size changes or points arrive, at most every ``redraw_after`` seconds.
    """

    redraw_after: ClassVar[float] = 0.35

    probe: int | None = None
    drawings = 0
    _chart: Chart | None = None
    _drawn: tuple[Size, tuple[int, ...], tuple[int, ...]] | None = None
    _drawn_at = 0.0
    _timer: Timer | None = None
    _heads = 1

    def __init__(self, view: Plot, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(view, id=id, classes=classes)
        self.clock: Callable[[], float] = time.monotonic

    def plan(self, size: Size) -> None:
        lengths = tuple(len(curve) for curve in self.view.curves)
        drawn = (size, lengths, tuple(curve.edition for curve in self.view.curves))
        heads = self._plan_heads(size)
        if heads != self._heads:
            self._heads, self._drawn = heads, None
        if self._drawn == drawn:
            return
        if self._drawn is not None and self._drawn[0] == size and any(self._drawn[1]):
            wait = self._drawn_at + self.redraw_after - self.clock()
            if wait > 0:
                if self._timer is None:
                    self._timer = self.set_timer(wait, self._catch_up)
                return
        self._drawn, self._drawn_at = drawn, self.clock()
        self._chart = draw_chart(self.view, lengths, size.width, size.height - heads)
        self.drawings += 1

    def row_key(self, y: int) -> Hashable:
        frame, chart = self._now(), self._chart
        if y < self._heads:
            return "heading", frame.values, self._read() if self._probing() else None
        if chart is None:
            return "nothing" if y == self.room.height // 2 else None
        at = y - self._heads
        if at == chart.axis:
            return "axis", self.drawings, self._column(), self._probe_column()
        return self.drawings, chart.rows[at] if at < len(chart.rows) else None

    def draw_row(self, y: int) -> list[Segment]:
        if y < self._heads:
            return self._heading() if self._heads == 1 else self._legend(y)
        chart, at = self._chart, y - self._heads
        if chart is None:
            notice = "no room for the plot" if any(self._drawn[1] if self._drawn else ()) else "nothing to plot yet"
            return [Segment(centred(notice, self.room.width), self.palette.style("dim"))] if y == self.room.height // 2 else []
        if at >= len(chart.rows):
            return []
        if at == chart.axis:
            return self._axis(chart)
        return [Segment(text, self._style(curve)) for text, curve in chart.rows[at]]

    def move_cursor(self, dx: int, dy: int) -> bool:
        chart = self._chart
        if chart is None or not chart.stops or not dx:
            return False
        stops = sorted(chart.stops)
        start = next((at for at in (self._probe_column(), self._column()) if at is not None), stops[0] - dx)
        ahead = [stop for stop in stops if (stop - start) * dx > 0]
        if not ahead:
            return False
        self.probe = ahead[0] if dx > 0 else ahead[-1]
        return True

    def explain(self) -> str:
        chart = self._chart
        if self.probe is None or chart is None or self.probe not in chart.stops:
            return ""
        at, unit = chart.stops[self.probe], self.view.x_unit
        x = clock_text(round(at * 1e9), 3) if unit == "clock" else format_value(_tidy(at), unit)
        pairs = zip(self.view.curves, self._read(), strict=False)
        said = [f"{curve.name} {self._value(value)}" for curve, value in pairs if value is not None]
        return f"{self.view.x} {x} · " + " · ".join(said)

    # pieces --------------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        self._timer = None
        self.repaint()

    def _heading(self) -> list[Segment]:
        """What the y axis is, then each curve's value at this step (at the probe while the panel is focused)."""
        view, row, width = self.view, Row(), self.room.width
        word = f" ({view.y_unit})" if view.y_unit and view.y_unit not in SCALED else ""
        values = self._read() if self._probing() else self._now().values
        keys = [self._key(number, value) for number, value in enumerate(values[: len(view.curves)])]
        full = sum(3 + cell_len("".join(key)) for key in keys)
        bare = sum(2 + cell_len("".join(key[1:])) for key in keys)
        named = sum(2 + cell_len("".join(key[1:3]).rstrip()) for key in keys)
        tries = ((f" {view.y}{word}", True), (f" {view.y}{word}", False), (f" {view.y}", False))
        name, wide = next(((name, wide) for name, wide in tries if cell_len(name) + (full if wide else bare) < width), tries[-1])
        if len(keys) > 1 and not wide and cell_len(name) + bare >= width > cell_len(name) + named:
            keys = [(swatch, letter, label.rstrip(), "") for swatch, letter, label, _ in keys]  # names tell more than some values
        elif len(keys) > 1 and cell_len(name) + named >= width:
            return self._names_only([(letter or swatch, label.strip()) for swatch, letter, label, _ in keys], width)
        row.add(clip(name, width), self.palette.style("dim"))
        for number, (swatch, letter, label, amount) in enumerate(keys):
            style = self.palette.style(view.curves[number].role)
            text = f"{swatch if wide or not letter else ''}{letter}"
            size = 2 + wide + cell_len(text + label + amount)
            rest = len(keys) - number
            if row.width + size > width - (9 if rest > 1 else 0):
                row.add(clip(f"  … {rest} more", width - row.width), self.palette.style("dim"))
                break
            row.add("   " if wide else "  ").add(text, style).add(label, self.palette.style("plain"))
            row.add(amount, self.palette.style(view.curves[number].role, bold=True))
        return row.segments

    def _names_only(self, keys: list[tuple[str, str]], width: int) -> list[Segment]:
        """Where not even the (mark, name) of the curves have room beside what the y axis is called: they alone."""
        row, names = Row(), [name for _, name in keys]
        entries = [Entry(number, number, name) for number, name in enumerate(names)]
        if sum(3 + cell_len(mark + name) for mark, name in keys) > width:
            entries = ranges(names)
        marks = [[entry.first] if entry.first == entry.last else [entry.first, entry.last] for entry in entries]
        room = width - sum(1 + 2 * len(mark) for mark in marks) - len(entries)
        for mark, name in zip(marks, shortened([entry.name for entry in entries], room), strict=True):
            row.add("  " if row.width else " ")
            for number in mark:
                row.add("–" if number != mark[0] else "", self.palette.style("dim"))
                row.add(keys[number][0], self.palette.style(self.view.curves[number].role))
            row.add(f" {name}", self.palette.style("plain"))
        return row.segments

    def _plan_heads(self, size: Size) -> int:
        """Rows of the heading: one, or as many as name every curve where the chart keeps enough rows. They never get fewer."""
        curves = self.view.curves
        values = self._now().values[: len(curves)]
        keys = [f"{curve.name} {self._amount(curve, value)}" for curve, value in zip(curves, values, strict=False)]
        rows = 1 + max((line for line, _ in self._flowed(keys, size.width)), default=0) if len(curves) > 1 else 1
        rows = max(rows, self._heads if self._drawn is not None and self._drawn[0] == size else 1)
        return rows if rows <= 4 and size.height - rows >= _LEAST_CHART else 1

    def _flowed(self, keys: Sequence[str], width: int) -> list[tuple[int, int]]:
        """(row, column) of each key of the legend, beginning after what the y axis is called."""
        places, line, column = [], 0, cell_len(self._y_name()) + 2
        for key in keys:
            size = 2 + cell_len(key)
            if column + size > width and column > 1:
                line, column = line + 1, 1
            places.append((line, column))
            column += size + 2
        return places

    def _y_name(self) -> str:
        view = self.view
        return f" {view.y} ({view.y_unit})" if view.y_unit and view.y_unit not in SCALED else f" {view.y}"

    def _legend(self, y: int) -> list[Segment]:
        """Row ``y`` of a heading of several rows: what the y axis is, then the curves with their values."""
        view, row, width = self.view, Row(), self.room.width
        if y == 0:
            row.add(clip(self._y_name(), width), self.palette.style("dim"))
        values = self._read() if self._probing() else self._now().values
        amounts = [self._amount(curve, value) for curve, value in zip(view.curves, values, strict=False)]
        keys = [f"{curve.name} {amount}" for curve, amount in zip(view.curves, amounts, strict=False)]
        for number, (line, column) in enumerate(self._flowed(keys, width)):
            if line == y:
                curve = view.curves[number]
                letter = self._chart.letters.get(number, "") if self._chart else ""
                row.to(column).add(letter or _SWATCHES[curve.style], self.palette.style(curve.role))
                row.add(clip(f" {curve.name} ", width - row.width), self.palette.style("plain"))
                row.add(clip(amounts[number], width - row.width), self.palette.style(curve.role, bold=True))
        return row.segments

    def _key(self, number: int, value: float | None) -> tuple[str, str, str, str]:
        """A curve in the legend: swatch, letter, name, value. A single curve needs neither swatch nor letter."""
        curve = self.view.curves[number]
        amount = self._amount(curve, value)
        if len(self.view.curves) == 1:
            return "", "", "" if curve.name == self.view.y else f"{curve.name} ", amount
        letter = self._chart.letters.get(number, "") if self._chart else ""
        return _SWATCHES[curve.style], letter, f" {curve.name} ", amount

    def _axis(self, chart: Chart) -> list[Segment]:
        line = list("".join(text for text, _ in chart.rows[chart.axis]))
        marks = {}
        column, probe = self._column(), self._probe_column()
        if column is not None:
            marks[column] = ("▲", self.palette.style("selected", bold=True))
        if probe is not None:
            marks[probe] = ("◆", self.palette.style("plain", bold=True))
        row, start = Row(), 0
        for at in sorted(marks):
            if 0 <= at < len(line):
                row.add("".join(line[start:at]), self.palette.style("dim")).add(*marks[at])
                start = at + 1
        return row.add("".join(line[start:]), self.palette.style("dim")).segments

    def _style(self, curve: int) -> Style:
        if curve < 0:
            return self.palette.style("dim")
        return self.palette.style(self.view.curves[curve].role)

    def _column(self) -> int | None:
        """The column of the step's x, None while it has none or it lies outside."""
        cursor = self._now().cursor
        return None if cursor is None or self._chart is None else self._chart.column(cursor)

    def _probing(self) -> bool:
        return self.has_focus and self._chart is not None and self.probe in self._chart.stops

    def _probe_column(self) -> int | None:
        return self.probe if self._probing() else None

    def _read(self) -> tuple[float | None, ...]:
        """Each curve's value at the probe: its last point up to there."""
        chart = self._chart
        if chart is None or self.probe is None:
            return ()
        return tuple(chart.value(number, chart.stops[self.probe]) for number in range(len(self.view.curves)))

    def _amount(self, curve: Curve, value: float | None) -> str:
        """What the legend tells of ``curve``: nothing where its points are replaced, as they belong to no step."""
        return "" if value is None and curve.edition else self._value(value)

    def _value(self, value: float | None) -> str:
        return format_value(_tidy(value), self.view.y_unit if self.view.y_unit in SCALED else "")

    def _now(self) -> PlotFrame:
        assert isinstance(self.frame, PlotFrame)
        return self.frame


def _tidy(value: float | None) -> float | int | None:
    """Whole numbers without a fraction, so that counts read as counts."""
    return int(value) if value is not None and value == value and abs(value) < 1e15 and value == int(value) else value
