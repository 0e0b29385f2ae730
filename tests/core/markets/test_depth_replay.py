"""A replayed market-by-price file: what its steps say, one-sided and empty books, its memory, and any message at once."""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_depth_files import raw, ticker

from core.markets.depth import replay as depth_replay
from core.markets.depth.book import DepthBook
from core.markets.depth.day import DepthDay, DepthFrame
from core.markets.readers import depth_rows, forms
from core.markets.readers.clock import PriceStep
from core.markets.readers.depth_rows import DepthRows
from core.recording import Recorder, Recording
from core.simulation import record

T = 1_723_161_256_000
SIDES = (1, -1)


class Written:
    """A depth file made of messages that are handed over: (kind, side, price, size, update, levels)."""

    def __init__(self, *messages: tuple, name: str = "Binance raw websocket", size: int = 10_000) -> None:
        self.header = forms.Header("written", name, "X", by_order=False)
        self.done, self._messages, self._size = 1.0, messages, size

    def blocks(self):
        rows = DepthRows()
        for at, (kind, side, price, size, update, levels) in enumerate(self._messages):
            rows.add(T * 1_000_000 + at * 1_000_000, 0, kind, side, price, size, update, levels=levels)
            if len(rows) == self._size:
                yield rows.take()
        if len(rows):
            yield rows.take()


def replay(*messages: tuple, **more) -> Recording:
    recording = Recording("order_book")
    depth_replay.replay_depth(Written(*messages, **more), Recorder(recording))
    recording.state = "finished"
    return recording


def quote(bid, ask, sizes=(1, 1)):
    levels = [(side, p, q) for side, p, q in ((1, bid, sizes[0]), (-1, ask, sizes[1])) if p]
    return (forms.QUOTE, 0, 0, 0, 0, levels)


def trade(side, price, size):
    return (forms.PRINT, side, price, size, 0, ())


def delta(*levels):
    return (forms.DELTA, 0, 0, 0, 0, levels)


def whole(*levels):
    return (forms.SNAPSHOT, 0, 0, 0, 0, levels)


def titles(recording):
    return [recording.title(step) for step in range(len(recording))]


def test_each_kind_of_message_says_what_it_did():
    recording = replay(
        quote(99, 101), quote(99, 101, (1, 4)), quote(99, 101, (2, 4)), quote(99, 101, (3, 5)), quote(99, 100.5), trade(1, 100.5, 2),
        trade(-1, 99, 3), trade(0, 100, 1), delta((1, 98, 5)), delta((-1, 102, 7)), delta((1, 98, 0)), delta((1, 97, 1), (1, 96, 2)),
        delta((1, 97, 1)), delta((1, 99, 0)),
    )  # fmt: skip
    assert titles(recording) == [
        "The book begins at 99.00 / 101.00", "At the best ask 101.00 now 4 instead of 1", "At the best bid 99.00 now 2 instead of 1",
        "A new quote: 3 at 99.00, 5 at 101.00", "The best prices move to 99.00 / 100.50", "A buyer takes 2 at 100.50",
        "A seller gives 3 at 99.00", "1 trade at 100.00", "Bids at 98.00: now 5", "Asks at 102.00: now 7", "No bids at 98.00 any more",
        "2 levels change, and the best prices stay", "1 level sent, and nothing changes", "The best prices move to 97.00 / 100.50",
    ]  # fmt: skip
    assert "The best bid goes from 99.00 to 97.00, the best ask from 100.50 to 100.50." in recording.detail(13)
    assert (recording.fact("volume[bought]"), recording.fact("volume[sold]"), recording.fact("volume"), recording.fact("trades")) == (
        2,
        3,
        6,
        3,
    )
    assert (recording.columns["level"].value(11), recording.columns["level_size"].value(11)) == (97.0, 1.0)
    assert recording.columns["event"].value(5) == "trade" and recording.columns["side"].value(5) == "buy"
    assert all(check.ok for check in recording.checks) and len(recording.checks) == 3


def test_a_book_sent_whole_says_what_differs_and_keeps_only_that():
    book = [(1, 99.0 - k, 5.0) for k in range(10)] + [(-1, 101.0 + k, 5.0) for k in range(10)]
    other = [(s, p, 6.0 if p == 95.0 else q) for s, p, q in book]
    moved = [(s, p + 0.5, q) for s, p, q in book]
    recording = replay(whole(*book), whole(*other), whole(*other), whole(*moved), whole(*moved[:-2]))
    assert titles(recording) == [
        "The book is sent whole: 20 levels", "Bids at 95.00: now 6", "20 levels sent, and nothing changes",
        "The best prices move to 99.50 / 101.50", "2 levels differ now, and the best prices stay",
    ]  # fmt: skip
    assert [recording.columns["changes"].value(k) for k in range(5)] == [20, 1, 0, 40, 2]
    assert [(mark.price, mark.text) for mark in recording.panels[0].view.at(1).marks] == [(95.0, "now 6")]


