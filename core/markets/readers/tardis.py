"""Tardis CSV files (raw or gzip): trades, quotes, book_snapshot_N and incremental_book_L2.

Format: docs.tardis.dev, "Downloadable CSV files". Every row has exchange, symbol, timestamp (of the exchange) and
local_timestamp (of the receiver), in microseconds UTC; other units are read and said. Rows of incremental_book_L2 with one
local_timestamp are one message; an is_snapshot row after others starts the book anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.depth_rows import CsvDepth, DepthRows, EpochUnit, number, quantity
from core.markets.readers.forms import Header
from core.markets.readers.streams import Stream
from core.markets.readers.text import opening, text_head, text_lines

START = "exchange,symbol,timestamp,local_timestamp,"
ALLOWED = "Tardis trades, quotes, book_snapshot_N or incremental_book_L2"
_LEVEL = re.compile(r"(asks|bids)\[(\d+)\]\.(price|amount)")
_KINDS = {
    "trades": ("id", "side", "price", "amount"),
    "quotes": ("ask_amount", "ask_price", "bid_price", "bid_amount"),
    "incremental_book_L2": ("is_snapshot", "side", "price", "amount"),
}


def looks_like_tardis(path: str | Path) -> bool:
    """Whether the first line is a Tardis header."""
    return text_head(path, len(START)) == START.encode()


def open_tardis(path: str | Path, symbol: str = "") -> TardisDepth:
    """The messages of one symbol: the one asked for, else the busiest in the first block of lines."""
    block = opening(Stream(path))
    columns = block[0].decode("utf-8", "replace").strip().split(",")
    kind = _kind_of(columns)
    if not kind:
        raise BadInput(f"{path}: line 1", f"columns {', '.join(columns[4:9])}", ALLOWED)
    counts = Counter(row.split(b",", 2)[1] for row in block[1:] if row.count(b",") > 1)
    if not counts:
        raise BadInput(str(path), "a header without rows", "rows of " + kind)
    if symbol and symbol.encode() not in counts:
        known = ", ".join(sorted(name.decode("utf-8", "replace") for name in counts)[:8])
        raise BadInput(f"{path}: symbol", f"no {symbol!r} among the first rows", f"symbol = {known}")
    chosen = symbol or counts.most_common(1)[0][0].decode("utf-8", "replace")
    note = f"the busiest of {len(counts)} symbols; symbol = NAME picks another" if not symbol and len(counts) > 1 else ""
    return TardisDepth(path, Header(str(path), f"Tardis {kind}", chosen, note, by_order=False), kind, columns)


def _kind_of(columns: list[str]) -> str:
    named = next((kind for kind, wanted in _KINDS.items() if tuple(columns[4:8]) == wanted), "")
    levels = [_LEVEL.fullmatch(name) for name in columns[4:]]
    if not named and levels and all(levels) and len(levels) % 4 == 0:
        return f"book_snapshot_{len(levels) // 4}"
    return named


class TardisDepth(CsvDepth):
    """One symbol's rows as messages."""

    def __init__(self, path: str | Path, header: Header, kind: str, columns: list[str]) -> None:
        super().__init__(path, header, kind)
        self._columns = columns
        self.local_unit = EpochUnit()

    def _rows(self, out: DepthRows) -> Iterator[None]:
        pending = _Pending()
        for first, lines in text_lines(self._stream):
            for at, line in enumerate(lines, first):
                if at > 1 and line.strip():
                    self._row(at, line.decode("utf-8", "replace").split(","), out, pending)
                    yield
        pending.give(out)

    def _row(self, line: int, row: list[str], out: DepthRows, pending: _Pending) -> None:
        where = f"{self.header.path}: line {line}"
        if len(row) != len(self._columns):
            raise BadInput(where, f"{len(row)} columns", f"{len(self._columns)} columns, as in the header")
        if row[1] != self.header.symbol:
            return
        time, local = self.unit.read(row[2], where, "timestamp"), self.local_unit.read(row[3], where, "local_timestamp")
        if self.kind == "trades":
            side = {"buy": 1, "sell": -1}.get(row[5], 0)
            out.add(time, local, forms.PRINT, side, number(row[6], where, "price"), quantity(row[7], where, "amount"), line=line)
        elif self.kind == "quotes":
            levels = [(side, row[p], row[q]) for side, p, q in ((-1, 5, 4), (1, 6, 7)) if row[p]]
            parsed = [(s, number(p, where, "price"), quantity(q or "0", where, "amount")) for s, p, q in levels]
            out.add(time, local, forms.QUOTE, levels=parsed, line=line)
        elif self.kind == "incremental_book_L2":
            if row[4] not in ("true", "false") or row[5] not in ("bid", "ask"):
                raise BadInput(where, f"is_snapshot {row[4]!r}, side {row[5]!r}", "true or false, bid or ask")
            level = (1 if row[5] == "bid" else -1, number(row[6], where, "price"), quantity(row[7], where, "amount"))
            pending.take(time, local, row[4] == "true", level, line, out)
        else:
            found: list[tuple[int, float, float]] = []
            for name, text in zip(self._columns[4::2], range(4, len(row), 2), strict=True):
                if row[text]:
                    side = -1 if name.startswith("asks") else 1
                    found.append((side, number(row[text], where, name), quantity(row[text + 1], where, name.replace("price", "amount"))))
            out.add(time, local, forms.SNAPSHOT, levels=found, line=line)


class _Pending:
    """Rows of one message of incremental_book_L2, until the next one begins."""

    def __init__(self) -> None:
        self._key: tuple[int, int, bool] | None = None
        self._levels: list[tuple[int, float, float]] = []
        self._line = 0

    def take(self, time: int, local: int, snapshot: bool, level: tuple[int, float, float], line: int, out: DepthRows) -> None:
        if self._key != (time, local, snapshot):
            self.give(out)
            self._key, self._line = (time, local, snapshot), line
        self._levels.append(level)

    def give(self, out: DepthRows) -> None:
        if self._key is not None:
            time, local, snapshot = self._key
            out.add(time, local, forms.SNAPSHOT if snapshot else forms.DELTA, levels=self._levels, line=self._line)
        self._key, self._levels = None, []
