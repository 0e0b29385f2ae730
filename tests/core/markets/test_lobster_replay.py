"""Replaying a LOBSTER day: the ladder, the queues, the checks that find a changed row, and the real sample days."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lobster_sample import UNOCCUPIED, csv_text, sample_day, write_day

from core.errors import Cancelled
from core.markets.lobster.book import wrong_transitions
from core.markets.lobster.reader import EXECUTION, HIDDEN_EXECUTION, find_source, read_messages, read_orderbook
from core.markets.lobster.steps import TEMPLATES
from core.recording import Recording
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data/lobster"
GOOG = DATA / "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip"


def replay(path, **params):
    return record("order_book", {"file": str(path), **params})


def checks(recording):
    return {check.name: check for check in recording.checks}


EXCEPTIONS = "previous row + message = next row (exceptions)"
HIDDEN = "hidden executions that move the ladder"


@pytest.fixture
def message(tmp_path):
    return write_day(tmp_path)


def orderbook_of(message):
    return message.with_name(message.name.replace("message", "orderbook"))


def test_ladder_at_every_event_is_the_orderbook_row(message):
    recording = replay(message)
    rows = sample_day()[1]
    ladder = recording.panels[0].view
    assert len(recording) == len(rows) == 400
    for step, row in enumerate(rows):
        frame = ladder.at(step)
        asks = [(round(level.price * 10_000), level.quantity) for level in frame.asks]
        bids = [(round(level.price * 10_000), level.quantity) for level in frame.bids]
        assert asks == [(p, q) for p, q in zip(row[0::4], row[1::4], strict=True) if q]
        assert bids == [(p, q) for p, q in zip(row[2::4], row[3::4], strict=True) if q]
        for level in (*frame.asks, *frame.bids):
            assert sum(order.quantity for order in level.orders) == level.quantity


def test_queues_are_the_orders_of_a_plain_replay(tmp_path):
    """With all levels in the file nothing is unknown: the queue at each price is every live order there, oldest first."""
    message = write_day(tmp_path, seed=5, events=500, levels=60)
    ladder = replay(message).panels[0].view
    live: dict[int, list] = {}
    for step, (_, kind, order, size, price, side) in enumerate(sample_day(5, 500, 60)[0]):
        if kind == 1:
            live[order] = [side, price, size]
        elif kind in (2, 3, 4):
            live[order][2] -= size
            if not live[order][2]:
                del live[order]
        frame = ladder.at(step)
        for resting, levels in ((1, frame.bids), (-1, frame.asks)):
            for level in levels:
                want = [(o, left) for o, (s, p, left) in live.items() if s == resting and p == round(level.price * 10_000)]
                assert [(r.order_id, r.quantity) for r in level.orders] == want


def test_all_checks_hold_and_facts_are_counted_from_the_messages(message):
    recording = replay(message)
    assert [check.ok for check in recording.checks] == [True] * 3
    messages = sample_day()[0]
    traded = [row for row in messages if row[1] in (4, 5)]
    assert recording.fact("trades") == len(traded)
    assert recording.fact("volume") == sum(row[3] for row in traded)
    assert recording.fact("volume[bought]") == sum(row[3] for row in messages if row[1] == 4 and row[5] == -1)
    assert recording.fact("hidden_share") == pytest.approx(sum(r[3] for r in messages if r[1] == 5) / sum(r[3] for r in traded))
    assert recording.fact("out_of_turn") == 0 < recording.fact("known_executions")


@pytest.mark.parametrize("column", range(12))
def test_one_changed_number_in_the_orderbook_file_is_counted(message, column):
    book = orderbook_of(message)
    rows = [list(row) for row in sample_day()[1]]
    row = next(k for k in range(200, 400) if all(rows[k][1::2]) and rows[k] == rows[k - 1])  # an event that moves nothing
    rows[row][column] += 1
    book.write_text(csv_text(rows))
    assert checks(replay(message))[EXCEPTIONS].got in (1, 2)
    assert not checks(replay(message))[EXCEPTIONS].ok


def test_every_change_of_a_message_that_acts_on_the_book_is_counted(message):
    """Another size, the other side, another price: each makes its own transition wrong."""
    source = find_source(message)
    events = read_messages(source)
    rows = np.concatenate(list(read_orderbook(source, len(events))))
    assert not wrong_transitions(rows[:-1], rows[1:], events, 1).any()
    acting = np.flatnonzero(events.type[1:] <= EXECUTION)
    for column, change in (("size", 1), ("price", 1), ("direction", None)):
        values = getattr(events, column)
        kept = values.copy()
        values[:] = -values if change is None else values + change
        wrong = wrong_transitions(rows[:-1], rows[1:], events, 1)
        values[:] = kept
        assert wrong[acting].mean() > 0.99, column


def test_hidden_execution_that_moves_a_row_is_found(message):
    rows = [list(row) for row in sample_day()[1]]
    hidden = next(k for k, row in enumerate(sample_day()[0]) if row[1] == HIDDEN_EXECUTION and k > 50 and rows[k][1])
    rows[hidden][1] += 7
    orderbook_of(message).write_text(csv_text(rows))
    found = checks(replay(message))
    assert not found[HIDDEN].ok and found[HIDDEN].got == 1
    assert f"event {hidden + 1}" in found[EXCEPTIONS].oracle


def test_steps_say_what_happened_and_carry_searchable_tags(message):
    recording = replay(message)
    for step, row in enumerate(sample_day()[0]):
        _, kind, order, size, price, side = row
        values = recording.values(step)
        assert (values["type"], values["side"]) == (kind, "buy" if side > 0 else "sell")
        assert recording.time(step) == float(row[0])
        assert "{" not in recording.title(step) + recording.detail(step)
        if kind < HIDDEN_EXECUTION:
            assert (values["order"], values["quantity"], values["price"]) == (order, size, price / 10_000)
            assert str(order) in recording.title(step) and str(size) in recording.title(step)
            assert f"{price / 10_000:.2f}" in recording.title(step)


def test_best_prices_before_and_after_are_those_of_the_rows(message):
    recording = replay(message)
    rows = sample_day()[1]
    emptied = 0
    for step in range(1, 400):
        title, values = recording.title(step), recording.values(step)
        if "empties" in title:
            emptied += 1
            column = 2 if values["side"] == "buy" else 0
            assert rows[step][column] != rows[step - 1][column]
            name = "bid" if values["side"] == "buy" else "ask"
            if rows[step][column + 1]:
                assert values[name] == rows[step][column] / 10_000
            assert values[f"{name}_before"] == rows[step - 1][column] / 10_000
    assert emptied > 5


def test_every_template_is_filled_by_its_values():
    sample = {
        "order": 1, "price": 1.0, "quantity": 2, "bid": 1.0, "ask": 2.0, "mid": 1.5, "spread": 1.0, "volume": 3, "level": 1,
        "level_before": 2, "bid_before": 1.0, "ask_before": 2.0, "mid_before": 1.5, "spread_before": 1.0,
    }  # fmt: skip
    from core.formatting import FORMATTER

    for title, detail in TEMPLATES:
        assert "{" not in FORMATTER.fill(title, sample) + FORMATTER.fill(detail, sample)


@pytest.mark.parametrize(("part", "tick"), [(1, 0.01), (100, 0.0001), (2, 0.005)])
def test_ladder_has_a_row_for_every_price_also_of_shares_below_a_dollar(tmp_path, part, tick):
    messages, rows = sample_day()
    prices = [[cell // part if 0 < abs(cell) < UNOCCUPIED and k % 2 == 0 else cell for k, cell in enumerate(row)] for row in rows]
    message = write_day(tmp_path)
    message.write_bytes(csv_text([[*one[:4], one[4] // part if one[1] != 7 else one[4], one[5]] for one in messages]).encode())
    orderbook_of(message).write_bytes(csv_text(prices).encode())
    ladder = replay(message).panels[0].view
    assert ladder.tick == tick
    frame = ladder.at(len(rows) - 1)
    assert len({round(level.price / tick) for level in frame.asks}) == len(frame.asks) > 1


def test_message_file_alone_says_that_its_book_is_rebuilt(tmp_path):
    message = write_day(tmp_path, seed=5, events=500, levels=60)
    orderbook_of(message).unlink()
    recording = replay(message)
    assert "rebuilt" in recording.panels[0].title
    assert "messages alone" in str(recording.fact("depth_source"))
    assert all(check.ok for check in recording.checks) and recording.fact("ghost_orders") == 0
    ladder = recording.panels[0].view
    for step, row in enumerate(sample_day(5, 500, 10)[1]):  # all levels were sent, so the rebuilt book is the true one
        asks = [(round(level.price * 10_000), level.quantity) for level in ladder.at(step).asks]
        if all(row[k + 1] for k in (0, 36)):
            assert asks == [(p, q) for p, q in zip(row[0::4], row[1::4], strict=True) if q]


def test_rebuilt_book_drops_orders_that_cannot_be_there(tmp_path):
    path = tmp_path / "m.csv"
    lines = [
        "34200.0,1,1,100,1000000,1",  # a bid that was cancelled out of sight
        "34201.0,1,2,100,1000500,-1",
        "34202.0,1,3,100,990000,-1",  # an offer below it can only rest if the bid is gone
        "34203.0,4,9,50,980000,1",  # an execution of an order never seen
        "34204.0,3,2,100,1000500,-1",
    ]
    path.write_text("\n".join(lines) + "\n")
    recording = replay(path)
    assert (recording.fact("ghost_orders"), recording.fact("unseen_orders")) == (1, 1)
    assert all(check.ok for check in recording.checks)
    assert recording.panels[0].view.at(2).bids == ()
    assert "never saw" in recording.title(3)


def test_one_event_is_enough(tmp_path):
    for name, row in (("a_message_1.csv", "34200.5,1,7,100,1000000,1\n"), ("a_orderbook_1.csv", "9999999999,0,1000000,100\n")):
        (tmp_path / name).write_text(row)
    recording = replay(tmp_path / "a_message_1.csv")
    assert len(recording) == 1 and recording.fact("best_ask") is None and recording.fact("best_bid") == 100.0
    for panel in recording.panels:
        panel.view.at(0)


def test_recording_can_be_read_and_cancelled_while_it_grows(message, monkeypatch):
    monkeypatch.setattr("core.markets.lobster.reader._BLOCK_BYTES", 1000)
    recording = Recording("order_book")
    seen = []

    def look(self, done, text=""):
        if len(recording):
            step = len(recording) - 1
            seen.append((step, recording.panels[0].view.at(step), [panel.view.at(step) for panel in recording.panels[1:]]))
        if len(recording) > 300:
            recording.cancel()
        original(self, done, text)

    from core.recording import Recorder

    original = Recorder.progress
    monkeypatch.setattr(Recorder, "progress", look)
    with pytest.raises(Cancelled):
        record("order_book", {"file": str(message)}, recording=recording)
    assert recording.state == "cancelled" and len(seen) > 5 and 300 < len(recording) < 400
    for step, frame, _ in seen:  # what was shown while it grew is what is shown now
        assert recording.panels[0].view.at(step) == frame


def test_crosses_halts_and_unsigned_hidden_executions_change_no_level(tmp_path):
    path = tmp_path / "b_message_1.csv"
    lines = [
        "34200.0,1,1,100,1000000,1",
        "34200.5,1,2,100,1000400,-1",
        "34201.0,7,0,0,-1,-1",
        "34202.0,7,0,0,0,-1",
        "34203.0,7,0,0,1,-1",
        "34204.0,6,-1,500,1000200,1",
        "34205.0,5,0,30,1000300,0",
    ]
    path.write_text("\n".join(lines) + "\n")
    row = "1000400,100,1000000,100\n"
    (tmp_path / "b_orderbook_1.csv").write_text("9999999999,0,1000000,100\n" + row * 6)
    recording = replay(path)
    assert all(check.ok for check in recording.checks)
    titles = [recording.title(step) for step in range(7)]
    assert titles[2:5] == ["Trading halts", "Quoting resumes", "Trading resumes"]
    assert titles[5:] == ["A cross (auction) trades 500 at 100.02", "30 trade with a hidden order at 100.03"]
    assert (recording.fact("trades"), recording.fact("volume"), recording.fact("volume[bought]")) == (2, 530, 0)
    frames = [recording.panels[0].view.at(step) for step in range(1, 7)]
    assert len({(frame.bids, frame.asks) for frame in frames}) == 1
    assert [row[1].value for row in recording.panels[1].view.at(6).rows] == ["?", "cross"]


# the real sample days ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def goog():
    if not GOOG.exists():
        pytest.skip("the LOBSTER sample days are not here (../shared/data/lobster)")
    return replay(GOOG)


def test_goog_day_has_no_exception_in_147916_events(goog):
    assert len(goog) == 147_916
    assert [(check.name, check.got, check.ok) for check in goog.checks[:2]] == [(EXCEPTIONS, 0, True), (HIDDEN, 0, True)]
    assert all(check.ok for check in goog.checks)


def test_goog_day_has_the_published_figures(goog):
    assert goog.fact("volume[bought]") == 250_020
    assert goog.fact("volume[sold]") == 242_489
    assert round(goog.fact("hidden_share"), 3) == 0.303
    assert goog.fact("known_executions") == 7_765 - 816
    assert goog.fact("out_of_turn") / goog.fact("known_executions") < 0.0012
    assert goog.fact("mid", 0) > 579.8 and goog.fact("mid") == 565.17


def test_amzn_day_has_the_published_figures():
    path = DATA / "LOBSTER_SampleFile_AMZN_2012-06-21_1.zip"
    if not path.exists():
        pytest.skip("the LOBSTER sample days are not here (../shared/data/lobster)")
    recording = replay(path)
    assert round(recording.fact("hidden_share"), 3) == 0.244
    assert recording.fact("known_executions") == 8_974 - 4_492
    assert all(check.ok for check in recording.checks)


def test_goog_level_1_is_the_level_10_day_where_the_best_changed_or_a_hidden_order_traded(goog):
    day = goog.panels[0].view.day
    source = find_source(DATA / "LOBSTER_SampleFile_GOOG_2012-06-21_1.zip")
    events = read_messages(source)
    best = day.rows.read(0, len(day.rows))[:, :4]
    changed = np.ones(len(best), dtype=bool)
    changed[1:] = (best[1:] != best[:-1]).any(axis=1) | (day.events.type[1:] == HIDDEN_EXECUTION)
    assert changed.sum() == 49_482
    assert np.array_equal(best[changed], np.concatenate(list(read_orderbook(source, len(events)))))
    assert np.array_equal(day.events.time[changed], events.time)
