"""The parameters of `expert_parallel`, the full-size layer they describe, and the small tensors that stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.hardware import Accelerator, Link, accelerator, link, operation_time
from core.recording import Recorder
from core.simulation import Params
from core.training.divisibility import divisors, multiples

Copies = Literal["expert", "rank", "node"]
BF16 = 2
"""Bytes of a number of weights, expert outputs and, unless dispatch is FP8, tokens."""
FP8_BLOCK = 128
"""Numbers that share one fp32 scale (DeepSeek-V3, arXiv 2412.19437)."""
SMALL_HIDDEN, SMALL_FFN = 16, 16
MOST_ROWS = 2**20
"""Bound of tokens x top_k, the rows that really travel."""


class ExpertParallelParams(Params, frozen=True):
    """What `expert_parallel` takes; sizes are those of the full-size layer."""

    ranks: Annotated[int, Meta(ge=1, le=64, description="ranks, each with its share of the tokens and of the experts")] = 8
    tokens: Annotated[int, Meta(ge=1, le=2**20, description="tokens of all ranks together")] = 8192
    experts: Annotated[int, Meta(ge=1, le=1024, description="experts of the layer, cut into equal blocks over the ranks")] = 256
    top_k: Annotated[int, Meta(ge=1, le=64, description="experts each token goes to")] = 8
    hidden: Annotated[int, Meta(ge=1, le=65536, description="numbers in a token's vector")] = 7168
    ffn: Annotated[int, Meta(ge=1, le=262144, description="inner width of one SwiGLU expert")] = 2048
    capacity_factor: Annotated[float, Meta(ge=0, le=1024, description="rows an expert takes, over the mean; 0: no limit")] = 0.0
    capacity: Annotated[
        Literal["global", "rank"], Meta(description="global: an expert's seats are for all tokens; rank: every rank has its share of them")
    ] = "global"
    skew: Annotated[float, Meta(ge=0, le=100, description="how uneven experts are chosen: weight (expert + 1)^-skew; 0: all alike")] = 0.0
    copies: Annotated[
        Copies, Meta(description="a token is sent once for each chosen expert, each distinct rank, or each node and from there to ranks")
    ] = "expert"
    node_size: Annotated[int, Meta(ge=1, le=64, description="ranks in a node")] = 8
    node_limit: Annotated[int, Meta(ge=0, le=64, description="nodes a token may go to (DeepSeek-V3: 4); 0: all")] = 0
    dispatch_format: Annotated[Literal["bf16", "fp8"], Meta(description="how tokens travel; outputs come back in BF16")] = "bf16"
    link: Annotated[str, Meta(description="link inside a node: nvlink_h100, nvlink_a100, pcie5, ...")] = "nvlink_h100"
    node_link: Annotated[str, Meta(description="link between nodes: infiniband_ndr, ...")] = "infiniband_ndr"
    accelerator: Annotated[str, Meta(description="device that times the experts: h100, a100, ...")] = "h100"


@dataclass(frozen=True)
class Job:
    """One run. Routing, copies and bytes are those of the full size; the vectors that travel have `SMALL_HIDDEN` numbers."""

    params: ExpertParallelParams
    link: Link
    node_link: Link
    device: Accelerator

    @classmethod
    def of(cls, params: ExpertParallelParams) -> Job:
        """BadInput for sizes that do not fit each other, with the nearest that work."""
        _check(params)
        return cls(params, link(params.link), link(params.node_link), accelerator(params.accelerator))

    @property
    def per_rank(self) -> int:
        """Experts of one rank."""
        return self.params.experts // self.params.ranks

    @property
    def node_size(self) -> int:
        """Ranks of one node; all of them when they fit into one."""
        return min(self.params.node_size, self.params.ranks)

    @property
    def nodes(self) -> int:
        return self.params.ranks // self.node_size

    @property
    def hidden(self) -> int:
        """Numbers of the vectors that really travel."""
        return min(self.params.hidden, SMALL_HIDDEN)

    @property
    def ffn(self) -> int:
        return min(self.params.ffn, SMALL_FFN)

    @property
    def dispatch_copy(self) -> int:
        """Bytes of one copy of a token on its way to an expert: BF16, or FP8 with an fp32 scale for every block."""
        h = self.params.hidden
        return h + 4 * -(-h // FP8_BLOCK) if self.params.dispatch_format == "fp8" else BF16 * h

    @property
    def combine_copy(self) -> int:
        """Bytes of one output on its way back."""
        return BF16 * self.params.hidden

    def seconds(self, rows: int, experts: int) -> float:
        """``rows`` through SwiGLU experts of which ``experts`` have any: three matmuls, weights read once (roofline)."""
        p = self.params
        matrix = p.hidden * p.ffn
        moved = BF16 * (3 * matrix * experts + rows * (2 * p.hidden + 3 * p.ffn))
        return operation_time(6.0 * rows * matrix, moved, self.device)


def expected_distinct(experts: int, top_k: int, parts: int) -> float:
    """Mean number of distinct ranks (or nodes) among the ``parts`` that a token reaches, if every k-subset is equally likely.

    A part is missed when all k are among the others' experts: parts x (1 - C(E - E/parts, k) / C(E, k)).
    """
    return parts * (1 - comb(experts - experts // parts, top_k) / comb(experts, top_k))


def distinct_deviation(experts: int, top_k: int, parts: int) -> float:
    """Standard deviation of the same number for one token."""
    own = experts // parts
    ways = comb(experts, top_k)
    one, two = comb(experts - own, top_k) / ways, comb(experts - 2 * own, top_k) / ways if parts > 1 else 0.0
    return float(max(parts * one * (1 - one) + parts * (parts - 1) * (two - one * one), 0.0) ** 0.5)


def formula_facts(rec: Recorder, job: Job) -> None:
    """What needs no routing: bytes of a copy and of a token, and where a uniform router would send it."""
    p = job.params
    how = f"{p.hidden:,} FP8 and {job.dispatch_copy - p.hidden:,} of scales" if p.dispatch_format == "fp8" else f"{p.hidden:,} BF16"
    rec.fact("bytes_per_copy", job.dispatch_copy, "bytes", "formula", how, label="dispatch")
    rec.fact("bytes_per_copy", job.combine_copy, "bytes", "formula", f"{p.hidden:,} BF16", label="combine")
    both = job.dispatch_copy + job.combine_copy
    rec.fact("bytes_per_token", p.top_k * both, "bytes", "formula", "top_k copies there and back, if none stays on its rank")
    limit = min(p.node_limit or job.nodes, job.nodes)
    note = "one copy there and back for each node it may go to" + (f", at most {limit}" if p.node_limit else "")
    rec.fact("bytes_per_token", limit * both, "bytes", "formula", note, label="between_nodes")
    note = "uniform router: ranks x (1 - C(E - E/ranks, k) / C(E, k))"
    rec.fact("distinct_ranks_per_token", expected_distinct(p.experts, p.top_k, p.ranks), "", "formula", note, label="expected")


def _check(p: ExpertParallelParams) -> None:
    if p.experts % p.ranks:
        found = f"{p.experts} experts do not go over {p.ranks} ranks in equal parts"
        raise BadInput("expert_parallel.experts", found, f"a multiple of {p.ranks}, nearest {multiples(p.experts, p.ranks)}")
    if p.top_k > p.experts:
        raise BadInput("expert_parallel.top_k", f"found {p.top_k} with {p.experts} experts", f"a whole number from 1 to {p.experts}")
    if p.tokens * p.top_k > MOST_ROWS:
        found = f"{p.tokens:,} tokens x top_k {p.top_k} = {p.tokens * p.top_k:,} rows that really travel"
        raise BadInput("expert_parallel.tokens", found, f"up to {MOST_ROWS:,} rows")
    if p.ranks > p.node_size and p.ranks % p.node_size:
        found = f"{p.ranks} ranks do not fill nodes of {p.node_size}"
        raise BadInput("expert_parallel.node_size", found, f"a divisor of {p.ranks}, nearest {divisors(p.node_size, p.ranks)}")
    nodes = max(p.ranks // p.node_size, 1)
    if p.node_limit > nodes:
        raise BadInput("expert_parallel.node_limit", f"found {p.node_limit} with {nodes} nodes", f"a whole number from 0 to {nodes}")
    if p.node_limit and p.node_limit * p.experts // nodes < p.top_k:
        reach = p.node_limit * p.experts // nodes
        found = f"{p.node_limit} of {nodes} nodes have {reach} experts, a token chooses {p.top_k}"
        raise BadInput("expert_parallel.node_limit", found, f"at least {-(-p.top_k * nodes // p.experts)}, or 0 for all nodes")
