"""Pictures of the Gantt at both sizes; a change is looked at before it is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import ViewApp, one_f_one_b, overlapped_streams

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40)]


@pytest.mark.parametrize("size", SIZES)
def test_one_f_one_b(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(ViewApp(one_f_one_b(4, 8)[0], 20), terminal_size=size)


@pytest.mark.parametrize("size", SIZES)
def test_many_lanes_zoomed_out(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(ViewApp(one_f_one_b(64, 128)[0], 6000), terminal_size=size)


def test_streams_in_seconds_under_the_cursor(snap_compare: Compare) -> None:
    app = ViewApp(overlapped_streams(2)[0], 4, focus=True)
    assert snap_compare(app, press=["right", "down"], terminal_size=(120, 40))


def test_light_theme(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(one_f_one_b(4, 8)[0], 20, theme="textual-light"), terminal_size=(80, 24))


def test_without_colour(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(one_f_one_b(4, 8)[0], 20, colors="none"), terminal_size=(80, 24))
