"""The price fell: who was buying? Every trade has a buyer and a seller; what moves the price is who gives way.

The change of the mid is split by cause: what it changed at executions, and what it changed at quotes (orders placed, taken
back or modified). The two parts sum exactly, in whole half-ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

from msgspec import Meta

from core.errors import BadInput
from core.markets import signing
from core.markets.aggressor_tape import (
    CAUSES,
    EXECUTION,
    NO_MID,
    OTHER,
    Tape,
    falling_tape,
    lobster_tape,
    order_tape,
)
from core.markets.aggressor_views import TEMPLATES, draw, step_kinds
from core.recording import Recorder
from core.simulation import Params, PathText, simulation

if TYPE_CHECKING:
    import numpy as np

    from core.markets.readers.forms import OrderFile


class AggressorParams(Params, frozen=True):
    file: Annotated[PathText, Meta(description="LOBSTER with orderbook, Databento mbo or ITCH; '' makes a seeded flow")] = ""
    format: Annotated[Literal["auto", "lobster", "databento", "itch"], Meta(description="of the file; auto looks at its content")] = "auto"
    symbol: Annotated[str, Meta(description="which instrument, where a file holds several", max_length=200)] = ""
    horizon: Annotated[float, Meta(gt=0, le=86_400, description="seconds of a window in which flow and price are compared")] = 60.0
    takers: Annotated[int, Meta(ge=2, le=20_000, description="market orders of the seeded flow")] = 400
    buy_share: Annotated[float, Meta(ge=0, le=1, description="of the seeded takers, how many buy")] = 0.55
    fall: Annotated[float, Meta(ge=-0.5, le=0.5, description="fraction by which the makers' value falls in the seeded flow")] = 0.06
    seed: Annotated[int, Meta(ge=0, description="of the flow; 0 takes the run's own seed")] = 0


class Split:
    """The tape reduced to what moves price or trades, with running totals. All arrays (steps,)."""

    def __init__(self, tape: Tape) -> None:
        import numpy as np

        known = np.flatnonzero(tape.twice != NO_MID)
        if not len(known):
            raise BadInput("aggressor.file", "no moment with both a bid and an ask", "a market with two sides")
        place = np.maximum.accumulate(np.where(tape.twice != NO_MID, np.arange(len(tape.twice)), -1))
        held = np.where(place >= 0, tape.twice[np.maximum(place, 0)], tape.twice[known[0]])
        self.opening, self.closing = int(tape.twice[known[0]]), int(tape.twice[known[-1]])
        change = np.diff(held, prepend=held[0])
        trades = (tape.sign != 0) | (tape.hidden & (tape.size > 0))
        self.at = np.flatnonzero((change != 0) | trades)
        if not len(self.at):
            raise BadInput("aggressor.file", "no trade and no change of price", "a market in which something happens")
        self.tape, self.held, self.change = tape, held, change[self.at]
        self.cause, self.time = tape.cause[self.at], tape.time[self.at]
        self.visible = (tape.sign[self.at] != 0) & ~tape.hidden[self.at]
        self.sign = np.where(self.visible, tape.sign[self.at], 0)
        self.size, self.price = tape.size[self.at], tape.price[self.at]
        self.mid = held[self.at] / (2 * tape.scale)
        self.mid_before = (held[self.at] - self.change) / (2 * tape.scale)
        self.bought = np.cumsum(np.where(self.sign > 0, self.size, 0))
        self.sold = np.cumsum(np.where(self.sign < 0, self.size, 0))
        self.by_cause = [np.cumsum(np.where(self.cause == cause, self.change, 0)) for cause in range(len(CAUSES))]
        self.by_trades = self.by_cause[EXECUTION]
        self.by_quotes = np.cumsum(self.change) - self.by_trades

    def __len__(self) -> int:
        return len(self.at)

    def money(self, halves: np.ndarray) -> np.ndarray:
        """Half-ticks as price units."""
        priced: np.ndarray = halves / (2 * self.tape.scale)
        return priced


@simulation("aggressor")
def aggressor(params: AggressorParams, rec: Recorder) -> None:
    """The price fell: who was buying?"""
    split = Split(_tape(params, rec))
    rec.recording.time_unit = "s"
    guesses = _guesses(split)
    draw(rec, split, guesses)
    _facts(rec, split)
    _steps(rec, split)
    _accuracies(rec, split, guesses)
    _windows(rec, split, params.horizon)
    _checks(rec, split)


def _tape(params: AggressorParams, rec: Recorder) -> Tape:
    if not params.file:
        if params.format != "auto":
            raise BadInput("aggressor.format", f"found {params.format} without a file", "file = the path of such a file")
        return falling_tape(params.seed or rec.seed, params.takers, params.fall, params.buy_share)
    from core.markets.open_file import open_market

    file = open_market(params.file, params.format, params.symbol)
    if file is None:
        return lobster_tape(params.file, params.symbol, rec, sure=params.format == "lobster")
    if not file.header.by_order:
        allowed = "market by order: LOBSTER with its orderbook, Databento mbo, ITCH"
        raise BadInput(params.file, f"{file.header.format}, market by price: it does not say which change belongs to a trade", allowed)
    return order_tape(cast("OrderFile", file), rec)


def _guesses(split: Split) -> dict[str, np.ndarray]:
    """(trades,) what each rule says of the visible trades."""
    tape, at = split.tape, split.at[split.visible]
    price = tape.price[at]
    lagging = signing.lagged(tape.time, tape.mids(), tape.time[at])
    return {
        "quote_rule": signing.quote_rule(price, lagging),
        "tick_rule": signing.tick_rule(price),
        "lee_ready": signing.lee_ready(price, lagging),
        "exact_quotes": signing.quote_rule(price, split.mid_before[split.visible]),
    }


def _facts(rec: Recorder, split: Split) -> None:
    unit = split.tape.unit
    rec.fact("source", split.tape.source)
    rec.fact_column("buy_volume", split.bought, unit, note="visible trades in which the buyer took")
    rec.fact_column("sell_volume", split.sold, unit, note="visible trades in which the seller took")
    change = split.by_trades + split.by_quotes
    rec.fact_column("price_change", split.money(change), "$", note="of the mid, since both sides were first there")
    rec.fact_column("return", change / split.opening, "%")
    rec.fact_column("change_at_trades", split.money(split.by_trades), "$", note="changes of the mid at executions")
    rec.fact_column("change_at_quotes", split.money(split.by_quotes), "$", note="changes of the mid at everything else")
    for cause in range(EXECUTION + 1, OTHER + 1):
        if (split.cause == cause).any():
            rec.fact_column("change_at_quotes", split.money(split.by_cause[cause]), "$", label=CAUSES[cause])
    rec.fact_column("mid", split.mid, "$")


def _steps(rec: Recorder, split: Split) -> None:
    import numpy as np

    hour, size = -1, 20_000
    for first in range(0, len(split), size):
        span = slice(first, first + size)
        hours = split.time[span] // 3600
        for at in np.flatnonzero(np.diff(hours, prepend=hour)).tolist():
            if hours[at] != hour and split.time[-1] > 3600:
                rec.phase(f"{int(hours[at]):02d}:00", first + at)
            hour = hours[at]
        rec.steps(
            TEMPLATES,
            step_kinds(split, span),
            split.time[span],
            cause=np.array(CAUSES, dtype=object)[split.cause[span]],
            price=split.price[span],
            quantity=split.size[span],
            mid_before=split.mid_before[span], mid=split.mid[span], change=split.money(split.change[span]),
            bought=split.bought[span], sold=split.sold[span],
            by_trades=split.money(split.by_trades[span]), by_quotes=split.money(split.by_quotes[span]),
        )  # fmt: skip
        rec.progress(0.9 + 0.1 * min(first + size, len(split)) / len(split), "splitting the change")


def _accuracies(rec: Recorder, split: Split, guesses: dict[str, np.ndarray]) -> None:
    """How often each rule finds the true side: per fill, and per taker (one sweep is one)."""
    truth, time, price = split.sign[split.visible], split.time[split.visible], split.price[split.visible]
    if not len(truth):
        return
    notes = {
        "quote_rule": "mid from before the trade's second", "tick_rule": "last prices only",
        "lee_ready": "quote rule, at the mid the tick rule", "exact_quotes": "mid right before the trade",
    }  # fmt: skip
    for name, guess in guesses.items():
        decided = int((guess != 0).sum())
        note = f"{notes[name]}; {decided:,} of {len(truth):,} fills decided"
        rec.fact("classification_accuracy", signing.accuracy(guess, truth), "%", note=note, label=name)
    first = signing.takers(time, truth)
    note = f"{len(first):,} takers: fills of one time and side in a row"
    share = signing.accuracy(signing.tick_rule(price[first]), truth[first])
    rec.fact("classification_accuracy", share, "%", note=note, label="tick_rule_per_taker")


def _windows(rec: Recorder, split: Split, horizon: float) -> None:
    """In how many windows the price went against the side that took more."""
    import numpy as np

    part = ((split.time - split.time[0]) // horizon).astype(np.int64)
    starts = np.flatnonzero(np.diff(part, prepend=-1))
    flow = np.add.reduceat(split.sign * split.size, starts)
    moved = np.add.reduceat(split.change, starts)
    decided = (flow != 0) & (moved != 0)
    if decided.any():
        against = float((np.sign(flow) != np.sign(moved))[decided].mean())
        note = f"of {int(decided.sum()):,} windows of {horizon:g} s in which both moved"
        rec.fact("windows_against_flow", against, "%", note=note)


def _checks(rec: Recorder, split: Split) -> None:
    tape = split.tape
    total = int(split.by_trades[-1] + split.by_quotes[-1])
    rec.check("change at trades + change at quotes (half-ticks)", total, split.closing - split.opening, oracle="last mid less first mid")
    signed = [s * q for s, q, h in zip(tape.sign.tolist(), tape.size.tolist(), tape.hidden.tolist(), strict=True) if not h]
    rec.check("buy volume - sell volume", int(split.bought[-1] - split.sold[-1]), sum(signed), oracle="one loop over all trades")
    parts = sum(int(column[-1]) for column in split.by_cause)
    rec.check("sum over causes (half-ticks)", parts, total, oracle="change of the mid")
