"""What stepping costs on a real terminal: key to paint beside two peers, bytes a step, a full repaint, silence, a slow link.

    python tests/bench/bench_terminal.py [NAME …]

Each scenario opens on a pseudo-terminal of 120x40 in true colour. Key to paint is the time from writing a key until the
last byte of the answer has been read. Two programs get the same keys in turn with it, so that all meet the same machine:

    minimal   a Textual app in which a key changes one number
    drawn     a Textual app that has this scenario's screens drawn beforehand, and shows the next one in a Static

Machines that sleep between keys make all three slow: a limit in milliseconds says something where ``minimal`` is quick.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui" / "terminal"))

from real_terminal import RealTerminal, notes_tui
from rich.console import Console

from core.scenario import find, names
from tui.app import NotesApp

RIGHT, LEFT, HOME, END = "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F"
STEPS = 60
RECORDINGS = 4
QUIET = 0.06
LINK = 50 * 1024
LIMITS = {"step p95": 10.0, "jump p95": 30.0, "recording p95": 40.0, "bytes": 3072, "repaint": 20480, "link": 0.5}
QUICK = 5.0
"""Milliseconds (p95) up to which the minimal app shows that this machine can keep limits in milliseconds."""
RATIO = 2.0
"""A step may take so many times what the minimal app takes, by the p95 of both; and no longer than `drawn`."""

PEER = """
import json, os, sys

os.environ["TEXTUAL_FPS"] = "200"

from rich.text import Text
from textual.app import App
from textual.widgets import Static

SCREENS = [Text.from_ansi(screen, end="") for screen in json.load(open(sys.argv[1]))] if len(sys.argv) > 1 else None


class Peer(App):
    CSS = "Static { width: 100%; height: 100%; }"
    BINDINGS = [("right", "step(1)"), ("left", "step(-1)")]
    at = 0

    def compose(self):
        yield Static(self.shown)

    @property
    def shown(self):
        return f"ready {self.at}" if SCREENS is None else SCREENS[self.at % len(SCREENS)]

    def action_step(self, by):
        self.at += by
        self.query_one(Static).update(self.shown)


