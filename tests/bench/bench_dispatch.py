"""How close the sparse layer comes to a plain matmul of the same FLOPs: `python tests/bench/bench_dispatch.py [rounds]`.

T=4096, d=512, ffn=1024, SwiGLU, top-2, on this machine. 100 % is torch.mm of (T k, d) x (d, 2 ffn) and (T k, ffn) x (ffn, d);
best of interleaved rounds, so ratios of one run compare, under 3 % is a tie. The block of transformers is beside it when present.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from core.measure import interleaved
from core.moe.experts import Experts, sparse_forward
from core.moe.routers import route

TOKENS, HIDDEN, FFN, TOP_K = 4096, 512, 1024, 2
CASES = [(torch.float32, 8, 95), (torch.float32, 64, 80), (torch.bfloat16, 8, 82), (torch.bfloat16, 64, 67)]


def transformers_blocks(router: torch.Tensor, weights: Experts, x: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Mixtral's block with the same weights, eager and grouped_mm; nothing without transformers."""
    try:
        from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralSparseMoeBlock
    except ImportError:
        return {}
    runs: dict[str, Callable[[], object]] = {}
    for implementation in ("eager", "grouped_mm"):
        config = MixtralConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_local_experts=len(router), num_experts_per_tok=TOP_K)
        config._experts_implementation = implementation
        block = MixtralSparseMoeBlock(config).to(x.dtype).eval()
        with torch.no_grad():
            block.gate.weight.copy_(router)
            block.experts.gate_up_proj.copy_(weights.gate_up)
            block.experts.down_proj.copy_(weights.down)
        runs[f"transformers {implementation}"] = lambda block=block: block(x.unsqueeze(0))
    return runs


def case(dtype: torch.dtype, experts: int, rounds: int) -> dict[str, float]:
    """Percent of torch.mm's speed for every way through the layer, router included."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(TOKENS, HIDDEN, generator=g).to(dtype)
    router = (torch.randn(experts, HIDDEN, generator=g) / HIDDEN**0.5).to(dtype)
    weights = Experts(
        (torch.randn(experts, 2 * FFN, HIDDEN, generator=g) / HIDDEN**0.5).to(dtype),
        (torch.randn(experts, HIDDEN, FFN, generator=g) / FFN**0.5).to(dtype),
    )
    rows, up, middle, down = x.repeat(TOP_K, 1), weights.gate_up[0].T, torch.randn(TOKENS * TOP_K, FFN).to(dtype), weights.down[0].T

    def matmul() -> None:
        torch.mm(rows, up)
        torch.mm(middle, down)

    def ours(path: str) -> torch.Tensor:
        routing = route("mixtral", x @ router.T, TOP_K)
        return sparse_forward(x, routing.experts, routing.gates, weights, path=path)  # type: ignore[arg-type]

    runs: dict[str, Callable[[], object]] = {"slices": lambda: ours("slices"), "grouped_mm": lambda: ours("grouped_mm")}
    runs |= transformers_blocks(router, weights, x)
    base, *timings = interleaved([matmul, *runs.values()], rounds)
    return {name: 100.0 * base.best / timing.best for name, timing in zip(runs, timings, strict=True)}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"percent of torch.mm at the same FLOPs, {torch.get_num_threads()} threads, best of {rounds} interleaved rounds")
    with torch.no_grad():
        for dtype, experts, target in CASES:
            found = case(dtype, experts, rounds)
            name = f"{str(dtype).removeprefix('torch.')} E{experts}"
            print(f"{name:14}" + "  ".join(f"{way} {share:5.1f}" for way, share in found.items()) + f"   (aim: {target})")


if __name__ == "__main__":
    main()
