"""Numbers as a person reads them."""

from __future__ import annotations

import datetime
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.formatting import FORMATTER, UNITS, clock_text, format_value, parameter_text


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
        (34_200, "clock", "09:30:00"),
        (34_200.015105074, "clock", "09:30:00.015105074"),
        (34_200.5, "clock", "09:30:00.500"),
        (34_200.000_25, "clock", "09:30:00.000250"),
        (0.0, "clock", "00:00:00"),
        (86_399.999_999_999, "clock", "23:59:59.999999999"),
        (86_400 + 3_661, "clock", "01:01:01 +1d"),
        (-1.5, "clock", "-00:00:01.500"),
        (1e9, "clock", "1,000,000,000 s"),
        (None, "clock", "–"),
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
        (100.005, "$", "100.005"),
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


@given(st.integers(0, 99 * 86_400_000_000_000), st.sampled_from([None, 0, 3, 6, 9]))
def test_clock_is_that_of_the_standard_library(nanoseconds: int, places: int | None) -> None:
    written = clock_text(nanoseconds, places)
    days, rest = divmod(nanoseconds, 86_400_000_000_000)
    moment = datetime.datetime(2000, 1, 1) + datetime.timedelta(seconds=rest // 1_000_000_000)
    fraction = f"{rest % 1_000_000_000:09d}"
    shown = written.removesuffix(f" +{days}d") if days else written
    assert shown[:8] == f"{moment:%H:%M:%S}"
    digits = shown[9:]
    assert fraction.startswith(digits) and len(digits) in ((0, 3, 6, 9) if places is None else (places,))
    if places is None:
        assert not fraction[len(digits) :].strip("0"), "nothing of it is lost"
        assert len(digits) < 3 or digits[-3:] != "000", "and no digit is there for nothing"


@given(st.floats(min_value=1e-9, max_value=1e14))
def test_bytes_keep_four_digits(value):
    number, _, unit = format_value(value, "bytes").partition(" ")
    scale = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]
    assert math.isclose(float(number.replace(",", "")) * scale, value, rel_tol=6e-3 if value < 1e-3 else 6e-4)


def test_a_name_that_is_missing_stays_visible():
    assert FORMATTER.fill("rank {rank} of {n}", {"rank": 1}) == "rank 1 of {n}"


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows are dropped"), (1, "1 row is dropped"), (1024, "1,024 rows are dropped")])
def test_a_count_brings_its_noun_in_the_right_number(count: int, said: str) -> None:
    assert FORMATTER.fill("{dropped:row is|rows are} dropped", {"dropped": count}) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7e9, "7e9"), (7.5e9, "7.5e9"), (1.0, "1"), (4194304.0, "4194304"), (0.25, "0.25"), (1e-7, "1e-07"), (4096, "4096"),
        (True, "true"), ((1.0, 2.5), "1,2.5"), (None, ""), (float("inf"), "inf"), (1e300, "1e+300"), ("gpipe", "gpipe"),
    ],
)  # fmt: skip
def test_a_parameter_reads_as_it_is_typed_and_comes_back_the_same(value: object, said: str) -> None:
    assert parameter_text(value) == said
    if isinstance(value, float):
        assert float(said) == value


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{size:z}", "1.5"), ("{lost:.2f}", "{lost}"), ("{name:,}", "a name"), ("a { brace", "a { brace"),
        ("{size.real.nothing}", "{size.real.nothing}"), ("{} and {0}", "{} and {0}"), ("{size!x}", "{size!x}"),
    ],
)  # fmt: skip
def test_a_template_with_a_mistake_is_shown_and_never_raises(template: str, said: str) -> None:
    assert FORMATTER.fill(template, {"size": 1.5, "name": "a name"}) == said
