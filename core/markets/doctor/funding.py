"""The doctor on funding files: the zone of the clock, missing settlements, what the rates are."""

from __future__ import annotations

from itertools import pairwise

from core.errors import BadInput
from core.markets.doctor.clocks import stamp
from core.markets.doctor.examine import Patient, Report, Spot, Tally
from core.markets.readers.funding import BASE_RATE, HOUR, INTERVAL_HOURS, Funding, read_funding

_BACK, _AGAIN, _MISSING = "times that go back", "settlements sent again", "missing settlements"
_OFF = "settlements at other hours than the rest"


def examine_funding(path: str, symbol: str = "") -> Report:
    """All settlements of one perpetual."""
    patient = Patient(path, "funding settlements", symbol)
    try:
        funding = read_funding(path, symbol)
    except BadInput as error:
        if error.where == f"{path}: symbol":
            raise
        patient.broken(error)
        return patient.report
    patient.symbol = funding.symbol
    _tell_clock(patient, funding)
    _tell_rates(patient, funding)
    return patient.report


def _tell_clock(patient: Patient, funding: Funding) -> None:
    utc, zone, every = funding.utc, funding.zone, f"{len(funding.times):,} settlements in the order of the file"
    if funding.note:
        patient.tell("instruments", funding.note)
    patient.tell("settlements", len(utc))
    patient.tell("first settlement", stamp(int(utc[0] * 1e9)), note="UTC")
    patient.tell("last settlement", stamp(int(utc[-1] * 1e9)), note="UTC")
    patient.tell("hours between settlements", funding.interval, note="" if funding.interval == INTERVAL_HOURS else "8 is usual")
    hours = ", ".join(f"{hour:02d}" for hour in range(0, 24, funding.interval)) if funding.interval >= 8 else "whole intervals"
    looked = (
        f"the hours of {len(utc):,} dates (a zone {funding.interval} hours off would look like UTC)" if funding.dated else "epoch times"
    )
    note = f"settlements are at {hours} h UTC; this clock is another zone's, so join it with nothing before shifting it"
    patient.judge("time zone", f"UTC{zone:+d}" if zone else "UTC", zone == 0, note=note, looked=looked, first=Spot(0, _line(funding, 0)))
    tally = Tally()
    for at, (before, now) in enumerate(pairwise(funding.times), 1):
        step = (now - before) / HOUR
        name = _BACK if step < -0.5 else _AGAIN if abs(step) < 0.5 else _MISSING if step > 1.5 * funding.interval else ""
        for _ in range(round(step / funding.interval) - 1 if name == _MISSING else 1 if name else 0):
            tally.add(name, at)
    for at, time in enumerate(utc):
        if abs((time / HOUR + funding.interval / 2) % funding.interval - funding.interval / 2) > 0.1:
            tally.add(_OFF, at)
    for name in (_BACK, _AGAIN, _MISSING, _OFF):
        at = tally.first(name).step
        note = f"before the one of {stamp(int(utc[at] * 1e9))} UTC" if name == _MISSING else ""
        patient.count(name, tally[name], note, looked=every, first=Spot(at, _line(funding, at)))


def _line(funding: Funding, at: int) -> str:
    return f"line {funding.lines[at]:,}"


def _tell_rates(patient: Patient, funding: Funding) -> None:
    rates, count = funding.rates, len(funding.rates)
    patient.tell("sum of rates", sum(rates), "%", "what a short of constant size received")
    patient.tell("share of rates that are exactly 0.01 %", sum(abs(rate - BASE_RATE) < 5e-9 for rate in rates) / count, "%")
    patient.tell("share of positive rates", sum(rate > 0 for rate in rates) / count, "%", "longs paid shorts")
