"""Nasdaq TotalView-ITCH 5.0 (raw or gzip) as market-by-order events.

Format: Nasdaq TotalView-ITCH 5.0 specification. Messages are big-endian; each is preceded by two bytes that hold its length,
or 0 in some captures, so messages are sized by their type. Prices are in 1/10,000 dollars, times in nanoseconds after
midnight (Eastern). E and C trade and take from an order (a C may be non-printable: it takes and does not trade), X takes and
keeps priority, D removes, U removes and adds a new id at the back, P is a trade with a hidden order and changes no book, Q is a
cross, B breaks a trade.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadInput
from core.markets.readers.forms import Header, OrderEvents
from core.markets.readers.streams import Stream, head_of

if TYPE_CHECKING:
    import numpy as np

PRICE_SCALE = 10_000
SIZES = {
    "S": 12, "R": 39, "H": 25, "Y": 20, "L": 26, "V": 35, "W": 12, "K": 28, "J": 35, "h": 21, "A": 36, "F": 40, "E": 31, "C": 36,
    "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40, "B": 19, "I": 50, "N": 20, "O": 48,
}  # fmt: skip
"""Bytes of each message type, its letter included."""
DECIDED_AFTER = 1_000_000
_ORDERS = b"AFECXDUPQB"
_BLOCK, _FIRST_BLOCK = 16_384, 2_000
_PIECE = 1 << 18
_SHORTEST = 14
"""Bytes of the shortest message with its prefix."""


def looks_like_itch(path: str | Path) -> bool:
    """Whether the file starts with an ITCH 5.0 system event that opens the messages."""
    head = head_of(path, 14)
    return len(head) == 14 and head[:2] in (b"\x00\x00", b"\x00\x0c") and head[2:3] == b"S" and head[13:14] in b"OSQMEC"


def open_itch(path: str | Path, symbol: str = "") -> ItchOrders:
    """The events of one stock; without ``symbol`` the one with the most messages among the first million."""
    import numpy as np

    from core.markets.readers import itch_kernel as kernel

    names: dict[int, str] = {}
    wanted = -1
    sizes, counted = message_sizes()
    per_stock, directory, counts = np.zeros(1 << 16, dtype=np.int64), np.zeros(4096, dtype=np.int64), np.zeros(4, dtype=np.int64)
    most = 1 << 62 if symbol else DECIDED_AFTER
    for data in _Messages(Stream(path), counts):
        while not counts[kernel.K_BAD]:
            counts[kernel.K_ROWS] = 0
            data.at = kernel.count_messages(data.bytes, data.at, data.end, sizes, counted, most, counts, per_stock, directory)
            for body in directory[: counts[kernel.K_ROWS]].tolist():
                locate, name = bytes(data.bytes[body + 1 : body + 3]), bytes(data.bytes[body + 11 : body + 19])
                names[int.from_bytes(locate, "big")] = name.decode("latin-1").strip()
            if counts[kernel.K_ROWS] < len(directory):
                break
        if symbol in names.values() or counts[kernel.K_MESSAGES] >= most:
            break
    if symbol:
        wanted = next((locate for locate, name in names.items() if name == symbol), -1)
    if symbol and wanted < 0:
        known = sorted(names.values())
        raise BadInput(f"{path}: symbol", f"no {symbol!r}", "symbol = " + ", ".join(known[:8]) + ("" if len(known) <= 8 else ", …"))
    if not symbol:
        if not per_stock.any():
            raise BadInput(str(path), "no order in it", "an ITCH 5.0 file with orders")
        wanted = int(per_stock.argmax())
    others = len(names) - 1
    note = f"the busiest of {others + 1} stocks; symbol = NAME picks another" if not symbol and others > 0 else ""
    header = Header(str(path), "Nasdaq ITCH 5.0", names.get(wanted, str(wanted)), note, PRICE_SCALE, "shares", "midnight")
    return ItchOrders(path, header, wanted)


def message_sizes() -> tuple[np.ndarray, np.ndarray]:
    """(256,) the size of each message type, and whether it is about orders."""
    import numpy as np

    sizes, counted = np.zeros(256, dtype=np.int64), np.zeros(256, dtype=np.bool_)
    for letter, size in SIZES.items():
        sizes[ord(letter)] = size
    counted[list(_ORDERS)] = True
    return sizes, counted


class _Messages:
    """The bytes of a file piece by piece: whoever reads [``at``, ``end``) sets ``at`` to where they stopped.

    BadInput for an unknown type, a length that is not its type's (the reader says so in ``counts``), a file cut off.
    """

    def __init__(self, stream: Stream, counts: np.ndarray) -> None:
        self.stream = stream
        self._counts = counts
        self.at = self.end = 0

    def __iter__(self) -> Iterator[_Messages]:
        import numpy as np

        from core.markets.readers.itch_kernel import K_BAD

        rest, place = b"", 0
        for whole in self.stream.pieces():
            for begin in range(0, len(whole), _PIECE):
                data = rest + whole[begin : begin + _PIECE]
                self.bytes = np.frombuffer(data, dtype=np.uint8)
                self.at, self.end = 0, len(data)
                yield self
                if self._counts[K_BAD]:
                    self._refuse(data, place)
                rest, place = data[self.at :], place + self.at
        if rest:
            found = f"the last message is cut off after {len(rest)} bytes"
            raise BadInput(f"{self.stream.where}: byte {place}", found, "a whole ITCH file")

    def _refuse(self, data: bytes, place: int) -> None:
        kind, told = data[self.at + 2], int.from_bytes(data[self.at : self.at + 2], "big")
        letter = chr(kind) if 32 < kind < 127 else f"{kind:#04x}"
        found = f"a message {letter!r} of {told} bytes" if chr(kind) in SIZES else f"message type {letter!r}"
        raise BadInput(f"{self.stream.where}: byte {place + self.at}", found, "an ITCH 5.0 message of its type's size")


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
        import numpy as np

        from core.markets.kernels.hashed import grown, table
        from core.markets.readers import itch_kernel as kernel

        self._stream = Stream(self._path)
        sizes, _ = message_sizes()
        orders, counts = table(1), np.zeros(4, dtype=np.int64)
        limit, room = _FIRST_BLOCK, _BLOCK + 2 * (_PIECE // _SHORTEST)
        wide, narrow = np.empty((4, room), dtype=np.int64), np.empty((3, room), dtype=np.int8)
        for data in _Messages(self._stream, counts):
            orders = grown(orders, int(counts[kernel.K_RESTING]) + (data.end - data.at) // _SHORTEST)
            data.at = kernel.stock_events(data.bytes, data.at, data.end, sizes, self._locate, orders, counts, wide, narrow)
            if counts[kernel.K_ROWS] >= limit or (counts[kernel.K_BAD] and counts[kernel.K_ROWS]):
                yield self._events(wide, narrow, counts)
                limit = _BLOCK
        if counts[kernel.K_ROWS]:
            yield self._events(wide, narrow, counts)

    @staticmethod
    def _events(wide: np.ndarray, narrow: np.ndarray, counts: np.ndarray) -> OrderEvents:
        """The rows written so far, which are then free again."""
        import numpy as np

        from core.markets.readers import itch_kernel as kernel

        rows = int(counts[kernel.K_ROWS])
        counts[kernel.K_ROWS] = 0
        time, order, price, size = wide[:, :rows].copy()
        action, side, last = narrow[:, :rows].copy()
        zero = np.zeros(rows, dtype=np.int64)
        return OrderEvents(time, zero, action, order, side, price, size, last.astype(bool), np.zeros(rows, dtype=bool))
