"""Threads that run a simulation: one at a time, posting messages, never touching a widget."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

from textual.message import Message

from tui.right_of_way import RightOfWay
from tui.runs import Run

SWITCH_INTERVAL = 0.0003
"""Seconds a recording thread may hold the interpreter: keys stay at 8 to 11 ms instead of 24 to 34."""


class RunEnded(Message):
    """A run has been recorded, was abandoned, or failed (see ``run.error``)."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__()


class Recorders:
    """Starts runs one after the other, so that they do not share a processor, and shortens the switch interval meanwhile."""

    def __init__(self, post: Callable[[Message], object], keys: RightOfWay) -> None:
        self._post = post
        self._keys = keys
        self._turn = threading.Lock()
        self._waiting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._active = 0
        self._usual = sys.getswitchinterval()

    @property
    def busy(self) -> bool:
        return self._active > 0

    def start(self, run: Run) -> None:
        """Record ``run`` in a thread; `RunEnded` follows in any case."""
        with self._waiting:
            if not self._active:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_INTERVAL)
            self._active += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=self._record, args=(run,), name=f"record {run.label}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _record(self, run: Run) -> None:
        try:
            with self._turn:
                if run.recording.cancelled:
                    run.recording.state = "cancelled"
                    run.done = True
                else:
                    run.recording.between = self._keys.wait
                    run.record()
        finally:
            with self._waiting:
                self._active -= 1
                if not self._active:
                    sys.setswitchinterval(self._usual)
            self._post(RunEnded(run))

    def join(self, seconds: float) -> None:
        """Wait a little for abandoned runs, so that the interpreter does not end under them."""
        for thread in self._threads:
            thread.join(seconds)
