"""Limits, ticks and their labels for one axis of a chart: three to five round numbers in one unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.formatting import clock_text, format_value

SCALED = frozenset({"bytes", "bytes/s", "flop", "flop/s", "s", "clock", "%", "$"})
"""Units that each label carries; any other is a word that stands once, beside the axis's name."""

_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400)
"""Seconds between ticks of a clock, from one on."""

_PREFIXES = {"bytes": (0, 5), "bytes/s": (0, 5), "flop": (0, 5), "flop/s": (0, 5), "s": (-3, 0)}


@dataclass(frozen=True, slots=True)
class Axis:
    """``low`` to ``high`` in drawing coordinates (exponents of ten when ``log``), ticks at the same coordinates."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, value: float) -> float | None:
        """Where ``value`` lies between the ends, 0 to 1; None where it cannot be drawn."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return None
        at = ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)
        return at if -1e-9 <= at <= 1 + 1e-9 else None


def axis(low: float, high: float, intervals: int, unit: str, *, log: bool = False, whole: bool = False, round_out: bool = False) -> Axis:
    """An axis over finite ``low`` <= ``high`` with at most so many intervals between its ticks.

    ``whole``: the values are integers, so no tick falls between them; ``round_out``: the ends move out to ticks.
    ``low`` and ``high`` are exponents of ten when ``log``.
    """
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # equal, or as good as equal in floating point
        room = (abs(low) * 0.5 or 1.0) if not log else 0.5
        low, high = low - room, high + room
    intervals = max(intervals, 2 if low < 0 < high else 1)  # zero is a tick of every step
    step = _step(low, high, intervals, whole or log, round_out) if unit != "clock" else _clock_step(low, high, intervals)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if round_out:
        low, high = first * step, last * step
    ticks = [k * step for k in range(first, last + 1) if low - 1e-9 * step <= k * step <= high + 1e-9 * step]
    labels = [_power(tick, unit) for tick in ticks] if log else _labels(ticks, step, unit)
    if log and len(ticks) < 2:
        ticks = [low, high]
        labels = [_power(low, unit), _power(high, unit)]
    return Axis(low, high, log, tuple(ticks), tuple(labels))


def vertical(low: float, high: float, rows: int, unit: str, *, log: bool = False, whole: bool = False) -> Axis:
    """A y axis over so many rows: ends on round numbers where that costs little room, else ticks inside the data's ends."""
    most = min(max((rows - 1) // 2, 1), 4)
    outer = axis(low, high, most, unit, log=log, whole=whole, round_out=True)
    if high - low >= 0.7 * (outer.high - outer.low):
        return outer
    inner = [axis(low, high, k, unit, log=log, whole=whole) for k in range(min(max(rows // 2, 2), 4), max(2 * rows // 3, 3) + 1)]
    good = next((drawn for drawn in inner if 3 <= len(drawn.ticks) <= 5), None)
    if good is not None or high - low >= 0.5 * (outer.high - outer.low):
        return good or outer
    return next((drawn for drawn in inner if len(drawn.ticks) == 2), outer)  # two ticks tell more than an axis that is mostly empty


def _step(low: float, high: float, intervals: int, whole: bool, round_out: bool) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that needs at most so many intervals."""
    power = 10.0 ** math.floor(math.log10((high - low) / intervals))
    while True:
        for factor in (1.0, 2.0, 2.5, 5.0):
            step = factor * power
            if whole and (step < 1 or factor == 2.5):
                continue
            count = math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) if round_out else (high - low) / step
            if count <= intervals:
                return step
        power *= 10


def _clock_step(low: float, high: float, intervals: int) -> float:
    """The smallest round number of seconds, minutes or hours that needs at most so many intervals."""
    fits = (step for step in _CLOCK_STEPS if (high - low) / step <= intervals)
    return _step(low, high, intervals, False, False) if high - low < intervals else float(next(fits, _CLOCK_STEPS[-1]))


def _clock_label(tick: float, step: float) -> str:
    """A time of day to the minute where ticks are minutes apart, to the second or its part otherwise."""
    exact = round(tick * 1e9)
    text = clock_text(exact) if step < 1 else clock_text(exact, 0)
    return text[:5] + text[8:] if step % 60 == 0 else text


def _labels(ticks: list[float], step: float, unit: str) -> list[str]:
    """All labels in one scale (0.5 GB, 28 GB), with the decimals the step needs."""
    if unit == "clock":
        return [_clock_label(tick, step) for tick in ticks]
    largest = max((abs(tick) for tick in ticks), default=0.0)
    factor, suffix = _factor(largest, unit)
    if largest < 1e-4 * factor or largest / factor >= 1e15:
        return [f"{tick / factor:.3g}{suffix}" for tick in ticks]
    shown = step / factor
    places = next((k for k in range(7) if abs(shown * 10**k - round(shown * 10**k)) < 1e-6 * shown * 10**k), 7)
    if unit == "$" and places:
        places = max(places, 2)
    return [f"{tick / factor + 0.0:,.{places}f}{suffix}" for tick in ticks]


def _factor(largest: float, unit: str) -> tuple[float, str]:
    """What to divide by and what to write behind: a power of 1000 and its unit."""
    if unit == "%":
        return 0.01, " %"
    if unit in _PREFIXES:
        fewest, most = _PREFIXES[unit]
        power = math.floor(math.log10(largest) / 3 + 1e-9) if largest > 0 else 0
        factor = 1000.0 ** min(max(power, fewest), most)
        return factor, " " + format_value(factor, unit).partition(" ")[2]
    if unit == "$" or largest < 1e5:
        return 1.0, ""
    power = min(math.floor(math.log10(largest) / 3 + 1e-9), 5)
    return 1000.0**power, " " + format_value(1000.0**power, "elements").split()[1]


def _power(exponent: float, unit: str) -> str:
    """The label of a tick at ten to the ``exponent``."""
    if not -12 <= exponent <= 17:
        return f"1e{exponent:.0f}"
    value = 10.0**exponent
    if unit not in SCALED and value >= 1e5:
        return format_value(value, "elements").removesuffix(" elements")
    return format_value(float(f"{value:.3g}"), unit if unit in SCALED else "")
