"""The doctor on market-by-order files: ids, queues, ghosts, crossed books, hidden volume."""

from __future__ import annotations

from core.errors import BadInput
from core.markets import event_book as mark
from core.markets.doctor import Patient, Progress, Report
from core.markets.doctor_clocks import Clocks
from core.markets.event_book import Effects, EventBook
from core.markets.event_judge import EventJudge
from core.markets.readers import forms
from core.markets.readers.forms import OrderEvents, OrderFile, whole_events

BLOCK = 20_000
LARGE = 2**31


class OrderCounts:
    """Everything counted over a stream of market-by-order events."""

    def __init__(self) -> None:
        self.book, self.judge = EventBook(), EventJudge()
        self.marks = dict.fromkeys(range(10), 0)
        self.first: dict[int, int] = {}
        self.volume = self.hidden = self.trades = self.large = self.not_positive = self.snapshot = self.negative = 0
        self.events = self.executions = 0

    def see(self, events: OrderEvents) -> Effects:
        """Apply a block to the book and count."""
        import numpy as np

        effects = self.book.run(events)
        for bit in self.marks:
            hit = (effects.marks & (1 << bit)) > 0
            if hit.any():
                self.first.setdefault(bit, self.events + int(hit.argmax()))
                self.marks[bit] += int(hit.sum())
        trade = np.isin(events.action, (forms.TRADE, forms.EXECUTE, forms.HIDDEN))
        self.trades += int(trade.sum())
        self.volume += int(events.size[trade].sum())
        self.hidden += int(events.size[events.action == forms.HIDDEN].sum())
        self.executions += int(((events.action == forms.EXECUTE) | (events.action == forms.FILL)).sum())
        self.large += int((events.size >= LARGE).sum())
        rests = (events.action == forms.ADD) | (events.action == forms.MODIFY)
        self.not_positive += int((rests & (events.price <= 0)).sum())
        self.negative += int((events.size < 0).sum())
        self.snapshot += int(events.snapshot.sum())
        self.judge.see(events, effects)
        self.events += len(events)
        return effects

    def of(self, name: int) -> int:
        return self.marks[name.bit_length() - 1]

    def where(self, name: int) -> str:
        at = self.first.get(name.bit_length() - 1)
        return "" if at is None else f"the first is event {at + 1}"


def examine_orders(file: OrderFile, progress: Progress) -> Report:
    """A file that names every order, from a full start."""
    header = file.header
    patient = Patient(header.path, header.format, header.symbol)
    clocks, counts = Clocks(header.clock, header.time_unit), OrderCounts()
    broken: BadInput | None = None
    try:
        for events in whole_events(file.blocks(), BLOCK):
            clocks.see(events.time, events.received, ~events.snapshot)
            counts.see(events)
            progress(file.done, "looking at events")
    except BadInput as error:
        broken = error
    if broken is not None:
        patient.broken(broken)
    if header.note:
        patient.tell("instruments", header.note)
    clocks.tell(patient)
    counts.judge.finish()
    _tell_ids(patient, counts, exact=True)
    _tell_books(patient, counts)
    _tell_volume(patient, counts)
    patient.tell("what is known of queues", "exact", note="every order is named, from a snapshot or an empty start")
    return patient.report


def _tell_ids(patient: Patient, counts: OrderCounts, *, exact: bool) -> None:
    judge = patient.count if exact else patient.tell
    if counts.snapshot:
        patient.tell("events that tell what rested before", counts.snapshot)
    judge("adds of an id that rests already", counts.of(mark.DUPLICATE), note=counts.where(mark.DUPLICATE))
    judge("events about unknown orders", counts.of(mark.UNKNOWN), note=counts.where(mark.UNKNOWN))
    judge("more taken than rested", counts.of(mark.TOO_MUCH), note=counts.where(mark.TOO_MUCH))
    patient.count("negative quantities", counts.negative)


