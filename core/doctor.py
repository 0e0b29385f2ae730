"""The door to the data doctor, for whoever shows its report: it knows no system by name before a file is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from core.formatting import format_value

if TYPE_CHECKING:
    from core.markets.doctor import Report

_SIGNS = {True: "✓", False: "✗", None: " "}


def examine(path: str, symbol: str = "", format: str = "auto", progress: Callable[[float, str], None] | None = None) -> Report:
    """Look at a market data file from its first to its last byte. BadInput where it is none."""
    from core.markets.doctor import examine as look

    return look(path, symbol, format, progress)


def as_text(report: Report) -> Iterator[str]:
    """The report in lines: a sign (✓ good, ✗ bad, nothing: neither), name, value, note."""
    yield f"{report.path}: {report.format}{f', {report.symbol}' if report.symbol else ''}\n"
    values = [format_value(finding.value, finding.unit) for finding in report.findings]
    width = max((len(finding.name) for finding in report.findings), default=0)
    column = max((len(value) for value in values), default=0)
    for finding, value in zip(report.findings, values, strict=True):
        yield f"  {_SIGNS[finding.ok]} {finding.name:<{width}}  {value:>{column}}  {finding.note}".rstrip() + "\n"
    wrong = sum(finding.ok is False for finding in report.findings)
    judged = sum(finding.ok is not None for finding in report.findings)
    yield f"\n{judged} things that can be wrong: " + ("none is\n" if not wrong else f"{wrong} {'is' if wrong == 1 else 'are'}\n")


def as_json(report: Report) -> str:
    """One JSON object: format, path, data format, symbol, healthy, findings."""
    import json
    import math

    findings = []
    for finding in report.findings:
        value = None if isinstance(finding.value, float) and not math.isfinite(finding.value) else finding.value
        findings.append({"name": finding.name, "value": value, "unit": finding.unit, "ok": finding.ok, "note": finding.note})
    whole = {
        "format": 1, "file": report.path, "data": report.format, "symbol": report.symbol, "healthy": report.healthy, "findings": findings,
    }  # fmt: skip
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
