"""What stepping costs on a real terminal: key to paint, bytes a step, a full repaint, silence, a slow link.

    python tests/bench/bench_terminal.py [NAME …]

Each scenario opens on a pseudo-terminal of 120x40 in true colour. Key to paint is the time from writing a key until the
last byte of the answer has been read.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tui" / "terminal"))

from real_terminal import RealTerminal, notes_tui

from core.scenario import names

RIGHT, LEFT, HOME, END = "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F"
STEPS = 60
RECORDINGS = 4
QUIET = 0.06
LINK = 50 * 1024
LIMITS = {"step p95": 10.0, "jump p95": 30.0, "recording p95": 40.0, "bytes": 3072, "repaint": 20480, "link": 0.5}


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
    """Wait until the stage is drawn and nothing more arrives."""
    terminal.wait_for(lambda text: "✓" in text or "✗" in text, seconds=90)
    terminal.settle(0.5, 60)


def stepping(name: str, scratch: str) -> dict[str, float]:
    """Single steps, jumps, a full repaint and silence in one scenario."""
    with RealTerminal(notes_tui(name), environment(scratch)) as terminal:
        recorded(terminal)
        for _ in range(5):
            answer(terminal, RIGHT)
        steps = [answer(terminal, RIGHT) for _ in range(STEPS)] + [answer(terminal, LEFT) for _ in range(STEPS // 2)]
        draw = random.Random(0)
        jumps = [answer(terminal, key) for key in [END, HOME, *(str(draw.randrange(10)) for _ in range(20))]]
        terminal.settle(0.3)
        silence = len(terminal.read(1.0))
        answer(terminal, "?")
        _, repaint = answer(terminal, "\x1b")  # help is gone again: the whole stage is sent
        terminal.resize((119, 40))
        first = terminal.read(2.0)
        resize = len(first + terminal.settle(0.3))
        steps = [pair for pair in steps if pair[1]]
        jumps = [pair for pair in jumps if pair[1]]
    return {
        "step p50": percentile([ms for ms, _ in steps], 0.5),
        "step p95": percentile([ms for ms, _ in steps], 0.95),
        "jump p95": percentile([ms for ms, _ in jumps], 0.95),
        "bytes": statistics.median(size for _, size in steps),
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


def main() -> int:
    chosen = sys.argv[1:] or list(names())
    broken = []
    columns = ("step p50", "step p95", "jump p95", "bytes", "repaint", "resize", "silence", "link")
    print(f"{'120x40, true colour':<34}" + "".join(f"{name:>11}" for name in columns))
    print(f"{'':<34}" + "".join(f"{unit:>11}" for unit in ("ms", "ms", "ms", "B/step", "B", "B", "B/s", "s")))
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen:
            try:
                row = stepping(name, scratch) | {"link": slow_link(name, scratch)}
            except RuntimeError as error:
                broken.append(f"{name}: {str(error)[:300]}")
                continue
            print(f"{name:<34}" + "".join(f"{row[column]:>11.3g}" if column == "link" else f"{row[column]:>11.1f}" for column in columns))
            broken += [f"{name}: {key} {row[key]:.4g} > {limit:g}" for key, limit in LIMITS.items() if key in row and row[key] > limit]
            if row["silence"]:
                broken.append(f"{name}: {row['silence']} bytes in a paused second")
        recording = while_recording(scratch)
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
