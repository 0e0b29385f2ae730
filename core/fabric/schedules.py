"""Which algorithms exist for which collective, and the schedule of each pair."""

from __future__ import annotations

from collections.abc import Callable

from core.errors import BadInput
from core.fabric import direct, doubling, ring, tree
from core.fabric.hops import Algorithm, Operation, Phase, PhaseName, Round, Schedule

Maker = Callable[[int, int], Schedule]


def build(op: Operation, algorithm: Algorithm, ranks: int, root: int = 0) -> Schedule:
    """The schedule of ``op`` by ``algorithm``. BadInput when the pair does not exist, with what does."""
    check_pair(op, algorithm)
    return _MAKERS[op, algorithm](ranks, root)


def algorithms_of(op: Operation) -> tuple[Algorithm, ...]:
    """The algorithms that exist for ``op``, in the order of the table."""
    return tuple(algorithm for known, algorithm in _MAKERS if known == op)


def check_pair(op: Operation, algorithm: Algorithm, where: str = "algorithm") -> None:
    """BadInput, at ``where``, unless the pair exists."""
    if (op, algorithm) not in _MAKERS:
        exists = ", ".join(algorithms_of(op))
        takes = ", ".join(known for known, other in _MAKERS if other == algorithm)
        raise BadInput(where, f"there is no {algorithm} {op}", f"for {op}: {exists}; {algorithm} exists for {takes}")


def _own(ranks: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((rank, (rank,)) for rank in range(ranks))


def _ring_all_reduce(n: int, root: int) -> Schedule:
    phases = (Phase("reduce-scatter", ring.reduce_scatter(n)), Phase("all-gather", ring.all_gather(n)))
    return Schedule("all_reduce", "ring", n, n, phases, 1, _own(n))


def _direct_all_reduce(n: int, root: int) -> Schedule:
    phases = (Phase("reduce-scatter", direct.reduce_scatter(n)), Phase("all-gather", direct.all_gather(n)))
    return Schedule("all_reduce", "direct", n, n, phases, 1, _own(n))


def _tree_all_reduce(n: int, root: int) -> Schedule:
    phases = (Phase("reduce", tree.reduce(n, root)), Phase("broadcast", tree.broadcast(n, root)))
    return Schedule("all_reduce", "tree", n, 1, phases, 1, ((root, (0,)),), root)


def _doubling_all_reduce(n: int, root: int) -> Schedule:
    acting = tuple((group[-1], (0,)) for group in doubling.participants(n))
    back: dict[int, tuple[int, ...]] = dict.fromkeys(range(n), (0,))
    phases = (
        Phase("fold in", doubling.fold_in(n, 1, "reduce")),
        Phase("exchange", doubling.exchange(n)),
        Phase("fold out", doubling.fold_out(n, back)),
    )
    return Schedule("all_reduce", "recursive_doubling", n, 1, phases, 2, acting)


def _doubling_reduce_scatter(n: int, root: int) -> Schedule:
    acting = tuple((group[-1], group) for group in doubling.participants(n))
    phases = (
        Phase("fold in", doubling.fold_in(n, n, "reduce")),
        Phase("reduce-scatter", doubling.scatter(n)),
        Phase("fold out", doubling.fold_out(n, {rank: (rank,) for rank in range(n)})),
    )
    return Schedule("reduce_scatter", "recursive_doubling", n, n, phases, 2, acting)


def _doubling_all_gather(n: int, root: int) -> Schedule:
    back = {rank: tuple(chunk for chunk in range(n) if chunk != rank) for rank in range(n)}
    phases = (
        Phase("fold in", doubling.fold_in(n, n, "copy")),
        Phase("all-gather", doubling.gather(n)),
        Phase("fold out", doubling.fold_out(n, back)),
    )
    return Schedule("all_gather", "recursive_doubling", n, n, phases, 0, _own(n))


def _one(op: Operation, algorithm: Algorithm, name: PhaseName, rounds: Callable[[int], tuple[Round, ...]]) -> Maker:
    """A collective of a single phase that leaves each rank its own chunk, or spreads it from there."""
    settled = 1 if op == "reduce_scatter" else 0
    return lambda n, root: Schedule(op, algorithm, n, n, (Phase(name, rounds(n)),), settled, _own(n))


def _rooted(op: Operation, algorithm: Algorithm, name: PhaseName, rounds: Callable[[int, int], tuple[Round, ...]]) -> Maker:
    """A collective of a single phase on whole arrays from or to a root."""
    settled = 1 if op == "reduce" else 0
    return lambda n, root: Schedule(op, algorithm, n, 1, (Phase(name, rounds(n, root)),), settled, ((root, (0,)),), root)


def _chained(op: Operation, name: PhaseName, rounds: Callable[[int, int], tuple[Round, ...]]) -> Maker:
    """The same in as many pieces as there are ranks."""
    settled = 1 if op == "reduce" else 0
    return lambda n, root: Schedule(op, "ring", n, n, (Phase(name, rounds(n, root)),), settled, ((root, tuple(range(n))),), root)


def _all_to_all(n: int, root: int) -> Schedule:
    own = tuple((rank, (rank * n + rank,)) for rank in range(n))
    return Schedule("all_to_all", "direct", n, n * n, (Phase("all-to-all", direct.all_to_all(n)),), 0, own)


_MAKERS: dict[tuple[Operation, Algorithm], Maker] = {
    ("all_reduce", "ring"): _ring_all_reduce,
    ("all_reduce", "tree"): _tree_all_reduce,
    ("all_reduce", "recursive_doubling"): _doubling_all_reduce,
    ("all_reduce", "direct"): _direct_all_reduce,
    ("reduce_scatter", "ring"): _one("reduce_scatter", "ring", "reduce-scatter", ring.reduce_scatter),
    ("reduce_scatter", "recursive_doubling"): _doubling_reduce_scatter,
    ("reduce_scatter", "direct"): _one("reduce_scatter", "direct", "reduce-scatter", direct.reduce_scatter),
    ("all_gather", "ring"): _one("all_gather", "ring", "all-gather", ring.all_gather),
    ("all_gather", "recursive_doubling"): _doubling_all_gather,
    ("all_gather", "direct"): _one("all_gather", "direct", "all-gather", direct.all_gather),
    ("broadcast", "ring"): _chained("broadcast", "broadcast", ring.broadcast),
    ("broadcast", "tree"): _rooted("broadcast", "tree", "broadcast", tree.broadcast),
    ("broadcast", "direct"): _rooted("broadcast", "direct", "broadcast", direct.broadcast),
    ("reduce", "ring"): _chained("reduce", "reduce", ring.reduce),
    ("reduce", "tree"): _rooted("reduce", "tree", "reduce", tree.reduce),
    ("reduce", "direct"): _rooted("reduce", "direct", "reduce", direct.reduce),
    ("all_to_all", "direct"): _all_to_all,
}
