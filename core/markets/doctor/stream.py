"""The doctor on an archive of messages (npz): its ids, prices and quantities. Such a stream has no clock and no trades yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.markets.doctor.examine import LARGE, LOW, MANY, Patient, Progress, Report, Tally
from core.markets.stream.archive import CANCEL, MODIFY, NEW, read_stream

if TYPE_CHECKING:
    import numpy as np

_DUPLICATE, _UNKNOWN, _BEFORE = "new orders under an id used before", "messages about ids never seen", "messages about ids that come later"


def examine_stream(path: str, progress: Progress) -> Report:
    """All messages of the benchmark's column format. BadInput where the archive is none; a damaged one is a finding."""
    patient = Patient(path, "messages of a matching engine", "")
    progress(0.0, "reading messages")
    try:
        columns = read_stream(path)
    except BadInput as error:
        if "no such file" in error.found:
            raise
        patient.broken(error)
        return patient.report
    progress(0.5, "looking at messages")
    kind, count = columns["type"], len(columns["type"])
    every = f"{count:,} messages"
    patient.tell("messages", count)
    for name, value in (("new orders", NEW), ("cancels", CANCEL), ("modifies", MODIFY)):
        patient.tell(name, int((kind == value).sum()))
    patient.tell("share of immediate-or-cancel", float(columns["ioc"][kind == NEW].mean()) if (kind == NEW).any() else 0.0, "%")
    patient.tell("clock", "none", note="messages are in the order in which they arrive")
    tally = Tally()
    _see_ids(tally, kind, columns["order_id"])
    tally.see("quantities of 0", (kind != CANCEL) & (columns["quantity"] == 0), 0)
    tally.see(LOW, (kind != CANCEL) & (columns["price"] <= 0), 0)
    tally.see(MANY, columns["quantity"] >= LARGE, 0)
    for name in (_DUPLICATE, "quantities of 0"):
        patient.count(name, tally[name], looked=every, first=tally.first(name))
    for name, note in ((_UNKNOWN, "a conforming engine rejects them"), (_BEFORE, "they ask for an order that does not exist yet")):
        if tally[name]:
            patient.tell(name, tally[name], note=note, looked=every, first=tally.first(name))
    patient.tell_odd_numbers(tally, every)
    patient.tell("what is known of queues", "exact", note="every order is named, from an empty start")
    progress(1.0, "looking at messages")
    return msgspec.structs.replace(patient.report, by_message=True)


def _see_ids(tally: Tally, kind: np.ndarray, ids: np.ndarray) -> None:
    """New orders whose id an earlier one had; cancels and modifies of ids that no order before them had."""
    import numpy as np

    rows = np.flatnonzero(kind == NEW)
    known, first = np.unique(ids[rows], return_index=True)
    again = np.zeros(len(ids), dtype=bool)
    again[rows] = True
    again[rows[first]] = False
    tally.see(_DUPLICATE, again, 0)
    others = np.flatnonzero(kind != NEW)
    at = np.minimum(np.searchsorted(known, ids[others]), max(len(known) - 1, 0))
    there = known[at] == ids[others] if len(known) else np.zeros(len(others), dtype=bool)
    early = there & (rows[first][at] > others) if len(known) else there
    for name, hit in ((_UNKNOWN, ~there), (_BEFORE, early)):
        mask = np.zeros(len(ids), dtype=bool)
        mask[others] = hit
        tally.see(name, mask, 0)
