"""The seeded order flow recorded step by step: what it shows, why, and checks that can fail."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.markets import order_book as module
from core.markets.matching.book import BUY, SELL, Book, BookSide
from core.markets.matching.naive import ListBook
from core.markets.story.flow import DEEPEST, Mix, _Flow, order_flow
from core.markets.story.tables import Tape
from core.recording import first_difference
from core.scenario import find, judge
from core.simulation import record
from core.views import Column

SCENARIOS = ("markets/order_book", "markets/order_book_modify", "markets/order_book_post_only")


@pytest.fixture(scope="module")
def recording():
    return record("order_book", find("markets/order_book").parsed("default"))


def actions(recording, *names):
    steps = [(step, recording.values(step)) for step in range(len(recording))]
    return [(step, values) for step, values in steps if values["action"] in names]


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario_shows_the_numbers_it_promises(name):
    scenario = find(name)
    assert scenario.question and scenario.takeaway and scenario.expect
    for variant in scenario.variant_names:
        made = record(scenario.simulation, scenario.parsed(variant))
        assert [check for check in (*made.checks, *judge(scenario, variant, made)) if not check.ok] == []


def test_every_step_says_what_happened_and_why(recording):
    for step in range(len(recording)):
        title, detail = recording.title(step), recording.detail(step)
        assert title and detail and "{" not in title + detail, title + detail
        assert {"order", "price", "side", "quantity", "action"} <= recording.values(step).keys()


def test_trade_step_names_maker_and_taker_and_the_maker_was_first_in_line(recording):
    ladder = recording.panels[0].view
    made = actions(recording, "trade")
    assert len(made) == recording.fact("trades") == 50
    for step, values in made:
        before = ladder.at(step - 1)
        best = (before.asks if values["side"] == "buy" else before.bids)[0]
        assert best.price == values["price"]
        assert best.orders[0].order_id == values["maker"]
        assert best.quantity - values["quantity"] == values["level_left"]
        assert any(f"order {values['maker']}" in text.lower() for text in (recording.title(step), recording.detail(step)))


def test_sweep_empties_levels_and_the_mid_jumps_in_that_step(recording):
    names = [phase.name for phase in recording.phases]
    assert names == ["opening", "trading", "the sweep", "after the sweep"]
    first, end = recording.phases[2].first, recording.phases[3].first
    jumps = [step for step in range(first, end) if "the mid jumps" in recording.title(step)]
    assert len(jumps) == 2
    for step in jumps:
        assert recording.fact("mid", step) > recording.fact("mid", step - 1)
        price = recording.values(step)["price"]
        assert price not in [level.price for level in recording.panels[0].view.at(step).asks]
        assert f"{recording.fact('mid', step):.4f}".rstrip("0") in recording.title(step)


def test_mid_moves_only_when_the_best_level_changes(recording):
    ladder = recording.panels[0].view
    moved = 0
    for step in range(1, len(recording)):
        frame = ladder.at(step)
        if not (frame.bids and frame.asks):
            continue
        bid, ask = frame.bids[0].price, frame.asks[0].price
        assert recording.fact("mid", step) == pytest.approx((bid + ask) / 2, abs=1e-9)
        assert (recording.fact("best_bid", step), recording.fact("best_ask", step)) == (bid, ask)
        depth = sum(level.quantity for level in (*frame.bids, *frame.asks))
        assert recording.fact("depth", step) == depth
        moved += recording.fact("mid", step) != recording.fact("mid", step - 1)
    assert moved > 20


def test_all_order_kinds_appear(recording):
    titles = {recording.template(step).title for step in range(len(recording))}
    for words in ("at any price", "immediate or cancel", "all or nothing", "post only", "is killed", "would take", "keeps its place"):
        assert any(words in title for title in titles), words
    assert any("to be changed" in title for title in titles)


def test_views_agree_at_the_last_step(recording):
    last = len(recording) - 1
    frames = {panel.title: panel.view.at(last) for panel in recording.panels}
    assert len(frames["Trades"].rows) == 50
    assert sum(cell.value for cell in frames["Depth"].cells.values()) == recording.fact("depth")
    assert frames["Price"].values[0] == recording.fact("mid")
    tape = [(row[4].value, row[5].value, row[3].value) for row in reversed(frames["Trades"].rows)]
    assert tape == [(v["taker"], v["maker"], v["quantity"]) for _, v in actions(recording, "trade")]
    assert sum(quantity for _, _, quantity in tape) == recording.fact("volume")


def test_same_seed_gives_the_same_steps_and_another_seed_others():
    one, again, other = (record("order_book", {"seed": seed}) for seed in (3, 3, 4))
    assert first_difference(one, again) is None
    assert first_difference(one, other) is not None
    assert first_difference(record("order_book", {}, seed=3), one) is None


def test_rules_change_nothing_in_the_messages():
    """Both variants get the same messages: arrivals agree in order, side, price and quantity."""
    keep, benchmark = (record("order_book", {"seed": 5, "modify_rule": rule}) for rule in ("keep_on_decrease", "benchmark"))
    arrivals = [[(v["order"], v["side"], v["price"], v["quantity"]) for _, v in actions(made, "arrive")] for made in (keep, benchmark)]
    assert arrivals[0] == arrivals[1]
    difference = first_difference(keep, benchmark)
    assert "keeps its place" in keep.title(difference) and "to be changed" in benchmark.title(difference)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 10_000), st.integers(1, 250), st.sampled_from(("benchmark", "keep_on_decrease")), st.sampled_from(("reject", "slide"))
)
def test_checks_hold_for_any_seed_length_and_rule(seed, events, modify_rule, post_only):
    made = record("order_book", {"seed": seed, "events": events, "modify_rule": modify_rule, "post_only": post_only})
    assert [check for check in made.checks if not check.ok] == []
    if events >= 100:
        assert "the sweep" in [phase.name for phase in made.phases]
    for step in range(len(made)):
        assert "{" not in made.title(step) + made.detail(step)


def test_ladder_at_any_step_is_the_book_replayed_from_zero():
    """Keyframes against a replay: the ladder after each message equals a list book fed from the start up to there."""
    made = record("order_book", {"seed": 11, "events": 400})
    ladder = made.panels[0].view
    naive = ListBook("keep_on_decrease", "reject")
    ends = [step for step in range(len(made)) if step + 1 == len(made) or made.values(step + 1)["action"] in ("arrive", "cancel", "modify")]
    shown = [tuple(tuple(map(module._plain, side)) for side in (ladder.at(step).bids, ladder.at(step).asks)) for step in ends]
    states = []
    for message in order_flow(11, 400):
        message.apply(naive)
        states.append((module._levels(naive, BUY), module._levels(naive, SELL)))
    remaining = iter(shown)
    assert all(any(state == frame for frame in remaining) for state in states)  # each state is shown, in this order


def test_broken_engine_makes_the_checks_fail(monkeypatch):
    """A level that forgets its queue order is found by the list book, a lost lot by the conservation of quantity."""
    whole = BookSide.append

    def lifo(self, order):
        ahead = whole(self, order)
        self.levels[order.price].orders.move_to_end(order.order_id, last=False)
        return ahead

    monkeypatch.setattr(BookSide, "append", lifo)
    failed = {check.name for check in record("order_book", {"seed": 3}).checks if not check.ok}
    assert failed == {"trades equal to those of a list book", "ladders that differ from a list book replayed from zero"}

    def leaky(self, order):
        order.quantity -= order.quantity > 100
        return whole(self, order)

    monkeypatch.setattr(BookSide, "append", leaky)
    failed = {check.name for check in record("order_book", {"seed": 3}).checks if not check.ok}
    assert "quantity resting at the end" in failed


def test_flow_shapes_follow_their_sources():
    """Distances fall off as the power law of the module's docstring; both sides arrive equally often."""
    messages = list(order_flow(1, 12_000))
    assert [m.time for m in messages] == sorted(m.time for m in messages)
    sides = [m.side for m in messages if m.action == "submit" and m.kind == "limit"]
    assert abs(sum(sides)) < 4 * len(sides) ** 0.5
    flow = _Flow(random.Random(0), Book(lambda report: None), Mix())
    drawn = [flow._distance() for _ in range(20_000)]
    cut = 1 - (DEEPEST + 2) ** -0.6
    for d in (1, 3, 10):
        expected = ((1 + d) ** -0.6 - (DEEPEST + 2) ** -0.6) / cut
        assert sum(x >= d for x in drawn) / len(drawn) == pytest.approx(expected, abs=0.015)


def test_tape_shows_the_newest_first_and_lights_this_step():
    tape = Tape([Column("n")], tail=3)
    for step in (0, 2, 2, 5):
        tape.add("bid", step * 10, step=step)
    values = [[row[0].value for row in tape.at(step).rows] for step in (0, 1, 2, 5)]
    assert values == [[0], [0], [20, 20, 0], [50, 20, 20]]
    assert [tape.at(step).lit for step in (0, 1, 2, 5)] == [{0}, set(), {0, 1}, {0}]
    assert tape.at(5).first == 1


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"events": 0}, ("events", "from 1 to 20,000")),
        ({"modify_rule": "venue"}, ("modify_rule", "benchmark, keep_on_decrease")),
        ({"event": 5}, ("event", "did you mean 'events'?")),
        ({"format": "lobster"}, ("order_book.format", "without a file")),
        ({"file": "/nowhere/day.zip"}, ("/nowhere/day.zip", "no such file")),
    ],
)
def test_bad_parameters_are_one_clear_line(params, words):
    with pytest.raises(BadInput) as caught:
        record("order_book", params)
    for word in words:
        assert word in str(caught.value)
