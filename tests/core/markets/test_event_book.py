"""The compiled book of market-by-order events against dictionaries and a sorted list in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_book import PlainBook

from core.errors import BadInput
from core.markets.events import book as event_book
from core.markets.events import kernel as event_kernel
from core.markets.events.book import NO_PRICE, UNKNOWN, Effects, EventBook
from core.markets.events.order_table import OrderTable
from core.markets.keyframes import Frames
from core.markets.readers import forms
from core.markets.readers.forms import ADD, CANCEL, CLEAR, DELETE, EXECUTE, FILL, HIDDEN, MODIFY, NONE, TRADE, OrderEvents

ORDERS = 9
ACTIONS = (ADD, ADD, ADD, CANCEL, MODIFY, MODIFY, EXECUTE, DELETE, FILL, FILL, FILL, TRADE, TRADE, NONE, HIDDEN)
EVENT = st.tuples(
    st.sampled_from(ACTIONS),
    st.integers(0, ORDERS - 1),
    st.sampled_from((1, 1, -1, -1, 0)),
    st.integers(-3, 3),
    st.integers(0, 6),
    st.sampled_from((True, False, False)),
)
CLEARED = st.just((CLEAR, 0, 0, 0, 0, True))
STREAM = st.lists(st.one_of(EVENT, EVENT, EVENT, EVENT, EVENT, CLEARED), min_size=1, max_size=80)
RAW_IDS = np.arange(ORDERS) * 912_345_678_901_234_567 - (1 << 62)


def block(rows, ids=RAW_IDS, unit=1) -> OrderEvents:
    action, order, side, price, size, last = (np.array(column) for column in zip(*rows, strict=True))
    zero = np.zeros(len(rows), dtype=np.int64)
    return OrderEvents(
        zero, zero, action.astype(np.int8), ids[order], side.astype(np.int8), price * unit, size.astype(np.int64), last, zero > 0
    )  # fmt: skip


def same_book(compiled: EventBook, plain: PlainBook) -> None:
    assert compiled.resting == len(plain.orders)
    for side in (1, -1):
        prices = plain.prices(side, 100)
        assert compiled.best(side) == plain.best(side) and compiled.total(side) == plain.totals[side]
        assert compiled.depth(side) == [(price, plain.levels[side][price]) for price in prices]
        for price in prices:
            assert compiled.queue(side, price) == plain.queue(side, price)
        assert [queue for _, _, queue in compiled.shown(side, 100, 50)] == [plain.queue(side, price) for price in prices]


def same_effects(one: Effects, other: Effects) -> None:
    for name in Effects.__struct_fields__:
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name


@settings(max_examples=200, deadline=None)
@given(STREAM, st.integers(1, 80), st.sampled_from((1, 250_000_000)))
def test_every_effect_of_every_event_is_that_of_the_plain_book(rows, cut, unit):
    compiled, plain = EventBook(), PlainBook()
    for part in (rows[:cut], rows[cut:]):  # an event may be cut by the end of a block
        if part:
            events = block(part, unit=unit)
            same_effects(compiled.run(events), plain.run(events))
    same_book(compiled, plain)


@settings(max_examples=80, deadline=None)
@given(STREAM, st.integers(0, 80))
def test_book_from_a_snapshot_anywhere_goes_on_like_the_one_it_was_taken_of(rows, cut):
    whole, first = EventBook(), EventBook()
    effects = whole.run(block(rows))
    if rows[:cut]:
        first.run(block(rows[:cut]))
    again = first.snapshot().restore()
    if rows[cut:]:
        events = block(rows[cut:])
        again.apply(events.action, events.side, events.order, events.price, events.size, events.last)
    for side in (1, -1):
        assert again.shown(side, 50, 50) == whole.shown(side, 50, 50)
        assert again.total(side) == whole.total(side)
    assert effects.bid[-1] == again.best(1)


@settings(max_examples=80, deadline=None)
@given(STREAM, st.integers(1, 80))
def test_table_without_queues_holds_the_same_levels(rows, cut):
    rows = [row for row in rows if row[0] != MODIFY or row[2]]
    if not rows:
        return
    table, plain = OrderTable(), PlainBook()
    plain.run(block(rows))
    for part in (rows[:cut], rows[cut:]):
        if part:
            events = block(part)
            table.see(events.action, events.order, events.side, events.price, events.size)
    for side in (1, -1):
        assert table.levels(side) == [(price, plain.levels[side][price]) for price in plain.prices(side, 100)]


@settings(max_examples=80, deadline=None)
@given(STREAM)
def test_dense_numbers_give_the_book_of_any_ids(rows):
    rows = [row for row in rows if row[0] in (ADD, CANCEL, MODIFY, CLEAR)]
    if not rows:
        return
    dense, raw = EventBook(ORDERS), EventBook()
    for book, ids in ((dense, np.arange(ORDERS)), (raw, RAW_IDS)):
        events = block(rows, ids)
        book.apply(events.action, events.side, events.order, events.price, events.size)
    numbers = {int(raw_id): number for number, raw_id in enumerate(RAW_IDS)}
    for side in (1, -1):
        shown = [(price, size, [(numbers[order], left) for order, left in queue]) for price, size, queue in raw.shown(side, 50, 50)]
        assert dense.shown(side, 50, 50) == shown


def test_long_random_flow_grows_every_table_and_stays_the_plain_book(monkeypatch):
    monkeypatch.setattr(event_book, "PIECE", 64)
    rng = np.random.default_rng(3)
    count = 12_000
    ids = rng.permutation(np.arange(4000, dtype=np.int64) * 7_777_777_777)
    rows = list(
        zip(
            rng.choice((ADD, ADD, ADD, CANCEL, MODIFY, FILL, TRADE, EXECUTE, DELETE), count).tolist(),
            rng.integers(0, 4000, count).tolist(), rng.choice((1, -1), count).tolist(), rng.integers(-900, 900, count).tolist(),
            rng.integers(1, 20, count).tolist(), (rng.random(count) < 0.2).tolist(), strict=True,
        )
    )  # fmt: skip
    compiled, plain = EventBook(), PlainBook()
    for first in range(0, count, 3000):
        events = block(rows[first : first + 3000], ids)
        same_effects(compiled.run(events), plain.run(events))
    assert len(plain.orders) > 500
    for side in (1, -1):
        assert compiled.depth(side) == [(price, plain.levels[side][price]) for price in plain.prices(side, 5000)]
    assert compiled.snapshot().restore().shown(1, 500, 50) == compiled.shown(1, 500, 50)


def test_prices_off_the_first_step_change_the_unit_and_nothing_else():
    rows = [(ADD, 0, 1, 1000, 5, True), (ADD, 1, -1, 1500, 5, True), (ADD, 2, 1, 1250, 3, True), (ADD, 3, 1, 1001, 2, True)]
    compiled, plain = EventBook(), PlainBook()
    units = []
    for row in rows:
        same_effects(compiled.run(block([row])), plain.run(block([row])))
        units.append(compiled.unit)
    assert units == [1000, 500, 250, 1]
    same_book(compiled, plain)


def test_levels_of_long_ago_are_forgotten_and_the_book_stays(monkeypatch):
    monkeypatch.setattr(event_book, "PIECE", 100)
    prices = np.repeat(np.arange(5000), 2)
    action = np.where(np.arange(10_000) % 2, DELETE, ADD).astype(np.int8)
    one, order = np.ones(10_000, dtype=np.int64), np.repeat(np.arange(5000), 2)
    book = EventBook()
    book.apply(np.array([ADD], dtype=np.int8), one[:1].astype(np.int8), np.array([-9]), np.array([-50]), one[:1])
    book.apply(action, one.astype(np.int8), order, prices, one)
    assert book.depth(1) == [(-50, 1)] and len(book.levels) < 2000


def test_price_far_outside_every_grid_is_refused_in_one_line():
    rows = [(ADD, 0, 1, 1_000_001, 5, True)]
    book = EventBook()
    book.run(block(rows))
    far = OrderEvents(*(np.array([value]) for value in (0, 0, np.int8(ADD), 77, np.int8(1), 2**63 - 1, 1, True, False)))
    with pytest.raises(BadInput, match=r"the price of order 77: 9223372036854775807 beside a step of 1"):
        book.run(far)


def test_many_fills_out_of_turn_share_what_stood_in_front():
    """A pro-rata exchange fills every order of a level a little: each fill has all the orders before it in front."""
    count = 600
    rows = [(ADD, n, 1, 10, 4, True) for n in range(count)]
    fills = [(TRADE, 0, -1, 10, count, False), *((FILL, n, 1, 10, 1, False) for n in range(count)), (NONE, 0, 0, 0, 0, True)]
    ids = np.arange(count, dtype=np.int64)
    compiled, plain = EventBook(), PlainBook()
    for part in (rows, fills):
        same_effects(compiled.run(block(part, ids)), plain.run(block(part, ids)))
    assert len(compiled.front) <= 2 * count  # not the square of it


def test_codes_of_the_kernel_are_those_of_the_readers():
    for name in ("ADD", "CANCEL", "MODIFY", "CLEAR", "TRADE", "FILL", "NONE", "EXECUTE", "DELETE"):
        assert getattr(event_kernel, name) == getattr(forms, name)


def test_event_about_nobody_changes_nothing():
    book = EventBook()
    effects = book.run(block([(CANCEL, 0, 1, 10, 5, True), (EXECUTE, 1, 0, 0, 5, True), (MODIFY, 2, 0, 10, 5, True)]))
    assert effects.marks.tolist() == [UNKNOWN] * 3 and book.resting == 0 and effects.bid.tolist() == [NO_PRICE] * 3


def test_modify_after_a_fill_keeps_its_place_only_for_what_the_fill_left():
    for old in range(1, 5):
        for filled in range(6):
            for new in range(7):
                rows = [(ADD, 0, 1, 10, old, True), (ADD, 1, 1, 10, 2, True), (TRADE, 0, -1, 10, filled, False)]
                rows += [(FILL, 0, 1, 10, filled, False), (MODIFY, 0, 1, 10, new, True)]
                compiled, plain = EventBook(), PlainBook()
                same_effects(compiled.run(block(rows)), plain.run(block(rows)))
                same_book(compiled, plain)


def test_snapshots_of_a_large_book_wait_until_they_cost_little_for_each_event():
    frames = Frames(EventBook, lambda book, first, end: None)
    assert frames.worth(8192, 1000) and not frames.worth(8191, 10)
    assert not frames.worth(8192, 100_000) and frames.worth(42_000, 100_000)
    frames.keep(42_000, EventBook().snapshot())
    assert not frames.worth(50_000, 100_000) and frames.worth(84_000, 100_000)
