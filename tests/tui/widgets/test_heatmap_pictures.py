"""Pictures of the heatmap at both sizes; a change is looked at before it is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import ViewApp, gates, shards, traffic_matrix

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40)]


@pytest.mark.parametrize("size", SIZES)
def test_traffic_matrix(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(ViewApp(traffic_matrix(8)[0], 3), terminal_size=size)


@pytest.mark.parametrize("size", SIZES)
def test_large_matrix_as_shades(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(ViewApp(traffic_matrix(48)[0], 40), terminal_size=size)


def test_letters_of_shards(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(shards(4)[0], 2), terminal_size=(80, 24))


def test_gates_under_the_cursor(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(gates(12, 8)[0], 6, focus=True), press=["right", "up"], terminal_size=(80, 24))


def test_256_colours_in_a_light_theme(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(traffic_matrix(8)[0], 7, theme="textual-light", colors="256"), terminal_size=(80, 24))
