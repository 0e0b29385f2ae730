"""What the data doctor reports, and the door to it: nothing here knows a system by name before a file is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from core.formatting import Value, format_value

if TYPE_CHECKING:
    from core.recording import Recording

Severity = Literal["wrong", "good", "fact"]
SIGNS: dict[Severity, str] = {"wrong": "✗", "good": "✓", "fact": " "}
HEADINGS: dict[Severity, str] = {"wrong": "Wrong", "good": "Looked at and sound", "fact": "What the file holds"}
FAMILY = "markets"
_STEP_BY_STEP = frozenset({"order_book"})
"""Simulations whose steps are the events of the file, so that a finding has a step there."""
LARGEST_UNASKED = 16 << 20
"""Bytes of a file that is looked at without having been asked to."""


class Spot(msgspec.Struct, frozen=True):
    """Where something is: ``step`` of the replay (from 0; -1: in none of them) and ``place`` in the file (line 12, byte 345)."""

    step: int = -1
    place: str = ""


NOWHERE = Spot()


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at.

    ``ok`` is None where nothing can be wrong; ``note`` says what there is to know about this one, ``looked`` what was looked at,
    ``first`` where the first occurrence is, ``means`` what such a finding means, in a sentence.
    """

    name: str
    value: Value
    unit: str = ""
    ok: bool | None = None
    note: str = ""
    looked: str = ""
    first: Spot = NOWHERE
    means: str = ""


class Report(msgspec.Struct, frozen=True):
    """All findings of a file. ``by_message``: what a step of a finding counts are messages, and the replay has several steps for some."""

    path: str
    format: str
    symbol: str
    findings: tuple[Finding, ...]
    by_message: bool = False

    @property
    def healthy(self) -> bool:
        return not self.wrong

    @property
    def wrong(self) -> list[Finding]:
        """The findings that are bad."""
        return [finding for finding in self.findings if finding.ok is False]


class DataFile(NamedTuple):
    """A market data file as a run was told of it."""

    path: str
    symbol: str
    format: str


def examine(path: str, symbol: str = "", format: str = "auto", progress: Callable[[float, str], None] | None = None) -> Report:
    """Look at a market data file from its first to its last byte. BadInput where it is none."""
    from core.markets.doctor.examine import examine as look

    return look(path, symbol, format, progress)


def data_file(recording: Recording) -> DataFile | None:
    """The market data file that ``recording`` was made from; None where there is none."""
    from core.simulation import families

    params: Mapping[str, object] = recording.params
    path = params.get("file")
    if not isinstance(path, str) or not path or families().get(recording.simulation) != FAMILY:
        return None
    return DataFile(path, str(params.get("symbol") or ""), str(params.get("format") or "auto"))


def steps_are_events(recording: Recording) -> bool:
    """Whether step n of ``recording`` is event n of its file."""
    return recording.simulation in _STEP_BY_STEP


def severity(finding: Finding) -> Severity:
    return "fact" if finding.ok is None else "good" if finding.ok else "wrong"


def step_of(report: Report, recording: Recording, finding: Finding) -> int:
    """The step of ``recording`` at which ``finding`` first occurs; -1 where it has none."""
    first = finding.first.step
    if first < 0 or not report.by_message:
        return first
    import numpy as np

    joined = np.array(recording.joins.steps, dtype=np.int64)  # steps that belong to the one before
    return first + int(np.searchsorted(joined - np.arange(len(joined)) - 1, first))


def place_of(finding: Finding, by_message: bool = False) -> str:
    """Where the first occurrence is, in words; '' where that says nothing. Steps count from 1, as shown."""
    first = finding.first
    what = "message" if by_message else "step"
    parts = [f"{what} {first.step + 1:,}" if first.step >= 0 else "", first.place]
    return ", ".join(part for part in parts if part)


def in_short(report: Report) -> str:
    """How many of the things looked at are wrong, and which is the first."""
    wrong = report.wrong
    judged = sum(finding.ok is not None for finding in report.findings)
    if not wrong:
        return f"nothing is wrong with this file: {judged} things looked at"
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    count = format_value(wrong[0].value, wrong[0].unit)
    verb = "is" if len(wrong) == 1 else "are"
    return f"{len(wrong)} of {judged} things {verb} wrong with this file: {wrong[0].name} ({count}){more}"


def as_text(report: Report) -> Iterator[str]:
    """The report in lines: a sign (✓ good, ✗ bad, nothing: neither), name, value, note, where the first one is."""
    yield f"{report.path}: {report.format}{f', {report.symbol}' if report.symbol else ''}\n"
    values = [format_value(finding.value, finding.unit) for finding in report.findings]
    width = max((len(finding.name) for finding in report.findings), default=0)
    column = max((len(value) for value in values), default=0)
    for finding, value in zip(report.findings, values, strict=True):
        place = place_of(finding, report.by_message)
        said = "; ".join(part for part in (finding.note, f"first at {place}" if place else "") if part)
        yield f"  {SIGNS[severity(finding)]} {finding.name:<{width}}  {value:>{column}}  {said}".rstrip() + "\n"
    judged = sum(finding.ok is not None for finding in report.findings)
    wrong = len(report.wrong)
    things = "thing" if judged == 1 else "things"
    yield f"\n{judged} {things} that can be wrong: " + ("none is\n" if not wrong else f"{wrong} {'is' if wrong == 1 else 'are'}\n")


def as_json(report: Report) -> str:
    """One JSON object: format, path, data format, symbol, healthy, findings (their ``step`` counts from 1, null where there is none)."""
    import json
    import math

    findings = []
    for finding in report.findings:
        value = None if isinstance(finding.value, float) and not math.isfinite(finding.value) else finding.value
        first = finding.first
        findings.append(
            {
                "name": finding.name, "value": value, "unit": finding.unit, "ok": finding.ok, "severity": severity(finding),
                "note": finding.note, "means": finding.means, "looked_at": finding.looked,
                "step": first.step + 1 if first.step >= 0 and not report.by_message else None,
                "place": place_of(finding, True) if report.by_message else first.place,
            }
        )  # fmt: skip
    whole = {
        "format": 1, "file": report.path, "data": report.format, "symbol": report.symbol, "healthy": report.healthy, "findings": findings,
    }  # fmt: skip
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
