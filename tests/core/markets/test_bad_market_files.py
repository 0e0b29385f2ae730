"""Damaged and strange market data files: one clear line each, or the right behaviour."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from market_files import dbn_header, itch_add, itch_directory, itch_open, mbo, write
from test_depth_files import HEAD, depth, raw, text, trade

from core.errors import BadInput
from core.markets.doctor.examine import examine
from core.markets.readers.streams import Stream
from core.simulation import record

TRADES = HEAD + "id,side,price,amount"
ROW = "x,X,1583020803145000,1583020803145000,a,buy,5,1"
AGG = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"


def said(path: Path, **params) -> str:
    with pytest.raises(BadInput) as caught:
        record("order_book", {"file": str(path), **params})
    line = str(caught.value)
    assert line.count("\n") == 0 and "Traceback" not in line and len(line) < 400
    return line.removeprefix(str(path))


def sound(kind: str) -> bytes:
    if kind == "dbn":
        pytest.importorskip("databento_dbn")
        return dbn_header() + b"".join(mbo("A", k, "B", 100 - k / 100, k % 7 + 1, at=k) for k in range(1, 400))
    if kind == "itch":
        return itch_open() + itch_directory("TEST") + b"".join(itch_add(k, "B", k, 10.0) for k in range(1, 400))
    if kind == "binance":
        return "".join(f"{1_723_161_255_000_000_000 + k} {trade('100', '1', True)}\n" for k in range(400)).encode()
    return "\n".join([TRADES, *[ROW] * 400, ""]).encode()


@pytest.mark.parametrize("kind", ["dbn", "itch", "binance", "tardis"])
@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_truncated_and_damaged_packed_files_are_refused(tmp_path, kind, packing):
    if packing == "zst":
        zstandard = pytest.importorskip("zstandard")
        data, name = zstandard.ZstdCompressor(write_checksum=True).compress(sound(kind)), "zstandard"
    else:
        data, name = gzip.compress(sound(kind)), "gzip"
    whole = tmp_path / "whole"
    whole.write_bytes(data)
    assert len(record("order_book", {"file": str(whole)})) >= 399
    cut = tmp_path / "cut"
    cut.write_bytes(data[: len(data) * 3 // 4])
    named = {"dbn": "databento"}.get(kind, kind)
    assert f"the {name} data ends too early" in said(cut, format=named)
    bad = tmp_path / "bad"
    bad.write_bytes(data[:-6] + bytes([data[-6] ^ 255]) + data[-5:])
    assert name in said(bad, format=named)
    empty = tmp_path / "empty"
    empty.write_bytes(gzip.compress(b"") if packing == "gz" else zstandard.ZstdCompressor().compress(b""))
    assert "holds nothing" in said(empty, format=named) or "too early" in said(empty, format=named)


@pytest.mark.parametrize("kind", ["databento", "itch", "binance", "tardis"])
def test_missing_empty_and_foreign_files_are_refused(tmp_path, kind):
    assert "no such file" in said(tmp_path / "none", format=kind)
    (tmp_path / "empty").write_bytes(b"")
    assert "empty" in said(tmp_path / "empty", format=kind)
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 40)
    assert said(tmp_path / "noise", format=kind)
    assert "no such file" in said(tmp_path, format=kind)  # a folder


def test_databento_headers_and_records_that_cannot_be(tmp_path):
    pytest.importorskip("databento_dbn")
    header, one = dbn_header(), mbo("A")
    assert "an empty mbo file: a header without records" in said(write(tmp_path / "a", header))
    assert "header is cut off" in said(write(tmp_path / "b", header[:40]))
    assert "cut off after 30 bytes" in said(write(tmp_path / "c", header, one, one[:30]))
    assert "version 1, 2 or 3" in said(write(tmp_path / "d", b"DBN\x09" + header[4:], one), format="databento")
    assert "a record of 0 bytes" in said(write(tmp_path / "e", header, one, bytes(56)))
    assert "action b'Z'" in said(write(tmp_path / "f", header, one, mbo("Z")))
    assert "header that cannot be read" in said(write(tmp_path / "g", header[:8] + b"\xff" * (len(header) - 8), one))
    assert "a header of" in said(write(tmp_path / "h", header[:4] + b"\xff\xff\xff\x7f" + header[8:], one))
    other = bytes([14, 0x20]) + one[2:]
    assert "a file of ohlcv-1s records" in said(write(tmp_path / "i", dbn_header("ohlcv-1s"), other))
    trades = bytes([12, 0x00]) + one[2:48]
    assert "two schemas" in said(write(tmp_path / "j", header, one, trades))


def test_header_lines_that_are_wrong_and_rows_that_do_not_fit(tmp_path):
    assert "line 1: columns id, way, price, amount; allowed: Tardis trades" in said(text(tmp_path / "a", HEAD + "id,way,price,amount", ROW))
    assert "a header without rows" in said(text(tmp_path / "b", TRADES))
    assert "line 3: 7 columns; allowed: 8 columns" in said(text(tmp_path / "c", TRADES, ROW, ROW[:-2]))
    assert "line 2: price is 'five'" in said(text(tmp_path / "d", TRADES, ROW.replace(",5,", ",five,")))
    assert "line 2: amount is -1; allowed: 0 or more" in said(text(tmp_path / "e", TRADES, ROW[:-1] + "-1"))
    assert "price is 'nan'" in said(text(tmp_path / "f", TRADES, ROW.replace(",5,", ",nan,")))
    assert "timestamp is 'noon'" in said(text(tmp_path / "g", TRADES, ROW.replace("1583020803145000", "noon", 1)))
    assert "has 5 digits; allowed: 10 (s)" in said(text(tmp_path / "h", TRADES, ROW.replace("1583020803145000", "12345", 1)))
    assert "one unit of time in the whole file" in said(
        text(tmp_path / "i", TRADES, ROW, ROW.replace("1583020803145000", "1583020803145000000"))
    )
    assert "line 2: 7 columns" in said(text(tmp_path / "j", AGG, "1,2,3,4,5,1723161256000,maybe"))
    assert "line 2" in said(
        text(tmp_path / "k", "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu", "X,1,1,1,c,set,1,1,1")
    )


def test_raw_lines_that_are_no_messages_name_their_line(tmp_path):
    good = trade("100", "1", True)
    assert "line 2: found 'not json'" in said(text(tmp_path / "a", good, "not json"))
    assert "line 2: a message that lacks 'm'" in said(text(tmp_path / "b", good, good.replace('"m"', '"n"')))
    assert "line 2: p is 'dear'" in said(text(tmp_path / "c", good, good.replace('"100"', '"dear"')))
    assert "line 2" in said(text(tmp_path / "d", good, good[:-10]))
    assert "line 2" in said(text(tmp_path / "e", good, "[1, 2]"))
    assert "line 2: T is 'noon'; allowed: a whole number of s" in said(
        text(tmp_path / "f", good, good.replace('"T":1723161256000', '"T":"noon"'))
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_of_either_kind_and_a_missing_last_one_are_read(tmp_path, newline):
    path = tmp_path / "a.csv"
    path.write_bytes(newline.join([TRADES, ROW, ROW]).encode())
    assert len(record("order_book", {"file": str(path)})) == 2
    messages = tmp_path / "b.txt"
    messages.write_bytes(newline.join([trade("100", "1", True)] * 3).encode())
    assert len(record("order_book", {"file": str(messages)})) == 3


def test_times_that_go_back_open_and_fail_their_check_and_the_doctor(tmp_path):
    pytest.importorskip("databento_dbn")
    path = write(tmp_path / "a", dbn_header(), mbo("A", 1, at=50), mbo("A", 2, price=99.0, at=10))
    recording = record("order_book", {"file": str(path)})
    assert [check.name for check in recording.checks if not check.ok] == ["times that go back"]
    assert not examine(path).healthy


def test_prices_of_zero_or_less_and_large_quantities_stay_as_they_are(tmp_path):
    big = 2**31 + 7
    path = text(tmp_path / "a", TRADES, ROW.replace(",5,1", f",-0.25,{big}"), ROW.replace(",5,1", ",0,1"))
    recording = record("order_book", {"file": str(path)})
    assert recording.values(0)["price"] == -0.25 and recording.fact("volume") == big + 1
    found = {finding.name: finding.value for finding in examine(path).findings}
    assert (found["prices of 0 or below"], found["quantities of 2^31 or more"]) == (2, 1)


def test_one_sided_books_have_no_spread(tmp_path):
    path = raw(tmp_path / "a.txt", depth(1, [("100", "1")], previous=0), depth(2, [("100", "0")], previous=1))
    recording = record("order_book", {"file": str(path)})
    assert [recording.fact(name, 0) for name in ("best_bid", "best_ask", "spread")] == [100.0, None, None]
    assert recording.fact("best_bid") is None and recording.panels[0].view.at(1).bids == ()
    assert {f.name: f.value for f in examine(path).findings}["one-sided books"] == 1


def test_halts_are_steps_and_the_book_stays(tmp_path):
    from market_files import itch

    halt = itch("H", b"TEST    " + b"H" + b" " + b"LUDP")
    path = write(tmp_path / "a", itch_open(), itch_directory("TEST"), itch_add(1, "B", 5, 10.0), halt)
    recording = record("order_book", {"file": str(path)})
    assert "state" in recording.title(1) and recording.fact("best_bid", 1) == 10.0
    assert recording.panels[0].view.at(1).bids == recording.panels[0].view.at(0).bids


def test_longer_files_than_a_replay_holds_are_refused_with_the_bound_and_the_doctor_reads_them(tmp_path, monkeypatch):
    pytest.importorskip("databento_dbn")
    path = write(tmp_path / "a", sound("dbn"))
    ticks = text(tmp_path / "b", TRADES, *[ROW] * 400)
    for module in ("events.replay", "depth.replay"):
        monkeypatch.setattr(f"core.markets.{module}.MAX_EVENTS", 300)
    assert "more than 300 events; allowed: at most 300 events for a replay (doctor reads files of any length)" in said(path)
    assert "more than 300 messages" in said(ticks)
    assert examine(path).healthy and examine(ticks).healthy


def test_stream_holds_no_more_than_a_few_pieces_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("core.markets.readers.streams.PIECE", 4096)
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(bytes(3_000_000)))  # a thousand times smaller on disk
    sizes = [len(piece) for piece in Stream(path).pieces()]
    assert sum(sizes) == 3_000_000 and max(sizes) <= 4096
    monkeypatch.setattr("core.markets.readers.streams.LONGEST_LINE", 20_000)
    with pytest.raises(BadInput, match="no line end in"):
        list(Stream(path).lines())
