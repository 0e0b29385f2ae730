"""What a replayed market-by-price file shows at any message: the ladder of quantities, the depth of both sides, the trades."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from core.markets.depth.book import DepthBook
from core.markets.depth.day import SIDE_NAMES, DepthDay
from core.markets.depth_split import SHOWN_LEVELS, SplitDepth
from core.markets.growing import GrowingLog
from core.markets.readers import forms
from core.markets.readers.clock import ClockTexts
from core.views import Column, GridFrame, Ladder, LadderFrame, Level, Mark, Plot, PlotFrame

if TYPE_CHECKING:
    import numpy as np

_MARKED = 6


class DepthLadder(Ladder):
    """The best levels after each message. Nothing is known of the orders behind a quantity."""

    def __init__(self, day: DepthDay, tick: float) -> None:
        super().__init__(tick=tick, price_unit="$")
        self.day = day

    def at(self, step: int) -> LadderFrame:
        if step >= len(self.day):  # a panel is there before its first message
            return LadderFrame((), (), ())
        with self.day.frames.after(step) as book:
            bids, asks = (tuple(Level(p, book.levels[side][p]) for p in book.prices(side, SHOWN_LEVELS)) for side in (1, -1))
        return LadderFrame(bids, asks, self._marks_of(step))

    def _marks_of(self, step: int) -> tuple[Mark, ...]:
        day = self.day
        if int(day.messages.get("kind")[step]) == forms.PRINT:
            side, price, size = (day.trade_of(name, step, step + 1)[0].item() for name in ("side", "price", "size"))
            return (Mark(price, "trade", f"{SIDE_NAMES[side + 1] or 'trade'} {size:g}"),)
        near = sorted(zip(*(column.tolist() for column in day.changed(step, step + 1)), strict=True), key=lambda row: -row[0] * row[1])
        bids, asks = [r for r in near if r[0] > 0][:_MARKED], [r for r in near if r[0] < 0][:_MARKED]
        return tuple(Mark(p, "bid" if s > 0 else "ask", f"now {q:g}" if q else "gone") for s, p, q in (*bids, *asks))


class DepthOfBook(SplitDepth[DepthBook]):
    """The depth after each message."""

    def __init__(self, day: DepthDay) -> None:
        super().__init__("")
        self.day = day

    def sizes(self, book: DepthBook, side: int) -> list[float]:
        return [book.levels[side][price] for price in book.prices(side, SHOWN_LEVELS)]

    def at(self, step: int) -> GridFrame:
        if step >= len(self.day):
            return GridFrame(len(self.parts), {}, frozenset())
        with self.day.frames.after(step) as book:
            return GridFrame(len(self.parts), self.cells(book), frozenset())


class DepthPlot(Plot):
    """Mid and best prices over time, or the prices of trades where a file holds nothing else. The values of a step are exact."""

    def __init__(self, day: DepthDay, times: array[float], *, trades_only: bool) -> None:
        super().__init__("time", "price", x_unit="clock", y_unit="$")
        self.day, self.trades_only = day, trades_only
        self._times = times
        for name, role in (("trade", "trade"),) if trades_only else (("mid", "plain"), ("bid", "bid"), ("ask", "ask")):
            self.curve(name, role, "step")

    def _values(self, first: int, end: int) -> tuple[np.ndarray, ...]:
        day = self.day
        if self.trades_only:
            return (day.trade_of("price", first, end),)
        bid, ask = day.rows("bid", first, end), day.rows("ask", first, end)
        return (bid + ask) / 2, bid, ask

    def draw(self, first: int, seconds: np.ndarray) -> None:
        """Add the points of messages first, first + 1, … at these times."""
        import numpy as np

        for curve, values in enumerate(self._values(first, first + len(seconds))):
            at = np.flatnonzero(np.isfinite(values) & (np.diff(values, prepend=np.nan) != 0))
            self.points(curve, seconds[at], values[at], first + at)

    def at(self, step: int) -> PlotFrame:
        if step >= len(self._times):
            return PlotFrame(None, (None,) * len(self.curves))
        values = [float(column[0]) for column in self._values(step, step + 1)]
        return PlotFrame(self._times[step], tuple(None if value != value else value for value in values))


class DepthVolume(Plot):
    """What takers bought and sold so far."""

    def __init__(self, day: DepthDay, times: array[float]) -> None:
        super().__init__("time", "volume", x_unit="clock")
        self.day = day
        self._times = times
        self.curve("bought", "bid", "step")
        self.curve("sold", "ask", "step")

    def draw(self, first: int, seconds: np.ndarray) -> None:
        import numpy as np

        steps = np.arange(first, first + len(seconds))
        for curve, name in enumerate(("bought", "sold")):
            self.points(curve, seconds, self.day.total(name, first, first + len(seconds)), steps)

    def at(self, step: int) -> PlotFrame:
        if step >= len(self._times):
            return PlotFrame(None, (None, None))
        return PlotFrame(self._times[step], tuple(float(self.day.total(name, step, step + 1)[0]) for name in ("bought", "sold")))


def trade_log() -> GrowingLog:
    """Trades, newest first: what the taker did, price, size, when (last: the narrowest screen shows the rest)."""
    columns = [Column("taker", align="left"), Column("price", "$"), Column("size"), Column("time", align="left")]
    return GrowingLog(columns, ("ask", "plain", "bid"), {0: ("sell", "?", "buy"), 3: ClockTexts()})
