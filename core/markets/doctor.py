"""The data doctor: what is wrong with a market data file, and what it can and cannot say. Nothing is repaired.

A finding is good, bad, or neither: a fact that explains what to expect of the file (how much volume was hidden, whether
queues are known). Files are read as a stream, so their length is no limit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from core.errors import BadInput
from core.formatting import Value
from core.markets.readers.forms import DepthFile, OrderFile

Progress = Callable[[float, str], None]


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at. ``ok`` is None where nothing can be wrong; ``note`` says what it means or where the first one is."""

    name: str
    value: Value
    unit: str = ""
    ok: bool | None = None
    note: str = ""


class Report(msgspec.Struct, frozen=True):
    """All findings of a file."""

    path: str
    format: str
    symbol: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        return all(finding.ok is not False for finding in self.findings)


class Patient:
    """Findings as they are made, in order."""

    def __init__(self, path: str, format: str, symbol: str) -> None:
        self.path, self.format, self.symbol = path, format, symbol
        self.findings: list[Finding] = []

    def tell(self, name: str, value: Value, unit: str = "", note: str = "") -> None:
        """A fact that can be neither good nor bad."""
        self.findings.append(Finding(name, value, unit, None, note))

    def judge(self, name: str, value: Value, ok: bool, unit: str = "", note: str = "") -> None:
        """A fact that is good or bad."""
        self.findings.append(Finding(name, value, unit, bool(ok), note))

    def count(self, name: str, found: int, note: str = "") -> None:
        """Something that should not be there at all."""
        self.judge(name, int(found), found == 0, note=note if found else "")

    def broken(self, error: BadInput) -> None:
        """Reading ended at damage; what was found before it stands."""
        self.judge(
            "readable to its end", False, False, note=f"{error.found} ({error.where.removeprefix(self.path).lstrip(': ') or 'file'})"
        )

    @property
    def report(self) -> Report:
        return Report(self.path, self.format, self.symbol, tuple(self.findings))


def examine(path: str | Path, symbol: str = "", format: str = "auto", progress: Progress | None = None) -> Report:
    """Read the whole file and report. BadInput where it is no market data at all; damage further on is a finding."""
    from core.markets.open_file import open_market

    tell = progress or _quiet
    name = str(path)
    if format == "auto" and Path(name).is_file():
        from core.markets.readers.funding import looks_like_funding

        if looks_like_funding(name):
            from core.markets.doctor_funding import examine_funding

            return examine_funding(name)
    file = open_market(name, format, symbol)
    if file is None:
        from core.markets.lobster import find_source, looks_like_lobster

        if format == "auto" and not looks_like_lobster(name):
            find_source(name, symbol)  # says why, where the file looks like LOBSTER but for its first lines
        from core.markets.doctor_orders import examine_lobster

        return examine_lobster(name, symbol, format == "lobster", tell)
    if file.header.by_order:
        from core.markets.doctor_orders import examine_orders

        return examine_orders(cast(OrderFile, file), tell)
    from core.markets.doctor_depth import examine_depth

    return examine_depth(cast(DepthFile, file), tell)


def _quiet(done: float, text: str) -> None:
    """Nobody watches."""
