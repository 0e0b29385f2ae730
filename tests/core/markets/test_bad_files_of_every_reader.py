"""One fault after the other in a file of every reader: a clear line with file and place, or the right numbers; never anything else."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import zipfile
from pathlib import Path

import pytest
from lobster_sample import csv_text, sample_day
from market_files import (
    dbn_header,
    itch,
    itch_add,
    itch_cross,
    itch_directory,
    itch_executed,
    itch_open,
    mbo,
    write,
)  # fmt: skip
from test_depth_files import HEAD, depth, ticker, trade

from core.doctor import place_of
from core.errors import BadInput
from core.markets.doctor.examine import examine
from core.recognise import recognise
from core.simulation import record

T0 = 1_723_161_256_000
AGG = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
TICKER = "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time"
DEPTH = "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu"
FUNDING, BINANCE_FUNDING = "Symbol,Date,Funding Rate", "calc_time,funding_interval_hours,last_funding_rate"
TARDIS = HEAD + "id,side,price,amount"
QUOTES = HEAD + "ask_amount,ask_price,bid_price,bid_amount"
TARDIS_ROW = "x,X,1583020803145000,1583020803145000,a,{side},{price},{size}"


def lines(*rows: str) -> bytes:
    return ("\n".join(rows) + "\n").encode()


TEXTS: dict[str, bytes] = {
    "raw": lines(*(f"{1_723_161_257_000_000_000 + k} {trade('100', '1', True, number=k + 1)}" for k in range(9))),
    "aggTrades": lines(AGG, *(f"{k},100.5,2,1,1,{T0 + k},true" for k in range(1, 9))),
    "bookTicker": lines(TICKER, *(f"{k},99.5,2,100.5,3,{T0 + k},{T0 + k}" for k in range(1, 9))),
    "depth": lines(DEPTH, f"X,{T0},1,1,b,snap,99.5,2,-1", f"X,{T0},1,1,a,snap,100.5,3,-1", f"X,{T0 + 1},2,3,b,set,99.5,0,1"),
    "funding": lines(FUNDING, *(f"X,2024-01-0{day} {hour:02d}:00:00.000,0.0001" for day in (1, 2) for hour in (0, 8, 16))),
    "calc_time": lines(BINANCE_FUNDING, *(f"{1_704_067_200_000 + k * 28_800_000},8,0.0001" for k in range(6))),
    "trades": lines(TARDIS, *[TARDIS_ROW.format(side="buy", price=5, size=1)] * 6),
    "quotes": lines(QUOTES, "x,X,1583020803145000,1583020803145000,5,101,99,3"),
    "lobster": csv_text(sample_day(1, 40)[0]).encode(),
}
STEPS = {"raw": 9, "aggTrades": 8, "bookTicker": 8, "depth": 2, "funding": 6, "calc_time": 6, "trades": 6, "quotes": 1, "lobster": 40}


def opened(path: Path, data: bytes):
    path.write_bytes(data)
    return record(*recognise(path))


def said(path: Path, data: bytes | None = None, *, sure: bool = False) -> str:
    """The line that the command line prints, without the path; ``sure`` goes past recognition, as `run order_book --set file=` does."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        record(*(("order_book", {"file": str(path)}) if sure else recognise(path)))
    line = str(caught.value)
    assert "\n" not in line and "Traceback" not in line and line.startswith(str(path)) and "allowed: " in line
    return line.removeprefix(str(path))


def test_every_text_reader_is_here_and_reads_its_sound_file(tmp_path):
    for kind, data in TEXTS.items():
        assert len(opened(tmp_path / kind, data)) == STEPS[kind], kind


