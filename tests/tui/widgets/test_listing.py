"""The listing widget: lit lines, windows by half pages, clipping, the cursor."""

from __future__ import annotations

from harness import ViewApp, mounted, picture
from samples import DISPATCH, dispatch_listing

from core.views import Listing


async def test_lit_lines_carry_a_pointer_and_every_line_its_number():
    lines = await picture(dispatch_listing(), 0, (78, 11))
    assert [line[0] == "▸" for line in lines] == [number in (3, 4) for number in range(11)]
    assert [line[1:3].strip() for line in lines] == [str(number + 1) for number in range(11)]
    assert lines[0].endswith(DISPATCH[0])


async def test_a_step_repaints_only_the_lines_that_light_up_or_go_out():
    async with mounted(dispatch_listing(), 0, (78, 11)) as stage:
        assert stage.show(1) == [3, 4, 6]
        assert stage.show(1) == []


async def test_window_turns_by_half_pages_and_stays_while_the_lit_line_is_inside():
    view = Listing([f"line {k}" for k in range(40)])
    for step, lit in enumerate((0, 5, 8, 11, 12, 30, 2)):
        view.light(lit, step=step)
    async with mounted(view, 0, (40, 8)) as stage:
        tops = []
        for step in range(7):
            stage.show(step)
            tops.append(stage.widget.top)
        assert tops == [0, 0, 4, 4, 8, 24, 0]
        assert stage.lines()[2] == "▸ 3  line 2"


async def test_long_lines_end_in_an_ellipsis_and_shift_with_the_arrows():
    async with mounted(dispatch_listing(), 2, (40, 11), focus=True) as stage:
        before = stage.lines()[9]
        assert before.endswith("…") and len(before) <= 40
        while stage.widget.cursor_by(1, 0):
            pass
        assert stage.lines()[9].endswith("weighted")


async def test_cursor_explains_the_whole_line():
    async with mounted(dispatch_listing(), 1, (40, 6), focus=True) as stage:
        assert stage.widget.cursor_by(0, 1)
        assert stage.widget.explain() == "line 7 of 11: out = grouped_matmul(rows, weights, counts)"
        assert stage.widget.cursor_by(0, -1)
        assert stage.widget.explain().startswith("line 6 of 11")


async def test_cursor_takes_the_window_along_and_the_next_lit_line_takes_it_back():
    view = Listing([f"line {k}" for k in range(40)])
    view.light(0, step=0)
    view.light(1, step=1)
    async with mounted(view, 0, (40, 8), focus=True) as stage:
        for _ in range(30):
            stage.widget.cursor_by(0, 1)
        line = stage.widget.explain().split(": ")[1]
        assert any(shown.endswith(line) for shown in stage.lines()) and stage.widget.top > 20
        stage.show(1)
        assert any(shown.startswith("▸") for shown in stage.lines())


async def test_wide_characters_keep_the_row_inside_the_panel():
    view = Listing(["注意力 = softmax(查询 @ 键.T) @ 值"] * 3)
    async with mounted(view, 0, (20, 3)) as stage:
        assert {strip.cell_length for strip in stage.strips()} == {20}
        assert "…" in stage.lines()[0]


async def test_an_empty_listing_draws_and_has_no_cursor():
    async with mounted(Listing(), 0, (20, 3), focus=True) as stage:
        assert stage.lines() == ["", "", ""]
        assert not stage.widget.cursor_by(0, 1)


def test_listing_snapshot(snap_compare):
    assert snap_compare(ViewApp(dispatch_listing(), 1), terminal_size=(78, 9))
