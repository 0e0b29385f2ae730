"""Market-by-price files: Binance and Tardis, the book of levels they give, and the real samples."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.markets.depth.book import DepthBook
from core.markets.doctor.examine import examine
from core.markets.readers import forms
from core.markets.readers.binance import looks_like_binance, open_binance
from core.markets.readers.tardis import looks_like_tardis, open_tardis
from core.recognise import recognise
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data"
RAW = DATA / "binance/usdm_btcusdt_20240808.gz"
HEAD = "exchange,symbol,timestamp,local_timestamp,"


def text(path: Path, *lines: str, newline: str = "\n") -> Path:
    path.write_bytes((newline.join(lines) + newline).encode())
    return path


def sides(frame):
    return [[(level.price, level.quantity) for level in levels] for levels in (frame.bids, frame.asks)]


def depth(update, bids=(), asks=(), previous=None, time=1_723_161_256_000):
    data = {"e": "depthUpdate", "E": time, "T": time, "s": "X", "U": update, "u": update, "b": list(bids), "a": list(asks)}
    if previous is not None:
        data["pu"] = previous
    return json.dumps({"stream": "x@depth", "data": data}, separators=(",", ":"))


def ticker(update, bid, ask, time=1_723_161_256_000):
    data = {"e": "bookTicker", "u": update, "s": "X", "b": bid[0], "B": bid[1], "a": ask[0], "A": ask[1], "T": time, "E": time}
    return json.dumps({"stream": "x@bookTicker", "data": data}, separators=(",", ":"))


def trade(price, size, maker, time=1_723_161_256_000, number=1):
    data = {"e": "trade", "E": time, "T": time, "s": "X", "t": number, "p": price, "q": size, "X": "MARKET", "m": maker}
    return json.dumps({"stream": "x@trade", "data": data}, separators=(",", ":"))


def raw(path: Path, *messages: str) -> Path:
    return text(path, *(f"{1_723_161_255_000_000_000 + k} {message}" for k, message in enumerate(messages)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([1, -1]), st.integers(1, 8), st.integers(0, 3)), max_size=60))
def test_levels_are_those_of_a_plain_dictionary(changes):
    book, plain = DepthBook(), {1: {}, -1: {}}
    for side, price, size in changes:
        book.apply(forms.DELTA, 0, [side], [float(price)], [float(size)])
        plain[side][float(price)] = float(size)
        plain = {s: {p: q for p, q in levels.items() if q} for s, levels in plain.items()}
        assert book.levels == plain
        for mine in (1, -1):
            assert book.prices(mine, 99) == sorted(plain[mine], key=lambda p: -mine * p)


def test_quote_removes_what_it_shows_to_be_gone_and_older_changes_do_not_bring_it_back(tmp_path):
    start = depth(10, [("100", "1"), ("99", "2")], [("101", "3"), ("102", "4")], previous=9)
    messages = (start, ticker(20, ("99", "5"), ("101", "3")), depth(15, [("100", "9"), ("98", "7")], previous=10))
    later = depth(25, [("100", "6")], previous=15)
    ladder = record("order_book", {"file": str(raw(tmp_path / "a.txt", *messages, later))}).panels[0].view
    assert sides(ladder.at(1)) == [[(99.0, 5.0)], [(101.0, 3.0), (102.0, 4.0)]]
    assert sides(ladder.at(2))[0] == [(99.0, 5.0), (98.0, 7.0)]  # 100 is older than the quote
    assert sides(ladder.at(3))[0] == [(100.0, 6.0), (99.0, 5.0), (98.0, 7.0)]


def test_maker_flag_of_binance_says_that_a_seller_took(tmp_path):
    path = raw(tmp_path / "a.txt", trade("100.5", "2", True), trade("100.6", "3", False))
    recording = record("order_book", {"file": str(path)})
    assert (recording.fact("volume[sold]"), recording.fact("volume[bought]")) == (2.0, 3.0)
    assert "seller" in recording.title(0) and "buyer" in recording.title(1)


@pytest.mark.parametrize(("stamp", "flag", "unit"), [("1723161256000000", "True", "µs"), ("1723161256000", "true", "ms")])
def test_spot_and_futures_trades_differ_in_unit_spelling_and_header(tmp_path, stamp, flag, unit):
    rows = [f"1,100.5,2,1,1,{stamp},{flag}", f"2,100.6,3,2,2,{stamp},{'False' if flag == 'True' else 'false'}"]
    header = ["agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"] if unit == "ms" else []
    rows = rows if header else [row + ",True" for row in rows]
    path = text(tmp_path / "a.csv", *header, *rows, newline="\r\n")
    assert looks_like_binance(path)
    file = open_binance(path)
    block = next(file.blocks())
    assert block.time.tolist() == [1_723_161_256_000_000_000] * 2 and block.side.tolist() == [-1, 1] and file.time_unit == unit


def test_book_ticker_and_depth_csv_files_are_read(tmp_path):
    quotes = text(
        tmp_path / "q.csv",
        "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time",
        "1,99.5,2,100.5,3,1723161256000,1723161256001", "2,99.6,1,100.5,3,1723161256005,1723161256006",
    )  # fmt: skip
    recording = record("order_book", {"file": str(quotes)})
    assert (recording.fact("best_bid"), recording.fact("depth[bid]")) == (99.6, 1.0) and "move to" in recording.title(1)
    levels = text(
        tmp_path / "d.csv",
        "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu",
        "X,1723161256000,1,1,b,snap,99.5,2,-1", "X,1723161256000,1,1,a,snap,100.5,3,-1",
        "X,1723161256010,2,3,b,set,99.5,0,1", "X,1723161256010,2,3,b,set,99.4,7,1",
    )  # fmt: skip
    ladder = record("order_book", {"file": str(levels)}).panels[0].view
    assert sides(ladder.at(0)) == [[(99.5, 2.0)], [(100.5, 3.0)]]
    assert sides(ladder.at(1)) == [[(99.4, 7.0)], [(100.5, 3.0)]]


def test_tardis_rows_of_one_receive_time_are_one_message_and_a_snapshot_starts_anew(tmp_path):
    row = "x,X,{t},{t},{s},{side},{p},{q}"
    lines = [
        row.format(t=1_000_000_000_000_000 + t, s=s, side=side, p=p, q=q)
        for t, s, side, p, q in (
            (0, "true", "bid", 99, 1), (0, "true", "ask", 101, 1), (5, "false", "bid", 100, 2), (5, "false", "bid", 99, 0),
            (9, "true", "bid", 50, 1), (9, "true", "ask", 51, 1),
        )
    ]  # fmt: skip
    path = text(tmp_path / "a.csv", HEAD + "is_snapshot,side,price,amount", *lines)
    recording = record("order_book", {"file": str(path)})
    frames = [sides(recording.panels[0].view.at(step)) for step in range(3)]
    assert frames == [[[(99.0, 1.0)], [(101.0, 1.0)]], [[(100.0, 2.0)], [(101.0, 1.0)]], [[(50.0, 1.0)], [(51.0, 1.0)]]]
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert looks_like_tardis(packed) and len(record("order_book", {"file": str(packed)})) == 3


def test_any_step_is_the_book_kept_from_the_first_message_on(tmp_path):
    rng = np.random.default_rng(4)
    messages = []
    for k in range(1, 3000):
        side, price, size = rng.integers(2), rng.integers(20), rng.integers(3)
        level = [(str(100 - price) if side else str(101 + price), str(size))]
        messages.append(depth(k, level if side else (), () if side else level, previous=k - 1, time=1_723_161_256_000 + k))
    path = raw(tmp_path / "a.txt", *messages)
    recording = record("order_book", {"file": str(path)})
    assert all(check.ok for check in recording.checks)
    plain, want = {1: {}, -1: {}}, []
    for message in messages:
        for side, key in ((1, "b"), (-1, "a")):
            for price, size in json.loads(message)["data"][key]:
                plain[side][float(price)] = float(size)
        want.append([sorted(((p, q) for p, q in plain[s].items() if q), key=lambda r, s=s: -s * r[0])[:20] for s in (1, -1)])
    ladder = recording.panels[0].view
    for step in rng.permutation(len(messages))[:200].tolist():
        assert sides(ladder.at(step)) == want[step]


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
def test_the_samples_of_tardis_and_databento_open():
    steps = {
        "tardis/csv_deltas_with_snapshot.csv": 7, "tardis/csv_trades_1.csv": 2,
        "tardis/tardis_binance-futures_book_snapshot_25_BTCUSDT.csv": 10, "tardis/tardis_binance-futures_book_snapshot_5_BTCUSDT.csv": 10,
        "tardis/tardis_bitmex_trades_XBTUSD.csv": 10, "tardis/tardis_deribit_incremental_book_L2_BTC-PERPETUAL.csv": 1,
        "tardis/tardis_huobi-dm-swap_quotes_BTC-USD.csv": 10, "databento/test_data.mbo.v3.dbn": 2, "databento/test_data.mbp-1.dbn": 2,
        "databento/test_data.mbp-10.v3.dbn.zst": 2, "databento/test_data.tbbo.dbn": 2, "databento/test_data.trades.dbn": 2,
    }  # fmt: skip
    for name, length in steps.items():
        assert recognise(DATA / name) == ("order_book", {"file": str(DATA / name)})
        recording = record("order_book", {"file": str(DATA / name)})
        assert len(recording) == length, name
        for panel in recording.panels:
            panel.view.at(length - 1)
    ladder = record("order_book", {"file": str(DATA / "tardis/tardis_binance-futures_book_snapshot_5_BTCUSDT.csv")}).panels[0].view
    assert sides(ladder.at(0))[1][:2] == [(11657.08, 1.714), (11657.54, 5.4)]


@pytest.mark.skipif(not RAW.exists(), reason="the shared data folder is not here")
def test_the_raw_capture_of_binance_is_read_whole():
    blocks = list(open_binance(RAW).blocks())
    received = np.concatenate([block.received for block in blocks])
    time = np.concatenate([block.time for block in blocks])
    assert len(received) == 93_954 == gzip.decompress(RAW.read_bytes()).count(b"\n")
    assert float(np.median(received - time)) / 1e9 == pytest.approx(-1.27, abs=0.005)
    assert (received[-1] - received[0]) / 1e9 == pytest.approx(344.8, abs=2)
    book = DepthBook()
    crossed = quotes_kept = 0
    for block in blocks[:3]:
        for at in range(len(block)):
            low, high = block.first[at], block.first[at + 1]
            level = (block.level_side[low:high].tolist(), block.level_price[low:high].tolist(), block.level_size[low:high].tolist())
            book.apply(int(block.kind[at]), int(block.update[at]), *level)
            bid, ask = book.best(1), book.best(-1)
            crossed += bid is not None and ask is not None and bid >= ask
            quotes_kept += block.kind[at] == forms.QUOTE and [bid, ask] == level[1]
    assert crossed == 0 and quotes_kept == sum(int((block.kind == forms.QUOTE).sum()) for block in blocks[:3])


def test_mixed_symbols_pick_the_busiest_and_an_unknown_one_is_refused(tmp_path):
    rows = ["x,ONE,1000000000000000,1000000000000000,a,buy,5,1", *["x,TWO,1000000000000000,1000000000000000,a,sell,6,1"] * 2]
    path = str(text(tmp_path / "a.csv", HEAD + "id,side,price,amount", *rows))
    recording = record("order_book", {"file": path})
    assert (len(recording), recording.fact("symbol")) == (2, "TWO") and "busiest of 2" in recording.facts["symbol"].note
    assert len(next(iter(open_tardis(path, "ONE").blocks()))) == 1
    with pytest.raises(BadInput, match="no 'NIX' among the first rows; allowed: symbol = ONE, TWO"):
        record("order_book", {"file": path, "symbol": "NIX"})


def spot(kind: str, number: int) -> str:
    """A raw spot message as the exchange sends it: quotes and snapshots tell no time."""
    clock = 1_735_689_600_000 + 100 * number
    messages = {
        "quote": {"u": number, "s": "X", "b": "100.0", "B": "1", "a": "101.0", "A": str(number)},
        "snapshot": {"lastUpdateId": number, "bids": [["100.0", "1"]], "asks": [["101.0", "2"]]},
        "trade": {"e": "trade", "E": clock, "s": "X", "t": number, "p": "100.0", "q": "0.5", "T": clock, "m": True, "M": True},
        "depth": {"e": "depthUpdate", "E": clock, "s": "X", "U": number, "u": number, "b": [["100.0", str(number)]], "a": []},
    }
    return json.dumps(messages[kind], separators=(",", ":"))


@pytest.mark.parametrize(
    ("kinds", "hundreds"),
    [
        (("snapshot", "depth", "trade"), [2, 2, 3]),  # what comes before every time stands at the first
        (("depth", "snapshot", "trade"), [1, 1, 3]),
        (("quote", "quote", "trade", "quote"), [3, 3, 3, 3]),
    ],
)
def test_spot_messages_without_a_time_stand_at_the_time_of_the_message_before(tmp_path, kinds, hundreds):
    path = text(tmp_path / "a.txt", *(spot(kind, number) for number, kind in enumerate(kinds, 1)))
    assert recognise(path) == ("order_book", {"file": str(path)})
    recording = record("order_book", {"file": str(path)})
    assert recording.fact("date") == "2025-01-01" and recording.clock == "UTC"
    assert [round(10 * recording.time(step)) for step in range(len(kinds))] == hundreds
    finding = {one.name: one.value for one in examine(path).findings}
    assert finding["messages without a time"] == sum(kind in ("quote", "snapshot") for kind in kinds)
    assert finding["longest silence"] < 1


def test_spot_quotes_take_the_receive_time_and_without_any_time_are_refused(tmp_path):
    received = raw(tmp_path / "r.txt", spot("quote", 1), spot("quote", 2))
    block = next(open_binance(received).blocks())
    assert block.time.tolist() == block.received.tolist() == [1_723_161_255_000_000_000, 1_723_161_255_000_000_001]
    with pytest.raises(BadInput, match=r"line 1: no time, .* allowed: a receive time before each line"):
        record("order_book", {"file": str(text(tmp_path / "a.txt", spot("quote", 1), spot("quote", 2)))})
