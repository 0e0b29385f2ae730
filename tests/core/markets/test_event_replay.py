"""Recordings of market-by-order files: bounded memory, values computed where they are read, drawing, ghosts said aloud."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("databento_dbn")

from market_files import (
    dbn_header,
    itch_add,
    itch_delete,
    itch_directory,
    itch_executed,
    itch_open,
    itch_replace,
    mbo,
    mbo_day,
    write,
)
from plain_book import PlainBook
from weighing import weighed

from core.markets import price_plot
from core.markets.events.book import IN_TURN, NO_PRICE, OUT_OF_TURN
from core.markets.kernels.hashed import table
from core.markets.price_plot import extremes
from core.markets.readers import forms, itch_kernel
from core.markets.readers.dbn import open_dbn, sequence_gaps
from core.markets.readers.itch import message_sizes, open_itch
from core.recording import Recorder
from core.search import find
from core.simulation import record

SAMPLE = Path(__file__).resolve().parents[3] / "../shared/data/itch/ex20101224.TEST_ITCH_50.gz"
ESH4 = Path(__file__).resolve().parents[3] / "../shared/data/databento/esh4-glbx-mdp3-20231225.mbo.dbn.zst"


def day(folder: Path, seed: int = 5, events: int = 1500):
    records, rows = mbo_day(seed, events)
    path = write(folder / "day.dbn", dbn_header(), *records)
    return path, rows, record("order_book", {"file": str(path)})


def plain_effects(path):
    book, effects, events = PlainBook(), [], []
    for block in open_dbn(path).blocks():
        effects.append(book.run(block))
        events.append(block)
    return effects, events


def joined(blocks, name):
    return np.concatenate([getattr(block, name) for block in blocks])


def test_values_of_every_step_are_those_of_a_plain_replay(tmp_path):
    path, _, recording = day(tmp_path)
    effects, events = plain_effects(path)
    bid, ask = (joined(effects, name) for name in ("bid", "ask"))
    money = [np.where(column == NO_PRICE, np.nan, column / 1e9) for column in (bid, ask)]
    want = {
        "order": joined(events, "order"), "quantity": joined(events, "size"), "price": joined(effects, "price") / 1e9,
        "level_before": joined(effects, "level_before"), "level": joined(effects, "level"),
        "bid": money[0], "ask": money[1], "bid_before": np.concatenate([[np.nan], money[0][:-1]]),
        "ask_before": np.concatenate([[np.nan], money[1][:-1]]),
    }  # fmt: skip
    for name, values in want.items():
        column = recording.columns[name]
        np.testing.assert_array_equal(column.array(len(recording)), values)
        for step in random.Random(1).sample(range(len(recording)), 60):
            value = column.value(step)
            assert value == values[step] or (value is None and np.isnan(values[step]))
    assert [recording.values(step)["event"] for step in range(50)] == [
        forms.ACTION_NAMES[action] for action in joined(events, "action")[:50]
    ]


def test_facts_of_every_step_are_running_totals_and_prices_where_events_are_complete(tmp_path):
    path, _, recording = day(tmp_path)
    effects, events = plain_effects(path)
    action, size, side = joined(events, "action"), joined(events, "size"), joined(events, "side")
    marks, last = joined(effects, "marks"), joined(events, "last")
    trade = action == forms.TRADE
    want = {
        "trades": np.cumsum(trade), "volume": np.cumsum(np.where(trade, size, 0)),
        "volume[bought]": np.cumsum(np.where(trade & (side > 0), size, 0)),
        "volume[sold]": np.cumsum(np.where(trade & (side < 0), size, 0)),
        "known_executions": np.cumsum((marks & (IN_TURN | OUT_OF_TURN)) > 0), "out_of_turn": np.cumsum((marks & OUT_OF_TURN) > 0),
        "depth[bid]": joined(effects, "bids"), "depth[ask]": joined(effects, "asks"),
        "depth": joined(effects, "bids") + joined(effects, "asks"),
    }  # fmt: skip
    held, settled = np.nan, []
    for price, complete in zip(joined(effects, "bid").tolist(), last.tolist(), strict=True):
        held = (np.nan if price == NO_PRICE else price / 1e9) if complete else held
        settled.append(held)
    want["best_bid"] = np.array(settled)
    for name, values in want.items():
        series = recording.facts[name]
        np.testing.assert_array_equal(series.column(len(recording)), values.astype(float))
        for step in random.Random(2).sample(range(len(recording)), 60):
            value = series.value(step)
            assert value == values[step] or (value is None and np.isnan(values[step]))


def test_computed_values_are_found_like_stored_ones(tmp_path):
    _, rows, recording = day(tmp_path)
    order = rows[700][1] or rows[701][1]
    want = [step for step, row in enumerate(rows) if row[1] == order]
    assert find(recording, f"order:{order}").steps.tolist() == want
    trades = [step for step, row in enumerate(rows) if row[0] == "T"]
    assert find(recording, "event:trade").steps.tolist() == trades
    with pytest.raises(TypeError, match="computed"):
        recording.columns["order"].pad(10**6)


def test_tape_lists_the_trades_newest_first(tmp_path):
    _, rows, recording = day(tmp_path)
    tape = recording.panels[1].view
    trades = [(step, row) for step, row in enumerate(rows) if row[0] == "T"]
    for step in (trades[0][0], trades[0][0] - 1, trades[-1][0], len(rows) - 1):
        frame = tape.at(step)
        want = [row for at, row in trades if at <= step][::-1][:200]
        assert [(cells[0].value, round(cells[1].value * 100), cells[2].value) for cells in frame.rows] == [
            ("buy" if row[2] == "B" else "sell", row[3], row[4]) for row in want
        ]
        assert frame.lit == (frozenset({0}) if rows[step][0] == "T" else frozenset())
    assert tape.at(trades[-1][0]).rows[0][3].value.startswith("00:00:00.")
    assert [column.name for column in tape.columns] == ["taker", "price", "size", "time"]  # a narrow panel drops the last


def test_long_curves_are_thinned_and_keep_their_extremes(tmp_path, monkeypatch):
    monkeypatch.setattr(price_plot, "WHOLE", 20)
    monkeypatch.setattr("core.markets.events.replay.BLOCK", 64)
    path, _, recording = day(tmp_path)
    plot = recording.panels[2].view
    monkeypatch.setattr(price_plot, "WHOLE", 10**9)
    whole = record("order_book", {"file": str(path)}).panels[2].view
    for thin, full in zip(plot.curves, whole.curves, strict=True):
        assert 0 < len(thin) < len(full) and set(thin.steps) <= set(full.steps)
        assert (min(thin.y), max(thin.y)) == (min(full.y), max(full.y)) and list(thin.steps) == sorted(thin.steps)
    for step in range(0, len(recording), 37):
        mid, bid, ask = (recording.fact(name, step) for name in ("mid", "best_bid", "best_ask"))
        assert plot.at(step).values == (mid, bid, ask) and plot.at(step).cursor == recording.time(step)


def test_extremes_keep_first_least_largest_and_last_of_every_group():
    rng = np.random.default_rng(0)
    values, group = rng.integers(0, 50, 400).astype(float), np.sort(rng.integers(0, 40, 400))
    kept = extremes(values, group)
    for number in np.unique(group):
        mine = np.flatnonzero(group == number)
        chosen = [at for at in kept if group[at] == number]
        assert {mine[0], mine[-1]} <= set(chosen) and len(chosen) <= 4
        assert values[chosen].min() == values[mine].min() and values[chosen].max() == values[mine].max()


def generated_day(folder: Path, events: int) -> Path:
    """An ITCH day of that many adds, deletes and executions around a wandering price, some 2,000 orders resting."""
    rng = random.Random(9)
    resting: list[int] = []
    parts = [itch_open(), itch_directory("TEST")]
    middle = 10_000
    for number in range(events):
        middle += rng.choice((-1, 0, 0, 1))
        if len(resting) < 2000 or rng.random() < 0.5:
            side = rng.choice("BS")
            price = (middle - rng.randint(1, 40) if side == "B" else middle + rng.randint(1, 40)) / 100
            parts.append(itch_add(number + 1, side, rng.randint(1, 900), price, time=number * 4_000_000))
            resting.append(number + 1)
        else:
            at = rng.randrange(len(resting))
            resting[at], order = resting[-1], resting[at]
            resting.pop()
            gone = itch_executed(order, 5, time=number * 4_000_000) if number % 9 == 0 else itch_delete(order, time=number * 4_000_000)
            parts.append(gone)
    return write(folder / "day.itch", *parts)


def test_recording_takes_less_than_200_bytes_an_event(tmp_path):
    events = 120_000
    path = generated_day(tmp_path, events)
    record("order_book", {"file": str(path)})  # compiled
    recording, taken = weighed(path)
    book = recording.panels[0].view.day.frames
    assert len(recording) == events and len(book) > 4
    assert taken / events < 200
    assert recording.fact("keyframe_bytes") < 25


def test_blocks_of_a_long_file_are_compared_with_a_table_that_knows_no_queues(tmp_path, monkeypatch):
    monkeypatch.setattr("core.markets.events.replay.COMPARED_AFTER", 2000)
    monkeypatch.setattr("core.markets.events.replay.BLOCK", 512)
    path = generated_day(tmp_path, 12_000)
    check = record("order_book", {"file": str(path)}).checks[0]
    assert check.ok and "at 6 places" in check.oracle
    from core.markets.events.book import EventBook

    def wrong(self, events):
        effects = run(self, events)
        return (
            effects
            if self.resting < 1500
            else type(effects)(*[*[getattr(effects, n) for n in effects.__struct_fields__[:7]], effects.price + 1, effects.marks])
        )

    run = EventBook.run
    monkeypatch.setattr(EventBook, "run", wrong)
    assert not record("order_book", {"file": str(path)}).checks[0].ok


def test_orders_replaced_over_and_over_keep_their_side_and_nothing_is_remembered_of_the_gone(tmp_path):
    messages = [itch_add(1, "S", 100, 10.0), itch_add(2, "B", 100, 9.0)]
    messages += [message for k in range(300) for message in (itch_replace(1 + 2 * k, 3 + 2 * k, 100 - k % 50, 10.0 + k / 100),)]
    messages += [itch_executed(601, 51), itch_executed(2, 40), itch_replace(2, 9_000, 7, 8.0), itch_replace(77_777, 9_001, 7, 8.0)]
    path = write(tmp_path / "a.itch", itch_open(), itch_directory("TEST"), *messages)
    blocks = list(open_itch(path).blocks())
    adds = [(o, s) for b in blocks for a, o, s in zip(b.action, b.order, b.side, strict=True) if a == forms.ADD]
    assert adds[0] == (1, -1) and adds[-2:] == [(9_000, 1), (9_001, 0)] and {side for order, side in adds[2:-2]} == {-1}
    recording = record("order_book", {"file": str(path)})
    frame = recording.panels[0].view.at(len(recording) - 1)
    assert [(level.price, level.quantity) for level in frame.bids] == [(8.0, 7)] and frame.asks == ()
    data = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    sides, counts = table(1000), np.zeros(4, dtype=np.int64)
    wide, narrow = np.empty((4, 2000), dtype=np.int64), np.empty((3, 2000), dtype=np.int8)
    assert itch_kernel.stock_events(data, 0, len(data), message_sizes()[0], 1, sides, counts, wide, narrow) == len(data)
    assert counts[itch_kernel.K_RESTING] == 1  # order 9000: the sides of all others are forgotten


def test_book_that_crosses_says_so_where_it_happens_and_how_the_file_betrays_ghosts(tmp_path):
    ghost = [itch_add(1, "B", 100, 10.0), itch_add(2, "S", 100, 10.1)]  # order 1 goes at the exchange, and the file is silent
    later = [itch_add(3, "B", 100, 9.5), itch_executed(3, 100), itch_add(4, "S", 100, 9.9)]
    path = write(tmp_path / "a.itch", itch_open(), itch_directory("TEST"), *ghost, *later, itch_executed(4, 50))
    recording = record("order_book", {"file": str(path)})
    check = next(check for check in recording.checks if check.name == "states crossed outside an auction")
    assert not check.ok and check.got == 2
    assert "the first is event 5" in check.oracle and "1 of 2 trading events passed a better price" in check.oracle
    assert recording.title(4) == "Order 4 offers 100 at 9.90: the book is crossed" and "does not tell of its end" in recording.detail(4)
    assert recording.fact("passed_better_price") == 1 and recording.fact("unseen_orders") == 0


@pytest.mark.skipif(not SAMPLE.exists(), reason="the shared data folder is not here")
def test_itch_sample_is_an_excerpt_whose_orders_never_leave():
    recording = record("order_book", {"file": str(SAMPLE)})
    assert [check.name for check in recording.checks if not check.ok] == ["states crossed outside an auction"]
    assert recording.fact("passed_better_price") == 121 and recording.fact("unseen_orders") == 41


def test_gaps_that_databento_flags_are_counted_and_a_whole_numbering_shows_missing_numbers(tmp_path):
    numbered = [bytearray(mbo("A", number, at=number)) for number in range(1, 301)]
    for place, record_ in enumerate(numbered):
        record_[52:56] = (1000 + place + (3 if place >= 200 else 0)).to_bytes(4, "little")
    numbered[150][36] |= 4  # flags: maybe a bad book
    path = write(tmp_path / "a.dbn", dbn_header(), *map(bytes, numbered))
    found = sequence_gaps(path)
    assert (found.records, found.flagged, found.first_flagged) == (300, 1, 150)
    assert (found.whole, found.jumps, found.missing, found.first_jump, found.back) == (True, 1, 3, 200, 0)
    numbered[250][52:56] = (5).to_bytes(4, "little")
    found = sequence_gaps(write(tmp_path / "b.dbn", dbn_header(), *map(bytes, numbered)))
    assert (found.back, found.first_back) == (1, 250)


@pytest.mark.skipif(not ESH4.exists(), reason="the shared data folder is not here")
def test_numbers_that_other_instruments_take_are_no_gaps():
    found = sequence_gaps(ESH4)
    assert (found.records, found.flagged, found.whole, found.back) == (68_792, 0, False, 0)


def test_wait_for_the_compiler_is_said(tmp_path, monkeypatch):
    said: list[str] = []
    progress = Recorder.progress

    def listen(self, done, text=""):
        said.append(text)
        progress(self, done, text)

    monkeypatch.setattr(Recorder, "progress", listen)
    path = write(tmp_path / "a.itch", itch_open(), itch_directory("TEST"), itch_add(1, "B", 100, 10.0))
    for ready in (False, True):
        said.clear()
        monkeypatch.setattr("core.markets.kernels.compiled.is_ready", lambda kernel, ready=ready: ready)
        monkeypatch.setattr("core.markets.events.replay.is_ready", lambda kernel, ready=ready: ready)
        record("order_book", {"file": str(path)})
        waits = ["compiling the reader, once", "compiling the order book, once"]
        assert [text for text in said if "compiling" in text] == ([] if ready else waits)


def test_machine_code_is_found_where_the_compiler_keeps_it(tmp_path):
    path = write(tmp_path / "a.itch", itch_open(), itch_directory("TEST"), itch_add(1, "B", 100, 10.0))
    record("order_book", {"file": str(path)})
    from core.markets.kernels.compiled import is_ready

    assert is_ready("events/kernel.replay") and is_ready("readers/itch_kernel.stock_events") and not is_ready("events/kernel.nothing")
