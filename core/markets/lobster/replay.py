"""A LOBSTER day as a recording: one step an event, every view computed from the day's arrays at the step asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from core.markets.lobster.book import Rebuilt, moved_rows, wrong_transitions
from core.markets.lobster.day import Day
from core.markets.lobster.queues import levels_out_of_sight, submitted_out_of_sight
from core.markets.lobster.reader import (
    CROSS,
    EXECUTION,
    HIDDEN_EXECUTION,
    SUBMISSION,
    Events,
    Source,
    find_source,
    read_messages,
    read_orderbook,
)
from core.markets.lobster.steps import EVENT_NAMES, TEMPLATES, step_kinds
from core.markets.lobster.views import DepthBars, ReplayLadder, trade_tape
from core.markets.price_plot import PricePlot
from core.markets.readers.clock import parts_of
from core.markets.running import Rows, fact_of
from core.markets.takers import Sweeps
from core.recording import Recorder, Word

if TYPE_CHECKING:
    import numpy as np

REBUILT_LEVELS = 10
SAMPLED_STEPS = 300


def replay_lobster(path: str, symbol: str, rec: Recorder, *, sure: bool = False) -> None:
    """Record the LOBSTER file at ``path``. Without an orderbook file the book is rebuilt from the messages alone."""
    source = find_source(path, symbol, sure=sure)
    rec.recording.time_unit = "s"
    rec.recording.clock = "ET"
    rec.recording.words = {
        "order": Word(("order",), identity=True),
        "trade": Word(("quantity",), "event", tuple(EVENT_NAMES[kind] for kind in (EXECUTION, HIDDEN_EXECUTION, CROSS))),
    }
    rec.progress(0.0, "reading messages")
    events = read_messages(source)
    rebuilt = None if source.orderbook else Rebuilt(REBUILT_LEVELS)
    blocks = read_orderbook(source, len(events)) if rebuilt is None else rebuilt.rows(events)
    _Replay(source, events, rebuilt, rec).record(blocks)


class _Replay:
    """Writes one block of rows after the other: arrays first, then the steps that let readers look at them."""

    def __init__(self, source: Source, events: Events, rebuilt: Rebuilt | None, rec: Recorder) -> None:
        self.source, self.events, self.rebuilt, self.rec = source, events, rebuilt, rec
        self.sweeps = Sweeps()
        self.wrong = self.hidden_moved = self.crossed = self.known = self.early = 0
        self.first_wrong = -1
        self.parts = parts_of(events.time)

    def record(self, blocks: Iterator[np.ndarray]) -> None:
        first = 0
        for rows in blocks:
            if first == 0:
                self.day = Day(self.events, rows.shape[1] // 4)
                self.events = self.day.events
                self.last_row = rows[:0]
            self._block(first, rows)
            first += len(rows)
            self.rec.progress(first / len(self.events), "reading the order book")
        self._finish()

    def _begin(self, levels: int) -> None:
        rec, day, events = self.rec, self.day, self.day.events
        known = "Book" if self.rebuilt is None else "Book rebuilt from messages alone"
        rec.panel(known, ReplayLadder(self.day), 2.0)
        rec.panel("Trades", trade_tape(events), beside=True)
        self.plot = rec.panel("Price", PricePlot(day.quotes, rec.recording.times))
        self.depth_bars = rec.panel("Depth", DepthBars(self.day), beside=True)
        rec.computed(*day.columns())

        def fact(rows: Rows) -> np.ndarray:
            return fact_of(day.shown, rows)

        rec.fact_column("best_bid", fact(day.money("bid")), "$")
        rec.fact_column("best_ask", fact(day.money("ask")), "$")
        rec.fact_column("spread", fact(day.spread), "$")
        rec.fact_column("mid", fact(day.mid), "$")
        rec.fact_column("trades", fact(day.totals["trades"].rows), note="executions, visible and hidden, and crosses")
        rec.fact_column("volume", fact(day.totals["volume"].rows), "shares", note="all executions")
        for name in ("bought", "sold"):
            note = "visible executions, by what the taker did"
            rec.fact_column("volume", fact(day.totals[name].rows), "shares", note=note, label=name)
        rec.fact_column("hidden_share", fact(day.hidden_share), "%", note="of the executed volume")
        note = f"displayed on the best {levels} levels of a side"
        rec.fact_column("depth", fact(day.depth), "shares", note="bids and asks, " + note)
        rec.fact_column("depth", fact(day.kept("bid_depth")), "shares", label="bid")
        rec.fact_column("depth", fact(day.kept("ask_depth")), "shares", label="ask")
        rec.fact_column("known_executions", fact(day.kept("known")), note="executions of orders whose submission is in the file")
        ghosts = "" if self.rebuilt is None else " (or an order long gone that the file never cancels)"
        rec.fact_column("out_of_turn", fact(day.kept("early")), note="of those: another known order stood in front" + ghosts)
        where = "the orderbook file" if self.rebuilt is None else "messages alone, from an empty start"
        rec.fact("depth_source", where, kind="simulated")

    def _block(self, first: int, rows: np.ndarray) -> None:
        """Rows first, first + 1, …: check them against the row before, fill the arrays, publish the steps."""
        import numpy as np

        day = self.day
        span = slice(first, first + len(rows))
        whole = np.concatenate([self.last_row, rows])
        self.last_row = rows[-1:].copy()
        before, after = whole[:-1], whole[1:]
        self._compare(before, after, max(first, 1))
        self._forget(before, after, max(first, 1), rows, first)
        day.rows.extend(rows)
        level, level_before = self._levels(span, rows, before)
        known, early = self._turns(span)
        day.shown.extend(
            {
                "bid": rows[:, 2], "ask": rows[:, 0], "bid_depth": rows[:, 3::4].sum(axis=1), "ask_depth": rows[:, 1::4].sum(axis=1),
                "level_before": level_before, "level": level, "known": known, "early": early,
            }
        )  # fmt: skip
        if not first:
            self._begin(day.levels)
        self.crossed += int((rows[:, 0] <= rows[:, 2]).sum())
        self.depth_bars.grow(rows)
        self.plot.draw(first, self.events.time[span])
        for at, name in self.parts:
            if span.start <= at < span.stop:
                self.rec.phase(name, at)
        self._steps(span, level_before, level)

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

    def _turns(self, span: slice) -> tuple[np.ndarray, np.ndarray]:
        """How many executions of known orders so far, and how many that another known order at the price should have had."""
        import numpy as np

        events = self.events
        known, early = np.zeros(span.stop - span.start, dtype=np.int64), np.zeros(span.stop - span.start, dtype=np.int64)
        for at in np.flatnonzero(events.type[span] == EXECUTION).tolist():
            step = span.start + at
            ids, _ = self.day.queues.at(int(events.direction[step]), int(events.price[step]), step - 1)
            order = events.order[step]
            known[at] = (ids == order).any()
            early[at] = known[at] and ids[0] != order
        known, early = np.cumsum(known) + self.known, np.cumsum(early) + self.early
        self.known, self.early = int(known[-1]), int(early[-1])
        return known, early

    def _levels(self, span: slice, rows: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each event's own side and price shows in its row and in the row before."""
        import numpy as np

        events = self.events
        price, size, direction, first = events.price[span], events.size[span], events.direction[span], int(span.start == 0)
        level, level_before = _shown(rows, price, direction), np.zeros(len(rows), dtype=np.int64)
        level_before[first:] = _shown(before, price[first:], direction[first:])
        if first:  # nothing says what stood there before the first message but the message itself
            kind = events.type[0]
            level_before[0] = level[0] - size[0] if kind == SUBMISSION else level[0] + size[0] * (kind <= EXECUTION)
        return level, level_before

    def _steps(self, span: slice, level_before: np.ndarray, level: np.ndarray) -> None:
        import numpy as np

        events, shown = self.events, self.day.shown
        kind, price, size, direction = events.type[span], events.price[span], events.size[span], events.direction[span]
        earlier = np.maximum(np.arange(span.start, span.stop) - 1, 0)
        bids, asks = shown.get("bid"), shown.get("ask")
        best_moved = np.where(direction > 0, bids[span] != bids[earlier], asks[span] != asks[earlier])
        self.rec.steps(
            TEMPLATES,
            step_kinds(kind, price, direction, size, level_before, level, best_moved),
            events.time[span],
            self.sweeps(events.time[span], (kind == EXECUTION) | (kind == HIDDEN_EXECUTION), kind == SUBMISSION, direction),
        )

    def _finish(self) -> None:
        import numpy as np

        rec, events = self.rec, self.events
        sample = np.unique(np.linspace(0, len(events) - 1, min(SAMPLED_STEPS, len(events))).astype(np.int64)).tolist()
        levels = [(side, step, place) for step in sample for side in (1, -1) for place in range(self.day.levels)]
        gaps = [gap for gap in (self.day.unnamed(*level) for level in levels) if gap is not None]
        where = f"{len(gaps)} levels at {len(sample)} events spread over the day"
        if self.rebuilt is not None:
            rec.check("messages that leave the rebuilt book crossed", self.crossed, 0, oracle="best bid below best ask after every message")
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
