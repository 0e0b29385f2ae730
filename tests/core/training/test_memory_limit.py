"""Tables run with less memory: the limit is kept, nothing is lost, nobody waits for ever, and little time is given away."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.training import memory_limit
from core.training.blocking_replay import replay
from core.training.longest_path import longest_path_starts
from core.training.memory_limit import Room, within
from core.training.schedule_table import Kind, Table
from core.training.schedules import SCHEDULES, build
from core.training.timing import Costs, peak_by_rank, time_table

SCHEDULES_THAT_BEND = sorted(name for name, schedule in SCHEDULES.items() if not schedule.rigid)


def unit_costs(table: Table) -> Costs:
    return Costs(*np.ones((3, table.stages)))


@st.composite
def limited_tables(draw):
    name = draw(st.sampled_from(SCHEDULES_THAT_BEND))
    size = draw(
        st.tuples(st.integers(1, 6), st.integers(1, 11), st.integers(1, 3)).filter(lambda size: SCHEDULES[name].undefined(*size) is None)
    )
    table = build(name, *size)
    limits = draw(st.lists(st.integers(table.chunks, 4 * table.chunks), min_size=table.ranks, max_size=table.ranks).map(np.array))
    times = st.lists(st.floats(0.01, 10.0), min_size=table.stages, max_size=table.stages).map(np.array)
    return table, limits, Costs(draw(times), draw(times), draw(times), draw(st.floats(0.0, 5.0)))


@settings(max_examples=80, deadline=None)
@given(limited_tables())
def test_any_limit_of_a_microbatch_or_more_is_kept_and_every_action_runs(case):
    table, limits, costs = case
    kept = within(table, limits, costs)
    assert (peak_by_rank(kept) <= limits).all()
    assert sorted(map(tuple, kept.actions.tolist())) == sorted(map(tuple, table.actions.tolist()))
    assert (kept.rank == kept.rank_of[kept.stage]).all()
    assert replay(kept) == len(kept)
    starts = time_table(kept, costs).start
    assert longest_path_starts(kept, costs.durations(kept), costs.transfer) == pytest.approx(starts, rel=1e-9)
    for stage in range(table.stages):  # gradients still add up in the same order
        for kind in Kind:
            mine = kept.microbatch[(kept.stage == stage) & (kept.kind == kind)].tolist()
            assert mine == sorted(mine)


def test_table_that_keeps_to_the_limit_is_returned_as_it_is():
    table = build("1f1b", 4, 8)
    assert within(table, np.array([4, 3, 2, 1]), unit_costs(table)) is table


def test_gpipe_with_the_memory_of_1f1b_takes_the_time_of_1f1b():
    table = build("gpipe", 4, 8)
    kept = within(table, np.array([4, 3, 2, 1]), unit_costs(table))
    assert kept.of_rank(3) == build("1f1b", 4, 8).of_rank(3)
    assert time_table(kept, unit_costs(kept)).makespan == 33


def test_one_microbatch_at_a_time_leaves_no_overlap_between_ranks():
    for name in ("gpipe", "1f1b", "interleaved"):
        table = build(name, 3, 5)
        kept = within(table, np.full(3, table.chunks), unit_costs(table))
        assert time_table(kept, unit_costs(kept)).makespan == 3 * 5 * 3 * table.chunks


def test_room_is_kept_for_the_oldest_microbatch_to_pass_through_all_chunks():
    room = Room(limit=4, chunks=2)
    for microbatch in (0, 1, 2):
        assert room.has(microbatch)
        room.take(microbatch)
    assert room.has(0) and not room.has(3)
    room.take(0)
    room.free(0)
    assert room.oldest == 0 and not room.has(3)
    room.free(0)
    assert room.oldest == 1 and room.has(1) and room.has(3)


def test_without_that_room_chunks_block_each_other(monkeypatch):
    monkeypatch.setattr(memory_limit.Room, "has", lambda room, microbatch: sum(room.held.values()) < room.limit)
    table = build("interleaved", 4, 8, 2)
    assert len(within(table, np.full(4, 4), unit_costs(table))) < len(table)
