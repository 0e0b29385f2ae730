"""The breakdown widget: lengths, letters, the capacity line, windows, the cursor."""

from __future__ import annotations

from harness import ViewApp, mounted, picture
from samples import bytes_per_rank

from core.views import Axis, Breakdown

SIZE = (78, 9)


async def test_every_bar_ends_in_its_total_with_unit_right_aligned():
    lines = await picture(bytes_per_rank(), 0, SIZE)
    bars = [line for line in lines if "rank" in line]
    assert [line.split("  ")[-1].strip() for line in bars] == ["51 GB", "54 GB", "57 GB", "60 GB"]
    assert {len(line) for line in bars} == {77}


async def test_segment_lengths_are_in_the_ratio_of_the_values():
    view = Breakdown(Axis("rank {i}", 1), [("parameters", "parameter"), ("optimizer", "optimizer")])
    view.set(0, 0, 25e9, step=0)
    view.set(0, 1, 75e9, step=0)
    async with mounted(view, 0, (100, 2)) as stage:
        grounds = [style.bgcolor for _, style, _ in stage.strips()[1]]
        cells = {str(ground): 0 for ground in grounds}
        for text, style, _ in stage.strips()[1]:
            cells[str(style.bgcolor)] += len(text)
        palette = stage.widget.palette
        parameters, optimizer = (cells[str(palette.block(role).bgcolor)] for role in ("parameter", "optimizer"))
        assert abs(3 * parameters - optimizer) <= 3 and parameters > 15


async def test_without_colour_the_letters_fill_their_segments():
    lines = await picture(bytes_per_rank(), 0, SIZE, colors="none")
    bar = next(line for line in lines if "rank 0" in line)
    assert "P 14 GB PPG 14 GB GGGO 21 GB OOO" in bar


async def test_capacity_line_stands_at_its_value_and_names_itself():
    lines = await picture(bytes_per_rank(), 0, SIZE)
    assert "▏H100 80 GB" in lines[0]
    bars = [line for line in lines if "rank" in line]
    assert len({line.index("▏") for line in bars}) == 1


async def test_a_bar_beyond_the_capacity_says_so():
    view = bytes_per_rank(capacity=55e9)
    bars = [line for line in await picture(view, 0, SIZE, colors="none") if "rank" in line]
    assert ["✗" in line for line in bars] == [False, False, True, True]


async def test_a_capacity_far_beyond_every_bar_is_named_but_does_not_squeeze_them():
    lines = await picture(bytes_per_rank(capacity=5000e9), 0, SIZE)
    assert "H100 5 TB ›" in lines[0] and not any("▏" in line for line in lines[1:])


async def test_scale_does_not_change_while_stepping():
    async with mounted(bytes_per_rank(), 0, SIZE) as stage:
        before = {y: line for y, line in enumerate(stage.lines()) if "rank" in line}
        repainted = stage.show(1)
        after = stage.lines()
        assert all(after[y][1:] == before[y][1:] for y in before if "rank 1" not in before[y])
        changed = next(y for y in before if "rank 1" in before[y])
        assert after[changed].split()[-2:] == ["43.5", "GB"]
        assert set(repainted) <= set(before)


async def test_no_part_with_a_value_vanishes():
    view = Breakdown(Axis("rank {i}", 1), [("parameters", "parameter"), ("buffer", "buffer"), ("optimizer", "optimizer")])
    for part, value in enumerate((3e9, 1.0, 1e9)):
        view.set(0, part, value, step=0)
    assert "u" in (await picture(view, 0, (60, 2), colors="none"))[1]


async def test_many_bars_turn_by_half_pages_to_the_bar_that_changes():
    view = Breakdown(Axis("rank {i}", 64), [("parameters", "parameter")])
    for step in range(64):
        view.set(step, 0, 1e9 + step, step=step)
    async with mounted(view, 0, SIZE) as stage:
        tops = []
        for step in range(64):
            stage.show(step)
            tops.append(stage.widget.top)
            assert any(f"▸rank {step}" in line for line in stage.lines())
        assert set(tops) == set(range(0, 57, 4))


async def test_cursor_explains_part_value_share_and_what_is_left():
    async with mounted(bytes_per_rank(), 0, SIZE, focus=True) as stage:
        stage.widget.cursor_by(0, 1)
        stage.widget.cursor_by(1, 0)
        assert stage.widget.explain() == "rank 0 · gradients 14 GB, 27.5 % of 51 GB · 29 GB free"


async def test_hostile_values_and_sizes_stay_inside_the_panel():
    view = Breakdown(Axis.of("注意力机制一二三", "b"), [("重量", "weight"), ("x", "plain")], unit="tokens", capacity=0.0)
    for step, value in enumerate((0.0, -5.0, float("nan"), float("inf"), 1e300, 5e-324)):
        view.set(0, 0, value, step=step)
        view.set(1, 1, 3.0, step=step)
    for size in ((12, 2), (30, 3), (78, 9), (160, 30)):
        async with mounted(view, 0, size) as stage:
            for step in range(6):
                stage.show(step)
                assert {strip.cell_length for strip in stage.strips()} == {size[0]}


def test_breakdown_snapshot(snap_compare):
    assert snap_compare(ViewApp(bytes_per_rank(), 1), terminal_size=(78, 9))


def test_breakdown_sixteen_ranks_light_snapshot(snap_compare):
    assert snap_compare(ViewApp(bytes_per_rank(16, 60e9), 0, theme="textual-light"), terminal_size=(118, 24))


async def test_a_legend_too_long_for_a_row_takes_two_where_every_bar_keeps_its_row():
    parts = [("to come", "idle"), ("ready", "gradient"), ("on the wire", "comm"), ("averaged", "kept")]
    view = Breakdown(Axis("bucket {i}", 3), parts)
    view.set(0, 3, 5.0, step=0)
    lines = await picture(view, 0, (38, 8))
    assert "… " not in lines[0] and "averaged" in lines[1] and lines[2].lstrip("▸ ").startswith("bucket 0")
    assert "averaged" not in (await picture(view, 0, (38, 4)))[0]


async def test_parts_of_a_group_carry_the_letter_of_their_name():
    view = Breakdown(Axis.of("bids"), [("best price", "group0"), ("next four", "group1"), ("deeper", "group2")], "shares")
    for part in range(3):
        view.set(0, part, 100.0, step=0)
    assert (await picture(view, 0, (70, 3)))[0].split() == ["B", "best", "price", "N", "next", "four", "D", "deeper"]


async def test_a_bar_that_is_not_known_yet_is_no_zero() -> None:
    view = Breakdown(Axis.of("asked", "later"), [("weights", "parameter")])
    view.set(0, 0, 0, step=0)
    view.set(1, 0, 5_000_000, step=1)
    first, second = [[line for line in await picture(view, step, (60, 8)) if "asked" in line or "later" in line] for step in (0, 1)]
    assert first[0].rstrip().endswith("0 B") and first[1].rstrip().endswith("–")
    assert second[1].rstrip().endswith("5 MB")


async def test_every_part_is_named_where_the_legend_has_one_row() -> None:
    names = ["parameters", "gradients", "optimizer states", "attention scores", "other activations", "buffers"]
    view = Breakdown(Axis("rank {i}", 3), [(name, "parameter") for name in names], capacity=80e9, capacity_name="a100")
    view.set(0, 0, 1e9, step=0)
    legend = (await picture(view, 0, (60, 4)))[0]
    assert all(name[:3] in legend for name in names)
