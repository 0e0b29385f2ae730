"""Where levels and orders are found: the bitmap with its pages and the table of ids, against a dict, over hostile numbers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.markets.kernels.order_ids import forget, place_of, remember, roomy_ids, row_at
from core.markets.kernels.price_pages import (
    P_PAGES,
    P_WORDS,
    has_room,
    level_at,
    next_level,
    occupy,
    rank_of,
    roomy_index,
    vacate,
    vacate_best,
)

FAR = 1 << 40
PRICES = st.one_of(
    st.integers(-3, 3), st.integers(60, 70), st.integers(-FAR, FAR), st.sampled_from((-FAR, FAR, 63, 64, 4095, 4096, 1 << 30))
)
MOVES = st.lists(st.tuples(st.integers(0, 3), PRICES), min_size=1, max_size=80)
FEW = settings(max_examples=60, deadline=None)


def better(book, price):
    return -price if book in (0, 3) else price


@FEW
@given(MOVES)
def test_levels_are_found_and_followed_from_the_best_on_however_far_apart_they_are(moves):
    words, pages = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    held, number = {}, 0
    for book, price in moves:
        rank = rank_of(book, price)
        if (book, price) in held:
            mine = sorted((p for b, p in held if b == book), key=lambda p, b=book: better(b, p))
            if mine[0] == price:
                found = vacate_best(words, pages, book, rank)
                assert found == (held[book, mine[1]] if len(mine) > 1 else 0)
            else:
                vacate(words, pages, book, rank)
            del held[book, price]
        else:
            if not has_room(words, pages, 1):
                words, pages = roomy_index(words, pages, 1)
            number += 8
            held[book, price] = number
            occupy(words, pages, book, rank, number)
        for b in range(4):
            mine = sorted((p for bb, p in held if bb == b), key=lambda p, b=b: better(b, p))
            for one, after in itertools.zip_longest(mine, mine[1:]):
                assert level_at(words, pages, b, rank_of(b, one)) == held[b, one]
                assert next_level(words, pages, b, rank_of(b, one)) == held.get((b, after), 0)
        assert level_at(words, pages, book, rank) == held.get((book, price), 0)
    for book, price in list(held):
        vacate(words, pages, book, rank_of(book, price))
    assert not pages[P_WORDS] and not pages[P_PAGES] and not words[::4].any()


FEW_NUMBERS = st.integers(0, 30)
IDS = st.one_of(
    st.integers(0, 40), st.integers(-(1 << 63), (1 << 63) - 1), FEW_NUMBERS.map(lambda n: n << 32), FEW_NUMBERS.map(lambda n: n * 8),
    FEW_NUMBERS.map(lambda n: n * 9_176_543_210_987),
)  # fmt: skip


@FEW
@given(st.lists(st.tuples(st.booleans(), IDS), min_size=1, max_size=150))
def test_rows_are_found_by_any_64_bit_id_and_forgotten(moves):
    rows, ids, held = np.zeros(8 * 200, dtype=np.int64), roomy_ids(np.zeros(0, dtype=np.int64), 4), {}
    for adds, order_id in moves:
        if adds and order_id not in held:
            ids = roomy_ids(ids, len(held) + 1)
            row = 8 * next(n for n in range(1, 200) if 8 * n not in held.values())
            rows[row], held[order_id] = order_id, row
            remember(ids, place_of(ids, rows, order_id), order_id, row)
        elif not adds and held:
            gone = order_id if order_id in held else next(iter(held))
            forget(ids, place_of(ids, rows, gone))
            del held[gone]
        assert row_at(ids, place_of(ids, rows, order_id)) == held.get(order_id, 0)
        assert all(row_at(ids, place_of(ids, rows, key)) == row for key, row in held.items())
    assert np.count_nonzero(ids) == len(held)
