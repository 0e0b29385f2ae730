"""The ladder widget: where prices stand, how queues look, when the window moves, what the cursor says."""

from __future__ import annotations

import random
from itertools import pairwise

from harness import ViewApp, mounted, picture
from samples import dense_book, sparse_book

from core.views import Ladder, Level, Resting
from tui.widgets.queue_bar import blocks, round_up

SIZE = (78, 9)


def price_rows(lines: list[str]) -> dict[str, str]:
    return {word: line for line in lines for word in line.split() if word.startswith(("580.", "579.")) and "mid" not in line}


async def test_asks_stand_above_bids_best_prices_next_to_the_spread():
    lines = await picture(dense_book(), 0, SIZE)
    spread = next(k for k, line in enumerate(lines) if "spread" in line)
    assert "spread 0.02 · mid 580.20" in lines[spread]
    prices = [float(word) for line in lines[1:] for word in line.split() if word.startswith("580.") and "mid" not in line]
    assert prices == sorted(prices, reverse=True)
    assert "580.21" in lines[spread - 1]


async def test_bids_grow_left_of_the_price_and_asks_right_of_it():
    rows = price_rows(await picture(dense_book(), 0, SIZE))
    bid, ask = rows["580.19"], rows["580.23"]
    assert "█" in bid[: bid.index("580.19")] and "█" not in bid[bid.index("580.19") :]
    assert "█" in ask[ask.index("580.23") :] and "█" not in ask[: ask.index("580.23")]
    assert bid.index("580.19") == ask.index("580.23")


async def test_bar_lengths_are_in_the_ratio_of_the_quantities():
    view = Ladder(0.01, "$")
    view.level("ask", 10.00, 100, step=0)
    view.level("ask", 10.01, 50, step=0)
    view.level("bid", 9.99, 75, step=0)
    lines = await picture(view, 0, (100, 5))
    length = {word: line.count("█") for line in lines for word in ("10.00", "10.01", "9.99") if word in line and "mid" not in line}
    assert abs(length["10.00"] - 2 * length["10.01"]) <= 1 and length["10.00"] > 20
    assert abs(length["9.99"] / length["10.00"] - 0.75) < 0.05


async def test_own_order_is_a_star_in_the_queue():
    rows = price_rows(await picture(dense_book(), 0, SIZE, colors="none"))
    assert "★" in rows["580.18"] and "★" not in rows["580.19"]


async def test_marks_stand_beside_the_price_on_its_empty_side():
    rows = price_rows(await picture(dense_book(), 1, SIZE))
    assert rows["580.21"].split("580.21")[0].strip() == "× trade 250"
    rows = price_rows(await picture(dense_book(), 2, SIZE))
    assert rows["580.21"].split("580.21")[1].strip() == "• new bid 120"


async def test_in_a_dense_book_a_step_repaints_the_touched_prices_and_the_spread_only():
    async with mounted(dense_book(), 0, SIZE) as stage:
        spread = next(k for k, line in enumerate(stage.lines()) if "spread" in line)
        assert set(stage.show(1)) <= {0, spread - 1, spread, spread + 1}
        assert stage.show(1) == []


async def test_window_stands_still_while_the_mid_stays_in_its_middle_half_then_turns_by_half_pages():
    view = Ladder(0.01, "$")
    for step in range(40):
        for tick in range(980 + step, 1030 + step):
            side = "bid" if tick < 1000 + step else "ask"
            if step:
                view.level("ask" if side == "bid" else "bid", tick / 100, 0, step=step)
            view.level(side, tick / 100, 100, step=step)
    async with mounted(view, 0, (60, 17)) as stage:
        tops = []
        for step in range(40):
            stage.show(step)
            tops.append(stage.widget._top_tick)
        moves = [b - a for a, b in pairwise(tops)]
        assert set(moves) == {0, 8} and sum(move > 0 for move in moves) <= 6


async def test_sparse_book_keeps_the_spread_in_the_middle_and_says_how_many_ticks_it_is_wide():
    lines = await picture(sparse_book(), 0, SIZE)
    assert "⋯ 4 ticks ⋯   spread 0.05 · mid 580.205" in lines[5]
    assert "580.23" in lines[4] and "580.18" in lines[6]
    assert "▾ 3 more" in lines[0] and "▴ 2 more" in lines[0]


async def test_sparse_book_with_room_shows_the_gaps_between_levels():
    lines = await picture(sparse_book(), 0, (78, 30))
    assert sum("⋯ 6 ticks ⋯" in line for line in lines) == 10


