"""The grouped paths against a loop over tokens, and what grouped_mm refuses."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from core.moe.experts import Experts, combine, expert_rows, path_for, sort_by_expert, sparse_forward


def layer(tokens=40, experts=6, hidden=16, ffn=24, top_k=2, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, hidden, generator=g).to(dtype)
    weights = Experts(
        (torch.randn(experts, 2 * ffn, hidden, generator=g) / hidden**0.5).to(dtype),
        (torch.randn(experts, hidden, ffn, generator=g) / ffn**0.5).to(dtype),
    )
    chosen = torch.rand(tokens, experts, generator=g).topk(top_k).indices
    gates = torch.rand(tokens, top_k, generator=g)
    kept = torch.rand(tokens, top_k, generator=g) < 0.6
    return x, chosen, gates, weights, kept


def token_by_token(x, chosen, gates, weights, kept=None):
    out = torch.zeros(x.shape, dtype=torch.float64)
    for t in range(len(x)):
        for s in range(chosen.shape[1]):
            if kept is None or kept[t, s]:
                gate, up = (weights.gate_up[chosen[t, s]].double() @ x[t].double()).chunk(2)
                out[t] += gates[t, s].double() * (weights.down[chosen[t, s]].double() @ (F.silu(gate) * up))
    return out


@pytest.mark.parametrize("path", ["grouped_mm", "slices"])
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float16, 5e-3), (torch.bfloat16, 5e-2), (torch.float64, 1e-13)]
)
def test_both_paths_equal_a_loop_over_tokens(path, drops, dtype, tolerance):
    if path == "grouped_mm" and dtype == torch.float64:
        pytest.skip("grouped_mm has no float64")
    x, chosen, gates, weights, kept = layer(dtype=dtype)
    kept = kept if drops else None
    gates = gates.double() if dtype == torch.float64 else gates
    want = token_by_token(x, chosen, gates, weights, kept)
    permutation = sort_by_expert(chosen, kept, 6)
    got = combine(expert_rows(x[permutation.order // 2], weights, permutation, path), gates, permutation)
    assert got.dtype == dtype
    assert float((got.double() - want).abs().max() / want.abs().max()) < tolerance
    fast = sparse_forward(x, chosen, gates, weights, kept=kept, path=path)
    assert float((fast.double() - want).abs().max() / want.abs().max()) < tolerance


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 50), st.integers(1, 12), st.integers(0, 10_000), st.booleans(), st.data())
def test_rows_of_an_expert_are_contiguous_in_token_order_and_come_back(tokens, experts, seed, drops, data):
    top_k = data.draw(st.integers(1, experts))
    g = torch.Generator().manual_seed(seed)
    chosen = torch.rand(tokens, experts, generator=g).topk(top_k).indices
    kept = torch.rand(tokens, top_k, generator=g) < 0.5 if drops else None
    p = sort_by_expert(chosen, kept, experts)
    want = [(e, a) for a, e in enumerate(chosen.reshape(-1).tolist()) if kept is None or kept.reshape(-1)[a]]
    assert [a for _, a in sorted(want)] == p.order.tolist()
    assert p.counts.tolist() == [sum(e == x for e, _ in want) for x in range(experts)]
    assert p.ends.dtype == torch.int32 and p.ends[-1] == len(want)
    for assignment, row in enumerate(p.inverse.tolist()):
        if kept is None or kept.reshape(-1)[assignment]:
            assert p.order[row] == assignment
        else:
            assert row == len(want)


def test_a_token_whose_assignments_are_all_dropped_gets_zero():
    x, chosen, gates, weights, _ = layer(tokens=4)
    kept = torch.zeros(4, 2, dtype=torch.bool)
    kept[0, 0] = True
    out = sparse_forward(x, chosen, gates, weights, kept=kept)
    assert torch.equal(out[1:], torch.zeros(3, 16)) and out[0].abs().max() > 0


def test_experts_without_rows_change_nothing():
    x, chosen, gates, weights, _ = layer(experts=6)
    chosen = torch.tensor([[1, 4]]).expand(40, 2).contiguous()
    want = token_by_token(x, chosen, gates, weights)
    for path in ("grouped_mm", "slices"):
        got = sparse_forward(x, chosen, gates, weights, path=path)
        assert float((got.double() - want).abs().max()) < 1e-5


@pytest.mark.parametrize(
    ("dtype", "hidden", "ffn", "path", "word"),
    [
        (torch.float32, 16, 24, "grouped_mm", ""),
        (torch.bfloat16, 16, 24, "grouped_mm", ""),
        (torch.float64, 16, 24, "slices", "float64"),
        (torch.float32, 7, 24, "slices", "16 bytes"),
        (torch.bfloat16, 16, 12, "slices", "16 bytes"),
    ],
)
def test_where_grouped_mm_cannot_run_the_reason_is_said(dtype, hidden, ffn, path, word):
    x, chosen, gates, weights, _ = layer(hidden=hidden, ffn=ffn, dtype=dtype)
    got, reason = path_for(weights)
    assert got == path and word in reason and bool(reason) == (path == "slices")
    gates = gates.double() if dtype == torch.float64 else gates
    want = token_by_token(x, chosen, gates, weights)
    tolerance = 5e-2 if dtype == torch.bfloat16 else 1e-5
    assert float((sparse_forward(x, chosen, gates, weights, path=got).double() - want).abs().max() / want.abs().max()) < tolerance


def test_matmuls_of_the_slices_path_are_six_flops_a_row_hidden_and_ffn():
    x, chosen, gates, weights, _ = layer(tokens=40, hidden=16, ffn=24)
    with FlopCounterMode(display=False) as counter:
        sparse_forward(x, chosen, gates, weights, path="slices")
    assert counter.get_total_flops() == 6 * 80 * 16 * 24
