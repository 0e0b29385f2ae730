"""A market-by-price file as a recording: one step a message. Queues are not in such a file; they could only be estimated.

A recording takes under 200 bytes a message, whatever the message sends (`core.markets.depth.day`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import BadInput
from core.markets.depth.book import Change, DepthBook
from core.markets.depth.day import QUOTES, DepthDay
from core.markets.depth.views import DepthLadder, DepthOfBook, DepthPlot, DepthVolume, trade_log
from core.markets.readers import forms
from core.markets.readers.clock import PriceStep, day_of, parts_of, zone_of
from core.markets.readers.forms import MAX_EVENTS, MESSAGE_NAMES, DepthEvents, DepthFile
from core.markets.takers import Sweeps
from core.recording import Phase, Recorder, Word

if TYPE_CHECKING:
    import numpy as np

BLOCK = 5_000
SCALE = 100_000_000
"""Parts of a price that the ladder tells apart."""
TRADES_ONLY = ("Binance aggTrades", "Tardis trades", "Databento trades")
"""Formats without a book."""
_BOTH = "Best bid {bid:$}, best ask {ask:$}."
_SIDES = (_BOTH, "Best bid {bid:$}, and nobody sells.", "Best ask {ask:$}, and nobody buys.", "The file tells nothing of the book here.")
_MOVE = "The best bid goes from {bid_before:$} to {bid:$}, the best ask from {ask_before:$} to {ask:$}. "
_NEXT = "What is taken from the book comes with the next change of levels. "
_SAME = "A new quote at the same prices: only what waits there is another quantity. "
_AGAIN = "The book is sent whole again, {levels:level|levels}; {changes:differs|differ} from the one before. "
_SINGLE = "New quantities of single prices; 0 takes one away. "
_KINDS: tuple[tuple[str, str, str], ...] = (
    ("A buyer takes {quantity} at {price:$}", "The taker bought, from whoever offered there. ", _NEXT),
    ("A seller gives {quantity} at {price:$}", "The taker sold, to whoever bid there. ", _NEXT),
    ("{quantity} trade at {price:$}", "The file does not say who took. ", _NEXT),
    ("The best prices move to {bid:$} / {ask:$}", "A new quote. ", _MOVE),
    ("At the best bid {bid:$} now {bid_size} instead of {bid_size_before}", _SAME, ""),
    ("At the best ask {ask:$} now {ask_size} instead of {ask_size_before}", _SAME, ""),
    ("A new quote: {bid_size} at {bid:$}, {ask_size} at {ask:$}", _SAME, ""),
    ("The book is sent whole: {levels:level|levels}", "Such a message replaces everything before it. ", ""),
    ("The best prices move to {bid:$} / {ask:$}", _AGAIN, _MOVE),
    ("{changes:level differs|levels differ} now, and the best prices stay", _AGAIN, ""),
    ("The best prices move to {bid:$} / {ask:$}", "A change of {levels:level|levels}. ", _MOVE),
    ("{levels:level changes|levels change}, and the best prices stay", _SINGLE, ""),
    ("Bids at {level:$}: now {level_size}", _SINGLE, ""),
    ("Asks at {level:$}: now {level_size}", _SINGLE, ""),
    ("No bids at {level:$} any more", _SINGLE, ""),
    ("No asks at {level:$} any more", _SINGLE, ""),
    (
        "The book begins at {bid:$} / {ask:$}",
        "The first {levels:level|levels} that the file sends; what stood there before is not in it. ",
        "",
    ),
    ("{levels:level|levels} sent, and nothing changes", "The book holds them already, or a newer quote has overtaken them. ", ""),
)
(_BUYER, _SELLER, _TRADE, _QUOTE_MOVES, _BID_SIZE, _ASK_SIZE, _QUOTE, _WHOLE, _WHOLE_MOVES, _WHOLE_STAYS, _LEVELS_MOVE, _LEVELS, _BIDS,
 _ASKS, _NO_BIDS, _NO_ASKS, _BEGINS, _NOTHING) = range(len(_KINDS))  # fmt: skip
TEMPLATES = [
    (title, (what + (more if side != _SIDES[-1] else "") + (side if more != _MOVE or side != _BOTH else "")).rstrip())
    for title, what, more in _KINDS
    for side in _SIDES
]


def replay_depth(file: DepthFile, rec: Recorder) -> None:
    """Record every message of ``file``. BadInput where it holds none, or more than `MAX_EVENTS`."""
    replay = _Replay(file, rec)
    rec.recording.time_unit = "s"
    rec.recording.clock = zone_of(file.header.clock)
    rec.recording.words = {"trade": Word(("quantity",), "event", (MESSAGE_NAMES[forms.PRINT],))}
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
        self.book, self.day = DepthBook(), DepthDay()
        self.sweeps = Sweeps()
        self.crossed = self.wrong = self.compared = self.compare_at = 0
        self.compared_last = -1
        self.holds_book = file.header.format not in TRADES_ONLY
        self.step = PriceStep(SCALE // 100)

    def _tick(self, block: DepthEvents) -> float:
        import numpy as np

        prices = np.concatenate([block.level_price, block.price[block.kind == forms.PRINT]])
        return self.step.see(np.rint(prices * SCALE).astype(np.int64)) / SCALE

    def _begin(self, block: DepthEvents) -> None:
        rec, header, times = self.rec, self.file.header, self.rec.recording.times
        self.midnight, date = day_of(block.received, block.time, header.clock)
        self.depth: DepthOfBook | None = None
        self.volume: DepthVolume | None = None
        if self.holds_book:
            self.ladder = rec.panel("Book", DepthLadder(self.day, self._tick(block)), 2.0)
            self.tape = rec.panel("Trades", trade_log(), beside=True)
            self.plot = rec.panel("Price", DepthPlot(self.day, times, trades_only=False))
            self.depth = rec.panel("Depth", DepthOfBook(self.day), beside=True)
        else:
            self.plot = rec.panel("Price of the trades", DepthPlot(self.day, times, trades_only=True), 1.6)
            self.tape = rec.panel("Trades", trade_log(), beside=True)
            self.volume = rec.panel("Who took", DepthVolume(self.day, times))
        rec.computed(*self.day.columns())
        rec.fact("symbol", header.symbol, note=header.note)
        rec.fact("format", header.format)
        if date:
            rec.fact("date", date, note="UTC, of the first message")
        levels = "levels only: the order of the orders behind them is not in the file"
        rec.fact("queue_knowledge", "estimated", note=levels if self.holds_book else "trades only: the file holds no book")
        self._facts()

    def _facts(self) -> None:
        """Every fact of a step is computed when it is asked for."""
        rec, day = self.rec, self.day
        for name, column in (("best_bid", "bid"), ("best_ask", "ask")):
            rec.fact_column(name, day.fact(lambda first, end, column=column: day.rows(column, first, end)), "$")  # type: ignore[misc]
        rec.fact_column("spread", day.fact(lambda first, end: day.rows("ask", first, end) - day.rows("bid", first, end)), "$")
        rec.fact_column("mid", day.fact(lambda first, end: (day.rows("ask", first, end) + day.rows("bid", first, end)) / 2), "$")
        rec.fact_column("trades", day.fact(day.trade_count))

        def total(name: str) -> np.ndarray:
            return day.fact(lambda first, end: day.total(name, first, end))

        rec.fact_column("volume", total("volume"))
        rec.fact_column("volume", total("bought"), note="what takers bought", label="bought")
        rec.fact_column("volume", total("sold"), note="what takers sold", label="sold")

        def waiting(name: str) -> np.ndarray:
            return day.fact(lambda first, end: day.rows(name, first, end))

        rec.fact_column("depth", waiting("bid_size"), note="at the best bid", label="bid")
        rec.fact_column("depth", waiting("ask_size"), note="at the best ask", label="ask")
        both = day.fact(lambda first, end: day.rows("bid_size", first, end) + day.rows("ask_size", first, end))
        rec.fact_column("depth", both, note="at the best prices")

    def block(self, block: DepthEvents) -> None:
        """One block of messages."""
        import numpy as np

        if not len(block):
            return
        first = len(self.rec.recording)
        if not first:
            self._begin(block)
        elif self.holds_book:
            self.ladder.tick = self._tick(block)
        clock = (np.where(block.received > 0, block.received, block.time) - self.midnight) / 1e9
        quotes, counts, changes = self._run(block)
        self.crossed += int((quotes[:, 0] >= quotes[:, 2]).sum())
        self.day.extend(block, counts, changes, quotes, self.book)
        end = first + len(block)
        if end >= self.compare_at:
            self._compare(end - 1)
        if self.depth is not None:
            self.depth.fit(self.book)
        self.plot.draw(first, clock)
        if self.volume is not None:
            self.volume.draw(first, clock)
        at = np.flatnonzero(block.kind == forms.PRINT)
        taker = (block.side[at] + 1).astype(np.int8)
        self.tape.extend(first + at, taker, [taker, block.price[at], block.size[at], np.rint(clock[at] * 1e9).astype(np.int64)])
        self._steps(block, clock, quotes)
        self.rec.recording.phases[:] = [Phase(start, name) for start, name in parts_of(self.rec.recording.times)]

    def _run(self, block: DepthEvents) -> tuple[np.ndarray, list[int], list[Change]]:
        """Apply the messages: (messages, 4) best bid, its quantity, best ask, its quantity (NaN and 0 where a side is empty), how
        many levels each changed, and those.
        """
        import numpy as np

        book, nan = self.book, float("nan")
        kinds, updates, starts = (c.tolist() for c in (block.kind, block.update, block.first))
        sides, prices, sizes = block.level_side.tolist(), block.level_price.tolist(), block.level_size.tolist()
        out, counts, changes = [], [], []
        quote = self._quote_now(nan)
        for at, (kind, update) in enumerate(zip(kinds, updates, strict=True)):
            low, high = starts[at], starts[at + 1]
            found: list[Change] = []
            if high > low or kind != forms.PRINT:
                found = book.apply(kind, update, sides[low:high], prices[low:high], sizes[low:high])
            if found:
                quote = self._quote_now(nan)
                changes += found
            counts.append(len(found))
            out.append(quote)
        return np.array(out).reshape(-1, 4), counts, changes

    def _quote_now(self, nan: float) -> tuple[float, float, float, float]:
        book = self.book
        bid, ask = book.best(1), book.best(-1)
        return (
            nan if bid is None else bid, 0.0 if bid is None else book.levels[1][bid],
            nan if ask is None else ask, 0.0 if ask is None else book.levels[-1][ask],
        )  # fmt: skip

    def _compare(self, step: int) -> None:
        self.compared += 1
        self.wrong += self.day.frames.rebuilt(step).levels != self.book.levels
        self.compared_last = step
        self.compare_at = step + max(step // 8, BLOCK)

    def _steps(self, block: DepthEvents, seconds: np.ndarray, quotes: np.ndarray) -> None:
        import numpy as np

        first = len(self.rec.recording)
        before = np.array([self.day.before(name, first, first + 1)[0] for name in QUOTES])
        earlier = np.concatenate([before[None], quotes[:-1]])
        same = (quotes == earlier) | (np.isnan(quotes) & np.isnan(earlier))
        moved = ~(same[:, 0] & same[:, 2])
        kind, side = block.kind, block.side
        printed, quoted, whole = (kind == code for code in (forms.PRINT, forms.QUOTE, forms.SNAPSHOT))
        counts = self.day.change_counts(first, first + len(kind))
        one, begins = counts == 1, np.isnan(earlier[:, 0]) & np.isnan(earlier[:, 2]) & (counts > 0)
        level, size = (self.day.first_change(name, first, first + len(kind)) for name in ("side", "size"))
        cases = [
            (printed & (side > 0), _BUYER), (printed & (side < 0), _SELLER), (printed, _TRADE), (begins & ~whole, _BEGINS),
            (quoted & moved, _QUOTE_MOVES),
            (quoted & ~same[:, 1] & same[:, 3], _BID_SIZE), (quoted & same[:, 1] & ~same[:, 3], _ASK_SIZE), (quoted, _QUOTE),
            (begins, _WHOLE), (whole & moved, _WHOLE_MOVES), (whole & (counts > 1), _WHOLE_STAYS),
            (moved, _LEVELS_MOVE), (one & (size > 0) & (level > 0), _BIDS), (one & (size > 0) & (level < 0), _ASKS),
            (one & (level > 0), _NO_BIDS), (one & (level < 0), _NO_ASKS), (counts == 0, _NOTHING),
        ]  # fmt: skip
        which = np.select([case for case, _ in cases], [code for _, code in cases], _LEVELS)
        empty = np.isnan(quotes[:, 2]) + 2 * np.isnan(quotes[:, 0])
        joins = self.sweeps(block.time, printed, np.zeros(len(kind), dtype=bool), side)
        self.rec.steps(TEMPLATES, which * len(_SIDES) + empty, seconds, joins)

    def finish(self) -> None:
        """Checks over the whole file."""
        rec = self.rec
        if self.compared_last < len(rec.recording) - 1:
            self._compare(len(rec.recording) - 1)
        if self.volume is None:
            oracle = f"the book kept from the first message on, at {self.compared} places of the file"
            rec.check("books from keyframes that differ from a replay from zero", self.wrong, 0, oracle=oracle)
            if (self.day.messages.get("kind") != forms.PRINT).any():
                oracle = "best bid below best ask after every message"
                rec.check("messages that leave the book crossed", self.crossed, 0, oracle=oracle)
        bought, sold, volume = (self.day.total(name, len(self.day) - 1, len(self.day))[0].item() for name in ("bought", "sold", "volume"))
        trades, side = self.day.trades.get("size"), self.day.trades.get("side")
        unknown = float(trades[side == 0].sum())
        rec.check("volume bought + sold + without a taker", bought + sold + unknown, volume, 1e-9 * volume, "all trades, added up at once")