Peer().run()
"""


def answer(terminal: RealTerminal, key: str) -> tuple[float, int]:
    """Send ``key``; milliseconds until the last byte of what it caused, and how many bytes that was."""
    terminal.send(key)
    sent = last = time.perf_counter()
    size = 0
    while block := terminal.read(QUIET if size else 0.4):
        last = time.perf_counter()
        size += len(block)
    if terminal.process.poll() is not None:
        raise RuntimeError(f"the explorer ended on {key!r}:\n{terminal.text()}")
    return (last - sent) * 1000, size


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def environment(scratch: str, **more: str) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("NOTES_TUI_", "SSH_", "COLUMNS", "LINES"))}
    return (
        env
        | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": scratch, "XDG_CONFIG_HOME": scratch, "XDG_STATE_HOME": scratch}
        | more
    )


def recorded(terminal: RealTerminal) -> None:
    """Wait until everything is recorded and drawn, and nothing more arrives."""
    terminal.wait_for(lambda text: "recording" not in text and any(sign in text for sign in ("✓", "✗", "no checks")), seconds=90)
    terminal.settle(0.5, 60)


def drawn_beforehand(name: str) -> list[str]:
    """The screens of the first steps of ``name`` as text with colours."""

    async def walk() -> list[str]:
        app = NotesApp(scenario=find(name), start_step=0)
        screens = []
        async with app.run_test(size=(120, 40)) as pilot:
            await app.wait_recorded()
            for _ in range(STEPS):
                await pilot.pause()
                console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=120)
                screens.append("\n".join(strip.render(console) for strip in app.screen._compositor.render_strips()))
                stage = app.stage
                assert stage is not None
                stage.move("forward")
        return screens

    return asyncio.run(walk())


def peers(name: str, scratch: str) -> dict[str, list[str]]:
    program, screens = Path(scratch) / "peer.py", Path(scratch) / "screens.json"
    program.write_text(PEER)
    screens.write_text(json.dumps(drawn_beforehand(name)))
    return {"minimal": [sys.executable, str(program)], "drawn": [sys.executable, str(program), str(screens)]}


def stepping(name: str, scratch: str) -> dict[str, float]:
    """Single steps in turn with the peers; then jumps, a full repaint and silence."""
    env = environment(scratch)
    commands = {"explorer": notes_tui(name), **peers(name, scratch)}
    taken: dict[str, list[tuple[float, int]]] = {program: [] for program in commands}
    with ExitStack() as stack:
        terminals = {program: stack.enter_context(RealTerminal(command, env)) for program, command in commands.items()}
        recorded(terminals["explorer"])
        for number, key in enumerate([RIGHT] * (5 + STEPS) + [LEFT] * (STEPS // 2)):
            for program, terminal in terminals.items():
                pair = answer(terminal, key)
                if pair[1] and number >= 5:
                    taken[program].append(pair)
        terminal = terminals["explorer"]
        draw = random.Random(0)
        jumps = [answer(terminal, key) for key in [END, HOME, *(str(draw.randrange(10)) for _ in range(20))]]
        terminal.settle(0.3)
        silence = len(terminal.read(1.0))
        answer(terminal, "?")
        _, repaint = answer(terminal, "\x1b")  # help is gone again: the whole stage is sent
        terminal.resize((119, 40))
        first = terminal.read(2.0)
        resize = len(first + terminal.settle(0.3))
        jumps = [pair for pair in jumps if pair[1]]
    times = {program: [ms for ms, _ in pairs] for program, pairs in taken.items()}
    return {
        "step p50": percentile(times["explorer"], 0.5),
        "step p95": percentile(times["explorer"], 0.95),
        "minimal p50": percentile(times["minimal"], 0.5),
        "minimal p95": percentile(times["minimal"], 0.95),
        "drawn p50": percentile(times["drawn"], 0.5),
        "drawn p95": percentile(times["drawn"], 0.95),
        "jump p95": percentile([ms for ms, _ in jumps], 0.95),
        "bytes": statistics.median(size for _, size in taken["explorer"]),
        "repaint": repaint,
        "resize": resize,
        "silence": silence,
    }


def slow_link(name: str, scratch: str) -> float:
    """Seconds until the screen stands still after a key, playing at 10 frames a second over a link of 50 KiB/s."""
    with RealTerminal(notes_tui(name), environment(scratch, NOTES_TUI_FPS="10")) as terminal:
        recorded(terminal)
        scrubber = terminal.text().splitlines()[-2]
        steps = int(re.findall(r"\d/([0-9,]+)", scrubber)[-1].replace(",", ""))
        terminal.send("+++ ")  # eight times as fast: every frame shows another step
        link = _Link(terminal)
        link.carry(min(3.0, 0.6 * steps / 16))  # it still plays then
        terminal.send(" ")
        sent = time.perf_counter()
        last = link.carry(5.0, until_quiet=0.3)
        return max(0.0, last - sent)


class _Link:
    """Carries what the terminal writes at `LINK` bytes a second, a block of at most 1 KiB at a time."""

    def __init__(self, terminal: RealTerminal) -> None:
        self.terminal = terminal

    def carry(self, seconds: float, until_quiet: float | None = None) -> float:
        """Carry for ``seconds`` or until nothing came for a while; returns when the last block had passed."""
        end, last = time.perf_counter() + seconds, time.perf_counter()
        while time.perf_counter() < end:
            wait = until_quiet if until_quiet is not None else 0.05
            block = self.read(min(wait, max(0.0, end - time.perf_counter())))
            if block:
                time.sleep(len(block) / LINK)
                last = time.perf_counter()
            elif until_quiet is not None:
                break
        return last

    def read(self, seconds: float) -> bytes:
        import select

        ready, _, _ = select.select([self.terminal.master], [], [], seconds)
        block = os.read(self.terminal.master, 1024) if ready else b""
        self.terminal.raw += block
        return block


def while_recording(scratch: str) -> list[float]:
    """Milliseconds until a step's number is on the terminal, for steps taken while a long recording goes on beside it."""
    target = ["order_book", "--set", "events=20000"]
    taken: list[float] = []
    for _ in range(RECORDINGS):
        taken += one_recording(target, scratch)
    return taken


