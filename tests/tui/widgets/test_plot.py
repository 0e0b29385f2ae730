"""The plot widget: what is drawn where, what a step costs, growing data, and data that no plot library likes."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from harness import ViewApp, mounted, picture
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import activations, live_bytes, roofline, tokens_per_expert

from core.views import Plot
from tui.widgets import raster
from tui.widgets.axes import axis, vertical
from tui.widgets.canvas import draw_chart

SIZE = (78, 9)
BRAILLE = {chr(code) for code in range(0x2801, 0x2900)}


def ramp(points: int = 50) -> Plot:
    view = Plot("x", "y")
    curve = view.curve("ramp", "forward")
    for k in range(points):
        view.point(curve, k, 2 * k, step=k)
    return view


def drawn(view: Plot, width: int, height: int):
    return draw_chart(view, tuple(len(curve) for curve in view.curves), width, height)


async def test_a_rising_line_rises_from_the_left_bottom_to_the_right_top():
    lines = await picture(ramp(), 0, (60, 12))
    marks = [(x, y) for y, line in enumerate(lines) for x, char in enumerate(line) if char in BRAILLE]
    by_column = [y for _, y in sorted(marks, key=lambda mark: (mark[0], -mark[1]))]
    assert by_column == sorted(by_column, reverse=True) and len({x for x, _ in marks}) >= 50


async def test_axes_stand_left_and_below_only_with_three_to_five_labels():
    lines = await picture(ramp(), 0, (60, 14))
    assert "└" in lines[-2] and not any(corner in line for line in lines for corner in "┌┐┘")
    ticks = [line.split("┤")[0].strip() for line in lines if "┤" in line]
    assert 3 <= len(ticks) <= 5 and ticks[-1] == "0" and ticks[0] == "100"
    assert 3 <= len(lines[-1].split()) - 1 <= 5 and lines[-1].endswith("x")


async def test_units_stand_in_the_labels_and_words_beside_the_name():
    lines = await picture(live_bytes(), 0, SIZE)
    assert all("GB" in line.split("┤")[0] for line in lines if "┤" in line) and "2 s" in lines[-1]
    assert "activations held (microbatches)" in (await picture(activations(), 0, (120, 9)))[0]


async def test_a_single_curve_has_no_legend_and_several_have_letters_that_the_curves_end_in():
    assert (await picture(live_bytes(), 0, SIZE))[0].split("   ")[1] == "14.13 GB"
    lines = await picture(activations(), 9, SIZE, colors="none")
    assert "a rank 0 3  b rank 1 2  c rank 2 1  d rank 3 0" in lines[0]
    assert all(any(letter in line[4:] for line in lines[1:-2]) for letter in "abcd")


async def test_a_step_sends_the_heading_and_the_axis_and_draws_nothing_again():
    async with mounted(activations(), 8, SIZE) as stage:
        assert stage.show(9) == [0, 7]
        assert stage.show(9) == []
        assert stage.widget.drawings == 1


async def test_the_mark_on_the_axis_stands_under_the_point_of_the_step():
    view = Plot("x", "y")
    curve = view.curve("spike", "forward", "scatter")
    for k in range(30):
        view.point(curve, k, 9.0 if k == 17 else 0.0, step=k)
    lines = await picture(view, 17, (50, 10))
    assert lines[1].index("•") == lines[-2].index("▲")


async def test_growing_data_is_drawn_again_only_now_and_then_and_once_more_at_the_end():
    view = ramp(10)
    async with mounted(view, 0, SIZE) as stage:
        now = [100.0]
        stage.widget.clock = lambda: now[0]
        stage.widget._drawn_at = now[0]
        for k in range(10, 200):
            view.point(0, k, k, step=k)
            now[0] += 0.01
            stage.show(k)
        assert 4 <= stage.widget.drawings <= 1 + 1.9 / stage.widget.redraw_after + 1
        assert stage.widget._timer is not None
        now[0] += 1
        stage.widget._catch_up()
        assert stage.widget._drawn[1] == (200,)
        before = stage.widget.drawings
        stage.show(200)
        assert stage.widget.drawings == before and stage.widget._timer is None


async def test_reading_does_not_stop_the_writer_of_the_same_arrays():
    view = ramp(10)
    async with mounted(view, 0, SIZE):
        view.point(0, 11.0, 1.0, step=11)  # BufferError if the widget still held the array's memory


async def test_the_probe_reads_every_curve_and_goes_from_point_to_point():
    async with mounted(activations(), 0, SIZE, focus=True) as stage:
        stage.widget.cursor_by(1, 0)
        stage.widget.cursor_by(1, 0)
        said = stage.widget.explain()
        assert said.startswith("time 1 · rank 0 3 · rank 1 3") and "◆" in stage.lines()[-2]
        while stage.widget.cursor_by(1, 0):
            pass
        assert stage.widget.explain().startswith("time 31.5 ·")


async def test_bars_stand_on_zero_with_heights_in_the_ratio_of_their_values():
    view = Plot("expert", "tokens")
    curve = view.curve("tokens", "group0", "bar")
    for k, value in enumerate((10, 20, 40)):
        view.point(curve, k, value, step=k)
    lines = await picture(view, 0, (40, 14))
    left = lines[-2].index("└") + 1
    heights = [sum({"█": 2, "▄": 1}.get(line[left + int((k + 0.5) / 3 * (40 - left))], 0) for line in lines[1:-2]) for k in range(3)]
    assert abs(heights[2] - 2 * heights[1]) <= 1 and abs(heights[1] - 2 * heights[0]) <= 1 and heights[2] > 10


async def test_a_gap_in_the_values_breaks_the_line():
    view = Plot("x", "y")
    curve = view.curve("gap", "forward")
    for k in range(60):
        view.point(curve, k, math.nan if 20 <= k < 40 else 1.0, step=k)
    line = next(line for line in await picture(view, 0, (70, 9)) if set(line) & BRAILLE)
    inside = line[line.index("┤") + 1 :] if "┤" in line else line
    assert not set(inside[len(inside) * 4 // 10 : len(inside) * 6 // 10]) & BRAILLE


async def test_colours_of_the_roles_reach_the_screen_and_without_colour_none_does():
    async with mounted(live_bytes(), 0, SIZE) as stage:
        palette = stage.widget.palette
        colours = {str(style.color) for strip in stage.strips()[1:7] for _, style, _ in strip if style and style.color}
        assert any(palette.color("activation").lower() in colour for colour in colours)
    async with mounted(live_bytes(), 0, SIZE, colors="none") as stage:
        assert stage.widget.palette.system == "none"


async def test_a_panel_too_small_or_without_data_says_so():
    assert any("nothing to plot yet" in line for line in await picture(Plot("x", "y"), 0, SIZE))
    view = Plot("x", "y")
    view.curve("c")
    assert any("nothing to plot yet" in line for line in await picture(view, 0, SIZE))
    assert "no room for the plot" in (await picture(ramp(), 0, (60, 2)))[1]


def test_thinning_keeps_the_extremes():
    x = np.arange(100_000.0)
    y = np.sin(x / 9000)
    y[54_321] = 7.0
    thin_x, thin_y = raster._thinned(x, y, 80)
    assert len(thin_x) <= 160 and thin_y.max() == 7.0 and thin_y.min() == y.min() and (np.diff(thin_x) >= 0).all()


def test_connected_dots_leave_no_hole():
    dots = raster.line(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 0.25]), 20, 10)
    assert (dots > 0).any(axis=0).all()


@pytest.mark.parametrize(
    ("low", "high", "unit", "labels"),
    [
        (0, 28e9, "bytes", ("0 GB", "10 GB", "20 GB", "30 GB")),
        (0, 0.0032, "s", ("0 ms", "1 ms", "2 ms", "3 ms", "4 ms")),
        (0.1, 0.42, "%", ("10 %", "20 %", "30 %", "40 %", "50 %")),
        (579.95, 580.2, "$", ("579.90", "580.00", "580.10", "580.20")),
        (0, 1.2e6, "", ("0.0 M", "0.5 M", "1.0 M", "1.5 M")),
    ],
)
def test_ticks_are_round_numbers_in_one_unit(low, high, unit, labels):
    assert axis(low, high, 4, unit, round_out=True).labels == labels


def test_ticks_of_whole_numbers_are_whole():
    assert axis(0, 3, 4, "", whole=True).labels == ("0", "1", "2", "3")


def test_a_logarithmic_axis_has_decades():
    assert vertical(0, 4, 9, "", log=True).labels == ("1", "10", "100", "1,000", "10,000")


_hostile = st.one_of(
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, -0.0, 5e-324, 1e-300, 1e16, 1e16 + 2, 1.7e308]),
    st.integers(-10, 10).map(float),
)
_curve = st.tuples(st.sampled_from(["line", "step", "scatter", "bar"]), st.lists(st.tuples(_hostile, _hostile), max_size=30), st.booleans())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(_curve, max_size=4), st.booleans(), st.booleans(), st.integers(0, 90), st.integers(0, 30),
    st.sampled_from(["", "s", "bytes", "%", "$", "microbatches"]), st.sampled_from(["", "bytes", "flop/s", "%"]),
)  # fmt: skip
def test_any_data_draws_inside_the_panel_without_a_warning(curves, x_log, y_log, width, height, x_unit, y_unit):
    view = Plot("x", "y", x_unit=x_unit, y_unit=y_unit, x_log=x_log, y_log=y_log)
    for number, (style, points, ordered) in enumerate(curves):
        curve = view.curve(f"c{number}", f"group{number}", style)
        for step, (x, y) in enumerate(sorted(points, key=lambda p: (p[0] != p[0], p[0])) if ordered else points):
            view.point(curve, x, y, step=step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chart = drawn(view, width, height)
        if chart is not None:
            assert len(chart.rows) == height
            assert all(sum(len(text) for text, _ in row) <= width for row in chart.rows)
            assert all(0 <= column < width for column in chart.stops)
            for x in (0.0, 1e308, -1e308, math.nan, math.inf):
                chart.column(x)
                chart.value(0, x)


@pytest.mark.parametrize(
    "values", [(-1.7e308, 1.7e308), (1.7e308, 1.7e308), (5e-324, 1e-323), (1e16, 1e16 + 2), (0.0, 0.0), (-1e-300, 1e300)]
)
@pytest.mark.parametrize("style", ["line", "step", "scatter", "bar"])
def test_values_at_the_limits_of_floats_draw(values, style):
    view = Plot("x", "y")
    curve = view.curve("limits", "forward", style)
    for value in values:
        view.point(curve, value, value, step=0)
    chart = drawn(view, 60, 12)
    assert chart is not None
    nothing = style == "bar" and values == (0.0, 0.0)  # bars of no height
    assert any(owner >= 0 for row in chart.rows for _, owner in row) != nothing
    assert math.isfinite(chart.x.low) and math.isfinite(chart.x.high - chart.x.low)


async def test_hostile_curves_and_a_ragged_one_come_through_the_widget():
    view = Plot("x", "y", x_log=True, y_log=True)
    for number, values in enumerate(([math.inf, 1e308, -1.0], [0.0], [5e-324, 1.7e308], [])):
        curve = view.curve(f"c{number}")
        for step, value in enumerate(values):
            view.point(curve, value, value, step=step)
    view.curves[0].y.append(3.0)  # one value more than there are x
    for size in ((10, 3), (40, 8), (120, 30)):
        async with mounted(view, 0, size, focus=True) as stage:
            for step in range(4):
                stage.show(step)
                stage.widget.cursor_by(1, 0)
                assert {strip.cell_length for strip in stage.strips()} == {size[0]}


def test_plot_snapshot(snap_compare):
    assert snap_compare(ViewApp(activations(), 20), terminal_size=(78, 9))


def test_plot_large_light_snapshot(snap_compare):
    assert snap_compare(ViewApp(live_bytes(), 1500, theme="textual-light"), terminal_size=(118, 24))


def test_logarithmic_plot_snapshot(snap_compare):
    assert snap_compare(ViewApp(roofline(), 12), terminal_size=(118, 24))


def test_bars_snapshot(snap_compare):
    assert snap_compare(ViewApp(tokens_per_expert(), 5), terminal_size=(78, 12))


async def test_a_legend_too_long_for_a_row_takes_a_second_one_and_names_every_curve():
    view = Plot("time", "held", y_unit="chunks")
    names = [f"rank {k} of the pipeline" for k in range(5)]
    for name in names:
        curve = view.curve(name, "forward")
        view.point(curve, 0, 1.0, step=0)
        view.point(curve, 1, 2.0, step=0)
    roomy = "\n".join(await picture(view, 0, (60, 18)))
    assert all(name in roomy for name in names) and "more" not in roomy
    low = await picture(view, 0, (60, 7))
    assert all(name[:6] in low[0] for name in names) and "more" not in low[0]


def test_an_axis_of_few_rows_stays_with_its_data():
    prices = vertical(99.96, 100.22, 3, "$")
    assert (prices.low, prices.high) == (99.96, 100.22) and prices.labels == ("100.00", "100.10", "100.20")
    times = vertical(-5.0, -1.4, 2, "s", log=True)
    assert times.low == -5.0 and times.labels[0] == "10 µs"
