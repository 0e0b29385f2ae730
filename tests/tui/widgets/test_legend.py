"""A legend names everything, whatever room it has: under the labels, from the edge, in more rows, or cut."""

from __future__ import annotations

import pytest
from harness import picture
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from core.views import Axis, Gantt, Heatmap, Plot
from tui.widgets.legend import Entry, flow, ranges, shortened


def test_numbered_neighbours_are_one_entry_and_others_keep_their_own():
    assert ranges(["peak", "rank 0", "rank 1", "rank 2", "mean"]) == [Entry(0, 0, "peak"), Entry(1, 3, "rank 0–2"), Entry(4, 4, "mean")]
    assert ranges(["rank 0", "rank 1"]) == [Entry(0, 0, "rank 0"), Entry(1, 1, "rank 1")]
    assert ranges(["rank 0", "rank 2", "rank 4"]) == [Entry(n, n, f"rank {2 * n}") for n in range(3)]
    assert ranges(["stage 9", "stage 10", "stage 11"]) == [Entry(0, 2, "stage 9–11")]
    assert ranges([]) == []


def test_only_the_longest_names_are_cut():
    assert shortened(["ab", "abcdefgh", "abcdef"], 12) == ["ab", "abcd…", "abcd…"]
    assert shortened(["ab", "cd"], 4) == ["ab", "cd"]


NAMES = st.lists(st.text("abcdefg 显", min_size=1, max_size=12).map(str.strip).filter(bool), min_size=1, max_size=7)


@given(NAMES, st.integers(20, 100), st.integers(1, 4), st.integers(0, 15))
def test_keys_never_overlap_nor_leave_their_rows(names, width, rows, indent):
    keys = [(2, name) for name in names]
    places = flow(keys, width, rows, indent)
    assert [place.row for place in places] == sorted(place.row for place in places)
    ends: dict[int, int] = {}
    for place in places:
        assert place.row < rows and place.column >= ends.get(place.row, 0)
        ends[place.row] = place.column + 3 + cell_len(place.name)
        assert ends[place.row] <= width
    if sum(2 + 1 + 2 + 2 for _ in names) < width:  # cut to two cells each they fit into one row
        assert len(places) == len(names)


@pytest.mark.parametrize("size", [(38, 6), (38, 8), (60, 6)])
async def test_every_role_of_a_low_schedule_is_named(size):
    view = Gantt(Axis("rank {i}", 4))
    for lane, role in enumerate(("forward", "backward", "comm", "weight")):
        view.span(lane, lane, lane + 1, role, role[0].upper(), step=0)
    below = "\n".join((await picture(view, 0, size))[5:])
    assert all(word in below for word in ("fo", "ba", "co", "we", "st"))


async def test_every_meaning_of_a_low_grid_is_named():
    meanings = {"kept": "kept for backward", "dropped": "dropped at once", "comm": "sent to the host"}
    view = Heatmap(Axis("layer {i}", 3), Axis("{i}", 3), show="text", legend=meanings)
    for n, role in enumerate(meanings):
        view.set(n, n, 1.0, role, "x", step=0)
    last = (await picture(view, 0, (34, 6)))[-1]
    assert all(name[:4] in last for name in meanings.values())


async def test_every_curve_of_a_narrow_plot_is_named_by_its_letter():
    view = Plot("time", "held")
    for n in range(9):
        curve = view.curve("peak so far" if not n else f"rank {n - 1}", "forward")
        view.point(curve, 0, float(n), step=0)
        view.point(curve, 9, 2.0 * n, step=0)
    heading = (await picture(view, 0, (38, 5)))[0]
    assert heading.strip() == "a peak so far  b–i rank 0–7"
