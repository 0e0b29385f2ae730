"""Timing and activation count of pipeline tables against slow, independent code and closed forms."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.training.blocking_replay import replay
from core.training.longest_path import longest_path_starts
from core.training.pipeline_theory import THEORY, Size, Times
from core.training.schedule_table import Kind, Table, looped
from core.training.schedules import SCHEDULES, build
from core.training.timing import Costs, held, peak_by_rank, sources, time_table

EVERY_SIZE = [
    (name, ranks, microbatches, chunks)
    for name, schedule in SCHEDULES.items()
    for ranks in range(1, 9)
    for microbatches in range(1, 25)
    for chunks in range(1, 5)
    if schedule.undefined(ranks, microbatches, chunks) is None
]


def unit_costs(table: Table, forward=1.0, input_gradient=1.0, weight_gradient=1.0, transfer=0.0) -> Costs:
    one = np.ones(table.stages)
    return Costs(forward * one, input_gradient * one, weight_gradient * one, transfer)


def slow_starts(table: Table, costs: Costs) -> list[float]:
    """Starts of all rows by the definition, one recursive call a row."""
    actions = [action for rank in range(table.ranks) for action in table.of_rank(rank)]
    place = {action: row for row, action in enumerate(actions)}
    rank = table.rank.tolist()
    firsts = set(table.first.tolist())
    lengths = {Kind.FORWARD: costs.forward, Kind.INPUT_GRADIENT: costs.input_gradient, Kind.WEIGHT_GRADIENT: costs.weight_gradient}
    depth = table.depth

    def needs(action):
        kind, stage, microbatch = action
        if kind == Kind.FORWARD:
            return [(Kind.FORWARD, stage - 1, microbatch)] if stage % depth else []
        if kind == Kind.WEIGHT_GRADIENT:
            return [(Kind.INPUT_GRADIENT, stage, microbatch)]
        own = [(Kind.FORWARD, stage, microbatch)]
        if stage % depth == depth - 1:
            return own
        behind = (Kind.BACKWARD, stage + 1, microbatch)
        return [*own, behind if behind in place else (Kind.INPUT_GRADIENT, stage + 1, microbatch)]

    def together(row):
        head = row - 1 if table.joined[row] else row
        return [head, head + 1] if head + 1 < len(table) and table.joined[head + 1] else [head]

    @cache
    def start(row):
        rows = together(row)
        found = [0.0] if rows[0] in firsts else [end(rows[0] - 1)]
        for each in rows:
            for other in needs(actions[each]):
                there = place[other]
                found.append(end(there) + (costs.transfer if rank[there] != rank[row] else 0.0))
        return max(found)

    @cache
    def end(row):
        rows = together(row)
        if len(rows) == 2 and costs.overlapped is not None:
            return start(row) + costs.overlapped[rank[row]]
        length = 0.0
        for kind, stage, _ in (actions[each] for each in rows):
            length += costs.input_gradient[stage] + costs.weight_gradient[stage] if kind == Kind.BACKWARD else lengths[kind][stage]
        return start(row) + length

    return [start(row) for row in range(len(table))]


times = st.floats(0.01, 10.0, allow_nan=False)


@st.composite
def timed_tables(draw, name):
    sizes = [(p, m, v) for p in range(1, 6) for m in range(1, 12) for v in (1, 2, 3) if SCHEDULES[name].undefined(p, m, v) is None]
    ranks, microbatches, chunks = draw(st.sampled_from(sizes))
    table = build(name, ranks, microbatches, chunks)
    vector = st.lists(times, min_size=table.stages, max_size=table.stages).map(np.array)
    overlapped = draw(st.none() | st.lists(times, min_size=ranks, max_size=ranks).map(np.array))
    return table, Costs(draw(vector), draw(vector), draw(vector), draw(st.floats(0.0, 5.0)), overlapped)


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_random_times_give_the_longest_paths(name, data):
    table, costs = data.draw(timed_tables(name))
    timing = time_table(table, costs)
    assert timing.start.tolist() == pytest.approx(slow_starts(table, costs), rel=1e-12)
    assert longest_path_starts(table, costs.durations(table), costs.transfer) == pytest.approx(timing.start, rel=1e-12)
    begins = np.maximum(timing.arrived, timing.free)
    second = np.flatnonzero(table.joined)
    begins[second] = begins[second - 1] = np.maximum(begins[second - 1], timing.arrived[second])
    assert (timing.start == begins).all()


@pytest.mark.parametrize(("name", "size", "makespan", "idle", "own_span", "peaks", "peaks_at_input"), [
    ("gpipe", (4, 8), 33, 9, [9, 6, 3, 0], [8, 8, 8, 8], [8, 8, 8, 8]),
    ("1f1b", (4, 8), 33, 9, [9, 6, 3, 0], [4, 3, 2, 1], [4, 3, 2, 1]),
    ("interleaved", (4, 8), 57, 9, [9, 6, 3, 0], [11, 9, 7, 5], [11, 9, 7, 5]),
    ("looped_bfs", (4, 8), 57, 9, [9, 6, 3, 0], [16, 16, 16, 16], [16, 16, 16, 16]),
    ("zb_h1", (4, 8), 27, 3, [3, 2, 1, 0], [4, 4, 4, 4], [4, 3, 2, 1]),
    ("interleaved_zb", (4, 8), 51, 3, [3, 2, 1, 0], [8, 8, 8, 8], [8, 7, 6, 5]),
    ("zbv", (4, 8), 51, 3, [0, 0, 0, 0], [8, 8, 8, 8], [8, 8, 8, 8]),
    ("dualpipev", (4, 8), 54, 6, [6, 5, 4, 3], [9, 9, 9, 9], [9, 9, 9, 9]),
    ("dualpipe", (8, 20), 66, 6, [6, 5, 4, 3, 3, 4, 5, 6], [9] * 8, [9] * 8),
])  # fmt: skip
def test_published_sizes(name, size, makespan, idle, own_span, peaks, peaks_at_input):
    table = build(name, *size)
    timing = time_table(table, unit_costs(table))
    lasts = np.where(table.joined, 0.0, timing.end - timing.start)
    busy = np.add.reduceat(lasts, table.first[:-1])
    assert timing.makespan == makespan
    assert (timing.makespan - busy).tolist() == [idle] * table.ranks
    assert (timing.end[table.first[1:] - 1] - timing.start[table.first[:-1]] - busy).tolist() == own_span
    assert peak_by_rank(table).tolist() == peaks
    assert peak_by_rank(table, "input").tolist() == peaks_at_input


def test_free_forward_and_backward_end_earlier_than_the_published_pair():
    """What a pair costs: with F and B apart, in the pair's order, one gets 51 and 63 in place of 54 and 66."""
    for name, size, free in (("dualpipev", (4, 8), 51), ("dualpipe", (8, 20), 63)):
        table = build(name, *size)
        apart = replace(table, joined=np.zeros(len(table), dtype=bool))
        assert time_table(apart, unit_costs(apart)).makespan == free


