"""The Gantt: where spans, playhead and cursor stand, what a step repaints, and how a schedule that does not fit is shown."""

from __future__ import annotations

import sys
import threading
from itertools import pairwise

import pytest
from harness import mounted, one_f_one_b, overlapped_streams, picture
from hypothesis import given, settings
from hypothesis import strategies as st

from core.views import Axis, Gantt
from tui.theme import Palette
from tui.widgets.fitting import Row
from tui.widgets.spans import Sampled, draw_samples, span_text
from tui.widgets.timescale import choose, sample, ticks

WIDE = (120, 12)


def lane_of(lines: list[str], name: str) -> str:
    return next(line for line in lines if name in line)


def cell_of(view: Gantt, lines: list[str], lane: int, index: int, scale: int, margin: int) -> str:
    span = view.get(index)
    return lane_of(lines, f"rank {lane}")[margin + round(span.start) * scale :][: len(span.text)]


async def test_every_span_stands_at_its_time_with_its_text() -> None:
    view, _ = one_f_one_b(4, 8)
    lines = await picture(view, 63, WIDE)
    for index in range(len(view)):
        assert cell_of(view, lines, view.get(index).lane, index, 3, 8) == view.get(index).text  # 33 units in 112 cells: 3 a unit


async def test_playhead_stands_over_the_start_of_the_current_span_and_its_lane_is_marked() -> None:
    view, steps = one_f_one_b(4, 8)
    async with mounted(view, 0, WIDE) as stage:
        for step in range(steps):
            stage.show(step)
            lines = stage.lines()
            span = view.get(step)
            assert lines[0].index("▾") == 8 + 3 * round(span.start)
            assert [line.split()[1] for line in lines if line.startswith("▸")] == [str(span.lane)]


async def test_ticks_name_the_times_of_their_columns() -> None:
    view, _ = one_f_one_b(4, 8)
    axis = (await picture(view, 20, WIDE))[0]
    for label in ("0", "5", "15", "20", "25"):
        assert axis[8 + 3 * int(label) :].startswith(label)


async def test_tick_under_the_playhead_moves_beside_it() -> None:
    view, _ = one_f_one_b(4, 8)
    step = next(s for s in range(len(view)) if view.get(s).start == 10)
    axis = (await picture(view, step, WIDE))[0]
    assert "▾10" in axis


async def test_idle_time_is_dotted_once_a_unit() -> None:
    view, _ = one_f_one_b(4, 8)
    lane = lane_of(await picture(view, 63, WIDE), "rank 3")[8:]
    busy = sum(view.get(i).end - view.get(i).start for i in range(len(view)) if view.get(i).lane == 3)
    assert lane.count("·") == view.end - busy


async def test_a_step_repaints_the_axis_the_lane_it_left_and_the_lane_it_enters() -> None:
    view, steps = one_f_one_b(4, 8)
    async with mounted(view, 0, WIDE) as stage:
        row_of = {lane: next(y for y, line in enumerate(stage.lines()) if f"rank {lane}" in line) for lane in range(4)}
        for step in range(1, steps):
            rows = stage.show(step)
            assert set(rows) <= {0, row_of[view.get(step - 1).lane], row_of[view.get(step).lane]}


async def test_stepping_back_shows_what_was_shown_before() -> None:
    view, steps = one_f_one_b(4, 8)
    async with mounted(view, 0, WIDE) as stage:
        forward = []
        for step in range(steps):
            stage.show(step)
            forward.append([list(strip) for strip in stage.strips()])
        for step in reversed(range(steps)):
            stage.show(step)
            assert [list(strip) for strip in stage.strips()] == forward[step]


async def test_a_jump_shows_the_same_as_opening_there() -> None:
    view, _ = one_f_one_b(4, 8)
    async with mounted(view, 40, WIDE) as stage:
        opened = [list(strip) for strip in stage.strips()]
    async with mounted(view, 3, WIDE) as stage:
        stage.strips()
        stage.show(40)
        assert [list(strip) for strip in stage.strips()] == opened
        assert stage.show(41) != [] and stage.show(3) != []
        stage.show(40)
        assert [list(strip) for strip in stage.strips()] == opened


