"""The exchange: boxes and arrows, the matrix for many messages, the list for many actors."""

from __future__ import annotations

import pytest
from harness import all_to_all, mounted, picture, ring_all_gather
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from core.views import Axis, Exchange, Message
from tui.theme import Palette
from tui.widgets.arrows import draw_arrows, pack
from tui.widgets.fitting import Row


async def test_each_box_holds_what_its_actor_holds() -> None:
    view, steps = ring_all_gather(4)
    async with mounted(view, 0, (78, 16)) as stage:
        for step in range(steps):
            stage.show(step)
            lines = stage.lines()
            boxes = [x for x, char in enumerate(lines[0]) if char == "┌"]
            assert len(boxes) == 4
            for actor, held in enumerate(view.at(step).held):
                inside = [lines[1 + slot][boxes[actor] + 1 :][:2].strip("· ") for slot in range(4)]
                assert [name for name in inside if name] == [cell.text for _, cell in held]


@pytest.mark.parametrize("ranks", [4, 5, 6, 7, 8])
async def test_eight_actors_and_their_messages_are_legible_at_78_columns(ranks: int) -> None:
    view, _ = ring_all_gather(ranks)
    lines = await picture(view, 1, (78, 18))
    text = "\n".join(lines)
    assert all(f"rank {r}" in lines[0] for r in range(ranks))
    arrows = "\n".join(line for line in lines if "▶" in line or "◀" in line)
    assert all(f"c{r}" in arrows for r in range(ranks))
    assert f"{ranks} messages" in text
    assert all(len(line) <= 78 for line in lines)


async def test_arrow_goes_from_the_life_line_of_its_source_to_that_of_its_target() -> None:
    view, _ = ring_all_gather(4)
    async with mounted(view, 1, (78, 16)) as stage:
        lines = stage.lines()
        right, left = next(line for line in lines if "▶" in line), next(line for line in lines if "◀" in line)
        columns = [x for x, char in enumerate(next(line for line in lines if line.strip().startswith("└"))) if char == "┬"]
        assert [x for x, char in enumerate(right) if char == "├"] == columns[:3]
        assert [x + 1 for x, char in enumerate(right) if char == "▶"] == columns[1:]
        assert left.index("◀") == columns[0] + 1 and left.index("┤") == columns[3]


async def test_what_arrived_in_this_step_stands_out() -> None:
    view, _ = ring_all_gather(4)
    loud = Palette("truecolor").current("group0").bgcolor
    async with mounted(view, 1, (78, 16)) as stage:
        row = stage.lines()[1]
        x = row.index("c0", row.index("c0") + 2)  # rank 1 got chunk 0
        assert stage.style_at(x, 1).bgcolor == loud
        assert stage.style_at(row.index("c0"), 1).bgcolor != loud
        stage.show(2)
        assert stage.style_at(x, 1).bgcolor != loud


async def test_all_to_all_of_many_becomes_a_matrix_of_sizes() -> None:
    view, _ = all_to_all(6)
    lines = await picture(view, 1, (78, 20))
    text = "\n".join(lines)
    assert "▶" not in text and "30 messages" in text
    header = next(y for y, line in enumerate(lines) if line.count("rank") == 6 and "┌" not in line)
    for source in range(6):
        said = lines[header + 1 + source].split("rank")[1].replace(" MB", "").split()[1:]
        want = ["·" if source == target else ("4.194" if target == 0 else "1.049") for target in range(6)]
        assert said == want


async def test_many_actors_become_a_list_that_follows_the_cursor() -> None:
    view, _ = ring_all_gather(64)
    async with mounted(view, 3, (100, 20), focus=True) as stage:
        assert stage.lines()[0].startswith("1–19/64  64 messages")
        for _ in range(40):
            stage.widget.cursor_by(0, 1)
        lines = stage.lines()
        mine = next(line for line in lines if line.startswith("▸"))
        assert "rank 40" in mine and "─▶ rank 41 c38" in mine and "◀─ rank 39 c37" in mine


async def test_quiet_step_shows_no_arrow_and_no_summary() -> None:
    view, _ = ring_all_gather(4)
    text = "\n".join(await picture(view, 0, (78, 16)))
    assert "▶" not in text and "message" not in text


async def test_cursor_says_what_an_actor_holds_sends_and_receives() -> None:
    view, _ = ring_all_gather(4)
    async with mounted(view, 2, (78, 16), focus=True) as stage:
        stage.widget.cursor_by(1, 0)
        assert stage.widget.explain() == ("rank 1 · holds c0, c1, c3 · sends c0 · 4.194 MB to rank 2 · receives c3 · 4.194 MB from rank 0")
        stage.widget.show(0)
        assert stage.widget.explain() == "rank 1 · holds c1 · sends nothing · receives nothing"
        for _ in range(2):
            assert stage.widget.cursor_by(1, 0)
        assert not stage.widget.cursor_by(1, 0)


