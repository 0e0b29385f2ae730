"""Timing and activation count of pipeline tables against slow, independent code and closed forms."""

from collections import deque
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.training.longest_path import longest_path_starts
from core.training.schedules import SCHEDULES, Kind, Table, build, looped
from core.training.timing import Costs, held, peak_by_rank, time_table

EVERY_SIZE = [
    (name, ranks, microbatches, chunks)
    for name in SCHEDULES
    for ranks in range(1, 9)
    for microbatches in range(1, 25)
    for chunks in (range(1, 5) if name == "interleaved" else (1,))
]


def unit_costs(table: Table, forward=1.0, input_gradient=1.0, weight_gradient=1.0, transfer=0.0) -> Costs:
    one = np.ones(table.stages)
    return Costs(forward * one, input_gradient * one, weight_gradient * one, transfer)


def slow_starts(table: Table, costs: Costs) -> list[float]:
    """Starts by the definition, one recursive call an action."""
    orders = [table.of_rank(rank) for rank in range(table.ranks)]
    place = {(a.kind, a.stage, a.microbatch): (rank, k) for rank, order in enumerate(orders) for k, a in enumerate(order)}
    lengths = {Kind.FORWARD: costs.forward, Kind.INPUT_GRADIENT: costs.input_gradient, Kind.WEIGHT_GRADIENT: costs.weight_gradient}
    last = table.stages - 1

    def needs(action):
        kind, stage, microbatch = action
        if kind == Kind.FORWARD:
            return [(Kind.FORWARD, stage - 1, microbatch)] if stage else []
        if kind == Kind.WEIGHT_GRADIENT:
            return [(Kind.INPUT_GRADIENT, stage, microbatch)]
        own = [(Kind.FORWARD, stage, microbatch)]
        return own + ([(kind, stage + 1, microbatch)] if stage < last else [])

    @cache
    def start(rank, k):
        found = [0.0] if k == 0 else [end(rank, k - 1)]
        for other in needs(orders[rank][k]):
            there, at = place[other]
            found.append(end(there, at) + (costs.transfer if there != rank else 0.0))
        return max(found)

    @cache
    def end(rank, k):
        kind, stage, _ = orders[rank][k]
        length = costs.input_gradient[stage] + costs.weight_gradient[stage] if kind == Kind.BACKWARD else lengths[kind][stage]
        return start(rank, k) + length

    return [start(rank, k) for rank, order in enumerate(orders) for k in range(len(order))]


times = st.floats(0.01, 10.0, allow_nan=False)


@st.composite
def timed_tables(draw):
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    ranks, microbatches = draw(st.integers(1, 5)), draw(st.integers(1, 11))
    table = build(name, ranks, microbatches, draw(st.integers(1, 3)) if name == "interleaved" else 1)
    vector = st.lists(times, min_size=table.stages, max_size=table.stages).map(np.array)
    return table, Costs(draw(vector), draw(vector), draw(vector), draw(st.floats(0.0, 5.0)))


@settings(max_examples=60, deadline=None)
@given(timed_tables())
def test_random_times_give_the_longest_paths(case):
    table, costs = case
    timing = time_table(table, costs)
    assert timing.start.tolist() == pytest.approx(slow_starts(table, costs), rel=1e-12)
    assert longest_path_starts(table, costs.durations(table), costs.transfer) == pytest.approx(timing.start, rel=1e-12)
    assert (timing.start == np.maximum(timing.arrived, timing.free)).all()


@pytest.mark.parametrize(("name", "makespan", "peaks"), [
    ("gpipe", 33, [8, 8, 8, 8]),
    ("1f1b", 33, [4, 3, 2, 1]),
    ("interleaved", 57, [11, 9, 7, 5]),
])  # fmt: skip
def test_published_sizes(name, makespan, peaks):
    table = build(name, 4, 8)
    assert time_table(table, unit_costs(table)).makespan == makespan
    assert peak_by_rank(table).tolist() == peaks
    assert peak_by_rank(table, "input").tolist() == peaks  # I and W are one action here


def test_interleaved_follows_torch_for_six_microbatches_on_four_ranks():
    table = build("interleaved", 4, 6, 2)
    assert time_table(table, unit_costs(table)).makespan == 45


