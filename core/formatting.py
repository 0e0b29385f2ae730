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
UNITS = frozenset({*_SCALED, "s", "%", "$", "count"})


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
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_value(value: Value, unit: str = "") -> str:
    """``value`` in ``unit`` as a person reads it; None is a dash, text is itself.

    Units: bytes, bytes/s, flop, flop/s, elements (scaled by 1000), s (down to ns), % (of a fraction), $ (cents shown),
    count (grouped), "" (a bare number); any other unit is appended as a word.
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
    if unit == "s":
        for factor, prefix in _SMALL:
            if abs(value) >= factor:
                return f"{digits(value / factor)} {prefix}s"
        return "0 s" if value == 0 else f"{value:.3g} s"
    if unit == "%":
        return f"{digits(value * 100, 3)} %"
    if unit == "$":
        return f"{value:,.2f}" if round(value, 2) == round(value, 6) else f"{value:,.4f}"
    number = f"{value:,}" if isinstance(value, int) else digits(float(value))
    return number if unit in ("", "count") else f"{number} {_singular(unit) if number == '1' else unit}"


def _singular(unit: str) -> str:
    """One microbatch, one chunk: units are written in the plural."""
    if unit.endswith(("ches", "shes", "sses", "xes")):
        return unit[:-2]
    return unit[:-1] if unit.endswith("s") and len(unit) > 2 else unit


class Formatter(string.Formatter):
    """Fills a step's template: ``{size:bytes}``, ``{t:s}``, ``{share:%}``, ``{price:$}`` know their units.

    A field without a spec is written plainly: an int as it is (identifiers keep no separators), a float with four digits.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in UNITS:
            return format_value(value, format_spec)
        if value is None:
            return "–"
        if format_spec:
            return format(value, format_spec)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return digits(value)
        return str(value)

    def fill(self, template: str, values: Mapping[str, Value]) -> str:
        """The finished sentence; a name the values lack stays visible in braces."""
        return self.vformat(template, (), _Visible(values))

    def check_unused_args(self, used_args: object, args: object, kwargs: object) -> None:
        return None


class _Visible(dict[str, Value]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


FORMATTER = Formatter()
