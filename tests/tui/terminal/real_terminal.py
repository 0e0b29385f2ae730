"""A program in a real pseudo-terminal: what it sends, what the screen shows, what it leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

# sequences that pyte would print as text: keyboard protocols (CSI > … u), mode queries (CSI ? … $ p), strings (DCS, APC, OSC)
_UNKNOWN = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\??[0-9;]*\$[a-zA-Z]|\x1b[P_\]][^\x1b\x07]*(?:\x1b\\|\x07)")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*|[P_\]][^\x1b\x07]*)?$")


class RealTerminal:
    """Starts ``command`` on a terminal of ``size`` (columns, rows) and reads what it writes.

    ``raw`` holds all bytes so far. Use as a context manager; whatever still runs at the end is killed.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (120, 40), cwd: str | None = None) -> None:
        self.size = size
        self.raw = bytearray()
        self.arrivals: list[tuple[float, int]] = []
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._kept = b""
        self.master, self._slave = pty.openpty()
        self._set_size(size)
        self.before = termios.tcgetattr(self._slave)
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            list(command), stdin=self._slave, stdout=self._slave, stderr=self._slave, env=dict(env), cwd=cwd,
            start_new_session=True, preexec_fn=_own_terminal,
        )  # fmt: skip

    def __enter__(self) -> RealTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self.master)
        os.close(self._slave)

    # writing -----------------------------------------------------------------------------------------------------

    def send(self, keys: bytes | str) -> None:
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, size: tuple[int, int]) -> None:
        """Change the terminal's size; the kernel tells the program with SIGWINCH."""
        self.size = size
        self._screen.resize(size[1], size[0])
        self._set_size(size)

    def _set_size(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    # reading -----------------------------------------------------------------------------------------------------

    def read(self, seconds: float = 0.0) -> bytes:
        """What arrives within ``seconds``; returns with the first block that arrives."""
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return b""
        try:
            block = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.raw += block
        self.arrivals.append((time.perf_counter(), len(self.raw)))
        return block

    def settle(self, quiet: float = 0.15, longest: float = 5.0) -> bytes:
        """Read until nothing has arrived for ``quiet`` seconds; returns what did."""
        end, received = time.monotonic() + longest, b""
        while time.monotonic() < end:
            block = self.read(quiet)
            if not block:
                break
            received += block
        return received

    def wait_for(self, wanted: str | Callable[[str], bool], seconds: float = 15.0) -> str:
        """Read until the screen contains ``wanted`` (text, or a test of the text); returns the screen."""
        end = time.monotonic() + seconds
        fits = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        while True:
            self._draw()
            text = self.text()
            if fits(text):
                return text
            left = end - time.monotonic()
            if left <= 0 or (not self.read(min(left, 0.1)) and self.process.poll() is not None and not self.read(0)):
                what = repr(wanted) if isinstance(wanted, str) else "what was wanted"
                raise AssertionError(f"the screen never showed {what} (exit {self.process.poll()}):\n{text}")

    def wait_bytes(self, wanted: bytes, seconds: float = 15.0, start: int = 0) -> float:
        """Read until ``wanted`` has arrived after offset ``start``; returns the seconds since the program started."""
        end = time.monotonic() + seconds
        while wanted not in self.raw[start:]:
            arrived = self.read(0.05)
            if time.monotonic() > end or (not arrived and self.process.poll() is not None):
                raise AssertionError(f"{wanted!r} never arrived (exit {self.process.poll()}); last: {bytes(self.raw[-300:])!r}")
        return time.perf_counter() - self.started

    def wait_exit(self, seconds: float = 10.0) -> int:
        """Read until the program has ended; returns its exit status (negative: the signal that killed it)."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise AssertionError("the program did not end")
            self.read(0.02)
        self.settle(0.05)
        return int(self.process.returncode)

    def when(self, wanted: str) -> float | None:
        """When (`time.perf_counter`) the block arrived that brought ``wanted`` to the screen; None when it is not there.

        Looks only at what was read since the screen was last asked for.
        """
        for arrived, end in self.arrivals:
            if end > self._drawn:
                self._draw(end)
                if wanted in "\n".join(self._screen.display):
                    return arrived
        return None

    def text(self) -> str:
        """The screen as lines of text, trailing blanks removed."""
        self._draw()
        return "\n".join(line.rstrip() for line in self._screen.display)

    @property
    def cooked(self) -> bool:
        """Whether the terminal's modes are those from before the program started."""
        return termios.tcgetattr(self._slave) == self.before

    def _draw(self, end: int | None = None) -> None:
        """Feed the screen with what has arrived since last time, up to a sequence that is still incomplete."""
        end = len(self.raw) if end is None else end
        fresh = self._kept + bytes(self.raw[self._drawn : end])
        self._drawn = end
        cut = _UNFINISHED.search(fresh)
        self._kept = fresh[cut.start() :] if cut else b""
        self._stream.feed(_UNKNOWN.sub(b"", fresh[: cut.start()] if cut else fresh))

    _drawn = 0


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def notes_tui(*args: str) -> list[str]:
    """The command that starts the explorer with this interpreter."""
    return [sys.executable, "-m", "tui.cli", *args]
