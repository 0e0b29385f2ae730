"""Numbers with their units, the one way they are written everywhere: screens, titles, text output.

Values are kept in bytes, seconds, fractions and counts; only here do they become `28.0 GB` or `27.3 %`.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from typing import Any

Value = int | float | str | bool | None

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_SCALED = {"bytes": "B", "bytes/s": "B/s", "flop": "FLOP", "flop/s": "FLOP/s", "elements": "elements"}
UNITS = frozenset({*_SCALED, "s", "clock", "%", "$", "count"})
_LONGEST_CLOCK = 100 * 86_400
"""Seconds from which on a time is written as a duration: a whole number of nanoseconds would not be exact any more."""


def digits(value: float, significant: int = 4) -> str:
    """``value`` with so many significant digits, thousands grouped, no exponent in the usual range."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10 ** (significant - 1):
        return f"{value:,.0f}" if size < 1e15 else f"{value:.{significant}g}"
    if size < 1e-4:
        return f"{value:.{significant - 1}g}"
    places = significant - 1 - math.floor(math.log10(size))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_value(value: Value, unit: str = "") -> str:
    """``value`` in ``unit`` as a person reads it; None is a dash, text is itself.

    Units: bytes, bytes/s, flop, flop/s, elements (scaled by 1000), s (down to ns), clock (seconds since midnight as the time of
    day), % (of a fraction), $ (at least cents), count (grouped), "" (a bare number); any other unit is appended as a word.
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if unit in _SCALED:
        name = _SCALED[unit]
        for factor, prefix in _DECIMAL:
            if abs(value) >= factor:
                scaled = digits(value / factor)
                return f"{scaled} {prefix}{name}" if name != "elements" else f"{scaled} {prefix} elements"
        return f"{digits(value)} {name}"
    if unit == "clock" and abs(value) < _LONGEST_CLOCK:
        return clock_text(round(value * 1e9))
    if unit in ("s", "clock"):
        for factor, prefix in _SMALL:
            if abs(value) >= factor:
                return f"{digits(value / factor)} {prefix}s"
        return "0 s" if value == 0 else f"{value:.3g} s"
    if unit == "%":
        return f"{digits(value * 100, 3)} %"
    if unit == "$":
        places = next((places for places in (2, 3) if round(value, places) == round(value, 6)), 4)
        return f"{value:,.{places}f}"
    number = f"{value:,}" if isinstance(value, int) else digits(float(value))
    return number if unit in ("", "count") else f"{number} {_singular(unit) if number == '1' else unit}"


def clock_text(nanoseconds: int, places: int | None = None) -> str:
    """Time of day of ``nanoseconds`` since midnight: ``09:30:00.004241176``; past midnight with the days, ``01:10:00 +1d``.

    ``places`` of a second are cut off behind; None gives 0, 3, 6 or 9, the fewest that tell it exactly.
    """
    sign, seconds = ("-" if nanoseconds < 0 else ""), abs(nanoseconds) // 1_000_000_000
    fraction = f"{abs(nanoseconds) % 1_000_000_000:09d}"
    if places is None:
        places = next(places for places in (0, 3, 6, 9) if not fraction[places:].strip("0"))
    days, seconds = divmod(seconds, 86_400)
    text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction[:places]}" if places else "") + (f" +{days}d" if days else "")


def parameter_text(value: object) -> str:
    """A parameter's value as a person types it: ``1,2,1,1``, ``true``, ``7e9``; nothing for None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(parameter_text(part) for part in value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e22:
        mantissa, _, exponent = f"{value:.6g}".partition("e")
        short = f"{mantissa}e{int(exponent)}" if exponent else mantissa
        return short if abs(value) >= 1e6 and float(short) == value else str(int(value))
    return "" if value is None else f"{value}"


def _singular(unit: str) -> str:
    """One microbatch, one chunk: units are written in the plural."""
    if unit.endswith(("ches", "shes", "sses", "xes")):
        return unit[:-2]
    return unit[:-1] if unit.endswith("s") and len(unit) > 2 else unit


class Formatter(string.Formatter):
    """Fills a step's template: ``{size:bytes}``, ``{t:s}``, ``{share:%}``, ``{price:$}`` know their units.

    ``{rows:row|rows}`` is a count with its noun in the right number: 1 row, 1,024 rows.
    A field without a spec is written plainly: an int as it is (identifiers keep no separators), a float with four digits.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in UNITS:
            return format_value(value, format_spec)
        if value is None:
            return "–"
        if "|" in format_spec:
            one, many = format_spec.split("|", 1)
            return f"{format_value(value, 'count')} {one if value == 1 else many}"
        if format_spec:
            try:
                return format(value, format_spec)
            except (TypeError, ValueError):
                pass  # a spec for another kind of value: written plainly
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return digits(value)
        return str(value)

    def fill(self, template: str, values: Mapping[str, Value]) -> str:
        """The finished sentence; a name the values lack stays visible in braces, and so does a template that is not one."""
        try:
            return self.vformat(template, (), _Visible(values))
        except (AttributeError, IndexError, TypeError, ValueError):
            return template

    def check_unused_args(self, used_args: object, args: object, kwargs: object) -> None:
        return None


class _Visible(dict[str, Value]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


FORMATTER = Formatter()
