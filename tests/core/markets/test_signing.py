"""The rules that guess a taker from prices: cases worked by hand, and the same rules written again as plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.markets.signing import rules

NAN = float("nan")


# the second implementation: one trade at a time, no arrays --------------------------------------------------------------


def plain_quote(price: float, mid: float) -> int:
    if math.isnan(mid) or abs(price - mid) < 5e-10:
        return 0
    return 1 if price > mid else -1


def plain_tick(prices: list[float]) -> list[int]:
    """For each trade look back for the last one at another price."""
    out = []
    for at, price in enumerate(prices):
        earlier = next((other for other in reversed(prices[:at]) if other != price), None)
        out.append(0 if earlier is None else 1 if price > earlier else -1)
    return out


def plain_lagged(times: list[float], mids: list[float]) -> list[float]:
    """For each event the mid after the last event of an earlier second."""
    out = []
    for at in range(len(times)):
        latest = max(math.floor(t) for t in times[: at + 1])
        before = [mid for time, mid in zip(times[:at], mids[:at], strict=True) if math.floor(time) < latest]
        # events of an older second that come late count as this second's
        first = next(k for k in range(at + 1) if max(math.floor(t) for t in times[: k + 1]) == latest)
        out.append(mids[first - 1] if first and before else NAN)
    return out


def plain_takers(fills: list[tuple[float, int]]) -> list[bool]:
    return [at == 0 or fills[at] != fills[at - 1] for at in range(len(fills))]


def chunks(values, cuts):
    edges = [0, *sorted({min(cut, len(values)) for cut in cuts}), len(values)]
    return [values[a:b] for a, b in itertools.pairwise(edges)]


# cases by hand ----------------------------------------------------------------------------------------------------------


def test_quote_rule_is_a_buyer_above_the_mid_a_seller_below_and_nobody_at_it_or_without_one():
    price, mid = np.array([10.01, 9.99, 10.0, 10.0, 10.0]), np.array([10.0, 10.0, 10.0, NAN, 9.999])
    assert rules.quote_rule(price, mid).tolist() == [1, -1, 0, 0, 1]


def test_quote_rule_takes_prices_that_differ_by_rounding_alone_as_equal():
    assert rules.quote_rule(np.array([0.1 + 0.2]), np.array([0.3])).tolist() == [0]
    assert rules.quote_rule(np.array([100.005]), np.array([(100.0 + 100.01) / 2])).tolist() == [0]
    assert rules.quote_rule(np.array([1e-6]), np.array([0.0])).tolist() == [1]


def test_tick_rule_says_nothing_before_the_price_moved_once():
    assert rules.tick_rule(np.array([5.0, 5.0, 5.0])).tolist() == [0, 0, 0]
    assert rules.tick_rule(np.zeros(0)).tolist() == []


def test_zero_ticks_carry_the_last_move():
    up_tick, zero_up, down_tick, zero_down = 1, 1, -1, -1
    price = np.array([10.0, 10.1, 10.1, 10.1, 10.0, 10.0, 10.2])
    assert rules.tick_rule(price).tolist() == [0, up_tick, zero_up, zero_up, down_tick, zero_down, 1]


def test_tick_rule_remembers_price_and_move_across_blocks():
    rule = rules.TickRule()
    blocks = [[10.0], [], [10.1, 10.1], [10.1], [10.1, 10.0]]
    assert [rule(np.array(block)).tolist() for block in blocks] == [[0], [], [1, 1], [1], [1, -1]]


def test_lee_ready_is_the_quote_rule_and_only_at_the_mid_the_tick_rule():
    quote, tick = np.array([1, -1, 0, 0, 0]), np.array([-1, 1, 1, -1, 0])
    assert rules.lee_ready(quote, tick).tolist() == [1, -1, 1, -1, 0]


def test_lagged_mid_is_from_before_the_second_began_even_when_the_mid_moved_within_it():
    lag = rules.LaggedMid()
    time, mid = np.array([0.2, 0.9, 1.0, 1.5, 1.7, 2.0, 4.2]), np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    got = lag(time, mid).tolist()
    assert math.isnan(got[0]) and math.isnan(got[1]) and got[2:] == [2.0, 2.0, 2.0, 5.0, 6.0]


def test_lagged_mid_of_a_one_sided_book_is_none_and_does_not_reach_further_back():
    got = rules.LaggedMid()(np.array([0.0, 1.0, 2.0, 3.0]), np.array([5.0, NAN, 6.0, 7.0])).tolist()
    assert [value for value in got if value == value] == [5.0, 6.0] and math.isnan(got[2])


def test_a_time_that_goes_back_belongs_to_the_latest_second():
    got = rules.LaggedMid()(np.array([0.5, 1.5, 0.9, 1.6, 2.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist()
    assert got[1:] == [1.0, 1.0, 1.0, 4.0]


def test_a_taker_is_the_fills_of_one_time_and_side_in_a_row():
    time, sign = np.array([1.0, 1.0, 1.0, 2.0, 2.0]), np.array([1, 1, -1, -1, -1])
    assert rules.FirstFills()(time, sign).tolist() == [True, False, True, True, False]


def test_score_counts_the_trades_that_a_rule_decides_and_whose_taker_is_known():
    score = rules.Score()
    share = score(np.array([0, 1, 0, -1, 1, 1]), np.array([1, 1, -1, 1, 0, 1]))
    assert math.isnan(share[0]) and share[1:].tolist() == pytest.approx([1.0, 1.0, 0.5, 0.5, 2 / 3])
    assert (score.right, score.decided, score.asked) == (2, 3, 5)
    assert score(np.array([-1]), np.array([-1])).tolist() == [0.75]


# against the loops ------------------------------------------------------------------------------------------------------

PRICES = st.lists(st.integers(98, 102), max_size=40)
CUTS = st.lists(st.integers(0, 40), max_size=4)


@settings(max_examples=80, deadline=None)
@given(PRICES, CUTS)
def test_tick_rule_is_the_loop_that_looks_back_wherever_the_blocks_are_cut(prices, cuts):
    values = [price / 10 for price in prices]
    rule = rules.TickRule()
    got = [sign for part in chunks(values, cuts) for sign in rule(np.array(part, dtype=float)).tolist()]
    assert got == plain_tick(values)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(98, 102), st.one_of(st.none(), st.integers(196, 204))), max_size=30))
def test_quote_rule_and_lee_ready_are_the_loops(rows):
    price, mid = np.array([p / 10 for p, _ in rows]), np.array([NAN if m is None else m / 20 for _, m in rows])
    quote = [plain_quote(p, m) for p, m in zip(price.tolist(), mid.tolist(), strict=True)]
    tick = plain_tick(price.tolist())
    assert rules.quote_rule(price, mid).tolist() == quote
    got = rules.lee_ready(rules.quote_rule(price, mid), rules.tick_rule(price)).tolist()
    assert got == [q if q else t for q, t in zip(quote, tick, strict=True)]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 8), st.integers(0, 9)), max_size=30), CUTS)
def test_lagged_mid_is_the_loop_wherever_the_blocks_are_cut(rows, cuts):
    times, clock = [], 0.0
    for step, _ in rows:
        clock = max(clock + step / 4, 0.0)
        times.append(clock)
    mids = [float(mid) for _, mid in rows]
    lag = rules.LaggedMid()
    pairs = zip(chunks(times, cuts), chunks(mids, cuts), strict=True)
    got = [value for time, mid in pairs for value in lag(np.array(time, dtype=float), np.array(mid, dtype=float)).tolist()]
    assert got == pytest.approx(plain_lagged(times, mids), nan_ok=True)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, -1])), max_size=30), CUTS)
def test_first_fills_are_the_loop_wherever_the_blocks_are_cut(fills, cuts):
    first_fills = rules.FirstFills()
    got = []
    for part in chunks(fills, cuts):
        got += first_fills(np.array([float(t) for t, _ in part]), np.array([s for _, s in part], dtype=int)).tolist()
    assert got == plain_takers([(float(t), s) for t, s in fills])
