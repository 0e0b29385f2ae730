"""Streams of messages in archives: the report, every state at once, memory, and what cannot be read."""

from __future__ import annotations

import hashlib
from array import array
from pathlib import Path

import numpy as np
import pytest

from core.errors import BadInput
from core.markets.engine.engine import Engine, Rules, stream_messages
from core.markets.keyframes import Packed
from core.markets.matching.book import Book
from core.markets.stream.archive import read_stream
from core.markets.stream.conformance import COLUMNS, report_lines, report_sha256
from core.markets.stream.windows import Windows
from core.recognise import recognise
from core.simulation import record

STREAM = Path(__file__).resolve().parents[3] / "../shared/data/matching/orders_normal.npz"
PUBLISHED = "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e"


def workload(kind, messages=6000, seed=3):
    """Columns of a crash (through thousands of levels), of swings, of a book where nothing trades, of prices around zero."""
    rng = np.random.default_rng(seed)
    wave = {
        "crash": np.linspace(30_000, 2_000, messages),
        "swings": 10_000 + 800 * np.sin(np.linspace(0, 60, messages)),
        "static": np.full(messages, 5_000.0),
        "around zero": np.linspace(300, -300, messages),
    }[kind]
    side = rng.integers(0, 2, messages)
    away = np.where(side == 0, -1, 1) * (rng.exponential(30, messages) - (0 if kind == "static" else 12))
    type_ = rng.choice(3, messages, p=(0.7, 0.3, 0.0) if kind == "static" else (0.7, 0.15, 0.15))
    price = np.trunc(wave + away if kind != "static" else wave + np.where(side == 0, -1, 1) * (1 + abs(away))).astype(np.int64)
    recent = np.maximum(np.arange(messages) - rng.integers(0, 400, messages), 0)
    return {
        "type": type_.astype(np.uint8),
        "side": side.astype(np.uint8),
        "ioc": ((rng.random(messages) < 0.1) & (kind != "static")).astype(np.uint8),
        "quantity": rng.integers(1, 100, messages).astype(np.uint16),
        "order_id": np.where(type_ == 0, np.arange(messages), recent).astype(np.uint32),
        "price": price,
    }  # fmt: skip


def saved(folder, columns, name="stream.npz"):
    path = folder / name
    np.savez_compressed(path, **columns)
    return path


def rows_of(columns):
    return list(zip(*(columns[name].tolist() for name in COLUMNS), strict=True))


@pytest.mark.parametrize("rule", ["benchmark", "keep_on_decrease"])
@pytest.mark.parametrize("kind", ["crash", "swings", "static", "around zero"])
def test_report_of_any_workload_is_that_of_the_plain_book(kind, rule, tmp_path):
    columns = workload(kind)
    made = record("order_book", {"file": str(saved(tmp_path, columns)), "modify_rule": rule})
    lines = list(report_lines(rows_of(columns), modify_rule=rule))
    assert made.fact("report_sha256") == report_sha256(lines) == hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert made.fact("report_lines") == len(lines)
    assert made.fact("trades") == sum(line.startswith("1,") for line in lines)
    assert (made.fact("trades") == 0) is (kind == "static")
    assert [check for check in made.checks if not check.ok] == []


def test_published_stream_gives_its_sha256_within_200_bytes_a_message():
    if not STREAM.exists():
        pytest.skip("the matching benchmark's messages are not here (../shared/data/matching)")
    made = record("order_book", {"file": str(STREAM)})
    assert made.fact("report_sha256") == PUBLISHED and made.joins.number(len(made) - 1) + 1 == 1_996_097
    assert [check for check in made.checks if not check.ok] == []
    assert held(made) < 200 * len(made)


def held(made):
    """Bytes of everything that grows with the stream."""
    ladder, tape, plot, depth = (panel.view for panel in made.panels)
    stream = read_stream(STREAM)
    arrays = [*stream.values(), *vars(ladder.changes).values(), depth._book, made.joins.steps]
    trades = [array[: tape.trades.count] for array in vars(tape.trades).values() if isinstance(array, np.ndarray)]
    stores = [made.template_ids, made.times, *(c.store for c in made.columns.values())]
    stores += [store for curve in plot.curves for store in (curve.x, curve.y, curve.steps)]
    arrays = [a if not isinstance(a, array) else np.frombuffer(a) for a in arrays]
    return sum(a.nbytes for a in (*arrays, *trades)) + sum(s.itemsize * len(s) for s in stores) + ladder.keyframes.nbytes


