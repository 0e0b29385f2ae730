"""What every rank really holds: tensors by kind, layer and rank, put and dropped for real, with every byte accounted for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

KINDS = {
    "weights": "parameter",  # the BF16 parameters a rank keeps: all of them, or its shard
    "gathered": "parameter",  # a layer's parameters while stage 3 uses them
    "local": "gradient",  # a rank's own gradient, not averaged yet
    "arrived": "gradient",  # what a reduce-scatter has just delivered
    "averaged": "gradient",
    "master": "optimizer",
    "exp_avg": "optimizer",
    "exp_avg_sq": "optimizer",
}
GROUPS = ("parameter", "gradient", "optimizer")


class Memory:
    """The tensors of all hosted ranks. Tensors come in two lengths: a whole layer (padded,) or one shard of it.

    ``held[kind]`` are bytes (rank, shard), kept as tensors come and go; `storages` counts the same from the tensors
    themselves. Only model states are kept here: activations and scratch are not ZeRO's business.
    """

    def __init__(self, ranks: int, shard: int) -> None:
        self.ranks, self.shard = ranks, shard
        self.tensors: dict[str, dict[tuple[int, int], torch.Tensor]] = {kind: {} for kind in KINDS}
        self.held = {kind: np.zeros((ranks, ranks), dtype=np.int64) for kind in KINDS}
        self.live = np.zeros(ranks, dtype=np.int64)
        self.peak = np.zeros(ranks, dtype=np.int64)
        self.poisoned = 0
        self.dirty: set[tuple[str, int]] = set()

    def put(self, kind: str, layer: int, rank: int, tensor: torch.Tensor) -> None:
        """``rank`` now holds ``tensor``: whole, or its own shard when it is that long."""
        if (layer, rank) in self.tensors[kind]:
            self._forget(kind, layer, rank)
        self.tensors[kind][layer, rank] = tensor
        self._account(kind, rank, tensor, 1)
        self.peak[rank] = max(self.peak[rank], self.live[rank])

    def get(self, kind: str, layer: int, rank: int) -> torch.Tensor:
        return self.tensors[kind][layer, rank]

    def has(self, kind: str, layer: int, rank: int) -> bool:
        return (layer, rank) in self.tensors[kind]

    def of(self, kind: str, layer: int) -> dict[int, torch.Tensor]:
        """``{rank: tensor}`` of one layer."""
        return {rank: tensor for (at, rank), tensor in self.tensors[kind].items() if at == layer}

    def drop(self, kind: str, layer: int, rank: int) -> int:
        """Free a tensor for real; it is filled with NaN first, so that a later reader would be caught. Returns its bytes."""
        tensor = self.tensors[kind][layer, rank]
        self.poison(tensor)
        self._forget(kind, layer, rank)
        return tensor.nbytes

    def rename(self, kind: str, new: str, layer: int, rank: int) -> None:
        """The same tensor means something else from now on (a local gradient has become the average)."""
        tensor = self.tensors[kind][layer, rank]
        self._forget(kind, layer, rank)
        self.put(new, layer, rank, tensor)

    def poison(self, tensor: torch.Tensor) -> None:
        """Fill what its rank does not own with NaN."""
        tensor.fill_(float("nan"))
        self.poisoned += tensor.numel()

    def group_bytes(self, group: str, rank: int) -> np.ndarray:
        """Bytes (shards,) that ``rank`` holds of ``group``."""
        total = np.zeros(self.ranks, dtype=np.int64)
        for kind, its in KINDS.items():
            if its == group:
                total += self.held[kind][rank]
        return total

    def storages(self, rank: int) -> dict[str, int]:
        """Bytes of the live storages of ``rank`` by group, each storage once, read from the tensors themselves."""
        found = dict.fromkeys(GROUPS, 0)
        seen = set()
        for kind, tensor in self._tensors_of(rank):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                found[KINDS[kind]] += storage.nbytes()
        return found

    def not_finite(self) -> int:
        """Elements held by any rank that are NaN or infinite."""
        return sum(int((~torch.isfinite(t)).sum()) for tensors in self.tensors.values() for t in tensors.values())

    def _tensors_of(self, rank: int) -> Iterator[tuple[str, torch.Tensor]]:
        return ((kind, t) for kind, tensors in self.tensors.items() for (_, owner), t in tensors.items() if owner == rank)

    def _forget(self, kind: str, layer: int, rank: int) -> None:
        self._account(kind, rank, self.tensors[kind].pop((layer, rank)), -1)

    def _account(self, kind: str, rank: int, tensor: torch.Tensor, sign: int) -> None:
        per_shard = self.shard * tensor.element_size()
        if tensor.numel() == self.shard:
            self.held[kind][rank, rank] += sign * per_shard
        else:
            self.held[kind][rank] += sign * per_shard
        self.live[rank] += sign * tensor.nbytes
        self.dirty.add((KINDS[kind], rank))
