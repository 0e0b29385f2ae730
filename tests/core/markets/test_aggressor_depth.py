"""Market-by-price files: which change of the best prices is a trade's, and files whose trades and quotes stand apart."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from market_files import LAST, PRICE, START, dbn_header, write

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.depth_rows import DepthRows
from core.markets.signing.depth import in_order, joined, taken
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data"
RAW = DATA / "binance/usdm_btcusdt_20240808.gz"
T = 1_723_161_256_000


def raw(path: Path, *messages: dict) -> Path:
    lines = [
        f"{1_723_161_255_000_000_000 + k} {json.dumps({'stream': 'x', 'data': m}, separators=(',', ':'))}" for k, m in enumerate(messages)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def quote(at, bid, ask, update=1):
    return {"e": "bookTicker", "u": update + at, "s": "X", "b": str(bid), "B": "1", "a": str(ask), "A": "1", "T": T + at, "E": T + at}


def trade(at, price, size, taker):
    return {"e": "trade", "E": T + at, "T": T + at, "s": "X", "t": 1, "p": str(price), "q": str(size), "X": "MARKET", "m": taker < 0}


def depth(at, bids=(), asks=()):
    levels = [[[str(p), str(q)] for p, q in side] for side in (bids, asks)]
    return {"e": "depthUpdate", "E": T + at, "T": T + at, "s": "X", "U": at, "u": at, "pu": at - 1, "b": levels[0], "a": levels[1]}


def split(recording) -> dict[str, float]:
    names = (
        "change_at_trades",
        "change_at_quotes",
        "change_at_quotes[placements]",
        "change_at_quotes[deletions]",
        "change_at_quotes[other]",
    )
    return {name.removeprefix("change_at_"): recording.fact(name) for name in names if name in recording.facts}


def test_a_change_is_a_trade_s_where_the_trade_reached_the_price_that_is_gone(tmp_path):
    messages = [
        quote(0, 100, 101),
        trade(10, 101, 2, 1), quote(10, 100, 102),  # the ask is bought: +0.5
        quote(20, 100, 103),  # the next ask is withdrawn: +0.5
        quote(30, 99, 103),  # a bid is withdrawn: -0.5
        trade(40, 99, 3, -1), quote(40, 97, 103),  # the bid is sold to: -1
        quote(50, 98, 103), quote(60, 98, 100),  # a higher bid: +0.5, a lower ask: -1.5
    ]  # fmt: skip
    recording = record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})
    assert split(recording) == pytest.approx({"trades": -0.5, "quotes": -1.0, "quotes[placements]": -1.0, "quotes[deletions]": 0.0})
    assert (recording.fact("buy_volume"), recording.fact("sell_volume")) == (2.0, 3.0)
    assert all(check.ok for check in recording.checks) and "by price only" in recording.facts["source"].note


def test_a_trade_that_did_not_reach_the_best_price_moved_nothing(tmp_path):
    messages = [quote(0, 100, 102), trade(10, 101, 2, 1), quote(10, 100, 103)]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})) == {
        "trades": 0.0, "quotes": 0.5, "quotes[deletions]": 0.5,
    }  # fmt: skip


def test_a_better_price_right_after_a_trade_is_a_quote_s(tmp_path):
    messages = [quote(0, 100, 102), trade(10, 102, 2, 1), quote(10, 100, 101)]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))}))["trades"] == 0.0


def test_a_seller_s_trade_does_not_explain_an_ask_that_is_gone(tmp_path):
    messages = [quote(0, 100, 101), trade(10, 101, 2, -1), quote(10, 100, 102)]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))}))["trades"] == 0.0


def test_only_the_first_message_of_the_book_after_a_trade_answers_for_it(tmp_path):
    messages = [quote(0, 100, 101), trade(10, 101, 1, 1), quote(10, 100, 101), quote(11, 100, 102)]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))}))["trades"] == 0.0
    same_time = [quote(0, 100, 101), trade(10, 101, 1, 1), quote(10, 100, 101), quote(10, 100, 102, update=2)]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "b.txt", *same_time))}))["trades"] == 0.5
    later = [quote(0, 100, 101), trade(10, 101, 1, 1), depth(40, [(100, 1)], [(101, 0), (102, 1)])]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "c.txt", *later))}))["trades"] == 0.5


def test_a_trade_that_arrives_after_its_quote_still_explains_it(tmp_path):
    messages = [quote(0, 100, 101), quote(10, 100, 102), trade(10, 101, 2, 1)]
    recording = record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})
    assert split(recording)["trades"] == 0.5
    assert recording.title(0) == "A buyer takes 2 at 101.00" and "What was bought is gone" in recording.title(1)
    assert recording.fact("classification_accuracy[exact_quotes]") == 1.0


def test_two_sides_that_move_for_two_reasons_are_two_changes_the_trade_s_first(tmp_path):
    messages = [quote(0, 100, 101), trade(10, 101, 2, 1), quote(10, 100.5, 102)]
    recording = record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})
    assert split(recording) == {"trades": 0.5, "quotes": 0.25, "quotes[placements]": 0.25}
    assert [recording.columns["cause"].value(k) for k in range(3)] == ["executions", "executions", "placements"]


def test_a_book_sent_again_in_the_middle_moved_by_nobody_s_hand(tmp_path):
    again = {"lastUpdateId": 90, "bids": [["90", "1"]], "asks": [["91", "1"]], "T": T + 90, "E": T + 90, "s": "X"}
    messages = [depth(10, [(100, 1)], [(101, 1)]), trade(20, 101, 1, 1), depth(50, [(100, 2)]), again]
    assert split(record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})) == {
        "trades": 0.0, "quotes": -10.0, "quotes[other]": -10.0,
    }  # fmt: skip


def test_a_crossed_or_one_sided_book_has_no_mid(tmp_path):
    messages = [
        depth(10, [(100, 1)]),
        trade(20, 100, 1, -1),
        depth(30, (), [(101, 1)]),
        depth(40, [(102, 1)]),
        depth(50, [(102, 0)]),
        depth(60, [(100.5, 1)]),
    ]
    recording = record("aggressor", {"file": str(raw(tmp_path / "a.txt", *messages))})
    assert len(recording) == 2
    assert recording.fact("price_change") == 0.25 and recording.fact("mid") == 100.75 and recording.fact("mid", 0) is None


# Databento mbp ----------------------------------------------------------------------------------------------------------


def mbp1(action, side, price, size, at, bid, ask, last=True):
    head = struct.pack("<BBHIQ", 20, 0x01, 1, 7, START + at)
    flags = LAST if last else 0
    body = struct.pack("<qIccBBQiI", round(price * PRICE), size, action.encode(), side.encode(), flags, 0, START + at, 0, at)
    return head + body + struct.pack("<qqIIII", round(bid * PRICE), round(ask * PRICE), 5, 5, 1, 1)


def test_mbp_1_of_databento_splits_like_its_events(tmp_path):
    pytest.importorskip("databento_dbn")
    rows = [
        mbp1("A", "B", 100, 5, 0, 100, 101), mbp1("T", "B", 101, 5, 10, 100, 101, last=False), mbp1("C", "A", 101, 5, 10, 100, 102),
        mbp1("C", "B", 100, 5, 20, 99, 102), mbp1("A", "A", 101, 5, 30, 99, 101),
    ]  # fmt: skip
    recording = record("aggressor", {"file": str(write(tmp_path / "a.dbn", dbn_header("mbp-1"), *rows))})
    assert split(recording) == {"trades": 0.5, "quotes": -1.0, "quotes[placements]": -0.5, "quotes[deletions]": -0.5}
    assert recording.fact("buy_volume") == 5 and recording.fact("source") == "Databento mbp-1"


# two files --------------------------------------------------------------------------------------------------------------

AGG = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
TICKER = "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time"
_FIVE = [f"{side}[{k}].{part}" for k in range(5) for side in ("asks", "bids") for part in ("price", "amount")]
TARDIS = "exchange,symbol,timestamp,local_timestamp,"


def test_agg_trades_and_book_ticker_of_binance_find_each_other(tmp_path):
    trades, quotes = tmp_path / "BTCUSDT-aggTrades-2024-08-08.csv", tmp_path / "BTCUSDT-bookTicker-2024-08-08.csv"
    trades.write_text(f"{AGG}\n1,101,2,1,1,{T + 10},false\n2,100,1,2,2,{T + 30},true\n")
    with pytest.raises(
        BadInput, match=r"trades without quotes; allowed: the file of the quotes beside it \(BTCUSDT-bookTicker-2024-08-08.csv"
    ):
        record("aggressor", {"file": str(trades)})
    quotes.write_text(f"{TICKER}\n1,100,1,101,1,{T},{T}\n2,100,1,102,1,{T + 10},{T + 10}\n3,99,1,102,1,{T + 20},{T + 20}\n")
    for path in (trades, quotes):
        recording = record("aggressor", {"file": str(path)})
        assert split(recording) == {"trades": 0.5, "quotes": -0.5, "quotes[deletions]": -0.5}
        assert (recording.fact("buy_volume"), recording.fact("sell_volume")) == (2.0, 1.0)
    trades.unlink()
    with pytest.raises(BadInput, match="quotes without trades; allowed: the file of the trades beside it"):
        record("aggressor", {"file": str(quotes)})


@pytest.mark.parametrize(
    ("kind", "columns", "rows"),
    [
        ("quotes", "ask_amount,ask_price,bid_price,bid_amount", ["1,101,100,1", "1,102,100,1"]),
        ("book_snapshot_5", ",".join(_FIVE), ["101,1,100,1" + ",,,," * 4, "102,1,100,1" + ",,,," * 4]),
        ("incremental_book_L2", "is_snapshot,side,price,amount", ["true,ask,101,1|true,ask,102,1|true,bid,100,1", "false,ask,101,0"]),
    ],
)
def test_trades_and_quotes_of_tardis_find_each_other(tmp_path, kind, columns, rows):
    def lines(header, *texts):
        stamped = [f"x,X,{at},{at}," + row for k, text in enumerate(texts) for at in [(T + 10 * k) * 1000] for row in text.split("|")]
        return (TARDIS + header + "\n" + "\n".join(stamped) + "\n").encode()

    quotes, trades = (tmp_path / f"binance-futures_{name}_2024-08-08_X.csv.gz" for name in (kind, "trades"))
    quotes.write_bytes(gzip.compress(lines(columns, *rows)))
    with pytest.raises(BadInput, match="quotes without trades"):
        record("aggressor", {"file": str(quotes)})
    trades.write_bytes(
        gzip.compress(lines("id,side,price,amount", "a,buy,101,2").replace(str(T * 1000).encode(), str((T + 10) * 1000).encode()))
    )
    for path in (quotes, trades):
        recording = record("aggressor", {"file": str(path)})
        assert split(recording) == {"trades": 0.5, "quotes": 0.0} and recording.fact("buy_volume") == 2.0
        assert recording.fact("source").count("Tardis") == 2


def test_quotes_that_exist_only_at_trades_are_refused(tmp_path):
    pytest.importorskip("databento_dbn")
    row = struct.pack("<BBHIQ", 12, 0x00, 1, 7, START) + struct.pack("<qIccBBQiI", 100 * PRICE, 5, b"T", b"B", LAST, 0, START, 0, 1)
    with pytest.raises(BadInput, match="Databento trades, trades without quotes; allowed: the mbp-1"):
        record("aggressor", {"file": str(write(tmp_path / "a.dbn", dbn_header("trades"), row))})
    tbbo = mbp1("T", "B", 101, 5, 10, 100, 101)
    with pytest.raises(BadInput, match="quotes only where a trade is"):
        record("aggressor", {"file": str(write(tmp_path / "b.dbn", dbn_header("tbbo"), tbbo))})


def test_a_capture_without_its_trades_is_refused(tmp_path):
    with pytest.raises(BadInput, match="without a trade among 2 messages"):
        record("aggressor", {"file": str(raw(tmp_path / "a.txt", quote(0, 100, 101), quote(10, 100, 102)))})


# order ------------------------------------------------------------------------------------------------------------------


def block(*messages: tuple[int, int, int]) -> forms.DepthEvents:
    """(time, kind, number of levels), each level's price telling whose it is."""
    rows = DepthRows()
    for time, kind, levels in messages:
        rows.add(time, 0, kind, levels=[(1, float(time), float(k)) for k in range(levels)])
    return rows.take()


