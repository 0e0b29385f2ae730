"""What every rank really holds under FSDP2, by part, from the storages of its tensors; activations as autograd saves and frees them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

PARTS = ("sharded", "activations", "gathered", "gradients")
"""Sharded states; what autograd saved; whole parameters and all-gather buffers; whole gradients and reduce-scatter buffers."""


class Kept:
    """A tensor that autograd saved for backward: it lives as long as the graph needs it."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class Borrowed:
    """A saved parameter: not kept, but looked up again among those that are gathered when backward needs it."""

    __slots__ = ("name", "offset", "size", "stride")

    def __init__(self, name: str, view: Tensor) -> None:
        self.name, self.size, self.stride, self.offset = name, view.size(), view.stride(), view.storage_offset()


class Memory:
    """Tensors of all hosted ranks by part and key. ``live`` and ``peak`` are bytes (ranks,) of distinct storages, by part and in all."""

    def __init__(self, ranks: int) -> None:
        self.tensors: dict[tuple[str, str, int], list[Tensor]] = {}
        self.live = {part: np.zeros(ranks, dtype=np.int64) for part in PARTS}
        self.peak = {part: np.zeros(ranks, dtype=np.int64) for part in PARTS}
        self.highest = np.zeros(ranks, dtype=np.int64)
        self.poisoned = 0
        self._saved: dict[tuple[int, int], int] = {}

    def put(self, part: str, key: str, rank: int, tensors: Iterable[Tensor]) -> None:
        """``rank`` now holds these tensors, each in a storage of its own or shared among them."""
        assert (part, key, rank) not in self.tensors, (part, key, rank)
        held = self.tensors[part, key, rank] = list(tensors)
        self._account(part, rank, _bytes(held))

    def drop(self, part: str, key: str, rank: int) -> int:
        """Free them for real: NaN first, then their storage is given back, whoever still refers to it. Returns the bytes."""
        held = self.tensors.pop((part, key, rank))
        freed = _bytes(held)
        for tensor in held:
            tensor.detach().fill_(float("nan"))
            self.poisoned += tensor.numel()
        for tensor in held:
            tensor.untyped_storage().resize_(0)
        self._account(part, rank, -freed)
        return freed

    def has(self, part: str, key: str, rank: int) -> bool:
        return (part, key, rank) in self.tensors

    def saving(
        self, rank: int, parameters: Mapping[str, Tensor], lookup: Callable[[str], Tensor]
    ) -> torch.autograd.graph.saved_tensors_hooks:
        """Around a forward: autograd's saved tensors count as activations, except parameters, which ``lookup`` finds again in backward."""
        names = {value.untyped_storage().data_ptr(): name for name, value in parameters.items()}

        def pack(tensor: Tensor) -> Kept | Borrowed:
            name = names.get(tensor.untyped_storage().data_ptr())
            return self._keep(rank, tensor) if name is None else Borrowed(name, tensor)

        def unpack(saved: Kept | Borrowed) -> Tensor:
            if isinstance(saved, Kept):
                return saved.tensor
            return lookup(saved.name).detach().as_strided(saved.size, saved.stride, saved.offset)

        return torch.autograd.graph.saved_tensors_hooks(pack, unpack)

    def total(self) -> np.ndarray:
        """Bytes (ranks,) held now."""
        held: np.ndarray = np.sum([self.live[part] for part in PARTS], axis=0)
        return held

    def walked(self, part: str, rank: int) -> int:
        """The same as ``live[part][rank]``, counted again from the tensors that are there."""
        return _bytes([tensor for (its, _, owner), held in self.tensors.items() if (its, owner) == (part, rank) for tensor in held])

    def not_finite(self) -> int:
        """Elements held by any rank that are NaN or infinite."""
        return sum(int((~torch.isfinite(tensor.detach())).sum()) for held in self.tensors.values() for tensor in held)

    def _keep(self, rank: int, tensor: Tensor) -> Kept:
        kept, place = Kept(tensor.detach()), tensor.untyped_storage().data_ptr()
        size = tensor.untyped_storage().nbytes()
        uses = self._saved.get((rank, place), 0)
        self._saved[rank, place] = uses + 1
        if not uses:
            self._account("activations", rank, size)
        weakref.finalize(kept, self._gone, rank, place, size)
        return kept

    def _gone(self, rank: int, place: int, size: int) -> None:
        uses = self._saved.pop((rank, place)) - 1
        if uses:
            self._saved[rank, place] = uses
        else:
            self._account("activations", rank, -size)

    def _account(self, part: str, rank: int, size: int) -> None:
        self.live[part][rank] += size
        self.peak[part][rank] = max(self.peak[part][rank], self.live[part][rank])
        self.highest[rank] = max(self.highest[rank], sum(int(self.live[its][rank]) for its in PARTS))


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct storages behind ``tensors``."""
    return sum({id_of(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def id_of(tensor: Tensor) -> int:
    """What two tensors of one storage have in common."""
    return int(tensor.untyped_storage()._cdata)
