"""Another package brings a simulation and scenarios through entry points, and everything treats them as its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from core.errors import BadInput
from core.scenario import everything, find
from core.simulation import _plugins, families, load, record

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def installed(plugin, monkeypatch):
    monkeypatch.syspath_prepend(str(plugin))


def test_it_is_listed_beside_the_built_in_ones(notes_tui):
    found = json.loads(notes_tui("list", "--json").stdout)
    assert {"name": "countdown", "family": "systems"} in found["simulations"]
    assert {row["name"] for row in found["scenarios"]} >= {"systems/countdown", "systems/disappointed"}
    assert {row["name"] for row in found["simulations"]} >= {"pipeline", "zero", "dispatch", "order_book"}


def test_without_the_package_it_is_unknown(notes_tui):
    done = notes_tui("run", "countdown", env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 2 and "unknown name 'countdown'" in done.stderr


def test_it_runs_and_its_expectations_are_judged(notes_tui):
    done = notes_tui("run", "systems/countdown", "--json")
    assert done.returncode == 0, done.stderr
    checks = [check["name"] for check in json.loads(done.stdout)["variants"]["long"]["checks"]]
    assert checks == ["sum of the numbers", "expect total"]


def test_it_records_like_any_other(installed):
    recording = record("countdown", {"start": "6"})
    assert len(recording) == 6 and recording.title(0) == "6 left"
    assert families()["countdown"] == "systems"
    assert "systems/countdown" in {scenario.name for scenario in everything()}
    assert find("systems/countdown").variant_names == ["short", "long"]


def test_naming_it_imports_nothing_of_it(installed):
    import sys

    for name in [name for name in sys.modules if name.startswith("tiny_notes.systems")]:
        del sys.modules[name]
    families()
    list(everything())
    assert "tiny_notes.systems.countdown" not in sys.modules
    load("countdown")
    assert "tiny_notes.systems.countdown" in sys.modules


async def test_the_explorer_opens_and_steps_it(installed, monkeypatch, tmp_path):
    from tui.app import NotesApp

    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    app = NotesApp("systems/countdown")
    async with app.run_test(size=(120, 40)) as pilot:
        await app.wait_recorded()
        await pilot.pause()
        picture = app.export_screenshot()
        assert "3" in picture and "left" in picture
        await pilot.press("right")
        await pilot.pause()
        assert app.export_screenshot() != picture


DECLARED = """
from core.simulation import Params, simulation
class P(Params, frozen=True):
    {field}
@simulation("half")
def countdown(params: {params}, rec: object) -> None:
    {body}
"""


def install(place: Path, monkeypatch, body: str, entry_points: str = "[notes_tui.simulations]\nhalf = half_notes:countdown\n") -> None:
    (place / "half_notes.py").write_text(body)
    info = place / "half_notes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: half-notes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "half_notes", raising=False)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("import not_installed_anywhere", "does not load"),
        ("raise SystemExit(0)", "does not load: SystemExit"),
        ("countdown = 3", "declared with @simulation"),
        (DECLARED.format(params="int", field="x: int = 3", body="pass"), "its first argument is a int"),
        (DECLARED.format(params="P", field="x: dict = {}", body="pass"), "a parameter is int, float"),
        (DECLARED.format(params="P", field="x: int", body="pass"), "a default for each"),
    ],
)
def test_one_that_is_broken_is_named_in_one_line(tmp_path, monkeypatch, body, says):
    install(tmp_path, monkeypatch, body)
    with pytest.raises(BadInput, match=says) as caught:
        load("half")
    assert "half" in str(caught.value) and "\n" not in str(caught.value)


def test_one_that_ends_the_program_fails_and_does_not_pass_for_a_run(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, DECLARED.format(params="P", field="x: int = 3", body="raise SystemExit(0)"))
    with pytest.raises(RuntimeError, match="end the program"):
        record("half")


def test_damaged_metadata_of_another_package_stops_nothing(installed, tmp_path, monkeypatch):
    """Beside it, a package whose entry points cannot even be read."""
    install(tmp_path, monkeypatch, "", "[notes_tui.simulations]\nnot an entry\n[\n")
    assert families()["countdown"] == "systems"
    (tmp_path / "half_notes-1.0.dist-info" / "entry_points.txt").write_bytes(b"[notes_tui.simulations]\n\xff\xfe = a:b\n")
    _plugins.cache_clear()
    assert families()["countdown"] == "systems"
