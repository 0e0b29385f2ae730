"""Databento DBN files (raw or zstandard): market by order, market by price (mbp-1, mbp-10) and trades.

Format: Databento Binary Encoding, versions 1 to 3. A header ("DBN", version, length) is followed by records whose first byte
is their length in words of 4 bytes and whose second is their kind. Prices are in 1e-9, times in nanoseconds UTC. The record
layouts come from the package databento-dbn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.markets.readers import forms
from core.markets.readers.forms import DepthEvents, Header, OrderEvents
from core.markets.readers.streams import Stream, head_of

if TYPE_CHECKING:
    import numpy as np

PRICE_SCALE = 1_000_000_000
UNDEFINED_PRICE, LOWEST_PRICE = 2**63 - 1, -(2**63)
F_LAST, F_SNAPSHOT, F_MAYBE_BAD_BOOK = 128, 32, 4
WHOLE_NUMBERING = 0.99
"""From this share of steps of 0 or 1 on, a file holds every number of its publisher, and a larger step is a gap."""
SCHEMAS = "mbo, mbp-1, mbp-10, tbbo or trades"
_MBO, _TRADE, _MBP1, _MBP10 = 0xA0, 0x00, 0x01, 0x0A
_ACTIONS = {"A": forms.ADD, "C": forms.CANCEL, "M": forms.MODIFY, "R": forms.CLEAR, "T": forms.TRADE, "F": forms.FILL, "N": forms.NONE}
_LARGEST_HEADER = 64 << 20


def looks_like_dbn(path: str | Path) -> bool:
    """Whether the file is DBN, packed or not."""
    head = head_of(path, 4)
    return head[:3] == b"DBN" and len(head) == 4 and head[3] in (1, 2, 3)


def open_dbn(path: str | Path, symbol: str = "") -> DbnOrders | DbnDepth:
    """Read the header and the first record. BadInput where the schema is none of those that hold a book or trades."""
    reader = _Records(path)
    block = next(reader.records(), None)
    if block is None:
        raise BadInput(str(path), f"an empty {reader.schema or 'DBN'} file: a header without records", f"records of {SCHEMAS}")
    kind = reader.kind
    symbol, instrument, note = _chosen(reader, block, symbol)
    header = Header(str(path), f"Databento {reader.schema or 'DBN'}", symbol, note, PRICE_SCALE, by_order=kind == _MBO)
    if kind == _MBO:
        return DbnOrders(path, header, instrument)
    return DbnDepth(path, header, instrument)


class _Records:
    """The records of one kind in blocks of a structured array; others (symbol mappings, system messages) are passed over."""

    def __init__(self, path: str | Path) -> None:
        self.stream = Stream(path)
        self.where = str(path)
        self.schema = ""
        self.kind = -1
        self.symbols: dict[int, str] = {}

    def records(self) -> Iterator[np.ndarray]:
        import numpy as np

        rest, at_record, read = b"", False, 0
        for piece in self.stream.pieces():
            rest += piece
            if not at_record:
                size = self._header_size(rest)
                if size is None or len(rest) < size:
                    continue
                self._metadata(rest[:size])
                rest, at_record = rest[size:], True
            used = 1
            while used:  # a run of records of another kind may follow
                used, chunks = self._whole_records(rest, read)
                rest, read = rest[used:], read + used
                for chunk in chunks:
                    yield np.frombuffer(chunk, dtype=self._dtype(chunk[0] * 4))
        if not at_record:
            raise BadInput(self.where, "the DBN header is cut off", "a whole DBN file")
        if rest:
            raise BadInput(self.where, f"the last record is cut off after {len(rest)} bytes", "a whole DBN file")

    def _header_size(self, data: bytes) -> int | None:
        if len(data) < 8:
            return None
        if data[:3] != b"DBN" or data[3] not in (1, 2, 3):
            raise BadInput(self.where, f"starts with {data[:4]!r}", "DBN of version 1, 2 or 3")
        size = int.from_bytes(data[4:8], "little") + 8
        if size > _LARGEST_HEADER:
            raise BadInput(self.where, f"a header of {size:,} bytes", f"at most {_LARGEST_HEADER:,} bytes")
        return size

    def _metadata(self, header: bytes) -> None:
        import databento_dbn

        try:
            decoder = databento_dbn.DBNDecoder()
            decoder.write(header)
            found = decoder.decode()[0]
            if not isinstance(found, databento_dbn.Metadata):
                raise ValueError("it holds no metadata")
        except Exception as error:  # the package raises its own and ValueError alike
            raise BadInput(self.where, f"a DBN header that cannot be read ({error})", "a whole DBN file") from None
        self.schema = str(found.schema or "")
        for name, spans in found.mappings.items():
            for span in spans:
                if str(span["symbol"]).isdigit():
                    self.symbols[int(span["symbol"])] = name
        if not self.symbols and len(found.symbols) == 1:
            self.symbols[-1] = found.symbols[0]

    def _whole_records(self, data: bytes, read: int) -> tuple[int, list[bytes]]:
        """(bytes used, runs of records of the file's kind and one length). One run where all records are alike, the usual case."""
        import numpy as np

        if not data:
            return 0, []
        size = data[0] * 4
        count = len(data) // size if size else 0
        if count and (self.kind < 0 or data[1] == self.kind):
            table = np.frombuffer(data, dtype=np.uint8, count=count * size).reshape(count, size)
            if data[1] in (_MBO, _TRADE, _MBP1, _MBP10) and bool(((table[:, 0] == data[0]) & (table[:, 1] == data[1])).all()):
                self.kind = data[1]
                return count * size, [data[: count * size]]
        at, runs, begin, length = 0, [], -1, 0
        while at < len(data):
            size = data[at] * 4
            if size < 16:
                raise BadInput(f"{self.where}: byte {read + at} of the records", f"a record of {size} bytes", "records of 16 bytes or more")
            if at + size > len(data):
                break
            kind = data[at + 1]
            if self.kind < 0 and kind in (_MBO, _TRADE, _MBP1, _MBP10):
                self.kind = kind
            mine = kind == self.kind
            if begin >= 0 and (not mine or size != length):
                runs.append(data[begin:at])
                begin = -1
            if mine and begin < 0:
                begin, length = at, size
            if not mine and kind in (_MBO, _TRADE, _MBP1, _MBP10):
                raise BadInput(f"{self.where}: byte {read + at} of the records", "records of two schemas in one file", f"one of {SCHEMAS}")
            at += size
        if begin >= 0:
            runs.append(data[begin:at])
        if at and self.kind < 0:
            raise BadInput(self.where, f"a file of {self.schema or f'kind {data[1]:#x}'} records", f"a DBN file of {SCHEMAS}")
        return at, runs

    def _dtype(self, size: int) -> np.dtype:
        import databento_dbn
        import numpy as np

        layouts = {
            _MBO: databento_dbn.MBOMsg, _TRADE: databento_dbn.TradeMsg, _MBP1: databento_dbn.MBP1Msg, _MBP10: databento_dbn.MBP10Msg,
        }  # fmt: skip
        layout = list(getattr(layouts[self.kind], "_dtypes"))  # noqa: B009 (not in the package's stubs)
        known = np.dtype(layout).itemsize
        if size < known:
            raise BadInput(self.where, f"records of {size} bytes", f"records of {known} bytes")
        return np.dtype([*layout, ("rest", f"V{size - known}")]) if size > known else np.dtype(layout)


class SequenceGaps(msgspec.Struct, frozen=True):
    """What the numbering of a DBN file says about messages that were lost; records count from 0, -1 where there is none.

    flagged: records that Databento marks as coming after a gap that it could not fill (F_MAYBE_BAD_BOOK), the only sign that
    a file of some instruments can give: the numbers between theirs belong to others. whole: the file holds nearly every
    number, so that steps above 1 are gaps: so many ``jumps``, with so many numbers ``missing``. back: numbers below the one before.
    """

    records: int
    flagged: int
    first_flagged: int
    whole: bool
    jumps: int
    missing: int
    first_jump: int
    back: int
    first_back: int


def sequence_gaps(path: str | Path) -> SequenceGaps:
    """Read the file once, all instruments in the order in which they were sent. BadInput as `DbnOrders.blocks` and `DbnDepth.blocks`."""
    import numpy as np

    seen = before = 0
    counts = {"flagged": 0, "jumps": 0, "back": 0}
    firsts = dict.fromkeys(counts, -1)
    missing = steps = 0
    for records in _Records(path).records():
        mine = np.flatnonzero((records["flags"] & F_SNAPSHOT) == 0)
        number = _column(records, "sequence")[mine]
        if len(mine):
            step = np.diff(number, prepend=before if steps else number[0])
            found = {"flagged": (records["flags"][mine] & F_MAYBE_BAD_BOOK) > 0, "jumps": step > 1, "back": step < 0}
            for name, mask in found.items():
                if firsts[name] < 0 and mask.any():
                    firsts[name] = seen + int(mine[int(mask.argmax())])
                counts[name] += int(mask.sum())
            missing += int((step[step > 1] - 1).sum())
            steps, before = steps + len(step), int(number[-1])
        seen += len(records)
    whole = steps > 1 and counts["jumps"] + counts["back"] <= (1 - WHOLE_NUMBERING) * steps
    return SequenceGaps(
        seen, counts["flagged"], firsts["flagged"], whole, counts["jumps"], missing, firsts["jumps"], counts["back"], firsts["back"]
    )  # fmt: skip


def _chosen(reader: _Records, block: np.ndarray, symbol: str) -> tuple[str, int, str]:
    """(symbol, instrument id, what was chosen from): the one asked for, else the busiest of the first records."""
    counts = Counter(block["instrument_id"].tolist())
    names = {number: reader.symbols.get(number, reader.symbols.get(-1, str(number))) for number in counts}
    everything = {**reader.symbols, **names}
    if symbol:
        found = [number for number, name in everything.items() if symbol in (name, str(number)) and number >= 0]
        if not found:
            raise BadInput(f"{reader.where}: symbol", f"no {symbol!r}", "symbol = " + ", ".join(sorted(set(everything.values()))[:8]))
        return everything[found[0]], found[0], ""
    number, _ = counts.most_common(1)[0]
    others = len(everything) - (1 if -1 not in everything else 2)
    note = f"the busiest of {others + 1} instruments in the file; symbol = NAME picks another" if others > 0 else ""
    return names[number], number, note


def _column(records: np.ndarray, name: str) -> np.ndarray:
    import numpy as np

    return np.ascontiguousarray(records[name]).astype(np.int64)


def _sides(records: np.ndarray) -> np.ndarray:
    import numpy as np

    letters = records["side"]
    return np.where(letters == b"B", 1, np.where(letters == b"A", -1, 0)).astype(np.int8)


class DbnOrders:
    """Market by order. A, C and M change the book, R clears it; T, F and N never do; a book is read at F_LAST."""

    def __init__(self, path: str | Path, header: Header, instrument: int) -> None:
        self.header, self._records, self._instrument = header, _Records(path), instrument

    @property
    def done(self) -> float:
        return self._records.stream.done

    def blocks(self) -> Iterator[OrderEvents]:
        """Blocks of records. BadInput for an action letter that DBN does not know."""
        import numpy as np

        codes = np.full(256, -1, dtype=np.int8)
        for letter, code in _ACTIONS.items():
            codes[ord(letter)] = code
        for records in self._records.records():
            mine = records[records["instrument_id"] == self._instrument]
            if not len(mine):
                continue
            action = codes[np.frombuffer(mine["action"].tobytes(), dtype=np.uint8)]
            if (action < 0).any():
                odd = mine["action"][int((action < 0).argmax())]
                raise BadInput(self.header.path, f"action {bytes(odd)!r}", "A, C, M, R, T, F or N")
            if (mine["price"] == LOWEST_PRICE).any():
                raise BadInput(self.header.path, f"price {LOWEST_PRICE}", "prices above it: it stands for none")
            flags = mine["flags"]
            yield OrderEvents(
                _column(mine, "ts_event"), _column(mine, "ts_recv"), action, _column(mine, "order_id"), _sides(mine),
                _column(mine, "price"), _column(mine, "size"), (flags & F_LAST) > 0, (flags & F_SNAPSHOT) > 0,
            )  # fmt: skip


class DbnDepth:
    """Market by price (mbp-1, tbbo, mbp-10) or trades alone. A book is given with every record; a T also prints."""

    def __init__(self, path: str | Path, header: Header, instrument: int) -> None:
        self.header, self._records, self._instrument = header, _Records(path), instrument

    @property
    def done(self) -> float:
        return self._records.stream.done

    def blocks(self) -> Iterator[DepthEvents]:
        """Blocks of messages: one a record."""
        import numpy as np

        for records in self._records.records():
            mine = records[records["instrument_id"] == self._instrument]
            if not len(mine):
                continue
            names = [name for name in mine.dtype.names or () if name.startswith(("bid_px_", "ask_px_"))]
            trade = mine["action"] == b"T"
            sides, prices, sizes = [], [], []
            for name in names:
                sides.append(np.full(len(mine), 1 if name.startswith("bid") else -1, dtype=np.int8))
                prices.append(_column(mine, name))
                sizes.append(_column(mine, name.replace("_px_", "_sz_")))
            if names:
                side, price, size = np.stack(sides, 1), np.stack(prices, 1), np.stack(sizes, 1)
                there = (price != UNDEFINED_PRICE) & (size > 0)
                first = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
                levels = (side[there], price[there] / PRICE_SCALE, size[there].astype(np.float64))
            else:
                first, levels = np.zeros(len(mine) + 1, dtype=np.int64), (np.zeros(0, np.int8), np.zeros(0), np.zeros(0))
            kind = np.where(trade, forms.PRINT, forms.SNAPSHOT).astype(np.int8)
            price = np.where(trade, _column(mine, "price") / PRICE_SCALE, 0.0)
            size = np.where(trade, mine["size"], 0).astype(np.float64)
            zero = np.zeros(len(mine), dtype=np.int64)
            yield DepthEvents(
                _column(mine, "ts_event"), _column(mine, "ts_recv"), kind, _sides(mine) * trade, price, size,
                _column(mine, "sequence"), zero, first, *levels,
            )  # fmt: skip
