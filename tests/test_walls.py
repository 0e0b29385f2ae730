"""The walls between the rooms: who may import whom, and what must not load before it is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "numpy", "numba", "plotext", "pandas", "polars", "scipy", "transformers")
TERMINAL = ("textual", "rich", "plotext", "textual_plotext")


def loaded_after(code: str, *modules: str) -> list[str]:
    """Which of ``modules`` a fresh interpreter has imported once it has run ``code``."""
    script = f"import sys, io, contextlib\n{code}\nprint([m for m in {modules!r} if m in sys.modules], file=sys.__stdout__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return list(eval(done.stdout.strip().splitlines()[-1]))


def command(*args: str) -> str:
    return f"from tui.cli import call\nwith contextlib.redirect_stdout(io.StringIO()):\n    assert call({list(args)!r}) == 0"


def test_the_contracts_between_packages_hold():
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("import-linter is not installed")
    done = subprocess.run([program, "--no-cache"], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[2-9] kept, 0 broken", done.stdout), done.stdout


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["run", "--help"], ["list"], ["list", "--json"]], ids=" ".join)
def test_commands_that_only_tell_load_nothing_heavy(args):
    assert loaded_after(command(*args), *HEAVY, *TERMINAL, "asyncio") == []


def test_help_reads_no_scenarios():
    assert loaded_after(command("--help"), "core.scenario", "msgspec") == []


def test_importing_core_loads_nothing_heavy():
    assert loaded_after("import core", *HEAVY, *TERMINAL, "msgspec", "click") == []
    assert loaded_after("import core.recording, core.views, core.scenario, core.simulation, core.recognise", *HEAVY, *TERMINAL) == []


def test_the_first_screen_loads_nothing_heavy():
    """What the explorer imports before it draws; the widgets of the stage come after."""
    assert loaded_after("import tui.app", *HEAVY, "textual_plotext") == []


def test_running_a_simulation_loads_no_terminal():
    for name in ("pipeline", "order_book"):
        code = command("run", name)
        assert loaded_after(code, *TERMINAL) == [], name


def test_every_module_of_core_imports_without_the_terminal():
    code = (
        "import importlib, pkgutil, core\n"
        "for found in pkgutil.walk_packages(core.__path__, 'core.'):\n"
        "    importlib.import_module(found.name)"
    )
    assert loaded_after(code, *TERMINAL, "tui") == []


def test_no_source_of_core_names_a_widget_and_no_source_of_tui_names_a_simulation():
    from core.simulation import REGISTRY

    for path in (ROOT / "tui").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name, (family, target) in REGISTRY.items():
            module = target.partition(":")[0]
            assert module not in text and f"core.{family}" not in text, f"{path} names {name}"