def test_messages_of_two_streams_come_in_order_with_their_levels_and_trades_first():
    rng = np.random.default_rng(1)
    second = 1_000_000_000
    times = [np.sort(rng.integers(0, 60, 200)) * second // 4 for _ in range(2)]
    kinds = (forms.PRINT, forms.QUOTE)
    streams = [
        [block(*((int(t), kind, int(t) % 3) for t in part)) for part in np.array_split(mine, 7)]
        for mine, kind in zip(times, kinds, strict=True)
    ]
    out = list(in_order([iter(stream) for stream in streams]))
    assert len(out) > 2
    together = out[0]
    for part in out[1:]:
        together = joined(together, part)
    want = sorted([(int(t), kind != forms.PRINT, kind) for mine, kind in zip(times, kinds, strict=True) for t in mine])
    assert list(zip(together.time.tolist(), together.kind.tolist(), strict=True)) == [(t, kind) for t, _, kind in want]
    for at in range(len(together)):
        own = together.level_price[together.first[at] : together.first[at + 1]]
        assert own.tolist() == [float(together.time[at])] * (int(together.time[at]) % 3)


def test_a_stream_out_of_step_by_less_than_a_second_is_put_in_order():
    second = 1_000_000_000
    early, late = 4 * second + 1, 9 * second
    quotes = [(5 * second + k, forms.QUOTE, 1) for k in range(3)]
    for blocks in (
        [block(*quotes, (early, forms.PRINT, 0), (late, forms.QUOTE, 1))],
        [block(*quotes), block((early, forms.PRINT, 0), (late, forms.QUOTE, 1))],
    ):
        want = [early, *(time for time, _, _ in quotes), late]
        assert [t for part in in_order([iter(blocks)]) for t in part.time.tolist()] == want


def test_taken_messages_keep_their_own_levels():
    found = taken(block((1, 0, 2), (2, 0, 0), (3, 0, 1)), np.array([2, 0]))
    assert found.first.tolist() == [0, 1, 3] and found.level_price.tolist() == [3.0, 1.0, 1.0]


# the real capture -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not RAW.exists(), reason="the shared data folder is not here")
def test_the_capture_of_binance_is_split_and_its_takers_are_beyond_the_mid():
    recording = record("aggressor", {"file": str(RAW)})
    assert all(check.ok for check in recording.checks)
    bought = sold = 0.0
    prices = []
    for line in gzip.decompress(RAW.read_bytes()).splitlines():
        data = json.loads(line[line.index(b"{") :])
        data = data.get("data", data)
        if data.get("e") == "trade":
            bought, sold = bought + float(data["q"]) * (not data["m"]), sold + float(data["q"]) * data["m"]
        elif data.get("e") == "bookTicker":
            prices.append((data["T"], float(data["b"]) + float(data["a"])))
    assert (recording.fact("buy_volume"), recording.fact("sell_volume")) == pytest.approx((bought, sold))
    prices.sort(key=lambda row: row[0])
    assert recording.fact("price_change") == pytest.approx((prices[-1][1] - prices[0][1]) / 2)
    assert recording.fact("classification_accuracy[exact_quotes]") > 0.99