def test_a_quote_removes_what_it_would_lock_or_cross():
    recording = replay(delta((1, 99, 5), (-1, 100, 2), (-1, 101, 3)), quote(100, None))  # a quote of one side
    assert [level.price for level in recording.panels[0].view.at(1).asks] == [101.0] and recording.checks[1].ok


def test_a_change_of_the_quote_s_own_update_is_as_new_as_the_quote_and_one_before_is_not():
    book = DepthBook()
    book.apply(forms.QUOTE, 20, [1, -1], [99.0, 101.0], [1.0, 1.0])
    assert book.apply(forms.DELTA, 19, [1], [99.0], [7.0]) == [] and book.apply(forms.DELTA, 20, [1], [99.0], [8.0]) == [(1, 99.0, 8.0)]


def test_the_ladder_marks_the_changes_nearest_to_the_best_prices():
    levels = [(1, 99.0 - k, 20.0 - k) for k in (5, 0, 9, 2, 7, 1, 3, 4)]
    marks = replay(delta((-1, 101, 1)), delta(*levels, (-1, 102, 3))).panels[0].view.at(1).marks
    assert [mark.price for mark in marks] == [99.0, 98.0, 97.0, 96.0, 95.0, 94.0, 102.0]
    assert {mark.role for mark in marks[:6]} == {"bid"} and marks[6].role == "ask" and marks[0].text == "now 20"


def test_one_sided_and_empty_books_say_so_and_draw():
    recording = replay(delta((1, 99, 5)), trade(-1, 99, 1), delta((1, 99, 0)), delta((-1, 101, 2)), delta((1, 100, 1)))
    details = [recording.detail(step) for step in range(5)]
    assert details[0].endswith("Best bid 99.00, and nobody sells.") and details[1].endswith("Best bid 99.00, and nobody sells.")
    assert details[2].endswith("The file tells nothing of the book here.") and details[3].endswith("Best ask 101.00, and nobody buys.")
    assert details[4].endswith("the best ask from 101.00 to 101.00.")
    assert [recording.fact("mid", step) for step in range(5)] == [None, None, None, None, 100.5]
    assert [recording.fact("depth", step) for step in range(5)] == [5, 5, 0, 2, 3]
    for step in range(5):
        assert all(panel.view.at(step) == panel.view.at(step) for panel in recording.panels)


@pytest.mark.parametrize("name", ["Tardis trades", "Binance aggTrades", "Databento trades"])
def test_a_file_of_trades_alone_shows_prices_and_takers_instead_of_an_empty_book(name):
    recording = replay(trade(1, 100.5, 2), trade(-1, 100.0, 3), trade(1, 101.0, 4), name=name)
    assert [panel.title for panel in recording.panels] == ["Price of the trades", "Trades", "Who took"]
    assert recording.panels[0].view.at(1).values == (100.0,) and recording.panels[2].view.at(2).values == (6.0, 3.0)
    assert "trades only" in recording.facts["queue_knowledge"].note and "next change of levels" not in recording.detail(0)
    assert [check.name for check in recording.checks] == ["volume bought + sold + without a taker"] and recording.checks[0].ok


def test_panels_draw_nothing_before_the_first_message_is_there(monkeypatch):
    frames = []
    begin = depth_replay._Replay._begin

    def watch(self, block):
        begin(self, block)
        frames.extend(panel.view.at(0) for panel in self.rec.recording.panels)

    monkeypatch.setattr(depth_replay._Replay, "_begin", watch)
    replay(quote(99, 101), trade(1, 101, 1))
    replay(trade(1, 101, 1), name="Tardis trades")
    assert len(frames) == 7 and frames[0].bids == () == frames[0].asks


# any message at once ----------------------------------------------------------------------------------------------------


def flow(seed: int, count: int, prices: int = 30) -> list[tuple]:
    """Random messages of every kind; quotes carry numbers, so that some changes of levels are older than the last quote."""
    rng = random.Random(seed)
    messages: list[tuple] = []
    for number in range(1, count + 1):
        kind = rng.choices((forms.DELTA, forms.QUOTE, forms.PRINT, forms.SNAPSHOT), (10, 3, 3, 0.05))[0]
        levels = [
            (side, 100.0 - side * rng.randint(1, prices) / 4, rng.randint(0, 4) / 8) for side in rng.choices(SIDES, k=rng.randint(1, 6))
        ]
        if kind == forms.QUOTE:
            levels = [(1, 100.0 - rng.randint(1, 4) / 4, 1.5), (-1, 100.0 + rng.randint(1, 4) / 4, 2.5)]
        messages.append(
            (kind, rng.choice(SIDES), 100.0, rng.randint(1, 9), number - rng.randint(0, 9), () if kind == forms.PRINT else levels)
        )
    return messages