@pytest.mark.parametrize("kind", TEXTS)
def test_byte_order_marks_line_ends_blank_lines_and_a_missing_last_end_change_nothing(tmp_path, kind):
    sound = TEXTS[kind]
    variants = [b"\xef\xbb\xbf" + sound, sound.replace(b"\n", b"\r\n"), sound.rstrip(b"\n"), sound + b"\n\n"]
    variants.append(b"\xef\xbb\xbf" + sound.replace(b"\n", b"\r\n"))
    want = opened(tmp_path / "want", sound)
    for number, data in enumerate(variants):
        got = opened(tmp_path / f"{number}", data)
        assert [got.title(k) for k in range(len(got))] == [want.title(k) for k in range(len(want))], number


@pytest.mark.parametrize("kind", TEXTS)
def test_utf_16_and_bare_carriage_returns_are_named(tmp_path, kind):
    text = TEXTS[kind].decode()
    assert "text in UTF-16" in said(tmp_path / "a", text.encode("utf-16"))
    assert "byte 0: text in UTF-16; allowed: text in UTF-8 or ASCII" in said(tmp_path / "a", sure=True)
    if kind != "raw":  # one line of JSON after the other needs no line end to be cut
        assert "line 1: lines that end in \\r alone" in said(tmp_path / "b", text.replace("\n", "\r").encode(), sure=True)


