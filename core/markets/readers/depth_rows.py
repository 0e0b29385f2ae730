"""Builds blocks of market-by-price messages from rows of text, and says which line a bad value stands in."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.errors import BadInput
from core.markets.readers.clock import UNITS, unit_of
from core.markets.readers.forms import DepthEvents, Header
from core.markets.readers.streams import Stream

_MESSAGE = "qqbbddqqq"
BLOCK, FIRST_BLOCK = 8_000, 2_000
"""Messages of a block: some milliseconds of work for whoever takes it. The first one is short, so that something is seen soon."""


class DepthRows:
    """Messages collected so far; `take` gives them as a block."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._columns: list[array[int] | array[float]] = [array(code) for code in _MESSAGE]
        self._first = array("q", [0])
        self._side, self._price, self._size = array("b"), array("d"), array("d")

    def __len__(self) -> int:
        return len(self._first) - 1

    def add(
        self, time: int, received: int, kind: int, side: int = 0, price: float = 0.0, size: float = 0.0, update: int = 0,
        previous: int = 0, levels: Iterable[tuple[int, float, float]] = (), line: int = 0,
    ) -> None:  # fmt: skip
        """One message that begins on ``line``; ``levels`` are (side, price, quantity)."""
        for column, value in zip(self._columns, (time, received, kind, side, price, size, update, previous, line), strict=True):
            column.append(value)  # type: ignore[arg-type]
        for level_side, level_price, level_size in levels:
            self._side.append(level_side)
            self._price.append(level_price)
            self._size.append(level_size)
        self._first.append(len(self._side))

    def take(self) -> DepthEvents:
        """The block so far; the next one starts empty."""
        import numpy as np

        kinds = {"q": np.int64, "b": np.int8, "d": np.float64}
        columns = [np.frombuffer(column, dtype=kinds[code]) for column, code in zip(self._columns, _MESSAGE, strict=True)]
        levels = (np.frombuffer(self._side, np.int8), np.frombuffer(self._price), np.frombuffer(self._size))
        time, received, kind, side, price, size, update, previous, line = columns
        first = np.frombuffer(self._first, np.int64)
        block = DepthEvents(time, received, kind, side, price, size, update, previous, first, *levels, line=line)
        self._clear()
        return block


def in_blocks(rows: Iterable[None], out: DepthRows) -> Iterator[DepthEvents]:
    """Give ``out``, to which ``rows`` adds as it goes, block by block. What stands before damage is given before it is told."""
    limit = FIRST_BLOCK
    try:
        for _ in rows:
            if len(out) >= limit:
                yield out.take()
                limit = BLOCK
    except BadInput:
        if len(out):
            yield out.take()
        raise
    if len(out):
        yield out.take()


def number(text: str | bytes, where: str, name: str) -> float:
    """A finite number; BadInput names the line and the column."""
    try:
        value = float(text)
        if math.isfinite(value):
            return value
    except ValueError:
        pass
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    raise BadInput(where, f"{name} is {shown[:40]!r}", "a number")


def quantity(text: str | bytes, where: str, name: str) -> float:
    """A number that is not negative."""
    value = number(text, where, name)
    if value < 0:
        raise BadInput(where, f"{name} is {value:g}", "0 or more")
    return value


def whole(text: str | bytes | int, where: str, name: str) -> int:
    """A whole number that 64 bits hold; BadInput names the line and the column."""
    try:
        value = int(text)
        if -(2**63) <= value < 2**63:
            return value
    except ValueError:
        pass
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    raise BadInput(where, f"{name} is {shown[:40]!r}", "a whole number of 64 bits")


class EpochUnit:
    """Turns a file's epoch times into nanoseconds; the unit is found from the digits of the first one and holds for all."""

    def __init__(self) -> None:
        self.unit = ""
        self._factor = 0

    def read(self, text: str | bytes | int, where: str, name: str = "time") -> int:
        """Nanoseconds since 1970. BadInput for no whole number, or one whose digits fit no unit, or another unit than before."""
        try:
            value = int(text)
        except ValueError:
            shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
            raise BadInput(where, f"{name} is {shown[:40]!r}", "a whole number of s, ms, µs or ns since 1970") from None
        if not self._factor:
            self.unit = unit_of(value)
            if not self.unit:
                raise BadInput(where, f"{name} {value} has {len(str(abs(value)))} digits", "10 (s), 13 (ms), 16 (µs) or 19 (ns)")
            self._factor = UNITS[self.unit]
        nanoseconds = value * self._factor
        if unit_of(value) != self.unit or not -(2**63) <= nanoseconds < 2**63:
            raise BadInput(where, f"{name} is {value}, in {self.unit} as the first one", "one unit of time in the whole file")
        return nanoseconds


class CsvDepth:
    """A CSV file whose rows become messages, from its beginning at every reading; a format says how (`_rows`)."""

    def __init__(self, path: str | Path, header: Header, kind: str) -> None:
        self.header, self.kind, self._stream = header, kind, Stream(path)
        self.unit = EpochUnit()

    @property
    def done(self) -> float:
        return self._stream.done

    @property
    def time_unit(self) -> str:
        return self.unit.unit

    def blocks(self) -> Iterator[DepthEvents]:
        """Blocks of messages. BadInput names the line of a row that is not as it should be."""
        self._stream, out = Stream(self._stream.path), DepthRows()
        yield from in_blocks(self._rows(out), out)

    def _rows(self, out: DepthRows) -> Iterator[None]:
        """Put one message after the other into ``out``, yielding after each."""
        raise NotImplementedError