@pytest.mark.parametrize("backward", [(1.0, 1.0), (0.5, 0.0), (3.0, 2.0)])
def test_every_table_ends_and_idles_by_the_closed_form(backward):
    for name, ranks, microbatches, chunks in EVERY_SIZE:
        table = build(name, ranks, microbatches, chunks)
        makespan = time_table(table, unit_costs(table, 2.0, *backward)).makespan
        each = 2.0 + sum(backward)
        shortest = (chunks * microbatches + ranks - 1) * each
        if chunks == 1 or microbatches >= ranks:
            assert makespan == shortest, (name, ranks, microbatches, chunks)
        else:
            assert makespan >= shortest, (name, ranks, microbatches, chunks)


def replay(table: Table, slots: int) -> int:
    """Run a table with blocking messages and no clock; returns the actions done.

    A receive blocks until its message is there; a send blocks while ``slots`` messages to that rank, of that direction and
    stage, are not yet taken.
    """
    orders = [deque(table.of_rank(rank)) for rank in range(table.ranks)]
    boxes: dict[tuple[str, int], deque[int]] = {}
    outgoing: list[tuple[tuple[str, int], int] | None] = [None] * table.ranks
    done, moved = 0, True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            if (message := outgoing[rank]) is not None:
                box = boxes.setdefault(message[0], deque())
                if len(box) < slots:
                    box.append(message[1])
                    outgoing[rank], moved = None, True
                continue
            if not order:
                continue
            kind, stage, microbatch = order[0]
            way, step = ("activation", 1) if kind == Kind.FORWARD else ("gradient", -1)
            sender = stage - step
            if 0 <= sender < table.stages:
                box = boxes.setdefault((way, stage), deque())
                if not box:
                    continue
                assert box.popleft() == microbatch  # messages of one stage come in the order in which they are used
            order.popleft()
            done, moved = done + 1, True
            if 0 <= stage + step < table.stages:
                outgoing[rank] = ((way, stage + step), microbatch)
    return done


@pytest.mark.parametrize("name", SCHEDULES)
def test_blocking_send_and_receive_replay_ends(name):
    for schedule, ranks, microbatches, chunks in EVERY_SIZE:
        if schedule == name:
            table = build(name, ranks, microbatches, chunks)
            assert replay(table, slots=microbatches) == len(table), (ranks, microbatches, chunks)
            if chunks == 1:  # one message in flight for each direction of a link is enough
                assert replay(table, slots=1) == len(table), (ranks, microbatches)


def test_torch_adds_communication_to_a_table_and_its_own_dry_run_ends():
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    for size in [("interleaved", 4, 8, 2), ("interleaved", 4, 9, 3), ("interleaved", 3, 2, 2), ("1f1b", 5, 7, 1), ("gpipe", 3, 4, 1)]:
        name, ranks, microbatches, chunks = size
        table = build(name, ranks, microbatches, chunks)
        kinds = {kind: schedules._ComputationType.from_str(kind.letter) for kind in Kind}
        orders = {rank: [schedules._Action(a.stage, kinds[a.kind], a.microbatch) for a in table.of_rank(rank)] for rank in range(ranks)}
        placed = table.rank_of.tolist()
        talking = schedules._add_send_recv(orders, stage_to_rank=placed.__getitem__, num_stages=table.stages)
        run = schedules._simulate_comms_compute(talking, placed.__getitem__, table.stages)
        computed = [op for rank in run.values() for op in rank if op is not None and op.computation_type.value in ("F", "B")]
        assert len(computed) == len(table)


def test_table_that_waits_for_itself_is_refused_with_the_action_that_blocks():
    good = build("1f1b", 2, 2)
    swapped = good.actions.copy()
    swapped[[4, 5]] = swapped[[5, 4]]  # rank 1: backward of microbatch 0 before its forward
    table = Table.of([swapped[:4], swapped[4:]], 2, looped(2, 1))
    with pytest.raises(ValueError, match="rank 0 waits for ever at 0B0"):
        time_table(table, unit_costs(table))
    assert np.isnan(longest_path_starts(table, unit_costs(table).durations(table), 0.0)).any()


def zb_h1(ranks: int, microbatches: int) -> Table:
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


def test_zero_bubble_table_runs_in_its_published_time_and_memory():
    table = zb_h1(4, 8)
    timing = time_table(table, unit_costs(table))
    assert timing.start.tolist() == slow_starts(table, unit_costs(table))
    assert peak_by_rank(table).tolist() == [4, 4, 4, 4]
    assert timing.makespan == 27  # its weight gradients fill what 1F1B idles: (p-1)(F+B-2W) = 3 are left


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