async def test_spans_change_style_as_they_happen() -> None:
    view, _ = one_f_one_b(4, 8)
    palette = Palette("truecolor", True)
    async with mounted(view, 0, WIDE) as stage:
        y = 1  # rank 0: F0 at column 8, F1 at 11
        first = view.span_at(0, 1.0)
        stage.show(view.get(first).step - 1)
        assert stage.style_at(11, y).bgcolor == palette.ghost("forward").bgcolor
        stage.show(view.get(first).step)
        assert stage.style_at(11, y).bgcolor == palette.current("forward").bgcolor
        stage.show(view.get(first).step + 1)
        assert stage.style_at(11, y).bgcolor == palette.block("forward").bgcolor


async def test_a_collective_stands_out_on_every_rank() -> None:
    view, _ = overlapped_streams(2)
    step = next(view.get(i).step for i in range(len(view)) if view.get(i).role == "comm")
    loud = Palette("truecolor", True).current("comm").bgcolor
    async with mounted(view, step, (110, 14)) as stage:
        lines = stage.lines()
        for lane in (1, 3):
            y = next(y for y, line in enumerate(lines) if view.lanes.label(lane) in line)
            assert stage.style_at(lines[y].index("all-reduce 2"), y).bgcolor == loud


async def test_lanes_of_one_group_stand_together() -> None:
    view, _ = overlapped_streams(2)
    lines = await picture(view, 0, (110, 14))
    names = [line[1:16].strip() for line in lines[1:7]]
    assert names == ["rank 0 compute", "rank 0 comm", "", "rank 1 compute", "rank 1 comm", ""]


async def test_seconds_are_named_once_beside_the_axis() -> None:
    view, _ = overlapped_streams(2)
    axis = (await picture(view, 4, (110, 14)))[0]
    assert axis.replace("▾", " ").split() == ["ms", *map(str, range(12))]


