"""Honest timing on this machine: warm-up, several rounds interleaved, the best or the median of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Seconds of each round; ``best`` for what the machine can do, ``median`` for what it does."""

    rounds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def interleaved(functions: Sequence[Callable[[], object]], rounds: int = 5, warmups: int = 1, device: str = "cpu") -> list[Timing]:
    """Time ``functions`` in turn, ``rounds`` times, so that a slow moment of the machine touches all of them alike.

    On cuda the queue is drained before and after each call. Returns one `Timing` per function.
    """
    wait = _drain(device)
    for function in functions:
        for _ in range(warmups):
            function()
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for times, function in zip(taken, functions, strict=True):
            wait()
            start = time.perf_counter()
            function()
            wait()
            times.append(time.perf_counter() - start)
    return [Timing(tuple(times)) for times in taken]


def _drain(device: str) -> Callable[[], object]:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.synchronize
    return lambda: None
