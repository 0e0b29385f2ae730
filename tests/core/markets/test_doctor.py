"""The data doctor: each fault is put into a sound file by hand, found, and named; the real samples keep their findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from lobster_sample import csv_text, sample_day, write_day
from market_files import dbn_header, itch_add, itch_directory, itch_executed, itch_open, mbo, mbo_day, write
from test_depth_files import depth, raw, text, trade

from core.errors import BadInput
from core.markets.doctor.examine import examine

DATA = Path(__file__).resolve().parents[3] / "../shared/data"
CROSSED, GHOSTS = "books crossed or locked outside an auction", "ghost orders: events that trade past a better price"


def findings(path, **more):
    report = examine(path, **more)
    return report, {finding.name: finding for finding in report.findings}


def wrong(path, **more):
    return {f.name: f.value for f in examine(path, **more).findings if f.ok is False}


@pytest.fixture
def sound(tmp_path):
    """Records of a consistent day; a test adds a fault at its end."""
    pytest.importorskip("databento_dbn")
    records, _ = mbo_day(11, 300)

    def with_fault(*more: bytes) -> Path:
        return write(tmp_path / "day.dbn", dbn_header(), *records, *more)

    return with_fault


NOW = 10_000_000_000


def test_sound_file_has_nothing_wrong(sound):
    report, found = findings(sound())
    assert report.healthy and wrong(sound()) == {}
    assert found["first in, first out"].value == 1.0 and found["what is known of queues"].value == "exact"
    assert found["time unit"].value == "ns" and found["first event"].value.startswith("2023-12-25 00:00:00")


@pytest.mark.parametrize(
    ("fault", "name", "value"),
    [
        (lambda: mbo("A", 1, "B", 1.0, 1, at=NOW) + mbo("A", 1, "B", 1.0, 2, at=NOW), "adds of an id that rests already", None),
        (lambda: mbo("C", 999_999, "B", 1.0, 1, at=NOW), "events about unknown orders", 1),
        (lambda: mbo("A", 999_999, "B", 1.0, 5, at=NOW) + mbo("C", 999_999, "B", 1.0, 6, at=NOW), "more taken than rested", 1),
        (lambda: mbo("N", at=NOW) + mbo("N", at=NOW - 5_000), "exchange times that go back", 1),
        (lambda: mbo("N", at=NOW, event=NOW + 7), "events received before they were sent", 1),
        (lambda: mbo("A", 999_999, "B", 500.0, 1, at=NOW), CROSSED, 1),
    ],
    ids=["duplicate", "unknown", "too much", "back", "skew", "crossed"],
)
def test_one_fault_is_found_and_named(sound, fault, name, value):
    found = wrong(sound(fault()))
    assert name in found and (value is None or found[name] == value)


def test_ghosts_out_of_turn_and_uneven_fills_are_found(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "B", 100.0, 5), mbo("A", 3, "B", 99.0, 5), mbo("A", 4, "A", 101.0, 5)]
    past = [mbo("T", 9, "A", 99.0, 5, last=False), mbo("F", 3, "B", 99.0, 5, last=False), mbo("C", 3, "B", 99.0, 5)]
    assert wrong(write(tmp_path / "g.dbn", dbn_header(), *book, *past)) == {GHOSTS: 1}
    late = [mbo("T", 9, "A", 100.0, 5, last=False), mbo("F", 2, "B", 100.0, 5, last=False), mbo("C", 2, "B", 100.0, 5)]
    _, found = findings(write(tmp_path / "f.dbn", dbn_header(), *book, *late))
    assert found["first in, first out"].value == 0.0
    uneven = [mbo("T", 9, "A", 100.0, 4, last=False), mbo("F", 1, "B", 100.0, 5, last=False), mbo("C", 1, "B", 100.0, 5)]
    assert list(wrong(write(tmp_path / "u.dbn", dbn_header(), *book, *uneven)).values()) == [1]


def test_crossed_states_count_when_trading_goes_on_without_an_auction(tmp_path):
    pytest.importorskip("databento_dbn")
    crossed = [mbo("A", 1, "B", 102.0, 5), mbo("A", 2, "A", 101.0, 5)]
    goes_on = [mbo("T", 9, "A", 102.0, 5, last=False), mbo("F", 1, "B", 102.0, 5, last=False), mbo("C", 1, "B", 102.0, 5)]
    assert wrong(write(tmp_path / "a.dbn", dbn_header(), *crossed, *goes_on)) == {CROSSED: 1}


def test_file_that_ends_too_early_keeps_what_was_found_before(sound, tmp_path):
    cut = tmp_path / "cut.dbn"
    cut.write_bytes(sound().read_bytes()[:-20])
    report, found = findings(cut)
    assert found["readable to its end"].ok is False and "cut off after 36 bytes" in found["readable to its end"].note
    assert not report.healthy and found["events"].value > 100


def test_gap_repeat_and_crossed_book_in_level_changes(tmp_path):
    chain = [depth(k, [("100", str(k))], [("101", "1")], previous=k - 1) for k in range(1, 9)]
    assert examine(str(raw(tmp_path / "a.txt", *chain))).findings and "gaps in the updates" not in wrong(raw(tmp_path / "a.txt", *chain))
    assert wrong(raw(tmp_path / "b.txt", *chain[:3], *chain[4:]))["gaps in the updates"] == 1
    assert wrong(raw(tmp_path / "c.txt", *chain[:4], *chain[3:]))["updates sent again"] == 1
    crossed = depth(9, [("101", "4")], previous=8)
    assert wrong(raw(tmp_path / "d.txt", *chain, crossed))["books crossed or locked"] == 1


def test_skew_between_clocks_has_its_sign(tmp_path):
    early = raw(tmp_path / "a.txt", *(trade("100", "1", True, number=k) for k in range(1, 6)))  # received a second before it was sent
    report, found = findings(early)
    assert found["received after the exchange's time (median)"].value == pytest.approx(-1.0, abs=1e-6)
    assert "the local clock is 1 s behind" in found["events received before they were sent"].note and not report.healthy
    late = raw(tmp_path / "b.txt", *(trade("100", "1", True, time=1_723_161_254_000, number=k) for k in range(1, 6)))
    report, found = findings(late)
    assert found["received after the exchange's time (median)"].value == pytest.approx(1.0, abs=1e-6) and report.healthy


def test_unit_of_time_that_is_not_the_formats_own_is_said(tmp_path):
    head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
    for digits, healthy in ((16, True), (19, False), (13, False)):
        stamp = "1583020803145000000"[:digits]
        path = text(tmp_path / f"{digits}.csv", head, f"x,X,{stamp},{stamp},a,buy,5,1")
        assert examine(path).healthy is healthy, digits


def test_silence_is_between_events_so_a_file_of_one_has_none(tmp_path):
    for messages, silences in (((depth(1),), []), ((depth(1), depth(2, previous=1, time=1_723_161_258_000)), [2.0])):
        report = examine(raw(tmp_path / f"{len(messages)}.txt", *messages))
        assert [one.value for one in report.findings if one.name == "longest silence"] == silences


def test_lobster_day_is_held_against_its_orderbook_and_a_changed_row_is_found(tmp_path):
    message = write_day(tmp_path)
    report, found = findings(message)
    assert report.healthy and found["what is known of queues"].value == "lump"
    rows = [list(row) for row in sample_day()[1]]
    rows[200][1] += 1
    message.with_name(message.name.replace("message", "orderbook")).write_text(csv_text(rows))
    assert not examine(message).healthy
    lines = message.read_text().splitlines()
    message.write_text("\n".join([*lines[:5], lines[20], *lines[5:]]) + "\n")
    assert list(wrong(message)) == ["readable to its end"]


def test_itch_ghosts_and_queues(tmp_path):
    book = [itch_open(), itch_directory("TEST"), itch_add(1, "B", 100, 10.0), itch_add(2, "B", 100, 10.0), itch_add(3, "S", 9, 11.0)]
    _, found = findings(write(tmp_path / "a.itch", *book, itch_executed(1, 50), itch_executed(2, 50)))
    assert found["first in, first out"].value == 0.5
    better = itch_add(4, "B", 5, 10.5)
    assert wrong(write(tmp_path / "b.itch", *book, better, itch_executed(1, 50))) == {GHOSTS: 1}


def test_zone_and_missing_settlements_of_a_funding_file(tmp_path):
    days = [f"X,2024-01-{day:02d} {hour:02d}:00:00.000,0.0001" for day in (1, 2) for hour in (0, 8, 16)]
    assert examine(text(tmp_path / "a.csv", "Symbol,Date,Funding Rate", *days)).healthy
    assert wrong(text(tmp_path / "b.csv", "Symbol,Date,Funding Rate", *days[:2], *days[3:])) == {"missing settlements": 1}
    moved = [row.replace(" 00", " 03").replace(" 08", " 11").replace(" 16", " 19") for row in days]
    assert wrong(text(tmp_path / "c.csv", "Symbol,Date,Funding Rate", *moved)) == {"time zone": "UTC+3"}


def test_file_that_is_no_market_data_is_refused(tmp_path):
    with pytest.raises(BadInput):
        examine(text(tmp_path / "a.txt", "hello"))
    with pytest.raises(BadInput, match="format: found 'csv'"):
        examine(text(tmp_path / "a.txt", "hello"), format="csv")


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
def test_the_samples_keep_their_findings():
    report, found = findings(DATA / "databento/esh4-glbx-mdp3-20231225.mbo.dbn.zst")
    assert report.healthy and found["iceberg refreshes"].value == 83 and found["books crossed or locked in an auction"].value == 891
    assert found["first in, first out"].value == 1.0 and found["events that tell what rested before"].value == 8_725
    report, found = findings(DATA / "binance/usdm_btcusdt_20240808.gz")
    assert [f.name for f in report.findings if f.ok is False] == ["events received before they were sent"]
    assert found["received after the exchange's time (median)"].value == pytest.approx(-1.27, abs=0.005)
    report, found = findings(DATA / "binance/BTC-USDT_binance_2020-01-01_2024-01-01_funding_history.csv")
    assert found["settlements"].value == 4_383 and found["time zone"].value == "UTC+3"
    assert found["sum of rates"].value == pytest.approx(0.5988, abs=5e-5)
    assert found["share of rates that are exactly 0.01 %"].value == pytest.approx(0.407, abs=5e-4)
    assert found["share of positive rates"].value == pytest.approx(0.865, abs=5e-4)


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
@pytest.mark.parametrize(
    ("name", "naive", "unseen", "hidden"), [("AMZN_2012-06-21_1", 0.805, 4_492, 0.244), ("GOOG_2012-06-21_1", 0.597, 3_572, 0.303)]
)
def test_the_lobster_samples_keep_their_findings(name, naive, unseen, hidden):
    report, found = findings(DATA / f"lobster/LOBSTER_SampleFile_{name}.zip")
    assert report.healthy
    assert found["out of turn when ghosts stay"].value == pytest.approx(naive, abs=5e-4)
    assert found["executions of orders never seen resting"].value == unseen
    assert found["share of hidden volume"].value == pytest.approx(hidden, abs=5e-4)
    assert 0.9988 <= found["first in, first out"].value <= 0.9993


def test_lost_messages_of_a_databento_file_are_told_by_its_marks_and_numbers(tmp_path):
    pytest.importorskip("databento_dbn")
    whole = [mbo("N", at=k, sequence=k) for k in range(300)]
    report, found = findings(write(tmp_path / "a.dbn", dbn_header(), *whole))
    assert report.healthy and found["gaps in the sequence numbers"].ok is True
    lost = write(tmp_path / "b.dbn", dbn_header(), *whole[:100], *whole[103:])
    finding = findings(lost)[1]["gaps in the sequence numbers"]
    assert (finding.value, finding.ok, finding.first.step, finding.note) == (1, False, 100, "3 numbers are missing")
    part = write(tmp_path / "c.dbn", dbn_header(), *whole[::7])  # every seventh: the rest belongs to other instruments
    report, found = findings(part)
    assert report.healthy and found["gaps in the sequence numbers"].ok is None
    marked = write(tmp_path / "d.dbn", dbn_header(), *whole[:9], mbo("N", at=9, sequence=9, flags=4))
    assert wrong(marked) == {"records after a gap that the feed could not fill": 1}
    assert findings(marked)[1]["records after a gap that the feed could not fill"].first.place == "record 10"


def test_archive_of_messages_is_looked_at_without_replaying_it(tmp_path):
    import numpy as np

    columns = {
        "type": [0, 0, 1, 2, 1, 0], "side": [0, 1, 0, 0, 0, 1], "ioc": [0] * 6, "quantity": [5, 5, 0, 3, 0, 2**31],
        "order_id": [1, 1, 1, 9, 7, 7], "price": [100, 101, 0, 100, 0, -1],
    }  # fmt: skip
    path = tmp_path / "m.npz"
    np.savez(path, **{name: np.array(values, dtype=np.int64) for name, values in columns.items()})
    report = examine(path)
    assert {f.name: (f.value, f.first.step) for f in report.wrong} == {"new orders under an id used before": (1, 1)}
    told = {f.name: (f.value, f.first.step) for f in report.findings if f.first.step >= 0 and f.ok is None}
    assert told == {
        "messages about ids never seen": (1, 3), "messages about ids that come later": (1, 4),
        "prices of 0 or below": (1, 5), "quantities of 2^31 or more": (1, 5),
    }  # fmt: skip
    path.write_bytes(path.read_bytes()[:-40])
    assert [f.name for f in examine(path, format="messages").wrong] == ["readable to its end"]


def test_every_finding_says_what_it_means_and_a_wrong_one_where_it_begins(tmp_path):
    pytest.importorskip("databento_dbn")
    nothing = [mbo("N", at=NOW), mbo("N", at=NOW - 5_000, event=NOW), mbo("C", 99, at=NOW + 1), mbo("A", 5, "B", -1.0, 3, at=NOW + 2)]
    files = [
        write(tmp_path / "a.dbn", dbn_header(), *nothing), write_day(tmp_path),
        raw(tmp_path / "b.txt", *(depth(k, [("100", "1")], previous=k - 1) for k in (1, 2, 2, 5)), trade("5", "1", True)),
        text(tmp_path / "f.csv", "Symbol,Date,Funding Rate", *["X,2024-01-01 03:00:00,0.1"] * 2, "X,2024-01-05 03:00:00,0.1"),
    ]  # fmt: skip
    for path in files:
        report = examine(path)
        assert all(finding.means for finding in report.findings), [f.name for f in report.findings if not f.means]
        assert all(finding.first.step >= 0 for finding in report.wrong), [f.name for f in report.wrong if f.first.step < 0]


def test_lobster_row_that_does_not_follow_is_found_with_its_line(tmp_path):
    message = write_day(tmp_path)
    rows = [list(row) for row in sample_day()[1]]
    rows[200][1] += 1
    message.with_name(message.name.replace("message", "orderbook")).write_text(csv_text(rows))
    finding = next(f for f in examine(message).wrong if f.name.startswith("previous row"))
    assert (finding.first.step, finding.first.place) == (200, "line 201")


def test_places_are_right_beyond_the_first_block(tmp_path):
    pytest.importorskip("databento_dbn")
    head, at = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount", 1_583_020_803_145_000
    rows = [f"x,X,{at + k},{at + k + (-1 if k == 2_345 else 1)},{k},buy,{0 if k == 2_346 else 5},1" for k in range(2_400)]
    found = findings(text(tmp_path / "a.csv", head, *rows))[1]
    places = [found[name].first for name in ("events received before they were sent", "prices of 0 or below")]
    assert [(first.step, first.place) for first in places] == [(2_345, "line 2,347"), (2_346, "line 2,348")]
    records = [mbo("A", k, "B", 50.0, 1, at=k) for k in range(1, 4_500)]
    late = [mbo("C", 99_999, at=4_600), mbo("A", 1, "B", 51.0, 1, at=4_601)]
    found = findings(write(tmp_path / "b.dbn", dbn_header(), *records, *late))[1]
    assert found["events about unknown orders"].first.step == 4_499
    assert found["adds of an id that rests already"].first.step == 4_500


def test_ghosts_and_uneven_events_are_placed_where_they_happen(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "B", 100.0, 5), mbo("A", 3, "B", 99.0, 5), mbo("A", 4, "A", 101.0, 5)]
    past = [mbo("T", 9, "A", 99.0, 5, last=False), mbo("F", 3, "B", 99.0, 5, last=False), mbo("C", 3, "B", 99.0, 5)]
    uneven = [mbo("T", 9, "A", 100.0, 4, last=False), mbo("F", 1, "B", 100.0, 5, last=False), mbo("C", 1, "B", 100.0, 5)]
    ghost = findings(write(tmp_path / "g.dbn", dbn_header(), *book, *past))[1][GHOSTS]
    odd = findings(write(tmp_path / "u.dbn", dbn_header(), *book, *uneven))[1]["events whose fills of resting orders are not its trades"]
    assert (ghost.first.step, odd.first.step) == (6, 6)  # where the exchange's event is complete


def test_orders_without_a_side_and_the_end_of_an_itch_day_are_told(tmp_path):
    pytest.importorskip("databento_dbn")
    path = write(tmp_path / "a.dbn", dbn_header(), mbo("A", 1, "N", 100.0, 3))
    assert wrong(path) == {"orders without a side": 1}
    day = [itch_open(), itch_directory("TEST"), itch_add(1, "B", 100, 10.0)]
    ends = "ends with the feed's end of messages"
    assert findings(write(tmp_path / "b.itch", *day))[1][ends].value is False
    assert findings(write(tmp_path / "c.itch", *day, itch_open("C")))[1][ends].value is True
