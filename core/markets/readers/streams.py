"""Bytes of a file that may be packed (gzip, zstandard): read piece by piece, and damage said in one line."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from core.errors import BadInput

PIECE = 4 << 20
LONGEST_LINE = 4 << 20
_ZSTD_SLICE = 1 << 14  # packed bytes at a time: what they unpack to is the only thing without a bound
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Stream:
    """A file's unpacked bytes. ``done`` is the share of the file on disk that has been read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.where = str(path)
        self._size = 1
        self._at = 0

    @property
    def done(self) -> float:
        return min(self._at / self._size, 1.0)

    def pieces(self) -> Iterator[bytes]:
        """Unpacked bytes in pieces of some megabytes. BadInput for a file that cannot be read, is empty, damaged or cut off."""
        try:
            self._size = max(self.path.stat().st_size, 1)
            with self.path.open("rb") as file:
                head = file.read(4)
                file.seek(0)
                if not head:
                    raise BadInput(self.where, "the file is empty", "a file with data in it")
                raw = iter(lambda: self._read(file), b"")
                if head.startswith(GZIP):
                    yield from self._gunzip(raw)
                elif head == ZSTD:
                    yield from self._unzstd(raw)
                else:
                    yield from raw
        except OSError as error:
            raise BadInput(self.where, error.strerror or str(error), "a readable file") from None

    def _read(self, file: object) -> bytes:
        piece: bytes = file.read(PIECE // 4)  # type: ignore[attr-defined]
        self._at += len(piece)
        return piece

    def _gunzip(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        whole = "a whole gzip file"
        unpack = zlib.decompressobj(wbits=31)
        empty = True
        for piece in raw:
            while piece:
                if unpack.eof:
                    if not piece.strip(b"\x00"):
                        break
                    unpack = zlib.decompressobj(wbits=31)
                try:
                    out = unpack.decompress(piece, PIECE)
                except zlib.error as error:
                    raise BadInput(f"{self.where}: before byte {self._at}", f"damaged gzip data ({error})", whole) from None
                piece = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
                empty &= not out
                if out:
                    yield out
        if not unpack.eof:
            raise BadInput(f"{self.where}: byte {self._at}", "the gzip data ends too early", whole)
        if empty:
            raise BadInput(self.where, "the gzip file holds nothing", "a file with data in it")

    def _unzstd(self, raw: Iterator[bytes]) -> Iterator[bytes]:
        import zstandard

        whole = "a whole zstandard file"
        unpack = zstandard.ZstdDecompressor().decompressobj()
        empty, held, waiting = True, [], 0
        for whole_piece in raw:
            for at in range(0, len(whole_piece), _ZSTD_SLICE):
                piece = whole_piece[at : at + _ZSTD_SLICE]
                while piece:
                    if unpack.eof:
                        unpack = zstandard.ZstdDecompressor().decompressobj()
                    try:
                        held.append(unpack.decompress(piece))
                    except zstandard.ZstdError as error:
                        raise BadInput(f"{self.where}: before byte {self._at}", f"damaged zstandard data ({error})", whole) from None
                    piece = unpack.unused_data if unpack.eof else b""
                    waiting += len(held[-1])
                if waiting >= PIECE // 4:
                    yield b"".join(held)
                    empty, held, waiting = False, [], 0
        if waiting:
            empty = False
            yield b"".join(held)
        if not unpack.eof:
            raise BadInput(f"{self.where}: byte {self._at}", "the zstandard data ends too early", whole)
        if empty:
            raise BadInput(self.where, "the zstandard file holds nothing", "a file with data in it")

    def lines(self) -> Iterator[tuple[int, list[bytes]]]:
        """(number of the first line, lines without their ends) in blocks; \\n and \\r\\n both end a line."""
        rest, number = b"", 1
        for piece in self.pieces():
            text = rest + piece
            end = text.rfind(b"\n") + 1
            if not end and len(text) > LONGEST_LINE:
                raise BadInput(f"{self.where}: line {number}", f"no line end in {len(text):,} bytes", "text in lines")
            rest = text[end:]
            if end:
                found = text[:end].replace(b"\r\n", b"\n").split(b"\n")[:-1]
                yield number, found
                number += len(found)
        if rest.strip():
            yield number, [rest.rstrip(b"\r")]


def head_of(path: str | Path, size: int = 4096) -> bytes:
    """The first unpacked bytes of a file, as far as they can be read; never raises for damaged data."""
    path = Path(path)
    with path.open("rb") as file:
        raw = file.read(1 << 16)
    try:
        if raw.startswith(GZIP):
            return zlib.decompressobj(wbits=31).decompress(raw, size)[:size]
        if raw.startswith(ZSTD):
            import zstandard

            return bytes(zstandard.ZstdDecompressor().decompressobj().decompress(raw)[:size])
    except Exception:  # damaged data is nobody's head
        return b""
    return raw[:size]
