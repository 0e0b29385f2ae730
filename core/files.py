"""What readers of files share: a path is looked at before it is opened (a pipe waits for ever, a device never ends)."""

from __future__ import annotations

import stat
from pathlib import Path

from core.errors import BadInput

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def refuse_special(path: Path, allowed: str) -> None:
    """Raise BadInput for a pipe, a socket or a device. What is missing or a folder is left to the reader's own words."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    except ValueError:
        raise BadInput(repr(str(path)), "found a name with a zero byte", allowed) from None
    for is_kind, name in _KINDS:
        if is_kind(mode):
            raise BadInput(str(path), f"found {name}", allowed)


def archive_faults() -> tuple[type[Exception], ...]:
    """Everything that zipfile and its decompressors raise for an archive that is cut, damaged, encrypted or foreign."""
    import struct
    import zipfile
    import zlib

    faults: list[type[Exception]] = [zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError]
    try:
        import lzma
    except ImportError:  # a Python built without it cannot meet its errors
        return tuple(faults)
    return (*faults, lzma.LZMAError)
