"""A row is painted again when what it shows has changed, and its segments become runs of one style over its whole width."""

from __future__ import annotations

from itertools import pairwise

from harness import mounted, one_f_one_b
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style

from tui.widgets.rows import composed

GROUND = Style(bgcolor="black")
STYLES = [None, Style(bold=True), Style(color="red"), Style(color="red")]
pieces = st.lists(st.tuples(st.sampled_from(["", "a", "ab", " ", "卡", "─卡b"]), st.sampled_from(STYLES)), max_size=9)


def screen(segments: list[Segment]) -> list[tuple[str, str]]:
    """What stands in each cell; a wide character fills two."""
    return [(char, str(style)) for text, style, _ in segments for char in text for _ in range(Segment(char).cell_length)]


@settings(deadline=None, max_examples=200)
@given(pieces, st.integers(1, 24))
def test_a_row_is_its_segments_on_the_ground_cut_or_filled_to_the_width(drawn: list[tuple[str, Style | None]], width: int) -> None:
    known: dict[Style | None, Style] = {}

    def wear(style: Style | None) -> Style:
        made = GROUND + style
        known[style] = next((other for other in known.values() if other == made), made)
        return known[style]

    row = composed([Segment(text, style) for text, style in drawn], width, known, wear)
    told = screen([Segment(text, GROUND + style) for text, style in drawn])
    filled = [*told, *[(" ", str(GROUND))] * width][:width]
    if len(told) > width and told[width - 1] == told[width] and told[width][0] == "卡" and _cuts_a_letter(drawn, width):
        filled[-1] = (" ", filled[-1][1])  # half a letter cannot be shown
    assert screen(row) == filled
    assert all(left.style != right.style for left, right in pairwise(row)) or len(told) > width


def _cuts_a_letter(drawn: list[tuple[str, Style | None]], width: int) -> bool:
    starts, at = set(), 0
    for text, _ in drawn:
        for char in text:
            starts.add(at)
            at += Segment(char).cell_length
    return width not in starts and at > width


async def test_nothing_is_sent_for_the_step_that_is_already_shown() -> None:
    view, _ = one_f_one_b()
    async with mounted(view, 10) as stage:
        assert stage.show(10) == []


async def test_another_theme_paints_everything_again_in_its_own_colours() -> None:
    view, _ = one_f_one_b()
    async with mounted(view, 10) as stage:
        dark = stage.style_at(10, 1).bgcolor
        stage.app.theme = "textual-light"
        await stage.settle()
        assert stage.style_at(10, 1).bgcolor != dark
        assert set(range(24)) <= set(stage.repainted)


async def test_a_new_view_replaces_the_old_one() -> None:
    view, _ = one_f_one_b(4, 8)
    other, _ = one_f_one_b(2, 3)
    async with mounted(view, 5) as stage:
        stage.widget.view = other
        stage.widget.forget()
        assert not any("rank 3" in line for line in stage.lines())
        assert any("rank 1" in line for line in stage.lines())
