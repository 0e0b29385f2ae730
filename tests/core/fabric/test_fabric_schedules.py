"""Schedules as data: who contributes to what, one message in and one out a round, and which pairs exist."""

from itertools import product

import pytest

from core.errors import BadInput
from core.fabric import doubling, tree
from core.fabric.hops import Contributors
from core.fabric.schedules import algorithms_of, build

OPS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all")
PAIRS = [(op, algorithm) for op in OPS for algorithm in algorithms_of(op)]
RANKS = [1, 2, 3, 5, 7, 8, 12, 17]


def rounds_of(schedule):
    return [transfers for phase in schedule.phases for transfers in phase.rounds]


def replay(schedule):
    state = Contributors(schedule)
    for number, phase in enumerate(schedule.phases):
        if number == schedule.settled:
            state.settle(schedule)
        for transfers in phase.rounds:
            state.round(transfers)
    if schedule.settled == len(schedule.phases):
        state.settle(schedule)
    return state


@pytest.mark.parametrize(("op", "algorithm"), PAIRS)
@pytest.mark.parametrize("ranks", RANKS)
class TestEverySchedule:
    def test_ends_with_the_right_contributors_everywhere_each_once(self, op, algorithm, ranks):
        for root in {0, ranks - 1} if op in ("broadcast", "reduce") else {0}:
            schedule = build(op, algorithm, ranks, root)
            state = replay(schedule)
            assert state.twice == 0
            for rank in range(ranks):
                for chunk, mask in schedule.wanted(rank).items():
                    assert state.held[rank][chunk] == mask

    def test_gives_every_rank_at_most_one_message_to_send_and_one_to_receive_a_round(self, op, algorithm, ranks):
        for transfers in rounds_of(build(op, algorithm, ranks)):
            assert len({t.source for t in transfers}) == len(transfers) == len({t.target for t in transfers})
            assert all(t.source != t.target for t in transfers)

    def test_sends_only_what_the_sender_has(self, op, algorithm, ranks):
        schedule = build(op, algorithm, ranks)
        state = Contributors(schedule)
        for transfers in rounds_of(schedule):
            assert all(chunk in state.held[t.source] for t in transfers for chunk in t.chunks)
            state.round(transfers)


def test_pairs_that_do_not_exist_are_refused_by_name_with_what_exists():
    refused = set(product(OPS, ("ring", "tree", "recursive_doubling", "direct"))) - set(PAIRS)
    assert len(refused) == 7
    for op, algorithm in refused:
        with pytest.raises(BadInput) as error:
            build(op, algorithm, 4)
        assert op in str(error.value) and algorithm in str(error.value) and "\n" not in str(error.value)
        assert all(known in str(error.value) for known in algorithms_of(op))


@pytest.mark.parametrize("ranks", RANKS)
def test_a_tree_is_as_deep_as_the_logarithm_and_reaches_everybody_once(ranks):
    down = tree.broadcast(ranks, 0)
    assert len(down) == tree.depth(ranks) == len(tree.reduce(ranks, 0))
    assert 2 ** tree.depth(ranks) >= ranks > (2 ** (tree.depth(ranks) - 1) if ranks > 1 else 0)
    assert sorted(t.target for transfers in down for t in transfers) == list(range(1, ranks))


@pytest.mark.parametrize(("ranks", "power", "extra", "rounds"), [(1, 1, 0, 0), (2, 2, 0, 1), (3, 2, 1, 3), (7, 4, 3, 4), (8, 8, 0, 3)])
def test_doubling_folds_what_is_beyond_a_power_of_two(ranks, power, extra, rounds):
    assert doubling.power_of_two(ranks) == (power, extra)
    schedule = build("all_reduce", "recursive_doubling", ranks)
    assert schedule.rounds == rounds
    inside = schedule.phases[1]
    assert {t.source for transfers in inside.rounds for t in transfers} <= {group[-1] for group in doubling.participants(ranks)}


def test_a_contribution_that_arrives_twice_is_noticed():
    schedule = build("all_reduce", "recursive_doubling", 4)
    state = Contributors(schedule)
    first = rounds_of(schedule)[0]
    state.round(first)
    state.round(first)
    assert state.twice == 8
