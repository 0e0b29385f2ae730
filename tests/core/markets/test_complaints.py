"""What users of such tools complain about, where it concerns the book or the files: each case with the right value.

Engine cases run on the readable book and on the compiled engine; file cases on every format that can hold them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lobster_sample import csv_text
from market_files import dbn_header, itch_add, itch_cancel, itch_delete, itch_directory, itch_executed, itch_open, itch_replace, mbo, write
from test_bad_files_of_every_reader import AGG, DEPTH, FUNDING, T0, lines, opened, zipped
from test_depth_files import depth, ticker, trade

from core.doctor import place_of
from core.markets.doctor.examine import examine
from core.markets.engine.engine import Engine, Rules, message
from core.markets.engine.reports import as_report
from core.markets.matching.book import BUY, SELL, Book, Cancelled, Decremented, Rejected, Rested, Slid, Trade
from core.recognise import recognise
from core.simulation import record

ITCH = itch_open() + itch_directory("TEST")


class Venue:
    """One engine and everything it said; ids count up from 1."""

    def __init__(self, kind, **rules):
        self.heard, self.kind, self.count = [], kind, 0
        self.engine = Book(self.heard.append, **rules) if kind == "readable" else Engine(Rules(**rules))

    def order(self, side, quantity, price=None, kind="limit", **more):
        self.count += 1
        if self.kind == "readable":
            self.engine.submit(self.count, side, quantity, price, kind, **more)
        else:
            self.heard += map(as_report, self.engine.apply(message("submit", self.count, side, quantity, price, kind, **more)))
        return self.count

    def cancel(self, order):
        if self.kind == "readable":
            self.engine.cancel(order)
        else:
            self.heard += map(as_report, self.engine.apply(message("cancel", order)))

    @property
    def trades(self):
        return [(r.price, r.quantity, r.maker, r.taker) for r in self.heard if isinstance(r, Trade)]

    def levels(self, side):
        if self.kind == "readable":
            return [
                (level.price, [(o.order_id, o.quantity) for o in level.orders.values()]) for level in self.engine.side(side).from_best()
            ]
        return [(level.price, list(level.orders)) for level in self.engine.levels(side, 99)]

    def said(self, kind):
        return [report for report in self.heard if isinstance(report, kind)]


@pytest.fixture(params=["readable", "compiled"])
def venue(request):
    return lambda **rules: Venue(request.param, **rules)


# the engine ------------------------------------------------------------------------------------------------------------


def test_partial_fill_leaves_the_rest_in_front_and_every_lot_is_somewhere(venue):
    v = venue()
    v.order(SELL, 10, 100)
    v.order(SELL, 10, 100)
    v.order(BUY, 4, 100)
    assert v.trades == [(100, 4, 1, 3)] and v.levels(SELL) == [(100, [(1, 6), (2, 10)])]
    v.order(BUY, 8, 100)
    assert v.trades[1:] == [(100, 6, 1, 4), (100, 2, 2, 4)] and v.levels(SELL) == [(100, [(2, 8)])]


def test_delete_of_a_stranger_takes_only_that_order_out_of_the_queue(venue):
    v = venue()
    for _ in range(4):
        v.order(BUY, 10, 100)
    v.cancel(2)
    assert v.levels(BUY) == [(100, [(1, 10), (3, 10), (4, 10)])]
    v.order(SELL, 25, 100)
    assert v.trades == [(100, 10, 1, 5), (100, 10, 3, 5), (100, 5, 4, 5)]


def test_second_taker_meets_the_book_that_the_first_one_left(venue):
    v = venue()
    v.order(SELL, 5, 100)
    v.order(SELL, 5, 101)
    v.order(BUY, 5, 102)
    v.order(BUY, 5, 102)
    assert v.trades == [(100, 5, 1, 3), (101, 5, 2, 4)]  # not twice at 100: that liquidity is used up


def test_one_liquidity_fills_one_order(venue):
    v = venue()
    v.order(SELL, 5, 100)
    v.order(BUY, 4, 100, "ioc")
    v.order(BUY, 4, 100, "ioc")
    assert [quantity for _, quantity, _, _ in v.trades] == [4, 1] and v.levels(SELL) == []
    assert [(r.order_id, r.quantity) for r in v.said(Cancelled)] == [(3, 3)]


def test_resting_limit_trades_at_its_price_and_never_through_it(venue):
    v = venue()
    v.order(BUY, 5, 100)
    v.order(SELL, 5, 90)
    assert v.trades == [(100, 5, 1, 2)]
    v.order(BUY, 5, 95)
    v.order(SELL, 5, 96)
    assert v.trades == [(100, 5, 1, 2)] and v.levels(BUY) == [(95, [(3, 5)])]


def test_large_taker_is_taker_for_all_that_crosses_and_maker_for_the_rest(venue):
    v = venue()
    for price in (100, 101, 102):
        v.order(SELL, 10, price)
    v.order(BUY, 50, 102)
    assert v.trades == [(100, 10, 1, 4), (101, 10, 2, 4), (102, 10, 3, 4)]
    assert v.levels(BUY) == [(102, [(4, 20)])] and [(r.order_id, r.quantity) for r in v.said(Rested)][-1] == (4, 20)
    v.order(SELL, 5, 102)
    assert v.trades[-1] == (102, 5, 4, 5)


def test_sweep_goes_on_after_its_first_level(venue):
    v = venue()
    for price in range(100, 110):
        v.order(SELL, 1, price)
    v.order(BUY, 10, None, "market")
    assert [price for price, *_ in v.trades] == list(range(100, 110)) and v.levels(SELL) == []


def test_order_inside_the_spread_is_first_in_line(venue):
    v = venue()
    v.order(BUY, 10, 100)
    v.order(SELL, 10, 110)
    inside = v.order(BUY, 5, 105)
    taker = v.order(SELL, 8, 100)
    assert v.trades == [(105, 5, inside, taker), (100, 3, 1, taker)]


def test_post_only_is_refused_only_where_it_would_take(venue):
    for away, refused in ((2, False), (1, False), (0, True), (-1, True)):
        v = venue(post_only="reject")
        v.order(SELL, 10, 102)
        v.order(BUY, 5, 102 - away, "post_only")
        assert bool(v.said(Rejected)) is refused and v.trades == [], away
        assert v.levels(BUY) == ([] if refused else [(102 - away, [(2, 5)])])
    v = venue(post_only="slide")
    v.order(SELL, 10, 102)
    v.order(BUY, 5, 105, "post_only")
    assert v.levels(BUY) == [(101, [(2, 5)])] and len(v.said(Slid)) == 1


@pytest.mark.parametrize(
    ("rule", "left_of_maker", "traded"),
    [("off", 0, [(100, 5, 1, 3)]), ("newest", 5, []), ("oldest", 0, [(100, 3, 2, 3)]), ("both", 0, []), ("decrement", 2, [])],
)
def test_self_trades_happen_only_where_nothing_prevents_them(venue, rule, left_of_maker, traded):
    v = venue(self_trade=rule)
    v.order(SELL, 5, 100, owner=7)
    v.order(SELL, 9, 100, owner=8)
    v.order(BUY, 5 if rule == "off" else 3, 100, owner=7)
    assert v.trades == traded
    assert dict(v.levels(SELL)[0][1]).get(1, 0) == left_of_maker
    assert bool(v.said(Decremented)) is (rule == "decrement")


def test_size_at_the_best_price_is_that_of_all_orders_there(venue):
    v = venue()
    for quantity in (3, 4, 5):
        v.order(BUY, quantity, 100)
    assert sum(quantity for _, quantity in v.levels(BUY)[0][1]) == 12
    assert (v.engine.side(BUY).best.total if v.kind == "readable" else v.engine.levels(BUY, 1)[0].quantity) == 12


# the files -------------------------------------------------------------------------------------------------------------


def three_orders(tmp_path: Path):
    """The same three bids of 3, 4 and 5 at 100.00 and an ask, in every format that names orders."""
    adds = [(1, "B", 3, 100.0), (2, "B", 4, 100.0), (3, "B", 5, 100.0), (4, "S", 9, 101.0)]
    rows = [["34200.1", 1, n, q, round(p * 10_000), 1 if s == "B" else -1] for n, s, q, p in adds]
    book, seen = [], {}
    for _, _, _, quantity, price, side in rows:
        seen[side] = (price, seen.get(side, (0, 0))[1] + quantity)
        book.append([*seen.get(-1, (9_999_999_999, 0)), *seen.get(1, (-9_999_999_999, 0))])
    return {
        "dbn": (dbn_header() + b"".join(mbo("A", n, "B" if s == "B" else "A", p, q, at=n) for n, s, q, p in adds)),
        "itch": ITCH + b"".join(itch_add(*add) for add in adds),
    }, (rows, book)


def queue_of(recording, step):
    return [(o.order_id, o.quantity) for o in recording.panels[0].view.at(step).bids[0].orders if o.order_id]


def test_best_bid_size_is_the_whole_level_in_every_format(tmp_path):
    pytest.importorskip("databento_dbn")
    files, (rows, book) = three_orders(tmp_path)
    for kind, data in files.items():
        recording = opened(tmp_path / kind, data)
        assert recording.panels[0].view.at(3).bids[0].quantity == 12 == recording.fact("depth[bid]"), kind
    day = zipped(tmp_path / "day.zip", A_message_1=csv_text(rows), A_orderbook_1=csv_text(book))
    recording = record(*recognise(day))
    assert recording.panels[0].view.at(3).bids[0].quantity == 12 and all(check.ok for check in recording.checks)


def test_delete_in_a_file_leaves_the_others_in_their_places(tmp_path):
    pytest.importorskip("databento_dbn")
    files, _ = three_orders(tmp_path)
    gone = {"dbn": mbo("C", 1, "B", 100.0, 3, at=9), "itch": itch_delete(1)}
    for kind, data in files.items():
        recording = opened(tmp_path / kind, data + gone[kind])
        assert recording.panels[0].view.at(4).bids[0].quantity == 9, kind
        assert queue_of(recording, 4) == [(2, 4), (3, 5)], kind


def test_partial_fill_in_a_file_keeps_priority_and_is_counted_once(tmp_path):
    pytest.importorskip("databento_dbn")
    files, _ = three_orders(tmp_path)
    fill = {
        "dbn": mbo("T", 0, "A", 100.0, 2, at=9, last=False)
        + mbo("F", 1, "B", 100.0, 2, at=9, last=False)
        + mbo("M", 1, "B", 100.0, 1, at=9),
        "itch": itch_executed(1, 2),
    }
    for kind, data in files.items():
        recording = opened(tmp_path / kind, data + fill[kind])
        last = len(recording) - 1
        assert queue_of(recording, last) == [(1, 1), (2, 4), (3, 5)], kind
        assert (recording.fact("volume"), recording.fact("volume[sold]")) == (2, 2), kind
        assert examine(tmp_path / kind).healthy


def test_large_taker_of_a_file_counts_with_all_its_fills(tmp_path):
    pytest.importorskip("databento_dbn")
    files, _ = three_orders(tmp_path)
    fills = [(1, 3), (2, 4), (3, 5)]
    records = [mbo("F", n, "B", 100.0, q, at=9, last=False) for n, q in fills] + [
        mbo("C", n, "B", 100.0, q, at=9, last=False) for n, q in fills[:2]
    ]
    records += [mbo("C", 3, "B", 100.0, 5, at=9)]
    whole = files["dbn"] + mbo("T", 0, "A", 100.0, 12, at=9, last=False) + b"".join(records)
    part = files["dbn"] + mbo("T", 0, "A", 100.0, 3, at=9, last=False) + b"".join(records)
    assert examine(write(tmp_path / "a", whole)).healthy
    assert [f.name for f in examine(write(tmp_path / "b", part)).wrong] == ["events whose fills of resting orders are not its trades"]
    swept = opened(tmp_path / "itch", files["itch"] + b"".join(itch_executed(n, q) for n, q in fills))
    assert (swept.fact("volume"), swept.fact("volume[sold]"), swept.fact("best_bid")) == (12, 12, None)


def test_trade_past_a_better_order_is_told_and_the_better_order_stays(tmp_path):
    pytest.importorskip("databento_dbn")
    files, _ = three_orders(tmp_path)
    past = {
        "dbn": mbo("A", 9, "B", 100.5, 1, at=8) + mbo("T", 0, "A", 100.0, 3, at=9, last=False)
        + mbo("F", 1, "B", 100.0, 3, at=9, last=False) + mbo("C", 1, "B", 100.0, 3, at=9),
        "itch": itch_add(9, "B", 1, 100.5) + itch_executed(1, 3),
    }  # fmt: skip
    for kind, data in files.items():
        path = write(tmp_path / kind, data + past[kind])
        (finding,) = examine(path).wrong
        assert finding.name.startswith("ghost orders") and finding.value == 1 and finding.first.step >= 5, kind
        assert record("order_book", {"file": str(path)}).fact("best_bid") == 100.5  # nothing is repaired


def test_order_that_is_filled_before_it_is_placed_is_unknown_and_named(tmp_path):
    pytest.importorskip("databento_dbn")
    early = {
        "dbn": dbn_header() + mbo("T", 0, "A", 100.0, 3, last=False) + mbo("F", 1, "B", 100.0, 3, last=False)
        + mbo("C", 1, "B", 100.0, 3) + mbo("A", 1, "B", 100.0, 3, at=5),
        "itch": ITCH + itch_executed(1, 3) + itch_add(1, "B", 3, 100.0),
    }  # fmt: skip
    for kind, data in early.items():
        report = examine(write(tmp_path / kind, data))
        found = {f.name: f for f in report.findings}
        assert found["events about unknown orders"].ok is False, kind
        assert found["what is known of queues"].value == "estimated"  # not every order is named from a full start


def test_book_is_not_read_while_it_is_being_rebuilt(tmp_path):
    """A replace is a delete and an add, and a sweep's records come one by one: bid >= ask in between means nothing."""
    pytest.importorskip("databento_dbn")
    replaced = ITCH + itch_add(1, "B", 5, 100.0) + itch_add(2, "S", 5, 101.0) + itch_replace(2, 3, 5, 102.0) + itch_replace(1, 4, 5, 101.5)
    moved = dbn_header() + mbo("A", 1, "B", 100.0, 5) + mbo("A", 2, "A", 101.0, 5)
    moved += mbo("M", 1, "B", 101.5, 5, at=5, last=False) + mbo("M", 2, "A", 102.0, 5, at=5)
    for kind, data in (("itch", replaced), ("dbn", moved)):
        recording = opened(tmp_path / kind, data)
        assert examine(tmp_path / kind).healthy and all(check.ok for check in recording.checks), kind
        assert (recording.fact("best_bid"), recording.fact("best_ask")) == (101.5, 102.0), kind
        spreads = [recording.fact("spread", step) for step in range(len(recording))]
        assert all(spread is None or spread > 0 for spread in spreads), kind


