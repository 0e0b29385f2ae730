"""LOBSTER files: finds the message file and its orderbook file (a zip, or one CSV beside the other) and reads them.

Format: lobsterdata.com, "Sample Files Readme". A message row is time (seconds after midnight), type, order id, size, price
(dollars x 10,000), direction (1 buy order, -1 sell order). An orderbook row holds ask price, ask size, bid price, bid size
of every level after the message of the same row; an unoccupied level has price ±9,999,999,999 and size 0.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.files import archive_faults, refuse_special
from core.markets.readers.text import BOM, refuse_other_text

if TYPE_CHECKING:
    import numpy as np

PRICE_SCALE = 10_000
UNOCCUPIED = 9_999_999_999
MAX_EVENTS = 5_000_000
SUBMISSION, PARTIAL_CANCEL, DELETION, EXECUTION, HIDDEN_EXECUTION, CROSS, HALT = range(1, 8)
TYPES = "1 submission, 2 partial cancel, 3 deletion, 4 execution, 5 hidden execution, 6 cross, 7 halt"
MESSAGE_COLUMNS = 6
MESSAGE_FORMAT = "6 columns: time, type, order id, size, price, direction"
ORDERBOOK_FORMAT = "4 columns a level, best level first: ask price, ask size, bid price, bid size"
ALLOWED = "a LOBSTER zip, or a message CSV (with its orderbook CSV beside it)"

_MESSAGE_LINE = re.compile(rb"\d+(\.\d+)?,[1-7],-?\d+,-?\d+,-?\d+,-?[01]\s*\Z")
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_ORDERBOOK_LINE = re.compile(rb"-?\d+(,-?\d+){3}((,-?\d+){4})*\s*\Z")
_BLOCK_BYTES = 1 << 20
"""Parsing holds the interpreter: a block of this size keeps it about 5 ms, which a screen that waits can bear."""
_LONGEST_LINE = 1 << 16


class Source(msgspec.Struct, frozen=True):
    """Where the rows are: ``message`` and ``orderbook`` name files, or members of the zip ``archive``; '' where there is none."""

    archive: str
    message: str
    orderbook: str

    def where(self, name: str) -> str:
        return f"{self.archive}: {name}" if self.archive else name


class Events(msgspec.Struct, frozen=True):
    """The message file as columns of one length. ``time`` in seconds after midnight, ``price`` in dollars x 10,000."""

    time: np.ndarray
    type: np.ndarray
    order: np.ndarray
    size: np.ndarray
    price: np.ndarray
    direction: np.ndarray

    def __len__(self) -> int:
        return len(self.time)


# finding the files ---------------------------------------------------------------------------------------------------


def looks_like_lobster(path: str | Path) -> bool:
    """Whether ``path`` is a LOBSTER file or zip, from its first line (or the first lines in the zip). Never raises."""
    try:
        path = Path(path)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if name.lower().endswith(".csv")][:20]
                return any(_kind_of(archive.open(name).read(4096)) == "message" for name in members)
        with path.open("rb") as file:
            kind = _kind_of(file.read(4096))
        return kind == "message" or (kind == "orderbook" and _sibling(path, "orderbook", "message") is not None)
    except archive_faults():
        return False


def find_source(path: str | Path, symbol: str = "", *, sure: bool = False) -> Source:
    """The files behind ``path``: a zip, a message CSV or an orderbook CSV.

    ``symbol`` picks one of several message files in a zip by a part of its name; ``sure`` means that the user says it is
    LOBSTER, so that a broken first line is reported as such. BadInput when nothing there is a message file.
    """
    path = Path(path)
    where = str(path)
    refuse_special(path, ALLOWED)
    try:
        if path.is_dir():
            raise BadInput(where, "this is a folder", ALLOWED)
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError:
        raise BadInput(where, "no such file", ALLOWED) from None
    except OSError as error:
        raise BadInput(where, error.strerror or str(error), "a readable file") from None
    if not head:
        raise BadInput(where, "the file is empty", ALLOWED)
    if head.startswith(b"PK"):
        return _in_zip(path, symbol)
    head = head.removeprefix(BOM)
    kind = _kind_of(head) or _kind_by_name(path.name) or ("message" if sure else "")
    refuse_other_text(where, head)
    odd = next((at for at, byte in enumerate(head) if byte > 126 or (byte < 32 and byte not in b"\t\r\n")), None)
    if odd is not None:
        raise BadInput(where, f"binary data at byte {odd}", ALLOWED)
    if kind == "message":
        book = _sibling(path, "message", "orderbook")
        return Source("", where, str(book) if book else "")
    if kind == "orderbook":
        message = _sibling(path, "orderbook", "message")
        if message is None:
            raise BadInput(where, "an orderbook file without its message file", "the message CSV beside it (…_message_….csv)")
        return Source("", str(message), where)
    first = head.split(b"\n", 1)[0].decode("ascii").strip()
    raise BadInput(f"{where}: line 1", f"not a LOBSTER row: {first[:60]!r}", MESSAGE_FORMAT)


def _in_zip(path: Path, symbol: str) -> Source:
    where = str(path)
    with _zip_errors(where), zipfile.ZipFile(path) as archive:
        kinds: dict[str, str] = {}
        for name in archive.namelist():
            if name.lower().endswith(".csv"):
                with archive.open(name) as member:
                    kinds[name] = _kind_of(member.read(4096)) or _kind_by_name(name)
    messages = [name for name, kind in kinds.items() if kind == "message" and symbol in name]
    if not messages:
        about = f" with {symbol!r} in its name" if symbol else ""
        inside = ", ".join(sorted(kinds)[:4]) or "no CSV file"
        raise BadInput(where, f"the zip holds no LOBSTER message file{about}", f"…_message_….csv (inside: {inside})")
    if len(messages) > 1:
        raise BadInput(where, f"the zip holds {len(messages)} message files", "symbol = a part of one name of " + ", ".join(messages[:6]))
    partner = _partner_name(messages[0], "message", "orderbook")
    books = [name for name, kind in kinds.items() if kind == "orderbook"]
    book = partner if partner in books else books[0] if len(books) == 1 and len(kinds) == 2 else ""
    return Source(where, messages[0], book)


def _kind_of(head: bytes) -> str:
    """message, orderbook or '' from the first bytes of a file."""
    line = head.removeprefix(BOM).split(b"\n", 1)[0].rstrip(b"\r")
    if _MESSAGE_LINE.match(line):
        return "message"
    return "orderbook" if _ORDERBOOK_LINE.match(line) else ""


def _kind_by_name(name: str) -> str:
    return "message" if "_message_" in name else "orderbook" if "_orderbook_" in name else ""


def _partner_name(name: str, own: str, other: str) -> str:
    head, found, tail = name.rpartition(own)
    return head + other + tail if found else ""


def _sibling(path: Path, own: str, other: str) -> Path | None:
    name = _partner_name(path.name, own, other)
    return path.with_name(name) if name and path.with_name(name).is_file() else None


# reading the rows ----------------------------------------------------------------------------------------------------


def read_messages(source: Source) -> Events:
    """The whole message file, checked. BadInput names the line and what was expected there."""
    import numpy as np

    blocks = list(_message_blocks(source))
    table = np.concatenate(blocks)
    return Events(table[:, 0].copy(), *(np.ascontiguousarray(table[:, column], dtype=np.int64) for column in range(1, 6)))


def read_together(source: Source) -> Iterator[tuple[Events, np.ndarray, float]]:
    """(messages, their orderbook rows, share of the day read) block after block, checked as the whole files are."""
    import numpy as np

    size = max(_size_of(source, source.orderbook), 1)
    messages, rows, at, line = _message_blocks(source), _blocks(source, source.orderbook, 0, whole=True), 0, 0
    table = np.zeros((0, MESSAGE_COLUMNS))
    for block in rows:
        _check_rows(source.where(source.orderbook), block, line + 1)
        while len(table) < len(block) and (more := next(messages, None)) is not None:
            table = np.concatenate([table, more])
        found, line = min(len(block), len(table)), line + len(block)
        if found < len(block):
            rows_found = f"more than {at + found:,} rows"
            raise BadInput(source.where(source.orderbook), rows_found, f"{at + found:,} rows, one for each message")
        at += found
        part, table = table[:found], table[found:]
        done = min(_bytes_of(block) * line / len(block) / size, 1.0)
        yield Events(part[:, 0].copy(), *(np.ascontiguousarray(part[:, column], dtype=np.int64) for column in range(1, 6))), block, done
    left = len(table) + sum(len(more) for more in messages)
    if left:
        raise BadInput(source.where(source.orderbook), f"{at:,} rows", f"{at + left:,} rows, one for each message")


def _bytes_of(rows: np.ndarray) -> int:
    """About how long these rows are as text."""
    return sum(len(str(number)) + 1 for number in rows[0].tolist()) * len(rows)


def _size_of(source: Source, name: str) -> int:
    """Bytes of one file, unpacked."""
    if not source.archive:
        return Path(name).stat().st_size
    with zipfile.ZipFile(source.archive) as archive:
        return archive.getinfo(name).file_size


def _message_blocks(source: Source) -> Iterator[np.ndarray]:
    """(rows, 6) of the message file in blocks, checked; times that go back are found across blocks too."""
    import numpy as np

    where = source.where(source.message)
    rows, before = 0, 0.0
    for block in _blocks(source, source.message, MESSAGE_COLUMNS, whole=False):
        _check_messages(where, block, rows + 1)
        times = np.concatenate([[before], block[:, 0]])
        back = np.flatnonzero(np.diff(times) < 0)
        if len(back):
            row = int(back[0])
            found = f"time goes back from {times[row]:.9f} to {times[row + 1]:.9f}"
            raise BadInput(f"{where}: line {rows + row + 1}", found, "times that never decrease")
        before = float(block[-1, 0]) if len(block) else before
        rows += len(block)
        yield block
        if rows > MAX_EVENTS:
            raise BadInput(where, f"more than {MAX_EVENTS:,} events", f"at most {MAX_EVENTS:,} events (one day)")
    if not rows:
        raise BadInput(where, "the file is empty", MESSAGE_FORMAT)


def read_orderbook(source: Source, events: int) -> Iterator[np.ndarray]:
    """The orderbook file in blocks of (rows, 4 * levels) whole numbers, checked; together they have ``events`` rows."""
    where = source.where(source.orderbook)
    rows = 0
    for block in _blocks(source, source.orderbook, 0, whole=True):
        _check_rows(where, block, rows + 1)
        rows += len(block)
        if rows > events:
            break
        yield block
    if rows != events:
        found = f"{rows:,} rows" if rows < events else f"more than {events:,} rows"
        raise BadInput(where, found, f"{events:,} rows, one for each message")


def _blocks(source: Source, name: str, columns: int, *, whole: bool) -> Iterator[np.ndarray]:
    """The rows of one file in blocks. ``columns`` 0 takes the number from the first line, a multiple of 4."""
    where = source.where(name)
    line = 1
    for text in _whole_lines(source, name):
        if not columns:
            columns = text.split(b"\n", 1)[0].count(b",") + 1
            if columns % 4:
                raise BadInput(f"{where}: line 1", f"{columns} columns", ORDERBOOK_FORMAT)
        block = _parse(where, text, line, columns, whole=whole)
        yield block
        line += len(block)


def _whole_lines(source: Source, name: str) -> Iterator[bytes]:
    """The file's text in pieces that end at a line's end, the last one without its empty end."""
    with _zip_errors(source.where(name)), _opened(source, name) as stream:
        rest = stream.read(len(BOM)).removeprefix(BOM)
        while piece := stream.read(_BLOCK_BYTES):
            rest += piece
            end = rest.rfind(b"\n") + 1
            after = rest[end:]
            if not end and len(rest) > _LONGEST_LINE:
                raise BadInput(source.where(name), f"no line end in the first {len(rest):,} bytes of a row", MESSAGE_FORMAT)
            ahead = stream.read(1) if end else b""
            if not end or not ahead:
                continue
            yield rest[:end]
            rest = after + ahead
        if rest.strip():
            yield rest.rstrip(b"\r\n \t") + b"\n"


def _parse(where: str, text: bytes, line: int, columns: int, *, whole: bool) -> np.ndarray:
    """``text`` as an array (rows, columns); BadInput names the first line that is not such a row."""
    import numpy as np

    decimal = whole and any(mark in text for mark in (b".", b"e", b"E"))
    try:
        if decimal:
            raise ValueError
        dtype = np.int64 if whole else np.float64
        block = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=dtype, comments=None, ndmin=2, encoding="latin-1")
        if block.shape != (text.count(b"\n"), columns):
            raise ValueError
    except (ValueError, OverflowError):
        _find_fault(where, text, line, columns, whole=whole)
        raise BadInput(f"{where}: line {line}", "these rows cannot be read", ORDERBOOK_FORMAT if whole else MESSAGE_FORMAT) from None
    return block


def _find_fault(where: str, text: bytes, line: int, columns: int, *, whole: bool) -> None:
    """Raise BadInput for the first line of ``text`` that is not ``columns`` numbers."""
    for number, raw in enumerate(text.split(b"\n")[:-1], line):
        at = f"{where}: line {number}"
        fields = raw.decode("ascii", "replace").strip().split(",")
        if fields == [""]:
            raise BadInput(at, "an empty line", f"{columns} numbers separated by commas")
        if len(fields) != columns:
            raise BadInput(at, f"{len(fields)} columns", f"{columns} columns" if whole else MESSAGE_FORMAT)
        for column, field in enumerate(fields, 1):
            good = _WHOLE.fullmatch(field.strip()) if whole else _NUMBER.fullmatch(field.strip())
            if not good or (whole and abs(int(field)) >= 1 << 62):
                raise BadInput(at, f"column {column} is {field[:40]!r}", "a whole number" if whole else "a number")


def _check_messages(where: str, block: np.ndarray, line: int) -> None:
    import numpy as np

    time, kind, order, size, price, direction = block.T
    acts_on_book = (kind >= SUBMISSION) & (kind <= EXECUTION)
    trades_or_rests = (kind >= SUBMISSION) & (kind <= HIDDEN_EXECUTION)
    rules: list[tuple[np.ndarray, np.ndarray, str, str]] = [
        (~np.isfinite(time) | (time < 0), time, "time", "seconds after midnight"),
        (~np.isin(kind, range(SUBMISSION, HALT + 1)), kind, "type", TYPES),
        (_broken(order), order, "order id", "a whole number below 2^53"),
        (_broken(size) | (size < 0) | (trades_or_rests & (size == 0)), size, "size", "a whole number above 0"),
        (_broken(price), price, "price", "a whole number (dollars x 10,000)"),
        (trades_or_rests & (price <= 0), price, "price", "a price above 0 (dollars x 10,000)"),
        (~np.isin(direction, (-1, 0, 1)) | (acts_on_book & (direction == 0)), direction, "direction", "1 (buy order) or -1 (sell order)"),
    ]
    for wrong, column, name, allowed in rules:
        if wrong.any():
            row = int(wrong.argmax())
            raise BadInput(f"{where}: line {line + row}", f"{name} {column[row]:.15g}", allowed)


def _broken(column: np.ndarray) -> np.ndarray:
    """Not a whole number that a float holds exactly."""
    import numpy as np

    broken: np.ndarray = ~(np.abs(column) < 2**53) | (column != np.rint(column))
    return broken


def _check_rows(where: str, block: np.ndarray, line: int) -> None:
    prices, sizes = block[:, 0::2], block[:, 1::2]
    asks, bids = block[:, 0::4], block[:, 2::4]
    empty = (prices == UNOCCUPIED) | (prices == -UNOCCUPIED)
    unordered = (asks[:, 1:] <= asks[:, :-1]) & (asks[:, 1:] != UNOCCUPIED)
    unordered |= (bids[:, 1:] >= bids[:, :-1]) & (bids[:, 1:] != -UNOCCUPIED)
    rules = [
        ((prices <= 0) & ~empty, prices, "price", f"a price above 0, or ±{UNOCCUPIED} for an unoccupied level"),
        ((sizes < 0) | (sizes == 0) & ~empty, sizes, "size", "a size above 0 (0 only where a level is unoccupied)"),
    ]
    for wrong, column, name, allowed in rules:
        if wrong.any():
            row, level = divmod(int(wrong.argmax()), wrong.shape[1])
            place = 2 * level + (2 if name == "size" else 1)
            raise BadInput(f"{where}: line {line + row}", f"{name} {column[row, level]} in column {place}", allowed)
    if unordered.any():
        row = int(unordered.any(axis=1).argmax())
        raise BadInput(f"{where}: line {line + row}", "levels that are not in order of price", ORDERBOOK_FORMAT)


@contextmanager
def _opened(source: Source, name: str) -> Iterator[IO[bytes]]:
    if not source.archive:
        try:
            stream = Path(name).open("rb")  # noqa: SIM115 (closed by the with below)
        except OSError as error:
            raise BadInput(name, error.strerror or str(error), "a readable file") from None
        with stream:
            yield stream
        return
    with zipfile.ZipFile(source.archive) as archive, archive.open(name) as member:
        yield member


@contextmanager
def _zip_errors(where: str) -> Iterator[None]:
    """What zipfile raises for a damaged archive, said in one line."""
    whole = "a whole zip with the message and orderbook CSV files"
    try:
        yield
    except RuntimeError as error:
        raise BadInput(where, f"a zip that cannot be read here ({error})", "a zip without encryption, stored or deflated") from None
    except OSError as error:
        raise BadInput(where, f"it cannot be read through ({error.strerror or error})", whole) from None
    except archive_faults() as error:
        raise BadInput(where, f"a damaged zip ({str(error) or 'it ends too early'})", whole) from None
