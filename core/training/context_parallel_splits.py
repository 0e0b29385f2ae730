"""How a sequence is cut over ranks, and how many score elements the causal mask leaves in each tile.

Contiguous: rank r has block r (Ring Attention, arXiv 2310.01889). Zigzag: of 2P chunks rank r has r and 2P - 1 - r (Llama 3,
arXiv 2407.21783). Striped: rank r has the tokens r, r + P, r + 2P, ... (Striped Attention, arXiv 2311.09431).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Split = Literal["contiguous", "zigzag", "striped"]


class Chunk(NamedTuple):
    """Equally spaced positions: first, first + step, ..., ``size`` of them."""

    first: int
    step: int
    size: int

    @property
    def last(self) -> int:
        return self.first + self.step * (self.size - 1)


def unit(split: Split, ranks: int) -> int:
    """The sequence must be a multiple of this: every rank has as many equal chunks."""
    return 2 * ranks if split == "zigzag" else ranks


def chunks(split: Split, sequence: int, ranks: int, rank: int) -> list[Chunk]:
    """The positions of ``rank``, in the order in which it holds them."""
    if split == "striped":
        return [Chunk(rank, ranks, sequence // ranks)]
    size = sequence // unit(split, ranks)
    held = (rank, 2 * ranks - 1 - rank) if split == "zigzag" else (rank,)
    return [Chunk(number * size, 1, size) for number in held]


def unmasked(queries: Chunk, keys: Chunk, *, causal: bool) -> int:
    """Score elements of the tile that the mask leaves: pairs whose key is not later than the query. Both of one size and step."""
    n = queries.size
    if not causal:
        return n * n
    ahead = (queries.first - keys.first) // keys.step
    return _triangle(n + ahead) if ahead <= 0 else n * n - _triangle(n - 1 - ahead)


def work(queries: Chunk, keys: Chunk, *, causal: bool) -> float:
    """Unmasked score elements, those on the diagonal (a token with itself) counted half.

    So the causal work of a whole sequence is N²/2, half the square, and a tile on the diagonal is half of a full one: with this
    count max / mean is 2 - 1/P for the contiguous split, 1 for zigzag and 1 + (P - 1)/N for striped, without a remainder.
    """
    on_diagonal = queries.size if causal and queries.first == keys.first else 0
    return unmasked(queries, keys, causal=causal) - on_diagonal / 2


def tile_work(split: Split, sequence: int, ranks: int, rank: int, source: int, *, causal: bool) -> float:
    """`work` of all queries of ``rank`` with all keys of ``source``, for one head of one sequence."""
    mine, theirs = (chunks(split, sequence, ranks, r) for r in (rank, source))
    return sum(work(queries, keys, causal=causal) for queries in mine for keys in theirs)


def imbalance_formula(split: Split, sequence: int, ranks: int, *, causal: bool) -> float:
    """Work of the busiest rank over the mean."""
    if not causal or split == "zigzag":
        return 1.0
    return 2 - 1 / ranks if split == "contiguous" else 1 + (ranks - 1) / sequence


def written(held: list[Chunk]) -> str:
    """Positions as a person writes them: 0-127, 896-1023; or 2, 6, 10 … 1022."""
    return ", ".join(_written(chunk) for chunk in held)


def _written(chunk: Chunk) -> str:
    if chunk.size == 1:
        return str(chunk.first)
    if chunk.step == 1:
        return f"{chunk.first}-{chunk.last}"
    return f"{chunk.first}, {chunk.first + chunk.step} … {chunk.last}"


def _triangle(side: int) -> int:
    return side * (side + 1) // 2 if side > 0 else 0