def test_interleaved_follows_torch_for_six_microbatches_on_four_ranks():
    table = build("interleaved", 4, 6, 2)
    assert time_table(table, unit_costs(table)).makespan == 45


@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (2.0, 2.0, 0.5), (2.0, 3.0, 0.0)])
def test_every_table_ends_and_idles_by_the_closed_form(times):
    told = Times(*times, sum(times))
    exact = 0
    for name, *numbers in EVERY_SIZE:
        table, theory, size = build(name, *numbers), THEORY[name], Size(*numbers)
        idle = time_table(table, unit_costs(table, *times)).makespan - size.chunks * size.microbatches * sum(times)
        if size.microbatches >= theory.fewest(size) and theory.exact(told):
            assert idle == pytest.approx(theory.bubble(size, told), abs=1e-9), (name, size)
            exact += 1
        elif name in ("interleaved", "looped_bfs"):
            assert idle >= theory.bubble(size, told) - 1e-9, (name, size)
    assert exact > 1000


@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (2.0, 2.0, 0.5)])
@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
def test_most_idle_rank_idles_by_the_published_formula_however_much_a_pair_saves(name, times):
    for schedule, *numbers in EVERY_SIZE:
        if schedule == name:
            table, size = build(name, *numbers), Size(*numbers)
            for pair in (max(times[0], times[1] + times[2]), 0.9 * sum(times), sum(times)):
                costs = replace(unit_costs(table, *times), overlapped=np.full(table.ranks, pair))
                timing = time_table(table, costs)
                lasts = np.where(table.joined, 0.0, timing.end - timing.start)
                idle = timing.makespan - np.add.reduceat(lasts, table.first[:-1])
                assert idle.max() == pytest.approx(THEORY[name].bubble(size, Times(*times, pair)), abs=1e-9), (size, pair)


def test_every_table_holds_and_sends_what_the_closed_forms_say():
    for name, *numbers in EVERY_SIZE:
        table, theory, size = build(name, *numbers), THEORY[name], Size(*numbers)
        ranks = range(size.ranks)
        assert peak_by_rank(table).tolist() == [theory.held(size, rank) for rank in ranks], (name, size)
        assert peak_by_rank(table, "input").tolist() == [theory.held_at_input(size, rank) for rank in ranks], (name, size)
        needs = sources(table)
        sent = int((table.rank[needs[needs >= 0]] != table.rank[needs >= 0]).sum())
        assert sent == 2 * theory.links(size) * size.microbatches, (name, size)


