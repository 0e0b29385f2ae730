"""A market-by-order file as a recording: one step an event, the ladder with every queue, and checks that the file holds together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import BadInput
from core.markets.event_book import IN_TURN, NO_PRICE, OUT_OF_TURN, Effects, EventBook
from core.markets.event_judge import EventJudge
from core.markets.event_steps import TEMPLATES, step_kinds
from core.markets.event_views import LEAST_BETWEEN_KEYFRAMES, EventDay, EventDepth, EventLadder
from core.markets.growing import GrowingLog
from core.markets.readers import forms
from core.markets.readers.clock import clock_text, day_of, tick_of
from core.markets.readers.forms import ACTION_NAMES, MAX_EVENTS, OrderEvents, OrderFile, part_of, whole_events
from core.recording import Recorder
from core.views import Column, Plot

if TYPE_CHECKING:
    import numpy as np

BLOCK = 20_000
COMPARED_STATES = 8
_DID = ("sell", "buy", "auction", "?")
_TRADES = (forms.TRADE, forms.EXECUTE, forms.HIDDEN, forms.CROSS)


def replay_orders(file: OrderFile, rec: Recorder) -> None:
    """Record every event of ``file``. BadInput where it holds none, or more than `MAX_EVENTS`."""
    _Replay(file, rec).record()


class _Replay:
    """Writes block after block: arrays first, then the steps that let readers look at them."""

    def __init__(self, file: OrderFile, rec: Recorder) -> None:
        self.file, self.rec, self.header = file, rec, file.header
        self.book = EventBook()
        self.plain: dict[int, tuple[int, int, int]] = {}
        self.judge = EventJudge()
        self.wrong_states = self.compared = self.back = 0
        self.carry: dict[str, float] = {}

    def record(self) -> None:
        rec = self.rec
        rec.recording.time_unit = "s"
        rec.progress(0.0, "reading events")
        for events in whole_events(self.file.blocks(), BLOCK):
            if not len(rec.recording):
                self._begin(events)
            self._block(events)
            if len(rec.recording) > MAX_EVENTS:
                found = f"more than {MAX_EVENTS:,} events"
                raise BadInput(self.header.path, found, f"at most {MAX_EVENTS:,} events for a replay (doctor reads files of any length)")
            rec.progress(self.file.done, "reading events")
        if not len(rec.recording):
            raise BadInput(self.header.path, f"no event of {self.header.symbol or 'any instrument'}", "a file with events in it")
        self._finish()

    def _begin(self, events: OrderEvents) -> None:
        rec, header = self.rec, self.header
        self.midnight, date = day_of(events.received, events.time, header.clock)
        self.day = EventDay(header.price_scale)
        self.ladder = rec.panel("Book", EventLadder(self.day, header.quantity_unit), 2.0)
        self.ladder.tick = tick_of(events.price[events.side != 0]) / header.price_scale
        columns = [Column("time", align="left"), Column("taker", align="left"), Column("price", "$"), Column("quantity")]
        self.tape = rec.panel("Trades", GrowingLog(columns, ("ask", "bid", "plain", "plain"), {1: _DID}), beside=True)
        self.plot = rec.panel("Price", Plot("time", "price", x_unit="s", y_unit="$"))
        self.curves = [self.plot.curve(name, role, "step") for name, role in (("mid", "plain"), ("bid", "bid"), ("ask", "ask"))]
        self.depth = rec.panel("Depth", EventDepth(self.day, header.quantity_unit or "lots"), beside=True)
        rec.fact("symbol", header.symbol, note=header.note)
        rec.fact("format", header.format)
        if date:
            rec.fact("date", date, note="UTC, of the first event")
        rec.fact("queue_knowledge", "exact", note="every order is named")

    def _block(self, events: OrderEvents) -> None:
        import numpy as np

        first = len(self.rec.recording)
        effects = self._run(events, first)
        clock = np.where(events.received > 0, events.received, events.time) - self.midnight
        before = self.carry.get("clock", clock[0])
        self.back += int((np.diff(clock, prepend=before) < 0).sum())
        self.carry["clock"] = int(clock[-1])
        self.day.events.extend(
            {
                "action": events.action, "order": events.order, "side": events.side, "price": events.price, "size": events.size,
                "last": events.last, "at_side": effects.side.astype(np.int8), "at_price": effects.price,
                **self._read_at_last(events, effects, clock), **self._counted(events, effects),
            }
        )  # fmt: skip
        self.judge.see(events, effects)
        self._compare(events)
        self.depth.fit(self.book)
        self._facts()
        self._tape(events, effects, clock, first)
        self._phases(events, clock, first)
        self._steps(events, effects, clock / 1e9)

    def _run(self, events: OrderEvents, first: int) -> Effects:
        """Apply the block in pieces, so that a keyframe can stand between any two of them."""
        import numpy as np

        parts = []
        ends = np.append(np.flatnonzero(events.last) + 1, len(events))
        at = 0
        while at < len(events):
            end = int(ends[min(int(np.searchsorted(ends, at + LEAST_BETWEEN_KEYFRAMES)), len(ends) - 1)])
            parts.append(self.book.run(part_of(events, at, end)))
            self.day.keep(first + end - 1, self.book)
            at = end
        return Effects(*(np.concatenate([getattr(part, name) for part in parts]) for name in Effects.__struct_fields__))

    def _read_at_last(self, events: OrderEvents, effects: Effects, clock: np.ndarray) -> dict[str, np.ndarray]:
        """Best prices as floats, read where the exchange's event is complete and held until the next such place."""
        import numpy as np

        scale, out = self.header.price_scale, {}
        place = np.maximum.accumulate(np.where(events.last, np.arange(len(events)), -1))
        for name, column in (("bid", effects.bid), ("ask", effects.ask)):
            price = np.where(column == NO_PRICE, np.nan, column / scale)
            out[name] = np.where(place >= 0, price[place], self.carry.get(name, np.nan))
            self.carry[name] = float(out[name][-1])
        out["mid"], out["spread"] = (out["bid"] + out["ask"]) / 2, out["ask"] - out["bid"]
        steps = len(self.day.events) + np.arange(len(events))
        for curve, name in zip(self.curves, ("mid", "bid", "ask"), strict=True):
            values = out[name]
            fits = np.isfinite(values) & (np.diff(values, prepend=np.nan) != 0)
            self.plot.points(curve, clock[fits] / 1e9, values[fits], steps[fits])
        return out

    def _counted(self, events: OrderEvents, effects: Effects) -> dict[str, np.ndarray]:
        """Running totals: trades, volume by what the taker did, executions by turn; depth as it is."""
        import numpy as np

        trade = np.isin(events.action, _TRADES)
        visible = (events.action == forms.TRADE) | (events.action == forms.EXECUTE)
        taker = np.where(events.action == forms.TRADE, events.side, -effects.side)
        judged = (effects.marks & (IN_TURN | OUT_OF_TURN)) > 0
        rows = {
            "trades": trade, "volume": np.where(trade, events.size, 0),
            "bought": np.where(visible & (taker > 0), events.size, 0), "sold": np.where(visible & (taker < 0), events.size, 0),
            "judged": judged, "early": (effects.marks & OUT_OF_TURN) > 0,
        }  # fmt: skip
        out = {}
        for name, values in rows.items():
            out[name] = np.cumsum(values, dtype=np.int64) + int(self.carry.get(name, 0))
            self.carry[name] = int(out[name][-1])
        return {**out, "bids": effects.bids, "asks": effects.asks}

    def _facts(self) -> None:
        rec, get, unit = self.rec, self.day.events.get, self.header.quantity_unit
        note = "read where the exchange's event is complete"
        rec.fact_column("best_bid", get("bid"), "$", note=note)
        rec.fact_column("best_ask", get("ask"), "$", note=note)
        rec.fact_column("spread", get("spread"), "$", note=note)
        rec.fact_column("mid", get("mid"), "$", note=note)
        rec.fact_column("trades", get("trades"))
        rec.fact_column("volume", get("volume"), unit)
        rec.fact_column("volume", get("bought"), unit, note="what takers bought", label="bought")
        rec.fact_column("volume", get("sold"), unit, note="what takers sold", label="sold")
        rec.fact_column("depth", get("bids"), unit, note="all bids", label="bid")
        rec.fact_column("depth", get("asks"), unit, note="all asks", label="ask")
        rec.fact_column("depth", get("bids") + get("asks"), unit, note="all orders of both sides")
        rec.fact_column("known_executions", get("judged"), note="fills of resting orders, auctions left out")
        rec.fact_column("out_of_turn", get("early"), note="of those: another order stood in front and stayed there")

    def _compare(self, events: OrderEvents) -> None:
        """Keep a plain table of orders beside the book, and compare the two now and then."""
        plain = self.plain
        columns = [c.tolist() for c in (events.action, events.order, events.side, events.price, events.size)]
        for action, order, side, price, size in zip(*columns, strict=True):
            if action == forms.ADD or action == forms.MODIFY:
                if side and size > 0:
                    plain[order] = (side, price, size)
                else:
                    plain.pop(order, None)
            elif action == forms.CANCEL or action == forms.DELETE or action == forms.EXECUTE:
                mine = plain.pop(order, None)
                if mine is not None and action != forms.DELETE and mine[2] > size:
                    plain[order] = (mine[0], mine[1], mine[2] - size)
            elif action == forms.CLEAR:
                plain.clear()
        want: dict[tuple[int, int], int] = {}
        for side, price, size in plain.values():
            want[side, price] = want.get((side, price), 0) + size
        shown = self.day.rebuilt(len(self.day.events) - 1)
        got = {(side, price): size for side in (1, -1) for price, size in shown.levels[side].items()}
        self.compared += 1
        self.wrong_states += got != want

    def _tape(self, events: OrderEvents, effects: Effects, clock: np.ndarray, first: int) -> None:
        import numpy as np

        at = np.flatnonzero(np.isin(events.action, _TRADES))
        action = events.action[at]
        taker = np.where(action == forms.TRADE, events.side[at], np.where(action == forms.EXECUTE, -effects.side[at], 0))
        code = np.where(taker > 0, 1, np.where(taker < 0, 0, np.where(action == forms.HIDDEN, 3, 2)))
        text = np.array([clock_text(c) for c in clock[at].tolist()], dtype="U12")
        price = effects.price[at] / self.header.price_scale
        self.tape.extend(first + at, code, [text, code, price, events.size[at]])

    def _phases(self, events: OrderEvents, clock: np.ndarray, first: int) -> None:
        import numpy as np

        hour = np.where(events.snapshot, -1, clock // 3_600_000_000_000)
        before = self.carry.get("hour", -2)
        for at in np.flatnonzero(np.diff(hour, prepend=before)).tolist():
            self.rec.phase("snapshot" if hour[at] < 0 else clock_text(int(clock[at]))[:5], first + at)
        self.carry["hour"] = int(hour[-1])

    def _steps(self, events: OrderEvents, effects: Effects, seconds: np.ndarray) -> None:
        import numpy as np

        scale = self.header.price_scale
        bid, ask = (np.where(c == NO_PRICE, np.nan, c / scale) for c in (effects.bid, effects.ask))
        bid_before = np.concatenate([[self.carry.get("run_bid", np.nan)], bid[:-1]])
        ask_before = np.concatenate([[self.carry.get("run_ask", np.nan)], ask[:-1]])
        self.carry["run_bid"], self.carry["run_ask"] = float(bid[-1]), float(ask[-1])
        moved = np.where(effects.side > 0, _differs(bid, bid_before), _differs(ask, ask_before))
        side = np.where(np.isin(events.action, (forms.TRADE, forms.FILL)), events.side, effects.side)
        self.rec.steps(
            TEMPLATES,
            step_kinds(events.action, side, effects.marks, events.snapshot, moved),
            seconds,
            event=np.array(ACTION_NAMES, dtype=object)[events.action],
            order=events.order,
            side=np.array(("sell", "", "buy"), dtype=object)[side + 1],
            price=effects.price / scale,
            quantity=events.size,
            bid=bid, ask=ask, bid_before=bid_before, ask_before=ask_before,
            level_before=effects.level_before, level=effects.level,
        )  # fmt: skip

    def _finish(self) -> None:
        rec = self.rec
        judge = self.judge
        judge.finish()
        oracle = f"a plain table of orders without queues, at {self.compared} places of the file"
        rec.check("books from keyframes that differ from a replay from zero", self.wrong_states, 0, oracle=oracle)
        rec.check(
            "states crossed outside an auction", judge.crossed, 0, oracle="best bid below best ask where an exchange's event is complete"
        )
        if judge.continuous:
            oracle = f"the trade records of the same event, {judge.continuous:,} events with trades, auctions left out"
            rec.check("events whose fills of resting orders are not its trades", judge.uneven, 0, oracle=oracle)
        rec.check("times that go back", self.back, 0, oracle="the time of the event before")
        taken = self.day.keyframe_bytes / len(self.day.events)
        rec.fact("keyframe_bytes", taken, "bytes", note="of keyframes, for each event")


def _differs(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Elementwise ``!=`` in which two missing values are the same."""
    differs: np.ndarray = (one != other) & ~((one != one) & (other != other))
    return differs
