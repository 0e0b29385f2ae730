"""Each match of a stream's taker is a step with its own state, and the steps of one message are joined."""

from __future__ import annotations

import numpy as np
import pytest
from test_stream_replay import rows_of, saved, workload

from core.markets.matching.book import BUY, SELL, Book, Cancelled, Rested, Trade
from core.markets.stream.matches import laid_out
from core.search import find
from core.simulation import record


def levels_of(book):
    return tuple(
        tuple((level.price, level.quantity, tuple((o.order_id, o.quantity) for o in level.orders.values())) for level in side.from_best())
        for side in (book.bids, book.asks)
    )


def states(columns, rule):
    """(message, trade or None, levels) after every match, and after every message that leaves more than its matches."""
    found, heard = [], []

    def hear(report):
        heard.append(report)
        if isinstance(report, Trade):
            found.append((message, (report.taker, report.maker, report.price, report.quantity), levels_of(book)))

    book = Book(hear, modify_rule=rule, lowest=-(1 << 30))
    for message, (kind, side, ioc, quantity, order, price) in enumerate(rows_of(columns)):
        heard.clear()
        if kind == 0:
            book.submit(order, SELL if side else BUY, quantity, price, "ioc" if ioc else "limit")
        elif kind == 1:
            book.cancel(order)
        else:
            book.modify(order, quantity, price)
        if not any(isinstance(r, Trade) for r in heard) or any(isinstance(r, Rested | Cancelled) for r in heard):
            found.append((message, None, levels_of(book)))
    return found


def compared(columns, rule, folder):
    """The recording of ``columns``, every step of it compared with the readable book."""
    made = record("order_book", {"file": str(saved(folder, columns)), "modify_rule": rule})
    wanted = states(columns, rule)
    assert len(made) == len(wanted)
    ladder, plot, depth = (made.panels[k].view for k in (0, 2, 3))
    volume = trades = 0
    for step, (message, trade, (bids, asks)) in enumerate(wanted):
        assert made.joins.number(step) == message
        values = made.values(step)
        if trade is None:
            assert values["action"] in ("new", "cancel", "modify")
        else:
            assert (values["action"], values["order"], values["maker"], values["price"], values["quantity"]) == ("trade", *trade)
            volume, trades = volume + trade[3], trades + 1
        frame = ladder.at(step)
        shown = tuple(
            tuple((level.price, level.quantity, tuple((o.order_id, o.quantity) for o in level.orders)) for level in side)
            for side in (frame.bids, frame.asks)
        )
        assert shown == (bids[:40], asks[:40]), f"step {step}, message {message}"
        assert made.fact("best_bid", step) == (bids[0][0] if bids else None)
        assert made.fact("best_ask", step) == (asks[0][0] if asks else None)
        assert made.fact("depth[bid]", step) == sum(level[1] for level in bids)
        assert made.fact("depth[ask]", step) == sum(level[1] for level in asks)
        assert made.fact("volume", step) == volume and made.fact("trades", step) == trades
        assert plot.at(step).values[1] == (bids[0][0] if bids else None) and plot.at(step).cursor == message + 1
        assert [cell.value for _, cell in sorted(depth.at(step).cells.items())] == [sum(x[1] for x in side) for side in (bids, asks)]
    return made


@pytest.mark.parametrize("rule", ["benchmark", "keep_on_decrease"])
@pytest.mark.parametrize("kind", ["crash", "swings", "around zero"])
def test_every_match_is_a_step_with_the_state_of_the_readable_book(kind, rule, tmp_path):
    made = compared(workload(kind, 1500), rule, tmp_path)
    assert len(made) > 1700


@pytest.mark.parametrize("side", [0, 1], ids=["buys", "sells"])
@pytest.mark.parametrize("company", [False, True], ids=["alone at the best price", "beside another"])
@pytest.mark.parametrize("quantity", [20, 50], ids=["filled", "rests"])
def test_order_that_moves_to_trade_has_left_its_queue_while_it_trades(side, company, quantity, tmp_path):
    sign = 1 if side == 0 else -1
    rows = [
        (0, side, 0, 50, 1, 100 - sign), (0, side, 0, 10, 2, 100 - 2 * sign),
        (0, 1 - side, 0, 10, 3, 100 + sign), (0, 1 - side, 0, 10, 4, 100 + 2 * sign), (0, 1 - side, 0, 5, 6, 100 + 3 * sign),
        (2, side, 0, quantity, 1, 100 + 2 * sign),
    ]  # fmt: skip
    if company:
        rows.insert(1, (0, side, 0, 7, 5, 100 - sign))
    columns = dict(zip(("type", "side", "ioc", "quantity", "order_id", "price"), map(np.array, zip(*rows, strict=True)), strict=True))
    made = compared(columns, "benchmark", tmp_path)
    best = made.fact("best_bid" if side == 0 else "best_ask", made.joins.first(len(rows) - 1))
    assert best == 100 - (1 if company else 2) * sign


def test_layout_gives_a_step_to_each_match_and_one_to_what_is_left():
    layout = laid_out(np.array([0, 1, 3, 2, 0]), np.array([True, False, False, True, False]))
    assert layout.message.tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 4]
    assert layout.match.tolist() == [-1, 0, 0, 1, 2, 0, 1, -1, -1]
    assert layout.joins.tolist() == [False, False, False, True, True, False, True, True, False]
    assert layout.last.tolist() == [0, 1, 4, 7, 8]


def test_order_is_found_as_maker_too_and_trades_by_their_size(tmp_path):
    columns = workload("swings", 3000)
    made = record("order_book", {"file": str(saved(tmp_path, columns))})
    steps = range(len(made))
    some = next(made.values(step)["maker"] for step in steps if made.values(step)["action"] == "trade")
    mine = [step for step in steps if some in (made.values(step)["order"], made.values(step).get("maker", -1))]
    assert find(made, f"#{some}").steps.tolist() == find(made, f"order {some}").steps.tolist() == mine and len(mine) > 1
    large = [step for step in steps if made.values(step)["action"] == "trade" and made.values(step)["quantity"] >= 60]
    assert find(made, "trade >= 60").steps.tolist() == large and large
