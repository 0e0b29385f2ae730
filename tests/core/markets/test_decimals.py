"""Columns of decimal numbers kept as whole numbers: every value comes back as its text would read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.markets.depth.decimals import Decimals


def filled(*blocks: list[float]) -> Decimals:
    column = Decimals()
    for block in blocks:
        column.extend(np.array(block, dtype=float))
    return column


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.decimals(-(10**6), 10**6, places=8).map("{:.8f}".format), max_size=5), max_size=5), st.integers(0, 8))
def test_a_number_comes_back_as_its_text_reads(blocks, places):
    texts = [[text[: len(text) - 8 + places].rstrip(".") or "0" for text in block] for block in blocks]
    texts = [["0" if text in ("-", "") else text for text in block] for block in texts]
    column = filled(*([float(text) for text in block] for block in texts))
    want = [float(text) for block in texts for text in block]
    assert column.values(0, len(column)).tolist() == want and len(column) == len(want)


def test_places_grow_with_the_values_and_floats_stay_where_none_are_enough():
    column = filled([1.0, 2.0])
    assert column.places == 0
    column.extend(np.array([0.058]))
    assert column.places == 3 and column.values(0, 3).tolist() == [1.0, 2.0, 0.058]
    column.extend(np.array([1 / 3]))
    assert column.places is None and column.values(1, 4).tolist() == [2.0, 0.058, 1 / 3]
    column.extend(np.array([5.5]))
    assert column.values(4, 5).tolist() == [5.5]


@pytest.mark.parametrize("large", [2.0**31, 61_809.55 * 10**6, 1e300, -(2.0**31)])
def test_large_numbers_widen_the_column_and_keep_those_before(large):
    column = filled([1.25, -3.5], [large], [7.75])
    assert column.values(0, 4).tolist() == [1.25, -3.5, large, 7.75]


def test_four_bytes_a_number_where_they_are_small():
    column = filled(np.round(np.random.default_rng(0).random(10_000) * 1000, 3).tolist())
    assert column.nbytes == 4 * 10_000


def test_a_reader_in_between_sees_whole_blocks_of_the_right_scale():
    column = filled([1.5] * 10)
    before = column._kept
    column.extend(np.array([0.001]))
    assert (before[0][:10] / 10.0 ** before[1]).tolist() == [1.5] * 10 == column.values(0, 10).tolist()