def _tell_books(patient: Patient, counts: OrderCounts) -> None:
    judge = counts.judge
    patient.tell("books looked at", judge.states, note="where an exchange's event is complete")
    patient.count("books crossed or locked outside an auction", judge.crossed)
    if judge.in_auction:
        patient.tell("books crossed or locked in an auction", judge.in_auction)
    patient.count("ghost orders: events that trade past a better price", judge.passed)
    if judge.one_sided:
        patient.tell("one-sided books", judge.one_sided)
    if judge.continuous:
        patient.count("events whose fills of resting orders are not its trades", judge.uneven, f"of {judge.continuous:,} with trades")
    turns = counts.of(mark.IN_TURN) + counts.of(mark.OUT_OF_TURN)
    if turns:
        passed = counts.of(mark.PASSED)
        note = f"of {turns:,} fills of resting orders"
        note += f"; {passed:,} passed over orders withdrawn in the same event (self-trade prevention)" if passed else ""
        patient.tell("first in, first out", counts.of(mark.IN_TURN) / turns, "%", note)
    if counts.of(mark.REFRESHED):
        patient.tell("iceberg refreshes", counts.of(mark.REFRESHED))


def _tell_volume(patient: Patient, counts: OrderCounts) -> None:
    patient.tell("trades", counts.trades)
    patient.tell("volume", counts.volume)
    if counts.volume:
        patient.tell("share of hidden volume", counts.hidden / counts.volume, "%")
    if counts.not_positive:
        patient.tell("prices of 0 or below", counts.not_positive, note="usual for spreads, wrong for anything else")
    if counts.large:
        patient.tell("quantities of 2^31 or more", counts.large)


# LOBSTER ---------------------------------------------------------------------------------------------------------------


def examine_lobster(path: str, symbol: str, sure: bool, progress: Progress) -> Report:
    """A LOBSTER day: its messages by themselves, and against its orderbook file where there is one."""
    from core.markets.lobster import EXECUTION, find_source, read_messages
    from core.markets.lobster_orders import order_events

    source = find_source(path, symbol, sure=sure)
    patient = Patient(path, "LOBSTER messages" + (" and orderbook" if source.orderbook else ""), symbol)
    try:
        progress(0.0, "reading messages")
        events = read_messages(source)
    except BadInput as error:
        patient.broken(error)
        return patient.report
    clocks, counts = Clocks("midnight", "seconds with nine decimals"), OrderCounts()
    messages = order_events(events)
    clocks.see(messages.time, messages.received)
    for part in whole_events(iter((messages,)), BLOCK):
        counts.see(part)
        progress(0.3 * counts.events / len(events), "looking at messages")
    clocks.tell(patient)
    _tell_ids(patient, counts, exact=False)
    executions = int((events.type == EXECUTION).sum())
    unseen = executions - counts.of(mark.IN_TURN) - counts.of(mark.OUT_OF_TURN)
    patient.tell("executions of orders whose submission is not in the file", unseen, note=f"of {executions:,}")
    turns = max(executions - unseen, 1)
    patient.tell(
        "out of turn when ghosts stay", counts.of(mark.OUT_OF_TURN) / turns, "%", "a book from messages alone keeps orders long gone"
    )
    _tell_volume(patient, counts)
    _tell_replay(patient, path, symbol, executions, progress)
    return patient.report


def _tell_replay(patient: Patient, path: str, symbol: str, executions: int, progress: Progress) -> None:
    """The checks of the replay, which holds messages and orderbook rows against each other."""
    from core.simulation import record

    progress(0.3, "holding messages against the orderbook")
    try:
        recording = record("order_book", {"file": path, "symbol": symbol, "format": "lobster"})
    except BadInput as error:
        patient.broken(error)
        return
    for check in recording.checks:
        patient.judge(check.name, check.got, check.ok, note=check.oracle)
    known, early = recording.fact("known_executions"), recording.fact("out_of_turn")
    if isinstance(known, int):
        note = f"of {executions:,}; they rested before the file begins, or came back from outside its depth"
        patient.tell("executions of orders never seen resting", executions - known, note=note)
    if isinstance(known, int) and isinstance(early, int) and known:
        patient.tell("first in, first out", 1 - early / known, "%", f"of {known:,} executions of orders known to rest")
    rebuilt = "ghost_orders" in recording.facts
    if rebuilt:
        patient.tell("ghost orders", recording.fact("ghost_orders"), note="orders that later messages show to be gone")
    what = "none of what rested before" if rebuilt else "displayed minus known quantity stands in front as one lump"
    patient.tell("what is known of queues", "estimated" if rebuilt else "lump", note=what)