def test_snapshot_that_comes_late_does_not_take_the_book_back(tmp_path):
    changes = [depth(k, [("100" if k != 7 else "99.5", str(k))], [("101", "9")], previous=k - 1) for k in range(5, 9)]
    snapshot = '{"lastUpdateId":6,"bids":[["100","6"],["99","1"]],"asks":[["101","9"]]}'
    recording = opened(tmp_path / "a", lines(*changes, snapshot, depth(9, [("98", "1")], previous=8)))
    bids = [(level.price, level.quantity) for level in recording.panels[0].view.at(4).bids]
    assert bids == [(100.0, 8.0), (99.5, 7.0), (99.0, 1.0)]  # updates 7 and 8 are newer than the snapshot
    found = {f.name: f for f in examine(tmp_path / "a").findings}
    assert found["snapshots that came late"].value == 1 and found["gaps in the updates"].value == 0
    stale = [depth(5, [("100", "5")], previous=4), snapshot, depth(6, [("100", "1")], previous=5), depth(7, [("97", "1")], previous=6)]
    recording = opened(tmp_path / "b", lines(*stale))
    assert len(recording) == 3 and recording.panels[0].view.at(2).bids[0].quantity == 6.0  # update 6 is in the snapshot already
    assert {f.name: f.value for f in examine(tmp_path / "b").findings}[
        "messages passed over: depthUpdate older than the snapshot before it"
    ] == 1


