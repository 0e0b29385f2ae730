"""A LOBSTER day as a recording: one step an event, every view computed from the day's arrays at the step asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.markets.lobster import (
    CROSS,
    EXECUTION,
    HIDDEN_EXECUTION,
    PRICE_SCALE,
    SUBMISSION,
    UNOCCUPIED,
    Events,
    Source,
    find_source,
    read_messages,
    read_orderbook,
)
from core.markets.lobster_book import Rebuilt, moved_rows, wrong_transitions
from core.markets.lobster_steps import EVENT_NAMES, TEMPLATES, step_kinds
from core.markets.queues import levels_out_of_sight, submitted_out_of_sight
from core.markets.replay_views import Day, DepthBars, ReplayLadder, clock_time, trade_tape
from core.recording import Recorder
from core.views import Plot

if TYPE_CHECKING:
    import numpy as np

REBUILT_LEVELS = 10
SAMPLED_STEPS = 300
_PHASE_SECONDS = (3600, 1800, 300, 60, 10, 1)


def replay_lobster(path: str, symbol: str, rec: Recorder, *, sure: bool = False) -> None:
    """Record the LOBSTER file at ``path``. Without an orderbook file the book is rebuilt from the messages alone."""
    source = find_source(path, symbol, sure=sure)
    rec.recording.time_unit = "s"
    rec.progress(0.0, "reading messages")
    events = read_messages(source)
    rebuilt = None if source.orderbook else Rebuilt(REBUILT_LEVELS)
    blocks = read_orderbook(source, len(events)) if rebuilt is None else rebuilt.rows(events)
    _Replay(source, events, rebuilt, rec).record(blocks)


class _Replay:
    """Writes one block of rows after the other: arrays first, then the steps that let readers look at them."""

    def __init__(self, source: Source, events: Events, rebuilt: Rebuilt | None, rec: Recorder) -> None:
        self.source, self.events, self.rebuilt, self.rec = source, events, rebuilt, rec
        self.wrong = self.hidden_moved = 0
        self.first_wrong = -1

    def record(self, blocks: Iterator[np.ndarray]) -> None:
        first = 0
        for rows in blocks:
            if first == 0:
                self._begin(rows.shape[1] // 4)
            self._block(first, rows)
            first += len(rows)
            self.rec.progress(first / len(self.events), "reading the order book")
        self._finish()

    def _begin(self, levels: int) -> None:
        import numpy as np

        events, rec = self.events, self.rec
        self.day = Day(events, levels)
        known = "Book" if self.rebuilt is None else "Book rebuilt from messages alone"
        rec.panel(known, ReplayLadder(self.day), 2.0)
        rec.panel("Trades", trade_tape(events), beside=True)
        self.plot = rec.panel("Price", Plot("time", "price", x_unit="s", y_unit="$"))
        self.curves = [
            self.plot.curve("mid", "plain", "step"),
            self.plot.curve("bid", "bid", "step"),
            self.plot.curve("ask", "ask", "step"),
        ]
        self.depth_bars = rec.panel("Depth", DepthBars(self.day), beside=True)
        trades = (events.type >= EXECUTION) & (events.type <= CROSS)
        visible = events.type == EXECUTION
        self.volume = np.cumsum(np.where(trades, events.size, 0))
        hidden = np.cumsum(np.where(events.type == HIDDEN_EXECUTION, events.size, 0))
        self.bid, self.ask = np.full(len(events), np.nan), np.full(len(events), np.nan)
        self.mid, self.spread = np.full(len(events), np.nan), np.full(len(events), np.nan)
        self.bid_depth, self.ask_depth = np.zeros(len(events), dtype=np.int64), np.zeros(len(events), dtype=np.int64)
        self.depth = np.zeros(len(events), dtype=np.int64)
        rec.fact_column("best_bid", self.bid, "$")
        rec.fact_column("best_ask", self.ask, "$")
        rec.fact_column("spread", self.spread, "$")
        rec.fact_column("mid", self.mid, "$")
        rec.fact_column("trades", np.cumsum(trades), note="executions, visible and hidden, and crosses")
        rec.fact_column("volume", self.volume, "shares", note="all executions")
        for name, chosen in (("bought", visible & (events.direction < 0)), ("sold", visible & (events.direction > 0))):
            volume = np.cumsum(np.where(chosen, events.size, 0))
            rec.fact_column("volume", volume, "shares", note="visible executions, by what the taker did", label=name)
        with np.errstate(invalid="ignore"):
            rec.fact_column("hidden_share", hidden / self.volume, "%", note="of the executed volume")
        note = f"displayed on the best {levels} levels of a side"
        rec.fact_column("depth", self.depth, "shares", note="bids and asks, " + note)
        rec.fact_column("depth", self.bid_depth, "shares", label="bid")
        rec.fact_column("depth", self.ask_depth, "shares", label="ask")
        self.known_executions, self.out_of_turn = np.zeros(len(events), dtype=np.int64), np.zeros(len(events), dtype=np.int64)
        rec.fact_column("known_executions", self.known_executions, note="executions of orders whose submission is in the file")
        ghosts = "" if self.rebuilt is None else " (or an order long gone that the file never cancels)"
        rec.fact_column("out_of_turn", self.out_of_turn, note="of those: another known order stood in front" + ghosts)
        where = "the orderbook file" if self.rebuilt is None else "messages alone, from an empty start"
        rec.fact("depth_source", where, kind="simulated")

    def _block(self, first: int, rows: np.ndarray) -> None:
        """Rows first, first + 1, …: check them against the row before, fill the arrays, publish the steps."""
        import numpy as np

        day = self.day
        span = slice(first, first + len(rows))
        day.rows[span] = rows
        after = rows if first else rows[1:]
        before = day.rows[max(first - 1, 0) : first + len(rows) - 1]
        self._compare(before, after, max(first, 1))
        self._forget(before, after, max(first, 1), rows, first)
        asks, bids = rows[:, 0], rows[:, 2]
        self.ask[span] = np.where(asks == UNOCCUPIED, np.nan, asks / PRICE_SCALE)
        self.bid[span] = np.where(bids == -UNOCCUPIED, np.nan, bids / PRICE_SCALE)
        one_sided = (asks == UNOCCUPIED) | (bids == -UNOCCUPIED)
        self.mid[span] = np.where(one_sided, np.nan, (asks + bids) / (2 * PRICE_SCALE))
        self.spread[span] = np.where(one_sided, np.nan, (asks - bids) / PRICE_SCALE)
        self.ask_depth[span], self.bid_depth[span] = rows[:, 1::4].sum(axis=1), rows[:, 3::4].sum(axis=1)
        self.depth[span] = self.ask_depth[span] + self.bid_depth[span]
        self.depth_bars.grow(rows)
        self._turns(span)
        self._draw(span)
        self._phases(span)
        self._steps(span, rows)

    def _compare(self, before: np.ndarray, after: np.ndarray, first: int) -> None:
        wrong = wrong_transitions(before, after, self.events, first)
        if wrong.any() and self.first_wrong < 0:
            self.first_wrong = first + int(wrong.argmax())
        self.wrong += int(wrong.sum())
        hidden = self.events.type[first : first + len(after)] == HIDDEN_EXECUTION
        self.hidden_moved += int((moved_rows(before, after) & hidden).sum())

    def _forget(self, before: np.ndarray, after: np.ndarray, second: int, rows: np.ndarray, first: int) -> None:
        """Orders that the file may drop without a word are no longer known."""
        import numpy as np

        if self.rebuilt is not None:
            dropped = np.array(self.rebuilt.dropped, dtype=np.int64).reshape(-1, 3)
            self.rebuilt.dropped.clear()
            self.day.queues.forget(*dropped.T)
            return
        unseen = submitted_out_of_sight(rows, self.events, first)
        left = levels_out_of_sight(before, after, second)
        self.day.queues.forget(*(np.concatenate(pair) for pair in zip(left, unseen, strict=True)))

    def _turns(self, span: slice) -> None:
        """Count the executions of known orders, and those that another known order at the price should have had."""
        import numpy as np

        events = self.events
        known, early = np.zeros(span.stop - span.start, dtype=np.int64), np.zeros(span.stop - span.start, dtype=np.int64)
        for at in np.flatnonzero(events.type[span] == EXECUTION).tolist():
            step = span.start + at
            ids, _ = self.day.queues.at(int(events.direction[step]), int(events.price[step]), step - 1)
            order = events.order[step]
            known[at] = (ids == order).any()
            early[at] = known[at] and ids[0] != order
        for total, block in ((self.known_executions, known), (self.out_of_turn, early)):
            total[span] = np.cumsum(block) + (total[span.start - 1] if span.start else 0)

    def _draw(self, span: slice) -> None:
        import numpy as np

        steps, time = np.arange(span.start, span.stop), self.events.time[span]
        for curve, values in zip(self.curves, (self.mid, self.bid, self.ask), strict=True):
            fits = np.isfinite(values[span])
            self.plot.points(curve, time[fits], values[span][fits], steps[fits])

    def _phases(self, span: slice) -> None:
        """Phases are parts of the day that all events of one clock interval fall into."""
        import numpy as np

        time = self.events.time
        seconds = next((s for s in _PHASE_SECONDS if time[-1] // s - time[0] // s >= 4), 1)
        parts = time[span] // seconds
        before = np.nan if span.start == 0 else time[span.start - 1] // seconds
        for at in np.flatnonzero(parts != np.concatenate([[before], parts[:-1]])).tolist():
            second = float(parts[at]) * seconds if span.start + at else float(time[0])
            self.rec.phase(clock_time(second, seconds < 60), span.start + at)

    def _steps(self, span: slice, rows: np.ndarray) -> None:
        import numpy as np

        events = self.events
        kind, price, size, direction = events.type[span], events.price[span], events.size[span], events.direction[span]
        level, level_before = _shown(rows, price, direction), np.zeros(len(rows), dtype=np.int64)
        level_before[1:] = _shown(rows[:-1], price[1:], direction[1:])
        if span.start:
            level_before[0] = _shown(self.day.rows[span.start - 1 : span.start], price[:1], direction[:1])[0]
        else:  # nothing says what stood there before the first message but the message itself
            level_before[0] = level[0] - size[0] if kind[0] == SUBMISSION else level[0] + size[0] * (kind[0] <= EXECUTION)
        bid, ask, mid, spread = (_before(column, span) for column in (self.bid, self.ask, self.mid, self.spread))
        best_moved = np.where(direction > 0, _differs(bid, self.bid[span]), _differs(ask, self.ask[span]))
        best_moved[0] &= span.start > 0
        self.rec.steps(
            TEMPLATES,
            step_kinds(kind, price, direction, size, level_before, level, best_moved),
            events.time[span],
            event=[EVENT_NAMES[k] for k in kind.tolist()],
            type=kind,
            order=events.order[span],
            side=[("sell", "", "buy")[d + 1] for d in direction.tolist()],
            price=price / PRICE_SCALE,
            quantity=size,
            bid=self.bid[span], ask=self.ask[span], mid=self.mid[span], spread=self.spread[span],
            bid_before=bid, ask_before=ask, mid_before=mid, spread_before=spread,
            level_before=level_before, level=level, volume=self.volume[span],
        )  # fmt: skip

    def _finish(self) -> None:
        import numpy as np

        rec, events = self.rec, self.events
        sample = np.unique(np.linspace(0, len(events) - 1, min(SAMPLED_STEPS, len(events))).astype(np.int64)).tolist()
        levels = [(side, step, place) for step in sample for side in (1, -1) for place in range(self.day.levels)]
        gaps = [gap for gap in (self.day.unnamed(*level) for level in levels) if gap is not None]
        where = f"{len(gaps)} levels at {len(sample)} events spread over the day"
        if self.rebuilt is not None:
            crossed = int((self.day.rows[:, 0] <= self.day.rows[:, 2]).sum())
            rec.check("messages that leave the rebuilt book crossed", crossed, 0, oracle="best bid below best ask after every message")
            rec.check(
                "rebuilt levels that are not the sum of their orders",
                sum(gap != 0 for gap in gaps),
                0,
                oracle="orders found from arrays, " + where,
            )
            rec.fact("ghost_orders", self.rebuilt.ghosts, note="dropped: a message shows that they cannot be there any more")
            rec.fact("unseen_orders", self.rebuilt.unseen, note="messages about orders whose submission is not in the file")
            return
        place = "" if self.first_wrong < 0 else f"; the first is at event {self.first_wrong + 1}"
        oracle = "all levels of the row before and the message, but for a level that comes into sight" + place
        rec.check("previous row + message = next row (exceptions)", self.wrong, 0, oracle=oracle)
        if (events.type == HIDDEN_EXECUTION).any():
            rec.check("hidden executions that move the ladder", self.hidden_moved, 0, oracle="the row before, field by field")
        rec.check(
            "levels with more known orders than displayed", sum(gap < 0 for gap in gaps), 0, oracle="queues from messages against " + where
        )


def _shown(rows: np.ndarray, price: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """(rows,) the quantity displayed at each event's own side and price in its row."""
    import numpy as np

    asks = ((rows[:, 0::4] == price[:, None]) * rows[:, 1::4]).sum(axis=1)
    bids = ((rows[:, 2::4] == price[:, None]) * rows[:, 3::4]).sum(axis=1)
    shown: np.ndarray = np.where(direction > 0, bids, asks)
    return shown


def _before(column: np.ndarray, span: slice) -> np.ndarray:
    """The column one event earlier; NaN before the first."""
    import numpy as np

    head = column[span.start - 1] if span.start else np.nan
    return np.concatenate([[head], column[span.start : span.stop - 1]])


def _differs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Elementwise ``!=`` in which two missing values are the same."""
    differs: np.ndarray = (one != other) & ~((one != one) & (other != other))
    return differs
