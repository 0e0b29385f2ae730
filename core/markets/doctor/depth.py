"""The doctor on market-by-price files: clocks of each stream, gaps in the updates, crossed books, quantities."""

from __future__ import annotations

from collections import Counter

from core.errors import BadInput
from core.markets.depth.book import DepthBook
from core.markets.doctor.clocks import Clocks
from core.markets.doctor.dbn import tell_numbering
from core.markets.doctor.examine import LARGE, LOW, MANY, Patient, Progress, Report, Spot, Tally
from core.markets.readers import forms
from core.markets.readers.forms import MESSAGE_NAMES, DepthEvents, DepthFile

_GAP, _AGAIN, _OLD = "gaps in the updates", "updates sent again", "updates older than the snapshot before them"
_LATE = "snapshots older than the updates before them"
_TRADE_GAP, _TRADE_AGAIN, _QUOTE_BACK = "gaps in the trade ids", "trades sent again", "update ids of best prices that go back"
_CROSSED, _ONE_SIDED = "books crossed or locked", "one-sided books"
_UNSIGNED = "trades without a side"


class DepthCounts:
    """Everything counted over a stream of market-by-price messages."""

    def __init__(self, numbered: bool) -> None:
        """``numbered``: trades and quotes carry the exchange's ids, trades without a gap (Binance)."""
        self.book, self.tally, self.numbered = DepthBook(), Tally(), numbered
        self.kinds: Counter[int] = Counter()
        self.events = self.books = 0
        self.volume = 0.0
        self._latest: dict[int, int] = {}
        self._update = self._snapshot = self._trade = self._quote = 0

    def see(self, block: DepthEvents) -> None:
        """Apply a block to the book and count."""
        import numpy as np

        see, base, line = self.tally.see, self.events, block.line
        for kind in np.unique(block.kind).tolist():
            places = np.flatnonzero(block.kind == kind)
            times = block.time[places]
            self.kinds[kind] += len(times)
            back = np.zeros(len(block), dtype=bool)
            back[places] = np.diff(times, prepend=self._latest.get(kind, times[0])) < 0
            see(_back_within(kind), back, base, line)
            self._latest[kind] = int(times[-1])
        printed = block.kind == forms.PRINT
        self.volume += float(block.size[printed].sum())
        see(_UNSIGNED, printed & (block.side == 0), base, line)
        see(LOW, printed & (block.price <= 0), base, line)
        see(MANY, block.size >= LARGE, base, line)
        owner = np.repeat(np.arange(len(block)), np.diff(block.first))
        for name, hit in ((LOW, block.level_price <= 0), (MANY, block.level_size >= LARGE)):
            for at in owner[hit].tolist():
                self.tally.add(name, base + at, line, at)
        if self.numbered:
            self._ids(block)
        self._chain(block)
        self._books(block)
        self.events += len(block)

    def _ids(self, block: DepthEvents) -> None:
        """Trades are numbered one by one; a quote's update id never goes back."""
        import numpy as np

        line = block.line
        for kind, again, name in ((forms.PRINT, _TRADE_AGAIN, _TRADE_GAP), (forms.QUOTE, _QUOTE_BACK, "")):
            places = np.flatnonzero((block.kind == kind) & (block.update > 0))
            if not len(places):
                continue
            ids = block.update[places]
            before = self._trade if kind == forms.PRINT else self._quote
            steps = np.diff(ids, prepend=before or ids[0] - 1)
            hit = np.zeros(len(block), dtype=bool)
            hit[places] = steps <= 0 if kind == forms.PRINT else steps < 0
            self.tally.see(again, hit, self.events, line)
            if name:
                hit[places] = steps > 1
                self.tally.see(name, hit, self.events, line)
                self._trade = max(self._trade, int(ids.max()))
            else:
                self._quote = int(ids[-1])

    def _chain(self, block: DepthEvents) -> None:
        """Each change of levels names the update that it follows; the first after a snapshot must reach back to it."""
        import numpy as np

        changes = (block.kind == forms.DELTA) & (block.update > 0)
        starts = (block.kind == forms.SNAPSHOT) & (block.update > 0)
        for at in np.flatnonzero(changes | starts).tolist():
            update, previous = int(block.update[at]), int(block.previous[at])
            if starts[at]:
                if update < self._update:
                    self.tally.add(_LATE, self.events + at, block.line, at)
                self._snapshot = update
                continue
            step = self.events + at
            if self._snapshot:
                if update <= self._snapshot:
                    self.tally.add(_OLD, step, block.line, at)
                    continue
                if previous > max(self._snapshot, self._update):
                    self.tally.add(_GAP, step, block.line, at)
                self._snapshot = 0
            elif self._update and update <= self._update:
                self.tally.add(_AGAIN, step, block.line, at)
                continue
            elif self._update and previous > 0 and previous != self._update:
                self.tally.add(_GAP, step, block.line, at)
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
            if kind == forms.QUOTE and _crossed(sides[low:high], prices[low:high]):
                self.tally.add(_CROSSED, self.events + at, block.line, at)  # the book drops a side of such a quote
            elif bid is None or ask is None:
                if bid is not ask:
                    self.tally.add(_ONE_SIDED, self.events + at, block.line, at)
            elif bid >= ask:
                self.tally.add(_CROSSED, self.events + at, block.line, at)


