"""The doctor on funding files: the zone of the clock, missing settlements, what the rates are."""

from __future__ import annotations

from itertools import pairwise

from core.errors import BadInput
from core.markets.doctor import Patient, Report
from core.markets.doctor_clocks import stamp
from core.markets.readers.funding import BASE_RATE, INTERVAL_HOURS, read_funding


def examine_funding(path: str) -> Report:
    """All settlements of one perpetual."""
    patient = Patient(path, "funding settlements", "")
    try:
        funding = read_funding(path)
    except BadInput as error:
        patient.broken(error)
        return patient.report
    patient.symbol = funding.symbol
    times, rates, count = funding.times, funding.rates, len(funding.times)
    patient.tell("settlements", count)
    patient.tell("first settlement", stamp(int((times[0] - funding.zone * 3600) * 1e9)), note="UTC")
    patient.tell("last settlement", stamp(int((times[-1] - funding.zone * 3600) * 1e9)), note="UTC")
    note = "settlements are at 00, 08 and 16 h UTC; this clock is another zone's, so join it with nothing before shifting it"
    patient.judge("time zone", f"UTC{funding.zone:+d}" if funding.zone else "UTC", funding.zone == 0, note=note if funding.zone else "")
    steps = [(b - a) / 3600 for a, b in pairwise(times)]
    patient.count("times that go back", sum(step < 0 for step in steps))
    patient.count("settlements sent again", sum(abs(step) < 0.5 for step in steps))
    patient.count("missing settlements", sum(round(step / INTERVAL_HOURS) - 1 for step in steps if step > 1.5 * INTERVAL_HOURS))
    patient.tell("sum of rates", sum(rates), "%")
    patient.tell("share of rates that are exactly 0.01 %", sum(abs(rate - BASE_RATE) < 5e-9 for rate in rates) / count, "%")
    patient.tell("share of positive rates", sum(rate > 0 for rate in rates) / count, "%")
    return patient.report
