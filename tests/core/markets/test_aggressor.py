"""Who was buying: the split of a price change by cause, what counts as one, the story's markets, and the real days."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from lobster_sample import UNOCCUPIED, csv_text, sample_day, write_day
from market_files import dbn_header, itch_add, itch_cross, itch_directory, itch_executed, itch_hidden, itch_open, itch_replace, mbo, write
from tapes import agrees, split_of_lobster

from core.errors import BadInput
from core.markets.aggressor import Plain, Windows
from core.markets.signing.falling_flow import FallingMarket
from core.markets.signing.split import Split
from core.markets.signing.tape import DELETION, EXECUTION, NO_MID, PLACEMENT, Tape
from core.markets.stream.archive import COLUMNS
from core.recording import Recorder, Recording
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data/lobster"
GOOG = DATA / "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip"
real_days = pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")


def lobster(folder: Path, *rows: tuple[float, int, int, int, int, int, int | None, int | None]) -> Path:
    """A one-level day of (time, type, order, size, price, direction, bid, ask after it), prices in cents; None is an empty side."""
    message = folder / "X_2024-01-02_34200000_57600000_message_1.csv"
    message.write_text(csv_text([[t, k, o, s, p * 100, d] for t, k, o, s, p, d, _, _ in rows]))
    books = []
    for *_, bid, ask in rows:
        books.append([*((ask * 100, 5) if ask else (UNOCCUPIED, 0)), *((bid * 100, 5) if bid else (-UNOCCUPIED, 0))])
    (folder / message.name.replace("message", "orderbook")).write_text(csv_text(books))
    return message


def tape(*rows: tuple[float, int, int, int, float, int, bool]) -> Tape:
    return Tape(*(np.array(column) for column in zip(*rows, strict=True)))


def facts(recording, *names):
    return tuple(recording.fact(name) if name in recording.facts else None for name in names)


# what counts as what ----------------------------------------------------------------------------------------------------


def test_a_change_belongs_to_the_event_at_which_the_row_changes(tmp_path):
    path = lobster(
        tmp_path,
        (1, 1, 1, 5, 9999, 1, 9999, 10001),  # the mid is first known: no change
        (2, 4, 2, 5, 10001, -1, 9999, 10003),  # a buyer takes the ask: +0.01
        (3, 1, 3, 5, 10002, -1, 9999, 10002),  # a lower ask: -0.005
        (4, 3, 1, 5, 9999, 1, 9995, 10002),  # the bid is deleted: -0.02
        (5, 2, 4, 1, 9995, 1, 9995, 10002),  # a part is cancelled: nothing moves
        (6, 4, 5, 5, 9995, 1, 9994, 10002),  # a seller takes the bid: -0.005
        (7, 1, 6, 5, 9998, 1, 9998, 10002),  # a higher bid: +0.02
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_trades", "change_at_quotes") == pytest.approx((0.005, -0.005))
    assert facts(recording, "change_at_quotes[placements]", "change_at_quotes[deletions]") == pytest.approx((0.015, -0.02))
    assert facts(recording, "buy_volume", "sell_volume", "price_change", "mid") == pytest.approx((5, 5, 0.0, 100.0))
    assert len(recording) == 5 and [recording.columns["cause"].value(k) for k in range(5)] == [
        "executions", "placements", "deletions", "executions", "placements",
    ]  # fmt: skip


def test_hidden_executions_are_in_neither_volume_and_no_rule_is_asked_about_them(tmp_path):
    path = lobster(
        tmp_path,
        (1, 1, 1, 5, 9999, 1, 9999, 10001),
        (2, 5, 0, 70, 10000, -1, 9999, 10001),
        (3, 4, 2, 5, 10001, -1, 9999, 10001),
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "buy_volume", "sell_volume") == (5, 0)
    assert len(recording) == 2 and "hidden" in recording.title(0) and "hidden" not in recording.title(1)
    assert "0 of 1 fills decided" in recording.facts["classification_accuracy[tick_rule]"].note


def test_a_row_that_changes_at_a_hidden_execution_or_a_cross_changes_at_a_trade(tmp_path):
    path = lobster(
        tmp_path,
        (1, 1, 1, 5, 9999, 1, 9999, 10001),
        (2, 5, 0, 70, 10000, 1, 9997, 10001),
        (3, 6, -1, 100, 10000, 1, 9997, 10003),
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_trades", "change_at_quotes", "buy_volume", "sell_volume") == pytest.approx((0.0, 0.0, 0, 0))
    assert [round(recording.columns["change"].value(k), 6) for k in range(2)] == [-0.01, 0.01]
    assert "100 trade at 100.00" in recording.title(1)


def test_a_change_at_a_halt_is_neither_a_trade_nor_an_order(tmp_path):
    path = lobster(tmp_path, (1, 1, 1, 5, 9999, 1, 9999, 10001), (2, 7, 0, 0, -1, -1, 9999, 10001), (3, 7, 0, 0, 1, -1, 9999, 10005))
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_trades", "change_at_quotes", "change_at_quotes[other]") == pytest.approx((0.0, 0.02, 0.02))
    assert len(recording) == 1 and recording.title(0) == "The mid moves to 100.02" and "halt" in recording.detail(0)


def test_the_mid_waits_while_a_side_is_empty_and_the_event_that_brings_it_back_owns_the_change(tmp_path):
    path = lobster(
        tmp_path,
        (1, 1, 1, 5, 9999, 1, 9999, None),
        (2, 4, 9, 7, 9999, 1, 9999, None),  # a trade before the mid is known: volume, no change
        (3, 1, 2, 5, 10001, -1, 9999, 10001),
        (4, 4, 2, 5, 10001, -1, 9999, None),  # the last ask is bought: nothing to tell the mid from
        (5, 1, 3, 5, 10005, -1, 9999, 10005),  # a new ask: +0.02, and it is the placement's
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_trades", "change_at_quotes[placements]", "price_change") == pytest.approx((0.0, 0.02, 0.02))
    assert facts(recording, "buy_volume", "sell_volume") == (5, 7)
    assert recording.fact("mid", 0) is None and "–" in recording.detail(0) and recording.fact("return", 2) == pytest.approx(0.02 / 100)


def test_a_market_at_zero_or_below_has_changes_but_no_return():
    split = Split(100)
    split.add(tape((1.0, PLACEMENT, -5, 0, 0.0, 0, False), (2.0, EXECUTION, 3, 1, 0.01, 5, False)))
    assert split.opening == -5 and int(split.at_trades(0)) == 8
    recording = Recording("aggressor")
    from core.markets.aggressor import SeededFeed, _facts

    _facts(Recorder(recording), SeededFeed(0, 2, 0.0, 0.5, "makers"), split)
    recording._count = 1
    assert recording.fact("return") is None and recording.fact("price_change") == pytest.approx(0.04)


def test_a_databento_event_with_a_trade_in_it_is_a_trade_s_change_and_one_without_is_a_quote_s(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5, at=1), mbo("A", 3, "A", 102.0, 5, at=2)]
    buy = [mbo("T", 9, "B", 101.0, 5, at=3, last=False), mbo("F", 2, "A", 101.0, 5, at=3, last=False), mbo("C", 2, "A", 101.0, 5, at=3)]
    quote = [mbo("C", 1, "B", 100.0, 5, at=4, last=False), mbo("A", 4, "B", 98.0, 5, at=4)]
    modify = [mbo("M", 4, "B", 97.0, 5, at=5)]
    path = write(tmp_path / "a.dbn", dbn_header(), *book, *buy, *quote, *modify)
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_trades", "change_at_quotes", "change_at_quotes[modifications]") == (0.5, -1.5, -0.5)
    assert facts(recording, "change_at_quotes[placements]", "buy_volume", "sell_volume") == (-1.0, 5, 0)
    titles = [recording.title(step) for step in range(len(recording))]
    assert titles[0] == "A buyer takes 5 at 101.00" and titles[1] == "What was bought is gone from the book: the mid rises to 101.00"
    assert "without" not in recording.detail(1) and recording.joins.steps.tolist() == [1]


def test_the_mid_is_read_only_where_the_exchange_s_event_is_complete(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5, at=1), mbo("A", 3, "B", 99.0, 5, at=2)]
    moved = [mbo("C", 1, "B", 100.0, 5, at=3, last=False), mbo("A", 4, "B", 100.5, 5, at=3)]  # halfway the bid would be 99
    recording = record("aggressor", {"file": str(write(tmp_path / "a.dbn", dbn_header(), *book, *moved))})
    assert len(recording) == 1 and facts(recording, "change_at_quotes[placements]", "change_at_quotes[deletions]") == (0.25, None)


def test_a_databento_trade_without_a_side_is_shown_and_in_neither_volume(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5, at=1)]
    path = write(tmp_path / "a.dbn", dbn_header(), *book, mbo("T", 0, "N", 100.5, 44, at=2), mbo("A", 3, "B", 100.5, 1, at=3))
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "buy_volume", "sell_volume") == (0, 0) and "nobody is named" in recording.title(0)


def test_a_snapshot_after_the_start_moves_the_mid_by_nobody_s_hand(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5, at=1)]
    again = [mbo("R", 0, "N", 0, 0, at=2, last=False, flags=32), mbo("A", 3, "B", 100.0, 5, at=2, last=False, flags=32)]
    again.append(mbo("A", 4, "A", 104.0, 5, at=2, flags=32))
    path = write(tmp_path / "a.dbn", dbn_header(), *book, *again)
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "change_at_quotes[other]", "change_at_quotes[placements]") == (1.5, None)


def test_itch_tells_executions_replaces_hidden_trades_and_crosses_apart(tmp_path):
    messages = [
        itch_open(), itch_directory("TEST"), itch_add(1, "B", 100, 10.00), itch_add(2, "S", 100, 10.02), itch_add(3, "S", 100, 10.04),
        itch_executed(2, 100), itch_replace(3, 4, 100, 10.06), itch_hidden(30, 10.01), itch_cross(500, 10.03),
    ]  # fmt: skip
    recording = record("aggressor", {"file": str(write(tmp_path / "a.itch", *messages))})
    assert facts(recording, "change_at_trades", "change_at_quotes[placements]", "buy_volume", "sell_volume") == pytest.approx(
        (0.01, 0.01, 100, 0)
    )
    titles = [recording.title(step) for step in range(len(recording))]
    assert "the mid rises to 10.02" in titles[0] and "hidden" in titles[2] and "nobody is named" in titles[3]


# the split as a whole ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_a_random_lobster_day_is_split_as_by_a_loop(tmp_path, seed):
    path = write_day(tmp_path, seed=seed, events=600)
    recording = record("aggressor", {"file": str(path)})
    agrees(recording, split_of_lobster(*sample_day(seed, 600)))
    assert all(check.ok for check in recording.checks)


def test_every_step_says_what_happened_and_the_table_sums_to_the_change(tmp_path):
    recording = record("aggressor", {"file": str(write_day(tmp_path))})
    for step in range(len(recording)):
        assert "{" not in recording.title(step) + recording.detail(step)
        rows = {row[0].value.strip(): [cell.value for cell in row[1:]] for row in recording.panels[1].view.at(step).rows}
        together = rows["together"]
        assert together[0] == pytest.approx(recording.fact("price_change", step))
        assert together == pytest.approx([a + b for a, b in zip(rows["trades"], rows["quotes"], strict=True)])
        parts = [rows[name] for name in ("placed", "withdrawn", "changed", "other") if name in rows]
        assert rows["quotes"] == pytest.approx([sum(column) for column in zip(*parts, strict=True)])
        assert recording.fact("change_at_trades", step) == pytest.approx(rows["trades"][0])
        assert rows["trades"][1] >= 0 >= rows["trades"][2] and rows["trades"][0] == pytest.approx(rows["trades"][1] + rows["trades"][2])


def test_titles_name_the_direction_in_which_the_mid_went(tmp_path):
    recording = record("aggressor", {"file": str(write_day(tmp_path))})
    for step in range(len(recording)):
        change, title = recording.columns["change"].value(step), recording.title(step)
        if "rises" in title:
            assert change > 0
        elif "falls" in title:
            assert change < 0
        elif "moves" not in title:
            assert change == 0
        if title.startswith("A buyer"):
            assert recording.columns["bought"].value(step) > (recording.columns["bought"].value(step - 1) if step else 0)


def test_blocks_of_any_length_give_the_same_split():
    rng = np.random.default_rng(3)
    count = 500
    twice = np.where(rng.random(count) < 0.1, NO_MID, 20_000 + np.cumsum(rng.integers(-2, 3, count)))
    size = np.where(rng.random(count) < 0.3, rng.integers(1, 9, count), 0)
    sign = np.where(size > 0, rng.choice([1, -1], count), 0)
    columns = (np.cumsum(rng.random(count)), rng.integers(0, 5, count), twice, sign, 100 + rng.integers(-3, 4, count) / 100, size)
    whole = Tape(*columns, (size > 0) & (rng.random(count) < 0.2))
    results = []
    for length in (count, 7, 1):
        split, plain = Split(100), Plain()
        for first in range(0, count, length):
            part = Tape(*(getattr(whole, name)[first : first + length] for name in Tape.__struct_fields__))
            split.add(part)
            plain.add(part)
        results.append(
            {name: split.columns.get(name).tolist() for name in ("time", "mid", "bought", "up0", "down3", "events1", "lee_ready")}
        )
        recording = Recording("aggressor")
        plain.check(Recorder(recording), split)
        assert all(check.ok for check in recording.checks)
    for other in results[1:]:
        for name, want in results[0].items():
            assert other[name] == pytest.approx(want, nan_ok=True), name


def test_checks_turn_red_when_the_split_is_wrong():
    split, plain = Split(100), Plain()
    rows = tape((1.0, PLACEMENT, 200, 0, 0.0, 0, False), (2.0, EXECUTION, 204, 1, 1.02, 5, False), (3.0, DELETION, 202, 0, 0.0, 0, False))
    split.add(rows)
    plain.add(msgspec.structs.replace(rows, cause=np.array([1, 2, 0])))
    recording = Recording("aggressor")
    plain.check(Recorder(recording), split)
    assert [check.ok for check in recording.checks] == [True, False, False, True]


def test_windows_count_those_in_which_the_price_went_against_the_flow():
    split, windows = Split(100), Windows(10.0)
    rows = [(0.0, PLACEMENT, 200, 0, 0.0, 0, False)]
    rows += [(1.0, EXECUTION, 202, 1, 1.0, 5, False), (4.0, DELETION, 198, 0, 0.0, 0, False)]  # bought, fell
    rows += [(11.5, EXECUTION, 196, -1, 1.0, 5, False)]  # sold, fell
    rows += [
        (21.5, EXECUTION, 196, -1, 1.0, 5, False),
        (22.0, EXECUTION, 196, 1, 1.0, 5, False),
        (23.0, DELETION, 198, 0, 0.0, 0, False),
    ]  # even
    rows += [(35.0, EXECUTION, 198, -1, 1.0, 5, False)]  # sold, stood still
    rows += [(41.0, EXECUTION, 198, 1, 1.0, 5, False), (42.0, DELETION, 190, 0, 0.0, 0, False)]  # bought, fell
    moves = split.add(tape(*rows))
    windows.add(moves)
    assert windows.against() == (2 / 3, 3)


def test_quote_rule_knows_the_mid_of_the_second_before_and_exact_quotes_the_one_before_the_trade(tmp_path):
    path = lobster(
        tmp_path,
        (1.0, 1, 1, 5, 9999, 1, 9999, 10001),  # mid 100.00, all that second 2 is joined with
        (2.1, 1, 2, 5, 10000, -1, 9999, 10000),  # 99.995
        (2.5, 4, 2, 5, 10000, -1, 9999, 10001),  # bought at 100.00: at the old mid, above the new one
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "classification_accuracy[quote_rule]", "classification_accuracy[exact_quotes]") == (None, 1.0)
    assert "0 of 1 fills decided" in recording.facts["classification_accuracy[lee_ready]"].note


def test_tick_rule_per_taker_compares_first_fills_of_sweeps(tmp_path):
    path = lobster(
        tmp_path,
        (1.0, 1, 1, 5, 9999, 1, 9999, 10000),
        (2.0, 4, 2, 5, 10000, -1, 9999, 10001),  # one buyer sweeps three prices: undecided, up, up
        (2.0, 4, 3, 5, 10001, -1, 9999, 10002),
        (2.0, 4, 4, 5, 10002, -1, 9999, 10004),
        (3.0, 4, 5, 5, 10001, 1, 9999, 10004),  # sold below the last fill, above the last taker's first
        (4.0, 4, 6, 5, 10003, -1, 9999, 10004),
    )
    recording = record("aggressor", {"file": str(path)})
    assert facts(recording, "classification_accuracy[tick_rule]", "classification_accuracy[tick_rule_per_taker]") == (1.0, 0.5)
    assert "2 of 3 takers decided" in recording.facts["classification_accuracy[tick_rule_per_taker]"].note
    assert recording.joins.steps.tolist() == [1, 2]


# reading while it grows -------------------------------------------------------------------------------------------------


def test_the_first_steps_are_there_while_the_file_is_still_read(tmp_path, monkeypatch):
    from core.markets.lobster import reader as lobster

    monkeypatch.setattr(lobster, "_BLOCK_BYTES", 1 << 14)
    path = write_day(tmp_path, events=6_000)
    recording = Recording("aggressor")
    seen = []
    recorder_progress = Recorder.progress

    def watch(self, done, text=""):
        recorder_progress(self, done, text)
        if len(recording):
            last = len(recording) - 1
            seen.append((done, last, recording.title(last), recording.fact("mid"), [panel.view.at(last) for panel in recording.panels]))

    monkeypatch.setattr(Recorder, "progress", watch)
    record("aggressor", {"file": str(path)}, recording=recording)
    assert len(seen) > 5 and seen[0][0] < 0.3 and seen[0][1] < len(recording) / 4
    assert [last for _, last, *_ in seen] == sorted(last for _, last, *_ in seen)
    _, last, title, mid, frames = seen[1]
    assert recording.title(last) == title and recording.fact("mid", last) == mid
    assert [panel.view.at(last) for panel in recording.panels[1:2]] == frames[1:2]
    agrees(recording, split_of_lobster(*sample_day(0, 6_000)))


@pytest.mark.parametrize(("drop", "found"), [("orderbook", "2,999 rows; allowed: 3,000 rows"), ("message", "more than 2,999 rows")])
def test_files_of_different_length_are_refused_though_read_together(tmp_path, drop, found):
    path = write_day(tmp_path, events=3_000)
    short = path.with_name(path.name.replace("message", drop))
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(BadInput, match=found):
        record("aggressor", {"file": str(path)})


def test_a_time_that_goes_back_between_two_blocks_is_found(tmp_path, monkeypatch):
    from core.markets.lobster import reader as lobster

    monkeypatch.setattr(lobster, "_BLOCK_BYTES", 64)
    path = write_day(tmp_path, events=40)
    lines = path.read_text().splitlines()
    lines[20] = "1.0," + lines[20].split(",", 1)[1]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput, match="line 21: time goes back"):
        record("aggressor", {"file": str(path)})


# the story's markets ----------------------------------------------------------------------------------------------------


def test_price_falls_while_buyers_take_more_and_quotes_did_it():
    recording = record("aggressor", {"seed": 3, "takers": 300})
    assert all(check.ok for check in recording.checks)
    assert recording.fact("buy_volume") > recording.fact("sell_volume") and recording.fact("return") == pytest.approx(-0.06, abs=0.003)
    assert recording.fact("change_at_trades") > 0 > recording.fact("change_at_quotes")
    assert recording.fact("classification_accuracy[exact_quotes]") == 1.0


def test_informed_takers_make_the_same_fall_at_their_trades():
    recording = record("aggressor", {"seed": 3, "takers": 300, "informed": "takers", "fall": 0.01})
    assert recording.fact("price_change") == pytest.approx(-1.0, abs=0.05)
    assert recording.fact("change_at_trades") < -0.9 and recording.fact("change_at_quotes") > -0.1
    assert recording.fact("sell_volume") > recording.fact("buy_volume")


@pytest.mark.parametrize("informed", ["makers", "takers"])
def test_split_of_the_seeded_flow_is_a_loop_over_its_happenings(informed):
    happened = list(FallingMarket(5, 200, 0.06, 0.55, informed).happenings())
    parts, last = {"trade": 0, "placement": 0, "deletion": 0}, None
    for h in happened:
        if h.bid is not None and h.ask is not None:
            assert h.bid < h.ask
            parts[h.kind] += 0 if last is None else h.bid + h.ask - last
            last = h.bid + h.ask
    recording = record("aggressor", {"seed": 5, "takers": 200, "informed": informed})
    assert recording.fact("change_at_trades") == pytest.approx(parts["trade"] / 200)
    assert recording.fact("change_at_quotes") == pytest.approx((parts["placement"] + parts["deletion"]) / 200)
    assert recording.fact("buy_volume") == sum(h.size for h in happened if h.sign > 0)
    assert recording.fact("sell_volume") == sum(h.size for h in happened if h.sign < 0)


def test_an_informed_taker_trades_only_where_it_pays():
    market = FallingMarket(4, 300, 0.02, 0.5, "takers")
    wrong, last = 0, None
    for h in market.happenings():
        if h.kind == "trade" and last is not None and last[0] is not None and h.sign > 0:
            wrong += last[0] > 10_000 * (1 - 0.02 * h.time / 300) + 30  # a buyer although bids stood far above the value
        last = (h.bid, h.ask)
    assert wrong == 0


# one's own fills --------------------------------------------------------------------------------------------------------


def test_own_fills_are_taken_above_the_mid_for_a_buyer_and_judged_by_the_mid_later(tmp_path):
    path = lobster(
        tmp_path,
        (10, 1, 1, 5, 9999, 1, 9999, 10001),
        (20, 1, 2, 5, 10000, 1, 10000, 10002),  # mid 100.01 from now on
        (30, 4, 2, 5, 10002, -1, 10000, 10006),  # 100.03
        (100, 1, 4, 5, 10004, -1, 10000, 10004),  # 100.02
    )
    fills = tmp_path / "fills.csv"
    fills.write_text("time,side,price,quantity\n00:00:25,buy,100.02,10\n30,sell,100.02,30\n26,sell,100.01,20\n")
    recording = record("aggressor", {"file": str(path), "fills": str(fills), "horizon": 10})
    assert facts(recording, "fills", "fills_taken") == pytest.approx((3, 10 / 60))
    # bought at 100.02, mid 100.03 at 35: +0.01; sold at 100.02 (made, above the mid before 30), 100.03 at 40: -0.01; sold 100.01: -0.02
    assert facts(recording, "fill_markout[took]", "fill_markout[made]") == pytest.approx((0.01, -0.01))
    assert recording.fact("fill_markout") == pytest.approx((0.01 * 10 - 0.01 * 30 - 0.02 * 20) / 60)
    rows = recording.panels[4].view.at(len(recording) - 1).rows
    assert [row[0].value for row in rows] == ["made", "?", "took"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n", "line 1: columns a, b"),
        ("time,side,price,quantity\n", "a header without fills"),
        ("time,side,price,quantity\n25,hold,1,1\n", "line 2: side is 'hold'"),
        ("time,side,price,quantity\n25,buy,x,1\n", "line 2: price is 'x'"),
        ("time,side,price,quantity\n25,buy,1,0\n", "quantity is 0"),
        ("time,side,price,quantity\n25,buy,1\n", "line 2: 3 columns"),
        ("time,side,price,quantity\n5000,buy,1,1\n", "1 of 1 fills outside the tape's time"),
        ("time,side,price,quantity\n25,buy,1,1\n1700000000,buy,1,1\n", "one kind of time"),
        ("time,side,price,quantity\n1700000000,buy,1,1\n", "the tape has no date"),
    ],
)
def test_fills_that_cannot_be_read_say_where(tmp_path, text, found):
    path = lobster(tmp_path, (10, 1, 1, 5, 9999, 1, 9999, 10001), (30, 4, 2, 5, 10001, -1, 9999, 10003))
    fills = tmp_path / "fills.csv"
    fills.write_text(text)
    with pytest.raises(BadInput, match=found):
        record("aggressor", {"file": str(path), "fills": str(fills)})


# what is refused, and the real days -------------------------------------------------------------------------------------


def test_sources_that_cannot_say_it_are_refused(tmp_path):
    lone = write_day(tmp_path)
    lone.with_name(lone.name.replace("message", "orderbook")).unlink()
    with pytest.raises(BadInput, match="without its orderbook file"):
        record("aggressor", {"file": str(lone)})
    with pytest.raises(BadInput, match="without a file"):
        record("aggressor", {"format": "lobster"})
    (tmp_path / "b").mkdir()
    still = lobster(tmp_path / "b", (1, 1, 1, 5, 9999, 1, 9999, 10001), (2, 1, 2, 5, 9998, 1, 9999, 10001))
    with pytest.raises(BadInput, match="no trade and no change of price"):
        record("aggressor", {"file": str(still)})
    (tmp_path / "c").mkdir()
    with pytest.raises(BadInput, match="no moment with both"):
        record("aggressor", {"file": str(lobster(tmp_path / "c", (1, 4, 1, 5, 9999, 1, 9999, None)))})
    stream = tmp_path / "stream.npz"
    np.savez(stream, **{name: np.zeros(1, dtype=np.int64) for name in COLUMNS})
    with pytest.raises(BadInput, match="which has no clock; allowed: market data with times"):
        record("aggressor", {"file": str(stream)})


@real_days
def test_the_day_of_goog():
    recording = record("aggressor", {"file": str(GOOG)})
    assert all(check.ok for check in recording.checks)
    fact = recording.fact
    assert (fact("buy_volume"), fact("sell_volume")) == (250_020, 242_489)
    assert fact("change_at_trades") == pytest.approx(31.435) and fact("change_at_quotes") == pytest.approx(-46.08)
    assert fact("change_at_quotes[placements]") == pytest.approx(-20.255) and fact("change_at_quotes[deletions]") == pytest.approx(-25.825)
    assert fact("price_change") == pytest.approx(-14.645) and fact("return") == pytest.approx(-0.025, abs=5e-4)
    accuracy = {
        name: fact(f"classification_accuracy[{name}]") for name in ("tick_rule", "tick_rule_per_taker", "lee_ready", "exact_quotes")
    }
    want = {"tick_rule": 0.857, "tick_rule_per_taker": 0.832, "lee_ready": 0.919, "exact_quotes": 1.0}
    assert accuracy == pytest.approx(want, abs=5e-4)


@real_days
def test_rules_on_the_day_of_amzn():
    fact = record("aggressor", {"file": str(DATA / "LOBSTER_SampleFile_AMZN_2012-06-21_1.zip")}).fact
    got = [fact(f"classification_accuracy[{name}]") for name in ("tick_rule", "tick_rule_per_taker", "lee_ready")]
    assert got == pytest.approx([0.877, 0.859, 0.937], abs=5e-4)
