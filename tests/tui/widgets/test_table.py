"""The table widget: aligned columns, lit rows, windows, columns that do not fit, the cursor."""

from __future__ import annotations

import numpy as np
from harness import ViewApp, mounted, picture
from samples import expert_table

from core.views import Column, Table, TableLog


async def test_numbers_end_in_one_column_under_their_header():
    lines = await picture(expert_table(), 0, (78, 12))
    end = lines[0].index("bytes") + len("bytes")
    assert {line[:end].rstrip()[-2:] in (" B", "MB", "GB") and len(line[:end].rstrip()) == end for line in lines[1:]} == {True}
    assert lines[4].startswith("▸ E3") and "900 MB" in lines[4]


async def test_dropped_rows_say_so_by_a_glyph_too():
    lines = await picture(expert_table(), 0, (78, 12), colors="none")
    assert lines[1].endswith("✗ dropped") and lines[2].endswith("kept")


async def test_a_step_repaints_only_the_rows_that_changed():
    async with mounted(expert_table(), 0, (78, 12)) as stage:
        assert stage.show(1) == [4, 5, 6]
        assert stage.show(1) == []


async def test_window_follows_lit_rows_by_half_pages():
    async with mounted(expert_table(), 0, (78, 9)) as stage:
        stage.show(2)
        assert stage.widget.top == 8
        assert any(line.startswith("▸ E12") for line in stage.lines())


async def test_columns_that_do_not_fit_are_reached_with_the_cursor_and_the_first_stays():
    async with mounted(expert_table(), 0, (30, 6), focus=True) as stage:
        assert stage.lines()[0].endswith("›") and "fate" not in stage.lines()[0]
        while stage.widget.cursor_by(1, 0):
            pass
        assert stage.lines()[0].startswith("  expert") and "fate" in stage.lines()[0]
        assert all(strip.cell_length == 30 for strip in stage.strips())


async def test_explain_names_the_chosen_column_first_then_all_values():
    async with mounted(expert_table(), 0, (78, 9), focus=True) as stage:
        stage.widget.cursor_by(0, 1)
        stage.widget.cursor_by(1, 0)
        assert stage.widget.explain() == "row 4: M 20 · expert E3 · N 1,024 · load 61.5 % · bytes 900 MB · fate kept"


async def test_columns_never_narrow_while_stepping():
    view = Table([Column("name", "", "left"), Column("value")])
    view.row("a", 1234567, step=0)
    view.row("a", 1, row=0, step=1)
    async with mounted(view, 0, (30, 3)) as stage:
        end = len(stage.lines()[0])
        stage.show(1)
        assert len(stage.lines()[0]) == end and len(stage.lines()[1]) == end


async def test_a_log_shows_its_newest_entry_first_and_counts_from_the_start():
    view = TableLog([Column("price", "$"), Column("size")], np.arange(300), [np.full(300, 580.25), np.arange(300)], tail=50)
    async with mounted(view, 299, (40, 6), focus=True) as stage:
        assert stage.lines()[1].split() == ["▸", "580.25", "299"]
        stage.widget.cursor_by(0, 1)
        assert stage.widget.explain() == "row 300: price 580.25 · size 299"


async def test_an_empty_table_shows_its_header():
    assert await picture(Table([Column("name", "", "left"), Column("value")]), 0, (30, 3)) == ["  name   value", "", ""]


def test_table_snapshot(snap_compare):
    assert snap_compare(ViewApp(expert_table(), 1), terminal_size=(78, 9))
