"""Every way to place a model on so many GPUs: all factorisations into pipeline, tensor, context and data ranks, and the choices within."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from core.training.memory_ledger import Layouts

RECOMPUTE_LEVELS = (0, 1, 2)


@dataclass(frozen=True)
class Group:
    """All layouts with one number of pipeline stages."""

    stages: int
    layouts: Layouts

    def __len__(self) -> int:
        return len(self.layouts.tensor)


def divisors_of(number: int) -> list[int]:
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def micro_batches(global_batch: int, data: int, largest: int) -> list[int]:
    """Sizes of a microbatch to consider: divisors of a rank's samples up to ``largest``; 1 where the samples cannot be shared out."""
    if global_batch % data:
        return [1]
    return [d for d in divisors_of(global_batch // data) if d <= largest]


def expert_degrees(experts: int, ranks: int) -> list[int]:
    """Ranks among which experts may be shared: divisors of their number that fit into ``ranks``."""
    return [d for d in divisors_of(experts) if d <= ranks] if experts else [1]


def groups(gpus: int, global_batch: int, experts: int, largest_micro_batch: int, expert_tensor: int = 0) -> Iterator[Group]:
    """All layouts of ``gpus`` ranks, stages by stages. Sharding (ZeRO) is a choice only where several ranks hold the same model,
    sequence parallelism only where tensor ranks exist."""
    for stages in divisors_of(gpus):
        rows: list[np.ndarray] = []
        rest = gpus // stages
        for tensor in divisors_of(rest):
            for context in divisors_of(rest // tensor):
                data = rest // tensor // context
                choices = np.array(
                    list(
                        product(
                            (0, 1, 2, 3) if data * context > 1 else (0,),
                            (0, 1) if tensor > 1 else (0,),
                            expert_degrees(experts, rest),
                            micro_batches(global_batch, data, largest_micro_batch),
                            RECOMPUTE_LEVELS,
                        )
                    ),
                    dtype=np.float64,
                )
                fixed = np.broadcast_to(np.array([data, tensor, context], dtype=np.float64), (len(choices), 3))
                rows.append(np.hstack([fixed, choices]))
        data_, tensor_, context_, zero, sequence, expert, micro, recompute = np.vstack(rows).T
        shared = np.full_like(tensor_, expert_tensor) if expert_tensor else tensor_
        yield Group(
            stages,
            Layouts(
                data=data_, zero=zero, tensor=tensor_, sequence=sequence, context=context_, expert=expert,
                expert_tensor=shared if experts else np.ones_like(tensor_), micro_batch=micro, recompute=recompute,
                microbatches=np.maximum(np.floor(global_batch / (data_ * micro)), 1),
            ),
        )  # fmt: skip


def count(gpus: int, global_batch: int, experts: int, largest_micro_batch: int) -> int:
    """How many layouts `groups` gives, counted without making them."""
    total = 0
    for stages in divisors_of(gpus):
        for tensor in divisors_of(gpus // stages):
            for context in divisors_of(gpus // stages // tensor):
                data = gpus // stages // tensor // context
                micro = len(micro_batches(global_batch, data, largest_micro_batch))
                zero, sequence = (4 if data * context > 1 else 1), (2 if tensor > 1 else 1)
                total += zero * sequence * len(expert_degrees(experts, gpus // stages)) * micro * len(RECOMPUTE_LEVELS)
    return total


def take(layouts: Layouts, rows: np.ndarray) -> Layouts:
    """Some of the layouts, by index or mask."""
    return Layouts(**{name: getattr(layouts, name)[rows] for name in Layouts.__dataclass_fields__})
