"""What the terminal shows, cell by cell, so that a frame sends the cells that differ and nothing else.

Textual sends every row it has drawn again, and after a resize or a closed dialog the whole screen several times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from tui.thrift import PLAIN, TOKENS, State, applied, change, thrifty

_MOVE = re.compile(r"\x1b\[(\d*)(?:;(\d*))?H")
_WORN_BY_BLANKS = frozenset({"4", "7", "9", "21", "53"})
"""Attributes that show where there is no letter: underline, reverse, strike, double underline, overline."""
Cell = tuple[str, State] | None
"""Text and style of one cell; "" is the right half of a wide letter, None a cell of which nothing is known."""
Run = tuple[int, int, str, State]
"""Row and column, text and style of what a frame writes."""
Piece = tuple[int, int, int, State, str]
"""Row and column, width in cells, style and text of what is sent."""
Place = tuple[int, int]
"""Row and column, counted from 1 as terminals do."""


class Shadow:
    """Follows the frames that are written to a terminal which does not wrap at its right edge."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Cell]] = {}
        self._at: Place | None = None

    def forget(self) -> None:
        """What the terminal shows is not known any more: it was resized, cleared, or another program had it."""
        self._rows.clear()
        self._at = None

    def difference(self, frame: str) -> str:
        """What turns the terminal into what ``frame`` makes of it. Attributes are plain before and after.

        A frame is cursor positions, styles and text. With anything else in it, it is sent as it is and nothing is known afterwards.
        """
        read = _runs(frame)
        return self._unknown(frame) if read is None else self.change(*read)

    def change(self, runs: Iterable[Run], rest: Place | None) -> str:
        """What makes the terminal show ``runs`` of printable text, and leaves its cursor at ``rest``."""
        pieces: list[Piece] = []
        grouped = True
        end = (0, 0)
        for row, column, text, worn in runs:
            style = worn if not text.isspace() else _blank(worn)
            cells = _cells(text, style)
            changed = self._write(row, column, cells)
            if changed is not None:
                narrow = len(text) == len(cells)
                first, last = changed if narrow else (0, len(cells))  # wide letters are not cut
                pieces.append((row, column + first, last - first, style, text[first:last] if narrow else text))
                grouped = grouped and narrow and (row, column) >= end  # who comes last wins where two write
                end = (row, column + last)
        sent, self._at = min(
            (_written(order, self._at, rest) for order in ([pieces, sorted(pieces, key=_by_style)] if grouped else [pieces])),
            key=lambda way: len(way[0]),
        )
        return sent

    def _unknown(self, frame: str) -> str:
        self.forget()
        return thrifty(frame)

    def _write(self, row: int, column: int, cells: list[Cell]) -> tuple[int, int] | None:
        """Put ``cells`` there; which part of them differs from what was there, None when none does."""
        line = self._rows.setdefault(row, [])
        start, end = column - 1, column - 1 + len(cells)
        if len(line) < end:
            line.extend([None] * (end - len(line)))
        before = line[start:end]
        if before == cells:
            return None
        first, last = 0, len(cells)
        while before[first] == cells[first]:
            first += 1
        while before[last - 1] == cells[last - 1]:
            last -= 1
        line[start:end] = cells
        if _half(before[first]) and start + first:
            line[start + first - 1] = None  # the left half of a wide letter goes with its right half
        if end < len(line) and _half(line[end]):
            line[end] = None
        return first, last


def _runs(frame: str) -> tuple[list[Run], Place | None] | None:
    """The runs of a frame and where it leaves the cursor; None when something else is in it."""
    runs: list[Run] = []
    wanted = PLAIN
    row = column = -1
    for parameters, control, text, stray in TOKENS.findall(frame):
        if text:
            text = text.rstrip("\n")  # a position follows
            if not text:
                row = -1
                continue
            if row < 0 or not text.isprintable():
                return None
            runs.append((row, column, text, wanted))
            column += cell_len(text)
        elif control:
            move = _MOVE.fullmatch(control)
            if move is None:
                return None
            row, column = int(move[1] or 1), int(move[2] or 1)
        elif stray:
            return None
        else:
            wanted = applied(wanted, parameters)
    return runs, (row, column) if row >= 0 else None


def runs_of(pieces: Iterable[tuple[int, int, Iterable[Segment]]], system: ColorSystem | None) -> list[Run] | None:
    """Pieces of rows (row and column counted from 0) as runs; None when one has a link or what is not printable."""
    runs: list[Run] = []
    for y, x, segments in pieces:
        row, column = y + 1, x + 1
        for text, style, control in segments:
            if control or not text.isprintable() or (style is not None and style.link):
                return None
            runs.append((row, column, text, _state(style, system)))
            column += len(text) if text.isascii() else cell_len(text)
    return runs


@lru_cache(maxsize=4096)
def _state(style: Style | None, system: ColorSystem | None) -> State:
    return PLAIN if not style or system is None else applied(PLAIN, style._make_ansi_codes(system))


def _by_style(piece: Piece) -> tuple[object, ...]:
    """Pieces of one style together, styles that share the most beside each other: a style costs more bytes than a place."""
    row, column, _, (fore, back, worn), _ = piece
    return sorted(worn), back, fore, row, column


def _written(pieces: Iterable[Piece], at: Place | None, rest: Place | None) -> tuple[str, Place | None]:
    """``pieces`` one after the other, the cursor going from ``at`` over them to ``rest``; and where it stands at last."""
    sent: list[str] = []
    now = PLAIN
    for row, column, width, style, text in pieces:
        sent += (_way(at, row, column), change(now, style), text)
        now, at = style, (row, column + width)
    sent.append(change(now, PLAIN))
    if rest is not None:
        sent.append(_way(at, *rest))
        at = rest
    return "".join(sent), at


def _way(at: Place | None, row: int, column: int) -> str:
    """The shortest way of the cursor to a place."""
    if at == (row, column):
        return ""
    if at is not None and at[0] == row and at[1] < column:
        return f"\x1b[{column - at[1]}C"
    return f"\x1b[{row};{column}H"


def _half(cell: Cell) -> bool:
    return cell is not None and cell[0] == ""


@lru_cache(maxsize=4096)
def _blank(style: State) -> State:
    """The part of a style that shows on blanks."""
    worn = style[2] & _WORN_BY_BLANKS
    return (style[0] if worn else "", style[1], worn)


@lru_cache(maxsize=8192)
def _cells(text: str, style: State) -> list[Cell]:
    """One cell a column; what has no width of its own goes with the letter before it."""
    if text.isascii() or (cell_len(text) == len(text) and all(cell_len(letter) == 1 for letter in text)):
        return [(letter, style) for letter in text]
    cells: list[Cell] = []
    for letter in text:
        width = cell_len(letter)
        if not width and cells:
            cells[-1] = ((cells[-1] or ("", style))[0] + letter, style)
            continue
        cells += [(letter, style), *[("", style)] * (width - 1)]
    return cells
