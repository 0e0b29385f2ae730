"""The doctor's look at clocks: order, gaps, and the skew between the exchange's clock and the receiver's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.doctor import Patient
from core.markets.readers.clock import DAY, clock_text

if TYPE_CHECKING:
    import numpy as np

_YEAR_1990, _YEAR_2100 = 631_152_000_000_000_000, 4_102_444_800_000_000_000
_SAMPLE = 200_000


class Clocks:
    """Sees times block by block: ``time`` by the exchange, ``received`` by the receiver (0: unknown), in nanoseconds."""

    def __init__(self, clock: str, time_unit: str) -> None:
        self.clock, self.time_unit = clock, time_unit
        self.mixed = False  # several streams, each with its own order
        self.events = self.back = self.received_back = self.timed = self.early = 0
        self.first = self.last = self.latest = self.latest_received = 0
        self.gap, self.gap_at = 0, 0
        self.first_back = -1
        self._skews: list[np.ndarray] = []
        self._kept = 0

    def see(self, time: np.ndarray, received: np.ndarray, counts: np.ndarray | None = None) -> None:
        """``counts`` (events,) bool: which times are of this file's own time, not of a state sent before it begins."""
        import numpy as np

        if not len(time):
            return
        own = np.ones(len(time), dtype=bool) if counts is None else counts
        mine = time[own]
        if len(mine):
            before = self.latest if self.events else int(mine[0])
            steps = np.diff(mine, prepend=before)
            back = steps < 0
            if back.any() and self.first_back < 0:
                self.first_back = self.events + int(np.flatnonzero(own)[int(back.argmax())])
            self.back += int(back.sum())
            widest = int(steps.argmax())
            if (self.timed and steps[widest] > self.gap) or (not self.timed and len(steps) > 1 and steps.max() > self.gap):
                self.gap, self.gap_at = int(steps[widest]), int(mine[widest])
            if not self.timed:
                self.first = int(mine[0])
            self.latest = self.last = int(mine[-1])
            self.timed += len(mine)
        known = received > 0
        if known.any():
            arrived = received[known]
            self.received_back += int((np.diff(arrived, prepend=self.latest_received or arrived[0]) < 0).sum())
            self.latest_received = int(arrived[-1])
            skew = (received - time)[known & own]
            self.early += int((skew < 0).sum())
            if self._kept < _SAMPLE:
                self._skews.append(skew[: _SAMPLE - self._kept])
                self._kept += len(self._skews[-1])
        self.events += len(time)

    def tell(self, patient: Patient) -> None:
        """All findings about time."""
        import numpy as np

        patient.tell("events", self.events)
        if not self.timed:
            return
        if self.clock == "utc":
            patient.tell("first event", stamp(self.first), note="UTC")
            patient.tell("last event", stamp(self.last), note="UTC")
            patient.judge(
                "times are of a year that has markets", _YEAR_1990 < self.first < _YEAR_2100, _YEAR_1990 < self.first < _YEAR_2100
            )
        else:
            patient.tell("first event", clock_text(self.first), note="the exchange's own clock; the file has no date and no zone")
            patient.tell("last event", clock_text(self.last))
            patient.judge("times are within a day", self.last < DAY, self.last < DAY)
        patient.tell("time unit", self.time_unit)
        if self.mixed:
            patient.tell("exchange times that go back between streams", self.back)
        else:
            patient.count("exchange times that go back", self.back, f"the first is event {self.first_back + 1:,}")
        patient.tell("longest silence", self.gap / 1e9, "s", f"until {clock_text(self.gap_at % DAY)}")
        if self._kept:
            skews = np.concatenate(self._skews)
            median = float(np.median(skews)) / 1e9
            patient.count("receive times that go back", self.received_back)
            patient.tell("received after the exchange's time (median)", median, "s")
            note = f"received before it was sent: the local clock is {-float(np.median(skews)) / 1e9:.3g} s behind" if median < 0 else ""
            patient.judge("events received before they were sent", self.early, self.early == 0, note=note)


def stamp(nanoseconds: int) -> str:
    """A date and time UTC in words, to the millisecond."""
    import datetime

    whole, part = divmod(nanoseconds, 1_000_000_000)
    try:
        text = datetime.datetime.fromtimestamp(whole, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns after 1970"
    return f"{text}.{part // 1_000_000:03d}"
