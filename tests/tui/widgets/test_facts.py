"""The numbers panel: values with units on one edge, what changed, groups, checks, windows."""

from __future__ import annotations

from samples import CompanionApp, companion, pipeline_run

from core.recording import Check, Recorder, Recording
from tui.widgets.facts import Facts, verdict


async def test_values_end_in_one_column_with_units_and_kind_letters():
    run = pipeline_run()
    async with companion(Facts(), lambda widget: widget.show(run, 10), size=(60, 12)) as stage:
        lines = stage.lines()
        assert lines[0].split() == ["bubble", "of", "makespan", "27.3", "%", "f", "(p-1)/(m+p-1)"]
        ends = {line.index(value) + len(value) for line, value in zip(lines, ("27.3 %", "4 microbatches", "27 GB"), strict=False)}
        assert len(ends) == 1
        assert " 27 GB m" in lines[2] and "120 GB r" in lines[6]


async def test_changes_are_marked_by_direction():
    run = pipeline_run()
    async with companion(Facts(), lambda widget: widget.show(run, 3)) as stage:
        marks = {line[1:].split("  ")[0].strip(): line[0] for line in stage.lines() if line.strip()}
        assert marks["peak stash"] == "▲" and marks["live bytes"] == "▼" and marks["bubble of makespan"] == " "
        stage.widget.show(run, 0)
        assert not any(line.startswith(("▲", "▼", "•")) for line in stage.lines())


async def test_text_and_new_facts_are_marked_by_a_dot():
    recording = Recording("x")
    rec = Recorder(recording)
    rec.fact("state", "open")
    rec.step("a")
    rec.fact("state", "closed")
    rec.fact("fresh", 1)
    rec.step("b")
    async with companion(Facts(), lambda widget: widget.show(recording, 1)) as stage:
        assert [line[0] for line in stage.lines()[:2]] == ["•", "•"]


async def test_labelled_facts_stand_under_the_name_they_share():
    run = pipeline_run()
    async with companion(Facts(), lambda widget: widget.show(run, 0), size=(37, 14)) as stage:
        lines = [line.rstrip() for line in stage.lines()]
        at = lines.index(" tpr")
        assert lines[at + 1].split() == ["group_a", "0.81"] and lines[at + 2].split() == ["group_b", "0.61"]
        assert lines[at + 1].startswith("   ")


async def test_notes_stand_below_where_there_is_room_and_vanish_where_there_is_none():
    run = pipeline_run()
    async with companion(Facts(), lambda widget: widget.show(run, 0), size=(37, 14)) as stage:
        assert any(line.strip() == "(p-1)/(m+p-1)" for line in stage.lines())
    async with companion(Facts(), lambda widget: widget.show(run, 0), size=(37, 8)) as stage:
        assert not any("(p-1)" in line for line in stage.lines())
        assert stage.lines()[-1] == "✓ 2 checks"


async def test_a_long_name_gives_way_to_its_value():
    recording = Recording("x")
    rec = Recorder(recording)
    rec.fact("a_name_that_is_much_longer_than_the_panel_is_wide", 12345678, "elements")
    rec.step("a")
    async with companion(Facts(), lambda widget: widget.show(recording, 0), size=(30, 1)) as stage:
        assert "…" in stage.lines()[0] and stage.lines()[0].rstrip().endswith("12.35 M elements")


async def test_a_name_keeps_its_words_on_a_row_of_its_own_where_there_is_room():
    recording = Recording("x")
    rec = Recorder(recording)
    rec.fact("peak_stash_freed_at_input", 4, "chunks")
    rec.fact("convention", "16 bytes a parameter: BF16 parameter 2, fp32 master 4", kind="reference")
    rec.step("a")
    async with companion(Facts(), lambda widget: widget.show(recording, 0), size=(30, 9)) as stage:
        lines = [line.strip() for line in stage.lines()]
        assert lines[:3] == ["peak stash freed at input", "4 chunks", "convention"]
        assert " ".join(lines[3:6]) == "16 bytes a parameter: BF16 parameter 2, fp32 master 4"
    async with companion(Facts(), lambda widget: widget.show(recording, 0), size=(30, 2)) as stage:
        name, text = stage.lines()[:2]
        assert name.rstrip().endswith("4 chunks") and text.startswith(" convention 16 ") and "…" in text


async def test_a_note_shared_by_neighbours_is_told_once_and_in_full():
    recording = Recording("x")
    rec = Recorder(recording)
    for rank in range(2):
        rec.fact("work", 3, note="score elements of the forward pass, counted", label=str(rank))
    rec.step("a")
    async with companion(Facts(), lambda widget: widget.show(recording, 0), size=(30, 9)) as stage:
        told = " ".join(" ".join(stage.lines()).split())
        assert told.count("score elements of the forward pass, counted") == 1


async def test_a_step_repaints_only_the_facts_that_changed():
    run = pipeline_run()
    async with companion(Facts(), lambda widget: widget.show(run, 20), size=(37, 12)) as stage:
        changed = [k for k, line in enumerate(stage.lines()) if any(name in line for name in ("live bytes", "group_b"))]
        assert stage.rows(run, 21) == changed
        assert stage.rows(run, 21) == []


async def test_more_facts_than_rows_scroll_by_half_pages_when_focused():
    recording = Recording("x")
    rec = Recorder(recording)
    for k in range(30):
        rec.fact(f"fact_{k}", k)
    rec.step("a")
    async with companion(Facts(), lambda widget: widget.show(recording, 0), size=(30, 9)) as stage:
        assert "22 more" in stage.lines()[-1] or "23 more" in stage.lines()[-1]
        stage.widget.focus()
        await stage.pilot.pause()
        moves = 0
        while stage.widget.cursor_by(0, 1):
            moves += 1
        assert stage.lines()[-1].split() == ["fact", "29", "29"] and moves == 6


async def test_a_failed_check_shows_what_it_got_and_wanted():
    run = pipeline_run(failing=True)
    async with companion(Facts(), lambda widget: widget.show(run, 3), size=(37, 14)) as stage:
        assert stage.lines()[-3:] == ["✗ 1 of 3 checks failed", "✗ bubble equals formula", "  got 0.27, want 0.2727 ± 0.001"]


def test_verdict_counts_and_says_when_it_is_not_over():
    good, bad = Check("a", True, 1, 1), Check("b", False, 1, 2)
    assert list(verdict([good, good])) == [("✓ 2 checks", "good")]
    assert list(verdict([good], finished=False)) == [("✓ 1 check so far", "good")]
    assert list(verdict([], finished=False)) == []
    assert [text for text, _ in verdict([good, bad])] == ["✗ 1 of 2 checks failed", "✗ b", "  got 1, want 2"]


async def test_every_size_holds_its_rows():
    run = pipeline_run(failing=True)
    for size in ((8, 2), (20, 5), (37, 1), (100, 40)):
        async with companion(Facts(), lambda widget: widget.show(run, 9), size=size) as stage:
            assert {stage.widget.render_line(y).cell_length for y in range(size[1])} == {size[0]}


def test_facts_snapshot(snap_compare):
    run = pipeline_run(failing=True)
    assert snap_compare(CompanionApp(Facts(), lambda widget: widget.show(run, 3)), terminal_size=(37, 16))
