"""An axis of clock times: ticks at round minutes and hours, labels that tell the time of day."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.widgets.axes import axis


@pytest.mark.parametrize(
    ("low", "high", "intervals", "labels"),
    [
        (34_200.0, 57_600.0, 5, ["10:00", "12:00", "14:00", "16:00"]),
        (34_200.0, 57_600.0, 2, ["12:00", "16:00"]),
        (34_200.0, 34_260.0, 4, ["09:30:00", "09:30:15", "09:30:30", "09:30:45", "09:31:00"]),
        (82_800.0, 90_000.0, 3, ["23:00", "00:00 +1d", "01:00 +1d"]),
        (34_200.1, 34_200.4, 4, ["09:30:00.100", "09:30:00.200", "09:30:00.300", "09:30:00.400"]),
    ],
)
def test_ticks_fall_on_round_times(low: float, high: float, intervals: int, labels: list[str]) -> None:
    assert list(axis(low, high, intervals, "clock").labels) == labels


@given(st.floats(0, 86_000), st.floats(0.01, 90_000), st.integers(1, 5))
def test_every_label_is_the_time_of_its_tick(low: float, length: float, intervals: int) -> None:
    drawn = axis(low, low + length, intervals, "clock")
    assert len(drawn.ticks) <= intervals + 1
    for tick, label in zip(drawn.ticks, drawn.labels, strict=True):
        match = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?(?: \+(\d)d)?", label)
        assert match is not None, label
        hours, minutes, seconds, days = match.groups()
        assert int(hours) * 3600 + int(minutes) * 60 + float(seconds or 0) + 86_400 * int(days or 0) == pytest.approx(tick, abs=1e-6)
