"""Direct exchange: every rank sends straight to the rank that needs the values, one target after the other.

On round d rank r sends to rank r + d, so every rank sends one message and receives one.
"""

from __future__ import annotations

from core.fabric.hops import Round, Transfer


def reduce_scatter(ranks: int) -> tuple[Round, ...]:
    """Everybody sends its chunk p to rank p, who adds them up as they come."""
    return tuple(tuple(Transfer(r, (r + d) % ranks, ((r + d) % ranks,), "reduce") for r in range(ranks)) for d in range(1, ranks))


def all_gather(ranks: int) -> tuple[Round, ...]:
    """Everybody sends its own chunk to everybody."""
    return tuple(tuple(Transfer(r, (r + d) % ranks, (r,), "copy") for r in range(ranks)) for d in range(1, ranks))


def all_to_all(ranks: int) -> tuple[Round, ...]:
    """The block from r to p (number r n + p) goes from r to p."""
    return tuple(tuple(Transfer(r, p, (r * ranks + p,), "copy") for r in range(ranks) for p in [(r + d) % ranks]) for d in range(1, ranks))


def broadcast(ranks: int, root: int) -> tuple[Round, ...]:
    """The root sends the whole array to one rank after the other."""
    return tuple((Transfer(root, (root + d) % ranks, (0,), "copy"),) for d in range(1, ranks))


def reduce(ranks: int, root: int) -> tuple[Round, ...]:
    """The root receives the whole array of one rank after the other."""
    return tuple((Transfer((root + d) % ranks, root, (0,), "reduce"),) for d in range(1, ranks))
