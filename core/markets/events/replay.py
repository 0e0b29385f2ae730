"""A market-by-order file as a recording: one step an event, the ladder with every queue, and checks that the file holds together.

A recording takes under 200 bytes an event, whatever its length (`core.markets.events.day`), and is written in blocks of a few
milliseconds, so that it can be read, and cancelled, while it grows.
"""

from __future__ import annotations

import numpy as np

from core.errors import BadInput
from core.formatting import clock_text
from core.markets.events.book import NO_PRICE, Effects, EventBook
from core.markets.events.day import TRADES, EventDay
from core.markets.events.judge import EventJudge, knowledge_of_queues
from core.markets.events.order_table import OrderTable
from core.markets.events.steps import TEMPLATES, step_kinds
from core.markets.events.views import EventDepth, EventLadder, EventTape
from core.markets.kernels.compiled import is_ready
from core.markets.price_plot import PricePlot
from core.markets.readers.clock import PriceStep, day_of, zone_of
from core.markets.readers.forms import ACTION_NAMES, MAX_EVENTS, OrderEvents, OrderFile, whole_events
from core.markets.takers import OrderTakers
from core.recording import Recorder, Word

BLOCK = 16_384
COMPARED_AFTER = 1 << 18


def replay_orders(file: OrderFile, rec: Recorder) -> None:
    """Record every event of ``file``. BadInput where it holds none, or more than `MAX_EVENTS`."""
    _Replay(file, rec).record()


