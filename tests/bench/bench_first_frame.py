"""How long until the first frame of ``notes-tui`` is on the terminal, beside a minimal Textual app (and posting).

    python tests/bench/bench_first_frame.py [ROUNDS]

Every program starts in a pseudo-terminal of 120x40, all of them once a round, so that the machine's moods meet all alike.
POSTING names posting's program; without it that row is left out.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui" / "terminal"))

from real_terminal import RealTerminal, notes_tui

SCENARIOS = 60
LIMIT = 1.3

MINIMAL = """
from textual.app import App
from textual.widgets import Static

class Minimal(App):
    def compose(self):
        yield Static("The first frame")

Minimal().run()
"""


def sixty_scenarios(folder: Path) -> None:
    """A package ``scenarios`` of sixty files that stands in for the built-in one."""
    place = folder / "scenarios" / "training"
    place.mkdir(parents=True)
    (folder / "scenarios" / "__init__.py").touch()
    for number in range(SCENARIOS):
        (place / f"question_{number:02}.toml").write_text(
            f'simulation = "pipeline"\norder = {number}\ntitle = "Question number {number:02}"\n'
            f'question = "What does number {number} show?"\ntakeaway = "It shows {number}."\n'
            "[params]\nstages = 2\n[variants.a]\n[variants.b]\n"
        )


def first_frame(command: list[str], marker: bytes, env: dict[str, str]) -> float:
    """Seconds from starting the program until ``marker`` has arrived on its terminal."""
    with RealTerminal(command, env, cwd=env["HOME"]) as terminal:
        return terminal.wait_bytes(marker, seconds=30)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sixty_scenarios(folder)
        minimal = folder / "minimal.py"
        minimal.write_text(MINIMAL)
        env = {key: value for key, value in os.environ.items() if not key.startswith("NOTES_TUI_")}
        env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": scratch, "XDG_CONFIG_HOME": scratch, "XDG_STATE_HOME": scratch}
        env |= {"PYTHONPATH": scratch}
        programs = {
            "minimal Textual app": ([sys.executable, str(minimal)], b"The first frame"),
            "notes-tui, home": (notes_tui(), b"Question number 07"),
        }
        posting = os.environ.get("POSTING")
        if posting:
            peer = ([posting, "--collection", scratch], b"Collection")
            try:
                first_frame(*peer, env)
                programs["posting"] = peer
            except AssertionError as error:
                print(f"posting is left out: {str(error)[:100]}")
        taken: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(rounds + 1):
            for name, (command, marker) in programs.items():
                seconds = first_frame(command, marker, env)
                if number:  # the first round warms the caches
                    taken[name].append(seconds)
    base = taken["minimal Textual app"]
    print(f"{'first frame, 120x40':<24}{'median':>10}{'best':>10}{'ratio of medians':>20}{'of bests':>12}")
    for name, seconds in taken.items():
        middle, best = statistics.median(seconds), min(seconds)
        ratios = f"{middle / statistics.median(base):>20.2f}{best / min(base):>12.2f}"
        print(f"{name:<24}{middle * 1000:>7.0f} ms{best * 1000:>7.0f} ms{ratios}")
    ratio = statistics.median(taken["notes-tui, home"]) / statistics.median(base)
    print(f"limit {LIMIT}: {'held' if ratio <= LIMIT else 'EXCEEDED'}")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
