"""Binance data: raw websocket lines (with or without a receive time) and the CSV files of aggTrades, bookTicker and depth.

Formats: Binance websocket streams and data.binance.vision. A raw line is ``nanoseconds {json}`` or the JSON alone, whole or
inside {"stream", "data"}. Spot quotes and snapshots tell no time: where there is no receive time either, they stand at the time
of the message before. Spot CSV times have 16 digits (microseconds) and `True`, USD-M ones 13 (milliseconds) and `true`;
spot files have no header line. m and is_buyer_maker say that the buyer was the maker, so a seller took.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.depth_rows import CsvDepth, DepthRows, EpochUnit, in_blocks, number, quantity, whole
from core.markets.readers.forms import DepthEvents, Header
from core.markets.readers.streams import Stream
from core.markets.readers.text import opening, text_head, text_lines

AGG_TRADES, BOOK_TICKER, DEPTH = "aggTrades", "bookTicker", "depth"
_HEADERS = {
    "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker": AGG_TRADES,
    "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time": BOOK_TICKER,
    "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu": DEPTH,
}
_SPOT_TRADE = re.compile(rb"\d+,\d+(\.\d+)?,\d+(\.\d+)?,\d+,\d+,\d{13,16},(True|False|true|false)(,(True|False|true|false))?\r?$")
_RAW = re.compile(rb"(\d{19} )?\{\"(stream|e|u|lastUpdateId)\":")
_RAW_WORDS = (b'"e":', b"bookTicker", b"lastUpdateId", b'"A":')
_RAW_TIME = re.compile(rb'"[ET]":(\d+)')
_RECENT = 1_000  # updates kept for a snapshot that comes late: some minutes of them
_TRUE, _FALSE = ("true", "True"), ("false", "False")


def looks_like_binance(path: str | Path) -> bool:
    """Whether the first line is a raw websocket line of a market stream, or one of the CSV files."""
    line = text_head(path).split(b"\n", 1)[0]
    return bool(_csv_kind(line) or (_RAW.match(line) and any(word in line for word in _RAW_WORDS)))


def _csv_kind(line: bytes) -> str:
    text = line.decode("latin-1").strip()
    found = next((kind for header, kind in _HEADERS.items() if text.startswith(header)), "")
    return found or (AGG_TRADES if _SPOT_TRADE.fullmatch(line) else "")


def open_binance(path: str | Path, symbol: str = "") -> BinanceRaw | BinanceCsv:
    """The messages of one symbol; without ``symbol`` the busiest in the first block of lines."""
    block = opening(Stream(path))
    kind = _csv_kind(block[0])
    if kind:
        if kind != DEPTH:
            return BinanceCsv(path, Header(str(path), f"Binance {kind}", symbol, by_order=False), kind)
        counts = Counter(row.split(b",", 1)[0].decode("latin-1") for row in block[1:] if row)
    else:
        if not _RAW.match(block[0]):
            raise BadInput(f"{path}: line 1", f"found {block[0][:60].decode('latin-1')!r}", "a raw Binance line or CSV header")
        counts = Counter(found[1].decode("latin-1") for row in block if (found := re.search(rb'"s":"([^"]+)"', row)))
    if not counts:
        raise BadInput(str(path), "no message of any symbol", "messages of depth, bookTicker, trade or aggTrade")
    if symbol and symbol not in counts:
        raise BadInput(f"{path}: symbol", f"no {symbol!r} among the first lines", "symbol = " + ", ".join(sorted(counts)[:8]))
    chosen = symbol or counts.most_common(1)[0][0]
    note = f"the busiest of {len(counts)} symbols; symbol = NAME picks another" if not symbol and len(counts) > 1 else ""
    header = Header(str(path), "Binance depth" if kind else "Binance raw websocket", chosen, note, by_order=False)
    return BinanceCsv(path, header, kind) if kind else BinanceRaw(path, header)


class BinanceRaw:
    """Raw websocket lines. ``previous`` of a depth message is the update that it follows (pu, or U - 1 on spot).

    trade and aggTrade tell the same trades twice: where both streams were captured, the one that comes first is read.
    A snapshot is asked for while updates run: those that came before it and are newer are laid over it, those that come
    after it and are older are passed over (Binance, "How to manage a local order book correctly").
    """

    def __init__(self, path: str | Path, header: Header) -> None:
        self.header, self._stream = header, Stream(path)
        self.unit, self.local = EpochUnit(), EpochUnit()
        self.passed_over: Counter[str] = Counter()
        self.late_snapshots = self.untimed = 0
        self._start_anew()

    def _start_anew(self) -> None:
        self.passed_over.clear()
        self.late_snapshots = self.untimed = 0
        self._trades, self._snapshot, self._latest = "", 0, 0
        self._recent: deque[tuple[int, list[tuple[int, float, float]]]] = deque(maxlen=_RECENT)

    @property
    def time_unit(self) -> str:
        return self.unit.unit or "ns"

    @property
    def done(self) -> float:
        return self._stream.done

    def blocks(self) -> Iterator[DepthEvents]:
        """Blocks of messages; other streams are passed over and counted. BadInput names a line that is no message."""
        self._stream = Stream(self._stream.path)
        self._start_anew()
        out = DepthRows()
        yield from in_blocks(self._rows(out), out)

    def _rows(self, out: DepthRows) -> Iterator[None]:
        decode = msgspec.json.Decoder().decode
        for first, lines in text_lines(self._stream):
            for at, line in enumerate(lines, first):
                if line.strip():
                    self._line(at, line, decode, out)
                    yield

    def _line(self, at: int, line: bytes, decode: Callable[[bytes], Any], out: DepthRows) -> None:
        start, where = line.find(b"{"), f"{self.header.path}: line {at}"
        received = line[:start].strip() if start > 0 else b""
        found = f"found {line[:60].decode('utf-8', 'replace')!r}"
        try:
            message = decode(line[start:]) if start >= 0 else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise BadInput(where, found, "a receive time and a JSON object")
        data = message.get("data", message)
        try:
            self._message(at, self.local.read(received, where, "receive time") if received else 0, data, out)
        except KeyError as error:
            raise BadInput(where, f"a message that lacks {error}", "the fields of its stream") from None
        except (TypeError, IndexError, AttributeError, ValueError):
            raise BadInput(where, f"a field of another kind in {found.removeprefix('found ')}", "the fields of its stream") from None

    def _message(self, line: int, received: int, data: dict[str, Any], out: DepthRows) -> None:
        where = f"{self.header.path}: line {line}"
        kind = data.get("e") or ("bookTicker" if "B" in data and "A" in data else "snapshot" if "lastUpdateId" in data else "")
        if data.get("s", self.header.symbol) != self.header.symbol:
            return
        stamp = data.get("T", data.get("E"))
        time = self.unit.read(stamp, where, "T" if "T" in data else "E") if stamp is not None else received or self._time_before(where)
        self._latest = time
        if kind in ("trade", "aggTrade"):
            self._trades = self._trades or kind
            if kind != self._trades:
                self.passed_over[f"{kind} (told by {self._trades})"] += 1
                return
            if not isinstance(data["m"], bool):
                raise BadInput(where, f"m is {data['m']!r}", "true or false")
            side = -1 if data["m"] else 1
            out.add(
                time,
                received,
                forms.PRINT,
                side,
                number(data["p"], where, "p"),
                quantity(data["q"], where, "q"),
                whole(data.get("t", data.get("a", 0)), where, "t" if "t" in data else "a"),
                line=line,
            )
        elif kind == "bookTicker":
            levels = [(1, data["b"], data["B"]), (-1, data["a"], data["A"])]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            out.add(time, received, forms.QUOTE, update=whole(data["u"], where, "u"), levels=parsed, line=line)
        elif kind == "depthUpdate":
            levels = [(1, p, q) for p, q in data["b"]] + [(-1, p, q) for p, q in data["a"]]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            update = whole(data["u"], where, "u")
            previous = whole(data["pu"], where, "pu") if "pu" in data else whole(data["U"], where, "U") - 1
            if update <= self._snapshot:
                self.passed_over["depthUpdate older than the snapshot before it"] += 1
                return
            self._recent.append((update, parsed))
            out.add(time, received, forms.DELTA, update=update, previous=previous, levels=parsed, line=line)
        elif kind == "snapshot":
            levels = [(1, p, q) for p, q in data["bids"]] + [(-1, p, q) for p, q in data["asks"]]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            self._snapshot = whole(data["lastUpdateId"], where, "lastUpdateId")
            newest, parsed = self._laid_over(self._snapshot, parsed)
            out.add(time, received, forms.SNAPSHOT, update=newest, levels=parsed, line=line)
        else:
            self.passed_over[str(kind)] += 1

    def _time_before(self, where: str) -> int:
        """The time of the message before, for one that tells none; before the first that does, that one's. BadInput where none does."""
        if not self._latest:
            first = next((found[1] for line in opening(Stream(self._stream.path)) if (found := _RAW_TIME.search(line))), None)
            if first is None:
                raise BadInput(where, "no time, of the exchange or of receipt", "a receive time before each line, or trades among them")
            self._latest = self.unit.read(first, where)
        self.untimed += 1
        return self._latest

    def _laid_over(self, update: int, levels: list[tuple[int, float, float]]) -> tuple[int, list[tuple[int, float, float]]]:
        """The snapshot's (update, levels) with the updates that came before it and are newer."""
        newer = [(number, changes) for number, changes in self._recent if number > update]
        if not newer:
            return update, levels
        self.late_snapshots += 1
        book = {(side, price): size for side, price, size in levels}
        for _, changes in newer:
            book.update({(side, price): size for side, price, size in changes})
        return newer[-1][0], [(side, price, size) for (side, price), size in book.items() if size]


