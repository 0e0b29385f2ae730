"""ITCH 5.0: what each message does to the book, messages sized by type, and the artificial sample."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from pathlib import Path

import pytest
from market_files import (
    itch,
    itch_add,
    itch_broken,
    itch_cancel,
    itch_cross,
    itch_delete,
    itch_directory,
    itch_executed,
    itch_executed_at,
    itch_hidden,
    itch_open,
    itch_replace,
    write,
)

from core.errors import BadInput
from core.markets.doctor.examine import examine
from core.markets.readers import forms
from core.markets.readers.itch import SIZES, looks_like_itch, open_itch
from core.recognise import recognise
from core.simulation import record

SAMPLE = Path(__file__).resolve().parents[3] / "../shared/data/itch/ex20101224.TEST_ITCH_50.gz"
START = (itch_open(), itch_directory("TEST"))


def replay(path: Path, *messages: bytes):
    return record("order_book", {"file": str(write(path / "a.itch", *START, *messages))})


def queues(recording, step):
    frame = recording.panels[0].view.at(step)
    return [
        [(level.price, [(order.order_id, order.quantity) for order in level.orders]) for level in levels]
        for levels in (frame.bids, frame.asks)
    ]


def test_cancel_keeps_priority_and_replace_never_does(tmp_path):
    two = (itch_add(1, "B", 100, 10.0), itch_add(2, "B", 200, 10.0))
    recording = replay(tmp_path, *two, itch_cancel(1, 40), itch_replace(1, 3, 60, 10.0))
    assert queues(recording, 2)[0] == [(10.0, [(1, 60), (2, 200)])]
    assert queues(recording, 4)[0] == [(10.0, [(2, 200), (3, 60)])]
    assert len(recording) == 5  # a replace is a removal and an arrival, read as one
    assert recording.fact("best_bid", 3) == 10.0


def test_queues_are_exact_unless_an_event_speaks_of_an_order_that_was_never_told(tmp_path):
    told = (itch_add(1, "B", 100, 10.0), itch_cancel(1, 40))
    for name, events, known in (("whole", told, "exact"), ("cut", (*told, itch_delete(9)), "estimated")):
        path = write(tmp_path / f"{name}.itch", *START, *events)
        finding = {one.name: one for one in examine(path).findings}["what is known of queues"]
        recording = record("order_book", {"file": str(path)})
        assert recording.fact("queue_knowledge") == finding.value == known
        assert recording.facts["queue_knowledge"].note == finding.note


def test_replace_takes_the_side_of_the_order_it_replaces(tmp_path):
    recording = replay(tmp_path, itch_add(1, "S", 100, 10.0), itch_replace(1, 2, 50, 10.5), itch_replace(2, 3, 40, 10.25), itch_delete(3))
    assert queues(recording, 4)[1] == [(10.25, [(3, 40)])]
    assert queues(recording, 5) == [[], []]


def test_executions_trade_and_take_and_a_non_printable_one_only_takes(tmp_path):
    messages = (itch_add(1, "B", 100, 10.0), itch_add(2, "S", 100, 10.1), itch_executed(1, 30), itch_executed_at(1, 20, 10.05))
    recording = replay(tmp_path, *messages, itch_executed_at(1, 10, 10.0, printable="N"))
    assert queues(recording, 4)[0] == [(10.0, [(1, 40)])]
    assert (recording.fact("trades"), recording.fact("volume"), recording.fact("volume[sold]")) == (2, 50, 50)
    assert recording.values(2)["side"] == "buy" and recording.values(2)["price"] == 10.0  # of the order, which E does not carry


def test_hidden_trades_crosses_and_broken_trades_change_no_level(tmp_path):
    messages = (itch_add(1, "B", 100, 10.0), itch_hidden(70, 10.02), itch_cross(500, 10.01), itch_broken())
    recording = replay(tmp_path, *messages)
    assert queues(recording, 3) == queues(recording, 0)
    assert recording.fact("volume") == 570 and recording.fact("volume[bought]") == recording.fact("volume[sold]") == 0
    assert ["hidden" in recording.title(1) or "out of sight" in recording.title(1), "cross" in recording.title(2)] == [True, True]


def test_prefix_of_zero_is_no_length_and_another_length_is_refused(tmp_path):
    zero = [bytes(2) + message[2:] for message in (*START, itch_add(1, "B", 100, 10.0))]
    path = write(tmp_path / "zero.itch", *zero)
    assert looks_like_itch(path) and sum(map(len, open_itch(path).blocks())) == 1
    wrong = write(tmp_path / "wrong.itch", *START, struct.pack(">H", 35) + itch_add(1, "B", 100, 10.0)[2:])
    with pytest.raises(BadInput, match=r"byte .*'A' of 35 bytes"):
        open_itch(wrong)


def test_pieces_that_cut_messages_anywhere_give_the_same_events(tmp_path, monkeypatch):
    messages = [itch_add(k, "B", 100, 10.0 - k / 100) for k in range(1, 40)]
    path = write(tmp_path / "a.itch", *START, *messages)
    whole = [block.order.tolist() for block in open_itch(path).blocks()]
    monkeypatch.setattr("core.markets.readers.streams.PIECE", 4 * 17)
    assert [block.order.tolist() for block in open_itch(path).blocks()] == whole == [list(range(1, 40))]


def test_one_of_several_stocks_is_opened_and_said(tmp_path):
    more = (itch_directory("OTHER", 2), itch_add(1, "B", 1, 1.0, locate=2), itch_add(2, "B", 1, 1.0, locate=2), itch_add(3, "B", 1, 2.0))
    path = str(write(tmp_path / "a.itch", *START, *more))
    recording = record("order_book", {"file": path})
    assert (len(recording), recording.fact("symbol")) == (2, "OTHER") and "2 stocks" in recording.facts["symbol"].note
    assert record("order_book", {"file": path, "symbol": "TEST"}).fact("best_bid") == 2.0
    with pytest.raises(BadInput, match="symbol: no 'NONE'; allowed: symbol = OTHER, TEST"):
        record("order_book", {"file": path, "symbol": "NONE"})


def test_unknown_types_and_cut_files_are_refused_with_their_byte(tmp_path):
    with pytest.raises(BadInput, match="byte 55: message type '~'"):
        open_itch(write(tmp_path / "a.itch", *START, itch("~", bytes(20))))
    with pytest.raises(BadInput, match="cut off after 20 bytes"):
        list(open_itch(write(tmp_path / "b.itch", *START, itch_add(1, "B", 1, 1.0), itch_add(2, "B", 1, 1.0)[:20])).blocks())
    with pytest.raises(BadInput, match="no order in it"):
        open_itch(write(tmp_path / "c.itch", *START))


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared data folder is not here")
def test_the_sample_is_read_whole_and_its_types_are_counted():
    assert recognise(SAMPLE) == ("order_book", {"file": str(SAMPLE)})
    raw, at, kinds, mine = gzip.decompress(SAMPLE.read_bytes()), 0, Counter(), Counter()
    while at < len(raw):
        assert raw[at : at + 2] == b"\x00\x00"
        kind = chr(raw[at + 2])
        kinds[kind] += 1
        mine[kind] += raw[at + 4] == 2
        at += 2 + SIZES[kind]
    assert sum(kinds.values()) == 12_012 and "C" not in kinds and "Q" not in kinds
    file = open_itch(SAMPLE, "BOB")
    actions = Counter(int(a) for block in file.blocks() for a in block.action)
    assert actions[forms.HIDDEN] == mine["P"] and actions[forms.EXECUTE] == mine["E"] and actions[forms.CANCEL] == mine["X"]
    assert actions[forms.ADD] == mine["A"] + mine["F"] + mine["U"] and actions[forms.DELETE] == mine["D"] + mine["U"]


def test_book_with_one_side_is_told_as_such_and_compared_with_nothing(tmp_path):
    adds = (itch_add(1, "B", 100, 10.0), itch_add(2, "S", 100, 10.1), itch_add(3, "B", 100, 10.05))
    recording = replay(tmp_path, *adds, itch_executed(2, 100), itch_delete(3), itch_delete(1))
    titles = [recording.title(step) for step in range(len(recording))][-6:]
    assert [title.partition(": ")[2] for title in titles[:3]] == ["the only bid", "the only offer", "a new best bid"]
    assert titles[3].startswith("A buyer empties the ask") and "the best bid with it" in titles[4]
    assert titles[5].endswith("and nothing is bid any more")
    details = [recording.detail(step) for step in range(len(recording))][-6:]
    assert not any("–" in detail.replace("Best bid –", "").replace("best ask –", "") for detail in details)
    assert "nothing is offered any more" in details[3]
