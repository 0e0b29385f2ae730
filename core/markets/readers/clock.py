"""Clocks and price steps of market data: which day, what time it is in words, what unit a number of digits means."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

DAY = 86_400_000_000_000
UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "µs": 1_000, "ns": 1}


def day_of(received: np.ndarray, time: np.ndarray, clock: str) -> tuple[int, str]:
    """(nanoseconds of the midnight before the first event, its date in words); (0, '') where the file has no date."""
    if clock != "utc" or not len(time):
        return 0, ""
    import datetime

    first = int(received[0]) if received[0] > 0 else int(time[0])
    midnight = first // DAY * DAY
    return midnight, datetime.datetime.fromtimestamp(midnight / 1e9, datetime.UTC).strftime("%Y-%m-%d")


def clock_text(nanoseconds: int) -> str:
    """Time of day to the millisecond, hours running on past midnight: ``14:30:05.123``."""
    milliseconds = nanoseconds // 1_000_000
    seconds = milliseconds // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{milliseconds % 1000:03d}"


def unit_of(stamp: int) -> str:
    """The unit of an epoch time by its number of digits (10 seconds, 13 milli-, 16 micro-, 19 nanoseconds); '' when none fits."""
    return {9: "s", 10: "s", 12: "ms", 13: "ms", 15: "µs", 16: "µs", 18: "ns", 19: "ns"}.get(len(str(abs(stamp))), "")


def tick_of(prices: np.ndarray) -> int:
    """The largest step of which all differences of these whole numbers are multiples; 1 when there is none."""
    import numpy as np

    different = np.unique(prices)
    step = int(np.gcd.reduce(np.diff(different))) if len(different) > 1 else 0
    return step or 1