def states(messages: list[tuple]) -> list[dict[int, dict[float, float]]]:
    """The book after every message, kept by one book from the first on."""
    book, out = DepthBook(), []
    for kind, _, _, _, update, levels in messages:
        book.apply(kind, update, *zip(*levels, strict=True)) if levels else None
        out.append({side: dict(book.levels[side]) for side in SIDES})
    return out


@pytest.mark.parametrize("seed", range(3))
def test_any_message_is_the_book_kept_from_the_first_on(seed, monkeypatch):
    monkeypatch.setattr("core.markets.depth.day.BETWEEN_FRAMES", 800)
    monkeypatch.setattr(depth_replay, "BLOCK", 128)
    messages = flow(seed, 3_000)
    recording, want = replay(*messages, size=700), states(messages)
    ladder = recording.panels[0].view
    assert 4 < len(ladder.day.frames) <= 1 + len(ladder.day.sides) / 800
    assert all(check.ok for check in recording.checks)
    for step in np.random.default_rng(seed).permutation(len(messages))[:150].tolist():
        frame = ladder.at(step)
        for side, levels in zip(SIDES, (frame.bids, frame.asks), strict=True):
            mine = want[step][side]
            assert [(level.price, level.quantity) for level in levels] == sorted(mine.items(), key=lambda row, s=side: -s * row[0])[:20]
        bid = max(want[step][1], default=None)
        assert recording.fact("best_bid", step) == bid and recording.columns["bid"].value(step) == bid
        assert recording.columns["bid_before"].value(step) == (max(want[step - 1][1], default=None) if step else None)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SIDES), st.integers(1, 12), st.integers(0, 3)), min_size=1, max_size=400), st.integers(0, 1))
def test_many_changes_at_once_are_the_same_as_one_by_one(changes, negative):
    shift = -6 if negative else 0
    sides, prices, sizes = (np.array(c) for c in zip(*((s, float(p + shift), float(q)) for s, p, q in changes), strict=True))
    one, all_at_once = DepthBook(), DepthBook()
    one.apply(forms.DELTA, 0, sides[:20].tolist(), prices[:20].tolist(), sizes[:20].tolist())
    all_at_once.apply(forms.DELTA, 0, sides[:20].tolist(), prices[:20].tolist(), sizes[:20].tolist())
    for change in zip(sides.tolist(), prices.tolist(), sizes.tolist(), strict=True):
        one.put(*change)
    all_at_once.put_all(sides, prices, sizes)
    assert one.levels == all_at_once.levels
    for side in SIDES:
        assert one.prices(side) == all_at_once.prices(side) == sorted(one.levels[side], key=lambda p, s=side: -s * p)
    again = DepthFrame.of(one).restore()
    assert again.levels == one.levels and [again.prices(side) for side in SIDES] == [one.prices(side) for side in SIDES]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_what_a_message_changed_is_the_difference_of_the_books(seed):
    book, before = DepthBook(), {1: {}, -1: {}}
    for kind, _, _, _, update, levels in flow(seed, 60, prices=5):
        if not levels:
            continue
        changes = book.apply(kind, update, *zip(*levels, strict=True))
        for side, price, size in changes:
            before[side][price] = size
        before = {side: {p: q for p, q in mine.items() if q} for side, mine in before.items()}
        assert before == book.levels
        assert book.prices(1) == sorted(book.levels[1], reverse=True) and book.prices(-1) == sorted(book.levels[-1])


def test_totals_and_trades_of_any_span_are_those_of_the_whole():
    messages = flow(5, 500)
    recording = replay(*messages, size=90)
    day: DepthDay = recording.panels[0].view.day
    volume = np.cumsum([m[3] if m[0] == forms.PRINT else 0 for m in messages])
    bought = np.cumsum([m[3] if m[0] == forms.PRINT and m[1] > 0 else 0 for m in messages])
    for first, end in ((0, 500), (0, 1), (499, 500), (120, 333), (7, 7)):
        assert day.total("volume", first, end).tolist() == volume[first:end].tolist()
        assert day.total("bought", first, end).tolist() == bought[first:end].tolist()
    assert recording.columns["quantity"].array(500).tolist() == [m[3] if m[0] == forms.PRINT else 0 for m in messages]
    assert recording.facts["trades"].column(500).tolist() == np.cumsum([m[0] == forms.PRINT for m in messages]).tolist()


