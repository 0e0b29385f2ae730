"""Keys go first: while one is being answered, threads that record wait between two steps."""

from __future__ import annotations

import threading


class RightOfWay:
    """Taken when a key arrives, given back once the step it leads to is painted; who records asks between two steps whether to wait."""

    LONGEST = 0.05
    """Seconds that a recording waits for one key at most: not every key moves the playhead."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._answered = True

    @property
    def free(self) -> bool:
        """Whether the last key has been answered. One that did not move the playhead never is."""
        return self._answered

    def take(self) -> None:
        self._answered = False
        self._free.clear()

    def give_back(self) -> None:
        self._answered = True
        self._free.set()

    def wait(self) -> None:
        """Return when no key is being answered, or after `LONGEST`. The key may still be on its way then; nobody waits for it again."""
        if not self._free.wait(self.LONGEST):
            self._free.set()
