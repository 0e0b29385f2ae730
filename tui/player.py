"""Plays a recording: which step is shown, derived from elapsed time and never from counted ticks.

Stepping stops at every step. Playing shows happenings: of steps that belong together (the fills of one taker) only the last.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.recording import Recording

if TYPE_CHECKING:
    from core.search import Condition, Found

STEPS_PER_SECOND = 2.0
"""Steps a second at speed 1: slow enough to read a title."""

SPEEDS: tuple[float, ...] = (0.25, 0.5, *(float(2**k) for k in range(15)))


class Player:
    """The playhead of one recording. ``clock`` gives seconds; tests inject their own."""

    def __init__(self, recording: Recording, clock: Callable[[], float] = time.monotonic) -> None:
        self.recording = recording
        self.step = 0
        self.playing = False
        self.speed = 1.0
        self.bookmarks: tuple[int, ...] = ()
        self.found: Found | None = None
        self._clock = clock
        self._anchor = (0.0, 0)
        self._wanted: int | None = None

    # where ---------------------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The last step that is published (0 when there is none yet)."""
        return max(len(self.recording) - 1, 0)

    @property
    def at_end(self) -> bool:
        return self.recording.state != "recording" and self.step >= self.last

    def tick(self) -> int:
        """The step to show now. Playing stops at the end of a finished recording and waits at that of a growing one.

        While playing it is always the last step of a happening, and every happening takes equally long.
        """
        if self._wanted is not None:
            self._reach_wanted()
        if self.playing:
            since, first = self._anchor
            growing, joins = self.recording.state == "recording", self.recording.joins
            shown = joins.number(first) + int((self._clock() - since) * STEPS_PER_SECOND * self.speed)
            end = joins.number(self.last) - (growing and len(joins) > 0)  # the newest happening may not be whole yet
            if shown < end:
                self.step = joins.last(shown)
            elif growing:
                self.step = max(min(joins.last(end), self.last), 0) if end >= joins.number(first) else self.step
                self._drop_anchor()
            else:
                self.step = self.last
                self.playing = False
        return self.step

    def seek(self, step: int) -> int:
        """Go to ``step``, within what is recorded; playing goes on from there."""
        self._wanted = None
        self.step = min(max(step, 0), self.last)
        self._drop_anchor()
        return self.step

    def want(self, step: int) -> None:
        """Go to ``step`` as soon as it is recorded (and to the last step if it never is)."""
        self._wanted = max(step, 0)
        self._reach_wanted()

    def move(self, steps: int) -> int:
        return self.seek(self.tick() + steps)

    def far(self, direction: int) -> int:
        """Ten percent of the steps, at least one."""
        return self.move(direction * max(1, round(len(self.recording) / 10)))

    def tenth(self, n: int) -> int:
        return self.seek(round(self.last * n / 10))

    def phase(self, direction: int) -> int:
        """The start of the next phase (the end after the last one); back: of this phase, then of the one before."""
        here = self.tick()
        firsts = [0, *(phase.first for phase in self.recording.phases)]
        if direction > 0:
            return self.seek(min((first for first in firsts if first > here), default=self.last))
        return self.seek(max((first for first in firsts if first < here), default=0))

    # time ----------------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Start; from the first step again when it stands at the end."""
        if self.at_end:
            self.step = 0
        self.playing = True
        self._wanted = None
        self._drop_anchor()

    def pause(self) -> None:
        self.tick()
        self.playing = False

    def toggle(self) -> None:
        if self.playing:
            self.pause()
        else:
            self.play()

    def change_speed(self, direction: int) -> float:
        self.tick()
        at = SPEEDS.index(self.speed) + direction
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]
        self._drop_anchor()
        return self.speed

    # marks and searches --------------------------------------------------------------------------------------------

    def toggle_bookmark(self) -> bool:
        """Bookmark this step, or remove its bookmark; True when it is bookmarked now."""
        here = self.tick()
        if here in self.bookmarks:
            self.bookmarks = tuple(step for step in self.bookmarks if step != here)
            return False
        self.bookmarks = tuple(sorted({*self.bookmarks, here}))
        return True

    def find(self, query: str) -> int | None:
        """Remember ``query`` and go to its first match from here on (this step included), else around the end; None without one.

        BadInput for a tag name the recording lacks.
        """
        from core.search import find

        self.found = find(self.recording, query)
        return self._go(self.found.next(self.tick() - 1, 1))

    def find_again(self, direction: int) -> int | None:
        """The next or previous match of the last query, around the ends."""
        if self.found is None:
            return None
        from core.search import find

        if self.found.length != len(self.recording):
            self.found = find(self.recording, self.found.query)
        return self._go(self.found.next(self.tick(), direction))

    def run_until(self, condition: Condition, direction: int) -> int | None:
        """Go to the nearest step on (or back) at which ``condition`` comes to hold; None when there is none recorded."""
        return self._go(condition.next(self.recording, self.tick(), direction))

    def _go(self, step: int | None) -> int | None:
        if step is not None:
            self.playing = False
            self.seek(step)
        return step

    def _drop_anchor(self) -> None:
        self._anchor = (self._clock(), self.step)

    def _reach_wanted(self) -> None:
        if self._wanted is None:
            return
        self.step = min(self._wanted, self.last)
        self._drop_anchor()
        if self.step == self._wanted or self.recording.state != "recording":
            self._wanted = None
