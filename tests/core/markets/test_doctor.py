"""The data doctor: each fault is put into a sound file by hand, found, and named; the real samples keep their findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from lobster_sample import csv_text, sample_day, write_day
from market_files import dbn_header, itch_add, itch_directory, itch_executed, itch_open, mbo, mbo_day, write
from test_depth_files import depth, raw, text, trade

from core.errors import BadInput
from core.markets.doctor import examine

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
    early = raw(tmp_path / "a.txt", *(trade("100", "1", True) for _ in range(5)))  # received a second before it was sent
    report, found = findings(early)
    assert found["received after the exchange's time (median)"].value == pytest.approx(-1.0, abs=1e-6)
    assert "the local clock is 1 s behind" in found["events received before they were sent"].note and not report.healthy
    late = raw(tmp_path / "b.txt", *(trade("100", "1", True, time=1_723_161_254_000) for _ in range(5)))
    report, found = findings(late)
    assert found["received after the exchange's time (median)"].value == pytest.approx(1.0, abs=1e-6) and report.healthy


def test_unit_of_time_that_is_not_the_formats_own_is_said(tmp_path):
    head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
    for digits, healthy in ((16, True), (19, False), (13, False)):
        stamp = "1583020803145000000"[:digits]
        path = text(tmp_path / f"{digits}.csv", head, f"x,X,{stamp},{stamp},a,buy,5,1")
        assert examine(path).healthy is healthy, digits


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
