"""The two bars of a book's depth: which level counts to which part, and what the scale remembers."""

from __future__ import annotations

from core.markets.depth_split import SHOWN_LEVELS, SplitDepth

Sizes = dict[int, list[int]]


class Depth(SplitDepth[Sizes]):
    """Of books that are written down as the sizes of their levels."""

    def sizes(self, book: Sizes, side: int) -> list[int]:
        return book[side][:SHOWN_LEVELS]


def shown(book: Sizes) -> list[list[float]]:
    cells = Depth("lots").cells(book)
    return [[cells[bar, part].value for part in range(3)] for bar in (0, 1)]


def test_every_level_that_is_shown_counts_once_by_how_near_it_is() -> None:
    assert shown({1: [1, 2, 4, 8, 16, 32, 64], -1: [5]}) == [[1, 30, 96], [5, 0, 0]]
    assert shown({1: [], -1: [1] * 30}) == [[0, 0, 0], [1, 4, 15]]


def test_scale_fits_the_largest_side_and_never_shrinks() -> None:
    depth = Depth("lots")
    for book, most in (({1: [1, 2], -1: [9]}, 9), ({1: [1], -1: []}, 9), ({1: [4, 4, 4], -1: [1]}, 12)):
        depth.fit(book)
        assert depth.maximum == most