@pytest.mark.parametrize("name", SCHEDULES)
def test_blocking_send_and_receive_replay_ends(name):
    for schedule, *size in EVERY_SIZE:
        if schedule == name:
            table = build(name, *size)
            assert replay(table) == len(table), size
            if name in ("gpipe", "1f1b", "zb_h1"):  # one message in flight for each direction of a link is enough
                assert replay(table, slots=1) == len(table), size


def test_replay_that_blocks_for_ever_says_how_far_it_came():
    rows = [(Kind.FORWARD, 0, 0), (Kind.BACKWARD, 0, 0), (Kind.FORWARD, 0, 1), (Kind.BACKWARD, 0, 1)]
    last = [(Kind.FORWARD, 1, 0), (Kind.FORWARD, 1, 1), (Kind.BACKWARD, 1, 0), (Kind.BACKWARD, 1, 1)]
    table = Table.of([np.array(rows, dtype=np.int32), np.array(last, dtype=np.int32)], 2, looped(2, 1))
    assert replay(table) == 2  # rank 1 wants both microbatches before it returns a gradient, rank 0 a gradient before the second
    with pytest.raises(ValueError, match="rank 0 waits for ever at 0B0"):
        time_table(table, unit_costs(table))
    handed = [(Kind.FORWARD, 0, 0), (Kind.WEIGHT_GRADIENT, 0, 0), (Kind.INPUT_GRADIENT, 0, 0)]
    assert replay(Table.of([np.array(handed, dtype=np.int32)], 1, looped(1, 1))) == 1


def test_pair_that_waits_for_itself_is_refused():
    rows = np.array([(Kind.FORWARD, 0, 0, 0), (Kind.BACKWARD, 0, 0, 1)], dtype=np.int32)
    table = Table.of([rows], 1, looped(1, 1))
    with pytest.raises(ValueError, match="rank 0 waits for ever at 0F0"):
        time_table(table, unit_costs(table))
    assert np.isnan(longest_path_starts(table, unit_costs(table).durations(table), 0.0)).all()
    assert replay(table) == 0


def test_pair_starts_when_both_inputs_are_there_and_releases_both_at_its_end():
    f, b = Kind.FORWARD, Kind.BACKWARD
    first = [(f, 0, 0, 0), (f, 0, 1, 0), (b, 0, 0, 1), (b, 0, 1, 0)]
    last = [(f, 1, 0, 0), (b, 1, 0, 0), (f, 1, 1, 0), (b, 1, 1, 0)]
    table = Table.of([np.array(first, dtype=np.int32), np.array(last, dtype=np.int32)], 2, looped(2, 1))
    timing = time_table(table, replace(unit_costs(table, transfer=0.5), overlapped=np.array([2.0, 9.0])))
    assert timing.start.tolist() == [0.0, 5.0, 5.0, 11.0, 1.5, 2.5, 7.5, 8.5]
    assert timing.end[:4].tolist() == [1.0, 7.0, 7.0, 13.0]
    during, after = held(table)
    assert (during[:4].tolist(), after[:4].tolist()) == ([1, 2, 2, 1], [1, 2, 1, 0])


def test_torch_adds_communication_to_a_table_and_its_own_dry_run_ends():
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    for name, ranks, microbatches, chunks in [
        ("interleaved", 4, 8, 2), ("interleaved", 4, 9, 3), ("interleaved", 3, 2, 2), ("1f1b", 5, 7, 1), ("gpipe", 3, 4, 1),
        ("looped_bfs", 4, 3, 3), ("zb_h1", 4, 8, 1), ("zb_h1", 5, 3, 1), ("interleaved_zb", 4, 9, 3), ("zbv", 4, 5, 2),
    ]:  # fmt: skip
        table = build(name, ranks, microbatches, chunks)
        kinds = {kind: schedules._ComputationType.from_str(kind.letter) for kind in Kind}
        orders = {rank: [schedules._Action(a.stage, kinds[a.kind], a.microbatch) for a in table.of_rank(rank)] for rank in range(ranks)}
        placed = table.rank_of.tolist()
        talking = schedules._add_send_recv(orders, stage_to_rank=placed.__getitem__, num_stages=table.stages)
        run = schedules._simulate_comms_compute(talking, placed.__getitem__, table.stages)
        computed = [op for rank in run.values() for op in rank if op is not None and op.computation_type.value in ("F", "B", "I", "W")]
        assert len(computed) == len(table)


def test_table_that_waits_for_itself_is_refused_with_the_action_that_blocks():
    good = build("1f1b", 2, 2)
    swapped = good.actions.copy()
    swapped[[4, 5]] = swapped[[5, 4]]  # rank 1: backward of microbatch 0 before its forward
    table = Table.of([swapped[:4], swapped[4:]], 2, looped(2, 1))
    with pytest.raises(ValueError, match="rank 0 waits for ever at 0B0"):
        time_table(table, unit_costs(table))
    assert np.isnan(longest_path_starts(table, unit_costs(table).durations(table), 0.0)).any()


