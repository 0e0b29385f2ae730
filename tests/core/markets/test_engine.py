"""The compiled engine and the readable book against each other and against a naive list, over every order type and rule."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from list_book import ListBook
from rare_orders import MIDDLE, for_engine, moved

from core.markets.engine import state as es
from core.markets.engine.engine import Engine, Rules, message
from core.markets.engine.reports import as_report
from core.markets.matching.book import BUY, SELL, Book, Cancelled, Decremented, Refreshed, Rejected, StateChanged, Trade, Triggered
from core.markets.matching.reports import KINDS, SELF_TRADES

PRICE = st.integers(MIDDLE - 2, MIDDLE + 2)


@st.composite
def submits(draw):
    kind = draw(st.sampled_from(("limit", *KINDS)))
    quantity = draw(st.integers(1, 15))
    more = {"owner": draw(st.sampled_from((0, 1, 1, 2)))}
    if kind == "iceberg":
        more["tip"] = draw(st.integers(1, quantity))
    if kind in ("stop", "stop_limit"):
        more["trigger"] = draw(PRICE)
    price = None if kind in ("market", "stop") else draw(PRICE)
    return "submit", {"side": draw(st.sampled_from((BUY, SELL))), "quantity": quantity, "price": price, "kind": kind, **more}


IDS = st.integers(1, 30)
CHANGES = st.one_of(
    st.builds(lambda i: ("cancel", {"order_id": i}), IDS),
    st.builds(lambda i, q, p: ("modify", {"order_id": i, "quantity": q, "price": p}), IDS, st.integers(1, 15), PRICE),
)
VENUE = st.sampled_from((("halt", {}), ("auction", {}), ("open", {}), ("open", {"reference": MIDDLE})))
SUBMITS, OPENS = submits(), st.just(("open", {}))
MIXED = st.one_of(*[SUBMITS] * 8, *[CHANGES] * 3, VENUE, OPENS, OPENS)
MESSAGES = st.lists(MIXED, min_size=20, max_size=60)
CONTINUOUS = st.lists(st.one_of(SUBMITS, SUBMITS, SUBMITS, CHANGES), min_size=20, max_size=60)
RULES = st.fixed_dictionaries(
    {
        "modify_rule": st.sampled_from(("benchmark", "keep_on_decrease")),
        "post_only": st.sampled_from(("reject", "slide")),
        "self_trade": st.sampled_from(SELF_TRADES),
    }
)
FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def numbered(messages):
    """Orders are numbered by their message."""
    return [(action, {"order_id": n, **fields} if action == "submit" else fields) for n, (action, fields) in enumerate(messages, 1)]


def said(reports):
    return [msgspec.structs.replace(r, taker_left=-1) if isinstance(r, Trade | Decremented) else r for r in reports]


def shown(book, side):
    found = [
        (level.price, level.quantity, tuple((o.order_id, o.shown) for o in level.orders.values())) for level in book.side(side).from_best()
    ]
    return [level for level in found if level[1]]


def trades_of(rows):
    return [(r[es.R_PRICE], r[es.R_QUANTITY], r[es.R_OTHER], r[es.R_ORDER]) for r in rows.tolist() if r[es.R_KIND] == es.TRADE]


@FEW
@given(MESSAGES, RULES)
def test_engine_says_and_shows_what_the_readable_book_does_after_every_message(messages, rules):
    heard = []
    book, engine = Book(heard.append, **rules), Engine(Rules(**rules))
    for action, fields in numbered(messages):
        heard.clear()
        getattr(book, action)(**fields)
        assert [as_report(row) for row in engine.apply(for_engine(action, fields))] == said(heard)
        for side in (BUY, SELL):
            assert engine.levels(side, 99) == shown(book, side)
            assert engine.best(side) == book.best(side)
    assert engine.resting == len(book.orders) + len(book.stops)


@FEW
@given(MESSAGES, RULES)
def test_engine_trades_and_queues_as_a_naive_list_does(messages, rules):
    naive, engine = ListBook(**rules), Engine(Rules(**rules))
    trades = []
    for action, fields in numbered(messages):
        getattr(naive, action)(**fields)
        trades += trades_of(engine.apply(for_engine(action, fields)))
        for side in (BUY, SELL):
            assert engine.levels(side, 99) == naive.levels(side)
    assert trades == naive.trades


@FEW
@given(MESSAGES, RULES)
def test_quantity_is_conserved_and_a_continuous_book_never_crosses(messages, rules):
    naive, engine = ListBook(**rules), Engine(Rules(**rules))
    asked = traded = 0
    for action, fields in numbered(messages):
        asked += getattr(naive, action)(**fields) or 0
        traded += sum(quantity for _, quantity, _, _ in trades_of(engine.apply(for_engine(action, fields))))
        bid, ask = engine.best(BUY), engine.best(SELL)
        if engine.state.scalars[es.S_STATE] == 0 and bid is not None and ask is not None:
            assert bid < ask
    _, rows = engine.snapshot()
    assert asked - 2 * traded - naive.gone == rows[:, 3:5].sum()
    assert engine.crossed == 0
    for book, depth in enumerate(engine.depth):
        assert depth == rows[rows[:, 1] == book, 3].sum()


@FEW
@given(CONTINUOUS, RULES)
def test_exchanging_buy_and_sell_mirrors_everything(messages, rules):
    one, other = Engine(Rules(**rules)), Engine(Rules(**rules))
    for plain, turned in zip(numbered(messages), moved(numbered(messages), mirror=True), strict=True):
        trades = trades_of(one.apply(for_engine(*plain)))
        assert [(2 * MIDDLE - price, *rest) for price, *rest in trades_of(other.apply(for_engine(*turned)))] == trades
        for side in (BUY, SELL):
            assert other.levels(-side, 99) == [(2 * MIDDLE - price, *rest) for price, *rest in one.levels(side, 99)]


@FEW
@given(MESSAGES, RULES, st.sampled_from((-10_000_000_000, -101, 64, 4096, 1 << 39)))
def test_shifting_every_price_shifts_the_book_below_zero_too(messages, rules, shift):
    messages = [m if m[0] != "open" else ("open", {"reference": MIDDLE}) for m in messages]
    one, other = Engine(Rules(**rules, lowest=1)), Engine(Rules(**rules, lowest=1 + shift))
    for plain, far in zip(numbered(messages), moved(numbered(messages), shift=shift), strict=True):
        trades = trades_of(one.apply(for_engine(*plain)))
        assert [(price - shift, *rest) for price, *rest in trades_of(other.apply(for_engine(*far)))] == trades
        for side in (BUY, SELL):
            assert [(price - shift, *rest) for price, *rest in other.levels(side, 99)] == one.levels(side, 99)


@FEW
@given(MESSAGES, MESSAGES, RULES)
def test_engine_goes_on_from_a_snapshot_as_if_it_had_never_stopped(before, after, rules):
    rules = Rules(**rules)
    one = Engine(rules)
    for m in numbered(before):
        one.apply(for_engine(*m))
    other = Engine.from_snapshot(rules, *one.snapshot())
    for action, fields in numbered(after):
        m = for_engine(action, {**fields, "order_id": fields["order_id"] + 30} if action == "submit" else fields)
        assert np.array_equal(one.apply(m)[:, :9], other.apply(m)[:, :9])
    assert np.array_equal(one.snapshot()[1], other.snapshot()[1])
    for scalar in (es.S_TIPS, es.S_WAITING, es.S_ORDERS, es.S_LEVELS, es.S_CROSSED):
        assert one.state.scalars[scalar] == other.state.scalars[scalar]


# each rule by itself, in the readable book and word for word in the engine --------------------------------------------------------


def heard_from(*messages, **rules):
    heard = []
    book = Book(heard.append, **rules)
    for action, fields in messages:
        getattr(book, action)(**fields)
    engine = Engine(Rules(**rules))
    assert [as_report(row) for m in messages for row in engine.apply(for_engine(*m))] == said(heard)
    assert all(engine.levels(side, 99) == shown(book, side) for side in (BUY, SELL))
    return book, heard


def order(order_id, side, quantity, price=None, kind="limit", **more):
    return "submit", {"order_id": order_id, "side": side, "quantity": quantity, "price": price, "kind": kind, **more}


def fills(heard):
    return [(r.price, r.quantity, r.maker, r.taker) for r in heard if isinstance(r, Trade)]


def test_iceberg_tip_goes_behind_everything_displayed_each_time():
    book, heard = heard_from(
        order(1, SELL, 10, 100, "iceberg", tip=4), order(2, SELL, 5, 100), order(9, BUY, 12, 100),
    )  # fmt: skip
    assert fills(heard) == [(100, 4, 1, 9), (100, 5, 2, 9), (100, 3, 1, 9)]
    assert [r for r in heard if isinstance(r, Refreshed)] == [Refreshed(1, SELL, 100, 4, 2)]
    assert shown(book, SELL) == [(100, 1, ((1, 1),))] and book.asks.best.total == 3


def test_hidden_order_trades_after_all_that_is_displayed_at_its_price_but_before_worse_prices():
    _, heard = heard_from(
        order(1, SELL, 5, 100, "hidden"), order(2, SELL, 6, 100, "iceberg", tip=2), order(3, SELL, 5, 101), order(9, BUY, 12, 101),
    )  # fmt: skip
    assert fills(heard) == [(100, 2, 2, 9), (100, 2, 2, 9), (100, 2, 2, 9), (100, 5, 1, 9), (101, 1, 3, 9)]


def test_stops_wait_for_the_taker_to_be_done_and_then_arrive_in_order():
    _, heard = heard_from(
        order(1, BUY, 5, 100), order(2, BUY, 5, 99), order(3, BUY, 5, 98), order(4, BUY, 5, 97),
        order(11, SELL, 5, None, "stop", trigger=99), order(10, SELL, 1, None, "stop", trigger=100),
        order(9, SELL, 10, 99),
    )  # fmt: skip
    assert [r.order_id for r in heard if isinstance(r, Triggered)] == [11, 10]
    assert fills(heard) == [(100, 5, 1, 9), (99, 5, 2, 9), (98, 5, 3, 11), (97, 1, 4, 10)]


def test_cascade_of_stops_ends_when_each_has_triggered_once():
    ladder = [order(n, BUY, 1, 100 - n) for n in range(60)]
    stops = [order(100 + n, SELL, 1, None, "stop", trigger=99 - n) for n in range(59)]
    _, heard = heard_from(*ladder, *stops, order(999, SELL, 2, None, "market"))
    assert [r.order_id for r in heard if isinstance(r, Triggered)] == [100 + n for n in range(59)]
    assert isinstance(heard[-1], Cancelled) and heard[-1].reason == "market"


def test_stop_whose_trigger_has_traded_already_does_not_wait():
    _, heard = heard_from(order(1, SELL, 3, 100), order(2, BUY, 1, 100), order(3, BUY, 1, None, "stop", trigger=100))
    assert fills(heard) == [(100, 1, 1, 2), (100, 1, 1, 3)]


@pytest.mark.parametrize(
    ("mode", "trades", "left"),
    [
        ("off", [(100, 5, 1, 9), (100, 5, 2, 9), (101, 2, 3, 9)], {3: 3}),
        ("newest", [(100, 5, 1, 9)], {2: 5, 3: 5}),
        ("oldest", [(100, 5, 1, 9), (101, 5, 3, 9)], {9: 2}),
        ("both", [(100, 5, 1, 9)], {3: 5}),
        ("decrement", [(100, 5, 1, 9), (101, 2, 3, 9)], {3: 3}),
    ],
)
def test_self_trade_mode_acts_when_the_own_order_is_reached_and_earlier_fills_stand(mode, trades, left):
    book, heard = heard_from(
        order(1, SELL, 5, 100, owner=2), order(2, SELL, 5, 100, owner=7), order(3, SELL, 5, 101), order(9, BUY, 12, 101, owner=7),
        self_trade=mode,
    )  # fmt: skip
    assert fills(heard) == trades
    assert {o.order_id: o.quantity for o in book.orders.values()} == left


@pytest.mark.parametrize(("mode", "filled"), [("off", True), ("oldest", True), ("newest", False), ("both", False), ("decrement", False)])
def test_fok_counts_only_what_it_can_fill_before_or_without_its_own_orders(mode, filled):
    own_last = (order(1, SELL, 5, 100), order(2, SELL, 5, 100, owner=7), order(3, SELL, 5, 101))
    _, heard = heard_from(*own_last, order(9, BUY, 10, 101, "fok", owner=7), self_trade=mode)
    assert (sum(q for _, q, _, _ in fills(heard)) == 10) is filled
    assert filled or not fills(heard)
    _, heard = heard_from(*own_last, order(9, BUY, 5, 101, "fok", owner=7), self_trade=mode)
    assert fills(heard) == [(100, 5, 1, 9)]


@pytest.mark.parametrize(
    ("orders", "reference", "price", "volume"),
    [
        ([(BUY, 10, 102), (BUY, 5, 100), (SELL, 8, 99), (SELL, 4, 101)], None, 101, 10),  # most volume: 10 against 8
        ([(BUY, 10, 103), (SELL, 10, 99)], 101, 101, 10),  # all equal: the reference
        ([(BUY, 10, 103), (SELL, 10, 99)], 150, 103, 10),  # as near to it as the book allows
        ([(BUY, 10, 100), (BUY, 10, 98), (SELL, 10, 98), (SELL, 10, 100)], 98, 99, 10),  # least imbalance, between two limit prices
        ([(BUY, 10, 98), (SELL, 10, 99)], 98, None, 0),
    ],
)
def test_auction_takes_most_volume_then_least_imbalance_then_the_reference(orders, reference, price, volume):
    messages = [order(n, side, quantity, at) for n, (side, quantity, at) in enumerate(orders, 1)]
    book, heard = heard_from(("auction", {}), *messages, ("open", {"reference": reference}))
    assert StateChanged("continuous", price, volume) in heard
    assert sum(q for _, q, _, _ in fills(heard)) == volume and {p for p, *_ in fills(heard)} <= {price}
    assert book.best(BUY) is None or book.best(SELL) is None or book.best(BUY) < book.best(SELL)


def test_halt_accepts_cancels_and_nothing_else():
    book, heard = heard_from(
        order(1, SELL, 5, 100), order(2, SELL, 5, 100), ("halt", {}), ("cancel", {"order_id": 1}), order(3, BUY, 5, 100),
        ("modify", {"order_id": 2, "quantity": 1, "price": 100}),
    )  # fmt: skip
    assert [(r.order_id, r.reason) for r in heard if isinstance(r, Rejected)] == [(3, "not_trading"), (2, "not_trading")]
    assert list(book.orders) == [2] and not fills(heard)


@pytest.mark.parametrize(
    "wrong",
    [
        {"quantity": 0}, {"quantity": (1 << 50) + 1}, {"price": (1 << 40) + 1}, {"price": 0}, {"kind": "iceberg"},
        {"kind": "iceberg", "tip": 9}, {"kind": "iceberg", "tip": 1, "quantity": 10_001}, {"kind": "stop"}, {"kind": "market"},
        {"kind": "limit", "trigger": 5}, {"kind": "stop_limit", "trigger": 0}, {"tip": 2}, {"price": None},
    ],
)  # fmt: skip
def test_values_that_make_no_order_are_refused_by_both(wrong):
    fields = {"order_id": 1, "side": BUY, "quantity": 5, "price": 100, "kind": "limit", **wrong}
    _, heard = heard_from(("submit", fields))
    assert heard == [Rejected(1, "submit", "bad_value")]
    assert [as_report(row) for row in Engine().apply(for_engine("submit", fields))] == heard


def test_memory_follows_what_rests_and_not_how_far_apart_the_prices_are():
    engine = Engine(Rules(lowest=-(1 << 40)))
    far = [message("submit", n, SELL if n % 2 else BUY, 1, (n * 7919 if n % 2 else -n * 7919) * 100_000) for n in range(1, 501)]
    engine.apply(*far)
    assert sum(array.nbytes for array in engine.state) < 2_000_000
    assert engine.best(SELL) == 7919 * 100_000 and len(engine.levels(SELL, 999)) == 250
    rows = engine.apply(message("submit", 1000, BUY, 250, None, "market"))
    assert [price for price, *_ in trades_of(rows)] == [n * 7919 * 100_000 for n in range(1, 501, 2)]


def test_sparse_and_dense_falls_through_thousands_of_levels_visit_every_level_once():
    engine = Engine()
    prices = [*range(1, 5000), *range(5000, 4_000_000, 997)]
    engine.apply(*(message("submit", n, BUY, 1, price) for n, price in enumerate(prices, 1)))
    rows = engine.apply(message("submit", 10**9, SELL, len(prices) - 1, None, "market"))
    assert [price for price, *_ in trades_of(rows)] == prices[:0:-1]
    assert engine.best(BUY) == 1 and engine.state.scalars[es.S_LEVELS] == 1
