"""The doctor on a LOBSTER day: its messages by themselves, and against its orderbook file where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import BadInput
from core.markets.doctor.clocks import Clocks
from core.markets.doctor.examine import NOWHERE, Patient, Progress, Report, Spot
from core.markets.doctor.orders import BLOCK, OrderCounts, tell_ids, tell_volume
from core.markets.events import book as mark
from core.markets.readers.forms import whole_events
from core.recording import Check, Recorder, Recording

if TYPE_CHECKING:
    from core.markets.lobster.reader import Events, Source

_ROW = "previous row + message = next row (exceptions)"


def examine_lobster(path: str, symbol: str, sure: bool, progress: Progress) -> Report:
    """A LOBSTER zip, message CSV or orderbook CSV. Without an orderbook file the book is rebuilt from the messages."""
    from core.markets.lobster.orders import order_events
    from core.markets.lobster.reader import EXECUTION, find_source, read_messages

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
    tell_ids(patient, counts, exact=False)
    executions = int((events.type == EXECUTION).sum())
    unseen = executions - counts.of(mark.IN_TURN) - counts.of(mark.OUT_OF_TURN)
    patient.tell("executions of orders whose submission is not in the file", unseen, note=f"of {executions:,}")
    turns = max(executions - unseen, 1)
    patient.tell(
        "out of turn when ghosts stay", counts.of(mark.OUT_OF_TURN) / turns, "%", "a book from messages alone keeps orders long gone"
    )
    if counts.halts:
        patient.tell("changes of the trading state", counts.halts, note="halts, quotes only, resumptions")
    tell_volume(patient, counts)
    _tell_replay(patient, source, events, executions, (path, symbol), progress)
    return patient.report


class _Watched(Recorder):
    """A recorder whose progress somebody else is told too (and who may end it)."""

    def __init__(self, recording: Recording, tell: Progress) -> None:
        super().__init__(recording)
        self._tell = tell

    def progress(self, done: float, text: str = "") -> None:
        super().progress(done, text)
        self._tell(0.3 + 0.7 * done, "holding messages against the orderbook")


def _tell_replay(patient: Patient, source: Source, events: Events, executions: int, named: tuple[str, str], progress: Progress) -> None:
    """The checks of the replay, which holds messages and orderbook rows against each other."""
    from core.markets.lobster.replay import replay_lobster

    recording = Recording("order_book")
    try:
        replay_lobster(*named, _Watched(recording, progress), sure=True)
    except BadInput as error:
        patient.broken(error, len(recording))
        return
    for check in recording.checks:
        patient.judge(check.name, check.got, check.ok, note=check.oracle, looked=check.oracle, first=_first_of(check, source, events))
    _tell_books(patient, recording)
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


def _tell_books(patient: Patient, recording: Recording) -> None:
    """Crossed and one-sided rows, of those that the orderbook file shows."""
    import numpy as np

    bid, ask = (recording.facts[name].column(len(recording)) for name in ("best_bid", "best_ask"))
    one_sided = np.isnan(bid) != np.isnan(ask)
    for name, hit, wrong in (("books crossed or locked", bid >= ask, True), ("one-sided books", one_sided, False)):
        found = int(hit.sum())
        first = spot(int(hit.argmax())) if found else NOWHERE
        if wrong:
            patient.count(name, found, f"of {len(hit):,}", looked=f"{len(hit):,} rows", first=first)
        elif found:
            patient.tell(name, found, looked=f"{len(hit):,} rows", first=first)


def _first_of(check: Check, source: Source, events: Events) -> Spot:
    """Where the first row is that does not follow from the one before: looked for only when one is known to be wrong."""
    if check.ok or check.name != _ROW:
        return NOWHERE
    import numpy as np

    from core.markets.lobster.book import wrong_transitions
    from core.markets.lobster.reader import read_orderbook

    first, last = 0, None
    for rows in read_orderbook(source, len(events)):
        before = rows[:-1] if last is None else np.concatenate([last, rows[:-1]])
        after = rows[1:] if last is None else rows
        wrong = wrong_transitions(before, after, events, first + (last is None))
        if wrong.any():
            return spot(first + (last is None) + int(wrong.argmax()))
        first, last = first + len(rows), rows[-1:]
    return NOWHERE


def spot(step: int) -> Spot:
    """A LOBSTER message is one line and one step."""
    return Spot(step, f"line {step + 1:,}")
