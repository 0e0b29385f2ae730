"""One transformer layer and its loss as Megatron-LM cuts them over tensor-parallel ranks: shape, parameters, local work.

The layer is that of arXiv 1909.08053 and 2205.05198: norm, causal attention, dropout, residual; norm, MLP with GeLU,
dropout, residual. Activations are (sequence, batch, hidden); a weight of XA is stored (out, in), so a column of A is a row here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from core.training.megatron_tape import Tape

KEEP = 0.9
"""Share of the elements that a dropout keeps."""
Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """Sizes of the layer, and over how many ranks it is cut. The vocabulary is padded until every rank has equal rows of it."""

    ranks: int
    hidden: int
    ffn: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads

    @property
    def tokens(self) -> int:
        return self.sequence * self.batch

    @property
    def sbh(self) -> int:
        """Elements of one activation (sequence, batch, hidden)."""
        return self.tokens * self.hidden

    @property
    def padded_vocabulary(self) -> int:
        return math.ceil(self.vocabulary / self.ranks) * self.ranks

    @property
    def flop(self) -> float:
        """Of a forward and backward of the layer and its loss: 2 a multiply-add, backward twice the forward."""
        matrices = 4 * self.hidden**2 + 2 * self.hidden * self.ffn + self.hidden * self.padded_vocabulary
        return 6.0 * self.tokens * matrices + 12.0 * self.sequence * self.sbh


@dataclass(frozen=True)
class Problem:
    """A whole layer, before it is cut: parameters, input (sequence, batch, hidden), target tokens, and what dropout keeps.

    Masks are drawn once for all positions; a rank takes those of its own heads and tokens, so every cut drops the same.
    """

    shape: Shape
    parameters: Parameters
    x: Tensor
    target: Tensor
    keep_scores: Tensor
    keep_attention: Tensor
    keep_mlp: Tensor

    def to(self, dtype: torch.dtype) -> Problem:
        """The same layer in another number format."""
        parameters = {name: value.to(dtype) for name, value in self.parameters.items()}
        return Problem(self.shape, parameters, self.x.to(dtype), self.target, self.keep_scores, self.keep_attention, self.keep_mlp)


def problem(shape: Shape, generator: torch.Generator, device: str) -> Problem:
    """Random numbers in fp64, no bias zero, no norm weight one. On the device "meta" only shapes."""
    meta = device == "meta"

    def normal(*size: int, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        if meta:
            return torch.empty(size, dtype=torch.float64, device=device)
        return (torch.randn(size, generator=generator, dtype=torch.float64) * scale + shift).to(device)

    def kept(*size: int) -> Tensor:
        if meta:
            return torch.empty(size, dtype=torch.bool, device=device)
        return (torch.rand(size, generator=generator) < KEEP).to(device)

    h, f, v = shape.hidden, shape.ffn, shape.padded_vocabulary
    parameters = {
        "norm1.weight": normal(h, scale=0.2, shift=1.0),
        "norm1.bias": normal(h, scale=0.2),
        "qkv.weight": normal(3 * h, h, scale=h**-0.5),
        "qkv.bias": normal(3 * h, scale=0.2),
        "out.weight": normal(h, h, scale=h**-0.5),
        "out.bias": normal(h, scale=0.2),
        "norm2.weight": normal(h, scale=0.2, shift=1.0),
        "norm2.bias": normal(h, scale=0.2),
        "up.weight": normal(f, h, scale=h**-0.5),
        "up.bias": normal(f, scale=0.2),
        "down.weight": normal(h, f, scale=f**-0.5),
        "down.bias": normal(h, scale=0.2),
        "head.weight": normal(v, h, scale=h**-0.5),
    }
    parameters["head.weight"][shape.vocabulary :] = 0.0
    x = normal(shape.sequence, shape.batch, h)
    target = torch.empty((shape.sequence, shape.batch), dtype=torch.long, device=device)
    if not meta:
        target = torch.randint(shape.vocabulary, (shape.sequence, shape.batch), generator=generator).to(device)
    scores = kept(shape.batch, shape.heads, shape.sequence, shape.sequence)
    return Problem(shape, parameters, x, target, scores, kept(*x.shape), kept(*x.shape))


# how parameters are cut --------------------------------------------------------------------------------------------------

COLUMNS, ROWS, WHOLE = 0, 1, None
"""Where a weight (out, in) is cut: its first dimension holds the columns of A in XA."""
COLUMN_ROW: dict[str, int | None] = {
    "norm1.weight": WHOLE,
    "norm1.bias": WHOLE,
    "qkv.weight": COLUMNS,
    "qkv.bias": COLUMNS,
    "out.weight": ROWS,
    "out.bias": WHOLE,
    "norm2.weight": WHOLE,
    "norm2.bias": WHOLE,
    "up.weight": COLUMNS,
    "up.bias": COLUMNS,
    "down.weight": ROWS,
    "down.bias": WHOLE,
    "head.weight": COLUMNS,
}
COLUMN_COLUMN = {**COLUMN_ROW, "down.weight": COLUMNS, "down.bias": COLUMNS}
ROW_FIRST = {**COLUMN_ROW, "up.weight": ROWS, "up.bias": WHOLE, "down.weight": WHOLE}
CUTS = {"column_row": COLUMN_ROW, "column_column": COLUMN_COLUMN, "row_first": ROW_FIRST}


def shard(value: Tensor, cut: int | None, rank: int, ranks: int) -> Tensor:
    """What ``rank`` holds of a whole tensor; QKV columns stand head by head (arXiv 1909.08053), so that a cut takes whole heads."""
    part = value if cut is None else value.tensor_split(ranks, cut)[rank]
    return part.clone(memory_format=torch.contiguous_format)


# what a rank does alone ----------------------------------------------------------------------------------------------------


class _Dropout(torch.autograd.Function):
    """Zero what is not kept and scale the rest; backward keeps the mask alone, one byte an element."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, keep: Tensor) -> Tensor:
        ctx.save_for_backward(keep)
        return x * keep / KEEP

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (keep,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return grad * keep / KEEP, None


def dropout(x: Tensor, keep: Tensor) -> Tensor:
    """Inverted dropout with a given mask."""
    return _Dropout.apply(x, keep)  # type: ignore[no-any-return,no-untyped-call]


def norm(tape: Tape, p: Mapping[str, Tensor], which: str, x: Tensor) -> Tensor:
    """LayerNorm of (tokens..., hidden); works on any share of the tokens."""
    weight, bias = p[f"{which}.weight"], p[f"{which}.bias"]
    return F.layer_norm(tape.label(f"{which} input", x), weight.shape, weight, bias)


def attention(tape: Tape, p: Mapping[str, Tensor], x: Tensor, keep: Tensor) -> Tensor:
    """Causal attention of this rank's heads: x (s, b, h) to its partial sum of the output (s, b, h), without the row bias.

    ``keep`` is (batch, own heads, s, s).
    """
    s, b, _ = x.shape
    own = keep.shape[1]
    dim = p["qkv.weight"].shape[0] // (3 * own)
    qkv = tape.label("Q, K, V", F.linear(tape.label("QKV input", x), p["qkv.weight"], p["qkv.bias"]))
    q, k, v = (part.reshape(s, b * own, dim).transpose(0, 1) for part in qkv.view(s, b, own, 3, dim).unbind(3))
    causal = torch.full((s, s), -math.inf, dtype=x.dtype, device=x.device).triu(1)
    scores = torch.baddbmm(causal, q, k.transpose(1, 2), alpha=dim**-0.5)
    weights = tape.label("softmax output", scores.softmax(-1))
    kept = tape.label("softmax dropout mask", keep.reshape(b * own, s, s))
    weights = tape.label("softmax after dropout", dropout(weights, kept))
    context = torch.bmm(weights, v).transpose(0, 1).reshape(s, b, own * dim).contiguous()
    return F.linear(tape.label("projection input", context), p["out.weight"])


def add_dropped(tape: Tape, label: str, bias: Tensor | None, y: Tensor, residual: Tensor, keep: Tensor) -> Tensor:
    """residual + dropout(y + bias): the row bias stands behind the sum over ranks, so it is added once."""
    return residual + dropout(y if bias is None else y + bias, tape.label(label, keep))


def up(tape: Tape, p: Mapping[str, Tensor], x: Tensor, *, add_bias: bool = True) -> Tensor:
    """GeLU(XA) with what this rank has of X and A."""
    inner = F.linear(tape.label("MLP input", x), p["up.weight"], p["up.bias"] if add_bias else None)
    return F.gelu(tape.label("GeLU input", inner))


def down(tape: Tape, p: Mapping[str, Tensor], x: Tensor, *, add_bias: bool = False) -> Tensor:
    """YB with what this rank has of Y and B."""
    return F.linear(tape.label("GeLU output", x), p["down.weight"], p["down.bias"] if add_bias else None)


def vocabulary_product(tape: Tape, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Logits (s, b, own rows of the vocabulary)."""
    return F.linear(tape.label("head input", x), p["head.weight"])
