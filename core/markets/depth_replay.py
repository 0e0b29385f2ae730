"""A market-by-price file as a recording: one step a message. Queues are not in such a file; they could only be estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import BadInput
from core.markets.depth_book import DepthBook
from core.markets.depth_views import DepthDay, DepthLadder, DepthOfBook
from core.markets.growing import GrowingLog
from core.markets.readers import forms
from core.markets.readers.clock import clock_text, day_of, tick_of
from core.markets.readers.forms import MAX_EVENTS, MESSAGE_NAMES, DepthEvents, DepthFile
from core.recording import Recorder
from core.views import Column, Plot

if TYPE_CHECKING:
    import numpy as np

BLOCK = 10_000
_STAY = "Best bid {bid:$}, best ask {ask:$}."
_MOVE = "The best bid goes from {bid_before:$} to {bid:$}, the best ask from {ask_before:$} to {ask:$}."
TEMPLATES: list[tuple[str, str]] = [
    (
        "A buyer takes {quantity} at {price:$}",
        "The taker bought. What it took from the book comes with the next change of levels. " + _STAY,
    ),
    ("A seller gives {quantity} at {price:$}", "The taker sold. What it took from the book comes with the next change of levels. " + _STAY),
    ("{quantity} trade at {price:$}", "The file does not say who took. " + _STAY),
    ("The best prices move to {bid:$} / {ask:$}", "A new quote. " + _MOVE),
    ("The quantity at the best prices changes", "A new quote at the same prices. " + _STAY),
    ("The book is sent whole: {levels} levels", "A snapshot replaces everything before it. " + _STAY),
    ("{levels} levels change, and the best prices with them", "New quantities of single levels; 0 takes a level away. " + _MOVE),
    ("{levels} levels change", "New quantities of single levels; 0 takes a level away. " + _STAY),
]


def replay_depth(file: DepthFile, rec: Recorder) -> None:
    """Record every message of ``file``. BadInput where it holds none, or more than `MAX_EVENTS`."""
    replay = _Replay(file, rec)
    rec.recording.time_unit = "s"
    rec.progress(0.0, "reading messages")
    for block in file.blocks():
        for first in range(0, len(block), BLOCK):
            replay.block(part_of(block, first, first + BLOCK))
            if len(rec.recording) > MAX_EVENTS:
                found = f"more than {MAX_EVENTS:,} messages"
                raise BadInput(file.header.path, found, f"at most {MAX_EVENTS:,} for a replay (doctor reads files of any length)")
            rec.progress(file.done, "reading messages")
    if not len(rec.recording):
        raise BadInput(file.header.path, f"no message of {file.header.symbol or 'any instrument'}", "a file with messages in it")
    replay.finish()


def part_of(block: DepthEvents, first: int, end: int) -> DepthEvents:
    """Messages first, …, end - 1 with their levels (no copy)."""
    end = min(end, len(block))
    low, high = int(block.first[first]), int(block.first[end])
    mine, levels = slice(first, end), slice(low, high)
    return DepthEvents(
        block.time[mine], block.received[mine], block.kind[mine], block.side[mine], block.price[mine], block.size[mine],
        block.update[mine], block.previous[mine], block.first[first : end + 1] - low,
        block.level_side[levels], block.level_price[levels], block.level_size[levels],
    )  # fmt: skip


class _Replay:
    """Writes block after block: arrays first, then the steps that let readers look at them."""

    def __init__(self, file: DepthFile, rec: Recorder) -> None:
        self.file, self.rec = file, rec
        self.book = DepthBook()
        self.carry: dict[str, float] = {}
        self.crossed = self.wrong = self.compared = 0

    def _begin(self, block: DepthEvents) -> None:
        import numpy as np

        rec, header = self.rec, self.file.header
        self.midnight, date = day_of(block.received, block.time, header.clock)
        self.day = DepthDay()
        prices = np.concatenate([block.level_price, block.price[block.kind == forms.PRINT]])
        tick = tick_of(np.rint(prices * 1e8).astype(np.int64)) / 1e8
        rec.panel("Book", DepthLadder(self.day, tick), 2.0)
        columns = [Column("time", align="left"), Column("taker", align="left"), Column("price", "$"), Column("quantity")]
        self.tape = rec.panel("Trades", GrowingLog(columns, ("ask", "plain", "bid"), {1: ("sell", "?", "buy")}), beside=True)
        self.plot = rec.panel("Price", Plot("time", "price", x_unit="s", y_unit="$"))
        names = (("mid", "plain"), ("bid", "bid"), ("ask", "ask"))
        self.curves = [self.plot.curve(name, role, "step") for name, role in names]
        self.depth = rec.panel("Depth", DepthOfBook(self.day), beside=True)
        rec.fact("symbol", header.symbol, note=header.note)
        rec.fact("format", header.format)
        if date:
            rec.fact("date", date, note="UTC, of the first message")
        rec.fact("queue_knowledge", "estimated", note="levels only: the order of the orders behind them is not in the file")

    def block(self, block: DepthEvents) -> None:
        """One block of messages."""
        import numpy as np

        if not len(block):
            return
        first = len(self.rec.recording)
        if not first:
            self._begin(block)
        clock = np.where(block.received > 0, block.received, block.time) - self.midnight
        base = len(self.day.levels)
        if len(block.level_side):
            self.day.levels.extend({"side": block.level_side, "price": block.level_price, "size": block.level_size})
        elif not base:
            self.day.levels.extend({"side": np.zeros(1, np.int8), "price": np.zeros(1), "size": np.zeros(1)})
            base = 1
        quotes = self._run(block, first)
        self._depth_columns(block, clock, base, quotes)
        self.depth.fit(self.book)
        self._compare(first + len(block) - 1)
        self._facts()
        self._tape(block, clock, first)
        self._phases(clock, first)
        self._steps(block, clock / 1e9, quotes)

    def _run(self, block: DepthEvents, first: int) -> np.ndarray:
        """Apply the messages; (messages, 4): best bid, its quantity, best ask, its quantity (NaN where a side is empty)."""
        import numpy as np

        book, nan = self.book, float("nan")
        kinds, updates, starts = (c.tolist() for c in (block.kind, block.update, block.first))
        sides, prices, sizes = block.level_side.tolist(), block.level_price.tolist(), block.level_size.tolist()
        out = []
        for at, (kind, update) in enumerate(zip(kinds, updates, strict=True)):
            low, high = starts[at], starts[at + 1]
            if high > low or kind != forms.PRINT:
                book.apply(kind, update, sides[low:high], prices[low:high], sizes[low:high])
            bid, ask = book.best(1), book.best(-1)
            out.append(
                (
                    nan if bid is None else bid, 0.0 if bid is None else book.levels[1][bid],
                    nan if ask is None else ask, 0.0 if ask is None else book.levels[-1][ask],
                )
            )  # fmt: skip
            self.day.keep(first + at, book)
        return np.array(out).reshape(-1, 4)

    def _depth_columns(self, block: DepthEvents, clock: np.ndarray, base: int, quotes: np.ndarray) -> None:
        import numpy as np

        bid, bid_size, ask, ask_size = quotes.T
        printed = block.kind == forms.PRINT
        self.crossed += int((bid >= ask).sum())
        totals = {
            "trades": printed, "volume": np.where(printed, block.size, 0.0),
            "bought": np.where(printed & (block.side > 0), block.size, 0.0), "sold": np.where(printed & (block.side < 0), block.size, 0.0),
        }  # fmt: skip
        sums = {}
        for name, values in totals.items():
            sums[name] = np.cumsum(values, dtype=np.int64 if name == "trades" else np.float64) + self.carry.get(name, 0)
            self.carry[name] = sums[name][-1].item()
        sums["trades"] = sums["trades"].astype(np.int64)
        self.day.messages.extend(
            {
                "kind": block.kind, "update": block.update, "first": block.first[:-1] + base, "end": block.first[1:] + base,
                "side": block.side, "price": block.price, "size": block.size,
                "bid": bid, "ask": ask, "mid": (bid + ask) / 2, "spread": ask - bid, "bid_size": bid_size, "ask_size": ask_size, **sums,
            }
        )  # fmt: skip
        steps = len(self.day.messages) - len(block) + np.arange(len(block))
        for curve, values in zip(self.curves, ((bid + ask) / 2, bid, ask), strict=True):
            fits = np.isfinite(values) & (np.diff(values, prepend=np.nan) != 0)
            self.plot.points(curve, clock[fits] / 1e9, values[fits], steps[fits])

    def _compare(self, step: int) -> None:
        self.compared += 1
        self.wrong += self.day.rebuilt(step).levels != self.book.levels

    def _facts(self) -> None:
        rec, get = self.rec, self.day.messages.get
        rec.fact_column("best_bid", get("bid"), "$")
        rec.fact_column("best_ask", get("ask"), "$")
        rec.fact_column("spread", get("spread"), "$")
        rec.fact_column("mid", get("mid"), "$")
        rec.fact_column("trades", get("trades"))
        rec.fact_column("volume", get("volume"))
        rec.fact_column("volume", get("bought"), note="what takers bought", label="bought")
        rec.fact_column("volume", get("sold"), note="what takers sold", label="sold")
        rec.fact_column("depth", get("bid_size"), note="at the best bid", label="bid")
        rec.fact_column("depth", get("ask_size"), note="at the best ask", label="ask")
        rec.fact_column("depth", get("bid_size") + get("ask_size"), note="at the best prices")

    def _tape(self, block: DepthEvents, clock: np.ndarray, first: int) -> None:
        import numpy as np

        at = np.flatnonzero(block.kind == forms.PRINT)
        code = block.side[at].astype(np.int64) + 1
        text = np.array([clock_text(c) for c in clock[at].tolist()], dtype="U13")
        self.tape.extend(first + at, code, [text, code, block.price[at], block.size[at]])

    def _phases(self, clock: np.ndarray, first: int) -> None:
        import numpy as np

        minute = clock // 60_000_000_000
        minute -= minute % (60 if clock[-1] - clock[0] > 1.8e12 else 1)
        for at in np.flatnonzero(np.diff(minute, prepend=self.carry.get("minute", -1))).tolist():
            if len(self.rec.recording.phases) < 200:
                self.rec.phase(clock_text(int(clock[at]))[:5], first + at)
        self.carry["minute"] = int(minute[-1])

    def _steps(self, block: DepthEvents, seconds: np.ndarray, quotes: np.ndarray) -> None:
        import numpy as np

        bid, ask = quotes[:, 0], quotes[:, 2]
        bid_before = np.concatenate([[self.carry.get("bid", np.nan)], bid[:-1]])
        ask_before = np.concatenate([[self.carry.get("ask", np.nan)], ask[:-1]])
        self.carry["bid"], self.carry["ask"] = float(bid[-1]), float(ask[-1])
        moved = (bid != bid_before) | (ask != ask_before)
        kind, side = block.kind, block.side
        conditions = [
            (kind == forms.PRINT) & (side > 0), (kind == forms.PRINT) & (side < 0), kind == forms.PRINT,
            (kind == forms.QUOTE) & moved, kind == forms.QUOTE, kind == forms.SNAPSHOT, moved,
        ]  # fmt: skip
        self.rec.steps(
            TEMPLATES,
            np.select(conditions, list(range(7)), 7),
            seconds,
            event=np.array(MESSAGE_NAMES, dtype=object)[kind],
            side=np.array(("sell", "", "buy"), dtype=object)[side + 1],
            price=block.price, quantity=block.size, levels=np.diff(block.first),
            bid=bid, ask=ask, bid_before=bid_before, ask_before=ask_before,
        )  # fmt: skip

    def finish(self) -> None:
        """Checks over the whole file."""
        rec = self.rec
        oracle = f"the book kept from the first message on, at {self.compared} places of the file"
        rec.check("books from keyframes that differ from a replay from zero", self.wrong, 0, oracle=oracle)
        if (self.day.messages.get("kind") != forms.PRINT).any():
            rec.check("messages that leave the book crossed", self.crossed, 0, oracle="best bid below best ask after every message")