@pytest.mark.parametrize("kind", TEXTS)
def test_last_line_that_is_cut_names_its_line_and_the_lines_before_it_stand(tmp_path, kind):
    data = TEXTS[kind]
    last = data.rstrip(b"\n").rsplit(b"\n", 1)[1]
    cut = data.rstrip(b"\n")[: -len(last) * 2 // 3]
    number = data.count(b"\n")
    assert f"line {number}: " in said(tmp_path / "a", cut)
    if STEPS[kind] > 2 and kind not in ("funding", "calc_time", "lobster"):
        report = examine(tmp_path / "a")
        found = {finding.name: finding for finding in report.findings}
        assert place_of(found["readable to its end"]) == f"step {STEPS[kind] - 1}, line {number}"
        assert found["events"].value == STEPS[kind] - 1
    assert not examine(tmp_path / "a").healthy


@pytest.mark.parametrize("kind", [*TEXTS, "dbn", "itch"])
@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_packed_data_that_ends_too_early_or_is_damaged_says_at_which_byte(tmp_path, kind, packing):
    zstandard = pytest.importorskip("zstandard")
    pytest.importorskip("databento_dbn")
    records = {"dbn": dbn_header() + mbo("A") * 9, "itch": itch_open() + itch_directory("TEST") + itch_add(1, "B", 5, 10.0)}
    sound = {**TEXTS, **records}[kind]
    data = gzip.compress(sound) if packing == "gz" else zstandard.ZstdCompressor(write_checksum=True).compress(sound)
    name = "gzip" if packing == "gz" else "zstandard"
    if kind != "lobster":
        assert len(opened(tmp_path / "whole", data)) > 0
    else:
        assert f"{name} data that starts with '34200" in said(tmp_path / "whole", data)  # LOBSTER comes as zip or as CSV
    cut = data[: len(data) - 3]
    if kind != "lobster":
        assert f"byte {len(cut)}: the {name} data ends too early" in said(tmp_path / "cut", cut, sure=True)
        assert not examine(tmp_path / "cut").healthy
    assert name in said(tmp_path / "half", data[: len(data) // 4], sure=True)


@pytest.mark.parametrize("kind", TEXTS)
def test_empty_days(tmp_path, kind):
    assert "empty" in said(tmp_path / "a", b"") and "empty" in said(tmp_path / "a", sure=True)
    if kind not in ("raw", "lobster"):  # those have no header
        line = said(tmp_path / "b", TEXTS[kind].split(b"\n", 1)[0] + b"\n")
        assert any(word in line for word in ("without rows", "no message of any"))
        with contextlib.suppress(BadInput):  # not even a symbol to look at
            assert not examine(tmp_path / "b").healthy


def test_empty_days_of_binary_formats_and_zips(tmp_path):
    pytest.importorskip("databento_dbn")
    assert "an empty mbo file: a header without records" in said(tmp_path / "a", dbn_header())
    assert "no order in it" in said(tmp_path / "b", itch_open() + itch_directory("TEST"))
    assert "A_message_1.csv: the file is empty" in said(zipped(tmp_path / "c", A_message_1="", A_orderbook_1=""), sure=True)
    assert "an empty zip archive" in said(zipped(tmp_path / "d"))


def zipped(path: Path, **files: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.csv", data)
    return path


def test_lobster_zips_that_do_not_fit_together(tmp_path):
    messages, rows = (csv_text(part) for part in sample_day(1, 40))
    assert "2 message files" in said(zipped(tmp_path / "a", A_message_1=messages, B_message_1=messages))
    less, more = "\n".join(rows.splitlines()[:-5]) + "\n", rows + rows
    assert "A_orderbook_3.csv: 35 rows; allowed: 40 rows" in said(zipped(tmp_path / "b", A_message_3=messages, A_orderbook_3=less))
    assert "40 rows, one for each message" in said(zipped(tmp_path / "c", A_message_3=messages, A_orderbook_3=more))
    sound = zipped(tmp_path / "d", A_message_3=b"\xef\xbb\xbf" + messages.encode(), A_orderbook_3=b"\xef\xbb\xbf" + rows.encode())
    assert len(record(*recognise(sound))) == 40 and examine(sound).healthy
    whole = sound.read_bytes()
    assert "damaged zip" in said(tmp_path / "e", whole[: len(whole) // 2], sure=True)
    flipped = bytearray(whole)
    flipped[200] ^= 255
    assert "Bad CRC-32" in said(tmp_path / "f", bytes(flipped), sure=True)


def test_mixed_symbols_the_busiest_is_read_and_the_note_says_so(tmp_path):
    pytest.importorskip("databento_dbn")
    other = b"1723161257000000000 " + trade("7", "1", True).replace('"X"', '"Y"').encode() + b"\n"
    files = {
        "raw": TEXTS["raw"] + other,
        "depth": TEXTS["depth"] + f"Y,{T0 + 2},2,3,b,set,7,1,1\n".encode(),
        "trades": TEXTS["trades"] + TARDIS_ROW.format(side="buy", price=7, size=1).replace(",X,", ",Y,").encode() + b"\n",
        "funding": TEXTS["funding"] + b"Y,2024-01-01 00:00:00.000,0.5\n",
        "dbn": dbn_header(symbols={"X": 7, "Y": 9}) + mbo("A", 1) + mbo("A", 2) + mbo("A", 3, instrument=9),
        "itch": itch_open()
        + itch_directory("X")
        + itch_directory("Y", 2)
        + itch_add(1, "B", 5, 10.0) * 2
        + itch_add(3, "B", 5, 1.0, locate=2),
    }
    for kind, data in files.items():
        recording = opened(tmp_path / kind, data)
        assert recording.fact("symbol") == "X" and "busiest of 2" in recording.facts["symbol"].note, kind
        assert len(recording) == STEPS.get(kind, 2), kind
        assert {f.name for f in examine(tmp_path / kind).findings} >= {"instruments"}
        with pytest.raises(BadInput, match="no 'NIX'"):
            record("order_book", {"file": str(tmp_path / kind), "symbol": "NIX"})


def test_times_that_go_back_are_refused_or_told_with_their_place(tmp_path):
    pytest.importorskip("databento_dbn")
    rows = sample_day(1, 3)[0]
    rows[2][0] = "1.0"
    assert "line 3: time goes back" in said(tmp_path / "lobster", csv_text(rows).encode())
    back = {
        "agg": (lines(AGG, f"1,5,1,1,1,{T0},true", f"2,5,1,1,1,{T0 - 9},true"), "step 2, line 3"),
        "raw": (lines(*(f"1723161257000000000 {trade('5', '1', True, T0 - k, k + 1)}" for k in range(2))), "step 2, line 2"),
        "funding": (lines(FUNDING, "X,2024-01-02 00:00:00,0.0001", "X,2024-01-01 00:00:00,0.0001"), "step 2, line 3"),
        "dbn": (dbn_header() + mbo("A", 1, at=50) + mbo("A", 2, price=99.0, at=10), "step 2"),
        "itch": (itch_open() + itch_directory("TEST") + itch_add(1, "B", 5, 10.0, time=9) + itch_add(2, "B", 5, 10.0, time=5), "step 2"),
    }
    for kind, (data, place) in back.items():
        write(tmp_path / kind, data)
        found = {f.name: f for f in examine(tmp_path / kind).findings}
        finding = found.get("exchange times that go back") or found["times that go back"]
        assert (finding.ok, finding.value, place_of(finding)) == (False, 1, place), kind


def test_prices_of_zero_or_below_stay_where_spreads_may_have_them(tmp_path):
    pytest.importorskip("databento_dbn")
    kept = {
        "agg": lines(AGG, f"1,-0.25,1,1,1,{T0},true"), "raw": lines(trade("-0.25", "1", True)),
        "ticker": lines(TICKER, f"1,-0.25,2,100.5,3,{T0},{T0}"), "depth": lines(DEPTH, f"X,{T0},1,1,b,snap,-0.25,2,-1"),
        "trades": lines(TARDIS, TARDIS_ROW.format(side="buy", price=-0.25, size=1)), "dbn": dbn_header() + mbo("A", 1, "B", -0.25, 3),
    }  # fmt: skip
    for kind, data in kept.items():
        recording = opened(tmp_path / kind, data)
        shown = recording.values(0)["price"] if kind in ("agg", "raw", "trades", "dbn") else recording.fact("best_bid")
        assert shown == -0.25, kind
        assert {f.name: f.value for f in examine(tmp_path / kind).findings}["prices of 0 or below"] == 1, kind
    for price in (0, -100):
        row = ["34200.1", 1, 5, 100, price, 1]
        assert f"line 1: price {price}; allowed: a price above 0" in said(tmp_path / "lobster", csv_text([row]).encode())


def test_quantities_over_32_bits_are_summed_as_they_are(tmp_path):
    pytest.importorskip("databento_dbn")
    big = 2**33 + 5
    kept = {
        "agg": lines(AGG, f"1,5,{big},1,1,{T0},true", f"2,5,{big},1,1,{T0},false"),
        "raw": lines(*(trade("5", str(big), True, number=k) for k in (1, 2))),
        "trades": lines(TARDIS, *[TARDIS_ROW.format(side="buy", price=5, size=big)] * 2),
        "lobster": csv_text([["34200.1", 5, 0, big, 100, 1]] * 2).encode(),
    }
    for kind, data in kept.items():
        assert opened(tmp_path / kind, data).fact("volume") == 2 * big, kind
        assert {f.name: f.value for f in examine(tmp_path / kind).findings}["quantities of 2^31 or more"] == 2, kind
    most = 2**32 - 1  # what the formats' four bytes hold
    recording = opened(tmp_path / "dbn", dbn_header() + mbo("A", 1, size=most) + mbo("A", 2, size=most))
    assert recording.fact("depth[bid]") == 2 * most
    finding = next(f for f in examine(tmp_path / "dbn").findings if f.name == "quantities of 2^31 or more")
    assert (finding.value, finding.first.step) == (2, 0)
    adds = itch_add(1, "B", most, 10.0) + itch_add(2, "B", most, 10.0) + itch_executed(1, most)
    recording = opened(tmp_path / "itch", itch_open() + itch_directory("TEST") + adds)
    assert (recording.fact("depth[bid]"), recording.fact("volume")) == (most, most)


def test_one_sided_books_have_neither_mid_nor_spread(tmp_path):
    pytest.importorskip("databento_dbn")
    single = {
        "dbn": dbn_header() + mbo("A", 1, "B", 5.0, 3), "itch": itch_open() + itch_directory("TEST") + itch_add(1, "B", 5, 10.0),
        "raw": lines(depth(1, [("100", "1")], previous=0)), "depth": lines(DEPTH, f"X,{T0},1,1,b,snap,100,2,-1"),
        "quotes": lines(QUOTES, "x,X,1583020803145000,1583020803145000,,,99,3"),
        "lobster": csv_text([["34200.1", 1, 5, 100, 100, 1]]).encode(),
    }  # fmt: skip
    for kind, data in single.items():
        recording = opened(tmp_path / kind, data)
        assert [recording.fact(name) for name in ("best_ask", "spread", "mid")] == [None] * 3, kind
        assert recording.fact("best_bid") is not None
        frame = recording.panels[0].view.at(0)
        assert frame.asks == () and len(frame.bids) == 1
        assert {f.name: f.value for f in examine(tmp_path / kind).findings}["one-sided books"] == 1, kind


def test_halts_and_auctions_are_steps_and_leave_the_book(tmp_path):
    order = ["34200.1", 1, 5, 100, 1_000_000, 1]
    halt, print_, resume = ["34200.2", 7, 0, 0, -1, -1], ["34200.3", 6, -1, 700, 1_000_000, -1], ["34200.4", 7, 0, 0, 1, -1]
    row = [9_999_999_999, 0, 1_000_000, 100]
    path = zipped(tmp_path / "day.zip", A_message_1=csv_text([order, halt, print_, resume]), A_orderbook_1=csv_text([row] * 4))
    lobster = record(*recognise(path))
    assert all(check.ok for check in lobster.checks) and (lobster.fact("volume"), lobster.fact("volume", 1)) == (700, 0)
    assert "halt" in lobster.title(1).lower() and "cross" in (lobster.title(2) + lobster.detail(2)).lower()
    halted = itch("H", b"TEST    H LUDP")
    day = itch_open() + itch_directory("TEST") + itch_add(1, "B", 100, 100.0) + halted + itch_cross(700, 100.0)
    venue = opened(tmp_path / "itch", day)
    assert venue.fact("volume") == 700 and venue.fact("best_bid") == 100.0
    for recording in (lobster, venue):
        frames = [recording.panels[0].view.at(step).bids for step in range(3)]
        assert [[(level.price, level.quantity) for level in frame] for frame in frames] == [[(100.0, 100)]] * 3
    for name in (path, tmp_path / "itch"):
        report = examine(name)
        found = {f.name: f.value for f in report.findings}
        assert report.healthy and found["changes of the trading state"] in (1, 2)
    assert {f.name: f.value for f in examine(tmp_path / "itch").findings}["auction prints"] == 1


@pytest.mark.parametrize(
    ("kind", "row", "line"),
    [
        ("aggTrades", f"{'9' * 23},5,1,1,1,{T0},true", f"agg_trade_id is '{'9' * 23}'; allowed: a whole number of 64 bits"),
        ("aggTrades", f"²,5,1,1,1,{T0},true", "agg_trade_id is '²'"),
        ("aggTrades", f"9,1e400,1,1,1,{T0},true", "price is '1e400'"),
        ("aggTrades", f"9,5,1,1,1,{T0}000,true", "one unit of time in the whole file"),
        ("bookTicker", f"nan,1,1,2,1,{T0},{T0}", "update_id is 'nan'"),
        ("bookTicker", f"9,,1,2,1,{T0},{T0}", "price is ''"),
        ("depth", f"X,{T0},1,{'9' * 23},b,set,1,1,1", "last_update_id is"),
        ("depth", f"X,{T0},1,9,b,set,1,1,--5", "pu is '--5'"),
        ("raw", trade("5", "1", True).replace("true", '"x"'), "m is 'x'; allowed: true or false"),
        ("raw", trade("5", "1", True).replace('"5"', "[5]"), "a field of another kind"),
        ("raw", '{"e":' * 5_000, 'found \'{"e":'),
        ("raw", "123 " + trade("5", "1", True), "receive time is 123, in ns as the first one"),
        ("raw", trade("5", "1", True).replace(str(T0), "9" * 20), "one unit of time in the whole file"),
        ("raw", depth(1).replace('"u": 1', "").replace('"u":1', f'"u":{"9" * 20}'), f"u is '{'9' * 20}'"),
        ("raw", depth(1, [["1"]], previous=0), "a field of another kind"),
        ("funding", "X,2024-13-01 00:00:00,0.1", "Date is '2024-13-01 00:00:00'"),
        ("funding", "X,9999-12-31 23:59:59-23:00,0.1", "Date is"),
        ("funding", "X,2024-01-03 00:00:00,5", "funding rate is '5'; allowed: a fraction"),
        ("calc_time", "1704067200000,99,0.1", "funding_interval_hours is 99; allowed: 1 to 24"),
        ("trades", "x,X,1,2,3", "5 columns; allowed: 8 columns"),
    ],
)
def test_field_that_cannot_be_is_named_with_its_line(tmp_path, kind, row, line):
    data = TEXTS[kind] + row.encode() + b"\n"
    found = said(tmp_path / "a", data)
    assert found.startswith(f": line {data.count(chr(10).encode())}: ") and line in found


def test_both_trade_streams_of_one_capture_count_once_and_a_quote_that_crosses_is_found(tmp_path):
    both = [trade("5", "2", True, number=1), trade("5", "2", True, number=1).replace('"trade"', '"aggTrade"').replace('"t":1', '"a":1')]
    recording = opened(tmp_path / "a", lines(*both))
    assert (len(recording), recording.fact("volume")) == (1, 2.0)
    assert {f.name: f.value for f in examine(tmp_path / "a").findings}["messages passed over: aggTrade (told by trade)"] == 1
    write(tmp_path / "b", lines(ticker(1, ("101", "1"), ("100", "1"))))
    assert [f.name for f in examine(tmp_path / "b").wrong] == ["books crossed or locked"]


SPARSE = {
    "zeros": (b"", "binary data that starts with 00"), "trades": (TEXTS["trades"], "line 8: no line end in"),
    "raw": (TEXTS["raw"], "line 10: no line end in"), "funding": (TEXTS["funding"], "line 8: no line end in"),
    "lobster": (TEXTS["lobster"], "binary data at byte"), "gzip": (gzip.compress(TEXTS["trades"])[:40], "damaged gzip data"),
    "itch": (itch_open() + itch_directory("TEST") + itch_add(1, "B", 5, 10.0), "byte 93: message type '0x00'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [*SPARSE, "dbn"])
def test_ten_gigabytes_of_nothing_are_refused_at_once_in_little_memory(tmp_path, kind):
    head, line = SPARSE[kind] if kind != "dbn" else (dbn_header() + mbo("A"), "byte 56 of the records: a record of 0 bytes")
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(head)
        try:
            file.truncate(10 << 30)
        except OSError:
            pytest.skip("the file system has no holes")
    code = (
        "import resource, sys\nfrom core.errors import BadInput\nfrom core.recognise import recognise\nfrom core.simulation import record\n"
        "import core.markets.order_book, core.markets.events.book, numpy\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    record(*recognise(sys.argv[1]))\nexcept BadInput as error:\n    print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, env=os.environ)
    told, grown = done.stdout.strip().split("\n")
    assert line in told and int(grown) < 150, done.stderr


def test_pipes_and_devices_are_refused_before_they_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="found a pipe"):
        examine(tmp_path / "pipe")
    assert "pipe" in said(tmp_path / "pipe", sure=True)
