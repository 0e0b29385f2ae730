"""Who was buying: the split of a price change, the rules that guess the taker, and the real days."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lobster_sample import sample_day, write_day
from market_files import dbn_header, mbo, write

from core.errors import BadInput
from core.markets import signing
from core.markets.falling_flow import FallingMarket
from core.simulation import record

DATA = Path(__file__).resolve().parents[3] / "../shared/data/lobster"


def test_tick_rule_carries_the_last_move_and_lee_ready_uses_it_at_the_mid():
    price = np.array([10.0, 10.0, 10.1, 10.1, 10.0, 10.0, 10.2])
    assert signing.tick_rule(price).tolist() == [0, 0, 1, 1, -1, -1, 1]
    mid = np.array([10.0, 9.9, 10.2, 10.1, 10.0, 10.1, np.nan])
    assert signing.quote_rule(price, mid).tolist() == [0, 1, -1, 0, 0, -1, 0]
    assert signing.lee_ready(price, mid).tolist() == [0, 1, -1, 1, -1, -1, 1]
    assert signing.tick_rule(np.zeros(0)).tolist() == []


def test_lagged_mid_is_from_before_the_second_of_the_trade():
    time, mid = np.array([0.2, 0.9, 1.0, 1.5]), np.array([1.0, 2.0, 3.0, 4.0])
    got = signing.lagged(time, mid, np.array([0.5, 1.0, 1.7, 2.0]))
    assert np.isnan(got[0]) and got[1:].tolist() == [2.0, 2.0, 4.0]


def test_accuracy_counts_only_what_is_decided():
    assert signing.accuracy(np.array([1, -1, 0, 1]), np.array([1, 1, 1, -1])) == pytest.approx(1 / 3)
    assert signing.accuracy(np.zeros(2), np.ones(2)) is None


def test_price_falls_while_buyers_take_more_and_quotes_did_it():
    recording = record("aggressor", {"seed": 3, "takers": 300})
    assert all(check.ok for check in recording.checks)
    assert recording.fact("buy_volume") > recording.fact("sell_volume") and recording.fact("return") == pytest.approx(-0.06, abs=0.003)
    assert recording.fact("change_at_trades") > 0 > recording.fact("change_at_quotes")
    assert recording.fact("classification_accuracy[exact_quotes]") == 1.0


def test_split_of_the_seeded_flow_is_a_loop_over_its_happenings():
    happened = list(FallingMarket(5, 200, 0.06, 0.55).happenings())
    parts, last = {"trade": 0, "placement": 0, "deletion": 0}, None
    for h in happened:
        if h.bid is not None and h.ask is not None:
            assert h.bid < h.ask
            parts[h.kind] += 0 if last is None else h.bid + h.ask - last
            last = h.bid + h.ask
    recording = record("aggressor", {"seed": 5, "takers": 200})
    assert recording.fact("change_at_trades") == pytest.approx(parts["trade"] / 200)
    assert recording.fact("change_at_quotes[placements]") == pytest.approx(parts["placement"] / 200)
    assert recording.fact("change_at_quotes[deletions]") == pytest.approx(parts["deletion"] / 200)
    assert recording.fact("buy_volume") == sum(h.size for h in happened if h.sign > 0)


def test_every_step_says_what_happened_and_views_follow(tmp_path):
    recording = record("aggressor", {"file": str(write_day(tmp_path))})
    for step in range(len(recording)):
        assert "{" not in recording.title(step) + recording.detail(step)
        frames = [panel.view.at(step) for panel in recording.panels]
        table = frames[1].rows
        assert table[-1][1].value == pytest.approx(sum(row[1].value for row in table[:-1]))
        assert table[-1][1].value == pytest.approx(recording.fact("price_change", step))


def test_lobster_volumes_count_visible_executions_by_their_taker(tmp_path):
    recording = record("aggressor", {"file": str(write_day(tmp_path))})
    messages, rows = sample_day()
    assert recording.fact("buy_volume") == sum(row[3] for row in messages if row[1] == 4 and row[5] == -1)
    assert recording.fact("sell_volume") == sum(row[3] for row in messages if row[1] == 4 and row[5] == 1)
    last, at_trades = None, 0
    for message, row in zip(messages, rows, strict=True):
        if row[1] and row[3]:
            at_trades += row[0] + row[2] - last if last is not None and message[1] == 4 else 0
            last = row[0] + row[2]
    assert recording.fact("change_at_trades") == pytest.approx(at_trades / 20_000)


def test_change_of_a_databento_event_belongs_to_its_trade(tmp_path):
    pytest.importorskip("databento_dbn")
    book = [mbo("A", 1, "B", 100.0, 5), mbo("A", 2, "A", 101.0, 5, at=1), mbo("A", 3, "A", 102.0, 5, at=2)]
    buy = [mbo("T", 9, "B", 101.0, 5, at=3, last=False), mbo("F", 2, "A", 101.0, 5, at=3, last=False), mbo("C", 2, "A", 101.0, 5, at=3)]
    quote = [mbo("C", 1, "B", 100.0, 5, at=4, last=False), mbo("A", 4, "B", 98.0, 5, at=4)]
    path = write(tmp_path / "a.dbn", dbn_header(), *book, *buy, *quote)
    recording = record("aggressor", {"file": str(path)})
    assert (recording.fact("change_at_trades"), recording.fact("change_at_quotes")) == (0.5, -1.0)
    assert (recording.fact("buy_volume"), recording.fact("sell_volume")) == (5, 0)


def test_sources_that_cannot_say_it_are_refused(tmp_path):
    lone = write_day(tmp_path)
    lone.with_name(lone.name.replace("message", "orderbook")).unlink()
    with pytest.raises(BadInput, match="without its orderbook file"):
        record("aggressor", {"file": str(lone)})
    trades = tmp_path / "t.csv"
    trades.write_text("exchange,symbol,timestamp,local_timestamp,id,side,price,amount\nx,X,1583020803145000,1583020803145000,a,buy,5,1\n")
    with pytest.raises(BadInput, match="market by price"):
        record("aggressor", {"file": str(trades)})
    with pytest.raises(BadInput, match="without a file"):
        record("aggressor", {"format": "lobster"})


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
def test_the_day_of_goog():
    recording = record("aggressor", {"file": str(DATA / "LOBSTER_SampleFile_GOOG_2012-06-21_1.zip")})
    assert all(check.ok for check in recording.checks)
    fact = recording.fact
    assert (fact("buy_volume"), fact("sell_volume")) == (250_020, 242_489)
    assert fact("change_at_trades") == pytest.approx(31.435) and fact("change_at_quotes") == pytest.approx(-46.08)
    assert fact("price_change") == pytest.approx(-14.645) and fact("return") == pytest.approx(-0.025, abs=5e-4)
    accuracy = {
        name: fact(f"classification_accuracy[{name}]") for name in ("tick_rule", "tick_rule_per_taker", "lee_ready", "exact_quotes")
    }
    want = {"tick_rule": 0.857, "tick_rule_per_taker": 0.832, "lee_ready": 0.919, "exact_quotes": 1.0}
    assert accuracy == pytest.approx(want, abs=5e-4)


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
def test_the_ten_levels_of_goog_split_placements_from_deletions():
    fact = record("aggressor", {"file": str(DATA / "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip")}).fact
    assert fact("change_at_trades") == pytest.approx(31.435)
    assert fact("change_at_quotes[placements]") == pytest.approx(-20.255)
    assert fact("change_at_quotes[deletions]") == pytest.approx(-25.825)


@pytest.mark.skipif(not DATA.exists(), reason="the shared data folder is not here")
def test_rules_on_the_day_of_amzn():
    fact = record("aggressor", {"file": str(DATA / "LOBSTER_SampleFile_AMZN_2012-06-21_1.zip")}).fact
    got = [fact(f"classification_accuracy[{name}]") for name in ("tick_rule", "tick_rule_per_taker", "lee_ready")]
    assert got == pytest.approx([0.877, 0.859, 0.937], abs=5e-4)
