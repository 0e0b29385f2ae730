"""Which orders stand at a price, from arrays: the cases where an order stops being known."""

from __future__ import annotations

import numpy as np

from core.markets.lobster.queues import Queues, levels_out_of_sight, submitted_out_of_sight
from core.markets.lobster.reader import Events

EMPTY_ASK = [9_999_999_999, 0]


def events(*rows: tuple[int, int, int, int, int]) -> Events:
    """Rows of (type, order, size, price, direction), one a second."""
    columns = np.array(rows, dtype=np.int64).T
    return Events(np.arange(len(rows), dtype=float), *columns)


def queue(queues: Queues, side: int, price: int, step: int) -> list[tuple[int, int]]:
    ids, left = queues.at(side, price, step)
    return list(zip(ids.tolist(), left.tolist(), strict=True))


def test_orders_stand_oldest_first_with_what_is_left_of_them():
    queues = Queues(events((1, 7, 100, 50, 1), (1, 3, 40, 50, 1), (2, 7, 30, 50, 1), (4, 7, 70, 50, 1), (3, 3, 40, 50, 1)))
    assert [queue(queues, 1, 50, step) for step in range(5)] == [[(7, 100)], [(7, 100), (3, 40)], [(7, 70), (3, 40)], [(3, 40)], []]
    assert queue(queues, -1, 50, 2) == [] and queue(queues, 1, 51, 2) == []


def test_order_whose_submission_is_not_in_the_file_is_never_known():
    queues = Queues(events((4, 9, 10, 50, 1), (1, 7, 100, 50, 1), (3, 9, 5, 50, 1)))
    assert [queue(queues, 1, 50, step) for step in range(3)] == [[], [(7, 100)], [(7, 100)]]


def test_number_used_again_is_a_new_order():
    queues = Queues(events((1, 7, 100, 50, 1), (3, 7, 100, 50, 1), (1, 7, 20, 60, 1), (2, 7, 5, 60, 1)))
    assert [queue(queues, 1, 50, step) for step in range(4)] == [[(7, 100)], [], [], []]
    assert [queue(queues, 1, 60, step) for step in range(4)] == [[], [], [(7, 20)], [(7, 15)]]


def test_level_that_leaves_the_depth_comes_back_without_its_orders():
    day = events((1, 1, 100, 50, 1), (1, 2, 10, 51, 1), (3, 2, 10, 51, 1), (1, 3, 30, 50, 1))
    rows = np.array([[*EMPTY_ASK, 50, 100], [*EMPTY_ASK, 51, 10], [*EMPTY_ASK, 50, 100], [*EMPTY_ASK, 50, 130]])
    queues = Queues(day)
    queues.forget(*levels_out_of_sight(rows[:-1], rows[1:], 1))
    assert queue(queues, 1, 50, 0) == [(1, 100)]
    assert queue(queues, 1, 50, 2) == []
    assert queue(queues, 1, 50, 3) == [(3, 30)]


def test_submission_beyond_the_depth_is_not_known_when_its_level_comes_into_sight():
    day = events((1, 1, 100, 51, 1), (1, 2, 40, 50, 1), (3, 1, 100, 51, 1))
    rows = np.array([[*EMPTY_ASK, 51, 100], [*EMPTY_ASK, 51, 100], [*EMPTY_ASK, 50, 15]])
    queues = Queues(day)
    queues.forget(*submitted_out_of_sight(rows, day, 0))
    assert queue(queues, 1, 51, 1) == [(1, 100)]
    assert queue(queues, 1, 50, 2) == []


def test_forgetting_in_blocks_is_forgetting_at_once():
    rng = np.random.default_rng(0)
    day = events(*[(1, order, 10, int(price), 1) for order, price in enumerate(rng.integers(50, 55, 200), 1)])
    lost = (np.ones(30, dtype=np.int64), rng.integers(50, 55, 30), np.sort(rng.integers(0, 200, 30)))
    whole, parts = Queues(day), Queues(day)
    whole.forget(*lost)
    for block in (slice(0, 10), slice(10, 11), slice(11, 30)):
        parts.forget(*(column[block] for column in lost))
    for step in range(0, 200, 7):
        for price in range(50, 55):
            assert queue(whole, 1, price, step) == queue(parts, 1, price, step)
            after = [k for p, k in zip(lost[1], lost[2], strict=True) if p == price and k <= step]
            known = [o for o in range(max(after, default=-1) + 1, step + 1) if day.price[o] == price]
            assert [order for order, _ in queue(whole, 1, price, step)] == [o + 1 for o in known]
