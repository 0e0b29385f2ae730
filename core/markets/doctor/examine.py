"""The data doctor: what is wrong with a market data file, and what it can and cannot say. Nothing is repaired.

A finding is good, bad, or neither: a fact that explains what to expect of the file (how much volume was hidden, whether
queues are known). Files are read as a stream, so their length is no limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.doctor import NOWHERE, Finding, Report, Spot
from core.errors import BadInput
from core.files import refuse_special
from core.formatting import Value
from core.markets.doctor.words import meaning_of
from core.markets.readers.forms import DepthFile, OrderFile

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NOWHERE", "Finding", "Patient", "Progress", "Report", "Spot", "Tally", "examine"]

Progress = Callable[[float, str], None]
"""Told the share that has been read and what is being done; may raise `core.errors.Cancelled`."""

LARGE = 2**31
LOW, MANY = "prices of 0 or below", "quantities of 2^31 or more"
KINDS = "LOBSTER, Databento DBN, ITCH 5.0, Binance or Tardis data, funding settlements, or an archive of messages (npz)"


class Tally:
    """Counts by name, and where the first of each was seen."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._first: dict[str, Spot] = {}

    def see(self, name: str, hit: np.ndarray, base: int, line: np.ndarray | None = None) -> None:
        """``hit`` (events,) bool: which events of a block are such; ``base`` is the step of its first; ``line`` (events,)."""
        found = int(hit.sum())
        if found and name not in self._first:
            at = int(hit.argmax())
            self._first[name] = Spot(base + at, "" if line is None else f"line {line[at]:,}")
        self.counts[name] += found

    def add(self, name: str, step: int, line: np.ndarray | None = None, at: int = 0) -> None:
        """One more, at ``step``, which is ``line[at]`` of the file."""
        self._first.setdefault(name, Spot(step, "" if line is None else f"line {line[at]:,}"))
        self.counts[name] += 1

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    def first(self, name: str) -> Spot:
        return self._first.get(name, NOWHERE)


class Patient:
    """Findings as they are made, in order."""

    def __init__(self, path: str, format: str, symbol: str) -> None:
        self.path, self.format, self.symbol = path, format, symbol
        self.findings: list[Finding] = []

    def tell(self, name: str, value: Value, unit: str = "", note: str = "", *, looked: str = "", first: Spot = NOWHERE) -> None:
        """A fact that can be neither good nor bad."""
        self.findings.append(Finding(name, value, unit, None, note, looked, first, meaning_of(name)))

    def judge(
        self, name: str, value: Value, ok: bool, unit: str = "", note: str = "", *, looked: str = "", first: Spot = NOWHERE
    ) -> None:  # fmt: skip
        """A fact that is good or bad; ``note`` and ``first`` are of the bad."""
        self.findings.append(Finding(name, value, unit, bool(ok), "" if ok else note, looked, NOWHERE if ok else first, meaning_of(name)))

    def count(self, name: str, found: int, note: str = "", *, looked: str = "", first: Spot = NOWHERE) -> None:
        """Something that should not be there at all."""
        self.judge(name, int(found), found == 0, note=note, looked=looked, first=first)

    def tell_odd_numbers(self, tally: Tally, looked: str = "") -> None:
        """`LOW` prices and `MANY` lots, if ``tally`` has seen any: neither is wrong everywhere."""
        for name, note in ((LOW, "usual for spreads, wrong for anything else"), (MANY, "")):
            if tally[name]:
                self.tell(name, tally[name], note=note, looked=looked, first=tally.first(name))

    def broken(self, error: BadInput, read: int = 0) -> None:
        """Reading ended at damage, after ``read`` events; what was found before it stands."""
        place = error.where.removeprefix(self.path).lstrip(": ")
        self.judge(
            "readable to its end", False, False, note=f"{error.found}; allowed: {error.allowed}",
            looked="every byte", first=Spot(read - 1, place),
        )  # fmt: skip

    @property
    def report(self) -> Report:
        return Report(self.path, self.format, self.symbol, tuple(self.findings))


def examine(path: str | Path, symbol: str = "", format: str = "auto", progress: Progress | None = None) -> Report:
    """Read the whole file and report. BadInput where it is no market data at all; damage further on is a finding."""
    from core.markets.open_file import is_funding, open_market, recognised

    tell = progress or _quiet
    name = str(path)
    refuse_special(Path(name), KINDS)
    if format in ("auto", "binance") and is_funding(name):
        from core.markets.doctor.funding import examine_funding

        return examine_funding(name, symbol)
    if format in ("auto", "messages"):
        from core.markets.stream.archive import looks_like_stream

        if format == "messages" or looks_like_stream(name):
            from core.markets.doctor.stream import examine_stream

            return examine_stream(name, tell)
    try:
        file = open_market(name, format, symbol)
    except BadInput as error:
        row = recognised(name) if format == "auto" else None
        if row is None or not is_damage(error):
            raise
        patient = Patient(name, row.title, symbol)
        patient.broken(error)
        return patient.report
    if file is None:
        from core.markets.lobster.reader import find_source, looks_like_lobster

        if format == "auto" and not looks_like_lobster(name):
            find_source(name, symbol)  # says why, where the file looks like LOBSTER but for its first lines
        from core.markets.doctor.lobster import examine_lobster

        return examine_lobster(name, symbol, format == "lobster", tell)
    if file.header.by_order:
        from core.markets.doctor.orders import examine_orders

        return examine_orders(cast(OrderFile, file), tell)
    from core.markets.doctor.depth import examine_depth

    return examine_depth(cast(DepthFile, file), tell)


def is_damage(error: BadInput) -> bool:
    """Whether reading ended because bytes are missing or wrong, and not because the file is of another kind."""
    return ": byte " in error.where or any(word in error.found for word in ("cut off", "ends too early", "damaged"))


def _quiet(done: float, text: str) -> None:
    """Nobody watches."""
