"""Collectives by formula: bytes, messages, rounds and time, without moving anything.

S = elements of the whole array as nccl-tests counts it (the gathered output, the scattered input), n ranks. On the wire, per
rank: AllReduce 2 (n-1)/n S; ReduceScatter, AllGather, AllToAll (n-1)/n S; Broadcast, Reduce S; by ring or directly.
Recursive doubling's AllReduce sends S log2 n. Time = alpha x rounds + bytes / bandwidth along the busiest path. Bus
bandwidth = algorithm bandwidth x 2 (n-1)/n, (n-1)/n or 1 (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from typing import NamedTuple

from core.fabric import doubling, tree
from core.fabric.clock import LinkCost
from core.fabric.hops import Algorithm, Operation

_SHARE = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}


INSIDE = -1


class Stage(NamedTuple):
    """``rounds`` in a row, each with a message of ``elements`` on the busiest path.

    ``reach`` is how far apart the ranks are: a power of two, `INSIDE` one node, or 0 where some message of the round
    leaves its node if there are several.
    """

    rounds: int
    elements: int
    reach: int = 0


def bus_factor(op: Operation, ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth."""
    return _SHARE[op] * (ranks - 1) / ranks if op in _SHARE else 1.0


def total_elements(op: Operation, algorithm: Algorithm, n: int, s: int) -> int:
    """Elements that all ranks together put on the wire; exact, however S divides."""
    power, extra = doubling.power_of_two(n)
    if algorithm == "recursive_doubling" and op == "all_reduce":
        return (power * (power.bit_length() - 1) + 2 * extra) * s
    if algorithm == "recursive_doubling" and op == "reduce_scatter":
        return (n - 1) * s + sum(_size(s, n, 2 * pair) for pair in range(extra)) if n <= 1 << 16 else (n - 1) * s + extra * s // n
    return (2 if op == "all_reduce" else 1) * (n - 1) * s


def busiest_elements(op: Operation, algorithm: Algorithm, n: int, s: int) -> float:
    """Elements that the busiest rank puts on the wire, for chunks of equal size."""
    power, extra = doubling.power_of_two(n)
    levels = power.bit_length() - 1
    if n == 1:
        return 0.0
    if algorithm == "recursive_doubling":
        if op == "all_reduce":
            return float((levels + (extra > 0)) * s)
        if op == "reduce_scatter":
            return s * (n if extra else n - 1) / n
        return s * (sum(_group(level, extra) for level in range(levels)) + (n - 1 if extra else 0)) / n
    if op in _SHARE and algorithm != "tree":
        return _SHARE[op] * (n - 1) * s / n
    if op == "broadcast" and algorithm == "direct":
        return float((n - 1) * s)
    if algorithm == "tree" and op != "reduce":
        return float(tree.depth(n) * s)
    return float(s)


def messages(op: Operation, algorithm: Algorithm, n: int, s: int) -> int:
    """Messages of all ranks. Empty chunks are not sent; doubling's messages are taken to hold something (S >= n)."""
    power, extra = doubling.power_of_two(n)
    if algorithm == "recursive_doubling":
        return power * (power.bit_length() - 1) + 2 * extra
    if algorithm == "tree" or (algorithm == "direct" and op in ("broadcast", "reduce")):
        return (2 if op == "all_reduce" else 1) * (n - 1)
    return (2 if op == "all_reduce" else 1) * min(n, s) * (n - 1)


def stages(op: Operation, algorithm: Algorithm, n: int, s: int, node_size: int = 0) -> list[Stage]:
    """What the busiest path consists of, in rounds one after the other; nodes of ``node_size`` ranks (0: one node)."""
    longest, inside = -(-s // n), node_size or n
    if n == 1:
        return []
    if algorithm == "tree":
        return [Stage(2 if op == "all_reduce" else 1, s, 1 << level) for level in range(tree.depth(n))]
    if algorithm == "recursive_doubling":
        return _doubling_stages(op, n, s)
    if op in _SHARE:
        return [Stage(_SHARE[op] * (n - 1), longest)]
    if algorithm == "direct":
        return [Stage(inside - 1, s, INSIDE), Stage(n - inside, s)]
    nodes, long_pieces = n // inside, s % n or n
    between = nodes - 1 if op == "broadcast" or nodes == 1 else min(nodes, n - 1)  # a reduce ends with the link back to the root
    fill = [Stage(n - 1 - between, longest, INSIDE), Stage(between, longest)]  # the first piece, over every link once
    behind = INSIDE if nodes == 1 else 0  # the others follow at the pace of the slowest link
    return [*fill, Stage(long_pieces - 1, longest, behind), Stage(n - long_pieces, s // n, behind)]


def rounds(op: Operation, algorithm: Algorithm, n: int, s: int) -> int:
    """Rounds one after another that carry anything."""
    return sum(stage.rounds for stage in stages(op, algorithm, n, s) if stage.elements)


def seconds(parts: list[Stage], itemsize: int, link: LinkCost, inter_link: LinkCost | None = None, node_size: int = 0) -> float:
    """alpha x rounds + bytes / bandwidth; a round in which a message may cross nodes of ``node_size`` ranks takes ``inter_link``.

    Without ``inter_link`` there is one node.
    """
    total = 0.0
    for stage in parts:
        near = stage.reach == INSIDE or (stage.reach > 0 and node_size % (2 * stage.reach) == 0)
        wire = link if near or inter_link is None else inter_link
        if stage.elements:
            total += stage.rounds * (wire.latency + stage.elements * itemsize / wire.bandwidth)
    return total


def is_exact(op: Operation, algorithm: Algorithm, n: int, s: int, node_size: int = 0) -> bool:
    """Whether `seconds` is the time of `stages`, and not only a bound from above.

    Within one node it always is. With nodes, chunks of different sizes and partners that straddle them leave some slack.
    """
    if not node_size or node_size >= n:
        return True
    if algorithm in ("tree", "recursive_doubling") and n & (n - 1):
        return False
    whole = algorithm == "tree" or (op, algorithm) == ("all_reduce", "recursive_doubling") or (op not in _SHARE and algorithm == "direct")
    return whole or s % n == 0


def _doubling_stages(op: Operation, n: int, s: int) -> list[Stage]:
    """The path through the first participants: they act for two ranks each where any do, so their messages are the largest."""
    power, extra = doubling.power_of_two(n)
    reach = 0 if extra else 1
    levels = range(power.bit_length() - 1)
    if op == "all_reduce":
        return [*([Stage(2, s)] if extra else []), *(Stage(1, s, reach << level) for level in levels)]
    body = [Stage(1, _first(s, n, _group(level, extra)), reach << level) for level in levels]
    if not extra:
        return body
    if op == "all_gather":
        return [Stage(1, _size(s, n, 0)), *body, Stage(1, s - _size(s, n, 2 * extra - 2))]
    return [Stage(1, s), *body, Stage(1, _size(s, n, 0))]


def _group(level: int, extra: int) -> int:
    """Ranks that the first 2^level participants act for."""
    return (1 << level) + min(extra, 1 << level)


def _size(s: int, n: int, chunk: int) -> int:
    """Elements of one chunk: the first s mod n are one longer."""
    return s // n + (chunk < s % n)


def _first(s: int, n: int, chunks: int) -> int:
    """Elements of the first so many chunks."""
    return chunks * (s // n) + min(chunks, s % n)
