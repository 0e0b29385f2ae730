"""The sparse layer without a recording: sort by expert, grouped GEMM through SwiGLU experts, weighted combine."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

GemmPath = Literal["grouped_mm", "slices"]
_GROUPED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Experts(NamedTuple):
    """SwiGLU experts, laid out as in transformers: gate_up (experts, 2 ffn, hidden), gate first; down (experts, hidden, ffn)."""

    gate_up: Tensor
    down: Tensor


class Permutation(NamedTuple):
    """A stable sort of the kept assignments by expert.

    order: (rows,) assignment id (token x top_k + slot) of each row; inverse: (tokens x top_k,) row of each assignment,
    ``rows`` for a dropped one; counts: (experts,) rows per expert; ends: (experts,) int32, where each expert's block ends.
    """

    order: Tensor
    inverse: Tensor
    counts: Tensor
    ends: Tensor


def sort_by_expert(experts: Tensor, kept: Tensor | None, count: int) -> Permutation:
    """Rows of one expert become contiguous and stay in token order. experts, kept: (tokens, top_k); count: experts in all."""
    chosen = experts.reshape(-1)
    if kept is not None:
        chosen = torch.where(kept.reshape(-1), chosen, count)
    counts = torch.bincount(chosen, minlength=count + 1)[:count]
    order = torch.argsort(chosen, stable=True)
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(len(order), device=order.device)
    if kept is not None:
        rows = int(counts.sum())
        order, inverse = order[:rows], inverse.clamp_(max=rows)
    return Permutation(order, inverse, counts, torch.cumsum(counts, 0).to(torch.int32))


def grouped_mm_refuses(weights: Tensor) -> str:
    """Why torch's grouped_mm cannot take these (experts, N, K), or "" when it can: fp32, bf16 or fp16, and 16-byte strides."""
    if not hasattr(F, "grouped_mm"):
        return "this torch has no grouped_mm"
    if weights.dtype not in _GROUPED_DTYPES:
        return f"grouped_mm has no {str(weights.dtype).removeprefix('torch.')}"
    if any(size * weights.element_size() % 16 for size in weights.shape[1:]):
        return "grouped_mm wants rows of a multiple of 16 bytes"
    return ""


def grouped_gemm(rows: Tensor, weights: Tensor, permutation: Permutation, path: GemmPath) -> Tensor:
    """Each expert's block of rows times its own matrix: (rows, K) with (experts, N, K) gives (rows, N).

    ``grouped_mm`` is one kernel over all blocks; ``slices`` is one matmul per expert that has rows.
    """
    if path == "grouped_mm":
        return F.grouped_mm(rows, weights.transpose(-2, -1), offs=permutation.ends)
    out = rows.new_empty(len(rows), weights.shape[1])
    start = 0
    for expert, count in enumerate(permutation.counts.tolist()):
        if count:
            torch.mm(rows[start : start + count], weights[expert].T, out=out[start : start + count])
            start += count
    return out


def expert_rows(rows: Tensor, experts: Experts, permutation: Permutation, path: GemmPath) -> Tensor:
    """SwiGLU of each row through its own expert: down(silu(gate x) * (up x)) (2002.05202). rows: (rows, hidden), sorted."""
    gate, up = grouped_gemm(rows, experts.gate_up, permutation, path).chunk(2, dim=-1)
    return grouped_gemm(F.silu(gate) * up, experts.down, permutation, path)


def combine(outputs: Tensor, gates: Tensor, permutation: Permutation) -> Tensor:
    """Rows go back to token order, weighted by their gates and summed: (rows, hidden) with gates (tokens, top_k) gives (tokens, hidden).

    A dropped assignment reads a row of zeros. The sum runs in the wider of the two types and is rounded once.
    """
    tokens, top_k = gates.shape
    if len(permutation.order) < tokens * top_k:
        outputs = torch.cat([outputs, outputs.new_zeros(1, outputs.shape[1])])
    back = outputs[permutation.inverse].view(tokens, top_k, -1)
    return (back * gates.unsqueeze(-1)).sum(dim=1).to(outputs.dtype)


def path_for(experts: Experts) -> tuple[GemmPath, str]:
    """grouped_mm where it can run, else slices and the reason."""
    refusal = grouped_mm_refuses(experts.gate_up) or grouped_mm_refuses(experts.down)
    return ("slices", refusal) if refusal else ("grouped_mm", "")


def sparse_forward(
    tokens: Tensor, chosen: Tensor, gates: Tensor, experts: Experts, *, kept: Tensor | None = None, path: GemmPath | None = None
) -> Tensor:
    """The whole sparse layer at full speed: (tokens, hidden), experts chosen and gates (tokens, top_k) give (tokens, hidden).

    kept: (tokens, top_k) bool, None when nothing is dropped. The intermediate of the slices path never leaves one expert's
    block, so it stays in cache.
    """
    permutation = sort_by_expert(chosen, kept, experts.gate_up.shape[0])
    source = permutation.order // chosen.shape[1]
    if path is None:  # on a CPU one matmul per expert is the faster of the two
        path = "slices" if tokens.device.type == "cpu" else path_for(experts)[0]
    if path == "grouped_mm":
        return combine(expert_rows(tokens[source], experts, permutation, path), gates, permutation)
    weight = gates.reshape(-1)[permutation.order].unsqueeze(-1).to(tokens.dtype)
    ffn = experts.down.shape[2]
    out = torch.zeros_like(tokens)
    start = 0
    for expert, count in enumerate(permutation.counts.tolist()):
        if not count:
            continue
        block = source[start : start + count]
        both = torch.mm(tokens[block], experts.gate_up[expert].T)
        hidden = F.silu(both[:, :ffn], inplace=True).mul_(both[:, ffn:])
        out.index_add_(0, block, torch.mm(hidden, experts.down[expert].T).mul_(weight[start : start + count]))
        start += count
    return out
