"""A stream of messages matched and recorded: one step a message, every view from arrays and keyframes, the report's SHA-256.

Memory is under 200 bytes a message: columns of the steps, facts in the smallest type that holds them, trades, and keyframes
that pay for themselves (`core.markets.keyframes`). The block of reports is used again and again.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from core.markets.conformance import report_lines
from core.markets.keyframes import EVERY, Keyframes
from core.markets.reports import FURTHEST, ModifyRule
from core.markets.stream_file import COLUMNS, read_stream
from core.markets.stream_steps import TEMPLATES, code
from core.markets.stream_views import Changes, StreamDepth, StreamLadder, StreamPlot, StreamTape, Trades
from core.recording import Recorder

if TYPE_CHECKING:
    from core.markets.engine import Rules

COMPARED_MESSAGES = 3000
SAMPLED_STEPS = 40
_ACTIONS = ("new", "cancel", "modify")


def replay_stream(path: str, modify_rule: ModifyRule, rec: Recorder) -> None:
    """Record the message archive at ``path`` under ``modify_rule``."""
    rec.progress(0.0, "reading messages")
    columns = read_stream(path)
    rec.progress(0.0, "compiling the matching engine, once")
    from core.markets.engine import Engine, Rules, stream_messages

    rules = Rules(modify_rule, lowest=-FURTHEST)
    Engine(rules).skip(stream_messages(columns, 0, 1))
    _Replay(columns, rules, rec).record()


class _Replay:
    """Matches block after block: arrays first, then the steps that let readers look at them."""

    def __init__(self, columns: dict[str, np.ndarray], rules: Rules, rec: Recorder) -> None:
        from core.markets.engine import Engine, stream_messages

        self.columns, self.rules, self.rec = columns, rules, rec
        self.total = len(columns["type"])
        self.engine = Engine(rules)
        self.keyframes = Keyframes(rules, lambda first, end: stream_messages(columns, first, end))
        ids, prices = columns["order_id"].dtype, columns["price"].dtype
        self.trades = Trades(int((columns["type"] != 1).sum()), ids)
        self.changes = Changes(self.total, prices)
        furthest = max(abs(int(columns["price"].min())), abs(int(columns["price"].max())))
        exact = np.float32 if furthest < 1 << 22 else np.float64  # halves of prices stay exact
        lots = np.int32 if int(columns["quantity"].sum(dtype=np.uint64)) < 1 << 31 else np.int64
        self.bid, self.ask, self.mid, self.spread = (_column(self.total, exact, np.nan) for _ in range(4))
        self.bids, self.asks, self.depth, self.volume = (_column(self.total, lots) for _ in range(4))
        self.trade_count = _column(self.total, np.int32)
        self.digest, self.lines, self.refused = hashlib.sha256(), 0, 0
        self.asked = self.cancelled = 0
        self.opened = False
        self.first_lines: list[bytes] = []

    def record(self) -> None:
        from core.markets.engine import stream_messages
        from core.markets.engine_state import AFTER_WIDTH

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
                self._block(start, stop, np.concatenate(blocks), after[: stop - start])
                self.keyframes.offer(stop, self.engine)
            self.rec.progress(end / self.total, "matching")
        self._finish()

    def _begin(self) -> None:
        rec = self.rec
        rec.panel("Book", StreamLadder(self.keyframes, self.trades, self.changes), 2.0)
        rec.panel("Trades", StreamTape(self.trades), beside=True)
        self.plot = rec.panel("Price", StreamPlot({"mid": self.mid, "bid": self.bid, "ask": self.ask}))
        self.depth_bars = rec.panel("Depth", StreamDepth(self.bids, self.asks), beside=True)
        ticks = "ticks"
        rec.fact_column("best_bid", self.bid, ticks)
        rec.fact_column("best_ask", self.ask, ticks)
        rec.fact_column("spread", self.spread, ticks)
        rec.fact_column("mid", self.mid, ticks)
        rec.fact_column("trades", self.trade_count)
        rec.fact_column("volume", self.volume, "lots")
        rec.fact_column("depth", self.depth, "lots", "simulated", "all that rests")
        rec.fact_column("depth", self.bids, "lots", "simulated", "all that rests", label="bid")
        rec.fact_column("depth", self.asks, "lots", "simulated", "all that rests", label="ask")

    def _hash(self, rows: np.ndarray) -> None:
        from core.markets.engine_reports import count_lines, lines_of

        text = lines_of(rows, self.opened)
        self.digest.update(text)
        self.lines += count_lines(rows)
        if self.lines and len(self.first_lines) < COMPARED_MESSAGES:
            self.first_lines += bytes(text[: 64 * COMPARED_MESSAGES]).lstrip(b"\n").split(b"\n")[:COMPARED_MESSAGES]
        self.opened = self.opened or len(text) > 0

    def _block(self, first: int, end: int, rows: np.ndarray, after: np.ndarray) -> None:
        """Messages [first, end): their report rows and what the book shows after each."""
        from core.markets import engine_state as es

        span = slice(first, end)
        kind, seq = rows[:, es.R_KIND], rows[:, es.R_SEQ]
        for column, where in ((self.bid, es.A_BID), (self.ask, es.A_ASK)):
            column[span] = np.where(after[:, where] == es.NONE, np.nan, after[:, where])
        self.mid[span], self.spread[span] = (self.bid[span] + self.ask[span]) / 2, self.ask[span] - self.bid[span]
        self.bids[span], self.asks[span] = after[:, es.A_BID_DEPTH], after[:, es.A_ASK_DEPTH]
        self.depth[span] = self.bids[span] + self.asks[span]
        self.trade_count[span], self.volume[span] = after[:, es.A_TRADES], after[:, es.A_VOLUME]
        traded = rows[kind == es.TRADE]
        self.trades.add(
            traded[:, es.R_SEQ], traded[:, es.R_PRICE], traded[:, es.R_QUANTITY], traded[:, es.R_OTHER], traded[:, es.R_ORDER],
            traded[:, es.R_SIDE] > 0,
        )  # fmt: skip
        self.asked += int(rows[kind == es.ACCEPTED, es.R_QUANTITY].sum())
        modified = kind == es.MODIFIED
        self.asked += int((rows[modified, es.R_QUANTITY] - rows[modified, es.R_EXTRA]).sum())
        self.cancelled += int(rows[kind == es.CANCELLED, es.R_QUANTITY].sum())
        self.refused += int(((kind == es.REJECTED) & (rows[:, es.R_SIDE] == 0)).sum())
        self._steps(first, end, rows, seq - first)
        self.plot.draw(first, end)
        self.depth_bars.grow(span)

    def _steps(self, first: int, end: int, rows: np.ndarray, at: np.ndarray) -> None:
        """Publish the steps of messages [first, end). ``at``: (rows,) the message of each row, counted from ``first``."""
        from core.markets import engine_state as es

        count, span = end - first, slice(first, end)
        kind = rows[:, es.R_KIND]
        type_ = self.columns["type"][span].astype(np.int64)
        side = np.where(self.columns["side"][span] == 0, 1, -1)
        price, quantity = self.columns["price"][span].astype(np.int64), self.columns["quantity"][span].astype(np.int64)
        ahead, rested, kept = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        lots = np.zeros(count, dtype=np.int64)
        for row_kind in (es.CANCELLED, es.MODIFIED, es.RESTED):
            chosen = kind == row_kind
            place = at[chosen]
            if row_kind == es.RESTED:
                rested[place], ahead[place] = True, rows[chosen, es.R_EXTRA]
                lots[place] = rows[chosen, es.R_QUANTITY]
                continue
            mine = type_[place] == (1 if row_kind == es.CANCELLED else 2)
            place, found = place[mine], rows[chosen][mine]
            side[place], price[place], quantity[place] = found[:, es.R_SIDE], found[:, es.R_PRICE], found[:, es.R_QUANTITY]
            if row_kind == es.CANCELLED:
                lots[place] = -found[:, es.R_QUANTITY]
            else:
                kept[place] = found[:, es.R_OTHER] == 1
                lots[place] = np.where(kept[place], found[:, es.R_QUANTITY] - found[:, es.R_EXTRA], 0)
        refused = np.zeros(count, dtype=bool)
        refused[at[kind == es.REJECTED]] = True
        before = slice(first - 1, end - 1) if first else None
        trades_before = self.trade_count[before] if before else np.concatenate([[0], self.trade_count[: end - 1]])
        volume_before = self.volume[before] if before else np.concatenate([[0], self.volume[: end - 1]])
        fills, traded = self.trade_count[span] - trades_before, self.volume[span] - volume_before
        best_before = [column[before] if before else np.concatenate([[np.nan], column[: end - 1]]) for column in (self.bid, self.ask)]
        own_best = np.where(side > 0, best_before[0], best_before[1]).astype(np.float64)
        improves = rested & ((own_best != own_best) | (side * (price - own_best) > 0))
        cases = {
            "refused": refused & (type_ == 0),
            "unknown_cancel": refused & (type_ == 1),
            "unknown_modify": refused,
            "cancel": type_ == 1,
            "kept": kept,
            "moved_fills": (type_ == 2) & (fills > 0),
            "moved": type_ == 2,
            "part": rested & (fills > 0),
            "best": improves,
            "first": rested & (ahead == 0),
            "joins": rested,
            "ioc": (self.columns["ioc"][span] != 0) & (traded < quantity),
        }
        plain = np.isin(np.arange(len(cases)), [0, 1, 2])
        codes = np.array([code(name) for name in cases])
        which = np.select(list(cases.values()), list(range(len(cases))), len(cases))
        sided = np.where(which < len(cases), ~plain[np.minimum(which, len(cases) - 1)], True)
        kinds = np.where(which < len(cases), codes[np.minimum(which, len(cases) - 1)], code("fills")) + (sided & (side < 0))
        self.changes.side[span], self.changes.price[span] = side, np.where(refused, 0, price)
        self.changes.lots[span] = np.clip(lots, -(1 << 31), (1 << 31) - 1)
        if first % (max(self.total // 10 // EVERY, 1) * EVERY) == 0:
            self.rec.phase(f"from {first + 1:,}", first)
        self.rec.steps(
            TEMPLATES, kinds,
            action=[_ACTIONS[t] for t in type_.tolist()],
            order=self.columns["order_id"][span].astype(np.int64),
            side=["buy" if s > 0 else "sell" for s in side.tolist()],
            price=price, quantity=quantity, traded=traded, fills=fills, ahead=ahead,
            bid=self.bid[span].astype(np.float64), ask=self.ask[span].astype(np.float64),
        )  # fmt: skip

    def _finish(self) -> None:
        rec, engine = self.rec, self.engine
        rec.fact("report_sha256", self.digest.hexdigest(), note=f"of the report, {self.lines:,} lines joined by newlines")
        rec.fact("report_lines", self.lines)
        rec.fact("refused", self.refused, note="new orders whose number rests already or whose quantity is out of range; they have no line")
        rec.fact("resting_orders", engine.resting)
        rec.fact("keyframes", len(self.keyframes), note=f"{self.keyframes.nbytes:,} bytes")
        resting = int(self.bids[-1] + self.asks[-1])
        oracle = "asked for - 2 x traded (a maker and a taker) - cancelled"
        rec.check("quantity resting at the end", resting, self.asked - 2 * int(self.volume[-1]) - self.cancelled, oracle=oracle)
        rec.check("messages that leave the book crossed", engine.crossed, 0, oracle="best bid below best ask after every message")
        head = list(islice(zip(*(self.columns[name][:COMPARED_MESSAGES].tolist() for name in COLUMNS), strict=True), COMPARED_MESSAGES))
        wanted = [line.encode() for line in islice(report_lines(head, modify_rule=self.rules.modify_rule), COMPARED_MESSAGES)]
        same = sum(one == other for one, other in zip(wanted, self.first_lines, strict=False))
        rec.check("first report lines", same, len(wanted), oracle="the plain-Python book, line by line")
        wrong = 0
        for step in np.unique(np.linspace(0, self.total - 1, SAMPLED_STEPS).astype(np.int64)).tolist():
            with self.keyframes.after(step) as state:
                found = (state.best(1), state.best(-1), *state.depth)
            stood = [None if value != value else int(value) for value in (self.bid[step], self.ask[step])]
            wrong += found != (*stood, int(self.bids[step]), int(self.asks[step]))
        where = f"{SAMPLED_STEPS} messages spread over the stream"
        rec.check("states from keyframes that differ from the book as it was matched", wrong, 0, oracle=where)


def _column(length: int, kind: type, value: float = 0) -> np.ndarray:
    return np.full(length, value, dtype=kind)
