"""Waits for what is to come on the screen, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.pilot import Pilot

LONGEST = 30.0
"""Seconds after which it will not come any more."""


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    """Let the app go on until ``holds``, and then once more, so that what follows from it is drawn."""
    end = time.monotonic() + LONGEST
    while not holds():
        assert time.monotonic() < end, "it never came"
        await pilot.pause(0.02)
    await pilot.pause()
