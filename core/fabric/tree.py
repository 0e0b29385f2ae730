"""Binomial tree arithmetic: whole arrays go up to the root and down again, in ceil(log2 n) rounds each way.

The number of ranks that have the value doubles every round (MPICH's broadcast and reduce for short messages; Thakur,
Rabenseifner and Gropp, 2005). The array is not cut: NCCL's trees also pipeline pieces of it, which this one does not.
"""

from __future__ import annotations

from core.fabric.hops import Round, Transfer


def depth(ranks: int) -> int:
    """Rounds in one direction: ceil(log2 ranks)."""
    return (ranks - 1).bit_length()


def broadcast(ranks: int, root: int) -> tuple[Round, ...]:
    """From the root to the rank half of all away, then from both of them a quarter away, down to neighbours."""
    return tuple(
        tuple(Transfer(above, below, (0,), "copy") for above, below in _pairs(ranks, root, 1 << level))
        for level in reversed(range(depth(ranks)))
    )


def reduce(ranks: int, root: int) -> tuple[Round, ...]:
    """The same pairs from neighbours up: each rank sends its partial sum once and is done."""
    return tuple(
        tuple(Transfer(below, above, (0,), "reduce") for above, below in _pairs(ranks, root, 1 << level)) for level in range(depth(ranks))
    )


def _pairs(ranks: int, root: int, distance: int) -> list[tuple[int, int]]:
    """(nearer the root, farther) on the level where partners are ``distance`` apart; places count from the root."""
    return [((place + root) % ranks, (place + distance + root) % ranks) for place in range(0, ranks - distance, 2 * distance)]