async def test_time_window_turns_by_half_pages_and_keeps_still_between() -> None:
    view, steps = one_f_one_b(4, 40)
    async with mounted(view, 0, (62, 12)) as stage:
        lefts = []
        for step in range(steps):
            stage.show(step)
            lefts.append(stage.widget._left)
            assert "▾" in stage.lines()[0]
        turns = sorted(set(lefts))
        width = 62 - 8
        assert 3 < len(turns) < 20 and sum(a != b for a, b in pairwise(lefts)) < steps / 10
        assert all((b - a) % (width // 2) == 0 for a, b in pairwise(turns[:-1]))


async def test_lane_window_shows_the_current_lane_and_says_which_lanes_it_shows() -> None:
    view, steps = one_f_one_b(32, 4)
    async with mounted(view, 0, (100, 12)) as stage:
        for step in range(0, steps, 3):
            stage.show(step)
            lines = stage.lines()
            assert any(line.startswith("▸") and f"rank {view.get(step).lane} " in line for line in lines)
            first, last = lines[0].split()[0].split("/")[0].split("–")
            assert lines[1].split("rank ")[1].split()[0] == str(int(first) - 1)
            assert int(last) - int(first) + 1 == 11


async def test_a_thousand_spans_on_many_lanes_become_one_cell_each() -> None:
    view, _ = one_f_one_b(24, 64)
    async with mounted(view, 1000, (84, 30)) as stage:
        widget = stage.widget
        assert not widget._scale.letters
        for y in range(1, 25):
            lane = y - 1
            shown = stage.strips()[y].text[widget._label_width :]
            for column in range(0, 60, 7):
                index = view.span_at(lane, widget._scale.middle(widget._left + column))
                known = index >= 0 and index < view.at(1000).known
                if index < 0:
                    assert shown[column] == "·"
                elif known and index not in widget._now:
                    first = column == 0 or view.span_at(lane, widget._scale.middle(widget._left + column - 1)) != index
                    assert shown[column] in ("█" if view.get(index).role == "forward" else "B" if first else " ")
                else:
                    assert shown[column] in view.get(index).text[0] + "╌ "


async def test_zoomed_out_steps_draw_no_span_outside_their_rows() -> None:
    """Stepping through 4,096 spans looks at the spans of the rows that change, never at all of them."""
    view, _ = one_f_one_b(16, 128)
    asked = []
    plain = view.get
    view.get = lambda index: asked.append(index) or plain(index)  # type: ignore[method-assign]
    async with mounted(view, 1000, (84, 30)) as stage:
        asked.clear()
        for step in range(1001, 1011):
            assert len(stage.show(step)) <= 3
            stage.lines()
        assert len(asked) < 200


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_traffic_of_a_step_and_of_a_full_repaint(size: tuple[int, int]) -> None:
    from rich.console import Console

    view, _ = one_f_one_b(16, 64)
    console = Console(color_system="truecolor")
    async with mounted(view, 0, size) as stage:
        assert sum(len(strip.render(console).encode()) for strip in stage.strips()) < 16_000
        sent: list[int] = []
        for step in range(700, 760):
            stage.show(step)
            sent.append(sum(len(stage.widget.render_line(y).render(console).encode()) for y in set(stage.repainted)))
        assert sorted(sent)[len(sent) // 2] < 3_000


# the cursor ------------------------------------------------------------------------------------------------------------


async def test_cursor_goes_from_span_to_span_and_lane_to_lane_at_the_same_time() -> None:
    view, _ = one_f_one_b(4, 8)
    async with mounted(view, 20, WIDE, focus=True) as stage:
        widget = stage.widget
        assert widget.explain() == "rank 3 · B2 · 10 → 12 · backward · step 21"
        assert widget.cursor_by(1, 0) and widget.explain().startswith("rank 3 · F3 · 12 → 13 · forward")
        assert widget.cursor_by(0, -1) and view.get(widget.cursor).lane == 2
        span = view.get(widget.cursor)
        assert span.start <= 12.5 <= span.end
        await stage.settle()
        assert stage.app.explained[-1] == widget.explain()


async def test_cursor_stops_at_the_ends() -> None:
    view, _ = one_f_one_b(4, 8)
    async with mounted(view, 0, WIDE, focus=True) as stage:
        assert not stage.widget.cursor_by(-1, 0)
        assert not stage.widget.cursor_by(0, -1)
        assert stage.widget.cursor_by(0, 1)


async def test_cursor_turns_the_window_after_itself() -> None:
    view, _ = one_f_one_b(4, 40)
    async with mounted(view, 0, (62, 12), focus=True) as stage:
        for _ in range(40):
            stage.widget.cursor_by(1, 0)
        span = view.get(stage.widget.cursor)
        assert span.text in lane_of(stage.lines(), "rank 0")


async def test_without_focus_the_cursor_is_not_drawn() -> None:
    view, _ = one_f_one_b(4, 8)
    ground = Palette("truecolor", True).cursor.bgcolor
    async with mounted(view, 20, WIDE, focus=True) as stage:
        seen = [strip for strip in stage.strips() if any(s and s.bgcolor == ground for _, s, _ in strip)]
        assert len(seen) == 1
        stage.app.screen.set_focus(None)
        await stage.settle()
        assert not any(s and s.bgcolor == ground for strip in stage.strips() for _, s, _ in strip)


# odd input ---------------------------------------------------------------------------------------------------------------


async def test_wide_characters_keep_their_columns() -> None:
    view = Gantt(Axis.of("显卡 0", "gpu 1"))
    view.span(0, 0.0, 4.0, "forward", "前{n}", 0, step=0)
    view.span(1, 4.0, 8.0, "backward", "反{n}", 1, step=1)
    async with mounted(view, 1, (60, 8)) as stage:
        assert all(strip.cell_length == 60 for strip in stage.strips())
        text = "\n".join(stage.lines())
        assert "显卡 0" in text and "前0" in text and "反1" in text


@pytest.mark.parametrize("lanes", [0, 3])
async def test_an_empty_schedule_is_drawn_empty(lanes: int) -> None:
    lines = await picture(Gantt(Axis("rank {i}", lanes)), 0, (60, 8))
    assert sum("rank" in line for line in lines) == lanes


async def test_growing_schedule_is_drawn_as_it_grows() -> None:
    view = Gantt(Axis("rank {i}", 2))
    async with mounted(view, 0, (60, 8)) as stage:
        for n in range(6):
            view.span(n % 2, float(n), n + 1.0, "forward", "F{n}", n, step=n)
            stage.show(n)
            assert f"F{n}" in "\n".join(stage.lines())


def test_a_schedule_can_be_read_while_it_is_written() -> None:
    view = Gantt(Axis("rank {i}", 2))
    finished = threading.Event()

    def write() -> None:
        for n in range(20_000):
            view.span(n % 2, float(n), n + 1.0, "forward", "F{n}", n % 100, step=n)
        finished.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        writer = threading.Thread(target=write)
        writer.start()
        while not finished.is_set():
            known = len(view)
            for lane in range(2):
                assert all(span.lane == lane for span in view.in_window(lane, known - 20.0, known + 20.0))
                found = view.nearest(lane, float(known))
                assert found < 0 or view.get(found).lane == lane
        writer.join()
    finally:
        sys.setswitchinterval(before)
    assert view.spans_in(0) == view.spans_in(1) == 10_000


# scale and text --------------------------------------------------------------------------------------------------------


def test_unit_schedule_gets_whole_cells_a_unit() -> None:
    view, _ = one_f_one_b(4, 8)
    seen = sample(view)
    assert seen.quantum == 1.0
    for width in range(20, 200, 7):
        scale = choose(seen, view.end, width, 4, 16)
        assert scale.density == round(scale.density)


@settings(deadline=None)
@given(st.floats(1e-7, 1e5), st.integers(20, 200))
def test_ticks_are_apart_and_name_their_times(end: float, width: int) -> None:
    view = Gantt(Axis("rank {i}", 1), unit="s")
    view.span(0, 0.0, end, "forward", "F0", step=0)
    scale = choose(sample(view), view.end, width, 1, 1)
    marks, unit = ticks(scale, 0, width, "s")
    factor = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    columns = [column for column, _ in marks]
    assert all(b - a > len(label) for (a, label), b in zip(marks, columns[1:], strict=False))
    for column, label in marks:
        assert abs(float(label) * factor * scale.density - column) <= 0.51


@pytest.mark.parametrize(
    ("text", "width", "follows", "shown"),
    [
        ("F0", 3, True, "F0▕"),
        ("F0", 3, False, "F0 "),
        ("F0", 2, True, "F0"),
        ("F12", 2, True, "F▕"),
        ("F0", 1, True, "F"),
        ("all-reduce 2", 8, False, "all-re… "),
        ("B0", 6, True, "B0   ▕"),
    ],
)
def test_text_of_a_span(text: str, width: int, follows: bool, shown: str) -> None:
    assert span_text(text, text[0], width, follows) == shown


def test_two_alternating_roles_are_one_run_of_style() -> None:
    row = Row()
    draw_samples(row, [Sampled("forward", "known"), Sampled("backward", "known")] * 20, Palette("truecolor"))
    assert [segment.text for segment in row.segments] == ["█B" * 20]


def test_without_colour_zoomed_out_cells_are_letters() -> None:
    row = Row()
    draw_samples(row, [Sampled("forward", "known"), Sampled("backward", "known"), Sampled("", "idle")], Palette("none"))
    assert "".join(segment.text for segment in row.segments) == "FB·"
