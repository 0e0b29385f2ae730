"""Keys go first: while one is being answered, threads that record wait between two steps."""

from __future__ import annotations

import threading


class RightOfWay:
    """Taken when a key arrives and given back with the frame that answers it; who records asks between two steps whether to wait."""

    LONGEST = 0.05
    """Seconds that a recording waits for one key at most: not every key moves the playhead."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()
        self._acted = False

    @property
    def free(self) -> bool:
        return self._free.is_set()

    def take(self) -> None:
        self._acted = False
        self._free.clear()

    def acted(self) -> None:
        """The key has done what it does: the next frame shows it."""
        self._acted = True

    def give_back(self) -> None:
        """A frame was sent. One that was on its way before the key had acted does not answer it."""
        if self._acted:
            self._free.set()

    def wait(self) -> None:
        """Return when no key is being answered, or after `LONGEST`."""
        if not self._free.wait(self.LONGEST):
            self._free.set()
