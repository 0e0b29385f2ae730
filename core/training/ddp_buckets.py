"""DDP's buckets: which gradients travel together (PyTorch Distributed, arXiv 2006.15704; torch/csrc/distributed/c10d/reducer.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.fabric.base import Tensors, Work

MIB = 2**20


def assign(order: Iterable[int], sizes: Sequence[int], first_limit: int, limit: int) -> list[list[int]]:
    """Parameters in ``order``, cut into buckets: one is closed as soon as it holds ``first_limit`` (later ones ``limit``) bytes.

    So a bucket may overshoot, and a parameter of ``sizes[index]`` bytes is never split.
    """
    buckets: list[list[int]] = [[]]
    held = 0
    for index in order:
        buckets[-1].append(index)
        held += sizes[index]
        if held >= (first_limit if len(buckets) == 1 else limit):
            buckets.append([])
            held = 0
    return [bucket for bucket in buckets if bucket]


class Bucket:
    """Gradients that are averaged by one all-reduce: a flat buffer (elements,) on every rank, filled as gradients become ready."""

    def __init__(self, number: int, parameters: Sequence[int], elements: Sequence[int], buffers: Tensors) -> None:
        """``elements[index]`` of each parameter; ``buffers[rank]`` have room for all that the bucket holds."""
        self.number = number
        self.parameters = tuple(parameters)
        self.places: dict[int, slice] = {}
        end = 0
        for index in self.parameters:
            self.places[index] = slice(end, end + elements[index])
            end += elements[index]
        self.elements = end
        self.buffers = buffers
        self.missing: dict[int, set[int]] = {}
        self.work: Work[Tensors] | None = None
        self.empty()

    def empty(self) -> None:
        """A new backward begins: no gradient is ready on any rank."""
        self.missing = {rank: set(self.parameters) for rank in self.buffers}
        self.work = None

    @property
    def full(self) -> bool:
        """Whether every gradient is ready on every rank hosted here."""
        return not any(self.missing.values())
