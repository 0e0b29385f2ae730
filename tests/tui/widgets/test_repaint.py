"""A row is sent up to its last cell that differs, and nothing else is sent."""

from __future__ import annotations

from harness import mounted, one_f_one_b
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.widgets.rows import differing

STYLES = [Style(), Style(bold=True), Style(color="red")]
rows = st.lists(st.tuples(st.sampled_from("ab 卡"), st.sampled_from([0, 1, 2])), min_size=12, max_size=12)


def strip_of(cells: list[tuple[str, int]]) -> Strip:
    strip = Strip([Segment(char, STYLES[style]) for char, style in cells]).simplify()
    return strip.adjust_cell_length(24, STYLES[0]).simplify()


def screen(strip: Strip) -> list[tuple[str, str]]:
    """What stands in each cell; a wide character fills two."""
    cells: list[tuple[str, str]] = []
    for text, style, _ in strip:
        for char in text:
            cells += [(char, str(style))] * Segment(char).cell_length
    return cells


@settings(deadline=None, max_examples=200)
@given(rows, rows)
def test_extent_covers_every_cell_that_differs_and_stops_there(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    old, new = strip_of(before), strip_of(after)
    extent = differing(old, new)
    assert screen(old)[extent:] == screen(new)[extent:]
    if extent:
        assert screen(old)[extent - 1] != screen(new)[extent - 1]


async def test_nothing_is_sent_for_the_step_that_is_already_shown() -> None:
    view, _ = one_f_one_b()
    async with mounted(view, 10) as stage:
        assert stage.show(10) == []


async def test_what_is_sent_reaches_to_the_change_only() -> None:
    view, _ = one_f_one_b()
    async with mounted(view, 0, (80, 12)) as stage:
        sent = []
        plain = stage.widget.refresh
        stage.widget.refresh = lambda *regions, **options: sent.extend(regions) or plain(*regions, **options)  # type: ignore[method-assign]
        stage.show(1)
        assert sent and max(region.right for region in sent) <= 20  # the first forwards stand at the left


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
