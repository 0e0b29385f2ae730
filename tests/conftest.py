"""What tests of several rooms share: a small plug-in, as another package would install it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process a core runs the tests; threads of torch would fight over them
ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"

_PLUGIN = {
    "tiny_notes/__init__.py": "",
    "tiny_notes/systems/__init__.py": "",
    "tiny_notes/systems/countdown.py": '''
        """Counts down, one step a number; says with its parameters how a run may go wrong."""
        from time import sleep
        from typing import Annotated

        from msgspec import Meta

        from core.recording import Recorder
        from core.simulation import Params, PathText, simulation
        from core.views import Axis, Column, Gantt, Table


        class CountdownParams(Params):
            start: Annotated[int, Meta(ge=1, le=2_000_000, description="numbers")] = 4
            wrong: bool = False
            crash: bool = False
            wait: Annotated[float, Meta(ge=0, le=60, description="seconds")] = 0.0
            file: PathText = ""


        @simulation("countdown")
        def countdown(params: CountdownParams, rec: Recorder) -> None:
            """Counts down to one."""
            lane = rec.panel("Ticks", Gantt(Axis("counter {i}", 1)))
            table = rec.panel("Numbers", Table([Column("left")]))
            total = 0
            for tick in range(params.start):
                if tick == 0:
                    rec.phase("early")
                if tick == params.start // 2 and tick:
                    rec.phase("late")
                left = params.start - tick
                total += left
                lane.span(0, tick, tick + 1, "forward", "C{n}", left)
                table.row(left, row=0)
                rec.fact("total", total)
                rec.fact("share", left / params.start, "%", "formula", "left / start")
                rec.step("{left} left", "The counter shows {left} of {start}.", time=float(tick), left=left, start=params.start)
                for _ in range(int(params.wait * 100)):
                    sleep(0.01)
                    rec.progress(tick / params.start)
            if params.crash:
                raise RuntimeError("the counter fell over\\nand broke")
            rec.fact("undefined", float("nan"))
            rec.fact("bytes", 1.5e9, "bytes", "reference", "a data sheet", label="card")
            rec.check("sum of the numbers", total + params.wrong, params.start * (params.start + 1) // 2, oracle="n (n + 1) / 2")
    ''',
    "tiny_notes/scenarios/__init__.py": "",
    "tiny_notes/scenarios/systems/countdown.toml": """
        simulation = "countdown"
        title = "Counting down, short and long"
        question = "How long does it take to reach one?"
        takeaway = "As long as the first number."
        [variants.short]
        start = 3
        [variants.long]
        start = 5
        [expect]
        "short.total" = 6
        "long.total" = 15
    """,
    "tiny_notes/scenarios/systems/disappointed.toml": """
        simulation = "countdown"
        title = "An expectation that does not hold"
        question = "Is it seven?"
        takeaway = "No."
        [params]
        start = 3
        [expect]
        total = 7
    """,
    "tiny_notes-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: tiny-notes
        Version: 1.0
    """,
    "tiny_notes-1.0.dist-info/entry_points.txt": """
        [notes_tui.simulations]
        countdown = tiny_notes.systems.countdown:countdown

        [notes_tui.scenarios]
        tiny = tiny_notes.scenarios
    """,
}


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds an installed plug-in: the simulation ``countdown`` and two scenarios of it."""
    site = tmp_path_factory.mktemp("site")
    for name, text in _PLUGIN.items():
        place = site / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(dedent(text).lstrip("\n"))
    return site


@pytest.fixture(scope="session")
def plugin_env(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the plug-in is installed and no configuration of the user is found."""
    home = tmp_path_factory.mktemp("home")
    foreign = ("NOTES_TUI_", "COV_", "XDG_", "NO_COLOR", "TEXTUAL", "COLUMNS", "LINES", "SSH_")
    env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return env | {"PYTHONPATH": f"{plugin}{os.pathsep}{ROOT}", "HOME": str(home), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def notes_tui(plugin_env: dict[str, str], tmp_path: Path) -> Run:
    """``notes_tui("list", env={…})`` runs the program in a process of its own, in a folder of its own."""

    def run(*args: str, env: dict[str, str] | None = None, timeout: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tui.cli", *args],
            env=plugin_env | (env or {}),
            capture_output=True, text=True, encoding="utf-8", timeout=timeout, cwd=tmp_path, stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip

    return run