class _Replay:
    """Writes block after block: arrays first, then the steps that let readers look at them."""

    def __init__(self, file: OrderFile, rec: Recorder) -> None:
        self.file, self.rec, self.header = file, rec, file.header
        self.book = EventBook()
        self.day = EventDay(file.header.price_scale)
        self.table = OrderTable()
        self.judge = EventJudge()
        self.takers = OrderTakers()
        self.step = PriceStep(file.header.price_scale // 100)
        self.wrong_states = self.compared = self.back = self.seen = 0
        self.clock, self.hour, self.known = -(1 << 63), -2, ""

    def record(self) -> None:
        rec = self.rec
        rec.recording.time_unit = "s"
        rec.recording.clock = zone_of(self.header.clock)
        kinds = tuple(ACTION_NAMES[action] for action in TRADES)
        rec.recording.words = {"order": Word(("order",), identity=True), "trade": Word(("quantity",), "event", kinds)}
        rec.progress(0.0, "reading events" if is_ready("events/kernel.replay") else "compiling the order book, once")
        for events in whole_events(self.file.blocks(), BLOCK):
            self._block(events)
            if len(rec.recording) > MAX_EVENTS:
                found = f"more than {MAX_EVENTS:,} events"
                raise BadInput(self.header.path, found, f"at most {MAX_EVENTS:,} events for a replay (doctor reads files of any length)")
            rec.progress(self.file.done, "reading events")
        if not len(rec.recording):
            raise BadInput(self.header.path, f"no event of {self.header.symbol or 'any instrument'}", "a file with events in it")
        self._finish()

    def _begin(self, events: OrderEvents, date: str) -> None:
        """Panels and facts, once the first block is there to be looked at."""
        rec, header = self.rec, self.header
        self.ladder = rec.panel("Book", EventLadder(self.day, header.quantity_unit), 2.0)
        self.tape = rec.panel("Trades", EventTape(self.day, rec.recording.times), beside=True)
        self.plot = rec.panel("Price", PricePlot(self.day.quotes, rec.recording.times))
        self.depth = rec.panel("Depth", EventDepth(self.day, header.quantity_unit or "lots"), beside=True)
        rec.computed(*self.day.columns())
        rec.fact("symbol", header.symbol, note=header.note)
        rec.fact("format", header.format)
        if date:
            rec.fact("date", date, note="UTC, of the first event")
        self._tell_queues()
        self._facts()

    def _tell_queues(self) -> None:
        known, why = knowledge_of_queues(self.book.unknown)
        if known != self.known:
            self.known = known
            self.rec.fact("queue_knowledge", known, note=why)

    def _facts(self) -> None:
        """Every fact of a step is computed when it is asked for."""
        rec, day, unit = self.rec, self.day, self.header.quantity_unit
        note = "read where the exchange's event is complete"
        rec.fact_column("best_bid", day.fact(lambda first, end: day.settled("bid", first, end)), "$", note=note)
        rec.fact_column("best_ask", day.fact(lambda first, end: day.settled("ask", first, end)), "$", note=note)
        rec.fact_column("spread", day.fact(day.spread), "$", note=note)
        rec.fact_column("mid", day.fact(day.mid), "$", note=note)

        def total(name: str) -> np.ndarray:
            return day.fact(day.totals[name].rows)

        rec.fact_column("trades", total("trades"))
        rec.fact_column("volume", total("volume"), unit)
        rec.fact_column("volume", total("bought"), unit, note="what takers bought", label="bought")
        rec.fact_column("volume", total("sold"), unit, note="what takers sold", label="sold")
        rec.fact_column("depth", day.fact(lambda first, end: day.rows("bids", first, end)), unit, note="all bids", label="bid")
        rec.fact_column("depth", day.fact(lambda first, end: day.rows("asks", first, end)), unit, note="all asks", label="ask")
        both = day.fact(lambda first, end: day.rows("bids", first, end) + day.rows("asks", first, end))
        rec.fact_column("depth", both, unit, note="all orders of both sides")
        rec.fact_column("known_executions", total("judged"), note="fills of resting orders, auctions left out")
        rec.fact_column("out_of_turn", total("early"), note="of those: another order stood in front and stayed there")

    def _block(self, events: OrderEvents) -> None:
        first = len(self.rec.recording)
        effects = self._run(events)
        if not first:
            self.midnight, date = day_of(events.received, events.time, self.header.clock)
        clock = np.where(events.received > 0, events.received, events.time) - self.midnight
        self.back += int((clock[1:] < clock[:-1]).sum()) + bool(clock[0] < self.clock)
        self.clock = int(clock[-1])
        self.day.extend(events, effects)
        if not first:
            self._begin(events, date)
        self.ladder.tick = self.step.see(events.price[events.side != 0]) / self.header.price_scale
        self._tell_queues()
        end = first + len(events)
        if self.day.frames.worth(end, self.book.resting):
            self.day.frames.keep(end, self.book.snapshot())
        self.judge.see(events, effects)
        if end - self.seen >= max(COMPARED_AFTER, end // 4):
            self._compare()
        self.depth.fit(self.book)
        self.tape.extend(first + np.flatnonzero(np.isin(events.action, TRADES)))
        self.plot.draw(first, clock / 1e9)
        self._phases(events, clock, first)
        self._steps(events, effects, clock / 1e9)

    def _run(self, events: OrderEvents) -> Effects:
        try:
            return self.book.run(events)
        except BadInput as error:
            raise BadInput(f"{self.header.path}: {error.where}", error.found, error.allowed) from None

    def _compare(self) -> None:
        """Carry a table of orders that knows no queues up to here, and hold the book that a reader is shown against it."""
        get, end = self.day.events.get, len(self.day)
        self.table.see(*(get(name)[self.seen : end] for name in ("action", "order", "side", "price", "size")))
        self.seen = end
        shown = self.day.frames.rebuilt(end - 1)
        self.compared += 1
        self.wrong_states += any(shown.depth(side) != self.table.levels(side) for side in (1, -1))

    def _phases(self, events: OrderEvents, clock: np.ndarray, first: int) -> None:
        hour = np.where(events.snapshot, -1, clock // 3_600_000_000_000)
        for at in np.flatnonzero(np.diff(hour, prepend=self.hour)).tolist():
            self.rec.phase("snapshot" if hour[at] < 0 else clock_text(int(clock[at]), 0)[:5], first + at)
        self.hour = int(hour[-1])

    def _steps(self, events: OrderEvents, effects: Effects, seconds: np.ndarray) -> None:
        before = [self.day.rows(name, max(len(self.day) - len(events) - 1, 0), len(self.day) - 1) for name in ("bid", "ask")]
        if len(self.day) == len(events):
            before = [np.concatenate([[NO_PRICE], column]) for column in before]
        was, now = (np.where(effects.side > 0, bid, ask) for bid, ask in (before, (effects.bid, effects.ask)))
        crossed = events.last & (effects.bid >= effects.ask) & (effects.ask != NO_PRICE)
        alone = (was == NO_PRICE) | (now == NO_PRICE)
        kinds = step_kinds(events.action, effects.side, effects.marks, events.snapshot, was != now, crossed, alone)
        self.rec.steps(TEMPLATES, kinds, seconds, self.takers(events, effects.side))

    def _finish(self) -> None:
        rec, judge = self.rec, self.judge
        if self.seen < len(self.day):
            self._compare()
        judge.finish()
        oracle = f"a plain table of orders without queues, at {self.compared} places of the file"
        rec.check("books from keyframes that differ from a replay from zero", self.wrong_states, 0, oracle=oracle)
        rec.check("states crossed outside an auction", judge.crossed, 0, oracle=self._why_crossed())
        if judge.continuous:
            oracle = f"the trade records of the same event, {judge.continuous:,} events with trades, auctions left out"
            rec.check("events whose fills of resting orders are not its trades", judge.uneven, 0, oracle=oracle)
        rec.check("times that go back", self.back, 0, oracle="the time of the event before")
        rec.fact("unseen_orders", self.book.unknown, note="events about orders whose arrival is not in the file")
        note = "events that traded while a better price stood in the book: its orders were gone by then, without a word in the file"
        rec.fact("passed_better_price", judge.passed, note=note)
        rec.fact("keyframe_bytes", self.day.frames.nbytes / len(self.day), "bytes", note="of keyframes, for each event")

    def _why_crossed(self) -> str:
        """What the crossed states were compared with and, where there are any, what in the file speaks of their cause."""
        judge = self.judge
        expected = "best bid below best ask where an exchange's event is complete"
        if not judge.crossed:
            return expected
        trades = judge.executed + judge.continuous
        if judge.passed:
            return (
                f"{expected}; the first is event {judge.first_crossed + 1:,}. {judge.passed:,} of {trades:,} trading events passed a "
                "better price: orders that were gone at the exchange still rest here, because the file does not tell of their end"
            )
        return f"{expected}; the first is event {judge.first_crossed + 1:,}"