def test_ladder_at_any_step_in_any_order_is_the_book_replayed_from_zero(tmp_path, monkeypatch):
    monkeypatch.setattr("core.markets.keyframes.EVERY", 512)
    monkeypatch.setattr("core.markets.stream.replay.EVERY", 512)
    columns = workload("swings", 5000)
    made = record("order_book", {"file": str(saved(tmp_path, columns))})
    assert made.fact("keyframes") > 4
    ladder = made.panels[0].view
    messages = [4999, 0, 2700, 2701, 2699, 511, 512, 513, 4000, 1]
    for message in messages:
        book = Book(lambda report: None, lowest=-1000)
        list(report_lines(rows_of(columns)[: message + 1], book=book))
        frame = ladder.at(made.joins.last(message))
        for levels, side in ((frame.bids, book.bids), (frame.asks, book.asks)):
            wanted = [(level.price, level.quantity, [o.order_id for o in level.orders.values()]) for level in side.from_best()]
            assert [(level.price, level.quantity, [o.order_id for o in level.orders]) for level in levels] == wanted[: len(levels)]
            assert len(levels) == min(len(wanted), 40)


def test_marks_tape_and_titles_tell_the_trades_of_the_step(tmp_path):
    columns = workload("swings", 3000)
    made = record("order_book", {"file": str(saved(tmp_path, columns))})
    ladder, tape = made.panels[0].view, made.panels[1].view
    seen = set()
    for step in range(0, 3000, 7):
        values, marks = made.values(step), ladder.at(step).marks
        lit = [tape.at(step).rows[k] for k in sorted(tape.at(step).lit)]
        traded = values["quantity"] if values["action"] == "trade" else 0
        assert sum(row[3].value for row in lit) == traded and len(lit) == (traded > 0)
        assert sum(int(mark.text.split()[0]) for mark in marks if mark.role == "trade") == traded
        assert made.fact("volume", step) - (made.fact("volume", step - 1) if step else 0) == traded
        text = made.title(step) + made.detail(step)
        assert "{" not in text
        seen.add(made.template(step).title)
    assert len(seen) > 12


def test_long_queue_is_shown_in_front_and_summed_behind(tmp_path):
    n = 1000
    columns = {
        "type": np.zeros(n, np.uint8), "side": np.zeros(n, np.uint8), "ioc": np.zeros(n, np.uint8),
        "quantity": np.full(n, 2, np.uint16), "order_id": np.arange(1, n + 1), "price": np.full(n, 70),
    }  # fmt: skip
    made = record("order_book", {"file": str(saved(tmp_path, columns))})
    (level,) = made.panels[0].view.at(n - 1).bids
    assert level.quantity == 2000 == sum(order.quantity for order in level.orders)
    assert level.orders[-1].order_id == 0 and level.orders[0].order_id == 1


def test_packed_rows_come_back_whole_and_small():
    rows = np.array([[5, -(1 << 62), 7, 1 << 40], [5, 3, 9, 1 << 40]], dtype=np.int64)
    assert np.array_equal(Packed(rows).unpack(), rows)
    engine = Engine(Rules(lowest=-1000))
    engine.skip(stream_messages(workload("static", 4000)))
    packed = Packed(engine.snapshot()[1])
    assert np.array_equal(packed.unpack(), engine.snapshot()[1])
    assert packed.nbytes < 10 * engine.resting


def test_archive_is_recognised_by_its_columns(tmp_path):
    path = saved(tmp_path, workload("static", 10), "no suffix that says so.bin.npz")
    assert recognise(path) == ("order_book", {"file": str(path)})


def changed(**columns):
    return {**workload("static", 10), **columns}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({k: v for k, v in workload("static", 10).items() if k != "ioc"}, ("no column 'ioc'",)),
        (changed(price=np.zeros(9, np.int64)), ("9 and 10 entries",)),
        (changed(price=np.zeros(10)), ("price", "float64")),
        (changed(type=np.full(10, 3, np.uint8)), ("type of message 0", "found 3", "from 0 to 2")),
        (changed(quantity=np.full(10, 1 << 51)), ("quantity of message 0",)),
        (changed(price=np.array([1] * 9 + [1 << 41])), ("price of message 9",)),
        ({name: column[:0] for name, column in workload("static", 10).items()}, ("0 messages",)),
    ],
)
def test_archive_that_cannot_be_matched_is_one_clear_line(columns, words, tmp_path):
    with pytest.raises(BadInput) as caught:
        record("order_book", {"file": str(saved(tmp_path, columns)), "format": "messages"})
    for word in words:
        assert word in str(caught.value)


