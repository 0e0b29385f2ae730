"""Funding settlements of perpetual futures as CSV: Binance's own (calc_time) and files with a Date column.

Settlements happen at whole intervals of the UTC day (00:00, 08:00 and 16:00 where the interval is 8 hours), so the hours of a
Date column tell its zone, up to whole intervals: UTC+8 looks like UTC.
"""

from __future__ import annotations

import datetime
from collections import Counter
from itertools import pairwise
from pathlib import Path

import msgspec

from core.errors import BadInput
from core.markets.readers.depth_rows import EpochUnit, number, whole
from core.markets.readers.streams import Stream
from core.markets.readers.text import text_head, text_lines

INTERVAL_HOURS = 8
HEADERS = ("Symbol,Date,Funding Rate", "calc_time,funding_interval_hours,last_funding_rate")
BASE_RATE = 0.0001
"""0.01 % for 8 hours: the interest part of the rate, which remains while the premium stays small."""
HOUR = 3600.0


class Funding(msgspec.Struct, frozen=True):
    """Settlements in file order. ``times`` in seconds since 1970 as if the file's clock were UTC; ``zone`` in hours east of it.

    interval: hours between settlements; lines: the line of each; dated: times are dates of a clock that the file does not name.
    """

    path: str
    symbol: str
    times: tuple[float, ...]
    rates: tuple[float, ...]
    lines: tuple[int, ...]
    interval: int
    zone: int
    dated: bool
    note: str = ""

    @property
    def utc(self) -> list[float]:
        """Seconds since 1970 UTC of each settlement."""
        return [time - self.zone * HOUR for time in self.times]


def looks_like_funding(path: str | Path) -> bool:
    """Whether the first line is a funding file's header."""
    return text_head(path, 64).decode("latin-1").startswith(HEADERS)


def read_funding(path: str | Path, symbol: str = "") -> Funding:
    """The settlements of one symbol: the one asked for, else the busiest. BadInput names the line of a row that cannot be read."""
    rows: list[tuple[str, float, float, int, int]] = []
    dated, unit = True, EpochUnit()
    for first, lines in text_lines(Stream(path)):
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
            time = _date(row[1], where) if dated else unit.read(row[0], where, "calc_time") / 1e9
            hours = 0 if dated else whole(row[1], where, "funding_interval_hours")
            if not dated and not 1 <= hours <= 24:
                raise BadInput(where, f"funding_interval_hours is {hours}", "1 to 24")
            rows.append((row[0] if dated else "", time, _rate(row[2], where), at, hours))
    if not rows:
        raise BadInput(str(path), "a header without rows", "funding settlements")
    counts = Counter(row[0] for row in rows)
    if symbol and dated and symbol not in counts:
        raise BadInput(f"{path}: symbol", f"no {symbol!r}", "symbol = " + ", ".join(sorted(counts)[:8]))
    chosen = symbol if symbol and dated else counts.most_common(1)[0][0]
    note = f"the busiest of {len(counts)} symbols; symbol = NAME picks another" if len(counts) > 1 and not symbol else ""
    _, times, rates, places, intervals = zip(*(row for row in rows if row[0] == chosen), strict=True)
    interval = _interval(times) if dated else Counter(intervals).most_common(1)[0][0]
    zone = _zone(times, interval) if dated else 0
    return Funding(str(path), chosen, times, rates, places, interval, zone, dated, note)


def _rate(text: str, where: str) -> float:
    value = number(text, where, "funding rate")
    if abs(value) >= 1:
        raise BadInput(where, f"funding rate is {text.strip()[:40]!r}", "a fraction of the position (0.0001 is 0.01 %)")
    return value


def _interval(times: tuple[float, ...]) -> int:
    """Hours between settlements: the most usual step, as far as it divides a day."""
    steps = Counter(round((b - a) / HOUR) for a, b in pairwise(times))
    return next((step for step, _ in steps.most_common() if step in (1, 2, 4, 6, 8, 12, 24)), INTERVAL_HOURS)


def _zone(times: tuple[float, ...], interval: int) -> int:
    hours = Counter(round(time / HOUR) % interval for time in times)
    zone = hours.most_common(1)[0][0]
    return zone if zone <= interval // 2 else zone - interval


def _date(text: str, where: str) -> float:
    try:
        when = datetime.datetime.fromisoformat(text)
        if 1990 <= when.year <= 2100:
            return (when if when.tzinfo else when.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        pass
    raise BadInput(where, f"Date is {text[:40]!r}", "a date such as 2020-01-01 03:00:00.000")