def _crossed(sides: list[int], prices: list[float]) -> bool:
    bids, asks = ([price for side, price in zip(sides, prices, strict=True) if side == mine] for mine in (1, -1))
    return bool(bids and asks) and max(bids) >= min(asks)


def _back_within(kind: int) -> str:
    return f"exchange times that go back within {MESSAGE_NAMES[kind]}"


def examine_depth(file: DepthFile, progress: Progress) -> Report:
    """A file of levels, quotes or trades."""
    header = file.header
    patient = Patient(header.path, header.format, header.symbol)
    counts = DepthCounts(header.format.startswith("Binance"))
    clocks = Clocks(header.clock, "")
    try:
        for block in file.blocks():
            clocks.see(block.time, block.received, line=block.line)
            counts.see(block)
            progress(file.done, "looking at messages")
    except BadInput as error:
        patient.broken(error, counts.events)
    if not counts.events and not patient.findings:
        patient.judge("holds events", False, False, note=f"nothing of {header.symbol or 'any instrument'}", looked="every line")
    if header.note:
        patient.tell("instruments", header.note)
    clocks.time_unit = getattr(file, "time_unit", "") or header.time_unit
    clocks.mixed = len(counts.kinds) > 1
    clocks.tell(patient)
    if header.format.startswith("Tardis") and clocks.timed:
        sound = clocks.time_unit == "µs"
        patient.judge(
            "time unit is that of the format", sound, sound, note="µs is usual", looked="the digits of the first time", first=Spot(0)
        )
    _tell_messages(patient, counts, clocks.mixed)
    for kind, passed in sorted(getattr(file, "passed_over", {}).items()):
        patient.tell(f"messages passed over: {kind}", passed)
    late = getattr(file, "late_snapshots", 0)
    if late:
        patient.tell("snapshots that came late", late, note="the newer updates before them were laid over them, as the exchange prescribes")
    untimed = getattr(file, "untimed", 0)
    if untimed:
        patient.tell("messages without a time", untimed, note="each stands at the time of the message before it")
    if header.format.startswith("Databento"):
        tell_numbering(patient, header)
    _tell_ids(patient, counts)
    _tell_books(patient, counts)
    patient.tell("what is known of queues", "estimated", note="levels only: the orders behind a quantity are not in the file")
    return patient.report


def _tell_messages(patient: Patient, counts: DepthCounts, mixed: bool) -> None:
    for kind, count in sorted(counts.kinds.items()):
        patient.tell(f"messages: {MESSAGE_NAMES[kind]}", count)
        if mixed:
            name = _back_within(kind)
            patient.count(name, counts.tally[name], looked=f"{count:,} messages", first=counts.tally.first(name))


def _tell_ids(patient: Patient, counts: DepthCounts) -> None:
    tally, kinds = counts.tally, counts.kinds
    if kinds[forms.DELTA]:
        looked = f"{kinds[forms.DELTA]:,} changes of levels, each against the update it says it follows"
        note = "from there on the book is a guess until the next snapshot"
        patient.count(_GAP, tally[_GAP], note, looked=looked, first=tally.first(_GAP))
        patient.count(_AGAIN, tally[_AGAIN], looked=looked, first=tally.first(_AGAIN))
        if kinds[forms.SNAPSHOT]:
            note = "they were sent before the snapshot was taken and must not change it"
            patient.count(_OLD, tally[_OLD], note, looked=looked, first=tally.first(_OLD))
            looked = f"{kinds[forms.SNAPSHOT]:,} snapshots"
            note = "what changed between the two is lost until those levels change again"
            patient.count(_LATE, tally[_LATE], note, looked=looked, first=tally.first(_LATE))
    if counts.numbered and kinds[forms.PRINT]:
        looked = f"{kinds[forms.PRINT]:,} trades, numbered one by one"
        patient.count(_TRADE_GAP, tally[_TRADE_GAP], "trades are missing there", looked=looked, first=tally.first(_TRADE_GAP))
        patient.count(_TRADE_AGAIN, tally[_TRADE_AGAIN], looked=looked, first=tally.first(_TRADE_AGAIN))
    if counts.numbered and kinds[forms.QUOTE]:
        looked = f"{kinds[forms.QUOTE]:,} quotes"
        patient.count(_QUOTE_BACK, tally[_QUOTE_BACK], looked=looked, first=tally.first(_QUOTE_BACK))


def _tell_books(patient: Patient, counts: DepthCounts) -> None:
    tally = counts.tally
    if counts.books:
        looked = f"{counts.books:,} books, after every message"
        patient.count(_CROSSED, tally[_CROSSED], f"of {counts.books:,}", looked=looked, first=tally.first(_CROSSED))
        patient.tell(_ONE_SIDED, tally[_ONE_SIDED], looked=looked, first=tally.first(_ONE_SIDED))
    if counts.kinds[forms.PRINT]:
        patient.tell("volume", counts.volume)
        patient.tell(_UNSIGNED, tally[_UNSIGNED], first=tally.first(_UNSIGNED))
        patient.tell("share of hidden volume", None, note="the file does not say which trades met hidden orders")
    patient.tell_odd_numbers(tally)
