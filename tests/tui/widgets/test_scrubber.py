"""The scrubber: phases in proportion, the playhead, growing recordings, clicks, every width."""

from __future__ import annotations

import pytest
from samples import CompanionApp, companion, pipeline_run

from core.recording import Phase, Recorder, Recording
from tui.widgets.scrubber import Scrubber


async def line_of(recording: Recording, step: int, width: int = 100, **options: object) -> str:
    async with companion(Scrubber(), lambda widget: widget.show(recording, step, **options), size=(width, 1)) as stage:
        return stage.lines()[0]


async def test_the_line_says_state_speed_phases_count_and_time():
    line = await line_of(pipeline_run(), 12, playing=True, speed=2.0)
    assert line.startswith(" ▶  2×  ├") and line.endswith("  13/64  t = 6")
    assert "warm-up" in line and "steady" in line and "cool-down" in line
    assert (await line_of(pipeline_run(), 12)).startswith(" ‖  1×")


async def test_phases_lie_in_proportion_to_their_steps():
    line = await line_of(pipeline_run(100), 0, 130)
    track = line[line.index("●") : line.index("┤") + 1]
    ticks = [k for k, mark in enumerate(track) if mark == "┼"]
    assert [round(tick / (len(track) - 1) * 99) for tick in ticks] == pytest.approx([20, 80], abs=1)


async def test_the_playhead_goes_from_end_to_end():
    run = pipeline_run()
    first, last = await line_of(run, 0), await line_of(run, 63)
    assert first.index("●") == last.index("├") and last.index("●") == first.index("┤")


async def test_names_that_do_not_fit_are_ticks():
    line = await line_of(pipeline_run(), 0, 60)
    assert "steady" in line and "cool-down" not in line and line.count("┼") == 2


async def test_hundreds_of_phases_are_ticks():
    run = pipeline_run(800)
    run.phases[:] = [Phase(step, f"round {step}") for step in range(0, 800, 4)]
    line = await line_of(run, 400)
    assert "┴" in line and "round" not in line


@pytest.mark.parametrize("width", [*range(1, 30, 4), 60, 80, 120, 200])
async def test_every_width_holds_the_line(width):
    run = pipeline_run(1234)
    async with companion(Scrubber(), lambda widget: widget.show(run, 1000), size=(width, 1)) as stage:
        assert stage.widget.render_line(0).cell_length == width
        if width >= 60:
            assert "1,001/1,234" in stage.lines()[0] and "t = " in stage.lines()[0]


async def test_a_growing_recording_shows_how_far_it_is_and_a_growing_count():
    recording = pipeline_run(32, finished=False)
    recording.progress = (0.5, "")
    line = await line_of(recording, 31)
    assert "32/32…  recording 50 %" in line
    track = line[line.index("├") : line.index("  32/32")]
    assert abs(track.count("·") / len(track) - 0.5) < 0.03 and track.rstrip("·").endswith("●")


async def test_no_step_yet():
    recording = Recording("x")
    assert "0/0…" in await line_of(recording, 0)


async def test_the_track_does_not_move_while_stepping():
    run = pipeline_run(1500)
    async with companion(Scrubber(), lambda widget: widget.show(run, 0), size=(100, 1)) as stage:
        ends = set()
        for step in (1, 9, 99, 999, 1499, 3):
            stage.widget.show(run, step)
            ends.add(len(stage.widget._track.cells))
        assert len(ends) == 1


async def test_a_step_repaints_the_line_once_and_the_same_step_nothing():
    run = pipeline_run()
    async with companion(Scrubber(), lambda widget: widget.show(run, 5), size=(100, 1)) as stage:
        assert stage.rows(run, 6) == [0]
        assert stage.rows(run, 6) == []


async def test_bookmarks_are_marks_and_names_make_room_for_them():
    run = pipeline_run()
    async with companion(Scrubber(), lambda widget: widget.show(run, 0), size=(100, 1)) as stage:
        stage.widget.bookmarks = (32, 63)
        line = stage.lines()[0]
        assert line.count("◆") == 2 and "steady" in line


async def test_a_click_seeks_the_step_under_it():
    run = pipeline_run(1000)
    async with companion(Scrubber(), lambda widget: widget.show(run, 0), size=(100, 1)) as stage:
        left, right = stage.lines()[0].index("●"), stage.lines()[0].index("┤")
        for x in (left, (left + right) // 2, right, 1, 98):
            await stage.pilot.click(Scrubber, offset=(x, 0))
        assert stage.app.sought[0] == 0 and stage.app.sought[-1] == 999 and len(stage.app.sought) == 3
        for step in stage.app.sought:
            stage.widget.show(run, step)
        assert 480 <= stage.app.sought[1] <= 520


async def test_without_times_there_is_none():
    recording = Recording("x")
    Recorder(recording).step("a")
    recording.state = "finished"
    assert (await line_of(recording, 0)).endswith("1/1")


@pytest.mark.parametrize("width", [60, 120])
def test_scrubber_snapshot(snap_compare, width):
    run = pipeline_run()

    def prepare(widget):
        widget.bookmarks = (5, 40)
        widget.show(run, 20, playing=True, speed=4.0)

    assert snap_compare(CompanionApp(Scrubber(), prepare), terminal_size=(width, 1))
