"""Short turns of the interpreter while any thread works beside the screen: keys wait for the end of a turn."""

from __future__ import annotations

import sys
import threading

SWITCH_INTERVAL = 0.0003
"""Seconds a working thread may hold the interpreter: keys stay at 8 to 11 ms instead of 24 to 34."""


class ShortTurns:
    """Counts who works; the first begins the short turns, the last gives the usual ones back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._usual = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._working:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_INTERVAL)
            self._working += 1

    def end(self) -> None:
        with self._lock:
            self._working -= 1
            if not self._working:
                sys.setswitchinterval(self._usual)


SHORT_TURNS = ShortTurns()
"""Those of this process: the interval belongs to the interpreter, not to a screen."""
