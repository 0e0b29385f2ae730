"""The readable matching engine: each rule by itself (`test_matching_rare_orders` has all of them at once)."""

from __future__ import annotations

import pytest

from core.markets.matching.book import BUY, SELL, Book, Cancelled, Modified, Rejected, Rested, Slid, Trade, Withdrawn


def make(**rules):
    heard = []
    return Book(heard.append, **rules), heard


def trades(heard):
    return [(r.price, r.quantity, r.maker, r.taker) for r in heard if isinstance(r, Trade)]


def levels(book, side):
    return [(level.price, [(o.order_id, o.quantity) for o in level.orders.values()]) for level in book.side(side).from_best()]


def state(book):
    return levels(book, BUY), levels(book, SELL)


def kinds(heard):
    return [type(report).__name__ for report in heard]


def test_better_price_trades_first_then_the_older_order():
    book, heard = make()
    for order_id, price in ((1, 101), (2, 100), (3, 100)):
        book.submit(order_id, SELL, 10, price)
    book.submit(9, BUY, 25, 101)
    assert trades(heard) == [(100, 10, 2, 9), (100, 10, 3, 9), (101, 5, 1, 9)]
    assert state(book) == ([], [(101, [(1, 5)])])


def test_taker_gets_the_makers_price_and_the_rest_waits_at_its_own():
    book, heard = make()
    book.submit(1, SELL, 10, 100)
    book.submit(2, BUY, 15, 105)
    assert trades(heard) == [(100, 10, 1, 2)]
    assert levels(book, BUY) == [(105, [(2, 5)])]


def test_report_is_emitted_while_the_book_stands_right_after_it():
    seen = []
    book = Book(lambda report: seen.append((type(report).__name__, book.best(SELL))))
    book.submit(1, SELL, 10, 100)
    book.submit(2, SELL, 10, 103)
    seen.clear()
    book.submit(3, BUY, 15, None, "market")
    assert seen == [("Accepted", 100), ("Trade", 103), ("Trade", 103)]


def test_trade_says_what_maker_taker_and_level_keep():
    book, heard = make()
    book.submit(1, SELL, 10, 100)
    book.submit(2, SELL, 7, 100)
    book.submit(3, BUY, 12, 100)
    assert [(r.maker_left, r.taker_left, r.level_left) for r in heard if isinstance(r, Trade)] == [(0, 2, 7), (5, 0, 5)]


@pytest.mark.parametrize("kind", ["market", "ioc"])
def test_remainder_of_an_order_that_does_not_rest_is_cancelled(kind):
    book, heard = make()
    book.submit(1, SELL, 10, 100)
    book.submit(2, BUY, 15, None if kind == "market" else 100, kind)
    assert heard[-1] == Cancelled(2, BUY, None if kind == "market" else 100, 5, kind)
    assert state(book) == ([], []) and not book.orders


def test_ioc_does_not_go_past_its_limit():
    book, heard = make()
    book.submit(1, SELL, 10, 100)
    book.submit(2, SELL, 10, 101)
    book.submit(3, BUY, 15, 100, "ioc")
    assert trades(heard) == [(100, 10, 1, 3)]
    assert levels(book, SELL) == [(101, [(2, 10)])]


@pytest.mark.parametrize(("quantity", "filled"), [(30, True), (31, False)])
def test_fok_is_filled_whole_or_touches_nothing(quantity, filled):
    book, heard = make()
    for order_id, price in ((1, 100), (2, 100), (3, 102), (4, 103)):
        book.submit(order_id, SELL, 10, price)
    before = state(book)
    book.submit(9, BUY, quantity, 102, "fok")
    assert bool(trades(heard)) is filled
    if not filled:
        assert state(book) == before
        assert heard[-1] == Cancelled(9, BUY, 102, 31, "fok")


def test_post_only_is_rejected_only_where_it_would_take():
    book, heard = make()
    book.submit(1, SELL, 10, 100)
    book.submit(2, BUY, 5, 100, "post_only")
    assert heard[-1] == Rejected(2, "submit", "post_only") and 2 not in book.orders
    book.submit(3, BUY, 5, 99, "post_only")
    assert heard[-1] == Rested(3, BUY, 99, 5, 0)


def test_post_only_slides_to_one_tick_short_of_the_other_side():
    book, heard = make(post_only="slide")
    book.submit(1, BUY, 10, 100)
    book.submit(2, SELL, 5, 97, "post_only")
    assert heard[-2:] == [Slid(2, SELL, 97, 101), Rested(2, SELL, 101, 5, 0)]
    assert not trades(heard)


def test_post_only_that_would_slide_below_one_tick_is_rejected():
    book, heard = make(post_only="slide")
    book.submit(1, SELL, 10, 1)
    book.submit(2, BUY, 5, 1, "post_only")
    assert heard[-1] == Rejected(2, "submit", "post_only")


def test_cancel_lets_the_ones_behind_move_up():
    book, heard = make()
    for order_id in (1, 2, 3):
        book.submit(order_id, BUY, 10, 100)
    book.cancel(1)
    assert heard[-1] == Cancelled(1, BUY, 100, 10, "cancel")
    assert levels(book, BUY) == [(100, [(2, 10), (3, 10)])]


def test_keep_on_decrease_keeps_the_place_and_only_then():
    book, heard = make(modify_rule="keep_on_decrease")
    book.submit(1, BUY, 10, 100)
    book.submit(2, BUY, 10, 100)
    book.modify(1, 4, 100)
    assert heard[-1] == Modified(1, BUY, 100, 10, 100, 4, True)
    assert levels(book, BUY) == [(100, [(1, 4), (2, 10)])]
    book.modify(1, 5, 100)
    assert levels(book, BUY) == [(100, [(2, 10), (1, 5)])]


def test_benchmark_rule_sends_every_modified_order_to_the_back():
    book, heard = make(modify_rule="benchmark")
    book.submit(1, BUY, 10, 100)
    book.submit(2, BUY, 10, 100)
    book.modify(1, 4, 100)
    assert levels(book, BUY) == [(100, [(2, 10), (1, 4)])]
    assert kinds(heard)[-3:] == ["Withdrawn", "Modified", "Rested"]


def test_modify_through_the_other_side_trades_first_and_rests_after():
    book, heard = make()
    book.submit(1, SELL, 10, 105)
    book.submit(2, BUY, 5, 100)
    book.modify(2, 12, 106)
    assert heard[-4:] == [
        Withdrawn(2, BUY, 100, 5),
        Trade(105, 10, 1, 2, BUY, 0, 2, 0),
        Modified(2, BUY, 100, 5, 106, 12, False),
        Rested(2, BUY, 106, 2, 0),
    ]


def test_unknown_and_invalid_messages_change_nothing():
    book, heard = make()
    book.submit(1, BUY, 10, 100)
    before = state(book)
    book.cancel(7)
    book.modify(7, 1, 1)
    book.submit(1, SELL, 5, 100)
    book.submit(2, SELL, 0, 100)
    book.submit(3, SELL, 5, None, "limit")
    book.submit(4, SELL, 5, 99, "market")
    book.modify(1, 0, 100)
    assert [r.reason for r in heard if isinstance(r, Rejected)] == ["unknown_order"] * 2 + ["duplicate_id"] + ["bad_value"] * 4
    assert state(book) == before