def slow_zb_h1(ranks: int, microbatches: int) -> Table:
    """Zero-bubble H1 (arXiv 2401.10241), greedy: F before I before W.

    A rank forwards at most as far ahead of its input gradients as 1F1B does, and holds at most ``ranks`` activations.
    """
    orders: list[list[tuple[Kind, int, int]]] = [[] for _ in range(ranks)]
    ended: dict[tuple[Kind, int, int], int] = {}
    done = np.zeros((3, ranks), dtype=int)  # F, I, W a rank has started
    now = 0
    while done[2].min() < microbatches:
        for rank in range(ranks):
            f, i, w = done[:, rank]
            ready_f = (
                f < microbatches
                and f - i < ranks - rank
                and f - w < ranks
                and (rank == 0 or ended.get((Kind.FORWARD, rank - 1, f), 1 << 30) <= now)
            )
            behind = (Kind.FORWARD, rank, i) if rank == ranks - 1 else (Kind.INPUT_GRADIENT, rank + 1, i)
            if ready_f:
                kind, microbatch = Kind.FORWARD, f
            elif i < f and ended.get(behind, 1 << 30) <= now:
                kind, microbatch = Kind.INPUT_GRADIENT, i
            elif w < i:
                kind, microbatch = Kind.WEIGHT_GRADIENT, w
            else:
                continue
            orders[rank].append((kind, rank, int(microbatch)))
            ended[kind, rank, int(microbatch)] = now + 1
            done[{Kind.FORWARD: 0, Kind.INPUT_GRADIENT: 1, Kind.WEIGHT_GRADIENT: 2}[kind], rank] += 1
        now += 1
    return Table.of([np.array(order, dtype=np.int32) for order in orders], microbatches, looped(ranks, 1))


def test_zb_h1_is_the_greedy_schedule_played_slot_by_slot():
    for ranks in range(1, 9):
        for microbatches in range(1, 25):
            assert (build("zb_h1", ranks, microbatches).actions == slow_zb_h1(ranks, microbatches).actions).all(), (ranks, microbatches)


def test_split_backward_frees_at_the_weights_or_earlier_at_the_input():
    f, i, w = Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT
    rows = [(f, 0, 0), (i, 0, 0), (f, 0, 1), (i, 0, 1), (w, 0, 0), (w, 0, 1)]
    table = Table.of([np.array(rows, dtype=np.int32)], 2, looped(1, 1))
    assert peak_by_rank(table).tolist() == [2]
    assert peak_by_rank(table, "input").tolist() == [1]


def test_weight_gradient_of_a_split_backward_delays_nobody_else():
    rows = [(Kind.FORWARD, 0, 0), (Kind.INPUT_GRADIENT, 0, 0), (Kind.WEIGHT_GRADIENT, 0, 0)]
    last = [(Kind.FORWARD, 1, 0), (Kind.INPUT_GRADIENT, 1, 0), (Kind.WEIGHT_GRADIENT, 1, 0)]
    table = Table.of([np.array(rows, dtype=np.int32), np.array(last, dtype=np.int32)], 1, looped(2, 1))
    timing = time_table(table, unit_costs(table, 1.0, 2.0, 5.0, 0.5))
    assert timing.start.tolist() == [0.0, 5.0, 7.0, 1.5, 2.5, 4.5]


def test_activations_held_count_up_at_forwards_and_down_after_backwards():
    during, after = held(build("1f1b", 2, 3))
    assert during.tolist() == [1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1]
    assert after.tolist() == [1, 2, 1, 2, 1, 0, 1, 0, 1, 0, 1, 0]


def test_order_in_time_puts_causes_first_even_when_a_duration_vanishes_in_rounding():
    table = build("1f1b", 4, 6)
    costs = Costs(np.array([1e9, 1e-9, 1e-9, 1e-9]), np.array([1e-9, 1e-9, 1e-9, 1e9]), np.zeros(4), 0.0)
    timing = time_table(table, costs)
    place = np.empty(len(table), dtype=int)
    place[timing.order] = np.arange(len(table))
    waiting = timing.source >= 0
    assert (place[timing.source[waiting]] < place[waiting]).all()
    assert (np.diff(timing.start[timing.order]) >= 0).all()


def test_timing_can_be_abandoned():
    class Abandoned(Exception):
        pass

    def tick(done: float) -> None:
        assert 0.0 <= done <= 1.0
        raise Abandoned

    table = build("1f1b", 16, 1024)
    with pytest.raises(Abandoned):
        time_table(table, unit_costs(table), tick)
