"""``notes-tui snapshot``: a picture of the screen at a step, as SVG or as text."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest


def one_line(err: str) -> str:
    assert err.count("\n") == 1 and "Traceback" not in err, err
    return err


def test_text_is_the_screen_at_that_step(notes_tui, tmp_path):
    done = notes_tui("snapshot", "countdown", "--step", "3", "--size", "80x24", "-o", "a.txt")
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "a.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 24 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "2 left" in text and "3/4" in text.replace(" ", "")


def test_svg_is_a_picture_of_the_chosen_variant(notes_tui, tmp_path):
    done = notes_tui("snapshot", "systems/countdown", "--variant", "long", "--step", "5", "-o", "a.svg")
    assert (done.returncode, done.stderr) == (0, "")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag.endswith("svg")
    words = " ".join("".join(root.itertext()).replace("\xa0", " ").split())
    assert "1 left" in words and "long" in words


def test_the_same_command_gives_the_same_picture(notes_tui, tmp_path):
    for name in ("a.svg", "b.svg"):
        assert notes_tui("snapshot", "countdown", "--set", "start=9", "--step", "4", "-o", name).returncode == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("step", ["0", "-1", "5"])
def test_a_step_that_does_not_exist_is_refused_with_the_bound(notes_tui, tmp_path, step):
    done = notes_tui("snapshot", "countdown", "--step", step, "-o", "a.svg")
    assert done.returncode == 2 and "1 to 4" in one_line(done.stderr)
    assert not (tmp_path / "a.svg").exists()


def test_a_run_that_fails_gives_no_picture(notes_tui, tmp_path):
    done = notes_tui("snapshot", "countdown", "--set", "crash=true", "-o", "a.svg")
    assert done.returncode == 3 and "the counter fell over" in one_line(done.stderr)
    assert not (tmp_path / "a.svg").exists()


def test_bad_parameters_and_places_exit_2(notes_tui):
    assert notes_tui("snapshot", "countdown", "--set", "start=0", "-o", "a.svg").returncode == 2
    done = notes_tui("snapshot", "countdown", "-o", "gone/a.svg")
    assert done.returncode == 2 and "gone/a.svg" in one_line(done.stderr)


def test_where_the_user_left_the_scenario_changes_nothing(notes_tui, plugin_env, tmp_path):
    """A picture starts from the command line alone: no remembered step, variant or theme."""
    assert notes_tui("snapshot", "countdown", "--step", "2", "-o", "a.svg").returncode == 0
    home = tmp_path / "home"
    (home / ".config" / "notes-tui").mkdir(parents=True)
    (home / ".config" / "notes-tui" / "config.toml").write_text('theme = "light"\n')
    (home / ".local" / "state" / "notes-tui").mkdir(parents=True)
    left = '{"countdown": {"step": 3, "variant": "default", "bookmarks": [1]}}'
    (home / ".local" / "state" / "notes-tui" / "positions.json").write_text(left)
    done = subprocess.run(
        [sys.executable, "-m", "tui.cli", "snapshot", "countdown", "--step", "2", "-o", "b.svg"],
        env=plugin_env | {"HOME": str(home), "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}, cwd=tmp_path, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()
    assert (home / ".local" / "state" / "notes-tui" / "positions.json").read_text() == left
    assert sorted(path.name for path in home.iterdir()) == [".config", ".local"]
