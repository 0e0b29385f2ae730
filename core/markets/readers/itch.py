"""Nasdaq TotalView-ITCH 5.0 (raw or gzip) as market-by-order events.

Format: Nasdaq TotalView-ITCH 5.0 specification. Messages are big-endian; each is preceded by two bytes that hold its length,
or 0 in some captures, so messages are sized by their type. Prices are in 1/10,000 dollars, times in nanoseconds after
midnight (Eastern). E and C trade and take from an order (a C may be non-printable: it takes and does not trade), X takes and
keeps priority, D removes, U removes and adds a new id at the back, P is a trade with a hidden order and changes no book, Q is a
cross, B breaks a trade.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.forms import Header, OrderEvents
from core.markets.readers.streams import Stream, head_of

PRICE_SCALE = 10_000
SIZES = {
    "S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21, "A": 36, "F": 40, "E": 31, "C": 36,
    "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19, "I": 50, "N": 20, "O": 48,
}  # fmt: skip
"""Bytes of each message type, its letter included."""
_SIZE = [0] * 256
for _letter, _bytes in SIZES.items():
    _SIZE[ord(_letter)] = _bytes
DECIDED_AFTER = 1_000_000
_BLOCK, _FIRST_BLOCK = 100_000, 2_000
_COLUMNS = "qbqbqqb"


def looks_like_itch(path: str | Path) -> bool:
    """Whether the file starts with an ITCH 5.0 system event that opens the messages."""
    head = head_of(path, 14)
    return len(head) == 14 and head[:2] in (b"\x00\x00", b"\x00\x0c") and head[2:3] == b"S" and head[13:14] in b"OSQMEC"


def open_itch(path: str | Path, symbol: str = "") -> ItchOrders:
    """The events of one stock; without ``symbol`` the one with the most messages among the first million."""
    names: dict[int, str] = {}
    counts: Counter[int] = Counter()
    wanted = -1
    for number, (kind, message) in enumerate(_messages(Stream(path))):
        locate = int.from_bytes(message[1:3], "big")
        if kind == 82:  # R: the stock directory
            names[locate] = message[11:19].decode("latin-1").strip()
            if symbol and names[locate] == symbol:
                wanted = locate
                break
        elif kind in _BOOK:
            counts[locate] += 1
        if number >= DECIDED_AFTER and not symbol:
            break
    if symbol and wanted < 0:
        known = sorted(names.values())
        raise BadInput(f"{path}: symbol", f"no {symbol!r}", "symbol = " + ", ".join(known[:8]) + ("" if len(known) <= 8 else ", …"))
    if not symbol:
        if not counts:
            raise BadInput(str(path), "no order in it", "an ITCH 5.0 file with orders")
        wanted = counts.most_common(1)[0][0]
    others = len(names) - 1
    note = f"the busiest of {others + 1} stocks; symbol = NAME picks another" if not symbol and others > 0 else ""
    header = Header(str(path), "Nasdaq ITCH 5.0", names.get(wanted, str(wanted)), note, PRICE_SCALE, "shares", "midnight")
    return ItchOrders(path, header, wanted)


_BOOK = frozenset(b"AFECXDUPQB")


def _messages(stream: Stream) -> Iterator[tuple[int, bytes]]:
    """(type, message) of the whole file. BadInput for an unknown type, a length that is not its type's, a file cut off."""
    rest, place = b"", 0
    for piece in stream.pieces():
        data = rest + piece
        at, end = 0, len(data)
        while at + 3 <= end:
            kind = data[at + 2]
            size = _SIZE[kind]
            told = data[at] << 8 | data[at + 1]
            if not size or told not in (0, size):
                letter = chr(kind) if 32 < kind < 127 else f"{kind:#04x}"
                found = f"message type {letter!r}" if not size else f"a message {letter!r} of {told} bytes"
                raise BadInput(f"{stream.where}: byte {place + at}", found, "an ITCH 5.0 message of its type's size")
            if at + 2 + size > end:
                break
            yield kind, data[at + 2 : at + 2 + size]
            at += 2 + size
        rest = data[at:]
        place += at
    if rest:
        raise BadInput(f"{stream.where}: byte {place}", f"the last message is cut off after {len(rest)} bytes", "a whole ITCH file")


