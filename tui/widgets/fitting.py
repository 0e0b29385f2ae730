"""Fitting text and windows into cells: clip, pad and wrap by display width, turn a window by half pages, build a row."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style


def cells(text: str) -> int:
    """How many cells ``text`` (without control characters) fills."""
    return len(text) if text.isascii() else cell_len(text)


def printable(text: str) -> str:
    """``text`` with a space for every character that would move the cursor or change the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells; what does not fit ends in an ellipsis. Line breaks become spaces."""
    if width <= 0:
        return ""
    text = printable(text)
    if cells(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def pad(text: str, width: int, right: bool = False) -> str:
    """``text`` clipped and filled with spaces to exactly ``width`` cells; ``right`` puts the text at the right end."""
    text = clip(text, width)
    space = " " * (width - cells(text))
    return space + text if right else text + space


def centred(text: str, width: int) -> str:
    text = clip(text, width)
    space = width - cells(text)
    return " " * (space // 2) + text + " " * (space - space // 2)


@lru_cache(maxsize=2048)
def wrap(text: str, width: int) -> tuple[str, ...]:
    """The lines of ``text`` broken at spaces to at most ``width`` cells; a longer word (or text without spaces) is cut."""
    if width <= 0:
        return ()
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line, used = "", 0
        for word in printable(paragraph).split():
            for part in [word] if cell_len(word) <= width else chop_cells(word, width):
                size = cell_len(part)
                if line and used + 1 + size > width:
                    lines.append(line)
                    line, used = "", 0
                line = f"{line} {part}" if line else part
                used = cell_len(line)
        lines.append(line)
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def turned(top: int, rows: int, total: int, first: int, last: int | None = None) -> int:
    """The first row of a window of ``rows`` over ``total`` that shows ``first`` to ``last``, starting from ``top``.

    A window that shows them already stays; else it moves by half pages. When they do not fit, ``first`` shows.
    """
    end = max(total - rows, 0)
    last = first if last is None else min(max(last, first), first + rows - 1)
    top = min(max(top, 0), end)
    half = max(rows // 2, 1)
    if last >= top + rows:
        top += half * -(-(last - top - rows + 1) // half)
    if first < top:
        top -= half * -(-(top - first) // half)
    return min(max(top, 0), end)


class Row:
    """A row being built from left to right: segments, and how many cells they fill."""

    __slots__ = ("segments", "width")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.width = 0

    def add(self, text: str, style: Style | None = None) -> Row:
        if text:
            if not text.isprintable():
                text = printable(text)
            self.segments.append(Segment(text, style))
            self.width += len(text) if text.isascii() else cell_len(text)
        return self

    def to(self, column: int) -> Row:
        """Spaces up to ``column``."""
        return self.add(" " * (column - self.width))
