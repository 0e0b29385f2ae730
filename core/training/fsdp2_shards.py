"""FSDP2's cut: dimension 0 of every parameter, rows in order, the last ranks left with fewer or none (torch fully_shard).

A group is what one `fully_shard` call wraps: its parameters are gathered by one all-gather and reduced by one reduce-scatter.
Every rank hands as many elements, so a shard with fewer rows is filled up with zeros on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from core.training.mlp import Shapes


def rows_each(rows: int, ranks: int) -> int:
    """Rows of the fullest shard."""
    return math.ceil(rows / ranks)


def rows_of(rows: int, ranks: int, rank: int) -> slice:
    """The rows that ``rank`` owns: 5 rows on 4 ranks are 2, 2, 1, 0."""
    each = rows_each(rows, ranks)
    return slice(min(rank * each, rows), min((rank + 1) * each, rows))


@dataclass(frozen=True)
class Group:
    """Parameters that travel together: ``name`` for people, ``shapes`` of the whole parameters, on so many ``ranks``."""

    name: str
    shapes: Shapes
    ranks: int

    @cached_property
    def elements(self) -> int:
        """Parameters without padding."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def lengths(self) -> dict[str, int]:
        """Elements of each parameter in a shard, rows filled up."""
        return {name: rows_each(shape[0], self.ranks) * math.prod(shape[1:]) for name, shape in self.shapes.items()}

    @cached_property
    def shard(self) -> int:
        """Elements that each rank hands to an all-gather and gets from a reduce-scatter."""
        return sum(self.lengths.values())

    def rows(self, name: str, rank: int) -> slice:
        return rows_of(self.shapes[name][0], self.ranks, rank)

    def cut(self, whole: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
        """What ``rank`` keeps of each parameter: new tensors (rows, ...), in storage with room for the fullest shard."""
        shards = {}
        for name, shape in self.shapes.items():
            rows = self.rows(name, rank)
            room = whole[name].new_zeros(rows_each(shape[0], self.ranks), *shape[1:])
            shards[name] = room[: rows.stop - rows.start].copy_(whole[name][rows])
        return shards

    def pack(self, shards: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """All shards of a rank as one vector (shard,) of ``dtype``, ready to be gathered."""
        flat = next(iter(shards.values())).new_zeros(self.shard, dtype=dtype)
        for place, shard in zip(torch.split(flat, list(self.lengths.values())), shards.values(), strict=True):
            place[: shard.numel()].copy_(shard.reshape(-1))
        return flat

    def unpack(self, gathered: Tensor) -> dict[str, Tensor]:
        """Whole parameters from all ranks' vectors (ranks x shard,): new tensors whose storage keeps the padding behind the last row."""
        by_rank = torch.split(gathered.view(self.ranks, self.shard), list(self.lengths.values()), dim=1)
        values = {}
        for part, (name, shape) in zip(by_rank, self.shapes.items(), strict=True):
            padded = torch.empty(part.numel(), dtype=part.dtype, device=part.device)
            padded.view(part.shape).copy_(part)
            values[name] = padded.view(-1, *shape[1:])[: shape[0]]
        return values

    def pack_gradients(self, gradients: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """Whole gradients as one vector (ranks x shard,) of ``dtype`` in which chunk r is rank r's rows, ready to be reduced."""
        flat = next(iter(gradients.values())).new_zeros(self.ranks * self.shard, dtype=dtype)
        by_rank = torch.split(flat.view(self.ranks, self.shard), list(self.lengths.values()), dim=1)
        for part, gradient in zip(by_rank, gradients.values(), strict=True):
            row = gradient[:1].numel()
            each = part.shape[1] // row if row else 0
            for rank in range(self.ranks):
                rows = gradient[min(rank * each, len(gradient)) : (rank + 1) * each]
                part[rank, : rows.numel()].copy_(rows.reshape(-1))
        return flat

    def views(self, shard: Tensor, rank: int) -> dict[str, Tensor]:
        """Each parameter's rows of ``rank`` in a reduced vector (shard,)."""
        found = {}
        for part, (name, shape) in zip(torch.split(shard, list(self.lengths.values())), self.shapes.items(), strict=True):
            rows = self.rows(name, rank)
            found[name] = part.view(-1, *shape[1:])[: rows.stop - rows.start]
        return found
