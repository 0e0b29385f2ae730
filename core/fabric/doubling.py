"""Recursive doubling and halving: partners 1, 2, 4, ... apart swap what they have, log2 n rounds.

A power of two p of the ranks takes part. If there are n = p + e, the first e even ranks hand what they have to their odd
neighbours before (fold in), and get the result from them afterwards (fold out), as MPICH does (Thakur, Rabenseifner and
Gropp, 2005): two rounds more, in which the others wait.
"""

from __future__ import annotations

from core.fabric.hops import Mode, Round, Transfer


def power_of_two(ranks: int) -> tuple[int, int]:
    """(p, e): the largest power of two that is at most ``ranks``, and how many ranks are left over."""
    power = 1 << (ranks.bit_length() - 1)
    return power, ranks - power


def participants(ranks: int) -> list[tuple[int, ...]]:
    """The groups of ranks that act as one, in rank order: (even, odd) pairs first, then ranks on their own. The last one acts."""
    extra = power_of_two(ranks)[1]
    return [(2 * k, 2 * k + 1) for k in range(extra)] + [(rank,) for rank in range(2 * extra, ranks)]


def fold_in(ranks: int, chunks: int, mode: Mode) -> tuple[Round, ...]:
    """Every left-over rank hands all it has to its partner: partial sums of all chunks (reduce), or its own chunk (copy)."""
    return _fold(
        [
            Transfer(group[0], group[1], (group[0],) if mode == "copy" else tuple(range(chunks)), mode)
            for group in participants(ranks)
            if len(group) == 2
        ]
    )


def fold_out(ranks: int, wanted: dict[int, tuple[int, ...]]) -> tuple[Round, ...]:
    """Every left-over rank gets ``wanted[rank]`` back."""
    return _fold([Transfer(group[1], group[0], wanted[group[0]], "copy") for group in participants(ranks) if len(group) == 2])


def exchange(ranks: int) -> tuple[Round, ...]:
    """All-reduce: partners send each other the whole array (chunk 0) and both add: the sum of 2, 4, 8, ... of them."""
    acting = [group[-1] for group in participants(ranks)]
    return tuple(
        tuple(Transfer(rank, acting[k ^ distance], (0,), "exchange") for k, rank in enumerate(acting)) for distance in _distances(ranks)
    )


def gather(ranks: int) -> tuple[Round, ...]:
    """All-gather by doubling: partners send each other all chunks they have."""
    groups = participants(ranks)
    return tuple(
        tuple(Transfer(group[-1], groups[k ^ distance][-1], _chunks(groups, k, distance), "copy") for k, group in enumerate(groups))
        for distance in _distances(ranks)
    )


def scatter(ranks: int) -> tuple[Round, ...]:
    """Reduce-scatter by halving: partners send each other the partial sums of the half that the other is to keep."""
    groups = participants(ranks)
    return tuple(
        tuple(
            Transfer(group[-1], groups[k ^ distance][-1], _chunks(groups, k ^ distance, distance), "reduce")
            for k, group in enumerate(groups)
        )
        for distance in reversed(_distances(ranks))
    )


def _distances(ranks: int) -> list[int]:
    return [1 << level for level in range(power_of_two(ranks)[0].bit_length() - 1)]


def _chunks(groups: list[tuple[int, ...]], place: int, distance: int) -> tuple[int, ...]:
    """The chunks of the ``distance`` participants that have come together with participant ``place``."""
    first = place - place % distance
    return tuple(rank for group in groups[first : first + distance] for rank in group)


def _fold(transfers: list[Transfer]) -> tuple[Round, ...]:
    return (tuple(transfers),) if transfers else ()