@pytest.mark.parametrize(
    ("data", "name", "place"),
    [
        (lines(*(depth(k, [("100", "1")], previous=k - 1) for k in (1, 2, 4))), "gaps in the updates", "step 3, line 3"),
        (lines(*(depth(k, [("100", "1")], previous=k - 1) for k in (1, 2, 2))), "updates sent again", "step 3, line 3"),
        (lines(*(depth(k, [("100", "1")]) for k in (1, 2, 4))), "gaps in the updates", "step 3, line 3"),  # spot: U follows the u before
        (lines(DEPTH, *(f"X,{T0},{u},{u},b,{how},9,1,{pu}" for u, how, pu in ((5, "snap", -1), (6, "set", 5), (9, "set", 8)))),
         "gaps in the updates", "step 3, line 4"),
        (lines(DEPTH, f"X,{T0},1,5,b,snap,9,2,-1", f"X,{T0},8,9,b,set,9,1,7"), "gaps in the updates", "step 2, line 3"),
        (lines(DEPTH, f"X,{T0},1,5,b,snap,9,2,-1", f"X,{T0},5,5,b,set,9,1,4"),
         "updates older than the snapshot before them", "step 2, line 3"),
        (lines(AGG, f"1,5,1,1,1,{T0},true", f"3,5,1,2,2,{T0},true"), "gaps in the trade ids", "step 2, line 3"),
        (lines(AGG, f"1,5,1,1,1,{T0},true", f"1,5,1,1,1,{T0},true"), "trades sent again", "step 2, line 3"),
        (lines(*(trade("5", "1", True, number=k) for k in (7, 8, 11))), "gaps in the trade ids", "step 3, line 3"),
        (lines(*(ticker(k, ("99", "1"), ("100", "1")) for k in (7, 6))), "update ids of best prices that go back", "step 2, line 2"),
    ],
)  # fmt: skip
def test_missing_and_repeated_messages_are_counted_where_the_exchange_numbers_them(tmp_path, data, name, place):
    (finding,) = examine(write(tmp_path / "a", data)).wrong
    assert (finding.name, finding.value, place_of(finding)) == (name, 1, place)


