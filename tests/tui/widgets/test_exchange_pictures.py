"""Pictures of the exchange at both sizes; a change is looked at before it is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import ViewApp, all_to_all, ring_all_gather

Compare = Callable[..., bool]
SIZES = [(80, 24), (120, 40)]


@pytest.mark.parametrize("size", SIZES)
def test_ring(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(ViewApp(ring_all_gather(4)[0], 1), terminal_size=size)


def test_ring_of_eight_under_the_cursor(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(ring_all_gather(8)[0], 3, focus=True), press=["right"], terminal_size=(80, 24))


def test_matrix_of_an_all_to_all(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(all_to_all(6)[0], 1), terminal_size=(80, 24))


def test_list_of_many_actors(snap_compare: Compare) -> None:
    assert snap_compare(ViewApp(ring_all_gather(64)[0], 5), terminal_size=(120, 40))
