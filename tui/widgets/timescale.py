"""How time becomes cells: the scale of a schedule, the window that is shown, and the ticks of its axis."""

from __future__ import annotations

import math
from typing import NamedTuple

from rich.cells import cell_len

from core.formatting import digits
from core.views import Gantt

_SAMPLE = 512
_LONGEST_TEXT = 8
"""A longer text may be cut: it never asks for a wider scale than this many cells."""
_RUN_BYTES = 38
"""What one run of a style costs on the wire at true colour."""
_BUDGET = 13_000
"""Bytes that all lanes on screen may cost, so that a full repaint of the screen stays below 20 KB."""
_PREFIXES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Sample(NamedTuple):
    """What a sample of the spans says: ``quantum`` divides all times (0: none does); ``text`` and ``cell`` are cells per time
    at which most texts fit, and at which a typical span is one cell; ``roles`` occur."""

    quantum: float
    text: float
    cell: float
    roles: tuple[str, ...]


class TimeScale(NamedTuple):
    """``density`` cells per time unit; ``letters`` means that spans are wide enough to carry their text."""

    density: float
    letters: bool

    def column(self, time: float) -> int:
        return round(time * self.density)

    def middle(self, column: int) -> float:
        """The time in the middle of a cell."""
        return (column + 0.5) / self.density


def sample(view: Gantt) -> Sample:
    """Look at up to 512 spans spread over the schedule."""
    count = len(view)
    spans = [view.get(index) for index in range(0, count, max(count // _SAMPLE, 1))]
    roles = tuple(dict.fromkeys(span.role for span in spans))
    real = [span for span in spans if span.end > span.start]
    if not real:
        return Sample(0.0, 1.0, 1.0, roles)
    needs = sorted((min(cell_len(span.text), _LONGEST_TEXT) + 1) / (span.end - span.start) for span in real)
    lengths = sorted(span.end - span.start for span in real)
    text = min(needs[len(needs) * 4 // 5], 16 * needs[len(needs) // 5])
    quantum = _quantum(lengths[0], [t for span in real for t in (span.start, span.end)])
    return Sample(quantum, text, 1.0 / (quantum or lengths[len(lengths) // 2]), roles)


def choose(seen: Sample, end: float, width: int, lanes: int, per_lane: int) -> TimeScale:
    """The scale at which ``width`` cells show a schedule that lasts until ``end``, ``lanes`` of them at a time.

    All of it with its texts when that fits; else a part of it with texts when the traffic allows; else one cell a
    typical span (``per_lane`` spans stand on a lane on average).
    """
    fit = width / end if end > 0 else 1.0
    if seen.text <= fit:
        density = fit
    else:
        shown = min(width * seen.cell / seen.text, per_lane)
        affordable = lanes * max(shown, 1) * _RUN_BYTES <= _BUDGET
        density = seen.text if affordable else max(fit, seen.cell)
    if seen.quantum and density * seen.quantum >= 1:
        cells = density * seen.quantum
        density = (math.floor(cells + 1e-9) if density <= fit else math.ceil(cells - 1e-9)) / seen.quantum
    return TimeScale(density, density >= 0.6 * seen.text)


def ticks(scale: TimeScale, first: int, cells: int, unit: str) -> tuple[list[tuple[int, str]], str]:
    """Tick labels of a window as (column from its left, text), three or more cells apart, and the unit they are in."""
    last = (first + cells) / scale.density
    factor, name = next(((f, n) for f, n in _PREFIXES if last >= f), _PREFIXES[-1]) if unit == "s" else (1.0, unit)
    widest = len(digits(last / factor)) + 3
    step = _nice(max(widest, 5) / scale.density / factor)
    places = max(-math.floor(math.log10(step) + 1e-9), 0)
    number = math.ceil(first / scale.density / factor / step - 1e-9)
    found = []
    while (column := scale.column(number * step * factor) - first) < cells:
        found.append((column, f"{number * step:.{places}f}"))
        number += 1
    return found, name


def _nice(least: float) -> float:
    """The smallest of 1, 2, 5, 10, … (any power of ten) that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= least * (1 - 1e-9))


def _quantum(shortest: float, times: list[float]) -> float:
    """The shortest length, or a simple fraction of it, if all ``times`` are multiples of it; else 0."""
    for parts in (1, 2, 3, 4):
        quantum = shortest / parts
        if all(abs(t / quantum - round(t / quantum)) < min(1e-6 * max(1.0, t / quantum), 0.01) for t in times):
            return quantum
    return 0.0
