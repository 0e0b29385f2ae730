"""Ring arithmetic: who talks to whom, and which chunk travels on which hop. It stands here once.

A buffer is cut into as many chunks as there are ranks. Reduce-scatter takes n - 1 hops, all-gather n - 1 more; an
all-reduce is one after the other (Patarasuk and Yuan, 2009; NCCL's ring).
"""

from __future__ import annotations

from core.fabric.hops import Mode, Round, Transfer


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


def reduce_scatter(ranks: int) -> tuple[Round, ...]:
    """Partial sums travel the ring; after ``ranks - 1`` hops each rank is left with its own chunk, summed over all ranks."""
    return tuple(
        tuple(Transfer(r, next_rank(r, ranks), (reduce_chunk(r, hop, ranks),), "reduce") for r in range(ranks)) for hop in range(ranks - 1)
    )


def all_gather(ranks: int) -> tuple[Round, ...]:
    """Finished chunks travel the ring; each rank passes on what it received the hop before."""
    return tuple(
        tuple(Transfer(r, next_rank(r, ranks), (gather_chunk(r, hop, ranks),), "copy") for r in range(ranks)) for hop in range(ranks - 1)
    )


def broadcast(ranks: int, root: int) -> tuple[Round, ...]:
    """As many pieces as ranks run one behind the other from the root along the opened ring, 2 (n - 1) hops."""
    return _chain(ranks, root, "copy")


def reduce(ranks: int, root: int) -> tuple[Round, ...]:
    """Pieces start behind the root, take up every rank's values on the way and end at the root, 2 (n - 1) hops."""
    return _chain(ranks, next_rank(root, ranks), "reduce")


def _chain(ranks: int, first: int, mode: Mode) -> tuple[Round, ...]:
    """On hop h the rank at place p of the chain sends piece h - p."""
    rounds = []
    for hop in range(2 * (ranks - 1)):
        sends = [((first + place) % ranks, hop - place) for place in range(ranks - 1) if 0 <= hop - place < ranks]
        rounds.append(tuple(Transfer(rank, next_rank(rank, ranks), (piece,), mode) for rank, piece in sends))
    return tuple(rounds)