def one_recording(target: list[str], scratch: str) -> list[float]:
    taken = []
    with RealTerminal(notes_tui(*target), environment(scratch)) as terminal:
        terminal.wait_for(lambda text: "recording" in text and " 1/" in text, seconds=60)
        for number in range(2, 200):
            terminal.text()
            sent = time.perf_counter()
            terminal.send(RIGHT)
            arrived = None
            while arrived is None and time.perf_counter() < sent + 5:
                terminal.settle(0.04, 0.3)
                arrived = terminal.when(f"Step {number:,} of")
            taken.append(((arrived or time.perf_counter()) - sent) * 1000)
            if "recording" not in terminal.text():
                break
    return taken[:-1]


def exceeded(name: str, row: dict[str, float]) -> list[str]:
    """What ``row`` exceeds. Milliseconds of a machine on which even the minimal app is slow are told, and count as a ratio."""
    quick = row["minimal p95"] <= QUICK
    found = []
    for key, limit in LIMITS.items():
        if row.get(key, 0.0) > limit and (quick or key not in ("step p95", "jump p95")):
            found.append(f"{name}: {key} {row[key]:.4g} > {limit:g}")
    for peer, most in (("minimal", RATIO), ("drawn", 1.0)):
        ratio = row["step p95"] / row[f"{peer} p95"]
        if ratio > most:
            found.append(f"{name}: a step takes {ratio:.2f} x the {peer} app's (p95), limit {most:g}")
    if row["silence"]:
        found.append(f"{name}: {row['silence']:g} bytes in a paused second")
    return found


def main() -> int:
    chosen = sys.argv[1:] or list(names())
    broken = []
    times = ("step p50", "step p95", "minimal p50", "minimal p95", "drawn p50", "drawn p95", "jump p95")
    columns = (*times, "bytes", "repaint", "resize", "silence", "link")
    units = (*["ms"] * len(times), "B/step", "B", "B", "B/s", "s")
    print(f"{'120x40, true colour':<26}" + "".join(f"{name:>12}" for name in columns))
    print(f"{'':<26}" + "".join(f"{unit:>12}" for unit in units))
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen:
            try:
                row = stepping(name, scratch) | {"link": slow_link(name, scratch)}
            except RuntimeError as error:
                broken.append(f"{name}: {str(error)[:300]}")
                continue
            rows.append(row)
            shown = {column: f"{row[column]:.3g}" if column == "link" else f"{row[column]:.1f}" for column in columns}
            print(f"{name:<26}" + "".join(f"{text:>12}" for text in shown.values()), flush=True)
            broken += exceeded(name, row)
        recording = while_recording(scratch)
    for peer in ("minimal", "drawn"):
        for share in ("p50", "p95"):
            ratios = [row[f"step {share}"] / row[f"{peer} {share}"] for row in rows]
            print(f"step / {peer}, {share}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    slow = sum(row["minimal p95"] > QUICK for row in rows)
    if slow:
        print(
            f"in {slow} of {len(rows)} the minimal app took more than {QUICK:g} ms itself: milliseconds say little about the explorer there"
        )
    if recording:
        worst = percentile(recording, 0.95)
        print(f"a step while recording: p50 {percentile(recording, 0.5):.1f} ms, p95 {worst:.1f} ms ({len(recording)} steps)")
        broken += [f"while recording: {worst:.1f} ms > {LIMITS['recording p95']:g}"] if worst > LIMITS["recording p95"] else []
    else:
        print("the recording ended before a step could be taken beside it")
    print("\n".join(["limits exceeded:", *broken]) if broken else "all limits held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
