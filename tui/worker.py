"""Threads that run a simulation: one at a time, posting messages, never touching a widget."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from tui.right_of_way import RightOfWay
from tui.runs import Run
from tui.short_turns import SHORT_TURNS


class RunEnded(Message):
    """A run has been recorded, was abandoned, or failed (see ``run.error``)."""

    def __init__(self, run: Run) -> None:
        self.run = run
        super().__init__()


class Recorders:
    """Starts runs one after the other, so that they do not share a processor, with short turns of the interpreter meanwhile."""

    def __init__(self, post: Callable[[Message], object], keys: RightOfWay) -> None:
        self._post = post
        self._keys = keys
        self._turn = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self, run: Run) -> None:
        """Record ``run`` in a thread; `RunEnded` follows in any case."""
        SHORT_TURNS.begin()
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
            SHORT_TURNS.end()
            self._post(RunEnded(run))

    def join(self, seconds: float) -> None:
        """Wait a little for abandoned runs, so that the interpreter does not end under them."""
        for thread in self._threads:
            thread.join(seconds)
