"""Clocks and price steps of market data: which day, what time it is in words, what unit a number of digits means."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.formatting import clock_text

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


def zone_of(clock: str) -> str:
    """The zone whose midnight a file's times are counted from: files without a date are Nasdaq's, in New York's time."""
    return "UTC" if clock == "utc" else "ET"


class ClockTexts:
    """A column of nanoseconds since midnight reads as times of day to the millisecond, each by its index."""

    def __getitem__(self, nanoseconds: int) -> str:
        return clock_text(nanoseconds, 3)


_PARTS = (86_400, 21_600, 3_600, 1_800, 600, 300, 60, 30, 10, 5, 1)
_MOST_PARTS = 200


def parts_of(seconds: Sequence[float] | np.ndarray) -> list[tuple[int, str]]:
    """(first event, clock) of the parts of a recording that its times, in seconds, fall into: whole hours, minutes or seconds.

    The longest of which there are four, or single seconds; times are taken as never decreasing.
    """
    first, last = float(seconds[0]), float(seconds[-1])
    length = next((part for part in _PARTS if last // part - first // part >= 3), 1)
    starts = {0: first}
    for part in range(int(first // length) + 1, int(last // length) + 1)[:_MOST_PARTS]:
        if place := bisect_left(seconds, part * length):
            starts[place] = part * length  # after a silence the last of the parts that begin with this event
    digits = 5 if length >= 60 else 8
    return [(place, clock_text(int(start * 1e9), 0)[:digits]) for place, start in starts.items() if place < len(seconds)]


def unit_of(stamp: int) -> str:
    """The unit of an epoch time by its number of digits (10 seconds, 13 milli-, 16 micro-, 19 nanoseconds); '' when none fits."""
    return {9: "s", 10: "s", 12: "ms", 13: "ms", 15: "µs", 16: "µs", 18: "ns", 19: "ns"}.get(len(str(abs(stamp))), "")


class PriceStep:
    """The step of a ladder's rows: the largest of which every price seen so far is a multiple."""

    def __init__(self, cent: int) -> None:
        """``cent``: the step while one price alone is known, unless it needs a finer one."""
        self._cent = cent
        self._multiple = 0
        self._lowest = self._highest = 0

    def see(self, prices: np.ndarray) -> int:
        """The step now, after these prices too, whole numbers (prices,)."""
        import numpy as np

        if len(prices):
            low, high = int(prices.min()), int(prices.max())
            self._lowest, self._highest = (min(self._lowest, low), max(self._highest, high)) if self._multiple else (low, high)
            if not self._multiple or (prices % self._multiple).any():
                self._multiple = int(np.gcd(self._multiple, np.gcd.reduce(prices)))
        return self._multiple if self._highest > self._lowest else int(np.gcd(self._multiple, self._cent))
