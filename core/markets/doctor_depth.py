"""The doctor on market-by-price files: clocks of each stream, gaps in the updates, crossed books, quantities."""

from __future__ import annotations

from collections import Counter

from core.errors import BadInput
from core.markets.depth_book import DepthBook
from core.markets.doctor import Patient, Progress, Report
from core.markets.doctor_clocks import Clocks
from core.markets.readers import forms
from core.markets.readers.forms import MESSAGE_NAMES, DepthEvents, DepthFile

LARGE = 2**31


class DepthCounts:
    """Everything counted over a stream of market-by-price messages."""

    def __init__(self) -> None:
        self.book = DepthBook()
        self.kinds: Counter[int] = Counter()
        self.back: Counter[int] = Counter()
        self.latest: dict[int, int] = {}
        self.crossed = self.one_sided = self.books = self.gaps = self.repeats = self.not_positive = self.large = self.unsigned = 0
        self.first_gap = self.events = 0
        self.volume = 0.0
        self._update = 0

    def see(self, block: DepthEvents) -> None:
        """Apply a block to the book and count."""
        import numpy as np

        for kind in np.unique(block.kind).tolist():
            times = block.time[block.kind == kind]
            self.kinds[kind] += len(times)
            self.back[kind] += int((np.diff(times, prepend=self.latest.get(kind, times[0])) < 0).sum())
            self.latest[kind] = int(times[-1])
        printed = block.kind == forms.PRINT
        self.volume += float(block.size[printed].sum())
        self.unsigned += int((printed & (block.side == 0)).sum())
        self.not_positive += int((block.level_price <= 0).sum()) + int((printed & (block.price <= 0)).sum())
        self.large += int((block.level_size >= LARGE).sum()) + int((block.size >= LARGE).sum())
        self._chain(block)
        self._books(block)
        self.events += len(block)

    def _chain(self, block: DepthEvents) -> None:
        """Each change of levels names the update that it follows."""
        import numpy as np

        for at in np.flatnonzero((block.kind == forms.DELTA) & (block.previous > 0)).tolist():
            update, previous = int(block.update[at]), int(block.previous[at])
            if self._update and previous != self._update:
                if update <= self._update:
                    self.repeats += 1
                    continue
                self.gaps += 1
                self.first_gap = self.first_gap or self.events + at + 1
            self._update = update

    def _books(self, block: DepthEvents) -> None:
        kinds, updates, first = block.kind.tolist(), block.update.tolist(), block.first.tolist()
        sides, prices, sizes = block.level_side.tolist(), block.level_price.tolist(), block.level_size.tolist()
        for at, (kind, update) in enumerate(zip(kinds, updates, strict=True)):
            low, high = first[at], first[at + 1]
            if kind == forms.PRINT and low == high:
                continue
            self.book.apply(kind, update, sides[low:high], prices[low:high], sizes[low:high])
            bid, ask = self.book.best(1), self.book.best(-1)
            self.books += 1
            if bid is None or ask is None:
                self.one_sided += bid is not ask
            else:
                self.crossed += bid >= ask


def examine_depth(file: DepthFile, progress: Progress) -> Report:
    """A file of levels, quotes or trades."""
    header = file.header
    patient = Patient(header.path, header.format, header.symbol)
    counts = DepthCounts()
    clocks = Clocks(header.clock, "")
    broken: BadInput | None = None
    try:
        for block in file.blocks():
            clocks.see(block.time, block.received)
            counts.see(block)
            progress(file.done, "looking at messages")
    except BadInput as error:
        broken = error
    if broken is not None:
        patient.broken(broken)
    if header.note:
        patient.tell("instruments", header.note)
    clocks.time_unit = getattr(file, "time_unit", "") or header.time_unit
    clocks.mixed = len(counts.kinds) > 1
    clocks.tell(patient)
    expected = "µs" if header.format.startswith("Tardis") else ""
    if expected and clocks.timed:
        patient.judge(
            "time unit is that of the format", clocks.time_unit == expected, clocks.time_unit == expected, note=f"{expected} is usual"
        )
    for kind, count in sorted(counts.kinds.items()):
        patient.tell(f"messages: {MESSAGE_NAMES[kind]}", count)
        if clocks.mixed:
            patient.count(f"exchange times that go back within {MESSAGE_NAMES[kind]}", counts.back[kind])
    if counts.kinds[forms.DELTA]:
        note = f"the first is message {counts.first_gap:,}; after it the book is a guess until the next snapshot"
        patient.count("gaps in the updates", counts.gaps, note)
        patient.count("updates sent again", counts.repeats)
    if counts.books:
        patient.count("books crossed or locked", counts.crossed, f"of {counts.books:,}")
        patient.tell("one-sided books", counts.one_sided)
    if counts.kinds[forms.PRINT]:
        patient.tell("volume", counts.volume)
        patient.tell("trades without a side", counts.unsigned)
    if counts.not_positive:
        patient.tell("prices of 0 or below", counts.not_positive, note="usual for spreads, wrong for anything else")
    if counts.large:
        patient.tell("quantities of 2^31 or more", counts.large)
    patient.tell("what is known of queues", "estimated", note="levels only: the orders behind a quantity are not in the file")
    return patient.report
