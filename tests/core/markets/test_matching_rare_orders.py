"""Long seeded streams of every order type, self-trade mode and modify rule: three books that share no code, and what must always hold."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from list_book import ListBook
from rare_orders import MIDDLE, for_engine, moved, stream

from core.markets.engine import state as es
from core.markets.engine.engine import Engine, Rules
from core.markets.engine.reports import as_report
from core.markets.keyframes import Frames, Packed
from core.markets.matching import naive as core_naive
from core.markets.matching.book import BUY, SELL, Book
from core.markets.matching.reports import KINDS, SELF_TRADES
from core.markets.stream.windows import EngineFrame

RULES = [
    {"modify_rule": rule, "post_only": post, "self_trade": mode}
    for rule, post, mode in itertools.product(("benchmark", "keep_on_decrease"), ("reject", "slide"), SELF_TRADES)
]
NAMES = ["-".join(rules.values()) for rules in RULES]
LENGTH = 1000
every_rule = pytest.mark.parametrize(("seed", "rules"), list(enumerate(RULES)), ids=NAMES)


def said(reports):
    """Records as `ListBook` says them."""
    return [(type(report).__name__, *msgspec.structs.astuple(report)) for report in reports]


def told(rows):
    """Rows of the engine in the same words: what a taker still wants is not in them."""
    return said(as_report(row) for row in rows)


def without_taker_left(words):
    return [(*word[:7], -1, *word[8:]) if word[0] in ("Trade", "Decremented") else word for word in words]


def displayed(book, side):
    found = [
        (level.price, level.quantity, tuple((o.order_id, o.shown) for o in level.orders.values())) for level in book.side(side).from_best()
    ]
    return [level for level in found if level[1]]


def queues(rows, book):
    """{price: ids in the order of their turn} of snapshot rows."""
    found = {}
    for row in rows.tolist():
        if row[1] == book:
            found.setdefault(row[2], []).append((row[0], row[3], row[4]))
    return found


@every_rule
def test_three_books_say_the_same_word_for_word_and_show_the_same_queues(seed, rules):
    heard, kinds = [], set()
    rules = {**rules, "lowest": MIDDLE - 3 if seed % 2 else 1}
    book, naive, engine = Book(heard.append, **rules), ListBook(**rules), Engine(Rules(**rules))
    for n, (action, fields) in enumerate(stream(seed, LENGTH)):
        heard.clear()
        naive.said.clear()
        getattr(book, action)(**fields)
        getattr(naive, action)(**fields)
        rows = engine.apply(for_engine(action, fields))
        assert said(heard) == naive.said, n
        assert told(rows) == without_taker_left(naive.said), n
        for side in (BUY, SELL):
            assert engine.levels(side, 99) == displayed(book, side) == naive.levels(side), n
        kinds |= {word[0] for word in naive.said} | {word[5] for word in naive.said if word[0] == "Accepted"}
    common = {
        "Accepted",
        "Trade",
        "Rested",
        "Cancelled",
        "Modified",
        "Withdrawn",
        "Refreshed",
        "Waits",
        "Triggered",
        "StateChanged",
        "Rejected",
    }
    also = {"Slid"} if rules["post_only"] == "slide" else set()
    assert kinds >= common | also | set(KINDS) | ({"Decremented"} if rules["self_trade"] == "decrement" else set())


@every_rule
def test_book_that_checks_recordings_agrees_with_the_one_of_the_tests(seed, rules):
    ours, theirs = core_naive.ListBook(**rules), ListBook(**rules)
    for n, (action, fields) in enumerate(stream(50 + seed, LENGTH)):
        if theirs_refuse(theirs, action, fields):  # a recording's messages are orders that can be
            continue
        getattr(ours, action)(**fields)
        getattr(theirs, action)(**fields)
        assert ours.trades == theirs.trades, n
        for side in (BUY, SELL):
            assert [(price, tuple(queue)) for price, queue in ours.levels(side)] == [(p, queue) for p, _, queue in theirs.levels(side)], n


def theirs_refuse(book, action, fields):
    if action == "submit":
        wanted = [fields.get(name) for name in ("order_id", "quantity", "price", "kind", "tip", "trigger")]
        return book.fault(*wanted[:4], wanted[4] or 0, wanted[5]) == "bad_value"
    return action == "modify" and not 1 <= fields["quantity"] <= 30_000


@every_rule
def test_quantity_is_conserved_and_continuous_trading_never_crosses(seed, rules):
    engine = Engine(Rules(**rules))
    asked = gone = traded = 0
    accepted = {}
    for action, fields in stream(100 + seed, LENGTH):
        for word in told(engine.apply(for_engine(action, fields))):
            if word[0] == "Accepted":
                asked += word[3]
                accepted[word[1]] = word[3]
            elif word[0] == "Modified":
                asked += word[6] - word[4]
            elif word[0] == "Cancelled":
                gone += word[4]
            elif word[0] == "Decremented":
                gone += 2 * word[2]
            elif word[0] == "Trade":
                traded += word[2]
            elif word[0] == "Rejected" and word[3] == "post_only":
                asked -= accepted[word[1]]
        _, rows = engine.snapshot()
        assert asked - gone - 2 * traded == rows[:, 3:5].sum()
        assert (rows[:, 3:5] >= 0).all() and rows[:, 3:5].sum(axis=1).all()
        assert engine.depth == tuple(rows[rows[:, 1] == side, 3].sum() for side in (0, 1))
        assert engine.resting == len(rows) == len(set(rows[:, 0].tolist()))
        bid, ask = engine.best(BUY), engine.best(SELL)
        assert engine.state.scalars[es.S_STATE] or bid is None or ask is None or bid < ask
    assert engine.crossed == 0 and traded


@every_rule
def test_exchanging_buy_and_sell_mirrors_every_report(seed, rules):
    rules = Rules(**rules, lowest=-1000)
    one, other = Engine(rules), Engine(rules)
    actions = [
        a for a in stream(200 + seed, LENGTH, auctions=False) if a[1].get("price") not in (0, (1 << 40) + 1) and a[1].get("trigger") != 0
    ]
    for plain, turned in zip(actions, moved(actions, mirror=True), strict=True):
        mine, mirrored = (engine.apply(for_engine(*m)).copy() for engine, m in ((one, plain), (other, turned)))
        assert len(mine) == len(mirrored)
        for column in (es.R_PRICE, es.R_EXTRA, es.R_QUANTITY, es.R_LEVEL):
            prices = price_rows(mirrored, column)
            mirrored[prices, column] = 2 * MIDDLE - mirrored[prices, column]
        sided = mirrored[:, es.R_KIND] != es.REJECTED
        mirrored[sided, es.R_SIDE] *= -1
        assert np.array_equal(mine, mirrored)


def price_rows(rows, column):
    """Which of ``rows`` hold a price in ``column``."""
    kind = rows[:, es.R_KIND]
    priced = {
        es.R_PRICE: ~np.isin(kind, (es.REJECTED,)),
        es.R_EXTRA: kind == es.TRIGGERED,
        es.R_QUANTITY: kind == es.SLID,
        es.R_LEVEL: kind == es.MODIFIED,
    }[column]
    return priced & (rows[:, column] != es.NONE)


@pytest.mark.parametrize("shift", [-(10**10), -101, 64, 4096, 1 << 39])
@pytest.mark.parametrize("mode", SELF_TRADES)
def test_shifting_every_price_shifts_every_report(mode, shift):
    one, other = Engine(Rules("keep_on_decrease", "slide", mode)), Engine(Rules("keep_on_decrease", "slide", mode, 1 + shift))
    actions = [a for a in stream(300, LENGTH) if a[1].get("price") != (1 << 40) + 1 and a != ("open", {})]
    for plain, far in zip(actions, moved(actions, shift=shift), strict=True):
        mine, shifted = (engine.apply(for_engine(*m)).copy() for engine, m in ((one, plain), (other, far)))
        for column in (es.R_PRICE, es.R_EXTRA, es.R_QUANTITY, es.R_LEVEL):
            shifted[price_rows(shifted, column), column] -= shift
        assert np.array_equal(mine, shifted)


@every_rule
def test_states_made_again_from_snapshots_go_on_as_if_nothing_had_been(seed, rules):
    rules = Rules(**rules)
    straight, resumed = Engine(rules), Engine(rules)
    for n, (action, fields) in enumerate(stream(400 + seed, LENGTH)):
        if n % 7 == 0:
            resumed = Engine.from_snapshot(rules, *resumed.snapshot())
        m = for_engine(action, fields)
        assert np.array_equal(straight.apply(m)[:, es.R_KIND :], resumed.apply(m)[:, es.R_KIND :]), n
    assert np.array_equal(straight.snapshot()[1], resumed.snapshot()[1])
    for scalar in (es.S_TIPS, es.S_WAITING, es.S_ORDERS, es.S_LEVELS, es.S_VOLUME, es.S_SEQ, es.S_BUY_STOP_DEPTH, es.S_SELL_STOP_DEPTH):
        assert straight.state.scalars[scalar] == resumed.state.scalars[scalar]


@every_rule
def test_blocks_and_keyframes_give_what_single_messages_do(seed, rules):
    rules = Rules(**rules)
    actions = list(stream(500 + seed, 3 * LENGTH))
    messages = np.array([for_engine(*a) for a in actions], dtype=np.int64).T.copy()
    keyframes = Frames(lambda: Engine(rules), lambda engine, first, end: engine.skip(messages[:, first:end].copy()))
    single, states, rows = Engine(rules), [], []
    for n in range(len(actions)):
        rows.append(single.apply(tuple(messages[:, n])).copy())
        if n % 61 == 0:
            states.append((n, single.snapshot()[1]))
        if n % 256 == 255:
            scalars, orders = single.snapshot()
            keyframes.keep(n + 1, EngineFrame(rules, scalars, Packed(orders), single.depth))
    whole = Engine(rules)
    assert np.array_equal(np.concatenate([r.copy() for _, _, r in whole.run(messages)]), np.concatenate(rows))
    skipped = Engine(rules)
    skipped.skip(messages)
    assert np.array_equal(whole.snapshot()[1], skipped.snapshot()[1]) and np.array_equal(whole.snapshot()[1], single.snapshot()[1])
    assert len(keyframes) == 1 + len(actions) // 256
    for n, state in sorted(states, key=lambda one: one[0] * 7919 % 1009):
        with keyframes.after(n) as engine:
            assert np.array_equal(engine.snapshot()[1], state)