async def test_a_step_of_one_message_repaints_only_the_rows_it_touches() -> None:
    view = Exchange(Axis("rank {i}", 4), slots=Axis("chunk {i}", 4))
    for slot in range(4):
        view.hold(0, slot, 1.0, "group0", f"c{slot}", step=0)
    view.send(0, 1, 8.0, text="c0", step=1)
    view.hold(1, 0, 1.0, "group0", "c0", step=1)
    view.send(0, 2, 8.0, text="c0", step=2)
    async with mounted(view, 1, (78, 16)) as stage:
        chunk_rows = [y for y, line in enumerate(stage.lines()) if line.startswith("chunk")]
        rows = stage.show(2)
        assert not set(rows) & set(chunk_rows[1:])
        assert chunk_rows[0] in rows  # it no longer is new


async def test_more_slots_than_rows_flow_side_by_side() -> None:
    view = Exchange(Axis("rank {i}", 2))
    for slot in range(60):
        view.hold(0, slot, 1.0, "group1", f"c{slot}", step=0)
    lines = await picture(view, 0, (60, 12))
    inside = " ".join(lines)
    assert "c0 c1 c2" in inside and "+" in inside


async def test_wide_characters_and_messages_to_oneself() -> None:
    view = Exchange(Axis.of("卡零", "卡一"))
    view.send(0, 0, 5, "comm", "自己", step=0)
    view.send(0, 1, 5, "comm", "给你", step=0)
    async with mounted(view, 0, (60, 12)) as stage:
        assert all(strip.cell_length == 60 for strip in stage.strips())
        text = "\n".join(stage.lines())
        assert "卡零" in text and "给你" in text and "↺ 自己" in text


@pytest.mark.parametrize(("make", "size", "limit"), [(8, (84, 36), 7_000), (64, (84, 36), 12_000)])
async def test_traffic_of_a_ring_step_in_which_every_actor_acts(make: int, size: tuple[int, int], limit: int) -> None:
    view, steps = ring_all_gather(make)
    console = Console(color_system="truecolor")
    async with mounted(view, 0, size) as stage:
        for step in range(1, min(steps, 6)):
            stage.show(step)
            sent = sum(len(stage.widget.render_line(y).render(console).encode()) for y in set(stage.repainted))
            assert sent < limit


# packing -----------------------------------------------------------------------------------------------------------------

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20)


@given(pairs)
def test_packed_arrows_share_a_row_only_when_they_do_not_overlap(ends: list[tuple[int, int]]) -> None:
    columns = [5 + 10 * k for k in range(7)]
    rows = pack([Message(a, b, 1.0, "comm", "") for a, b in ends], columns)
    assert sorted((m.message.source, m.message.target) for row in rows for m in row) == sorted(ends)
    for row in rows:
        for k, first in enumerate(row):
            for second in row[k + 1 :]:
                (a, b), (c, d) = sorted((first.start, first.end)), sorted((second.start, second.end))
                assert b <= c or d <= a


@given(pairs)
def test_a_row_of_arrows_is_as_wide_as_the_widget(ends: list[tuple[int, int]]) -> None:
    columns = [5 + 10 * k for k in range(7)]
    for arrows in pack([Message(a, b, 1.0, "comm", "消息 c1") for a, b in ends], columns):
        row = Row()
        draw_arrows(row, arrows, columns, 70, "bytes", Palette("truecolor"))
        assert row.width <= 70


async def test_a_narrow_list_keeps_the_peer_and_drops_the_words_around_it() -> None:
    view = Exchange(Axis("rank {i}", 8))
    for rank in range(8):
        view.send(rank, (rank + 1) % 8, 1e6, "comm", "c0", step=0)
    narrow = await picture(view, 0, (38, 9))
    assert "▶ rank 1" in narrow[1] and "◀ rank 7" in narrow[1] and "…" not in narrow[1]
    wide = await picture(view, 0, (60, 9))
    assert "─▶ rank 1 c0" in wide[1]


async def test_where_names_of_slots_have_no_room_at_the_left_a_caption_tells_the_lines() -> None:
    names = ("arriving tokens", "copies", "outputs")
    view = Exchange(Axis("rank {i}", 4), "bytes", slots=Axis.of(*names))
    for rank in range(4):
        for slot in range(3):
            view.hold(rank, slot, 1e6 * (slot + 1), "activation", step=0)
        view.send(rank, (rank + 1) % 4, 1e6, "comm", "c0", step=1)
    async with mounted(view, 0, (38, 12)) as stage:
        for step in (0, 1):
            stage.show(step)
            lines = stage.lines()
            assert lines[:2] == ["top down: arriving tokens · copies ·", "outputs"]
            boxes = [line for line in lines if line.startswith("│")]
            assert [line[1:7].strip() for line in boxes] == ["1 MB", "2 MB", "3 MB"]
            assert lines[2].count("┌") == 4
        assert "4 messages · 4 MB" in "\n".join(lines)
    wide = await picture(view, 0, (78, 12))
    assert "top down" not in "\n".join(wide) and all(any(line.startswith(name) for line in wide) for name in names)
    low = await picture(view, 0, (38, 7))
    assert "top down" not in "\n".join(low) and low[0].count("┌") == 4, "boxes come first"