def test_same_liquidity_told_twice_fills_once(tmp_path):
    """A repeated trade is found; a fill larger than its order is too, in every format that names orders."""
    pytest.importorskip("databento_dbn")
    twice = ITCH + itch_add(1, "B", 5, 100.0) + itch_executed(1, 4) + itch_executed(1, 4)
    (finding,) = examine(write(tmp_path / "itch", twice)).wrong
    assert (finding.name, finding.value, finding.first.step) == ("more taken than rested", 1, 2)
    taken = dbn_header() + mbo("A", 1, "B", 100.0, 5) + mbo("C", 1, "B", 100.0, 5, at=1) + mbo("C", 1, "B", 100.0, 5, at=2)
    (finding,) = examine(write(tmp_path / "dbn", taken)).wrong
    assert (finding.name, finding.value, finding.first.step) == ("events about unknown orders", 1, 2)
    less = ITCH + itch_add(1, "B", 5, 100.0) + itch_cancel(1, 2) + itch_executed(1, 3)
    assert examine(write(tmp_path / "sound", less)).healthy


def test_events_are_in_the_order_in_which_they_arrived_not_in_that_of_the_exchanges_clock(tmp_path):
    first = f"1723161257000000000 {trade('100', '1', True, time=T0 + 5, number=1)}"
    second = f"1723161257000000001 {depth(1, [('99', '1')], previous=0, time=T0)}"  # sent before, arrived after
    recording = opened(tmp_path / "a", lines(first, second))
    assert [recording.values(step)["event"] for step in range(2)] == ["trade", "level changes"]
    assert recording.times[0] < recording.times[1]
    found = {f.name: f for f in examine(tmp_path / "a").findings}
    assert found["exchange times that go back between streams"].value == 1 and examine(tmp_path / "a").healthy


