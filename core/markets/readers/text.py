"""Text of market data files: lines with their numbers, without the byte order mark that some programs put first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from core.errors import BadInput
from core.markets.readers.streams import Stream, head_of

BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def text_head(path: str | Path, size: int = 4096) -> bytes:
    """The first unpacked bytes after a byte order mark, as far as they can be read."""
    return head_of(path, size + len(BOM)).removeprefix(BOM)[:size]


def text_lines(stream: Stream) -> Iterator[tuple[int, list[bytes]]]:
    """`Stream.lines` without a byte order mark. BadInput for UTF-16, which no feed writes, and for a file without a line."""
    empty = True
    for first, lines in stream.lines():
        if first == 1:
            refuse_other_text(stream.where, lines[0])
            lines[0] = lines[0].removeprefix(BOM)
        empty &= not any(lines)
        yield first, lines
    if empty:
        raise BadInput(stream.where, "no text in the file", "a file with data in it")


def opening(stream: Stream) -> list[bytes]:
    """The first lines of a file, at least a header and a row where it has them; damage before that is told by `Stream`."""
    found: list[bytes] = []
    for _, lines in text_lines(stream):
        found += lines
        if sum(map(bool, found)) > 1:
            break
    return found


def refuse_other_text(where: str, head: bytes) -> None:
    """BadInput where a file's first bytes are text in UTF-16, or lines that only old computers end so."""
    if head.startswith(_UTF16):
        raise BadInput(f"{where}: byte 0", "text in UTF-16", "text in UTF-8 or ASCII")
    if b"\r" in head.split(b"\n", 1)[0].rstrip(b"\r"):
        raise BadInput(f"{where}: line 1", "lines that end in \\r alone", "lines that end in \\n or \\r\\n")