# memory and speed -------------------------------------------------------------------------------------------------------


def capture(folder, count: int):
    """A raw capture like a real one: quotes, trades and changes of many levels, sizes of three decimals."""
    rng = random.Random(1)
    path = folder / "capture.txt"
    with path.open("w") as file:
        for k in range(count):
            at = T + k
            mid = 60_000 + 50 * np.sin(k / 900)
            bid, ask = f"{mid - 0.05:.1f}", f"{mid + 0.15:.1f}"
            kind = rng.random()
            if kind < 0.7:
                data = {"e": "bookTicker", "u": k, "s": "X", "b": bid, "B": f"{rng.random():.3f}", "a": ask, "A": f"{rng.random():.3f}"}
            elif kind < 0.93:
                data = {"e": "trade", "s": "X", "t": k, "p": ask, "q": f"{rng.random() + 0.001:.3f}", "m": False}
            else:
                sides = [
                    [[f"{mid + s * (0.2 + rng.randint(0, 900) / 10):.1f}", f"{rng.random() * 5:.3f}"] for _ in range(35)] for s in (-1, 1)
                ]
                data = {"e": "depthUpdate", "s": "X", "U": k, "u": k, "pu": k - 1, "b": sides[0], "a": sides[1]}
            file.write(f"{at}000000 " + json.dumps({**data, "T": at, "E": at}, separators=(",", ":")) + "\n")
    return path


def test_a_message_takes_less_than_200_bytes_and_any_is_reached_in_20_milliseconds(tmp_path):
    recording = record("order_book", {"file": str(capture(tmp_path, 12_000))})
    day: DepthDay = recording.panels[0].view.day
    steps = sum(store.itemsize for store in (recording.template_ids, recording.times)) * len(recording)
    log = recording.panels[1].view._log.nbytes
    plot = sum(len(curve) * 24 for curve in recording.panels[2].view.curves)
    assert sum(column.store.itemsize * len(column.store) for column in recording.columns.values()) == 0
    assert (day.nbytes + steps + log + plot) / len(recording) < 200
    took = []
    for step in random.Random(0).sample(range(len(recording)), 60):
        start = time.thread_time()
        for panel in recording.panels:
            panel.view.at(step)
        recording.title(step), recording.detail(step), recording.facts_at(step)
        took.append(time.thread_time() - start)
    assert sorted(took)[30] < 0.020


def test_a_feed_of_whole_books_takes_no_more_than_its_changes():
    rng = random.Random(2)
    book = {(side, 100.0 - side * (k + 1) / 4): 5.0 for side in SIDES for k in range(25)}
    messages = []
    for _ in range(4_000):
        book[rng.choice(list(book))] = rng.randint(1, 99) / 8
        messages.append(whole(*((side, price, size) for (side, price), size in book.items())))
    recording = replay(*messages, name="Tardis book_snapshot_25")
    assert recording.panels[0].view.day.nbytes / len(recording) < 100
    frame = recording.panels[0].view.at(len(recording) - 1)
    assert [(level.price, level.quantity) for level in frame.bids][:3] == [(p, book[1, p]) for p in (99.75, 99.5, 99.25)]


@pytest.mark.parametrize(
    ("prices", "step"),
    [
        ([[10_005, 10_015]], 5),  # multiples of 10 apart, and none of them is one
        ([[-5, 5]], 5),
        ([[10_000, 10_100], [10_050]], 50),  # a later block needs finer rows
        ([[10_000], [10_000]], 10),  # one price alone tells no step
        ([[10_003]], 1),
        ([[], [0]], 10),
        ([[475_025, 475_100], [475_000]], 25),
    ],
)
def test_step_of_a_ladder_leads_to_every_price_seen_so_far(prices, step):
    steps = PriceStep(cent=10)
    assert [steps.see(np.array(block, dtype=np.int64)) for block in prices][-1] == step


@pytest.mark.parametrize("later", [[], [100.05]])
def test_prices_between_the_steps_of_the_first_ones_have_rows_of_their_own(tmp_path, monkeypatch, later):
    monkeypatch.setattr(depth_rows, "FIRST_BLOCK", 2)
    quotes = [ticker(k, (str(bid), "1"), (str(bid + 0.2), "1")) for k, bid in enumerate([100.1, 100.1, *later, 100.1], 1)]
    ladder = record("order_book", {"file": str(raw(tmp_path / "a.txt", *quotes))}).panels[0].view
    assert round(ladder.tick, 9) == (0.05 if later else 0.1)
