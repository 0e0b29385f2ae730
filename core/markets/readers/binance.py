"""Binance data: raw websocket lines (with or without a receive time) and the CSV files of aggTrades, bookTicker and depth.

Formats: Binance websocket streams and data.binance.vision. A raw line is ``nanoseconds {json}`` or the JSON alone, whole or
inside {"stream", "data"}. Spot CSV times have 16 digits (microseconds) and `True`, USD-M ones 13 (milliseconds) and `true`;
spot files have no header line. m and is_buyer_maker say that the buyer was the maker, so a seller took.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.depth_rows import DepthRows, EpochUnit, number, quantity
from core.markets.readers.forms import DepthEvents, Header
from core.markets.readers.streams import Stream, head_of

AGG_TRADES, BOOK_TICKER, DEPTH = "aggTrades", "bookTicker", "depth"
_HEADERS = {
    "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker": AGG_TRADES,
    "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time": BOOK_TICKER,
    "symbol,timestamp,first_update_id,last_update_id,side,update_type,price,qty,pu": DEPTH,
}
_SPOT_TRADE = re.compile(rb"\d+,\d+(\.\d+)?,\d+(\.\d+)?,\d+,\d+,\d{13,16},(True|False|true|false)(,(True|False|true|false))?\r?$")
_RAW = re.compile(rb"(\d{19} )?\{\"(stream|e)\":")
_BLOCK, _FIRST_BLOCK = 50_000, 2_000
_TRUE, _FALSE = ("true", "True"), ("false", "False")


def looks_like_binance(path: str | Path) -> bool:
    """Whether the first line is a raw websocket line of a market stream, or one of the CSV files."""
    line = head_of(path).split(b"\n", 1)[0]
    return bool(_csv_kind(line) or (_RAW.match(line) and any(word in line for word in (b'"e":', b"bookTicker", b"lastUpdateId"))))


def _csv_kind(line: bytes) -> str:
    text = line.decode("latin-1").strip()
    found = next((kind for header, kind in _HEADERS.items() if text.startswith(header)), "")
    return found or (AGG_TRADES if _SPOT_TRADE.fullmatch(line) else "")


def open_binance(path: str | Path, symbol: str = "") -> BinanceRaw | BinanceCsv:
    """The messages of one symbol; without ``symbol`` the busiest in the first block of lines."""
    _, block = next(Stream(path).lines())
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
    """Raw websocket lines. ``previous`` of a depth message is the update that it follows (pu, or U - 1 on spot)."""

    time_unit = "ms"

    def __init__(self, path: str | Path, header: Header) -> None:
        self.header, self._stream = header, Stream(path)
        self.passed_over: Counter[str] = Counter()

    @property
    def done(self) -> float:
        return self._stream.done

    def blocks(self) -> Iterator[DepthEvents]:
        """Blocks of messages; other streams are passed over and counted. BadInput names a line that is not JSON."""
        self._stream, limit = Stream(self._stream.path), _FIRST_BLOCK
        out, decode = DepthRows(), msgspec.json.Decoder().decode
        for first, lines in self._stream.lines():
            for at, line in enumerate(lines, first):
                if not line.strip():
                    continue
                start = line.find(b"{")
                received = line[:start].strip() if start > 0 else b""
                where = f"{self.header.path}: line {at}"
                try:
                    message = decode(line[start:]) if start >= 0 else None
                except (msgspec.DecodeError, UnicodeDecodeError):
                    message = None
                if not isinstance(message, dict) or (received and not received.isdigit()):
                    raise BadInput(where, f"found {line[:60].decode('utf-8', 'replace')!r}", "a receive time and a JSON object")
                data = message.get("data", message)
                try:
                    self._message(where, int(received or 0), data, out)
                except (KeyError, TypeError, IndexError, AttributeError) as error:
                    raise BadInput(where, f"a message that lacks {error}", "the fields of its stream") from None
                except (ValueError, OverflowError):
                    raise BadInput(where, "a time or number that is none", "numbers as Binance sends them") from None
                if len(out) >= limit:
                    yield out.take()
                    limit = _BLOCK
        if len(out):
            yield out.take()

    def _message(self, where: str, received: int, data: dict[str, Any], out: DepthRows) -> None:
        kind = data.get("e") or ("bookTicker" if "B" in data and "A" in data else "snapshot" if "lastUpdateId" in data else "")
        if data.get("s", self.header.symbol) != self.header.symbol:
            return
        time = int(data.get("T", data.get("E", 0))) * 1_000_000 or received
        if kind in ("trade", "aggTrade"):
            side = -1 if data["m"] else 1
            out.add(
                time,
                received,
                forms.PRINT,
                side,
                number(data["p"], where, "p"),
                quantity(data["q"], where, "q"),
                int(data.get("t", data.get("a", 0))),
            )
        elif kind == "bookTicker":
            levels = [(1, data["b"], data["B"]), (-1, data["a"], data["A"])]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            out.add(time, received, forms.QUOTE, update=int(data["u"]), levels=parsed)
        elif kind == "depthUpdate":
            levels = [(1, p, q) for p, q in data["b"]] + [(-1, p, q) for p, q in data["a"]]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            out.add(time, received, forms.DELTA, update=int(data["u"]), previous=int(data.get("pu", int(data["U"]) - 1)), levels=parsed)
        elif kind == "snapshot":
            levels = [(1, p, q) for p, q in data["bids"]] + [(-1, p, q) for p, q in data["asks"]]
            parsed = [(s, number(p, where, "price"), quantity(q, where, "quantity")) for s, p, q in levels]
            out.add(time, received, forms.SNAPSHOT, update=int(data["lastUpdateId"]), levels=parsed)
        else:
            self.passed_over[str(kind)] += 1


class BinanceCsv:
    """aggTrades, bookTicker or depth as CSV. These files have no receive time."""

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
        self._stream, limit = Stream(self._stream.path), _FIRST_BLOCK
        out = DepthRows()
        pending: tuple[tuple[str, ...], list[tuple[int, float, float]], int] | None = None
        for first, lines in self._stream.lines():
            for at, line in enumerate(lines, first):
                if not line.strip() or (at == 1 and not line[:1].isdigit() and _csv_kind(line)):
                    continue
                where, row = f"{self.header.path}: line {at}", line.decode("utf-8", "replace").split(",")
                if self.kind == AGG_TRADES:
                    self._trade(where, row, out)
                elif self.kind == BOOK_TICKER:
                    self._quote(where, row, out)
                else:
                    pending = self._level(where, row, out, pending)
            if len(out) >= limit:
                yield out.take()
                limit = _BLOCK
        if pending is not None:
            self._give(pending, out)
        if len(out):
            yield out.take()

    def _trade(self, where: str, row: list[str], out: DepthRows) -> None:
        if not 7 <= len(row) <= 8 or row[6] not in (*_TRUE, *_FALSE):
            raise BadInput(where, f"{len(row)} columns", "id, price, quantity, first id, last id, time, true or false")
        time, side = self.unit.read(row[5], where), -1 if row[6] in _TRUE else 1
        out.add(time, 0, forms.PRINT, side, number(row[1], where, "price"), quantity(row[2], where, "quantity"))

    def _quote(self, where: str, row: list[str], out: DepthRows) -> None:
        if len(row) != 7:
            raise BadInput(where, f"{len(row)} columns", "7 columns: update id, bid price, bid quantity, ask price, ask quantity, times")
        levels = [
            (side, number(row[p], where, "price"), quantity(row[p + 1], where, "quantity")) for side, p in ((1, 1), (-1, 3))
        ]  # fmt: skip
        out.add(self.unit.read(row[5], where), 0, forms.QUOTE, update=int(number(row[0], where, "update_id")), levels=levels)

    def _level(
        self, where: str, row: list[str], out: DepthRows, pending: tuple[tuple[str, ...], list[tuple[int, float, float]], int] | None
    ) -> tuple[tuple[str, ...], list[tuple[int, float, float]], int] | None:
        if len(row) != 9 or row[4] not in ("a", "b") or row[5] not in ("snap", "set"):
            raise BadInput(where, f"{len(row)} columns, side {row[4:5]}, type {row[5:6]}", "9 columns, side a or b, type snap or set")
        if row[0] != self.header.symbol:
            return pending
        key = (row[1], row[2], row[3], row[5], row[8].strip())
        level = (1 if row[4] == "b" else -1, number(row[6], where, "price"), quantity(row[7], where, "qty"))
        if pending is not None and pending[0] == key:
            pending[1].append(level)
            return pending
        if pending is not None:
            self._give(pending, out)
        return key, [level], self.unit.read(row[1], where, "timestamp")

    def _give(self, pending: tuple[tuple[str, ...], list[tuple[int, float, float]], int], out: DepthRows) -> None:
        (_, _, last, how, before), levels, time = pending
        kind = forms.SNAPSHOT if how == "snap" else forms.DELTA
        previous = int(before) if before.lstrip("-").isdigit() else 0
        out.add(time, 0, kind, update=int(last) if last.isdigit() else 0, previous=max(previous, 0), levels=levels)
