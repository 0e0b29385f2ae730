"""What the aggressor's recording shows: who moved the mid, how much each side took, the split by cause, the tape with guesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core.markets.growing import GrowingLog
from core.markets.readers.clock import clock_text
from core.recording import Recorder
from core.views import Cell, Column, Plot, TableFrame, View

if TYPE_CHECKING:
    import numpy as np

    from core.markets.aggressor import Split

_SUM = "So far takers bought {bought} and sold {sold}; the mid moved by {by_trades:$} at trades and by {by_quotes:$} at quotes."
TEMPLATES: list[tuple[str, str]] = [
    (
        "A buyer takes {quantity} at {price:$} and the mid rises to {mid:$}",
        "The trade uses up the best ask: the mid goes from {mid_before:$} to {mid:$}. " + _SUM,
    ),
    (
        "A seller takes {quantity} at {price:$} and the mid falls to {mid:$}",
        "The trade uses up the best bid: the mid goes from {mid_before:$} to {mid:$}. " + _SUM,
    ),
    ("A buyer takes {quantity} at {price:$}", "Somebody sold exactly as much: every trade has both sides. The mid stays {mid:$}. " + _SUM),
    (
        "A seller takes {quantity} at {price:$}",
        "Somebody bought exactly as much: every trade has both sides. The mid stays {mid:$}. " + _SUM,
    ),
    ("{quantity} trade with a hidden order at {price:$}", "Its side is not visible to the market, so it is in neither volume. " + _SUM),
    (
        "A new order moves the mid to {mid:$}",
        "Nobody traded: a better price was quoted, and the mid goes from {mid_before:$} to {mid:$}. " + _SUM,
    ),
    (
        "A withdrawn order moves the mid to {mid:$}",
        "Nobody traded: the last order of the best price left, and the mid goes from {mid_before:$} to {mid:$}. " + _SUM,
    ),
    ("A changed order moves the mid to {mid:$}", "Nobody traded: an order moved, and the mid goes from {mid_before:$} to {mid:$}. " + _SUM),
    ("The mid moves to {mid:$}", "It goes from {mid_before:$} to {mid:$} without a trade. " + _SUM),
]
_ROWS = (("executions", "trade"), ("placements", "group0"), ("deletions", "group1"), ("modifications", "group2"), ("other", "dim"))
_SIDES = ("sell", "?", "buy")


def step_kinds(split: Split, span: slice) -> np.ndarray:
    """Index into `TEMPLATES` for each step of ``span``."""
    import numpy as np

    sign, change, cause = split.sign[span], split.change[span], split.cause[span]
    hidden = ~split.visible[span] & (split.size[span] > 0)
    conditions = [hidden, (sign > 0) & (change > 0), (sign < 0) & (change < 0), sign > 0, sign < 0, cause == 1, cause == 2, cause == 3]
    return np.select(conditions, [4, 0, 1, 2, 3, 5, 6, 7], 8)


class SplitTable(View):
    """One row a cause: how much the mid changed at it up to the step, and at how many events."""

    kind = "table"

    def __init__(self, split: Split) -> None:
        import numpy as np

        super().__init__()
        self.columns = (Column("the mid changed at", align="left"), Column("by", "$"), Column("events"))
        self._causes = [k for k in range(len(_ROWS)) if k < 3 or (split.cause == k).any()]
        self._changes = [split.money(split.by_cause[k]) for k in self._causes]
        self._counts = [np.cumsum((split.cause == k) & (split.change != 0)) for k in self._causes]
        self._now = split.cause

    def at(self, step: int) -> TableFrame:
        rows = []
        for k, change, count in zip(self._causes, self._changes, self._counts, strict=True):
            name, role = _ROWS[k]
            rows.append((Cell(name, role), Cell(float(change[step]), role), Cell(int(count[step]), role)))
        total = sum(float(change[step]) for change in self._changes)
        rows.append((Cell("everything", "plain"), Cell(round(total, 9), "plain"), Cell(sum(int(c[step]) for c in self._counts), "plain")))
        lit = frozenset(row for row, k in enumerate(self._causes) if k == self._now[step])
        return TableFrame(tuple(rows), lit)


def draw(rec: Recorder, split: Split, guesses: Mapping[str, np.ndarray]) -> None:
    """Put the four panels on the stage, with all their points."""
    import numpy as np

    steps = np.arange(len(split))
    plot = rec.panel("Change of the mid: at trades, at quotes", Plot("time", "change", x_unit="s", y_unit="$"), 1.6)
    total = split.by_trades + split.by_quotes
    for name, role, values in (("the mid", "plain", total), ("at trades", "trade", split.by_trades), ("at quotes", "own", split.by_quotes)):
        curve = plot.curve(name, role, "step")
        turns = np.diff(values, prepend=values[0] + 1) != 0
        turns[-1] = True
        plot.points(curve, split.time[turns], split.money(values[turns]), steps[turns])
    rec.panel("Where the change came from", SplitTable(split), beside=True)
    volume = rec.panel("Volume by who took", Plot("time", "volume", x_unit="s"), 1.2)
    for name, role, values in (("bought", "bid", split.bought), ("sold", "ask", split.sold)):
        turns = np.diff(values, prepend=-1) != 0
        turns[-1] = True
        volume.points(volume.curve(name, role, "step"), split.time[turns], values[turns].astype(np.float64), steps[turns])
    columns = [Column("time", align="left"), Column("taker", align="left"), Column("price", "$"), Column("quantity")]
    columns += [Column(name, align="left") for name in ("quote rule", "tick rule", "Lee-Ready")]
    sides = dict.fromkeys((1, 4, 5, 6), _SIDES)
    log = rec.panel("Trades and what the rules say", GrowingLog(columns, ("ask", "plain", "bid"), sides), beside=True)
    at = np.flatnonzero(split.visible)
    text = np.array([clock_text(int(t * 1e9)) for t in split.time[at].tolist()], dtype="U13")
    taker = split.sign[at] + 1
    codes = [guesses[name] + 1 for name in ("quote_rule", "tick_rule", "lee_ready")]
    log.extend(at, taker, [text, taker, split.price[at], split.size[at], *codes])
