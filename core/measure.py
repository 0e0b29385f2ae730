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


class Rates(msgspec.Struct, frozen=True):
    """What a device attains here: FLOP/s of a large matmul, bytes/s of a large copy (read and write both counted)."""

    flops: float
    bandwidth: float


def rates(device: str = "cpu", dtype: str = "bf16") -> Rates:
    """Measure ``device`` with square matmuls and copies that no cache holds, the best of several rounds. Imports torch.

    dtype: bf16, fp16 or fp32. Takes about a second on two cores, a few milliseconds on an accelerator.
    """
    import torch

    kind = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    side, elements = (8192, 2**28) if device.startswith("cuda") else (1024, 2**24)
    left, right = (torch.ones(side, side, dtype=kind, device=device) for _ in range(2))
    product = torch.empty(side, side, dtype=kind, device=device)
    source = torch.ones(elements, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    matmul, copy = interleaved([lambda: torch.mm(left, right, out=product), lambda: target.copy_(source)], device=device)
    return Rates(2 * side**3 / matmul.best, 2 * source.nbytes / copy.best)


def _drain(device: str) -> Callable[[], object]:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.synchronize
    return lambda: None