async def test_a_price_inside_the_spread_is_marked_on_the_spread_row():
    lines = await picture(sparse_book(), 1, SIZE)
    assert "spread 0.05 · mid 580.205  × 580.205 hidden 100" in lines[5]


async def test_in_a_narrow_ladder_the_mark_inside_the_spread_goes_before_the_words_about_the_spread():
    marked = "× 580.205 hidden 100"
    for width, said in ((48, f" spread 0.05 · mid 580.205  {marked}"), (40, f"spread 0.05  {marked}"), (28, marked), (12, "× 580.205 h…")):
        lines = await picture(sparse_book(), 1, (width, 9))
        assert lines[5].endswith(said) and len(lines[5]) <= width
        if width == 28:
            assert lines[5].strip() == marked


async def test_a_level_that_is_gone_keeps_its_row_for_the_step_that_took_it():
    async with mounted(sparse_book(), 1, SIZE) as stage:
        before = {k for k, line in enumerate(stage.lines()) if "580.30" in line}
        stage.show(2)
        assert before == {k for k, line in enumerate(stage.lines()) if "580.30" in line and "cancelled" in line}


async def test_one_sided_and_empty_books_draw():
    view = Ladder(0.01, "$")
    view.level("bid", 10.0, 5, step=1)
    view.level("bid", 10.0, 0, step=2)
    view.level("ask", 10.0, 5, step=2)
    assert any("the book is empty" in line for line in await picture(view, 0, SIZE))
    assert any("10.00" in line for line in await picture(view, 1, SIZE))
    assert any("10.00" in line for line in await picture(view, 2, SIZE))


async def test_cursor_moves_over_levels_and_explains_what_is_ahead():
    view = Ladder(0.01, "$", "shares")
    view.level("ask", 580.20, 100, step=0)
    view.level("ask", 580.23, 496, [Resting(1, 200), Resting(2, 146), Resting(3, 150, own=True)], step=0)
    view.level("bid", 580.18, 50, step=0)
    async with mounted(view, 0, SIZE, focus=True) as stage:
        stage.widget.cursor_by(0, -1)
        assert stage.widget.explain() == "ask 580.20 · 100 shares · best ask"
        stage.widget.cursor_by(0, -1)
        assert stage.widget.explain() == (
            "ask 580.23 · 496 shares · 3 orders · 100 shares ahead at better prices · ★ own order 150: 346 shares ahead of it in the queue"
        )
        for _ in range(2):
            assert stage.widget.cursor_by(0, 1)
        assert stage.widget.explain().startswith("bid 580.18 · 50 shares")
        assert not stage.widget.cursor_by(0, 1)


async def test_cursor_takes_the_window_along_to_the_deepest_level():
    for view in (dense_book(), sparse_book()):
        async with mounted(view, 0, SIZE, focus=True) as stage:
            while stage.widget.cursor_by(0, 1):
                deepest = stage.widget.explain().split()[1]
                assert any(f"▸{deepest}" in line for line in stage.lines())


async def test_a_day_of_random_books_fits_every_size():
    draw = random.Random(11)
    view, mid = Ladder(0.01, "$", "shares"), 58020
    for step in range(300):
        mid += draw.choice((-3, -1, 0, 0, 1, 3))
        side = draw.choice(("bid", "ask"))
        away = draw.choice((1, 1, 2, 3, 8, 40))
        quantity = draw.choice((0, 1, 5, 100, 12345, 2e6, 0.5))
        view.level(side, (mid + (away if side == "ask" else -away)) / 100, quantity, step=step)
        view.mark(mid / 100, draw.choice(("own", "trade", "bad", "bid")), "something happened here", step=step)
    for size in ((20, 4), (33, 7), (78, 9), (120, 40)):
        async with mounted(view, 0, size) as stage:
            for step in range(0, 300, 7):
                stage.show(step)
                assert {strip.cell_length for strip in stage.strips()} == {size[0]}


def test_blocks_share_the_bar_by_quantity_with_gaps_between_orders():
    cells, own = blocks(Level(1.0, 400, (Resting(1, 100), Resting(2, 200), Resting(3, 100))), 16)
    assert "".join(cells) == "█▌███▌██" and own == set()
    cells, own = blocks(Level(1.0, 400, (Resting(1, 100), Resting(2, 200, own=True), Resting(3, 100))), 16)
    assert "".join(cells) == "█▌★██▌██" and own == {2, 3, 4, 5}


