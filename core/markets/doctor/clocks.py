"""The doctor's look at clocks: order, gaps, and the skew between the exchange's clock and the receiver's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.formatting import clock_text
from core.markets.doctor.examine import Patient, Spot, Tally
from core.markets.readers.clock import DAY

if TYPE_CHECKING:
    import numpy as np

_YEAR_1990, _YEAR_2100 = 631_152_000_000_000_000, 4_102_444_800_000_000_000
_SAMPLE = 200_000
_BACK, _RECEIVED_BACK, _EARLY = "exchange times that go back", "receive times that go back", "events received before they were sent"


class Clocks:
    """Sees times block by block: ``time`` by the exchange, ``received`` by the receiver (0: unknown), in nanoseconds."""

    def __init__(self, clock: str, time_unit: str) -> None:
        self.clock, self.time_unit = clock, time_unit
        self.mixed = False  # several streams, each with its own order
        self.tally = Tally()
        self.events = self.timed = self.received = 0
        self.first = self.latest = self.latest_received = 0
        self.gap, self.gap_at, self.gap_spot = 0, 0, Spot()
        self._skews: list[np.ndarray] = []
        self._kept = 0

    def see(self, time: np.ndarray, received: np.ndarray, counts: np.ndarray | None = None, line: np.ndarray | None = None) -> None:
        """``counts`` (events,) bool: which times are of this file's own time, not of a state sent before it begins."""
        import numpy as np

        if not len(time):
            return
        own = np.ones(len(time), dtype=bool) if counts is None else counts
        if own.any():
            self._see_own(time, own, line)
        known = np.flatnonzero(received > 0)
        if len(known):
            self._see_received(time, received, known, own, line)
        self.events += len(time)

    def _see_own(self, time: np.ndarray, own: np.ndarray, line: np.ndarray | None) -> None:
        import numpy as np

        places = np.flatnonzero(own)
        mine = time[places]
        steps = np.diff(mine, prepend=self.latest if self.timed else mine[0])
        back = np.zeros(len(time), dtype=bool)
        back[places] = steps < 0
        self.tally.see(_BACK, back, self.events, line)
        widest = int(steps.argmax())
        if steps[widest] > self.gap:
            at = int(places[widest])
            self.gap, self.gap_at = int(steps[widest]), int(mine[widest])
            self.gap_spot = Spot(self.events + at, "" if line is None else f"line {line[at]:,}")
        if not self.timed:
            self.first = int(mine[0])
        self.latest = int(mine[-1])
        self.timed += len(mine)

    def _see_received(self, time: np.ndarray, received: np.ndarray, known: np.ndarray, own: np.ndarray, line: np.ndarray | None) -> None:
        import numpy as np

        arrived = received[known]
        back = np.zeros(len(time), dtype=bool)
        back[known] = np.diff(arrived, prepend=self.latest_received or arrived[0]) < 0
        self.tally.see(_RECEIVED_BACK, back, self.events, line)
        self.latest_received = int(arrived[-1])
        self.received += len(arrived)
        skew = received - time
        both = (received > 0) & own
        self.tally.see(_EARLY, both & (skew < 0), self.events, line)
        if self._kept < _SAMPLE:
            self._skews.append(skew[both][: _SAMPLE - self._kept])
            self._kept += len(self._skews[-1])

    def tell(self, patient: Patient) -> None:
        """All findings about time."""
        patient.tell("events", self.events)
        if not self.timed:
            return
        if self.clock == "utc":
            patient.tell("first event", stamp(self.first), note="UTC")
            patient.tell("last event", stamp(self.latest), note="UTC")
            sound = _YEAR_1990 < self.first < _YEAR_2100
            note = "a time of another unit, or of a clock that was not set"
            patient.judge("times are of a year that has markets", sound, sound, note=note, looked="the first event", first=Spot(0))
        else:
            patient.tell("first event", clock_text(self.first, 3), note="the exchange's own clock; the file has no date and no zone")
            patient.tell("last event", clock_text(self.latest, 3))
            sound = self.latest < DAY
            patient.judge("times are within a day", sound, sound, looked="the last event", first=Spot(self.events - 1))
        patient.tell("time unit", self.time_unit)
        everything = f"{self.timed:,} events in the order of the file"
        if self.mixed:
            first = self.tally.first(_BACK)
            patient.tell("exchange times that go back between streams", self.tally[_BACK], looked=everything, first=first)
        else:
            patient.count(_BACK, self.tally[_BACK], looked=everything, first=self.tally.first(_BACK))
        if self.timed > 1:
            until = f"until {clock_text(self.gap_at % DAY, 3)}" if self.gap else ""
            patient.tell("longest silence", self.gap / 1e9, "s", until, looked=everything, first=self.gap_spot)
        if self._kept:
            self._tell_skew(patient)

    def _tell_skew(self, patient: Patient) -> None:
        import numpy as np

        median = float(np.median(np.concatenate(self._skews))) / 1e9
        looked = f"{self.received:,} receive times"
        patient.count(_RECEIVED_BACK, self.tally[_RECEIVED_BACK], looked=looked, first=self.tally.first(_RECEIVED_BACK))
        kept = f"{self._kept:,} events" + (", the first of the file" if self._kept == _SAMPLE else "")
        patient.tell("received after the exchange's time (median)", median, "s", looked=kept)
        behind = f"the local clock is {-median:.3g} s behind: times of the two clocks must not be compared as they are"
        note = behind if median < 0 else "the clocks agree on the whole, but not to the last digit"
        patient.count(_EARLY, self.tally[_EARLY], note, looked=looked, first=self.tally.first(_EARLY))


def stamp(nanoseconds: int) -> str:
    """A date and time UTC in words, to the millisecond."""
    import datetime

    whole, part = divmod(nanoseconds, 1_000_000_000)
    try:
        text = datetime.datetime.fromtimestamp(whole, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{nanoseconds} ns after 1970"
    return f"{text}.{part // 1_000_000:03d}"
