"""What a panel shows at a step depends on the step alone: not on where the reader came from, nor on how much is recorded.

Every built-in scenario, one variant each, all panels, steps sampled; the schedules' drill-downs too.
"""

from __future__ import annotations

import random

import pytest
from test_scenarios import FILES

from core.recording import Recorder, Recording
from core.scenario import read
from core.simulation import record
from core.views import Gantt, GanttFrame, PlotFrame

SAMPLED = 24
WATCHED = 12
CHILDREN = 2


def frames(recording: Recording, step: int) -> list[object]:
    """What every panel there is shows at ``step``."""
    return [panel.view.at(step) for panel in list(recording.panels)]


def blank(frame: object) -> bool:
    """A chart with nothing in it yet: one that is drawn whole when the run has ended."""
    return (isinstance(frame, GanttFrame) and not frame.known) or (
        isinstance(frame, PlotFrame) and not any(v is not None for v in frame.values)
    )


def assert_pure(recording: Recording, draw: random.Random) -> None:
    """Frames in order, then backwards, then at random and twice: always the same, and never touched by a later look."""
    last = len(recording) - 1
    steps = sorted({0, last, *(draw.randint(0, last) for _ in range(SAMPLED))})
    ahead = {step: frames(recording, step) for step in steps}
    for step in [*reversed(steps), *draw.sample(steps, len(steps)), *(s for s in draw.sample(steps, len(steps)) for _ in range(2))]:
        for panel, first, again in zip(recording.panels, ahead[step], frames(recording, step), strict=True):
            assert again == first, f"{panel.title} at step {step} depends on where one comes from"


class Watch:
    """Looks at all panels as soon as a step is there, and later whether they still show the same for it."""

    def __init__(self, recording: Recording, monkeypatch: pytest.MonkeyPatch, draw: random.Random) -> None:
        self.recording, self.draw = recording, draw
        self.seen: dict[int, list[object]] = {}
        one, many = Recorder.step, Recorder.steps

        def step(recorder: Recorder, *args: object, **values: object) -> int:
            row = one(recorder, *args, **values)  # type: ignore[arg-type]
            self.look(recorder.recording, row)
            return row

        def steps(recorder: Recorder, *args: object, **columns: object) -> int:
            first = many(recorder, *args, **columns)  # type: ignore[arg-type]
            self.look(recorder.recording, first)
            self.look(recorder.recording, len(recorder.recording) - 1)
            return first

        monkeypatch.setattr(Recorder, "step", step)
        monkeypatch.setattr(Recorder, "steps", steps)

    def look(self, recording: Recording, row: int) -> None:
        """The first few steps always; then one of the earlier ones is given up for it, ever more rarely."""
        if recording is not self.recording or row < 0:  # a run inside the run keeps its own steps
            return
        if len(self.seen) >= WATCHED:
            if self.draw.random() > WATCHED / (row + 1):
                return
            del self.seen[self.draw.choice(list(self.seen))]
        self.seen[row] = frames(recording, row)

    def assert_unchanged(self) -> None:
        assert self.seen
        for row, then in self.seen.items():
            for panel, before, after in zip(self.recording.panels, then, frames(self.recording, row), strict=False):
                assert after == before or blank(before), f"{panel.title}: step {row} was rewritten after it had been shown"


@pytest.mark.parametrize("name", FILES)
def test_a_step_looks_the_same_from_everywhere_and_at_any_time(name, monkeypatch):
    draw = random.Random(name)
    scenario = read(FILES[name], name)
    params = scenario.parsed(draw.choice(scenario.variant_names))
    recording = Recording(scenario.simulation)
    with monkeypatch.context() as patched:
        watch = Watch(recording, patched, draw)
        record(scenario.simulation, params, recording=recording)
    assert len(recording) and recording.panels
    watch.assert_unchanged()
    assert_pure(recording, draw)
    for panel in recording.panels:
        if isinstance(panel.view, Gantt) and panel.view.children:
            for span in draw.sample(sorted(panel.view.children), min(CHILDREN, len(panel.view.children))):
                child = panel.view.child(span)
                assert child is not None and child is panel.view.child(span)
                assert_pure(child, draw)
