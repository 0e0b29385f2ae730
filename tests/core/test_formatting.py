"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.formatting import FORMATTER, UNITS, format_value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (112e9, "bytes", "112 GB"),
        (1.875e9, "bytes", "1.875 GB"),
        (31.40625e9, "bytes", "31.41 GB"),
        (999, "bytes", "999 B"),
        (0, "bytes", "0 B"),
        (300e9, "bytes/s", "300 GB/s"),
        (0.0123, "s", "12.3 ms"),
        (4.2e-7, "s", "420 ns"),
        (0, "s", "0 s"),
        (3 / 11, "%", "27.3 %"),
        (1, "%", "100 %"),
        (147916, "count", "147,916"),
        (33.0, "", "33"),
        (28.5, "", "28.5"),
        (4, "microbatches", "4 microbatches"),
        (1, "microbatches", "1 microbatch"),
        (1.0, "chunks", "1 chunk"),
        (579.8, "$", "579.80"),
        (579.8025, "$", "579.8025"),
        (None, "bytes", "–"),
        (float("nan"), "s", "–"),
        (float("-inf"), "", "-∞"),
        (True, "", "yes"),
        ("ring", "bytes", "ring"),
        (0.00001234, "", "1.23e-05"),
    ],
)
def test_values_read_naturally(value, unit, text):
    assert format_value(value, unit) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(UNITS)))
def test_any_number_in_any_unit_has_a_short_text(value, unit):
    if unit in ("$", "%") and abs(value) > 1e12:
        return
    assert 0 < len(format_value(value, unit)) < 30


@given(st.floats(min_value=1e-9, max_value=1e14))
def test_bytes_keep_four_digits(value):
    number, _, unit = format_value(value, "bytes").partition(" ")
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert math.isclose(float(number.replace(",", "")) * scale, value, rel_tol=6e-3 if value < 1e-3 else 6e-4)


def test_a_name_that_is_missing_stays_visible():
    assert FORMATTER.fill("rank {rank} of {n}", {"rank": 1}) == "rank 1 of {n}"
