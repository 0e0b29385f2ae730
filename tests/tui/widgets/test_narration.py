"""The narration: heading, title and detail of a step, announcements above, nothing overflowing."""

from __future__ import annotations

from rich.cells import cell_len
from samples import CompanionApp, companion, pipeline_run

from core.recording import Recorder, Recording
from tui.widgets.fitting import clip, turned, wrap
from tui.widgets.narration import Narration


def told(title: str, detail: str = "", steps: int = 1) -> Recording:
    recording = Recording("x")
    rec = Recorder(recording)
    for _ in range(steps):
        rec.step(title, detail)
    recording.state = "finished"
    return recording


async def test_heading_says_step_and_phase_and_the_text_what_happened_and_why():
    run = pipeline_run()
    async with companion(Narration(), lambda widget: widget.show(run, 12)) as stage:
        assert stage.widget.border_title == "Step 13 of 64 · steady"
        text = " ".join(line.strip() for line in stage.lines())
        assert "Rank 0 runs backward of microbatch 3 Its gradient came from rank 1 in 1.2 ms, 4 MB." in text


async def test_brackets_in_a_phase_are_text_not_markup():
    recording = told("a")
    recording.phases.append(type(pipeline_run().phases[0])(0, "[bold]x"))
    async with companion(Narration(), lambda widget: widget.show(recording, 0)) as stage:
        assert stage.widget._border_title.plain == "Step 1 of 1 · [bold]x"


async def test_a_detail_longer_than_the_panel_ends_in_an_ellipsis_and_scrolls_with_the_arrows_when_focused():
    recording = told("What happens", " ".join(f"word{k}" for k in range(60)))
    async with companion(Narration(), lambda widget: widget.show(recording, 0), size=(30, 6)) as stage:
        assert stage.lines()[-1].endswith("…")
        stage.widget.focus()
        await stage.pilot.pause()
        while stage.widget.cursor_by(0, 1):
            pass
        assert stage.lines()[-1].strip().endswith("word59")
        while stage.widget.cursor_by(0, -1):
            pass
        assert stage.lines()[0].strip() == "What happens"


async def test_an_announcement_stands_above_and_leaves_the_step_in_sight():
    run = pipeline_run()
    async with companion(Narration(), lambda widget: widget.show(run, 12), size=(37, 6)) as stage:
        stage.widget.announce("1F1B is said to be better than GPipe. " * 4, "question")
        lines = [line.strip() for line in stage.lines()]
        assert lines[0].startswith("? 1F1B is said") and any(line.startswith("Rank 0 runs") for line in lines)
        stage.widget.announce("")
        assert stage.lines()[0].strip().startswith("Rank 0 runs")


async def test_the_same_step_again_repaints_nothing():
    run = pipeline_run()
    async with companion(Narration(), lambda widget: widget.show(run, 12)) as stage:
        assert stage.rows(run, 12) == []
        assert 0 in stage.rows(run, 13)


async def test_a_recording_without_steps_says_how_far_it_is():
    recording = Recording("x")
    recording.progress = (0.2, "generating the schedule")
    async with companion(Narration(), lambda widget: widget.show(recording, 0)) as stage:
        assert stage.lines()[0].strip() == "Generating the schedule"


async def test_texts_of_every_script_and_width_stay_inside():
    recording = told("第二个秩运行反向传播 of microbatch 0", "一个没有空格的很长的句子" * 12 + " \x1b[31mred\t tab " + "x" * 200)
    for size in ((6, 3), (20, 8), (60, 20)):
        async with companion(Narration(), lambda widget: widget.show(recording, 0), size=size) as stage:
            assert {stage.widget.render_line(y).cell_length for y in range(size[1])} == {stage.widget.size.width}
            assert "\x1b" not in "".join(stage.lines())


def test_wrap_breaks_at_spaces_and_cuts_what_has_none():
    assert wrap("one two three", 7) == ("one two", "three")
    assert wrap("abcdefghij", 4) == ("abcd", "efgh", "ij")
    assert all(cell_len(line) <= 5 for line in wrap("注意力机制 attention", 5))
    assert wrap("", 5) == () and wrap("x", 0) == ()


def test_clip_counts_cells():
    assert clip("注意力机制", 6) == "注意…" and clip("abc", 3) == "abc" and clip("abcd", 3) == "ab…" and clip("abc", 0) == ""


def test_windows_turn_by_half_pages():
    assert [turned(0, 8, 40, row) for row in (0, 7, 8, 11, 12, 39)] == [0, 0, 4, 4, 8, 32]
    assert [turned(20, 8, 40, row) for row in (20, 27, 19, 0)] == [20, 20, 16, 0]
    assert turned(30, 8, 6, 5) == 0


def test_narration_snapshot(snap_compare):
    run = pipeline_run()

    def prepare(widget):
        widget.styles.border = ("round", "gray")
        widget.show(run, 12)
        widget.announce("1F1B is said to be better than GPipe. What exactly does it save?", "question")

    assert snap_compare(CompanionApp(Narration(), prepare), terminal_size=(37, 14))


async def test_a_text_that_is_cut_ends_after_a_whole_word():
    recording = told("What happens", " ".join(f"sentence{k}" for k in range(60)))
    for width in range(24, 44):
        async with companion(Narration(), lambda widget: widget.show(recording, 0), size=(width, 5)) as stage:
            last = stage.lines()[-1].strip()
            assert last.endswith(" …")
            assert last.removesuffix(" …").split()[-1] in {f"sentence{k}" for k in range(60)}, last
