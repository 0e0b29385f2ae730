"""The parameters of `collectives`, what they refuse, and the arrays that the ranks start with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from msgspec import Meta

from core.errors import BadInput
from core.fabric import cost, ring
from core.fabric.drill import MOST_MESSAGES
from core.fabric.hops import Algorithm, Operation, Schedule
from core.fabric.schedules import check_pair
from core.hardware import Link, link
from core.simulation import Params

MOST_BYTES = 1 << 29
"""Bytes of input that all ranks together may hold; beyond, the answer is by formula."""
LARGEST = 9
"""Values are drawn as whole numbers from -LARGEST to LARGEST, so that sums are exact in most formats."""
APART = 9973
"""Elements between the arrays of two ranks in what is drawn, where drawing all of them apart would take long."""
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int64": torch.int64}


class CollectivesParams(Params, frozen=True):
    """What `collectives` takes."""

    op: Annotated[
        Literal["all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"], Meta(description="the collective")
    ] = "all_reduce"
    algorithm: Annotated[
        Literal["ring", "tree", "recursive_doubling", "direct"], Meta(description="how its values travel; not every pair exists")
    ] = "ring"
    ranks: Annotated[int, Meta(ge=1, le=10**7, description="ranks that take part")] = 4
    elements: Annotated[int, Meta(ge=1, le=10**15, description="elements of the whole array: the gathered output, the scattered input")] = (
        1 << 20
    )
    dtype: Annotated[Literal["fp64", "fp32", "bf16", "fp16", "int64"], Meta(description="format of the elements")] = "fp32"
    link: Annotated[str, Meta(description="link within a node: nvlink_a100, nvlink_h100, infiniband_ndr, pcie4, ...")] = "nvlink_h100"
    node_size: Annotated[int, Meta(ge=0, le=10**7, description="ranks in a node; 0 is one node for all")] = 0
    inter_link: Annotated[str, Meta(description="link between nodes, one for each rank; used when there are several")] = "infiniband_ndr"


@dataclass(frozen=True)
class Job:
    """One collective: its parameters, with the links looked up. ``inter`` is None within one node."""

    params: CollectivesParams
    dtype: torch.dtype
    link: Link
    inter: Link | None

    @classmethod
    def of(cls, params: CollectivesParams) -> Job:
        """BadInput for a pair that does not exist, an unknown link, or ranks that do not fill their nodes."""
        check_pair(params.op, params.algorithm, "collectives.algorithm")
        own, between = _link("link", params.link), _link("inter_link", params.inter_link)
        several = 0 < params.node_size < params.ranks
        if several and params.ranks % params.node_size:
            below = params.ranks - params.ranks % params.node_size
            found = f"{params.ranks} ranks do not fill nodes of {params.node_size}"
            raise BadInput("collectives.ranks", found, f"a multiple of node_size, such as {below} or {below + params.node_size}")
        return cls(params, DTYPES[params.dtype], own, between if several else None)

    @property
    def op(self) -> Operation:
        return self.params.op

    @property
    def algorithm(self) -> Algorithm:
        return self.params.algorithm

    @property
    def node_size(self) -> int:
        """Ranks that share a node; 0 within one."""
        return self.params.node_size if self.inter is not None else 0

    @property
    def size(self) -> int:
        """Bytes of the whole array S."""
        return self.params.elements * self.dtype.itemsize

    @property
    def too_large(self) -> str:
        """Why the values of this one are not moved; empty when they are."""
        p = self.params
        sent = cost.messages(p.op, p.algorithm, p.ranks, p.elements)
        if sent > MOST_MESSAGES:
            return f"{sent:,} messages are more than the {MOST_MESSAGES:,} that are moved one by one"
        held = self.size * (1 if p.op in ("all_gather", "broadcast") else p.ranks)
        if max(held, self.size * p.ranks) > MOST_BYTES:
            return f"{self.size * p.ranks / 1e9:,.1f} GB on all ranks together are more than the {MOST_BYTES / 1e9:.2f} GB that are moved"
        return ""

    @property
    def exact(self) -> bool:
        """Whether every partial sum of the values drawn is exact in their dtype."""
        return not self.dtype.is_floating_point or LARGEST * self.params.ranks <= 2 / torch.finfo(self.dtype).eps

    def seconds(self, algorithm: Algorithm, elements: int | None = None) -> float:
        """Time by formula, of another algorithm or array size too."""
        s, n = self.params.elements if elements is None else elements, self.params.ranks
        parts = cost.stages(self.op, algorithm, n, s, self.node_size)
        return cost.seconds(parts, self.dtype.itemsize, self.link, self.inter, self.node_size)

    def inputs(
        self, schedule: Schedule, generator: torch.Generator, device: str
    ) -> tuple[dict[int, dict[int, torch.Tensor]], dict[int, int]]:
        """What every rank starts with, by chunk, and the elements of each chunk. Whole numbers, views of one drawn array."""
        n, s = schedule.ranks, self.params.elements
        sizes = ring.chunk_sizes(s, n if schedule.op == "all_to_all" else schedule.chunks)
        apart = 0 if schedule.op in ("all_gather", "broadcast") else s if s * n <= 1 << 20 else APART
        drawn = torch.randint(-LARGEST, LARGEST + 1, (s + (n - 1) * apart,), generator=generator).to(self.dtype).to(device)
        held: dict[int, dict[int, torch.Tensor]] = {}
        for rank in range(n):
            parts = torch.split(drawn[rank * apart : rank * apart + s], sizes)
            first = rank * n if schedule.op == "all_to_all" else 0
            held[rank] = {chunk: parts[chunk - first] for chunk in schedule.starting(rank)}
        return held, {chunk: part.numel() for chunks in held.values() for chunk, part in chunks.items()}


def _link(name: str, value: str) -> Link:
    """The link that parameter ``name`` asks for."""
    try:
        return link(value)
    except BadInput as error:
        raise BadInput(f"collectives.{name}", error.found, error.allowed) from None