async def test_a_dense_book_can_be_left_for_an_empty_one_that_has_a_mark():
    view = Ladder(0.01, "$", "shares")
    view.mark(10.00, "bid", "buy 200", step=0)
    for k in range(10):
        view.level("bid", round(9.99 - k / 100, 2), 100, step=1)
        view.level("ask", round(10.01 + k / 100, 2), 100, step=1)
    async with mounted(view, 1, SIZE) as stage:
        assert any("9.99" in strip.text for strip in stage.strips())
        stage.show(0)
        assert not any("9.99" in strip.text for strip in stage.strips())


def test_what_is_hidden_is_shaded_behind_all_that_is_displayed():
    level = Level(1.0, 200, (Resting(1, 100, reserve=200), Resting(2, 100)))
    assert "".join(blocks(level, 16)[0]) == "█▌██░░░░"
    own = Level(1.0, 200, (Resting(1, 100, own=True, reserve=200), Resting(2, 100)))
    assert ("".join(blocks(own, 16)[0]), blocks(own, 16)[1]) == ("★▌██░░░░", {0, 1, 4, 5, 6, 7})
    assert "".join(blocks(Level(1.0, 0, (Resting(3, 0, reserve=300),)), 7)[0]) == "░░░░"
    assert "".join(blocks(Level(1.0, 900, (Resting(1, 900, reserve=10),)), 8)[0]) == "███░"
    for halves in range(1, 12):
        cells, _ = blocks(Level(1.0, 10, (Resting(1, 10, reserve=1000),)), halves)
        assert len(cells) == (halves + 1) // 2 and cells[0] != "░", "what is displayed keeps a cell"


async def test_hidden_quantity_is_written_beside_the_displayed_one_where_there_is_room():
    view = Ladder(0.01, "$", "shares")
    view.level("ask", 10.02, 200, [Resting(1, 100, reserve=800), Resting(2, 100)], step=0)
    view.level("ask", 10.01, 0, [Resting(3, 0, reserve=50)], step=0)
    view.level("bid", 9.99, 300, step=0)
    for width, amount in ((78, "200+800"), (30, "200")):
        lines = await picture(view, 0, (width, 8))
        row = next(line for line in lines if "10.02" in line)
        assert f" {amount} " in row and "░" in row
        assert any("spread 0.03" in line for line in lines), "nobody sees the hidden offer at 10.01"
    async with mounted(view, 0, SIZE, focus=True) as stage:
        stage.widget.cursor = ("ask", 1002)
        assert stage.widget.explain() == "ask 10.02 · 200 shares · 800 more hidden · 2 orders · 0 shares ahead at better prices"


async def test_crossed_book_has_a_row_for_each_price_with_bids_and_asks_side_by_side():
    view = Ladder(0.01, "$", "shares")
    for side, price, quantity in (("bid", 10.05, 500), ("bid", 10.03, 100), ("ask", 10.03, 200), ("ask", 9.95, 300)):
        view.level(side, price, quantity, step=0)
    view.mark(10.03, "bid", "+100", step=0)
    for size in (SIZE, (38, 6), (38, 4)):
        lines = await picture(view, 0, size)
        prices = [word for line in lines for word in line.split() if word in ("10.05", "10.03", "9.95")]
        assert prices == ["10.05", "10.03", "9.95"]
        (row,) = (line for line in lines if "10.03" in line)
        left, right = row.split("10.03")
        assert "100" in left and "200" in right and "• +100" in right
        assert not any("spread" in line for line in lines)
    async with mounted(view, 0, SIZE, focus=True) as stage:
        stage.widget.cursor = ("bid", 1005)
        seen = [stage.widget.explain().split(" ·")[0]]
        while stage.widget.cursor_by(0, 1):
            seen.append(stage.widget.explain().split(" ·")[0])
        assert seen == ["bid 10.05", "ask 10.03", "bid 10.03", "ask 9.95"]


def test_scale_is_the_next_round_number():
    assert [round_up(value) for value in (0.3, 1, 1.1, 2.5, 7, 496, 0)] == [0.5, 1, 2, 5, 10, 500, 1.0]


def test_dense_ladder_snapshot(snap_compare):
    assert snap_compare(ViewApp(dense_book(), 1), terminal_size=(78, 12))


def test_sparse_ladder_snapshot(snap_compare):
    assert snap_compare(ViewApp(sparse_book(), 1), terminal_size=(78, 9))


def test_ladder_light_focused_snapshot(snap_compare):
    async def move(pilot):
        pilot.app.widget.cursor_by(0, 1)
        pilot.app.widget.cursor_by(0, 1)

    assert snap_compare(ViewApp(dense_book(), 0, focus=True, theme="textual-light"), terminal_size=(120, 24), run_before=move)
