"""The doctor on market-by-order files: ids, queues, ghosts, crossed books, hidden volume."""

from __future__ import annotations

from core.errors import BadInput
from core.markets.doctor.clocks import Clocks
from core.markets.doctor.dbn import tell_numbering
from core.markets.doctor.examine import LARGE, LOW, MANY, NOWHERE, Patient, Progress, Report, Spot, Tally
from core.markets.events import book as mark
from core.markets.events.book import NO_PRICE, Effects, EventBook
from core.markets.events.judge import EventJudge, knowledge_of_queues
from core.markets.readers import forms
from core.markets.readers.forms import OrderEvents, OrderFile, whole_events
from core.markets.readers.streams import Stream

BLOCK = 4_000
"""Events at a time: a screen that waits must not miss the interpreter for longer than some milliseconds."""
ITCH_END = 14
"""Bytes of a system event with its prefix."""
DUPLICATE, UNKNOWN, TOO_MUCH = "adds of an id that rests already", "events about unknown orders", "more taken than rested"
NEGATIVE, SIDELESS = "negative quantities", "orders without a side"
ONE_SIDED, GHOSTS = "one-sided books", "ghost orders: events that trade past a better price"
CROSSED, IN_AUCTION = "books crossed or locked outside an auction", "books crossed or locked in an auction"
UNEVEN = "events whose fills of resting orders are not its trades"
_NAMES = {mark.DUPLICATE: DUPLICATE, mark.UNKNOWN: UNKNOWN, mark.TOO_MUCH: TOO_MUCH, mark.OUT_OF_TURN: "out of turn"}


class OrderCounts:
    """Everything counted over a stream of market-by-order events."""

    def __init__(self) -> None:
        self.book, self.judge, self.tally = EventBook(), EventJudge(), Tally()
        self.marks = dict.fromkeys(range(10), 0)
        self.volume = self.hidden = self.trades = self.snapshot = self.halts = self.crosses = self.auctions = 0
        self.events = 0

    def see(self, events: OrderEvents) -> Effects:
        """Apply a block to the book and count."""
        import numpy as np

        effects = self.book.run(events)
        for bit in self.marks:
            hit = (effects.marks & (1 << bit)) > 0
            self.marks[bit] += int(hit.sum())
            if 1 << bit in _NAMES:
                self.tally.see(_NAMES[1 << bit], hit, self.events)
        trade = np.isin(events.action, (forms.TRADE, forms.EXECUTE, forms.HIDDEN))
        self.trades += int(trade.sum())
        self.volume += int(events.size[trade].sum())
        self.hidden += int(events.size[events.action == forms.HIDDEN].sum())
        self.halts += int((events.action == forms.HALT).sum())
        self.crosses += int((events.action == forms.CROSS).sum())
        self.auctions += int(((events.action == forms.TRADE) & (events.side == 0)).sum())
        self.snapshot += int(events.snapshot.sum())
        rests = (events.action == forms.ADD) | (events.action == forms.MODIFY)
        self.tally.see(LOW, rests & (events.price <= 0), self.events)
        self.tally.see(SIDELESS, (events.action == forms.ADD) & (events.side == 0), self.events)
        self.tally.see(MANY, events.size >= LARGE, self.events)
        self.tally.see(NEGATIVE, events.size < 0, self.events)
        missing = (effects.bid == NO_PRICE) | (effects.ask == NO_PRICE)
        self.tally.see(ONE_SIDED, events.last & missing & (effects.bid != effects.ask), self.events)
        self.tally.see(CROSSED, events.last & ~missing & (effects.bid >= effects.ask), self.events)
        passed, uneven = self.judge.passed, self.judge.uneven
        self.judge.see(events, effects)
        for name, before, now in ((GHOSTS, passed, self.judge.passed), (UNEVEN, uneven, self.judge.uneven)):
            if now > before and not self.tally[name]:
                self.tally.add(name, self.events + _first_of(name, events, effects))
        self.events += len(events)
        return effects

    def of(self, name: int) -> int:
        return self.marks[name.bit_length() - 1]


def _first_of(name: str, events: OrderEvents, effects: Effects) -> int:
    """The first event of a block after which the judge counts one more, found by halving."""
    from core.markets.readers.forms import part_of

    def found(end: int) -> bool:
        judge, part = EventJudge(), slice(0, end)
        judge.see(part_of(events, 0, end), Effects(*(getattr(effects, column)[part] for column in Effects.__struct_fields__)))
        return bool(judge.passed if name == GHOSTS else judge.uneven)

    low, high = 0, len(events)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high - 1


