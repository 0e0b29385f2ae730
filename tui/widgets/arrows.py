"""Messages between columns as arrows: packed into few rows, drawn over the life lines of their actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style

from core.formatting import FORMATTER, format_value
from core.views import Message
from tui.theme import Palette
from tui.widgets.fitting import Row, clip

_LABEL = "{text} · {size}"


class Arrow(NamedTuple):
    """A message from column ``start`` to column ``end`` (equal when an actor writes to itself)."""

    message: Message
    start: int
    end: int


def pack(messages: Sequence[Message], columns: Sequence[int]) -> list[list[Arrow]]:
    """Rows of arrows that touch at most at their ends; ``columns`` are the columns of the actors. Short arrows come first."""
    arrows = [Arrow(m, columns[m.source], columns[m.target]) for m in messages]
    rows: list[list[Arrow]] = []
    for arrow in sorted(arrows, key=lambda a: abs(a.end - a.start)):
        low, high = sorted((arrow.start, arrow.end))
        for row in rows:
            if all(high <= min(a.start, a.end) or low >= max(a.start, a.end) for a in row) and not _same_place(arrow, row):
                row.append(arrow)
                break
        else:
            rows.append([arrow])
    return rows


def _same_place(arrow: Arrow, row: Sequence[Arrow]) -> bool:
    """Whether a loop (which hangs to the right of its column) would be drawn over another arrow."""
    for other in row:
        low, high = sorted((other.start, other.end))
        if arrow.start == arrow.end and low <= arrow.start < high:
            return True
        if other.start == other.end and min(arrow.start, arrow.end) <= other.start < max(arrow.start, arrow.end):
            return True
        if arrow.start == arrow.end == other.start == other.end:
            return True
    return False


def draw_arrows(row: Row, arrows: Sequence[Arrow], columns: Sequence[int], width: int, unit: str, palette: Palette) -> None:
    """One row: a life line per actor (at ``columns``), and ``arrows`` over them, within ``width`` cells."""
    quiet = palette.style("idle")
    cells: list[tuple[str, Style | None]] = [(" ", None)] * width
    for column in columns:
        cells[column] = ("│", quiet)
    for arrow in sorted(arrows, key=lambda a: min(a.start, a.end)):
        _put(cells, arrow, unit, palette)
    at = row.width
    run, style = "", None
    for char, own in cells:
        if own is not style and run:
            row.add(run, style)
            run = ""
        style = own
        run += char
    row.add(run.rstrip() if style is None else run, style)
    assert row.width - at <= width


def _put(cells: list[tuple[str, Style | None]], arrow: Arrow, unit: str, palette: Palette) -> None:
    line = palette.style(arrow.message.role)
    low, high = sorted((arrow.start, arrow.end))
    if low == high:
        _write(cells, low, "├", line)
        _write(cells, low + 1, clip("↺ " + label(arrow.message, unit, 12), max(len(cells) - low - 1, 0)), line)
        return
    right = arrow.end > arrow.start
    room = high - low - 2
    said = label(arrow.message, unit, room - 2)
    if said and room - cell_len(said) >= 4:
        said = f" {said} "
    space = room - cell_len(said)
    shaft = "─" * ((space + 1) // 2), "─" * (space // 2)
    if right:
        _write(cells, low, "├", line)
        _write(cells, low + 1, shaft[0], line)
        _write(cells, high - 1, "▶", line)
        first = low + 1
    else:
        _write(cells, high, "┤", line)
        _write(cells, low + 1, "◀" + shaft[0], line)
        first = low + 2
    _write(cells, first + len(shaft[0]), said, palette.style(arrow.message.role, bold=True))
    _write(cells, first + len(shaft[0]) + cell_len(said), shaft[1], line)


def _write(cells: list[tuple[str, Style | None]], at: int, text: str, style: Style) -> None:
    """Put ``text`` into cells from ``at`` on; a wide character leaves the next cell empty."""
    for char in text:
        wide = cell_len(char)
        if wide and at + wide <= len(cells):
            cells[at] = (char, style)
            cells[at + 1 : at + wide] = [("", style)] * (wide - 1)
        at += wide


def label(message: Message, unit: str, room: int) -> str:
    """What an arrow says in ``room`` cells: text and size, else its text, else its size, else nothing."""
    size = format_value(message.size, unit) if message.size else ""
    both = FORMATTER.fill(_LABEL, {"text": message.text, "size": size}) if message.text and size else ""
    return next((said for said in (both, message.text, size) if said and cell_len(said) <= room), "")
