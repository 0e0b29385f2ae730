"""Lines of text, some lit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.cells import Cells
from core.views.base import View


class ListingFrame(msgspec.Struct, frozen=True):
    """Lines of text and which of them are lit."""

    lines: tuple[str, ...]
    lit: frozenset[int]


class Listing(View):
    """Lines of text (an algorithm, a log), some lit at a step. A line may be rewritten."""

    kind = "listing"

    def __init__(self, lines: Sequence[str] = ()) -> None:
        super().__init__()
        self._first = tuple(lines)
        self._lines: Cells[int, str] = Cells()
        self._lit: Cells[str, frozenset[int]] = Cells()

    def line(self, number: int, text: str, *, step: int | None = None) -> None:
        self._lines.write(self._step(step), number, text)

    def light(self, *lines: int, step: int | None = None) -> None:
        """These lines (from 0) are lit until the next call."""
        self._lit.write(self._step(step), "lines", frozenset(lines))

    def at(self, step: int) -> ListingFrame:
        changed = self._lines.at(step)
        height = max(len(self._first), 1 + max(changed, default=-1))
        lines = tuple(changed.get(n, self._first[n] if n < len(self._first) else "") for n in range(height))
        return ListingFrame(lines, self._lit.at(step).get("lines", frozenset()))
