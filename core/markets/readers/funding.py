"""Funding settlements of perpetual futures as CSV: Binance's own (calc_time) and files with a Date column.

Settlements happen at 00:00, 08:00 and 16:00 UTC (every 8 hours), so the hours of a Date column tell its zone.
"""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import msgspec

from core.errors import BadInput
from core.markets.readers.depth_rows import EpochUnit, number
from core.markets.readers.streams import Stream, head_of

INTERVAL_HOURS = 8
HEADERS = ("Symbol,Date,Funding Rate", "calc_time,funding_interval_hours,last_funding_rate")
BASE_RATE = 0.0001


class Funding(msgspec.Struct, frozen=True):
    """Settlements in file order. ``times`` in seconds since 1970 as if the file's clock were UTC; ``zone`` in hours east of it."""

    path: str
    symbol: str
    times: tuple[float, ...]
    rates: tuple[float, ...]
    zone: int


def looks_like_funding(path: str | Path) -> bool:
    """Whether the first line is a funding file's header."""
    return head_of(path, 64).decode("latin-1").startswith(HEADERS)


def read_funding(path: str | Path) -> Funding:
    """The whole file. BadInput names the line of a row that cannot be read."""
    times: list[float] = []
    rates: list[float] = []
    symbols: Counter[str] = Counter()
    dated, unit = True, EpochUnit()
    for first, lines in Stream(path).lines():
        for at, line in enumerate(lines, first):
            text, where = line.decode("utf-8", "replace").strip(), f"{path}: line {at}"
            if at == 1:
                dated = text.startswith(HEADERS[0])
                if not text.startswith(HEADERS):
                    raise BadInput(where, f"found {text[:60]!r}", " or ".join(HEADERS))
                continue
            if not text:
                continue
            row = text.split(",")
            if len(row) != 3:
                raise BadInput(where, f"{len(row)} columns", "3 columns, as in the header")
            if dated:
                symbols[row[0]] += 1
                times.append(_date(row[1], where))
            else:
                times.append(unit.read(row[0], where, "calc_time") / 1e9)
            rates.append(number(row[2], where, "funding rate"))
    if not times:
        raise BadInput(str(path), "a header without rows", "funding settlements")
    if len(symbols) > 1:
        raise BadInput(str(path), f"{len(symbols)} symbols: {', '.join(sorted(symbols)[:4])}", "one symbol")
    hours = Counter(round(time / 3600) % INTERVAL_HOURS for time in times)
    zone = hours.most_common(1)[0][0]
    return Funding(
        str(path), next(iter(symbols), ""), tuple(times), tuple(rates), zone if zone <= INTERVAL_HOURS // 2 else zone - INTERVAL_HOURS
    )


def _date(text: str, where: str) -> float:
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(where, f"Date is {text[:40]!r}", "a date such as 2020-01-01 03:00:00.000") from None
    return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
