"""Every built-in scenario answers its question: it records, its checks hold, and it shows the numbers it promises."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import pytest

from core.export import step_rows
from core.recording import Recording
from core.scenario import judge, names, read
from core.simulation import record

BUILT_IN = Path(__file__).resolve().parents[1] / "scenarios"
FILES = {name: path for name, path in names().items() if path.is_relative_to(BUILT_IN)}
RUNS = [(name, variant) for name, path in FILES.items() for variant in read(path, name).variant_names]
SAMPLED = 2_000


@lru_cache(maxsize=2)  # the tests of one run follow one another
def recorded(name: str, variant: str) -> Recording:
    scenario = read(FILES[name], name)
    return record(scenario.simulation, scenario.parsed(variant))


def test_there_are_scenarios_and_each_simulation_of_ours_has_one():
    from core.simulation import REGISTRY

    assert set(REGISTRY) <= {read(path, name).simulation for name, path in FILES.items()}


@pytest.mark.parametrize("name", FILES)
def test_it_says_what_it_asks_and_what_it_found(name):
    scenario = read(FILES[name], name)
    assert scenario.title.strip() and scenario.takeaway.strip()
    assert scenario.question.strip().endswith("?"), "a question ends with a question mark"
    assert scenario.expect, "a scenario shows a number"
    assert scenario.order != 1000, "a scenario has its place in the story"
    for key in scenario.expect:
        if scenario.variants:
            assert key.partition(".")[0] in scenario.variants
    assert scenario.next == "" or (scenario.next in FILES and scenario.next != name), f"next = {scenario.next!r} does not exist"


@pytest.mark.parametrize(("name", "variant"), RUNS, scope="class")
class TestEachRun:
    def test_its_checks_hold(self, name: str, variant: str):
        recording = recorded(name, variant)
        assert recording.state == "finished" and len(recording) > 0
        assert recording.checks, "a recording compares itself with something independent"
        assert [check for check in recording.checks if not check.ok] == []

    def test_it_shows_the_numbers_it_promises(self, name: str, variant: str):
        scenario = read(FILES[name], name)
        assert [check for check in judge(scenario, variant, recorded(name, variant)) if not check.ok] == []

    def test_its_steps_read_as_sentences(self, name: str, variant: str):
        recording = recorded(name, variant)
        rows = list(step_rows(recording)) if len(recording) <= SAMPLED else _sample(recording)
        for row in rows:
            title, detail = str(row["title"]), str(row["detail"])
            assert title.strip() and detail.strip(), row
            assert "{" not in title and "}" not in title, row
            assert "nan" not in title.lower().split() and "None" not in f"{title} {detail}".split(), row
            assert len(title) <= 120, row
        for template in recording.templates:
            for field in _fields(template.title) | _fields(template.detail):
                assert field in template.names, f"{template.title!r} has no value for {{{field}}}"

    def test_its_panels_draw_every_sampled_step(self, name: str, variant: str):
        recording = recorded(name, variant)
        assert recording.panels
        last = len(recording) - 1
        for panel in recording.panels:
            assert panel.title.strip()
            for step in {0, last // 3, last // 2, last}:
                frame = panel.view.at(step)
                assert frame == panel.view.at(step), "a frame is a pure function of the step"

    def test_its_facts_say_what_they_are(self, name: str, variant: str):
        for fact in recorded(name, variant).final_facts():
            assert fact.kind in ("measured", "simulated", "formula", "reference"), fact
            assert fact.name == fact.name.strip() and " " not in fact.name.partition("[")[0], fact
            if fact.kind in ("formula", "reference"):
                assert fact.note, f"{fact.name} says which formula or source"


def _sample(recording: Recording) -> list[dict[str, object]]:
    last = len(recording) - 1
    steps = sorted({round(k * last / (SAMPLED - 1)) for k in range(SAMPLED)})
    return [{"title": recording.title(step), "detail": recording.detail(step)} for step in steps]


def _fields(template: str) -> set[str]:
    from core.formatting import FORMATTER

    return {field for _, field, _, _ in FORMATTER.parse(template) if field}


def test_a_scenarios_numbers_do_not_depend_on_the_working_directory(tmp_path):
    name = next(iter(FILES))
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        scenario = read(FILES[name], name)
        variant = scenario.variant_names[0]
        assert [check for check in judge(scenario, variant, record(scenario.simulation, scenario.parsed(variant))) if not check.ok] == []
    finally:
        os.chdir(here)
