"""What one layer's forward saves for backward, operation by operation, in bytes a token.

Two counts. `paper`: the GPT layer of arXiv 2205.05198 (4h GELU, multi-head attention, dropout, BF16), sbh(10 + 24/t + 5as/(ht)).
`operations`: what autograd keeps for the layer a config describes, in BF16 with FP32 norms, unfused; each storage once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from core.transformer import Shape

Cut = Literal["tensor", "kv", "sequence", "whole", "routed", "routed_tensor"]
"""What divides it: tensor parallelism; that, up to the kv heads; tensor parallelism with sequence parallelism only; nothing;
experts on fewer tensor ranks than the rest see fewer tokens each."""
CUTS: tuple[Cut, ...] = ("tensor", "kv", "sequence", "whole", "routed", "routed_tensor")


class Saved(NamedTuple):
    """One operation's storages: ``per_token`` bytes a token, ``per_score`` bytes for each entry of the score matrices.

    ``core`` belongs to the attention core, which selective recomputation leaves out (of flash attention, what its kernel adds).
    """

    operation: str
    what: str
    per_token: float
    cut: Cut
    per_score: float = 0.0
    core: bool = False


def paper(shape: Shape, flash: bool) -> list[Saved]:
    """The terms of arXiv 2205.05198, section 4.1, in its order; ``flash`` leaves out 5as/h, which is never stored then."""
    h = shape.hidden
    scores = [] if flash else [
        Saved("softmax", "output, BF16", 0, "tensor", 2, True),
        Saved("attention dropout", "mask, 1 byte", 0, "tensor", 1, True),
        Saved("attention over values", "dropout's output, BF16", 0, "tensor", 2, True),
    ]  # fmt: skip
    return [
        Saved("norm 1", "input, 2h", 2 * h, "sequence"),
        Saved("query, key, value projections", "shared input, 2h", 2 * h, "sequence"),
        Saved("scores", "queries and keys, 4h", 4 * h, "tensor"),
        *scores,
        Saved("attention over values", "values, 2h", 2 * h, "tensor"),
        Saved("output projection", "input, 2h", 2 * h, "tensor"),
        Saved("dropout after attention", "mask, h", h, "sequence"),
        Saved("norm 2", "input, 2h", 2 * h, "sequence"),
        Saved("up projection", "input, 2h", 2 * h, "sequence"),
        Saved("GELU", "input, 8h", 8 * h, "tensor"),
        Saved("down projection", "input, 8h", 8 * h, "tensor"),
        Saved("dropout after MLP", "mask, h", h, "sequence"),
    ]


def operations(shape: Shape, layer: int, flash: bool) -> list[Saved]:
    """What autograd keeps for layer ``layer`` of ``shape``, each storage with the operation that saves it first."""
    return [*_attention(shape, layer, flash), *(_experts(shape) if shape.is_sparse(layer) else _mlp(shape))]


def norm_bytes(shape: Shape, width: int, groups: int = 1) -> float:
    """A norm over ``groups`` x ``width``: LayerNorm keeps its BF16 input and FP32 mean and 1/deviation; unfused RMSNorm the FP32
    input, the FP32 normalised one (for the weight's gradient) and 1/RMS."""
    return groups * (8 * width + 4 if shape.norm == "rms" else 2 * width + 8)


def _attention(shape: Shape, layer: int, flash: bool) -> Iterator[Saved]:
    yield Saved("norm 1", "input and statistics", norm_bytes(shape, shape.hidden), "sequence")
    yield Saved("query, key, value projections", "shared input, 2h", 2 * shape.hidden, "sequence")
    if layer in shape.linear_layers:
        yield Saved("linear attention", "projections, convolution, gates and output norm (estimate)", 22 * shape.hidden, "tensor")
        width = shape.hidden
    else:
        width = shape.heads * (shape.latent.value if shape.latent else shape.head_dim)
        yield from _latent(shape, flash) if shape.latent else _grouped(shape, flash)
        yield from _core(shape, width, flash)
    yield Saved("output projection", "input", 0 if flash and layer not in shape.linear_layers else 2 * width, "tensor")
    if shape.norms_per_layer == 4:
        yield Saved("norm after attention", "input and statistics", norm_bytes(shape, shape.hidden), "sequence")
    if shape.dropout:
        yield Saved("dropout after attention", "mask, h", shape.hidden, "sequence")


def _grouped(shape: Shape, flash: bool) -> Iterator[Saved]:
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if shape.qk_norm in ("head", "head_bias"):
        yield Saved("query norm", "input and statistics", norm_bytes(shape, shape.head_dim, shape.heads), "tensor")
        yield Saved("key norm", "input and statistics", norm_bytes(shape, shape.head_dim, shape.kv_heads), "kv")
    elif shape.qk_norm == "width":
        yield Saved("query norm", "input and statistics", norm_bytes(shape, q), "tensor")
        yield Saved("key norm", "input and statistics", norm_bytes(shape, kv), "kv")
    if flash:
        yield Saved("flash attention", "queries", 2 * q, "tensor")
        yield Saved("flash attention", "keys and values of the kv heads", 4 * kv, "kv")
    else:
        repeated = ", repeated for every query head" if kv < q else ""
        yield Saved("scores", f"queries, and keys{repeated}", 4 * q, "tensor")
        yield Saved("attention over values", f"values{repeated}", 2 * q, "tensor")


def _latent(shape: Shape, flash: bool) -> Iterator[Saved]:
    """Multi-head latent attention: both latents with their norms, then keys and queries of every head."""
    m = shape.latent
    assert m is not None
    if m.query_rank:
        yield Saved("query latent norm", "input and statistics", norm_bytes(shape, m.query_rank), "sequence")
        yield Saved("query up projection", "input", 2 * m.query_rank, "sequence")
    yield Saved("key-value latent norm", "input and statistics", norm_bytes(shape, m.kv_rank), "sequence")
    yield Saved("key-value up projection", "input", 2 * m.kv_rank, "sequence")
    scores, over_values = ("flash attention", "flash attention") if flash else ("scores", "attention over values")
    yield Saved(scores, "queries and keys", 4 * shape.heads * (m.nope + m.rope), "tensor")
    yield Saved(over_values, "values", 2 * shape.heads * m.value, "tensor")


def _core(shape: Shape, width: int, flash: bool) -> Iterator[Saved]:
    if flash:
        yield Saved("flash attention", "output, also the output projection's input", 2 * width, "tensor")
        yield Saved("flash attention", "log-sum-exp of each row, FP32", 4 * shape.heads, "tensor", core=True)
        return
    yield Saved("softmax", "output, BF16", 0, "tensor", 2, True)
    if shape.dropout:
        yield Saved("attention dropout", "mask, 1 byte", 0, "tensor", 1, True)
        yield Saved("attention over values", "dropout's output, BF16", 0, "tensor", 2, True)


def _mlp(shape: Shape) -> Iterator[Saved]:
    f = shape.ffn
    if shape.norms_per_layer > 1:  # with one norm a layer, attention and MLP read the same input
        yield Saved("norm 2", "input and statistics", norm_bytes(shape, shape.hidden), "sequence")
        yield Saved("up projection", "input, 2h", 2 * shape.hidden, "sequence")
    if shape.gated:
        yield Saved("activation", "input, 2f", 2 * f, "tensor")
        yield Saved("gate times up", "both factors, 4f", 4 * f, "tensor")
    else:
        yield Saved("activation", "input, 2f", 2 * f, "tensor")
    yield Saved("down projection", "input, 2f", 2 * f, "tensor")
    if shape.norms_per_layer == 4:
        yield Saved("norm after MLP", "input and statistics", norm_bytes(shape, shape.hidden), "sequence")
    if shape.dropout:
        yield Saved("dropout after MLP", "mask, h", shape.hidden, "sequence")


def _experts(shape: Shape) -> Iterator[Saved]:
    """Router, top_k routed experts a token, shared experts. A token's copies live with the expert, whichever it is."""
    k, h, f = shape.top_k, shape.hidden, shape.expert_ffn
    yield Saved("norm 2", "input and statistics", norm_bytes(shape, h), "sequence")
    yield Saved("router", "input, 2h", 2 * h, "sequence")
    yield Saved("router", "softmax FP32, chosen weights and indices", 4 * shape.experts + 12 * k + 4, "sequence")
    yield Saved("dispatch", "where each copy comes from", 16 * k, "routed")
    yield Saved("experts: up projection", "copies of the tokens, 2kh", 2 * k * h, "routed")
    yield Saved("experts: activation", "input, 2kf", 2 * k * f, "routed_tensor")
    yield Saved("experts: gate times up", "both factors, 4kf", 4 * k * f, "routed_tensor")
    yield Saved("experts: down projection", "input, 2kf", 2 * k * f, "routed_tensor")
    yield Saved("combine", "expert outputs before and after their weights, 4kh", 4 * k * h + 2 * k, "routed")
    if shape.shared_ffn:
        yield Saved("shared: activation", "input, 2f", 2 * shape.shared_ffn, "tensor")
        yield Saved("shared: gate times up", "both factors, 4f", 4 * shape.shared_ffn, "tensor")
        yield Saved("shared: down projection", "input, 2f", 2 * shape.shared_ffn, "tensor")
    if shape.norms_per_layer == 4:
        yield Saved("norm after experts", "input and statistics", norm_bytes(shape, h), "sequence")
