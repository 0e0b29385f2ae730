"""Legends in little room: numbered neighbours become a range, keys flow over a few rows, and the longest names are cut until all fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from tui.widgets.fitting import clip

_NUMBERED = re.compile(r"(.*?)(\d+)$")
_LEAST_RANGE = 3


class Entry(NamedTuple):
    """What one place of the legend names: the curve ``first``, or all from there to ``last``."""

    first: int
    last: int
    name: str


def ranges(names: Sequence[str]) -> list[Entry]:
    """One entry a name, but one for three or more neighbours that count on: rank 0, rank 1, rank 2 are ``rank 0–2``."""
    entries, at = [], 0
    while at < len(names):
        numbered = _NUMBERED.match(names[at])
        end = at + 1
        while numbered and end < len(names) and names[end] == f"{numbered[1]}{int(numbered[2]) + end - at}":
            end += 1
        if end - at >= _LEAST_RANGE and numbered:
            entries.append(Entry(at, end - 1, f"{names[at]}–{int(numbered[2]) + end - at - 1}"))
            at = end
        else:
            entries.append(Entry(at, at, names[at]))
            at += 1
    return entries


def shortened(names: Sequence[str], room: int) -> list[str]:
    """``names`` in ``room`` cells together: the longest are cut to one length, the others stay whole."""
    longest = max((cell_len(name) for name in names), default=0)
    while longest > 1 and sum(min(cell_len(name), longest) for name in names) > room:
        longest -= 1
    return [clip(name, longest) for name in names]


class Place(NamedTuple):
    """Where a key stands: its swatch begins at ``column`` of ``row``, a blank and ``name`` follow, then blanks up to ``end``."""

    row: int
    column: int
    name: str
    end: int


def flow(keys: Sequence[tuple[int, str]], width: int, rows: int, indent: int, taken: int = 0) -> list[Place]:
    """Places of the keys (cells of the swatch, name) in ``rows`` rows, the first of which begins with ``taken`` cells.

    Under the labels (``indent``) and well apart where they fit so, else from the edge and closer, else with names cut.
    """
    longest = max((cell_len(name) for _, name in keys), default=0)
    tries = [(indent, 3, longest), *((1, gap, longest) for gap in (3, 2)), *((1, 1, cut) for cut in range(longest, 1, -1))]
    for start, gap, most in tries:
        places = _laid([(swatch, clip(name, most)) for swatch, name in keys], width, start, gap, taken)
        ends = [place.column + swatch + 1 + cell_len(place.name) for (swatch, _), place in zip(keys, places, strict=True)]
        if all(place.row < rows and end <= width for place, end in zip(places, ends, strict=True)):
            return places
    return [place for place, end in zip(places, ends, strict=True) if place.row < rows and end <= width]


def _laid(keys: Sequence[tuple[int, str]], width: int, start: int, gap: int, taken: int) -> list[Place]:
    row, column, places = 0, max(start, taken), []
    for swatch, name in keys:
        size = swatch + 1 + cell_len(name)
        if column + size > width and column > start:
            row, column = row + 1, start
        places.append(Place(row, column, name, min(column + size + gap, width)))
        column += size + gap
    return places
