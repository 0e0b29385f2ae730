"""Standard output and error, whatever encoding they have and whoever reads them."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
from collections.abc import Iterable
from unicodedata import east_asian_width

from core.errors import BadInput

# each is replaced by one character, so that columns stay where they are
_STANDS_FOR = {
    "+": "✓┌┐└┘╭╮╰╯┏┓┗┛┬┴┼├┤╔╗╚╝",
    "-": "–—−↔─━═╌┄▔▁▂╺╸╴╶⎯",
    "|": "│┃║┆┊▏▕⎸❘",
    "x": "✗×✕✘",
    ".": "·…•∙░",
    "*": "●★◆■",
    "o": "○◦◯□",
    "#": "█▉▊▋▌▍▎▐▀▄▓",
    "%": "▒",
    ">": "→▸▶▷›»≥",
    "<": "←◂◀◁‹«≤",
    "^": "↑▴▲",
    "v": "↓▾▼",
    "~": "±≈",
    "u": "µμ",
    "8": "∞",
    '"': "“”",
    "'": "‘’",
    " ": "\xa0\u2009\u202f",
}
_PLAIN = str.maketrans({lost: plain for plain, many in _STANDS_FOR.items() for lost in many})
ERRORS = "notes-tui-plain"
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}


def plain(text: str) -> str:
    """``text`` in ASCII, as wide as before: a drawing character becomes its plain relative, any other a question mark."""
    return "".join(ch if ch < "\x7f" else _unnamed(ch) for ch in text.translate(_PLAIN))


def _unnamed(ch: str) -> str:
    if "\u2800" <= ch <= "\u28ff":  # braille, of which curves are made
        return " " if ch == "\u2800" else ":" if ord(ch) & 0xF0 else "."
    return "?" * (2 if east_asian_width(ch) in "WF" else 1)


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return plain(error.object[error.start : error.end]), error.end


def accept_any_text() -> None:
    """Standard output and error write a plain character where their encoding lacks one, instead of failing."""
    codecs.register_error(ERRORS, _replace)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=ERRORS)


def visible(text: str) -> str:
    """``text`` with control characters written out (``\\x1b``), so that what a file holds cannot steer the terminal."""
    return text.translate(_CONTROLS)


def write_out(pieces: Iterable[str], *, raw: bool = False) -> None:
    """Write to standard output as the pieces come. A reader that closed the pipe ends the writing, not the command.

    ``raw`` pieces are written as they are: JSON has escapes of its own.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.writelines(pieces if raw else map(visible, pieces))
        sys.stdout.flush()
    except BrokenPipeError:
        # what Python still holds must not fail again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BadInput("standard output", error.strerror or str(error), "a place that can be written") from None


def complain(message: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):  # nobody can be told, and the exit code still says it
            print(visible(" ".join(f"notes-tui: {message}".split())), file=sys.stderr, flush=True)
