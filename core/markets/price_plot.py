"""Best prices and the mid of a long replay over time: curves are thinned for drawing, the values at a step are exact."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from core.views import Plot, PlotFrame

WHOLE = 50_000
"""So many events are drawn with every change of a price; of later ones fewer and fewer, but always the extremes."""


class PricePlot(Plot):
    """``quotes(first, end)`` gives mid, bid and ask of these events, NaN where there is none."""

    def __init__(self, quotes: Callable[[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]], times: array[float]) -> None:
        """``times``: seconds of every event published so far."""
        super().__init__("time", "price", x_unit="clock", y_unit="$")
        self._quotes, self._times = quotes, times
        self._drawn = [float("nan")] * 3
        for name, role in (("mid", "plain"), ("bid", "bid"), ("ask", "ask")):
            self.curve(name, role, "step")

    def draw(self, first: int, seconds: np.ndarray) -> None:
        """Add the points of events first, first + 1, … at these times."""
        for curve, values in enumerate(self._quotes(first, first + len(seconds))):
            at = np.flatnonzero(np.isfinite(values) & (np.diff(values, prepend=self._drawn[curve]) != 0))
            self._drawn[curve] = float(values[-1])
            at = at[extremes(values[at], (first + at) // (1 + first // WHOLE))]
            if np.isfinite(values[-1]) and (not len(at) or at[-1] < len(values) - 1):
                at = np.append(at, len(values) - 1)  # the curve reaches as far as the events do
            self.points(curve, seconds[at], values[at], first + at)

    def at(self, step: int) -> PlotFrame:
        values = (float(column[0]) for column in self._quotes(step, step + 1))
        cursor = self._times[step] if step < len(self._times) else None
        return PlotFrame(cursor, tuple(None if value != value else value for value in values))


def extremes(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Which values to keep so that each run of equal ``group`` keeps its first, least, largest and last: (kept,) increasing indices."""
    if not len(values) or (np.diff(group) > 0).all():
        return np.arange(len(values))
    heads = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    tails = np.append(heads[1:], len(group)) - 1
    run = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(group))))
    order = np.lexsort((values, run))  # runs keep their places, each now sorted
    return np.unique(np.concatenate([heads, tails, order[heads], order[tails]]))
