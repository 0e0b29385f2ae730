"""A funding history as a recording: one step a settlement, who pays whom, and what has come together so far."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from core.markets.growing import GrowingLog
from core.markets.readers.funding import BASE_RATE, HOUR, Funding, read_funding
from core.recording import Recorder
from core.views import Column, Plot

if TYPE_CHECKING:
    import numpy as np

DAY = 86_400.0
BLOCK = 20_000
YEAR_DAYS = 365
_AGO = "So far {settlements:settlement|settlements} brought a short {total:%} of its position, one of constant size."
TEMPLATES: list[tuple[str, str]] = [
    (
        "Longs pay shorts {rate:%}",
        "On {when} UTC every long paid {rate:%} of its position and every short received it: the perpetual stood above its index. " + _AGO,
    ),
    (
        "Longs pay shorts the base rate of {rate:%}",
        "On {when} UTC the premium was small, so only the interest part of the rate was due: 0.01 % for 8 hours. " + _AGO,
    ),
    (
        "Shorts pay longs {paid:%}",
        "On {when} UTC the rate was negative, {rate:%}: the perpetual stood below its index, and shorts paid longs. " + _AGO,
    ),
    ("Nobody pays", "On {when} UTC the rate was 0. " + _AGO),
]


def replay_funding(path: str, symbol: str, rec: Recorder) -> None:
    """Record every settlement of the file at ``path``. There is no book in such a file."""
    import numpy as np

    rec.recording.time_unit = "days"
    rec.progress(0.0, "reading settlements")
    funding = read_funding(path, symbol)
    rates, utc = np.array(funding.rates), np.array(funding.utc)
    days = (utc - utc[0] // DAY * DAY) / DAY
    total = np.cumsum(rates)
    when = [datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%d %H:%M") for time in utc.tolist()]
    kind = np.select([np.abs(rates - BASE_RATE) < 5e-9, rates > 0, rates < 0], [1, 0, 2], 3)
    _panels(rec, days, rates, total, when, kind)
    _facts(rec, funding, rates, total)
    for first in range(0, len(rates), BLOCK):
        span = slice(first, first + BLOCK)
        for at in range(first, min(first + BLOCK, len(rates))):
            if not at or when[at][:4] != when[at - 1][:4]:
                rec.phase(when[at][:4], at)
        rec.steps(
            TEMPLATES, kind[span], days[span], event=["settlement"] * len(rates[span]), when=when[span], rate=rates[span],
            paid=np.abs(rates[span]), total=total[span], settlements=np.arange(len(rates))[span] + 1,
        )  # fmt: skip
        rec.progress(min((first + BLOCK) / len(rates), 1.0), "reading settlements")
    exact = sum(map(Fraction, map(repr, funding.rates)), Fraction(0))
    rec.check("sum of the rates", float(total[-1]), float(exact), 1e-9, oracle="the decimals of the file added as fractions")
    hours = {round(time / HOUR) % 24 for time in utc.tolist()}
    oracle = f"every {funding.interval} hours from midnight UTC on"
    rec.check("settlements at other hours than the exchange's", len(hours - set(range(0, 24, funding.interval))), 0, oracle=oracle)


def _panels(rec: Recorder, days: np.ndarray, rates: np.ndarray, total: np.ndarray, when: list[str], kind: np.ndarray) -> None:
    import numpy as np

    steps = np.arange(len(rates))
    rate = rec.panel("Funding rate at each settlement", Plot("time", "rate", x_unit="days", y_unit="%"))
    rate.points(rate.curve("rate", "forward"), days, rates, steps)
    earned = rec.panel("Received by a short so far", Plot("time", "sum", x_unit="days", y_unit="%"))
    earned.points(earned.curve("sum of rates", "good"), days, total, steps)
    columns = [Column("UTC", align="left"), Column("rate", "%"), Column("who pays", align="left"), Column("so far", "%")]
    paying = ("longs", "longs (base)", "shorts", "nobody")
    log = rec.panel("Settlements", GrowingLog(columns, ("plain", "dim", "ask", "dim"), {2: paying}), beside=True)
    log.extend(steps, kind, [np.array(when), rates, kind, total])


def _facts(rec: Recorder, funding: Funding, rates: np.ndarray, total: np.ndarray) -> None:
    import numpy as np

    count = np.arange(1, len(rates) + 1)
    utc = np.array(funding.utc)
    elapsed = np.maximum(utc - utc[0] + funding.interval * HOUR, 1.0) / DAY
    run = np.zeros(len(rates), dtype=np.int64)
    for at, negative in enumerate((rates < 0).tolist()):
        run[at] = (run[at - 1] + 1 if at else 1) if negative else 0
    rec.fact("symbol", funding.symbol or None, note=funding.note)
    rec.fact("format", "funding settlements")
    note = "of the file's dates, told by their hours" if funding.dated else "epoch times"
    rec.fact("time_zone", f"UTC{funding.zone:+d}" if funding.zone else "UTC", note=note)
    rec.fact_column("settlements", count)
    rec.fact_column("funding_rate", rates, "%", note="of the position, at this settlement")
    rec.fact_column("funding_received", total, "%", note="by a short of constant size; a long paid it")
    rec.fact_column("annualised", total / elapsed * YEAR_DAYS, "%", note="without compounding; capital base: the position")
    rec.fact_column("share_positive", np.cumsum(rates > 0) / count, "%", note="longs paid shorts")
    rec.fact_column("share_at_base", np.cumsum(np.abs(rates - BASE_RATE) < 5e-9) / count, "%", note="exactly 0.01 %")
    rec.fact_column("longest_negative_run", np.maximum.accumulate(run), "settlements", note="shorts paid, one after the other")