@pytest.mark.parametrize(("offset", "early", "behind"), [(-1.25, 5, True), (0.04, 0, False)])
def test_sign_of_a_clock_offset_is_receive_time_less_exchange_time(tmp_path, offset, early, behind):
    start = T0 * 1_000_000 + round(offset * 1e9)
    data = lines(*(f"{start + k} {trade('5', '1', True, number=k)}" for k in range(1, 6)))
    found = {f.name: f for f in examine(write(tmp_path / "a", data)).findings}
    assert found["received after the exchange's time (median)"].value == pytest.approx(offset, abs=1e-6)
    finding = found["events received before they were sent"]
    assert (finding.value, "local clock is 1.25 s behind" in finding.note) == (early, behind)


@pytest.mark.parametrize(("zone", "told"), [(0, "UTC"), (3, "UTC+3"), (4, "UTC+4"), (1, "UTC+1"), (-3, "UTC-3")])
def test_funding_is_paid_at_utc_hours_whatever_the_clock_of_the_file(tmp_path, zone, told):
    rows = [f"X,2024-01-{2 + k // 24:02d} {k % 24:02d}:00:00,0.0001" for k in range(24 + zone, 96 + zone, 8)]
    path = write(tmp_path / "f.csv", lines(FUNDING, *rows))
    recording = record(*recognise(path))
    whens = [recording.values(step)["when"] for step in range(len(recording))]
    assert [when[-5:] for when in whens] == [["00:00", "08:00", "16:00"][k % 3] for k in range(9)]
    finding = next(f for f in examine(path).findings if f.name == "time zone")
    assert (finding.value, finding.ok) == (told, zone == 0) and recording.fact("time_zone") == told


