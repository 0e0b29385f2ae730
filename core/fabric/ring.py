"""Ring arithmetic: who talks to whom, and which chunk travels on which hop. It stands here once.

A buffer is cut into as many chunks as there are ranks. Reduce-scatter takes n - 1 hops, all-gather n - 1 more; an
all-reduce is one after the other (Patarasuk and Yuan, 2009; NCCL's ring).
"""

from __future__ import annotations


def next_rank(rank: int, ranks: int) -> int:
    """The neighbour that ``rank`` sends to."""
    return (rank + 1) % ranks


def previous_rank(rank: int, ranks: int) -> int:
    """The neighbour that ``rank`` receives from."""
    return (rank - 1) % ranks


def reduce_chunk(rank: int, hop: int, ranks: int) -> int:
    """The chunk that ``rank`` sends on ``hop`` of a reduce-scatter; hop ``ranks - 1`` names the one it is left with: its own.

    So chunk j is summed in the order of ranks j + 1, j + 2, ..., j (modulo ``ranks``).
    """
    return (rank - hop - 1) % ranks


def gather_chunk(rank: int, hop: int, ranks: int) -> int:
    """The chunk that ``rank`` sends on ``hop`` of an all-gather: first its own, then what it received the hop before."""
    return (rank - hop) % ranks


def chunk_sizes(elements: int, ranks: int) -> list[int]:
    """Sizes of the chunks of a buffer: as equal as possible, the first ones one element longer."""
    base, longer = divmod(elements, ranks)
    return [base + (chunk < longer) for chunk in range(ranks)]


def wire_share(ranks: int) -> float:
    """Share of a buffer that each rank puts on the wire in one reduce-scatter or all-gather of equal chunks: (n - 1) / n."""
    return (ranks - 1) / ranks
