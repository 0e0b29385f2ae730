"""Independent computations the dispatch recording is held against: numpy and a dense mixture in float64."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from core.moe.experts import Experts, Permutation
from core.moe.routers import RENORMALISED, Capacity, DropOrder, RouterName, Routing, uniform_drops
from core.recording import Recorder

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
"""Largest allowed difference from float64, as a share of the largest output: rounding of weights and inputs is not in it."""
_DENSE_FLOPS = 2e9
_ROUTING_NUMBERS = 4_000_000
_SIGMAS = 6.0
_NORMAL_DROPS = 30


def numpy(tensor: Tensor) -> np.ndarray:
    """The values on the CPU; bfloat16, which numpy lacks, widened."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def expected_gates(router: RouterName, logits: np.ndarray, experts: np.ndarray) -> np.ndarray:
    """Gates (tokens, top_k) of the chosen ``experts``, from logits (tokens, experts) in float64, by numpy alone."""
    wide = logits.astype(np.float64)
    if router in RENORMALISED:  # over the chosen alone: the same number by another way
        wide = np.take_along_axis(wide, experts, axis=1)
        weights = np.exp(wide - wide.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.take_along_axis(weights / weights.sum(axis=1, keepdims=True), experts, axis=1)


def expected_kept(experts: np.ndarray, gates: np.ndarray, count: int, capacity: int | None, order: DropOrder) -> np.ndarray:
    """kept (tokens, top_k): expert by expert, the first ``capacity`` assignments in the stated order."""
    kept = np.zeros(experts.shape, dtype=bool)
    for expert in range(count):
        token, slot = np.nonzero(experts == expert)
        if order == "choice":
            ranked = np.lexsort((token, slot))
        elif order == "gate":
            ranked = np.lexsort((slot, token, -gates[token, slot]))
        else:
            ranked = np.arange(len(token))
        taken = ranked[:capacity]
        kept[token[taken], slot[taken]] = True
    return kept


def dense_mixture(tokens: Tensor, gates: Tensor, experts: Experts) -> Tensor:
    """Every expert on every token, weighted by a (tokens, experts) matrix of gates that is zero where nothing was kept; float64."""
    x = tokens.double()
    out = torch.zeros_like(x)
    ffn = experts.down.shape[2]
    for expert in range(gates.shape[1]):
        both = torch.einsum("th,fh->tf", x, experts.gate_up[expert].double())
        hidden = F.silu(both[:, :ffn]) * both[:, ffn:]
        out += torch.einsum("t,tf,hf->th", gates[:, expert], hidden, experts.down[expert].double())
    return out


def check_routing(rec: Recorder, router: RouterName, logits: Tensor, routing: Routing) -> np.ndarray:
    """The chosen are the most probable, and their gates are what float64 gives; returns those gates (tokens, top_k)."""
    raw, experts = numpy(logits), numpy(routing.experts)
    want = expected_gates(router, raw, experts)
    sample = evenly(len(raw), max(1, _ROUTING_NUMBERS // raw.shape[1]))
    wide = torch.softmax(torch.from_numpy(raw[sample].astype(np.float64)), dim=1).numpy()
    chosen = np.zeros(wide.shape, dtype=bool)
    np.put_along_axis(chosen, experts[sample], True, axis=1)
    weakest = np.where(chosen, wide, np.inf).min(axis=1)
    strongest_left = np.where(chosen, 0.0, wide).max(axis=1)
    # float32 probabilities may tie, or vanish, where float64 still sees a difference
    wrong = int((weakest < strongest_left * (1 - 2e-5) - 1e-37).sum())
    wrong += int((chosen.sum(axis=1) != experts.shape[1]).sum())
    oracle = f"softmax in float64, {_of(len(sample), len(raw))}"
    rec.check("tokens whose experts are not their k strongest", wrong, 0, oracle=oracle)
    error = float(np.abs(numpy(routing.gates) - want).max())
    rec.check("gates", error, 0.0, 2e-6, "softmax in float64 by numpy")
    return want


def check_capacity(rec: Recorder, routing: Routing, seated: Capacity, capacity: int | None, order: DropOrder) -> np.ndarray:
    """Who is kept, decided again expert by expert; returns that, (tokens, top_k)."""
    again = expected_kept(numpy(routing.experts), numpy(routing.gates), routing.probabilities.shape[1], capacity, order)
    wrong = int((numpy(seated.kept) != again).sum())
    rec.check("assignments kept or dropped otherwise", wrong, 0, oracle="numpy, expert by expert")
    return again


def check_uniform(rec: Recorder, kept: Tensor, experts: int, capacity: int) -> None:
    """A uniform router's drop rate against the binomial, where there are enough drops for a normal error. kept: (tokens, top_k)."""
    tokens, top_k = kept.shape
    drops = int((~kept).sum())
    rate, spread = uniform_drops(tokens, experts, top_k, capacity)
    if rate * tokens * top_k >= _NORMAL_DROPS:
        rec.check(
            "drop rate of a uniform router", drops / (tokens * top_k), rate, _SIGMAS * spread, "exact binomial, six standard deviations"
        )


def check_permutation(rec: Recorder, routing: Routing, seated: Capacity, permutation: Permutation, carried: Tensor) -> None:
    """Rows per expert, contiguous blocks, and token ids that travelled with the rows. carried: (rows,) token id of each row."""
    experts, kept = numpy(routing.experts), numpy(seated.kept)
    want = np.bincount(experts[kept], minlength=len(permutation.counts))
    rec.check("rows per expert", int(np.abs(numpy(permutation.counts) - want).sum()), 0, oracle="numpy bincount of kept assignments")
    in_rows = experts.reshape(-1)[numpy(permutation.order)]
    rec.check("rows out of their expert's block", int((in_rows != np.repeat(np.arange(len(want)), want)).sum()), 0, oracle="numpy repeat")
    back = np.full(kept.size, -1, dtype=np.int64)
    inverse, ids = numpy(permutation.inverse), numpy(carried)
    back[kept.reshape(-1)] = ids[inverse[kept.reshape(-1)]]
    owner = np.where(kept, np.arange(len(kept))[:, None], -1).reshape(-1)
    rec.check("rows not back at their token", int((back != owner).sum()), 0, oracle="token ids carried through both permutations")


def check_output(
    rec: Recorder, routing: Routing, kept: Tensor, want: np.ndarray, tokens: Tensor, experts: Experts, output: Tensor
) -> float:
    """The output equals the dense mixture; returns the difference as a share of the largest value.

    want: (tokens, top_k) gates from numpy, zero where dropped; of many tokens an even sample is computed.
    """
    got = (numpy(routing.gates) * numpy(kept)).sum(axis=1)
    rec.check("sum of each token's kept gates", float(np.abs(got - want.sum(axis=1)).max()), 0.0, 5e-6, "numpy in float64")
    count, hidden, ffn = experts.down.shape
    sample = torch.from_numpy(evenly(len(tokens), max(1, int(_DENSE_FLOPS / (6.0 * count * hidden * ffn)))))
    masked = torch.zeros(len(sample), count, dtype=torch.float64)
    masked.scatter_(1, routing.experts.cpu()[sample], torch.from_numpy(want)[sample])
    sample = sample.to(tokens.device)
    dense = dense_mixture(tokens[sample], masked.to(tokens.device), experts)
    scale = float(dense.abs().max()) or 1.0
    error = float((output[sample].double() - dense).abs().max()) / scale
    oracle = f"all experts by einsum in float64, {_of(len(sample), len(tokens))}"
    rec.check("output, largest difference / largest value", error, 0.0, TOLERANCE[tokens.dtype], oracle)
    return error


def evenly(count: int, most: int) -> np.ndarray:
    """At most ``most`` of ``count`` indices, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _of(sample: int, count: int) -> str:
    return "all tokens" if sample == count else f"{sample:,} of {count:,} tokens, evenly spaced"