class ItchOrders:
    """One stock's orders. A C message that is not printable takes from its order without a trade."""

    def __init__(self, path: str | Path, header: Header, locate: int) -> None:
        self.header, self._path, self._locate = header, path, locate
        self._stream = Stream(path)

    @property
    def done(self) -> float:
        return self._stream.done

    def blocks(self) -> Iterator[OrderEvents]:
        """Blocks of events. A U gives two: its old order goes, its new one comes, and only then the book is read."""
        self._stream, limit = Stream(self._path), _FIRST_BLOCK
        wanted = self._locate.to_bytes(2, "big")
        rows = _Rows()
        sides: dict[int, int] = {}
        for kind, m in _messages(self._stream):
            if m[1:3] != wanted or (kind not in _BOOK and kind != 72):
                continue
            time = int.from_bytes(m[5:11], "big")
            if kind in (65, 70):  # A, F
                order, side = int.from_bytes(m[11:19], "big"), 1 if m[19] == 66 else -1
                sides[order] = side
                rows.add(time, forms.ADD, order, side, int.from_bytes(m[32:36], "big"), int.from_bytes(m[20:24], "big"))
            elif kind in (69, 67):  # E, C
                order, size = int.from_bytes(m[11:19], "big"), int.from_bytes(m[19:23], "big")
                printable = kind == 69 or m[31] == 89
                rows.add(time, forms.EXECUTE if printable else forms.CANCEL, order, 0, 0, size)
            elif kind == 88:  # X
                rows.add(time, forms.CANCEL, int.from_bytes(m[11:19], "big"), 0, 0, int.from_bytes(m[19:23], "big"))
            elif kind == 68:  # D
                rows.add(time, forms.DELETE, int.from_bytes(m[11:19], "big"), 0, 0, 0)
            elif kind == 85:  # U
                old, new = int.from_bytes(m[11:19], "big"), int.from_bytes(m[19:27], "big")
                side = sides.get(old, 0)
                sides[new] = side
                rows.add(time, forms.DELETE, old, 0, 0, 0, last=0)
                rows.add(time, forms.ADD, new, side, int.from_bytes(m[31:35], "big"), int.from_bytes(m[27:31], "big"))
            elif kind == 80:  # P: the side of the hidden order, which is B in newer files whatever it was
                rows.add(time, forms.HIDDEN, 0, 0, int.from_bytes(m[32:36], "big"), int.from_bytes(m[20:24], "big"))
            elif kind == 81:  # Q
                rows.add(time, forms.CROSS, 0, 0, int.from_bytes(m[27:31], "big"), int.from_bytes(m[11:19], "big"))
            elif kind == 72:  # H
                rows.add(time, forms.HALT, 0, 0, 0, 0)
            else:  # B
                rows.add(time, forms.NONE, 0, 0, 0, 0)
            if len(rows) >= limit:
                yield rows.take()
                limit = _BLOCK
        if len(rows):
            yield rows.take()


class _Rows:
    def __init__(self) -> None:
        self._columns = [array(code) for code in _COLUMNS]

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, *row: int, last: int = 1) -> None:
        for column, value in zip(self._columns, (*row, last), strict=True):
            column.append(value)

    def take(self) -> OrderEvents:
        import numpy as np

        columns: list[np.ndarray] = [
            np.frombuffer(column, dtype=np.int8 if code == "b" else np.int64).copy()
            for column, code in zip(self._columns, _COLUMNS, strict=True)
        ]
        time, action, order, side, price, size, last = columns
        self._columns = [array(code) for code in _COLUMNS]
        none = np.zeros(len(time), dtype=bool)
        return OrderEvents(time, np.zeros(len(time), dtype=np.int64), action, order, side, price, size, last.astype(bool), none)