def test_truncated_archive_and_missing_file_are_one_clear_line(tmp_path):
    path = saved(tmp_path, workload("static", 500))
    path.write_bytes(path.read_bytes()[:700])
    for where in (path, tmp_path / "nothing.npz"):
        with pytest.raises(BadInput):
            record("order_book", {"file": str(where), "format": "messages"})


def one_message(**values):
    return {**{name: np.array([value], dtype=np.int64) for name, value in zip(COLUMNS, (0, 0, 0, 5, 7, 100), strict=True)}, **values}


ODD_STREAMS = {
    "one order": one_message(),
    "one cancel of nobody": one_message(type=np.array([1])),
    "one modify of nobody": one_message(type=np.array([2])),
    "every cancel unknown": {**workload("swings", 900), "type": np.ones(900, np.uint8), "order_id": np.arange(900) + 10**9},
    "every number twice": {**workload("swings", 900), "order_id": np.arange(900) // 2},
    "far and sparse": {**workload("swings", 900), "price": np.random.default_rng(4).integers(-(1 << 40), 1 << 40, 900)},
    "quantities over 2^31": {**workload("swings", 900), "quantity": np.random.default_rng(5).integers(1, 1 << 45, 900)},
    "no quantity": {**workload("swings", 900), "quantity": np.zeros(900, np.uint8)},
    "numbers of 64 bits": {**workload("swings", 900), "order_id": workload("swings", 900)["order_id"].astype(np.int64) * -(1 << 50)},
}


@pytest.mark.parametrize("name", ODD_STREAMS)
def test_odd_streams_are_matched_as_the_plain_book_matches_them(name, tmp_path):
    columns = ODD_STREAMS[name]
    made = record("order_book", {"file": str(saved(tmp_path, columns))})
    lines = list(report_lines(rows_of(columns)))
    assert made.fact("report_sha256") == report_sha256(lines) and made.fact("report_lines") == len(lines)
    assert [check for check in made.checks if not check.ok] == []
    for step in {0, len(made) // 2, len(made) - 1}:
        assert made.title(step) and all(panel.view.at(step) is not None for panel in made.panels)


@pytest.mark.parametrize("kind", ["crash", "swings", "static"])
def test_windows_show_the_best_levels_of_the_whole_book_after_any_message(kind):
    columns = workload(kind, 4000)
    rules, depth, longest = Rules(lowest=-1000), 4, 3
    whole, leading = Engine(rules), Engine(rules)
    windows = Windows(rules, lambda first, end: stream_messages(columns, first, end), depth, longest)
    for first in range(0, 4000, 130):
        leading.skip(stream_messages(columns, first, first + 130))
        windows.extend(leading, min(first + 130, 4000))
    wanted = {}
    for n in range(4000):
        whole.skip(stream_messages(columns, n, n + 1))
        if n % 13 == 0 or n % 130 in (0, 129):
            wanted[n] = seen(whole, depth, longest)
    for n in sorted(wanted, key=lambda n: n * 7919 % 4001):
        with windows.after(n) as state:
            assert seen(state, depth, longest) == wanted[n], n
        assert seen(windows.rebuilt(n), depth, longest) == wanted[n], n


def seen(engine, depth, longest):
    return [(engine.levels(side, depth, longest), engine.best(side)) for side in (1, -1)], engine.depth


def test_windows_stay_small_however_much_rests():
    columns = workload("static", 40_000)
    columns = {**columns, "type": np.zeros(40_000, int), "order_id": np.arange(40_000)}
    rules = Rules(lowest=-1000)
    engine, windows = Engine(rules), Windows(rules, lambda first, end: stream_messages(columns, first, end), 40, 20)
    for first in range(0, 40_000, 1000):
        engine.skip(stream_messages(columns, first, first + 1000))
        windows.extend(engine, first + 1000)
    assert engine.resting == 40_000
    assert windows.nbytes < 20 * 40_000
    with windows.after(39_500) as state:
        assert state.resting < 2 * 40 * 21 + 1000


def test_snapshot_of_many_far_levels_comes_back():
    engine = Engine(Rules(lowest=-(1 << 40)))
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, 5000)
    columns = {
        "type": np.zeros(5000, int), "side": side, "ioc": np.zeros(5000, int), "quantity": np.ones(5000, int),
        "order_id": np.arange(5000), "price": np.where(side, 1, -1) * rng.integers(1, 1 << 40, 5000),
    }  # fmt: skip
    engine.skip(stream_messages(columns))
    again = Engine.from_snapshot(Rules(lowest=-(1 << 40)), *engine.snapshot())
    assert np.array_equal(again.snapshot()[1], engine.snapshot()[1]) and again.levels(1, 99) == engine.levels(1, 99)
