"""The depth of a book as two bars, bids and asks, split by how near a quantity stands to the best price."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from core.views import Axis, Breakdown, Cell

SHOWN_LEVELS = 20
B = TypeVar("B")


class SplitDepth(Breakdown, Generic[B]):
    """Over the levels that a ladder shows. A subclass says what a book of its kind displays there."""

    _EDGES = ((0, 1), (1, 5), (5, SHOWN_LEVELS))

    def __init__(self, unit: str) -> None:
        parts = [("best price", "group0"), ("next four", "group1"), (f"to level {SHOWN_LEVELS}", "group2")]
        super().__init__(Axis.of("bids", "asks"), parts, unit=unit)

    def sizes(self, book: B, side: int) -> Sequence[float]:
        """Quantities of the best `SHOWN_LEVELS` levels of a side, best first."""
        raise NotImplementedError

    def cells(self, book: B) -> dict[tuple[int, int], Cell]:
        """Both bars of ``book``, by (bar, part)."""
        found = {}
        for bar, side in enumerate((1, -1)):
            sizes = self.sizes(book, side)
            for part, (first, end) in enumerate(self._EDGES):
                found[bar, part] = Cell(sum(sizes[first:end]), self.parts[part][1])
        return found

    def fit(self, book: B) -> None:
        """The scale fits the largest depth seen at the end of a block."""
        self.maximum = max(self.maximum, *(sum(self.sizes(book, side)) for side in (1, -1)))
