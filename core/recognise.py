"""Data files recognised by their content: which simulation opens a file, and under which parameter.

Only the first bytes are read (a whole file only where it is a small JSON text); a name or suffix decides nothing.
"""

from __future__ import annotations

import json
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from core.errors import BadInput
from core.files import archive_faults
from core.simulation import families

_HEAD = 4096
_LARGEST_CONFIG = 4 << 20

# first bytes -> what such a file is, for files that nothing here opens
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstandard data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"PAR1", "a Parquet file"),
    (b"DBN", "a Databento DBN file"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x7fELF", "an ELF program"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GGUF", "a GGUF model"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
)


class Kind(msgspec.Struct, frozen=True):
    """One row of the table: files that pass ``test`` open ``simulation`` with their path in ``parameter``."""

    name: str
    test: Callable[[Path], bool]
    simulation: str
    parameter: str


def _is_lobster(path: Path) -> bool:
    from core.markets.lobster.reader import looks_like_lobster

    return looks_like_lobster(path)


def _is_market_data(path: Path) -> bool:
    from core.markets.open_file import is_funding, recognised

    return recognised(path) is not None or is_funding(path)


def _is_stream(path: Path) -> bool:
    from core.markets.stream.archive import looks_like_stream

    return looks_like_stream(path)


def _is_config(path: Path) -> bool:
    """A JSON object that names a model_type, or gives a width and a number of layers."""
    found = _json_of(path)
    if not isinstance(found, dict):
        return False
    width = {"hidden_size", "n_embd", "d_model"} & found.keys()
    layers = {"num_hidden_layers", "n_layer", "num_layers"} & found.keys()
    return isinstance(found.get("model_type"), str) or bool(width and layers)


def _is_logits(path: Path) -> bool:
    from core.moe.router_logits import looks_like_logits

    return looks_like_logits(path)


KINDS = (
    Kind("a LOBSTER message file or day (csv or zip)", _is_lobster, "order_book", "file"),
    Kind("market data (Databento DBN, ITCH 5.0, Binance, Tardis)", _is_market_data, "order_book", "file"),
    Kind("a stream of order messages (npz)", _is_stream, "order_book", "file"),
    Kind("a model's config.json", _is_config, "memory", "model"),
    Kind("a model's config.json", _is_config, "zero", "model"),
    Kind("router logits (npy, pt or safetensors)", _is_logits, "dispatch", "logits"),
)
"""Tried from the top; rows of simulations that are not installed are passed over."""


def recognise(path: Path | str) -> tuple[str, dict[str, object]]:
    """The simulation that opens ``path`` and the parameters that hand it over.

    Raises BadInput that says what was found (nothing, a directory, binary data of some kind, text whose first line is …)
    and what is recognised.
    """
    path = Path(path)
    known = families()
    rows = [kind for kind in KINDS if kind.simulation in known]
    allowed = ", ".join(dict.fromkeys(["a scenario (toml)", *(kind.name for kind in rows)]))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise BadInput(str(path), f"found {kind}", allowed)
        if status.st_size == 0:
            raise BadInput(str(path), "found an empty file", allowed)
        for row in rows:
            if row.test(path):
                return row.simulation, {row.parameter: str(path)}
        found = describe(path)
    except OSError as error:
        raise BadInput(str(path), error.strerror or str(error), allowed) from None
    raise BadInput(str(path), f"found {found}", allowed)


def describe(path: Path) -> str:
    """What a file is, in a few words, from its first bytes. Raises OSError when it cannot be read."""
    head = _head(path)
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _describe_zip(path)
    if head.startswith(b"\x93NUMPY"):
        return _describe_npy(head)
    if len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return _describe_safetensors(path, int.from_bytes(head[:8], "little"))
    packed = _describe_packed(path)
    if packed:
        return packed
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    text = _text_of(head)
    if text is None:
        return f"binary data that starts with {head[:8].hex(' ')}"
    if text.lstrip()[:1] in ("{", "["):
        return _describe_json(path)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"text whose first line is {_short(first)!r}" if first else "text without a single letter"


def _describe_packed(path: Path) -> str:
    """What is wrong with gzip or zstandard data, or what it begins with; '' for anything else."""
    from core.markets.open_file import refuse_unknown_packed

    try:
        refuse_unknown_packed(path)
    except BadInput as error:
        return error.found
    return ""


def _describe_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            inside = archive.namelist()
    except archive_faults():
        return "a zip archive that does not open (truncated?)"
    if not inside:
        return "an empty zip archive"
    more = f" and {len(inside) - 3} more" if len(inside) > 3 else ""
    return f"a zip archive of {', '.join(_short(name) for name in inside[:3])}{more}"


def _describe_npy(head: bytes) -> str:
    text = head[10:].decode("latin-1")
    dtype, shape = re.search(r"'descr':\s*'([^']*)'", text), re.search(r"'shape':\s*(\([^)]*\))", text)
    if dtype is None or shape is None:
        return "a NumPy array with a header that cannot be read"
    return f"a NumPy array of {dtype[1]} with shape {shape[1]}"


def _describe_safetensors(path: Path, length: int) -> str:
    if length > _LARGEST_CONFIG:
        return "a safetensors file with very many tensors"
    with path.open("rb") as file:
        file.seek(8)
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return "binary data that starts like safetensors, with a header that is not JSON"
    tensors = [f"{_short(name)} {entry.get('shape')}" for name, entry in header.items() if isinstance(entry, dict) and "shape" in entry]
    more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
    return f"a safetensors file of {', '.join(tensors[:3])}{more}" if tensors else "a safetensors file without tensors"


def _describe_json(path: Path) -> str:
    if path.stat().st_size > _LARGEST_CONFIG:
        return f"JSON-like text of {path.stat().st_size:,} bytes"
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        return f"text that is not JSON: {_short(str(error))}"
    if not isinstance(found, dict):
        return f"a JSON {type(found).__name__}"
    names = ", ".join(_short(str(key)) for key in list(found)[:4])
    return f"a JSON object with {names or 'nothing in it'}, without model_type or hidden_size"


def _json_of(path: Path) -> object:
    """The JSON value in ``path``, or None when it is no JSON text of a config's size."""
    if _head(path).lstrip()[:1] != b"{" or path.stat().st_size > _LARGEST_CONFIG:
        return None
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _text_of(head: bytes) -> str | None:
    """``head`` as text, or None when it is binary. A character that the end of ``head`` cuts in two is forgiven."""
    if b"\x00" in head:
        return None
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < _HEAD or error.start < len(head) - 3:
            return None
        text = head[: error.start].decode("utf-8")
    control = sum(ch < " " and ch not in "\t\r\n\f" for ch in text)
    return None if control > len(text) // 100 else text


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
