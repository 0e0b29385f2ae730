"""Icebergs, stops, self-trade prevention, modify rules and auctions as recorded steps: what they say, show, and check."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_book import ListBook

from core.errors import BadInput
from core.markets.matching import book as engine
from core.markets.matching.auction import schedule
from core.markets.matching.book import BUY, SELL, Book, BookSide
from core.markets.matching.reports import SELF_TRADES
from core.markets.order_book import OrderBookParams, _messages
from core.markets.story import panels
from core.markets.story.flow import Mix, order_flow
from core.markets.story.script import read_script
from core.recording import first_difference
from core.scenario import find
from core.simulation import record

SCENARIOS = ("modify", "iceberg", "stops", "self_trade", "auction")
RUNS = [(name, variant) for name in SCENARIOS for variant in find(f"markets/order_book_{name}").variant_names]
EVERYTHING = {"iceberg_share": 0.3, "hidden_share": 0.1, "stop_share": 0.2, "owners": 3, "auction": True, "halt": True}


def recorded(name, variant="default"):
    scenario = find(f"markets/order_book_{name}")
    return record(scenario.simulation, scenario.parsed(variant))


def steps(recording, action):
    return [(step, recording.values(step)) for step in range(len(recording)) if recording.values(step)["action"] == action]


def step_of(recording, words):
    return next(step for step in range(len(recording)) if words in recording.title(step))


def panel(recording, title):
    return next(found.view for found in recording.panels if found.title == title)


def scripted(**params):
    return record("order_book", {"opening": "1 buy 300 at 99.99; 2 sell 300 at 100.01", **params})


# the scenarios against the list book of the tests, which shares no code with any book of the project ---------------------


@pytest.mark.parametrize(("name", "variant"), RUNS)
def test_scenario_agrees_with_the_list_book_of_the_tests(name, variant):
    scenario = find(f"markets/order_book_{name}")
    params = scenario.parsed(variant)
    recording = record(scenario.simulation, params)
    rule = "keep_on_decrease" if params.modify_rule == "auto" else params.modify_rule
    book = ListBook(rule, params.post_only, params.self_trade)
    for message in _messages(params, 0)[0]:
        message.apply(book)
    tape = panel(recording, "Trades").at(len(recording) - 1).rows
    traded = [(round(row[2].value * 100), row[3].value, row[5].value, row[4].value) for row in reversed(tape)]
    assert traded == book.trades
    frame = panel(recording, "Book").at(len(recording) - 1)
    for side, shown in ((BUY, frame.bids), (SELL, frame.asks)):
        levels = [(round(level.price * 100), level.quantity, level.orders) for level in shown if level.quantity]
        assert [(p, q, tuple((o.order_id, o.quantity) for o in orders if o.quantity)) for p, q, orders in levels] == book.levels(side)
    hidden = sum(order["left"] - order["shown"] for order in book.book)
    assert (recording.facts["hidden_depth"].value(len(recording)) if "hidden_depth" in recording.facts else 0) == hidden
    if params.own:
        filled = sum(quantity for _, quantity, *sides in book.trades if params.own in sides)
        assert recording.fact("own_filled") == filled
        assert recording.fact("own_left") == sum(order["left"] for order in book.book if order["id"] == params.own)


STOPS_START = ((10001, 100, 7, 8), (9999, 200, 1, 20), (9998, 100, 2, 20))
BY_HAND = {  # ticks, shares, maker, taker: worked out on paper from the scripts
    ("modify", "keep_on_decrease"): ((9999, 200, 2, 5), (9999, 200, 3, 5)),
    ("modify", "benchmark"): ((9999, 300, 3, 5), (9999, 100, 1, 5)),
    ("iceberg", "iceberg"): (
        (10001, 100, 10, 20), (10001, 50, 11, 20), (10001, 150, 11, 21), (10001, 150, 12, 21),
        (10001, 50, 12, 22), (10001, 100, 10, 22), (10001, 100, 13, 22),
    ),
    ("iceberg", "shown"): ((10001, 150, 10, 20), (10001, 300, 10, 21), (10001, 250, 10, 22)),
    ("iceberg", "hidden"): (
        (10001, 150, 11, 20), (10001, 50, 11, 21), (10001, 200, 12, 21), (10001, 50, 10, 21), (10001, 200, 13, 22), (10001, 50, 10, 22),
    ),
    ("stops", "stops"): (
        *STOPS_START, (9998, 100, 2, 11), (9997, 200, 3, 11), (9995, 200, 4, 12), (9990, 100, 5, 12), (9990, 200, 5, 13),
        (9980, 200, 6, 13),
    ),
    ("stops", "no_stops"): STOPS_START,
    ("stops", "stop_limits"): (*STOPS_START, (9998, 100, 2, 11), (9997, 200, 3, 11), (9995, 200, 4, 12)),
    ("self_trade", "off"): ((10001, 200, 2, 10), (10001, 300, 3, 10), (10001, 100, 4, 10)),
    ("self_trade", "newest"): ((10001, 200, 2, 10),),
    ("self_trade", "oldest"): ((10001, 200, 2, 10), (10001, 200, 4, 10)),
    ("self_trade", "both"): ((10001, 200, 2, 10),),
    ("self_trade", "decrement"): ((10001, 200, 2, 10), (10001, 100, 4, 10)),
    ("auction", "default"): (
        (10001, 300, 2, 1), (10001, 200, 4, 1), (10001, 100, 4, 7), (10001, 100, 4, 3), (10002, 100, 3, 8),
        (9990, 300, 10, 5), (9990, 300, 10, 11),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "variant"), RUNS)
def test_trades_of_each_story_are_those_worked_out_by_hand(name, variant):
    made = [
        (round(values["price"] * 100), values["quantity"], values["maker"], values["taker"])
        for _, values in steps(recorded(name, variant), "trade")
    ]
    assert made == list(BY_HAND[name, variant])


def test_variants_of_the_iceberg_differ_in_one_order_alone():
    scenario = find("markets/order_book_iceberg")
    scripts = [scenario.parsed(variant).script.split(";") for variant in scenario.variant_names]
    changed = [lines for lines in zip(*scripts, strict=True) if len(set(lines)) > 1]
    assert len(changed) == 1 and all(line.split()[:5] == ["10", "sell", "900", "at", "100.01"] for line in changed[0])


# icebergs ----------------------------------------------------------------------------------------------------------------


def test_refill_goes_to_the_back_and_the_reserve_shrinks_by_it():
    recording = recorded("iceberg", "iceberg")
    ladder = panel(recording, "Book")
    refills = steps(recording, "refill")
    assert len(refills) == recording.fact("refills") == 2
    reserve = 800
    for step, values in refills:
        spent, shown = ladder.at(step - 1).asks[0], ladder.at(step).asks[0]
        assert [order.quantity for order in spent.orders if order.order_id == 10] == [0], "the trade before used the whole tip up"
        last = [order for order in shown.orders if order.quantity][-1]
        reserve -= 100
        assert (last.order_id, last.quantity, last.reserve, last.own) == (10, 100, reserve, True)
        assert values["ahead"] == shown.quantity - 100 == recording.fact("own_ahead", step)
        assert str(values["ahead"]) in recording.detail(step) and "back of the queue" in recording.title(step)
        assert recording.fact("hidden_depth", step) == reserve == shown.reserve


def test_trade_that_uses_a_tip_up_says_what_is_still_hidden():
    recording = recorded("iceberg", "iceberg")
    step = step_of(recording, "all that order 10 showed")
    assert "800 more were hidden" in recording.detail(step) and recording.values(step)["maker_left"] == 800


def test_part_of_a_tip_is_told_without_a_refill():
    recording = scripted(script="3 sell 500 at 100.00 tip 200; 4 buy 150")
    assert "still shows 50 of its 350" in recording.detail(len(recording) - 1) and steps(recording, "refill") == []


def test_hidden_order_moves_no_quote_and_trades_after_what_is_displayed():
    recording = recorded("iceberg", "hidden")
    rest = step_of(recording, "rests unseen")
    assert recording.fact("best_ask", rest) == recording.fact("best_ask", rest - 1) == 100.03
    level = panel(recording, "Book").at(rest).asks[0]
    assert (level.price, level.quantity, level.reserve) == (100.01, 0, 900)
    taken = [values["maker"] for _, values in steps(recording, "trade")]
    assert taken == [11, 11, 12, 10, 13, 10]


def test_limit_order_that_meets_a_hidden_one_inside_the_spread_is_told_so():
    recording = scripted(script="3 sell 100 at 100.00 hidden; 4 buy 100 at 100.00")
    step = step_of(recording, "Order 4 bids")
    assert "out of reach" in recording.detail(step) and "hidden" in recording.detail(step)
    assert "which nobody saw" in recording.title(step + 1)


# stops -------------------------------------------------------------------------------------------------------------------


def test_waiting_stops_are_listed_the_next_one_first_until_they_are_triggered():
    recording = recorded("stops", "stops")
    sheet = panel(recording, "Stops that wait")
    last = step_of(recording, "Order 13 waits")
    assert [row[0].value for row in sheet.at(last).rows] == [99.98, 99.97, 99.90]
    assert sheet.at(last).lit == {2} and recording.fact("stops_waiting", last) == 3
    for number, (step, values) in enumerate(steps(recording, "trigger"), 1):
        assert values["number"] == number and values["source"] == 20
        assert f"stop number {number} that order 20 has set off" in recording.detail(step)
        assert values["order"] not in [row[4].value for row in sheet.at(step).rows]
        assert len(sheet.at(step).rows) == recording.fact("stops_waiting", step) == 3 - number
        assert recording.fact("longest_cascade", step) == recording.fact("stops_triggered", step) == number


def test_stop_that_waits_is_in_no_level_and_can_be_taken_back_but_not_changed():
    recording = scripted(script="3 sell 100 stop 99.90; modify 3 to 50 at 99.90; cancel 3")
    frames = [panel(recording, "Book").at(step) for step in range(4, len(recording))]
    assert all(len(frame.bids) == len(frame.asks) == 1 for frame in frames)
    assert "cannot be changed" in recording.title(len(recording) - 2)
    assert recording.title(len(recording) - 1) == "Stop 3 is taken back: 100"
    assert panel(recording, "Stops that wait").at(len(recording) - 1).rows == ()


def test_stop_whose_price_has_traded_already_is_triggered_at_once():
    recording = scripted(script="3 sell 100; 4 sell 100 stop 99.99")
    assert [values["order"] for _, values in steps(recording, "trigger")] == [4]
    assert recording.fact("stops_waiting") == 0 and recording.fact("volume") == 200


# orders of one owner ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "cancelled", "words"),
    [
        ("newest", [10], "the newer one loses the 400"),
        ("oldest", [3], "the older one, which waited, loses all its 300"),
        ("both", [3, 10], "neither the order that waited"),
        ("decrement", [], "both shrink by that"),
    ],
)
def test_each_mode_says_which_order_gave_way_and_why(mode, cancelled, words):
    recording = recorded("self_trade", mode)
    told = steps(recording, "self_trade")
    assert [values["order"] for _, values in told if mode != "decrement"] == cancelled
    assert words in recording.detail(told[-1][0])
    assert all(values.get("owner", 7) == 7 for _, values in told)
    gone = {order.order_id for level in panel(recording, "Book").at(len(recording) - 1).asks for order in level.orders}
    assert (3 in gone) == (mode == "newest")
    assert recording.fact("self_trades_prevented") == 1 and "self_trades" not in recording.facts


def test_off_lets_an_owner_trade_with_itself_and_says_so():
    recording = recorded("self_trade", "off")
    step = step_of(recording, "both belong to owner 7")
    assert "nothing changes hands" in recording.detail(step) and recording.fact("self_trades") == 1


def test_orders_of_nobody_in_particular_are_never_kept_apart():
    plain = scripted(script="3 buy 100 at 100.01", self_trade="both")
    assert plain.fact("volume") == 100 and steps(plain, "self_trade") == []


def test_an_iceberg_that_is_decremented_shows_its_next_part():
    recording = scripted(script="3 sell 300 at 100.00 tip 100 owner 1; 4 buy 250 at 100.00 owner 1", self_trade="decrement")
    assert [recording.values(step)["action"] for step in range(len(recording))][-5:] == ["self_trade", "refill"] * 2 + ["self_trade"]
    level = panel(recording, "Book").at(len(recording) - 1).asks[0]
    assert (level.quantity, level.reserve) == (50, 0) and recording.fact("prevented_volume") == 500 and recording.fact("volume") == 0


# auctions and halts ----------------------------------------------------------------------------------------------------------


def test_indicative_price_is_the_one_at_which_the_most_can_trade_by_trying_every_tick():
    recording = recorded("auction")
    ladder, sheet = panel(recording, "Book"), panel(recording, "Auction")
    references = {"opening auction": 10_000, "reopening auction": 10_002}
    for step, _ in steps(recording, "rest"):
        frame = ladder.at(step)
        bids = {round(level.price * 100): level.quantity for level in frame.bids}
        asks = {round(level.price * 100): level.quantity for level in frame.asks}
        if not bids or not asks or max(bids) < min(asks):
            assert recording.fact("indicative_price", step) is None and sheet.at(step).lit == frozenset()
            continue
        near = references[recording.phase(step).name]

        def rank(price, bids=bids, asks=asks, near=near):
            buy, sell = sum(q for p, q in bids.items() if p >= price), sum(q for p, q in asks.items() if p <= price)
            return -min(buy, sell), abs(buy - sell), abs(price - near), price

        price = min(range(min(asks), max(bids) + 1), key=rank)
        assert recording.fact("indicative_price", step) == pytest.approx(price / 100)
        assert recording.fact("matched_volume", step) == -rank(price)[0]
        shown = sheet.at(step)
        (lit,) = shown.lit
        assert shown.rows[lit][0].value == pytest.approx(price / 100) and shown.rows[lit][3].value == -rank(price)[0]


def test_everybody_in_an_auction_gets_its_price_and_no_worse_than_their_limit():
    recording = recorded("auction")
    crossed = [(step, values) for step, values in steps(recording, "trade") if values["side"] == "cross"]
    assert len(crossed) == 6
    for step, values in crossed:
        assert values["price"] == (100.01 if recording.phase(step).name == "opening auction" else 99.90)
        assert values["seller_limit"] <= values["price"] <= values["buyer_limit"]
    opens = [(values["price"], values["quantity"]) for _, values in steps(recording, "state") if values["price"] is not None]
    assert opens == [(100.01, 700), (99.90, 600)]


def test_nothing_trades_while_orders_are_collected_and_there_is_no_mid_while_they_cross():
    recording = recorded("auction")
    begun = step_of(recording, "An auction begins")
    opened = step_of(recording, "The auction opens at 100.01")
    for step in range(begun, opened):
        assert recording.fact("trades", step) == 0 and recording.fact("state", step) == "auction"
    assert recording.fact("mid", opened - 1) is None and recording.fact("best_bid", opened - 1) > recording.fact("best_ask", opened - 1)
    assert recording.fact("state", opened) == "continuous" and recording.fact("mid", opened + 4) == 100.025


def test_self_trade_prevention_has_no_say_in_an_auction_and_the_step_tells_why():
    recording = recorded("auction")
    step = step_of(recording, "both belong to owner 7")
    assert recording.params["self_trade"] == "newest"
    assert "in an auction nothing arrives" in recording.detail(step)


def test_halt_takes_cancels_and_refuses_the_rest():
    recording = recorded("auction")
    assert recording.title(step_of(recording, "Order 9 is refused")) == "Order 9 is refused: trading is halted"
    assert "cancels are accepted" in recording.detail(step_of(recording, "Order 6 is cancelled"))


def test_cancel_and_modify_in_an_auction_move_the_price_it_would_open_at():
    recording = record(
        "order_book",
        {"script": "auction near 100; 1 buy 300 at 100.10; 2 sell 200 at 99.90; 3 sell 100 at 100.05; modify 3 to 50 at 100.05; cancel 2"},
    )
    kept, cancelled = (next(step for step, _ in steps(recording, action)) for action in ("modify", "cancel"))
    seen = [(recording.fact("indicative_price", step), recording.fact("matched_volume", step)) for step in (kept - 1, kept, cancelled)]
    assert seen == [(100.05, 300), (100.05, 250), (100.05, 50)]
    shown = panel(recording, "Auction")
    assert [[cell.value for cell in row[:4]] for row in shown.at(cancelled).rows] == [[100.1, 300, 50, 50], [100.05, 300, 50, 50]]
    assert "before the auction opens" in recording.detail(cancelled)


def test_schedule_lists_what_could_be_bought_and_sold_at_each_price():
    bids, asks = [(105, 5), (102, 2)], [(100, 3), (103, 4)]
    assert schedule(bids, asks, 101) == [(105, 5, 7), (103, 5, 7), (102, 7, 3), (101, 7, 3), (100, 7, 3)]


# the seeded flow -------------------------------------------------------------------------------------------------------------


def test_shares_of_the_flow_are_those_that_are_asked_for():
    mix = Mix(iceberg_share=0.3, hidden_share=0.1, stop_share=0.2, owners=4)
    sent = [message for message in order_flow(5, 6_000, mix) if message.action == "submit" and message.phase != "opening"]
    stops = [message for message in sent if message.trigger is not None]
    limits = [message for message in sent if message.kind in ("limit", "iceberg", "hidden")]
    assert len(stops) / len(sent) == pytest.approx(0.2, abs=0.03)
    assert sum(message.kind == "stop" for message in stops) / len(stops) == pytest.approx(0.5, abs=0.05)
    for kind, share in (("iceberg", 0.3), ("hidden", 0.1)):
        assert sum(message.kind == kind for message in limits) / len(limits) == pytest.approx(share, abs=0.03)
    assert {message.owner for message in sent} == {1, 2, 3, 4}
    assert all(0 < message.tip < message.quantity for message in sent if message.kind == "iceberg")


def test_flow_without_shares_is_the_plain_one():
    assert list(order_flow(7, 300, Mix())) == list(order_flow(7, 300))
    assert {message.kind for message in order_flow(7, 300)} == {"limit", "market", "ioc", "fok", "post_only"}


def test_self_trade_modes_get_the_same_messages():
    made = [record("order_book", {**EVERYTHING, "seed": 4, "events": 200, "self_trade": mode}) for mode in SELF_TRADES]
    arrivals = [[(v["order"], v["side"], v["quantity"]) for _, v in steps(one, "arrive")] for one in made]
    assert all(sent == arrivals[0] for sent in arrivals) and first_difference(made[0], made[1]) is not None
    assert made[0].fact("self_trades") > made[1].fact("self_trades"), "those of the auctions stay"


def test_flow_with_auction_and_halt_goes_through_its_phases():
    recording = record("order_book", {**EVERYTHING, "seed": 2, "events": 250})
    names = [phase.name for phase in recording.phases]
    assert names == ["opening auction", "trading", "the sweep", "halt", "reopening auction", "after the sweep"]
    opened = [values["quantity"] for _, values in steps(recording, "state") if values["price"] is not None]
    assert len(opened) == 2 and all(opened)


RATHER = st.sampled_from((0.0, 0.2, 0.5))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 10_000),
    st.integers(1, 200),
    st.fixed_dictionaries(
        {
            "modify_rule": st.sampled_from(("benchmark", "keep_on_decrease")),
            "post_only": st.sampled_from(("reject", "slide")),
            "self_trade": st.sampled_from(SELF_TRADES),
            "iceberg_share": RATHER,
            "hidden_share": RATHER,
            "stop_share": RATHER,
            "owners": st.sampled_from((0, 1, 2, 9)),
            "auction": st.booleans(),
            "halt": st.booleans(),
            "own": st.integers(0, 40),
        }
    ),
)
def test_checks_hold_over_every_type_mode_and_rule(seed, events, params):
    made = record("order_book", {"seed": seed, "events": events, **params})
    assert [check for check in made.checks if not check.ok] == []
    for step in range(len(made)):
        assert "{" not in made.title(step) + made.detail(step) and len(made.title(step)) <= 120


# checks that can fail ----------------------------------------------------------------------------------------------------------

TRADES, LADDERS = "trades equal to those of a list book", "ladders that differ from a list book replayed from zero"


def failing(**params):
    return {check.name for check in record("order_book", {**EVERYTHING, "seed": 3, "events": 300, **params}).checks if not check.ok}


def test_iceberg_that_keeps_its_place_is_found(monkeypatch):
    whole = BookSide.fill

    def stays(self, order, quantity):
        refreshed = whole(self, order, quantity)
        if refreshed:
            self.levels[order.price].orders.move_to_end(order.order_id, last=False)
        return refreshed

    monkeypatch.setattr(BookSide, "fill", stays)
    assert TRADES in failing() and LADDERS in failing()


def test_self_trade_mode_that_cancels_the_wrong_order_is_found(monkeypatch):
    whole = Book._prevent

    def turned(self, taker, maker, limit):
        mode, self.self_trade = self.self_trade, {"newest": "oldest", "oldest": "newest"}[self.self_trade]
        whole(self, taker, maker, limit)
        self.self_trade = mode

    monkeypatch.setattr(Book, "_prevent", turned)
    for mode in ("newest", "oldest"):
        assert LADDERS in failing(self_trade=mode)


def test_stops_that_trigger_one_tick_too_late_are_found(monkeypatch):
    whole = engine.Stop.__init__

    def late(self, order_id, side, trigger, quantity, price, owner):
        whole(self, order_id, side, trigger + side, quantity, price, owner)

    monkeypatch.setattr(engine.Stop, "__init__", late)
    assert {TRADES, "stops left waiting"} & failing()


def test_auction_price_that_forgets_the_reference_is_found(monkeypatch):
    whole = engine.clearing
    monkeypatch.setattr(engine, "clearing", lambda bids, asks, reference: whole(bids, asks, None))
    assert "ticks and volume of each auction" in {check.name for check in recorded("auction").checks if not check.ok}


def test_ladder_that_shows_the_reserve_is_found(monkeypatch):
    def open_handed(order_id, quantity, own, reserve):
        return Resting(order_id, quantity + reserve, own, 0)

    Resting = panels.Resting
    monkeypatch.setattr(panels, "Resting", open_handed)
    assert failing() == {LADDERS}


# scripts -----------------------------------------------------------------------------------------------------------------------


def test_script_reads_every_form():
    text = """
      [opening]; 1 buy 300 at 99.98; 2 SELL 200 at 100.5
      3 buy 50; 4 buy 60 at 100.01 ioc; 5 sell 70 at 100 fok; 6 sell 80 at 101 post only; 7 sell 90 at 101 hidden
      8 sell 900 at 100.02 tip 100 owner 7; 9 sell 10 stop 99.95; 10 buy 20 stop 100.10 at 100.2
      cancel 1; modify 2 to 150 at 100.40; halt; auction near 100.00; open; [late]; open near 99.99
    """
    found = read_script(text, "x", phase="first")
    kinds = [(m.order_id, m.side, m.quantity, m.price, m.kind) for m in found if m.action == "submit"]
    assert kinds == [
        (1, 1, 300, 9998, "limit"), (2, -1, 200, 10050, "limit"), (3, 1, 50, None, "market"), (4, 1, 60, 10001, "ioc"),
        (5, -1, 70, 10000, "fok"), (6, -1, 80, 10100, "post_only"), (7, -1, 90, 10100, "hidden"), (8, -1, 900, 10002, "iceberg"),
        (9, -1, 10, None, "stop"), (10, 1, 20, 10020, "stop_limit"),
    ]  # fmt: skip
    assert [(m.tip, m.trigger, m.owner) for m in found[7:10]] == [(100, None, 7), (0, 9995, 0), (0, 10010, 0)]
    assert [(m.action, m.order_id, m.quantity, m.price) for m in found[10:]] == [
        ("cancel", 1, 0, None), ("modify", 2, 150, 10040), ("halt", 0, 0, None), ("auction", 0, 0, 10000),
        ("open", 0, 0, 10000), ("open", 0, 0, 9999),
    ]  # fmt: skip
    assert [m.time for m in found] == [float(k) for k in range(1, 17)] and found[-1].phase == "late" and found[0].phase == "opening"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("1 buy 300 at 99.98; buy 300", ("statement 2", "an order's number")),
        ("1 hold 300", ("statement 1", "buy or sell")),
        ("1 buy", ("ends early", "a quantity from 1 to 1,000,000")),
        ("1 buy 0 at 99.98", ("a quantity from 1",)),
        ("1 buy 9999999 at 99.98", ("a quantity from 1",)),
        ("1 buy 300 at 99.985", ("99.985", "cents from 0.01 to 1,000.00")),
        ("1 buy 300 at -1", ("price -1", "cents")),
        ("1 buy 300 at nan", ("price nan", "cents")),
        ("1 buy 300 at 99.98 tipp 100", ("'tipp'", "did you mean 'tip'?")),
        ("1 buy 300 at 99.98 tip 400", ("tip 400", "between 1 and its quantity 300")),
        ("1 buy 300 tip 100", ("no price", "at and a price")),
        ("1 buy 300 at 99.98 ioc fok", ("'fok'", "one kind an order")),
        ("1 buy 300 stop 99.98 hidden", ("a stop that is something else too",)),
        ("cancel", ("ends early", "an order's number")),
        ("modify 1 to 100", ("ends early", "at")),
        ("halt now", ("'now' too much",)),
        ("; ;", ("no order in it",)),
        ("1 buy 1 at 1; " * 501, ("501 statements", "at most 500")),
    ],
)
def test_bad_script_is_one_clear_line(script, words):
    with pytest.raises(BadInput) as caught:
        record("order_book", {"script": script})
    assert "\n" not in str(caught.value) and "order_book.script" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_shares_of_more_than_everything_are_refused():
    with pytest.raises(BadInput, match="both together at most 1"):
        record("order_book", {"iceberg_share": 0.7, "hidden_share": 0.7})


def test_order_number_that_rests_already_is_refused_in_a_step_and_may_come_again_later():
    recording = scripted(script="1 buy 100 at 99.98; cancel 1; 1 buy 100 at 99.98 tip 50; 3 sell 120")
    assert "refused" in recording.title(4) and "duplicate_id" in recording.detail(4)
    assert [check for check in recording.checks if not check.ok] == [] and len(steps(recording, "refill")) == 1


def test_parameters_keep_their_names_and_the_default_run_is_the_seeded_flow():
    fields = set(OrderBookParams.__struct_fields__)
    assert {"file", "format", "symbol", "modify_rule", "post_only", "self_trade", "events", "seed"} <= fields
    assert {"iceberg_share", "hidden_share", "stop_share", "owners", "auction", "halt", "own", "opening", "script"} <= fields
    assert first_difference(record("order_book", {"seed": 3}), record("order_book", {"seed": 3, "self_trade": "both"})) is None
