"""The price fell: who was buying? Every trade has a buyer and a seller; what moves the price is who gives way.

The change of the mid is split by cause: what it changed at trades, and what it changed at quotes (orders placed, taken back or
modified). The two parts sum exactly, in whole half-ticks.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Meta

from core.errors import BadInput
from core.markets.growing import GrowingLog, derived
from core.markets.signing.fills import fills_panel, judge_fills, read_fills
from core.markets.signing.split import NAMED, PER_TAKER, Moves, Split
from core.markets.signing.tape import CAUSES, EXECUTION, NO_MID, OTHER, Feed, LobsterFeed, OrderFeed, SeededFeed, Tape
from core.markets.signing.views import TEMPLATES, Stage, step_kinds
from core.markets.takers import Sweeps
from core.recording import Phase, Recorder, Word
from core.simulation import Params, PathText, simulation

if TYPE_CHECKING:
    from core.markets.readers.forms import DepthFile, OrderFile

FORMATS = Literal["auto", "lobster", "databento", "itch", "binance", "tardis"]

_RULE_NOTES = {
    "quote_rule": "mid of the second before", "tick_rule": "last prices only", "lee_ready": "quote rule, at the mid the tick rule",
    "exact_quotes": "mid right before the trade", PER_TAKER: "one sweep counts once",
}  # fmt: skip


class AggressorParams(Params, frozen=True):
    """What `aggressor` takes. Prices are those of the file; in the seeded flow a tick is a cent."""

    file: Annotated[PathText, Meta(description="trades and quotes: LOBSTER, Databento, ITCH, Binance, Tardis; '' makes a seeded flow")] = ""
    format: Annotated[FORMATS, Meta(description="of the file; auto looks at its content")] = "auto"
    symbol: Annotated[str, Meta(description="which instrument, where a file holds several", max_length=200)] = ""
    horizon: Annotated[
        float,
        Meta(gt=0, le=86_400, description="seconds of a window in which flow and price are compared, and after which a fill is judged"),
    ] = 60.0
    fills: Annotated[PathText, Meta(description="one's own fills on that tape: a CSV of time, side, price, quantity")] = ""
    takers: Annotated[int, Meta(ge=2, le=20_000, description="market orders of the seeded flow")] = 400
    buy_share: Annotated[float, Meta(ge=0, le=1, description="of the seeded takers who know nothing, how many buy")] = 0.55
    fall: Annotated[float, Meta(ge=-0.5, le=0.5, description="fraction by which the value falls in the seeded flow")] = 0.06
    informed: Annotated[Literal["makers", "takers"], Meta(description="who sees the value fall; the others learn it from them")] = "makers"
    seed: Annotated[int, Meta(ge=0, description="of the flow; 0 takes the run's own seed")] = 0


@simulation("aggressor")
def aggressor(params: AggressorParams, rec: Recorder) -> None:
    """The price fell: who was buying?"""
    feed = _feed(params, rec)
    fills = read_fills(params.fills) if params.fills else None
    rec.recording.time_unit, rec.recording.clock = "s", feed.zone
    rec.recording.words = {"trade": Word(("quantity",), "cause", (CAUSES[EXECUTION],))}
    rec.progress(0.0, feed.begins)
    split, plain, windows, sweeps = Split(feed.scale), Plain(), Windows(params.horizon), Sweeps()
    stage: Stage | None = None
    log: GrowingLog | None = None
    for tape in feed.blocks():
        plain.add(tape)
        moves = split.add(tape)
        if moves is not None:
            if stage is None:
                stage = _begin(rec, feed, split)
                log = fills_panel(rec) if fills is not None else None
            stage.add(moves)
            windows.add(moves)
            _facts(rec, feed, split)
            _steps(rec, moves, sweeps)
        rec.progress(feed.done, "reading events")
    if split.opening == NO_MID:
        raise BadInput("aggressor.file", "no moment with both a bid and an ask", "a market with two sides")
    if stage is None:
        raise BadInput("aggressor.file", "no trade and no change of price", "a market in which something happens")
    _rest(rec, split, windows)
    if fills is not None and log is not None:
        judge_fills(fills, log, split, feed.midnight, params.horizon, rec, params.fills)
    plain.check(rec, split)


def _feed(params: AggressorParams, rec: Recorder) -> Feed:
    if not params.file:
        if params.format != "auto":
            raise BadInput("aggressor.format", f"found {params.format} without a file", "file = the path of such a file")
        return SeededFeed(params.seed or rec.seed, params.takers, params.fall, params.buy_share, params.informed)
    from core.markets.open_file import open_market
    from core.markets.stream.archive import looks_like_stream

    if params.format == "auto" and looks_like_stream(params.file):
        raise BadInput(params.file, "a stream of order messages, which has no clock", "market data with times (order_book replays this)")
    file = open_market(params.file, params.format, params.symbol)
    if file is None:
        return LobsterFeed(params.file, params.symbol, sure=params.format == "lobster")
    if file.header.by_order:
        return OrderFeed(cast("OrderFile", file))
    from core.markets.signing.depth import DepthFeed, with_its_other_half

    return DepthFeed(with_its_other_half(cast("DepthFile", file)))


def _begin(rec: Recorder, feed: Feed, split: Split) -> Stage:
    note = "by price only: a trade's changes are told from its price and time" if feed.inferred else "each event names its cause"
    rec.fact("source", feed.source, note=note)
    rec.computed(*split.step_values())
    return Stage(rec, split)


def _facts(rec: Recorder, feed: Feed, split: Split) -> None:
    """One value a step for everything that is known so far."""
    import numpy as np

    columns, get, money = split.columns, split.columns.get, split.money
    rec.fact_column("buy_volume", get("bought"), feed.unit, note="the buyer took; visible trades")
    rec.fact_column("sell_volume", get("sold"), feed.unit, note="the seller took; visible trades")
    change = derived(columns, lambda key: money(split.at_trades(key) + split.at_quotes(key)))
    rec.fact_column("price_change", change, "$", note="of the mid")
    opening = split.opening / (2 * split.scale) if split.opening > 0 else float("nan")  # a spread at 0 or below has no return
    rec.fact_column("return", derived(columns, lambda key: np.asarray(change[key] / opening)), "%")
    rec.fact_column("change_at_trades", derived(columns, lambda key: money(split.at_trades(key))), "$", note="of the mid, at executions")
    rec.fact_column("change_at_quotes", derived(columns, lambda key: money(split.at_quotes(key))), "$", note="at everything else")
    for cause in range(EXECUTION + 1, OTHER + 1):
        if get(f"events{cause}")[-1]:
            moved = derived(columns, lambda key, cause=cause: money(split.by(cause, key)))  # type: ignore[misc]
            rec.fact_column("change_at_quotes", moved, "$", label=CAUSES[cause])
    rec.fact_column("mid", get("mid"), "$")
    for name in NAMED:
        if split.scores[name].asked:
            rec.fact_column("classification_accuracy", get(name), "%", note=_RULE_NOTES[name], label=name)


def _steps(rec: Recorder, moves: Moves, sweeps: Sweeps) -> None:
    import numpy as np

    from core.markets.readers.clock import parts_of

    joins = sweeps(moves.time, moves.cause == EXECUTION, np.zeros(len(moves), dtype=bool), moves.sign)
    rec.steps(TEMPLATES, step_kinds(moves), moves.time, joins)
    rec.recording.phases[:] = [Phase(first, name) for first, name in parts_of(rec.recording.times)]


def _rest(rec: Recorder, split: Split, windows: Windows) -> None:
    """What only the whole tape can say."""
    for name, score in split.scores.items():
        if score.asked:
            what = "takers" if name == PER_TAKER else "fills"
            note = f"{_RULE_NOTES[name]}; {score.decided:,} of {score.asked:,} {what} decided"
            rec.recording.facts[f"classification_accuracy[{name}]"].note = note
    share, decided = windows.against()
    if share is not None:
        rec.fact("windows_against_flow", share, "%", note=f"of {decided:,} windows of {windows.horizon:g} s in which both moved")


class Windows:
    """Flow and change of the mid in windows of ``horizon`` seconds since the first move."""

    def __init__(self, horizon: float) -> None:
        self.horizon = horizon
        self._begin: float | None = None
        self._flow: Counter[int] = Counter()
        self._moved: Counter[int] = Counter()

    def add(self, moves: Moves) -> None:
        import numpy as np

        self._begin = float(moves.time[0]) if self._begin is None else self._begin
        part, row = np.unique(((moves.time - self._begin) // self.horizon).astype(np.int64), return_inverse=True)
        for totals, values in ((self._flow, moves.sign * moves.size), (self._moved, moves.change)):
            sums = np.zeros(len(part), dtype=values.dtype)
            np.add.at(sums, row, values)
            for window, value in zip(part.tolist(), sums.tolist(), strict=True):
                totals[window] += value

    def against(self) -> tuple[float | None, int]:
        """In what share of the windows the price went against the side that took more, and of how many both of which moved."""
        both = [(self._flow[w], self._moved[w]) for w in self._flow if self._flow[w] and self._moved[w]]
        return (sum((flow > 0) != (moved > 0) for flow, moved in both) / len(both) if both else None), len(both)


class Plain:
    """The same split again by one plain loop over every event of the tape: what the checks compare with."""

    def __init__(self) -> None:
        self.first = self.last = NO_MID
        self.changes = [0] * len(CAUSES)
        self.signed = 0.0

    def add(self, tape: Tape) -> None:
        last = self.last
        for twice, cause in zip(tape.twice.tolist(), tape.cause.tolist(), strict=True):
            if twice != last and twice != NO_MID:
                if last == NO_MID:
                    self.first = twice
                else:
                    self.changes[cause] += twice - last
                last = twice
        self.last = last
        traded = tape.size > 0
        columns = (tape.sign[traded], tape.size[traded], tape.hidden[traded])
        for sign, size, hidden in zip(*(column.tolist() for column in columns), strict=True):
            if not hidden:
                self.signed += sign * size

    def check(self, rec: Recorder, split: Split) -> None:
        end = len(split) - 1
        total = int(split.at_trades(end) + split.at_quotes(end))
        rec.check("change at trades + change at quotes (half-ticks)", total, self.last - self.first, oracle="last mid less first mid")
        loop = "one plain loop over all events"
        rec.check("change at trades (half-ticks)", int(split.at_trades(end)), self.changes[EXECUTION], oracle=loop)
        wrong = sum(int(split.by(cause, end)) != self.changes[cause] for cause in range(EXECUTION + 1, len(CAUSES)))
        rec.check("causes of quotes whose change differs", wrong, 0, oracle=loop)
        bought, sold = (split.columns.get(name)[-1].item() for name in ("bought", "sold"))
        tolerance = 0.0 if isinstance(bought, int) else 1e-9 * (bought + sold)
        rec.check("buy volume - sell volume", bought - sold, self.signed, tolerance, oracle=loop)
