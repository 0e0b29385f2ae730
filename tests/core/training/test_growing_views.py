"""Charts fill while their run is recorded: a person who watches it grow never looks at an empty one until the end."""

import numpy as np
import pytest

from core.recording import Recorder
from core.simulation import record
from core.views import Gantt, Plot


def amount(view):
    """Spans of a schedule, points of a chart; of one that is drawn anew each time the sum of what it shows."""
    if isinstance(view, Gantt):
        return len(view)
    assert isinstance(view, Plot)
    return sum(sum(curve.y) if curve.edition else len(curve) for curve in view.curves)


@pytest.fixture
def watched(monkeypatch):
    """``watched(simulation, title, **params)``: how much the panel of this title shows after every step, and its finished view."""

    def watch(simulation, title, **params):
        seen, plain = [], Recorder.step

        def step(self, *words, **values):
            at = plain(self, *words, **values)
            seen.append(next(amount(panel.view) for panel in self.recording.panels if panel.title.startswith(title)))
            return at

        monkeypatch.setattr(Recorder, "step", step)
        rec = record(simulation, params)
        return seen, next(panel.view for panel in rec.panels if panel.title.startswith(title))

    return watch


@pytest.mark.parametrize(
    ("simulation", "title", "params"),
    [
        ("collectives", "Links", {"ranks": 6, "elements": 60}),
        ("collectives", "Links", {"ranks": 5, "elements": 60, "op": "broadcast", "algorithm": "tree"}),
        ("recompute", "Bytes that wait for backward", {"layers": 6}),
        ("recompute", "Bytes that wait for backward", {"layers": 6, "method": "offload"}),
        ("mixed_precision", "Gradients", {"steps": 6}),
    ],
)
def test_it_shows_something_halfway_and_more_at_the_end(watched, simulation, title, params):
    seen, view = watched(simulation, title, **params)
    assert seen == sorted(seen)
    assert 0 < seen[len(seen) // 2] < seen[-1] == amount(view)


def test_a_point_of_the_bytes_belongs_to_the_first_step_that_has_reached_it(watched):
    """Independent of how they are drawn: the last point of a step is the fact of that step."""
    _, view = watched("recompute", "Bytes that wait for backward", layers=5, method="both")
    rec = record("recompute", {"layers": 5, "method": "both"})
    for curve, fact in zip(view.curves, ("live_bytes", "host_bytes"), strict=True):
        steps = np.array(curve.steps)
        assert (np.diff(steps) >= 0).all()
        for step in set(curve.steps):
            assert curve.y[int(np.flatnonzero(steps == step)[-1])] == rec.fact(fact, step)
