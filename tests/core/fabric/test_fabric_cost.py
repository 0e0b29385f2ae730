"""Closed forms against what the fabric really counts and times, for any number of ranks and sizes that do not divide."""

import heapq

import pytest
import torch

from core.fabric import SimulatedFabric, cost, ring
from core.fabric.schedules import algorithms_of, build
from core.hardware import LINKS

FAST, SLOW = LINKS["nvlink_h100"], LINKS["infiniband_ndr"]
PAIRS = [(op, a) for op in ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all") for a in algorithms_of(op)]


def issue(fabric, op, algorithm, elements):
    ranks = fabric.size
    held = {rank: torch.arange(elements) + rank for rank in range(ranks)}
    sizes = ring.chunk_sizes(elements, ranks)
    if op == "all_gather":
        return fabric.all_gather({rank: held[rank][: sizes[rank]] for rank in range(ranks)}, algorithm=algorithm)
    if op == "all_to_all":
        return fabric.all_to_all({rank: held[rank].split(sizes) for rank in range(ranks)}, algorithm=algorithm)
    if op in ("broadcast", "reduce"):
        return getattr(fabric, op)(held, 0, algorithm=algorithm)
    return getattr(fabric, op)(held, algorithm=algorithm)


def longest_path(op, algorithm, ranks, elements, node_size):
    """Another way to the end: messages as a graph, one event at a time in order of time, no rounds, no arrays."""
    schedule = build(op, algorithm, ranks)
    chunks = ring.chunk_sizes(elements, ranks if op == "all_to_all" else schedule.chunks)
    queue, last, before, follow, missing = [], {}, [], [], []
    for transfers in (t for phase in schedule.phases for t in phase.rounds):
        fresh = {}
        for t in transfers:
            size = 8 * sum(chunks[c % ranks if op == "all_to_all" else c] for c in t.chunks)
            if not size:
                continue
            number = len(before)
            link = FAST if t.source // node_size == t.target // node_size else SLOW
            needs = {last[end] for end in (t.source, t.target) if end in last}
            needs |= {m for end in (t.source, t.target) for m in last.get((end, "also"), ())}
            before.append(link.latency + size / link.bandwidth)
            follow.append([])
            missing.append(len(needs))
            for need in needs:
                follow[need].append(number)
            for end in (t.source, t.target):
                fresh.setdefault(end, []).append(number)
        for end, numbers in fresh.items():
            last[end], last[end, "also"] = numbers[0], numbers
    queue = [(before[m], m) for m in range(len(before)) if not missing[m]]
    heapq.heapify(queue)
    end = 0.0
    while queue:
        now, message = heapq.heappop(queue)
        end = max(end, now)
        for later in follow[message]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(queue, (now + before[later], later))
    return end


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 8, 12])
def test_bytes_messages_and_time_equal_the_closed_forms(op, algorithm, ranks):
    for elements in (ranks, 5, 35, 240):
        fabric = SimulatedFabric(ranks, FAST)
        issue(fabric, op, algorithm, elements).wait()
        sent = [traffic.bytes_sent for traffic in fabric.traffic.values()]
        assert sum(sent) == 8 * cost.total_elements(op, algorithm, ranks, elements)
        if elements % ranks == 0:
            assert max(sent) == pytest.approx(8 * cost.busiest_elements(op, algorithm, ranks, elements))
        if elements >= ranks:
            assert build(op, algorithm, ranks).messages == cost.messages(op, algorithm, ranks, elements)
        assert fabric.now() == pytest.approx(cost.seconds(cost.stages(op, algorithm, ranks, elements), 8, FAST), rel=1e-12)


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize(("ranks", "node_size"), [(4, 2), (6, 3), (8, 4), (8, 1), (12, 4)])
def test_with_nodes_the_clocks_follow_the_longest_path_and_the_closed_form_bounds_it(op, algorithm, ranks, node_size):
    for elements in (7, 24, 240):
        fabric = SimulatedFabric(ranks, FAST, inter_link=SLOW, node_size=node_size)
        issue(fabric, op, algorithm, elements).wait()
        assert fabric.now() == pytest.approx(longest_path(op, algorithm, ranks, elements, node_size), rel=1e-12)
        bound = cost.seconds(cost.stages(op, algorithm, ranks, elements, node_size), 8, FAST, SLOW, node_size)
        assert fabric.now() <= bound * (1 + 1e-12)
        if cost.is_exact(op, algorithm, ranks, elements, node_size):
            assert fabric.now() == pytest.approx(bound, rel=1e-12)


def test_bus_factors_and_wire_bytes_are_those_that_are_published():
    factors = {op: cost.bus_factor(op, 8) for op in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce")}
    assert factors == {"all_reduce": 1.75, "reduce_scatter": 0.875, "all_gather": 0.875, "all_to_all": 0.875, "broadcast": 1, "reduce": 1}
    assert cost.busiest_elements("all_reduce", "ring", 8, 8000) == 2 * 7 / 8 * 8000
    assert cost.busiest_elements("all_reduce", "recursive_doubling", 8, 8000) == 3 * 8000
    assert cost.busiest_elements("broadcast", "ring", 8, 8000) == cost.busiest_elements("reduce", "tree", 8, 8000) == 8000
    assert cost.busiest_elements("broadcast", "tree", 8, 8000) == 3 * 8000
    assert cost.messages("all_reduce", "ring", 64, 10**6) == 8064


def test_closed_forms_answer_at_once_for_absurd_sizes():
    assert cost.messages("all_reduce", "ring", 10**6, 10**9) == 2 * 10**6 * (10**6 - 1)
    assert cost.seconds(cost.stages("all_gather", "recursive_doubling", 10**6, 10**12), 2, FAST) > 10**12 * 2 / FAST.bandwidth
