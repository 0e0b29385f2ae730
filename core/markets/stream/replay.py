"""A stream of messages matched and recorded: one step a message, and one for each match of a message that trades.

Every view comes from arrays and keyframes; the report's SHA-256 is a fact. The steps of one message are joined
(`core.joins`), so the message of a step is the number of its happening. Memory is under 200 bytes a step: columns of the steps,
facts in the smallest type that holds them, trades, and keyframes of what can be seen (`core.markets.stream.windows`).
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from core.markets.growing import Growing, derived
from core.markets.keyframes import EVERY
from core.markets.matching.reports import FURTHEST, ModifyRule
from core.markets.stream.archive import COLUMNS, read_stream
from core.markets.stream.conformance import report_lines
from core.markets.stream.matches import Book, Layout, Told, books_between, laid_out
from core.markets.stream.steps import TEMPLATES, step_kinds
from core.markets.stream.views import SHOWN_LEVELS, SHOWN_ORDERS, Changes, StreamDepth, StreamLadder, StreamPlot, StreamTape, Trades
from core.recording import Recorder, Word

if TYPE_CHECKING:
    from core.markets.engine.engine import Rules

COMPARED_MESSAGES = 3000
SAMPLED_STEPS = 40
_ACTIONS = ("new", "cancel", "modify", "trade")


def replay_stream(path: str, modify_rule: ModifyRule, rec: Recorder) -> None:
    """Record the message archive at ``path`` under ``modify_rule``."""
    rec.progress(0.0, "reading messages")
    columns = read_stream(path)
    from core.markets.kernels.compiled import is_ready

    rec.progress(0.0, "matching" if is_ready("engine/kernel.work") else "compiling the matching engine, once")
    from core.markets.engine.engine import Rules

    rules = Rules(modify_rule, lowest=-FURTHEST)
    _make_ready(columns, rules)
    _Replay(columns, rules, rec).record()


def _make_ready(columns: dict[str, np.ndarray], rules: Rules) -> None:
    """Call every compiled function once, so that none is compiled while somebody waits for a step."""
    from core.markets.engine.engine import Engine, stream_messages
    from core.markets.engine.reports import lines_of
    from core.markets.stream.windows import Windows

    engine = Engine(rules)
    windows = Windows(rules, lambda first, end: stream_messages(columns, 0, 1), 1, 1)
    for end in (1, 2):
        for _, _, reports in engine.run(stream_messages(columns, 0, 1)):
            lines_of(reports, False)
        windows.extend(engine, end)
    with windows.after(1) as state:
        state.levels(1, 1, 1)
        state.rests(0)


class _Replay:
    """Matches block after block: arrays first, then the steps that let readers look at them."""

    def __init__(self, columns: dict[str, np.ndarray], rules: Rules, rec: Recorder) -> None:
        from core.markets.engine.engine import Engine, stream_messages
        from core.markets.stream.windows import Windows

        self.columns, self.rules, self.rec = columns, rules, rec
        self.total = len(columns["type"])
        self.engine = Engine(rules)
        self.keyframes = Windows(rules, lambda first, end: stream_messages(columns, first, end), SHOWN_LEVELS, SHOWN_ORDERS)
        ids, prices = columns["order_id"].dtype, columns["price"].dtype
        self.trades = Trades(int((columns["type"] != 1).sum()), ids)
        self.changes = Changes(self.total, prices)
        furthest = max(abs(int(columns["price"].min())), abs(int(columns["price"].max())))
        self.exact = np.float32 if furthest < 1 << 22 else np.float64
        self.lots = np.int32 if int(columns["quantity"].sum(dtype=np.uint64)) < 1 << 31 else np.int64
        self.book = Growing()
        self.before = Book.empty()
        self.digest, self.lines, self.refused = hashlib.sha256(), 0, 0
        self.asked = self.cancelled = 0
        self.opened = False
        self.first_lines: list[bytes] = []

    def record(self) -> None:
        from core.markets.engine.engine import stream_messages
        from core.markets.engine.state import AFTER_WIDTH

        self._begin()
        for first in range(0, self.total, 4 * EVERY):
            end = min(first + 4 * EVERY, self.total)
            after = np.empty((EVERY, AFTER_WIDTH), dtype=np.int64)
            for start in range(first, end, EVERY):
                stop = min(start + EVERY, end)
                blocks = []
                for _, _, rows in self.engine.run(stream_messages(self.columns, start, stop), after):
                    blocks.append(rows.copy())
                    self._hash(rows)
                self.keyframes.extend(self.engine, stop)
                self._block(start, stop, np.concatenate(blocks), after[: stop - start])
            self.rec.progress(end / self.total, "matching")
        self.keyframes.complete()
        self._finish()

    def _begin(self) -> None:
        rec, joins = self.rec, self.rec.recording.joins
        rec.recording.words = {"order": Word(("order", "maker"), identity=True), "trade": Word(("quantity",), "action", ("trade",))}
        rec.panel("Book", StreamLadder(self.keyframes, self.trades, self.changes, joins), 2.0)
        rec.panel("Trades", StreamTape(self.trades, joins), beside=True)
        self.plot = rec.panel("Price", StreamPlot(self.book, joins, self.total))
        self.depth_bars = rec.panel("Depth", StreamDepth(self.book), beside=True)

    def _facts(self) -> None:
        rec, book, get = self.rec, self.book, self.book.get
        rec.fact_column("best_bid", get("bid"), "ticks")
        rec.fact_column("best_ask", get("ask"), "ticks")
        rec.fact_column("spread", derived(book, lambda key: get("ask")[key] - get("bid")[key]), "ticks")
        rec.fact_column("mid", derived(book, lambda key: (get("bid")[key] + get("ask")[key]) / 2), "ticks")
        rec.fact_column("trades", get("trades"))
        rec.fact_column("volume", get("volume"), "lots")
        rec.fact_column("depth", derived(book, lambda key: get("bids")[key] + get("asks")[key]), "lots", "simulated", "all that rests")
        rec.fact_column("depth", get("bids"), "lots", "simulated", "all that rests", label="bid")
        rec.fact_column("depth", get("asks"), "lots", "simulated", "all that rests", label="ask")

    def _hash(self, rows: np.ndarray) -> None:
        from core.markets.engine.reports import count_lines, lines_of

        text = lines_of(rows, self.opened)
        self.digest.update(text)
        self.lines += count_lines(rows)
        if self.lines and len(self.first_lines) < COMPARED_MESSAGES:
            self.first_lines += bytes(text[: 64 * COMPARED_MESSAGES]).lstrip(b"\n").split(b"\n")[:COMPARED_MESSAGES]
        self.opened = self.opened or len(text) > 0

    def _block(self, first: int, end: int, rows: np.ndarray, after: np.ndarray) -> None:
        """Messages [first, end): their report rows and what the book shows after each."""
        from core.markets.engine import state as es

        kind, at = rows[:, es.R_KIND], rows[:, es.R_SEQ] - first
        self.asked += int(rows[kind == es.ACCEPTED, es.R_QUANTITY].sum())
        modified = kind == es.MODIFIED
        self.asked += int((rows[modified, es.R_QUANTITY] - rows[modified, es.R_EXTRA]).sum())
        self.cancelled += int(rows[kind == es.CANCELLED, es.R_QUANTITY].sum())
        self.refused += int(((kind == es.REJECTED) & (rows[:, es.R_SIDE] == 0)).sum())
        told = Told(self.columns, first, end, rows, at)
        traded = rows[kind == es.TRADE]
        layout = laid_out(told.fills, told.rested | told.ended)
        bid, ask = (np.where(after[:, n] == es.NONE, np.nan, after[:, n]) for n in (es.A_BID, es.A_ASK))
        shown = Book(bid, ask, *(after[:, n] for n in (es.A_BID_DEPTH, es.A_ASK_DEPTH, es.A_TRADES, es.A_VOLUME)))
        before = shown.before(self.before)
        self.before = shown.at(np.array([-1]))
        own_best = self._own_best(told, before, shown, first)
        removed = np.where((told.type == 2) & ~told.kept, told.old_quantity, 0)
        book = books_between(layout, told.side, before, shown, own_best, removed, traded[:, es.R_PRICE], traded[:, es.R_QUANTITY])
        begins = len(self.rec.recording)
        self.trades.add(
            begins + np.flatnonzero(layout.match >= 0), traded[:, es.R_PRICE], traded[:, es.R_QUANTITY], traded[:, es.R_OTHER],
            traded[:, es.R_ORDER], traded[:, es.R_SIDE] > 0,
        )  # fmt: skip
        self.changes.add(slice(first, end), told.side, np.where(told.refused, 0, told.price), told.lots)
        kinds = {"bid": self.exact, "ask": self.exact, "bids": self.lots, "asks": self.lots, "trades": np.int32, "volume": self.lots}
        self.book.extend({name: getattr(book, name).astype(dtype) for name, dtype in kinds.items()})
        self._facts()
        self.plot.draw(begins, first + layout.message, book)
        self.depth_bars.grow(book)
        if first % (max(self.total // 10 // EVERY, 1) * EVERY) == 0:
            self.rec.phase(f"from {first + 1:,}", begins)
        self._steps(layout, told, book, before, traded)

    def _own_best(self, told: Told, before: Book, after: Book, first: int) -> np.ndarray:
        """(messages,) the best price of the taker's own side while it trades: a modified order has left its queue by then."""
        buys = told.side > 0
        was, became = (np.where(buys, book.bid, book.ask) for book in (before, after))
        best = np.where((told.type == 2) & ~told.rested, became, was)
        for message in np.flatnonzero((told.type == 2) & told.rested & (told.fills > 0) & (told.old_price == was)).tolist():
            with self.keyframes.after(first + message - 1) as state:  # was it alone at the best price?
                levels = state.levels(int(told.side[message]), 2, 0)
            if levels[0].quantity == told.old_quantity[message]:
                best[message] = levels[1].price if len(levels) > 1 else np.nan
        return best

    def _steps(self, layout: Layout, told: Told, book: Book, before: Book, traded: np.ndarray) -> None:
        """Publish the steps of a block. traded: the report rows of its matches."""
        from core.markets.engine import state as es

        of, matched = layout.message, layout.match >= 0
        side, fills, type_ = told.side[of], told.fills[of], told.type[of]
        price, quantity, maker = told.price[of], told.quantity[of], np.zeros(len(of), dtype=np.int64)
        price[matched], quantity[matched], maker[matched] = (traded[:, n] for n in (es.R_PRICE, es.R_QUANTITY, es.R_OTHER))
        rested, refused, ahead = told.rested[of], told.refused[of], told.ahead[of]
        own_best = np.where(side > 0, before.bid[of], before.ask[of])
        cases = {
            "match": matched & layout.open,
            "filled_at_once": matched & (fills == 1),
            "filled": matched,
            "refused": refused & (type_ == 0),
            "unknown_cancel": refused & (type_ == 1),
            "unknown_modify": refused,
            "cancel": type_ == 1,
            "kept": told.kept[of],
            "moved_fills": (type_ == 2) & (fills > 0),
            "moved": type_ == 2,
            "part": rested & (fills > 0),
            "best": rested & ((own_best != own_best) | (side * (price - own_best) > 0)),
            "first": rested & (ahead == 0),
            "joins": rested,
            "ioc": np.ones(len(of), dtype=bool),
        }
        self.rec.steps(
            TEMPLATES, step_kinds(cases, side < 0), None, layout.joins,
            action=np.array(_ACTIONS, dtype=object)[np.where(matched, 3, type_)],
            order=told.order[of],
            side=np.where(side > 0, "buy", "sell"),
            price=price, quantity=quantity, maker=maker,
            traded=book.volume - before.volume[of], fills=np.where(matched, layout.match + 1, fills), ahead=ahead,
            bid=book.bid, ask=book.ask,
        )  # fmt: skip

    def _finish(self) -> None:
        rec, engine = self.rec, self.engine
        rec.fact("report_sha256", self.digest.hexdigest(), note=f"of the report, {self.lines:,} lines joined by newlines")
        rec.fact("report_lines", self.lines)
        rec.fact("refused", self.refused, note="new orders whose number rests already or whose quantity is out of range; they have no line")
        rec.fact("resting_orders", engine.resting)
        rec.fact("keyframes", len(self.keyframes), note=f"{self.keyframes.nbytes:,} bytes")
        resting = sum(engine.depth)
        oracle = "asked for - 2 x traded (a maker and a taker) - cancelled"
        rec.check("quantity resting at the end", resting, self.asked - 2 * int(self.book.get("volume")[-1]) - self.cancelled, oracle=oracle)
        rec.check("messages that leave the book crossed", engine.crossed, 0, oracle="best bid below best ask after every message")
        head = list(islice(zip(*(self.columns[name][:COMPARED_MESSAGES].tolist() for name in COLUMNS), strict=True), COMPARED_MESSAGES))
        wanted = [line.encode() for line in islice(report_lines(head, modify_rule=self.rules.modify_rule), COMPARED_MESSAGES)]
        same = sum(one == other for one, other in zip(wanted, self.first_lines, strict=False))
        rec.check("first report lines", same, len(wanted), oracle="the plain-Python book, line by line")
        wrong = 0
        for message in np.unique(np.linspace(0, self.total - 1, SAMPLED_STEPS).astype(np.int64)).tolist():
            with self.keyframes.after(message) as state:
                found = (state.best(1), state.best(-1), *state.depth)
            last = self.rec.recording.joins.last(message)
            stood = [None if value != value else int(value) for value in (self.book.get("bid")[last], self.book.get("ask")[last])]
            wrong += found != (*stood, int(self.book.get("bids")[last]), int(self.book.get("asks")[last]))
        where = f"{SAMPLED_STEPS} messages spread over the stream"
        rec.check("states from keyframes that differ from the book as it was matched", wrong, 0, oracle=where)
