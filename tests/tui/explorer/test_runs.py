"""Two playheads held together: by time, by equally named phases, by index."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from core.recording import Recorder, Recording
from tui.runs import synchronise, way


def made(times: Sequence[float | None], phases: Sequence[tuple[int, str]] = ()) -> Recording:
    rec = Recorder(Recording("hand"))
    starts = dict(phases)
    for n, time in enumerate(times):
        if n in starts:
            rec.phase(starts[n])
        rec.step("{n}", n=n, time=time)
    rec.recording.state = "finished"
    return rec.recording


def test_time_joins_runs_that_both_have_it() -> None:
    slow, fast = made([0, 2, 4, 6]), made([0, 1, 2, 3, 4, 5, 6, 7])
    assert way(slow, fast) == "time"
    assert [synchronise(slow, k, fast) for k in range(4)] == [0, 2, 4, 6]
    assert [synchronise(fast, k, slow) for k in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_steps_of_one_moment_keep_their_place_among_each_other() -> None:
    two, three = made([0, 0, 1, 1]), made([0, 0, 0, 1, 1, 1])
    assert [synchronise(two, k, three) for k in range(4)] == [0, 1, 3, 4]
    assert [synchronise(three, k, two) for k in range(6)] == [0, 1, 1, 2, 3, 3]


def test_the_shorter_run_stays_at_its_end() -> None:
    short, long = made([0, 1]), made([0, 1, 2, 3])
    assert [synchronise(long, k, short) for k in range(4)] == [0, 1, 1, 1]


def test_equally_named_phases_join_runs_without_time() -> None:
    one = made([None] * 10, [(0, "warm-up"), (4, "steady")])
    other = made([None] * 16, [(0, "warm-up"), (8, "steady")])
    assert way(one, other) == "phase"
    assert [synchronise(one, k, other) for k in (0, 2, 4, 5)] == [0, 4, 8, 9]


def test_a_phase_the_other_lacks_leaves_it_at_the_end_of_the_last_shared_one() -> None:
    one = made([None] * 9, [(0, "a"), (3, "extra"), (6, "b")])
    other = made([None] * 6, [(0, "a"), (3, "b")])
    assert [synchronise(one, k, other) for k in range(9)] == [0, 1, 2, 2, 2, 2, 3, 4, 5]


def test_index_joins_the_rest_and_an_empty_run_stands_at_its_start() -> None:
    one, other = made([None] * 5), made([None] * 3)
    assert way(one, other) == "index"
    assert [synchronise(one, k, other) for k in range(5)] == [0, 1, 2, 2, 2]
    assert synchronise(one, 3, made([])) == 0


@pytest.mark.parametrize("times", [[0.0, 2.0, 1.0], [0.0, None, 1.0]])
def test_times_that_go_back_or_lack_do_not_join(times: list[float | None]) -> None:
    assert way(made(times), made([0, 1, 2])) == "index"