def test_funding_is_in_the_statistics_and_once_a_settlement_not_once_a_candle(tmp_path):
    rows = [f"X,2024-01-{1 + k // 3:02d} {k % 3 * 8:02d}:00:00,{rate}" for k, rate in enumerate([0.0001, -0.0003, 0.0005] * 3)]
    recording = opened(tmp_path / "eight", lines(FUNDING, *rows))
    assert recording.fact("funding_received") == pytest.approx(0.0009) and recording.fact("settlements") == 9
    assert recording.fact("annualised") == pytest.approx(0.0009 / 3 * 365)  # three days of it
    assert recording.fact("longest_negative_run") == 1 and all(check.ok for check in recording.checks)
    hourly = [f"X,2024-01-01 {k:02d}:00:00,0.0001" for k in range(24)]
    recording = opened(tmp_path / "one", lines(FUNDING, *hourly))
    assert recording.fact("annualised") == pytest.approx(0.0024 * 365)  # a venue that settles every hour
    again = lines(FUNDING, *(row for row in rows for _ in range(2)))  # a settlement copied onto a finer timeframe
    finding = next(f for f in examine(write(tmp_path / "twice", again)).findings if f.name == "settlements sent again")
    assert (finding.value, finding.ok, place_of(finding)) == (9, False, "step 2, line 3")
