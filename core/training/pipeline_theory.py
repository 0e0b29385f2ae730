"""What is known of a pipeline schedule without running it: its bubble, what its ranks hold, and what they send."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from core.training.interleaving import rounds


class Times(NamedTuple):
    """Of one chunk, the same for all: F, I, W, and F&B, an overlapped forward-backward pair."""

    forward: float
    input_gradient: float
    weight_gradient: float
    overlapped: float

    @property
    def backward(self) -> float:
        """B = I + W."""
        return self.input_gradient + self.weight_gradient

    @property
    def chunk(self) -> float:
        """F + B."""
        return self.forward + self.backward


class Size(NamedTuple):
    ranks: int
    microbatches: int
    chunks: int


class Theory(NamedTuple):
    """The closed forms of one schedule.

    bubble, formula: what the most idle rank (all ranks, unless pairs save time) idles over the whole makespan with equal chunks
    and no transfers, and how it is written, B being I + W; exact, exactly_for: for which times the table reaches it; fewest:
    microbatches from which it holds;
    held, held_at_input: (size, rank) -> the most activations the rank holds, each freed at its W, or at its I;
    links: (size) -> messages of one microbatch that cross ranks, in one direction.
    """

    bubble: Callable[[Size, Times], float]
    formula: str
    held: Callable[[Size, int], int]
    held_at_input: Callable[[Size, int], int]
    links: Callable[[Size], int]
    exact: Callable[[Times], bool] = lambda times: True
    exactly_for: str = "equal chunks"
    fewest: Callable[[Size], int] = lambda size: 1


def _one_by_one(size: Size, times: Times) -> float:
    return (size.ranks - 1) * times.chunk


def _split(size: Size, times: Times) -> float:
    return (size.ranks - 1) * (times.chunk - 2 * times.weight_gradient)


def _overlapped(size: Size, times: Times) -> float:
    return (size.ranks - 1) * (times.overlapped + times.backward - 3 * times.weight_gradient)


def _weights_fit(times: Times) -> bool:
    return times.weight_gradient <= min(times.forward, times.input_gradient)


def _all_equal(times: Times) -> bool:
    return times.forward == times.input_gradient == times.weight_gradient


def _split_in_half(times: Times) -> bool:
    return times.forward == times.input_gradient >= times.weight_gradient and times.overlapped <= times.chunk * (1 + 1e-9)


def _whole(size: Size, rank: int) -> int:
    return size.microbatches * size.chunks


def _ahead(size: Size, rank: int) -> int:
    """1F1B: a rank is as many microbatches ahead as there are ranks from it to the last."""
    return min(size.ranks - rank, size.microbatches)


def _rounds_ahead(size: Size, hops: int) -> int:
    """A round of each chunk but the last, and ``hops`` more."""
    return min((size.chunks - 1) * len(rounds(size.ranks, size.microbatches)[0]) + hops, _whole(size, 0))


def _interleaved(size: Size, rank: int) -> int:
    return _ahead(size, rank) if size.chunks == 1 else _rounds_ahead(size, 2 * (size.ranks - 1 - rank) + 1)


def _v(size: Size, rank: int) -> int:
    return min(size.microbatches + 1 + rank, 2 * size.ranks, 2 * size.microbatches)


def _loop_links(size: Size) -> int:
    return size.ranks * size.chunks - 1 if size.ranks > 1 else 0


def _v_links(size: Size) -> int:
    return 2 * (size.ranks - 1)


THEORY: dict[str, Theory] = {
    "gpipe": Theory(_one_by_one, "(p-1)(F+B)", _whole, _whole, _loop_links),
    "1f1b": Theory(_one_by_one, "(p-1)(F+B)", _ahead, _ahead, _loop_links),
    "interleaved": Theory(
        _one_by_one, "(p-1)(F+B)", _interleaved, _interleaved, _loop_links, fewest=lambda size: size.ranks if size.chunks > 1 else 1
    ),
    "looped_bfs": Theory(
        _one_by_one, "(p-1)(F+B)", _whole, _whole, _loop_links, fewest=lambda size: size.ranks if size.chunks > 1 else 1
    ),
    "zb_h1": Theory(
        _split, "(p-1)(F+B-2W)", lambda size, rank: min(size.ranks, size.microbatches), _ahead, _loop_links,
        exact=_weights_fit, exactly_for="W <= F and W <= I", fewest=lambda size: size.ranks,
    ),
    "interleaved_zb": Theory(
        _split, "(p-1)(F+B-2W)", lambda size, rank: _rounds_ahead(size, size.ranks),
        lambda size, rank: _rounds_ahead(size, size.ranks - rank), _loop_links,
        exact=_weights_fit, exactly_for="W <= F and W <= I", fewest=lambda size: size.ranks,
    ),
    "zbv": Theory(
        lambda size, times: (size.ranks - 1) * times.forward, "(p-1)F", _v, _v, _v_links,
        exact=_all_equal, exactly_for="F = I = W", fewest=lambda size: 2 * size.ranks - 1,
    ),
    "dualpipe": Theory(
        lambda size, times: _overlapped(size._replace(ranks=size.ranks // 2), times), "(p/2-1)(F&B+B-3W)",
        lambda size, rank: size.ranks + 1, lambda size, rank: size.ranks + 1, lambda size: size.ranks - 1,
        exact=_split_in_half, exactly_for="F = I >= W and F&B <= F+B",
    ),
    "dualpipev": Theory(
        _overlapped, "(p-1)(F&B+B-3W)", lambda size, rank: 2 * size.ranks + 1, lambda size, rank: 2 * size.ranks + 1, _v_links,
        exact=_split_in_half, exactly_for="F = I >= W and F&B <= F+B",
    ),
}  # fmt: skip
