"""The recorded layer equals the sparse MoE blocks of transformers, weight for weight."""

import pytest
import torch

from core.moe.dispatch import DispatchParams, Layer, walk
from core.moe.experts import Experts, sparse_forward
from core.moe.routers import route
from core.recording import Recorder, Recording

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.oracle

HIDDEN, FFN, EXPERTS, TOP_K = 64, 96, 8, 2


def filled(block):
    """These blocks are created with torch.empty: every parameter is drawn here."""
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g) / parameter.shape[-1] ** 0.5)
    return block.eval()


def mixtral(implementation):
    from transformers.models.mixtral.modeling_mixtral import MixtralConfig, MixtralSparseMoeBlock

    config = MixtralConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_local_experts=EXPERTS, num_experts_per_tok=TOP_K)
    config._experts_implementation = implementation
    return filled(MixtralSparseMoeBlock(config))


def qwen3(norm_topk_prob):
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeConfig, Qwen3MoeSparseMoeBlock

    config = Qwen3MoeConfig(
        hidden_size=HIDDEN, moe_intermediate_size=FFN, num_experts=EXPERTS, num_experts_per_tok=TOP_K, norm_topk_prob=norm_topk_prob
    )
    config._experts_implementation = "eager"
    return filled(Qwen3MoeSparseMoeBlock(config))


def held_against(block, router, tokens):
    """(recorded output, fast path's output, theirs), and the recording."""
    x = torch.randn(tokens, HIDDEN, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        theirs = block(x.unsqueeze(0)).squeeze(0)
        logits = torch.nn.functional.linear(x, block.gate.weight)
        experts = Experts(block.experts.gate_up_proj.detach(), block.experts.down_proj.detach())
        params = DispatchParams(tokens=tokens, experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, ffn=FFN, router=router)
        recording = Recording("dispatch")
        words = tuple(f"t{i}" for i in range(tokens))
        recorded = walk(Layer(x, logits, experts, words), params, Recorder(recording))
        routing = route(router, logits, TOP_K)
        fast = sparse_forward(x, routing.experts, routing.gates, experts)
    assert all(check.ok for check in recording.checks)
    return recorded, fast, theirs


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm", "batched_mm"])
@pytest.mark.parametrize("tokens", [1, 33, 300])
def test_the_recorded_output_equals_mixtral(implementation, tokens):
    recorded, fast, theirs = held_against(mixtral(implementation), "mixtral", tokens)
    assert float((recorded - theirs).abs().max()) <= 1e-6
    assert float((fast - theirs).abs().max()) <= 1e-6


@pytest.mark.parametrize(("norm_topk_prob", "router"), [(True, "qwen3"), (False, "softmax")])
def test_the_recorded_output_equals_qwen3_moe(norm_topk_prob, router):
    recorded, fast, theirs = held_against(qwen3(norm_topk_prob), router, 65)
    assert float((recorded - theirs).abs().max()) <= 1e-6
    assert float((fast - theirs).abs().max()) <= 1e-6


def test_a_router_that_does_not_renormalise_differs_from_mixtral():
    recorded, _, theirs = held_against(mixtral("eager"), "softmax", 33)
    assert float((recorded - theirs).abs().max()) > 1e-2