def examine_orders(file: OrderFile, progress: Progress) -> Report:
    """A file that names every order, from a full start."""
    header = file.header
    patient = Patient(header.path, header.format, header.symbol)
    clocks, counts = Clocks(header.clock, header.time_unit), OrderCounts()
    try:
        for events in whole_events(file.blocks(), BLOCK):
            clocks.see(events.time, events.received, ~events.snapshot)
            counts.see(events)
            progress(file.done, "looking at events")
    except BadInput as error:
        patient.broken(error, counts.events)
    if header.note:
        patient.tell("instruments", header.note)
    clocks.tell(patient)
    if header.format.startswith("Databento"):
        tell_numbering(patient, header)
    elif header.format.startswith("Nasdaq ITCH"):
        _tell_end(patient, header.path)
    counts.judge.finish()
    tell_ids(patient, counts, exact=True)
    _tell_books(patient, counts)
    tell_volume(patient, counts)
    _tell_queues(patient, counts)
    return patient.report


def _tell_end(patient: Patient, path: str) -> None:
    """ITCH numbers nothing in its files; whether the feed said that it is over is all there is about lost messages."""
    tail = b""
    try:
        for piece in Stream(path).pieces():
            tail = (tail + piece)[-ITCH_END:]
    except BadInput:
        return
    over = len(tail) == ITCH_END and tail[2:3] == b"S" and tail[-1:] == b"C"
    note = "" if over else "cut between two messages, or a part of a day: nothing in the file can tell"
    patient.tell("ends with the feed's end of messages", over, note=note, looked="the last message")


def tell_ids(patient: Patient, counts: OrderCounts, *, exact: bool) -> None:
    """``exact``: the file names every order from a full start, so that an unknown one is a fault."""
    looked = f"{counts.events:,} events against the orders that rest"
    if counts.snapshot:
        patient.tell("events that tell what rested before", counts.snapshot)
    for name in (DUPLICATE, UNKNOWN, TOO_MUCH):
        found, first = counts.tally[name], counts.tally.first(name)
        if exact:
            patient.count(name, found, looked=looked, first=first)
        else:
            patient.tell(name, found, looked=looked, first=first)
    if counts.tally[SIDELESS]:
        patient.count(SIDELESS, counts.tally[SIDELESS], looked=looked, first=counts.tally.first(SIDELESS))
    patient.count(NEGATIVE, counts.tally[NEGATIVE], looked=f"{counts.events:,} events", first=counts.tally.first(NEGATIVE))


def _tell_books(patient: Patient, counts: OrderCounts) -> None:
    judge, tally = counts.judge, counts.tally
    looked = f"{judge.states:,} books, where an exchange's event is complete"
    patient.tell("books looked at", judge.states, note="where an exchange's event is complete")
    first = Spot(judge.first_crossed) if judge.first_crossed >= 0 else NOWHERE
    patient.count(CROSSED, judge.crossed, looked=looked, first=first)
    if judge.in_auction:
        patient.tell(IN_AUCTION, judge.in_auction, looked=looked, first=tally.first(CROSSED))
    patient.count(GHOSTS, judge.passed, looked=f"{counts.trades:,} trades", first=tally.first(GHOSTS))
    if judge.one_sided:
        patient.tell(ONE_SIDED, judge.one_sided, looked=looked, first=tally.first(ONE_SIDED))
    if judge.continuous:
        looked = f"{judge.continuous:,} events with trades, auctions left out"
        patient.count(UNEVEN, judge.uneven, looked=looked, first=tally.first(UNEVEN))
    if counts.halts:
        patient.tell("changes of the trading state", counts.halts, note="halts, resumptions and the like")
    turns = counts.of(mark.IN_TURN) + counts.of(mark.OUT_OF_TURN)
    if turns:
        passed = counts.of(mark.PASSED)
        note = f"of {turns:,} fills of resting orders"
        note += f"; {passed:,} passed over orders withdrawn in the same event (self-trade prevention)" if passed else ""
        patient.tell("first in, first out", counts.of(mark.IN_TURN) / turns, "%", note, first=tally.first("out of turn"))
    if counts.of(mark.REFRESHED):
        patient.tell("iceberg refreshes", counts.of(mark.REFRESHED))


def tell_volume(patient: Patient, counts: OrderCounts) -> None:
    patient.tell("trades", counts.trades)
    patient.tell("volume", counts.volume)
    if counts.crosses or counts.auctions:
        patient.tell("auction prints", counts.crosses + counts.auctions)
    if counts.volume:
        patient.tell("share of hidden volume", counts.hidden / counts.volume, "%")
    patient.tell_odd_numbers(counts.tally)


def _tell_queues(patient: Patient, counts: OrderCounts) -> None:
    known, why = knowledge_of_queues(counts.tally[UNKNOWN])
    patient.tell("what is known of queues", known, note=why, first=counts.tally.first(UNKNOWN))
