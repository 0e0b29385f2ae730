"""Ring arithmetic: a permutation on every hop, every chunk everywhere, each rank left with its own."""

import pytest

from core.fabric import ring

SIZES = [1, 2, 3, 4, 5, 7, 8, 64]


@pytest.mark.parametrize("ranks", SIZES)
def test_each_hop_sends_every_chunk_once(ranks):
    for hop in range(ranks):
        assert {ring.reduce_chunk(rank, hop, ranks) for rank in range(ranks)} == set(range(ranks))
        assert {ring.gather_chunk(rank, hop, ranks) for rank in range(ranks)} == set(range(ranks))


@pytest.mark.parametrize("ranks", SIZES)
def test_what_a_rank_receives_is_what_it_sends_on_the_next_hop(ranks):
    for rank in range(ranks):
        left = ring.previous_rank(rank, ranks)
        assert ring.next_rank(left, ranks) == rank
        for hop in range(ranks - 1):
            assert ring.reduce_chunk(left, hop, ranks) == ring.reduce_chunk(rank, hop + 1, ranks)
            assert ring.gather_chunk(left, hop, ranks) == ring.gather_chunk(rank, hop + 1, ranks)


@pytest.mark.parametrize("ranks", SIZES)
def test_a_reduce_scatter_leaves_each_rank_its_own_chunk_and_a_gather_starts_from_it(ranks):
    for rank in range(ranks):
        assert ring.reduce_chunk(rank, ranks - 1, ranks) == rank
        assert ring.gather_chunk(rank, 0, ranks) == rank


@pytest.mark.parametrize(("elements", "ranks", "want"), [(5, 4, [2, 1, 1, 1]), (8, 4, [2, 2, 2, 2]), (2, 3, [1, 1, 0]), (0, 2, [0, 0])])
def test_chunks_differ_by_at_most_one_element(elements, ranks, want):
    assert ring.chunk_sizes(elements, ranks) == want
