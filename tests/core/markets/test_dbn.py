"""Databento files: the book from market-by-order records against plain lists, icebergs, and the day of ESH4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("databento_dbn")

from market_files import LAST, SNAPSHOT, dbn_header, mbo, mbo_day, write

from core.markets.events.book import IN_TURN, KEPT, NO_PRICE, OUT_OF_TURN, OWN_FILL, PASSED, REFRESHED, UNKNOWN, EventBook
from core.markets.readers import forms
from core.markets.readers.dbn import looks_like_dbn, open_dbn
from core.recognise import recognise
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data/databento"
ESH4 = DATA / "esh4-glbx-mdp3-20231225.mbo.dbn.zst"


def naive_books(rows):
    """After each row: {side: [(price, [(order, size), …]), …]} best first, from one list that is searched again every time."""
    orders: list[list] = []
    filled: dict[int, int] = {}
    for action, order, side, price, size, last in rows:
        mine = next((o for o in orders if o[0] == order), None)
        if action == "A":
            orders.append([order, side, price, size])
        elif action == "C":
            mine[3] -= size
            orders = [o for o in orders if o[3] > 0]
        elif action == "M":
            if price != mine[2] or size > mine[3] - filled.get(order, 0):
                orders.remove(mine)
                orders.append([order, side, price, size])
            else:
                mine[3] = size
        elif action == "F":
            filled[order] = filled.get(order, 0) + size
        if last:
            filled = {}
        book = {}
        for side_, sign in (("B", -1), ("A", 1)):
            prices = sorted({o[2] for o in orders if o[1] == side_}, key=lambda p: sign * p)
            book[side_] = [(p, [(o[0], o[3]) for o in orders if o[1] == side_ and o[2] == p]) for p in prices]
        yield book


def shown(frame, side):
    levels = frame.bids if side == "B" else frame.asks
    return [(round(level.price * 100), [(order.order_id, order.quantity) for order in level.orders]) for level in levels]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000))
def test_ladder_at_every_event_is_that_of_a_list_searched_again(tmp_path_factory, seed):
    records, rows = mbo_day(seed, 120)
    path = write(tmp_path_factory.mktemp("dbn") / "day.dbn", dbn_header(), *records)
    recording = record("order_book", {"file": str(path)})
    assert len(recording) == len(rows) and all(check.ok for check in recording.checks)
    ladder = recording.panels[0].view
    order = list(range(len(rows)))
    want = list(naive_books(rows))
    for step in order[::-1] + order:  # backwards too: every step is reached from a keyframe
        frame = ladder.at(step)
        for side in "BA":
            assert shown(frame, side) == want[step][side][:20]


def test_facts_are_counted_from_the_records(tmp_path):
    records, rows = mbo_day(3, 400)
    recording = record("order_book", {"file": str(write(tmp_path / "day.dbn", dbn_header(), *records))})
    trades = [row for row in rows if row[0] == "T"]
    assert recording.fact("trades") == len(trades)
    assert recording.fact("volume") == sum(row[4] for row in trades)
    assert recording.fact("volume[bought]") == sum(row[4] for row in trades if row[2] == "B")
    last = list(naive_books(rows))[-1]
    assert recording.fact("best_bid") == last["B"][0][0] / 100 and recording.fact("best_ask") == last["A"][0][0] / 100
    assert recording.fact("spread") == pytest.approx((last["A"][0][0] - last["B"][0][0]) / 100)
    assert recording.fact("depth[bid]") == sum(size for _, queue in last["B"] for _, size in queue)
    assert recording.fact("out_of_turn") == 0 < recording.fact("known_executions")


def test_states_are_read_only_where_the_exchange_event_is_complete(tmp_path):
    records = [
        mbo("A", 1, "B", 100.0, 5),
        mbo("A", 2, "A", 101.0, 5, at=1),
        mbo("C", 1, "B", 100.0, 5, at=2, last=False),
        mbo("A", 3, "B", 102.0, 5, at=2, last=False),  # crossed, in the middle of an event
        mbo("C", 2, "A", 101.0, 5, at=2),
    ]
    recording = record("order_book", {"file": str(write(tmp_path / "day.dbn", dbn_header(), *records))})
    assert [recording.fact("best_bid", step) for step in range(5)] == [100.0, 100.0, 100.0, 100.0, 102.0]
    assert [recording.fact("best_ask", step) for step in range(5)] == [None, 101.0, 101.0, 101.0, None]
    assert all(check.ok for check in recording.checks)


def run(*rows):
    """Marks of each row (action, order, side, price, size, last) and the book after them."""
    book = EventBook()
    codes = {"A": 0, "C": 1, "M": 2, "R": 3, "T": 4, "F": 5, "N": 6}
    action = np.array([codes[r[0]] for r in rows], dtype=np.int8)
    side = np.array([{"B": 1, "A": -1, "N": 0}[r[2]] for r in rows], dtype=np.int8)
    order, price, size = (np.array([r[k] for r in rows], dtype=np.int64) for k in (1, 3, 4))
    last = np.array([r[5] for r in rows], dtype=bool)
    zero = np.zeros(len(rows), dtype=np.int64)
    effects = book.run(forms.OrderEvents(zero, zero, action, order, side, price, size, last, ~last & last))
    return effects.marks.tolist(), book


def test_iceberg_refresh_goes_to_the_back_and_a_partial_fill_keeps_its_place():
    rows = [("A", 1, "B", 10, 5, True), ("A", 2, "B", 10, 5, True), ("T", 0, "A", 10, 5, False), ("F", 1, "B", 10, 5, False)]
    marks, book = run(*rows, ("M", 1, "B", 10, 5, True))
    assert marks[-1] & REFRESHED and book.queue(1, 10) == [(2, 5), (1, 5)]
    marks, book = run(*rows[:2], ("T", 0, "A", 10, 3, False), ("F", 1, "B", 10, 3, False), ("M", 1, "B", 10, 2, True))
    assert marks[-1] & KEPT and book.queue(1, 10) == [(1, 2), (2, 5)]


def test_trades_fills_and_none_change_no_level_and_clear_empties_the_book():
    rows = [("A", 1, "B", 10, 5, True), ("T", 0, "A", 10, 5, False), ("F", 1, "B", 10, 5, False), ("N", 0, "N", 0, 0, True)]
    _, book = run(*rows)
    assert book.queue(1, 10) == [(1, 5)]
    _, book = run(*rows, ("R", 0, "N", 0, 0, True))
    assert book.best(1) == NO_PRICE and not book.resting


def test_fill_of_the_aggressor_itself_is_told_apart():
    marks, _ = run(("A", 1, "B", 10, 5, True), ("T", 9, "A", 10, 5, False), ("F", 9, "A", 10, 5, False), ("F", 1, "B", 10, 5, True))
    assert marks[2] == OWN_FILL and marks[3] & IN_TURN


def test_turn_is_judged_when_the_event_is_complete():
    two = [("A", 1, "B", 10, 5, True), ("A", 2, "B", 10, 5, True)]
    taken = [("T", 9, "A", 10, 5, False), ("F", 2, "B", 10, 5, False), ("C", 2, "B", 10, 5, False)]
    marks, _ = run(*two, *taken, ("N", 0, "N", 0, 0, True))
    assert marks[3] & OUT_OF_TURN
    marks, _ = run(*two, *taken, ("C", 1, "B", 10, 5, True))  # the order in front was withdrawn: self-trade prevention
    assert marks[3] & IN_TURN and marks[3] & PASSED
    both = [("T", 9, "A", 10, 10, False), ("F", 2, "B", 10, 5, False), ("F", 1, "B", 10, 5, False)]
    marks, _ = run(*two, *both, ("C", 2, "B", 10, 5, False), ("C", 1, "B", 10, 5, True))
    assert marks[3] & IN_TURN and not marks[3] & (PASSED | OUT_OF_TURN)


def test_cancel_of_an_unknown_order_leaves_the_book_alone():
    marks, book = run(("A", 1, "B", 10, 5, True), ("C", 8, "B", 10, 5, True))
    assert marks == [0, UNKNOWN] and book.queue(1, 10) == [(1, 5)]


def test_uneven_fills_and_crossed_states_fail_their_checks(tmp_path):
    start = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5)]
    uneven = [mbo("T", 9, "A", 100.0, 3, last=False), mbo("F", 1, "B", 100.0, 2, last=False), mbo("M", 1, "B", 100.0, 3)]
    recording = record("order_book", {"file": str(write(tmp_path / "u.dbn", dbn_header(), *start, *uneven))})
    assert [check.name for check in recording.checks if not check.ok] == ["events whose fills of resting orders are not its trades"]
    even = [mbo("T", 9, "A", 100.0, 2, last=False), mbo("F", 1, "B", 100.0, 2, last=False), mbo("M", 1, "B", 100.0, 3)]
    crossed = [mbo("A", 3, "A", 99.0, 1)]
    recording = record("order_book", {"file": str(write(tmp_path / "c.dbn", dbn_header(), *start, *even, *crossed))})
    assert [check.name for check in recording.checks if not check.ok] == ["states crossed outside an auction"]


def test_crossed_states_before_an_auction_print_are_the_auctions(tmp_path):
    auction = [mbo("A", 1, "B", 102.0, 5), mbo("A", 2, "A", 101.0, 5)]
    trade = [mbo("T", 0, "N", 101.0, 5, last=False), mbo("F", 1, "N", 101.0, 5, last=False), mbo("F", 2, "N", 101.0, 5, last=False)]
    gone = [mbo("C", 1, "B", 102.0, 5, last=False), mbo("C", 2, "A", 101.0, 5)]
    recording = record("order_book", {"file": str(write(tmp_path / "a.dbn", dbn_header(), *auction, *trade, *gone))})
    assert all(check.ok for check in recording.checks)
    assert "auction" in recording.title(2) and recording.fact("volume") == 5
    only = record("order_book", {"file": str(write(tmp_path / "b.dbn", dbn_header(), *auction))})
    assert all(check.ok for check in only.checks)  # nothing has traded: a pre-open


def test_negative_prices_one_sided_books_and_snapshots_are_shown_as_they_are(tmp_path):
    records = [mbo("A", 1, "B", -0.25, 2**31 + 5, flags=SNAPSHOT, last=False), mbo("A", 2, "A", 0.0, 3, flags=SNAPSHOT)]
    recording = record("order_book", {"file": str(write(tmp_path / "n.dbn", dbn_header(), *records))})
    frame = recording.panels[0].view.at(1)
    assert [(level.price, level.quantity) for level in frame.bids] == [(-0.25, 2**31 + 5)]
    assert frame.asks[0].price == 0.0 and recording.fact("spread") == 0.25
    assert recording.phases[0].name == "snapshot" and "before the file begins" in recording.title(0)
    assert "-0.25" in recording.title(0)


def test_one_of_several_instruments_is_opened_and_said(tmp_path):
    header = dbn_header(symbols={"ONE": 7, "TWO": 8})
    records = [mbo("A", 1, instrument=8), mbo("A", 1, instrument=7), mbo("A", 2, instrument=8, price=99.0)]
    path = str(write(tmp_path / "two.dbn", header, *records))
    recording = record("order_book", {"file": path})
    assert (len(recording), recording.fact("symbol")) == (2, "TWO") and "busiest of 2" in recording.facts["symbol"].note
    assert len(record("order_book", {"file": path, "symbol": "ONE"})) == 1


def test_packed_and_raw_files_are_the_same_and_are_recognised(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    records, _ = mbo_day(1, 200)
    raw = write(tmp_path / "a.bin", dbn_header(), *records)
    packed = tmp_path / "b.bin"
    half = len(raw.read_bytes()) // 2
    pack = zstandard.ZstdCompressor().compress
    packed.write_bytes(pack(raw.read_bytes()[:half]) + pack(raw.read_bytes()[half:]))  # two frames
    assert looks_like_dbn(raw) and looks_like_dbn(packed)
    assert recognise(packed) == ("order_book", {"file": str(packed)})
    one, other = (record("order_book", {"file": str(path)}) for path in (raw, packed))
    assert [one.title(k) for k in range(len(one))] == [other.title(k) for k in range(len(other))]


def test_pieces_that_cut_records_anywhere_give_the_same_events(tmp_path, monkeypatch):
    records, rows = mbo_day(2, 150)
    path = write(tmp_path / "a.dbn", dbn_header(), *records)
    monkeypatch.setattr("core.markets.readers.streams.PIECE", 4 * 61)
    file = open_dbn(path)
    blocks = list(file.blocks())
    assert len(blocks) > 10
    assert np.concatenate([b.order for b in blocks]).tolist() == [row[1] for row in rows]
    whole = list(forms.whole_events(open_dbn(path).blocks(), 7))
    assert all(block.last[-1] for block in whole) and sum(map(len, whole)) == len(rows)


@pytest.mark.skipif(not ESH4.exists(), reason="the shared data folder is not here")
def test_the_day_of_esh4():
    recording = record("order_book", {"file": str(ESH4)})
    assert all(check.ok for check in recording.checks)
    assert len(recording) == 68_792 and recording.phases[1].first == 8_725
    blocks = list(open_dbn(ESH4).blocks())
    book, action, marks, last, time, crossed, size = EventBook(), [], [], [], [], [], []
    for block in blocks:
        effects = book.run(block)
        action.append(block.action), marks.append(effects.marks), last.append(block.last), time.append(block.time), size.append(block.size)
        crossed.append((effects.bid >= effects.ask) & (effects.ask != NO_PRICE) & (effects.bid != NO_PRICE))
    action, marks, last, time, crossed, size = map(np.concatenate, (action, marks, last, time, crossed, size))
    reopen = 1_703_545_200_000_000_000  # 23:00 UTC
    assert (last & (time >= reopen)).sum() == 46_097 and not (last & crossed & (time >= reopen)).any()
    assert (last & (time < reopen)).sum() == 925 and (last & crossed & (time < reopen)).sum() == 891
    assert (action == forms.CLEAR).sum() == 0
    fills = action == forms.FILL
    own = (marks & OWN_FILL) > 0
    assert fills.sum() == 6_371 and own.sum() == 107 and size[own].sum() == 265
    assert ((marks & REFRESHED) > 0).sum() == 83
    event = np.cumsum(last) - last
    traded = np.bincount(event, weights=size * (action == forms.TRADE))
    filled = np.bincount(event, weights=size * (fills & ~own))
    different = np.flatnonzero(traded != filled)
    assert [(traded[k], filled[k]) for k in different] == [(44, 88)]  # the auction's print
    assert recording.fact("known_executions") == 6_229 and recording.fact("out_of_turn") == 0
    assert recording.panels[0].view.tick == 0.25
    assert LAST == 128