class _Pending:
    """Rows of one message of a depth file, until the next one begins."""

    def __init__(self, key: tuple[str, ...], line: int, time: int, update: int, previous: int) -> None:
        self.key, self.line, self.time, self.update, self.previous = key, line, time, update, previous
        self.levels: list[tuple[int, float, float]] = []

    def give(self, out: DepthRows) -> None:
        kind = forms.SNAPSHOT if self.key[3] == "snap" else forms.DELTA
        out.add(self.time, 0, kind, update=self.update, previous=max(self.previous, 0), levels=self.levels, line=self.line)


class BinanceCsv(CsvDepth):
    """aggTrades, bookTicker or depth as CSV. These files have no receive time."""

    def __init__(self, path: str | Path, header: Header, kind: str) -> None:
        super().__init__(path, header, kind)

    def _rows(self, out: DepthRows) -> Iterator[None]:
        pending: _Pending | None = None
        for first, lines in text_lines(self._stream):
            for at, line in enumerate(lines, first):
                if not line.strip() or (at == 1 and not line[:1].isdigit() and _csv_kind(line)):
                    continue
                row = line.decode("utf-8", "replace").split(",")
                if self.kind == AGG_TRADES:
                    self._trade(at, row, out)
                elif self.kind == BOOK_TICKER:
                    self._quote(at, row, out)
                else:
                    pending = self._level(at, row, out, pending)
                yield
        if pending is not None:
            pending.give(out)

    def _trade(self, line: int, row: list[str], out: DepthRows) -> None:
        where = f"{self.header.path}: line {line}"
        if not 7 <= len(row) <= 8 or row[6] not in (*_TRUE, *_FALSE):
            raise BadInput(where, f"{len(row)} columns", "id, price, quantity, first id, last id, time, true or false")
        time, side = self.unit.read(row[5], where), -1 if row[6] in _TRUE else 1
        price, size = number(row[1], where, "price"), quantity(row[2], where, "quantity")
        out.add(time, 0, forms.PRINT, side, price, size, whole(row[0], where, "agg_trade_id"), line=line)

    def _quote(self, line: int, row: list[str], out: DepthRows) -> None:
        where = f"{self.header.path}: line {line}"
        if len(row) != 7:
            raise BadInput(where, f"{len(row)} columns", "7 columns: update id, bid price, bid quantity, ask price, ask quantity, times")
        levels = [
            (side, number(row[p], where, "price"), quantity(row[p + 1], where, "quantity")) for side, p in ((1, 1), (-1, 3))
        ]  # fmt: skip
        out.add(self.unit.read(row[5], where), 0, forms.QUOTE, update=whole(row[0], where, "update_id"), levels=levels, line=line)

    def _level(self, line: int, row: list[str], out: DepthRows, pending: _Pending | None) -> _Pending | None:
        where = f"{self.header.path}: line {line}"
        if len(row) != 9 or row[4] not in ("a", "b") or row[5] not in ("snap", "set"):
            raise BadInput(where, f"{len(row)} columns, side {row[4:5]}, type {row[5:6]}", "9 columns, side a or b, type snap or set")
        if row[0] != self.header.symbol:
            return pending
        key = (row[1], row[2], row[3], row[5], row[8].strip())
        level = (1 if row[4] == "b" else -1, number(row[6], where, "price"), quantity(row[7], where, "qty"))
        if pending is None or pending.key != key:
            if pending is not None:
                pending.give(out)
            last, before = whole(row[3] or 0, where, "last_update_id"), whole(key[4] or 0, where, "pu")
            pending = _Pending(key, line, self.unit.read(row[1], where, "timestamp"), last, before)
        pending.levels.append(level)
        return pending
