"""The doctor on the numbering of a Databento file: what the feed marked as lost, and what the sequence numbers say."""

from __future__ import annotations

from core.errors import BadInput
from core.markets.doctor.examine import NOWHERE, Patient, Spot
from core.markets.readers.forms import Header

FLAGGED, JUMPS, BACK = "records after a gap that the feed could not fill", "gaps in the sequence numbers", "sequence numbers that go back"


def tell_numbering(patient: Patient, header: Header) -> None:
    """Findings about lost messages; none where the file cannot be read to its end, which is a finding already."""
    from core.markets.readers.dbn import sequence_gaps

    try:
        gaps = sequence_gaps(header.path)
    except BadInput:
        return
    alone = not header.note  # with one instrument a record is a step
    looked = f"{gaps.records:,} records of all instruments"

    def spot(record: int) -> Spot:
        return Spot(record if alone else -1, f"record {record + 1:,}") if record >= 0 else NOWHERE

    note = "Databento marks them: the book is doubtful until the next snapshot"
    patient.count(FLAGGED, gaps.flagged, note, looked=looked, first=spot(gaps.first_flagged))
    if gaps.whole:
        patient.count(JUMPS, gaps.jumps, f"{gaps.missing:,} numbers are missing", looked=looked, first=spot(gaps.first_jump))
    elif gaps.jumps:
        note = "no sign of a loss here: the numbers in between belong to instruments that are not in the file"
        patient.tell(JUMPS, gaps.jumps, note=note, looked=looked, first=spot(gaps.first_jump))
    if gaps.back:
        patient.tell(
            BACK, gaps.back, note="usual where a publisher sends over several channels", looked=looked, first=spot(gaps.first_back)
        )
