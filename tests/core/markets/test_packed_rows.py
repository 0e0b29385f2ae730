"""What long recordings keep small: packed rows, running totals, columns that grow and widen."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from lobster_sample import write_day
from weighing import weighed

from core.markets.growing import Growing
from core.markets.lobster.packed_rows import PIECE, PackedRows
from core.markets.running import EVERY, RunningTotal


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 2 * PIECE), min_size=1, max_size=6), st.integers(0, 10_000), st.data())
def test_packed_rows_come_back_as_they_were(sizes, seed, data):
    rng = np.random.default_rng(seed)
    table = np.cumsum(rng.integers(-3, 4, (sum(sizes), 5)), axis=0) + (1 << 40)
    table[rng.random(len(table)) < 0.05] = -9_999_999_999
    rows, done = PackedRows(5), 0
    for size in sizes:
        rows.extend(table[done : done + size])
        done += size
        at = data.draw(st.integers(0, done - 1))
        assert np.array_equal(rows[at], table[at])
    first = data.draw(st.integers(0, done))
    end = data.draw(st.integers(first, done))
    assert len(rows) == done and np.array_equal(rows.read(first, end), table[first:end])


def test_table_that_hardly_changes_takes_a_tenth_of_its_size():
    table = np.full((20 * PIECE, 40), 5_797_500, dtype=np.int64)
    table[:, 3] += np.arange(len(table)) % 7
    rows = PackedRows(40)
    rows.extend(table)
    assert rows.nbytes < table.nbytes / 10


def test_running_totals_are_cumulative_sums_wherever_they_are_read():
    values = np.random.default_rng(1).integers(0, 9, 3 * EVERY + 100)
    total = RunningTotal(lambda first, end: values[first:end])
    want = np.cumsum(values)
    for end in (10, EVERY, EVERY + 1, len(values)):
        total.grow(end)
        for first in (0, end // 2, end - 1):
            assert np.array_equal(total.rows(first, end), want[first:end])


def test_small_columns_widen_with_the_first_number_that_needs_it():
    column = Growing(small=("n",))
    blocks = [np.array([1, 2]), np.array([2**31 - 1, -(2**31)]), np.array([2**31]), np.array([2**40, 3])]
    for number, block in enumerate(blocks):
        column.extend({"n": block})
        assert column.get("n").dtype == (np.int32 if number < 2 else np.int64)
    assert column.get("n").tolist() == np.concatenate(blocks).tolist()


def test_lobster_recording_takes_less_than_200_bytes_for_every_further_event(tmp_path):
    paths = [tmp_path / "short", tmp_path / "long"]
    for path in paths:
        path.mkdir()
    short, long = write_day(paths[0], events=1_200, levels=10), write_day(paths[1], events=2_400, levels=10)
    weighed(short)  # whatever is made once
    assert 0 < (weighed(long)[1] - weighed(short)[1]) / 1_200 < 200
