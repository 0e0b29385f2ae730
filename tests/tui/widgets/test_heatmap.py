"""The heatmap: what a cell says at which width, its shade, what is lit, and how a matrix that does not fit is shown."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from harness import gates, mounted, picture, shards, traffic_matrix
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from core.formatting import format_value
from core.views import Axis, Cell, Heatmap
from tui.theme import LEVELS, RAMP, Palette
from tui.widgets.grid import Scale, column_labels, fit, scale_of, short_value


async def test_numbers_align_at_the_right_end_under_their_columns() -> None:
    view, steps = traffic_matrix(6)
    async with mounted(view, steps - 1, (100, 14)) as stage:
        width = stage.widget._grid.width
        margin = stage.widget._label_width
        lines = [line.ljust(100) for line in stage.lines()]
        for r in range(6):
            row = next(line for line in lines if f"rank {r}" in line)
            for c in range(6):
                said = row[margin + c * width : margin + (c + 1) * width]
                cell = view.at(steps - 1).cells[r, c]
                assert said.strip() == format_value(cell.value, "bytes") and said.endswith(" ")
        for c in range(6):
            assert lines[0][margin + c * width : margin + (c + 1) * width].endswith(f"to {c} ")


async def test_cells_shrink_from_units_to_short_numbers_to_shades_as_the_matrix_grows() -> None:
    contents = []
    for size in (4, 9, 24, 50):
        view, steps = traffic_matrix(size)
        async with mounted(view, steps - 1, (80, 60)) as stage:
            contents.append((stage.widget._grid.content, stage.widget._grid.width))
    assert [content for content, _ in contents] == ["full", "short", "shade", "shade"]
    assert [width for _, width in contents][2:] == [2, 1]


async def test_letters_stand_in_the_middle_of_their_cells() -> None:
    view, _ = shards(4)
    lines = await picture(view, 0, (80, 18))
    row = next(line for line in lines if "rank 2" in line)
    header = lines[0]
    for name in ("P0", "P3", "G2", "O2"):
        assert row.index(name) == header.index(name)


async def test_cell_written_in_this_step_is_underlined_and_its_row_marked() -> None:
    view, _ = gates(12, 8)
    async with mounted(view, 6, (80, 18)) as stage:
        lines = stage.lines()
        marked = [line for line in lines if line.startswith("▸")]
        assert len(marked) == 1 and "token 6" in marked[0]
        y = lines.index(marked[0])
        x = lines[y].index("0.46")
        assert stage.style_at(x, y).underline and stage.style_at(x, y).bold
        assert not stage.style_at(x, y - 1).underline


async def test_step_that_writes_everything_lights_nothing() -> None:
    view = Heatmap(Axis("r{i}", 3), Axis("c{i}", 3))
    view.fill([[1.0, 2.0, 3.0]] * 3, step=0)
    async with mounted(view, 0, (60, 8)) as stage:
        assert not any(style and style.underline for strip in stage.strips() for _, style, _ in strip)


async def test_a_step_repaints_the_row_it_left_and_the_row_it_writes() -> None:
    view, steps = gates(12, 8)
    async with mounted(view, 1, (80, 18)) as stage:
        for step in range(2, steps):
            assert stage.show(step) == [step, step + 1]  # rows of token step - 1 and of token step, below the header


async def test_widths_and_scale_keep_still_while_stepping() -> None:
    view, steps = traffic_matrix(8)
    async with mounted(view, 0, (100, 24)) as stage:
        first = (stage.widget._grid, stage.widget._scale)
        for step in range(steps):
            assert 0 not in stage.show(step)
            assert (stage.widget._grid, stage.widget._scale) == first


async def test_window_of_a_large_matrix_turns_to_the_lit_row_by_half_pages() -> None:
    view, steps = traffic_matrix(60)
    async with mounted(view, 0, (80, 21)) as stage:
        tops = []
        for step in range(steps):
            stage.show(step)
            lines = stage.lines()
            assert any(line.startswith(f"▸rank {step}") for line in lines)
            assert lines[0].split()[0].startswith(f"{stage.widget._top + 1}–")
            tops.append(stage.widget._top)
        assert len(set(tops)) == 5 and all((b - a) in (0, 10) for a, b in pairwise(tops[:-1]))


async def test_cursor_names_row_column_value_and_role() -> None:
    view, steps = traffic_matrix(6)
    async with mounted(view, steps - 1, (100, 14), focus=True) as stage:
        widget = stage.widget
        widget.cursor_by(0, -10)
        widget.cursor_by(1, 0)
        assert widget.explain() == "rank 0 · to 1 · 3 MB · communication"
        assert not widget.cursor_by(0, -1)
        y = next(y for y, line in enumerate(stage.lines()) if "rank 0" in line)
        ground = Palette("truecolor").cursor.bgcolor
        assert stage.style_at(widget._label_width + widget._grid.width, y).bgcolor == ground


async def test_cursor_explains_letters_and_empty_cells() -> None:
    view, _ = shards(4)
    async with mounted(view, 1, (80, 18), focus=True) as stage:
        stage.widget.cursor = (0, 4)
        assert stage.widget.explain() == "rank 0 · G0 · ΣG0 · gradient"
        stage.widget.cursor = (1, 4)
        assert stage.widget.explain() == "rank 1 · G0 · empty"


async def test_cursor_turns_the_window_after_itself() -> None:
    view, _ = traffic_matrix(60)
    async with mounted(view, 0, (80, 21), focus=True) as stage:
        for _ in range(45):
            stage.widget.cursor_by(0, 1)
        assert any("rank 45" in line for line in stage.lines())


@pytest.mark.parametrize("colors", ["standard", "none"])
async def test_shades_are_glyphs_where_grounds_cannot_say_them(colors: str) -> None:
    view = Heatmap(Axis("r{i}", 2), Axis("c{i}", 5), low=0.0, high=4.0, show="shade")
    for c in range(5):
        view.set(0, c, float(c), "comm", step=0)
    view.set(1, 0, 1.0, step=1)
    row = next(line for line in await picture(view, 1, (40, 8), colors=colors) if "r0" in line)
    assert row[row.index("r0") + 3 :].strip() == "".join(glyph * 2 for glyph in RAMP).strip()


async def test_legend_gives_the_ends_of_the_scale() -> None:
    view, steps = traffic_matrix(8)
    lines = await picture(view, steps - 1, (100, 24))
    legend = next(line for line in lines if "communication" in line)
    assert "0 B" in legend and format_value(view.most, "bytes") in legend


async def test_odd_values_are_drawn() -> None:
    view = Heatmap(Axis.of("行一", "row"), Axis.of("列", "column two"), unit="s")
    view.set(0, 0, math.nan, step=0)
    view.set(0, 1, math.inf, step=0)
    view.set(1, 0, None, text="零", step=0)
    view.set(1, 1, -math.inf, step=0)
    async with mounted(view, 0, (60, 8)) as stage:
        assert all(strip.cell_length == 60 for strip in stage.strips())
        text = "\n".join(stage.lines())
        assert all(said in text for said in ("行一", "–", "∞", "零", "-∞"))


async def test_traffic_of_a_full_repaint_of_a_64_x_64_matrix() -> None:
    view, steps = traffic_matrix(64)
    console = Console(color_system="truecolor")
    async with mounted(view, steps - 1, (84, 36)) as stage:
        assert sum(len(strip.render(console).encode()) for strip in stage.strips()) < 16_000


# the parts ---------------------------------------------------------------------------------------------------------------


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_larger_values_never_have_a_fainter_shade(a: float, b: float) -> None:
    scale = Scale(-1e12, 1e12)
    low, high = sorted((a, b))
    assert 0 <= scale.level(Cell(low)) <= scale.level(Cell(high)) <= LEVELS - 1


def test_levels_of_the_ends_and_of_what_is_no_number() -> None:
    scale = Scale(0.0, 8.0)
    assert [scale.level(Cell(v)) for v in (0.0, 0.1, 2.1, 4.1, 6.1, 8.0, 9.0)] == [0, 1, 2, 3, 4, 4, 4]
    assert scale.level(Cell(math.nan)) == 0
    assert scale.level(Cell(None)) == 0 and scale.level(Cell(None, text="P0")) == 3
    assert scale.level(Cell(True)) == 4 and scale.level(Cell(False)) == 0


def test_scale_starts_at_zero_unless_that_hides_the_differences() -> None:
    assert scale_of(None, None, 2.0, 10.0) == (0.0, 10.0)
    assert scale_of(None, None, 9.0, 10.0) == (9.0, 10.0)
    assert scale_of(None, None, -3.0, 10.0) == (-3.0, 10.0)
    assert scale_of(0.0, 1.0, 0.2, 0.4) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(1.5e6, "bytes", "1.5M"), (900, "bytes", "900"), (3e6, "elements", "3M"), (3.2e9, "flop/s", "3.2G"), (1.2e-5, "s", "12µ"),
     (0.274, "%", "27"), (1234567, "", "1.23M"), (12.5, "", "12.5")],
)  # fmt: skip
def test_short_numbers_keep_their_prefix_and_lose_their_unit(value: float, unit: str, said: str) -> None:
    assert short_value(value, unit) == said


@given(st.integers(1, 200), st.integers(1, 200), st.integers(10, 200), st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_cells_never_need_more_room_than_there_is(columns: int, rows: int, room: int, height: int, full: int, short: int) -> None:
    grid = fit(columns, rows, room, height, full, short)
    assert grid.width * columns <= room or (grid.width, grid.content) == (1, "shade")
    assert grid.height * rows <= max(height, rows)
    if grid.content != "shade":
        assert grid.width > (full if grid.content == "full" else short)


def test_column_labels_that_do_not_fit_lose_their_common_word_then_some_of_them() -> None:
    names = [f"expert {i}" for i in range(12)]
    assert column_labels(names, 10) == ("", names, 1)
    assert column_labels(names, 4) == ("expert", [str(i) for i in range(12)], 1)
    shared, labels, every = column_labels(names, 1)
    assert shared == "expert" and labels[11] == "11" and every * 1 > 2


def grouped(legend: dict[str, str]) -> Heatmap:
    view = Heatmap(Axis("token {i}", 2), Axis("E{i}", 4), low=0.0, high=1.0, legend=legend)
    for expert in range(4):
        view.set(0, expert, 0.25, f"group{expert}", step=0)
        view.set(1, expert, 0.25, "good", step=0)
    return view


async def test_the_legend_says_what_a_role_means_here_and_never_the_name_of_a_group() -> None:
    said = "\n".join(await picture(grouped({"group": "chosen", "good": "finished"}), 0, (70, 10)))
    assert "0123 chosen" in said and "finished" in said and "group" not in said and "good" not in said
    assert "group" not in "\n".join(await picture(grouped({}), 0, (70, 10)))


async def test_the_detail_line_leaves_out_a_group_without_a_meaning() -> None:
    async with mounted(grouped({"good": "finished"}), 0, (70, 10), focus=True) as stage:
        assert stage.widget.explain() == "token 0 · E0 · 0.25"
        stage.widget.cursor_by(0, 1)
        assert stage.widget.explain() == "token 1 · E0 · 0.25 · finished"


async def test_a_place_that_holds_nothing_is_called_empty() -> None:
    view = Heatmap(Axis("rank {i}", 1), Axis("G{i}", 3), "bytes", show="text")
    view.set(0, 0, None, "dim", "·", step=0)
    view.set(0, 1, 0, "dim", step=0)
    async with mounted(view, 0, (40, 6)) as stage:
        stage.widget.cursor = (0, 0)
        assert stage.widget.explain() == "rank 0 · G0 · empty"
        stage.widget.cursor = (0, 1)
        assert stage.widget.explain() == "rank 0 · G1 · 0 B"
        stage.widget.cursor = (0, 2)
        assert stage.widget.explain() == "rank 0 · G2 · empty"
