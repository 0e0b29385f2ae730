"""What is in the wheel that people install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    out = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_every_source_and_scenario_and_no_tests(wheel):
    inside = set(wheel.namelist())
    for room in ("core", "tui", "scenarios"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in (".py", ".toml", ".tcss") or path.name == "py.typed":
                assert path.relative_to(ROOT).as_posix() in inside
    assert any(name.startswith("scenarios/") and name.endswith(".toml") for name in inside)
    assert {name.split("/")[0] for name in inside if ".dist-info" not in name} == {"core", "tui", "scenarios"}
    assert [name for name in inside if "__pycache__" in name or name.endswith(".pyc")] == []


def test_the_wheel_gives_the_command(wheel):
    (name,) = (n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert "notes-tui = tui.cli:main" in wheel.read(name).decode()


def test_the_installed_command_is_the_one_in_the_project_file():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["notes-tui"]
    (script,) = entry_points(group="console_scripts", name="notes-tui")
    assert script.value == declared
    assert callable(script.load())


def test_every_package_folder_is_a_package():
    """A folder without __init__.py would be left out of imports by name and of the contracts."""
    for room in ("core", "tui"):
        for path in (ROOT / room).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path.parent
