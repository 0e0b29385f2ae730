"""The whole layer equals PyTorch's own transformer layer, and the cut one makes the collectives that DTensor's plans make."""

import pytest
import torch
from threaded_ranks import run_ranks
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.debug._comm_mode import _CommModeModuleTracker
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from core.simulation import record
from core.training import megatron_layer, megatron_twin
from core.training.megatron_layer import Shape, problem
from core.training.megatron_twin import dense

SHAPE = Shape(ranks=4, hidden=16, ffn=32, heads=4, sequence=8, batch=2, vocabulary=12)
SIZES = {"ranks": 4, "hidden": 16, "ffn": 32, "heads": 4, "sequence": 8, "batch": 2, "vocabulary": 12}


@pytest.fixture
def without_dropout(monkeypatch):
    monkeypatch.setattr(megatron_layer, "KEEP", 1.0)
    monkeypatch.setattr(megatron_twin, "KEEP", 1.0)
    return problem(SHAPE, torch.Generator().manual_seed(3), "cpu")


def torch_layer(p):
    """nn.TransformerEncoderLayer with the weights of ``p``; its Q, K and V stand one behind the other, ours head by head."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", norm_first=True, dtype=torch.float64)

    def regrouped(value):
        return value.unflatten(0, (4, 3, 4)).transpose(0, 1).flatten(0, 2)

    ours = {
        "self_attn.in_proj_weight": regrouped(p["qkv.weight"]),
        "self_attn.in_proj_bias": regrouped(p["qkv.bias"]),
        "self_attn.out_proj.weight": p["out.weight"],
        "self_attn.out_proj.bias": p["out.bias"],
        "linear1.weight": p["up.weight"],
        "linear1.bias": p["up.bias"],
        "linear2.weight": p["down.weight"],
        "linear2.bias": p["down.bias"],
        **{name: p[name] for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")},
    }
    layer.load_state_dict(ours)
    return layer, regrouped


def test_the_dense_layer_equals_torchs_transformer_encoder_layer_and_cross_entropy(without_dropout):
    p = without_dropout
    got = dense(p)
    layer, regrouped = torch_layer(p.parameters)
    x = p.x.clone().requires_grad_()
    causal = nn.Transformer.generate_square_subsequent_mask(8, dtype=torch.float64)
    output = layer(x, src_mask=causal, is_causal=True)
    logits = output @ p.parameters["head.weight"].T
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), p.target.flatten())
    loss.backward()
    torch.testing.assert_close(got.output, output.detach(), atol=1e-12, rtol=0)
    assert got.loss == pytest.approx(float(loss.detach()), abs=1e-12)
    torch.testing.assert_close(got.x_gradient, x.grad, atol=1e-12, rtol=0)
    theirs = dict(layer.named_parameters())
    pairs = {
        "self_attn.in_proj_weight": regrouped(got.gradients["qkv.weight"]),
        "self_attn.in_proj_bias": regrouped(got.gradients["qkv.bias"]),
        "self_attn.out_proj.bias": got.gradients["out.bias"],
        "linear1.weight": got.gradients["up.weight"],
        "linear2.weight": got.gradients["down.weight"],
        "linear2.bias": got.gradients["down.bias"],
        "norm1.weight": got.gradients["norm1.weight"],
        "norm2.bias": got.gradients["norm2.bias"],
    }
    for name, want in pairs.items():
        torch.testing.assert_close(theirs[name].grad, want, atol=1e-12, rtol=0)


# DTensor -----------------------------------------------------------------------------------------------------------------


class Mlp(nn.Module):
    """norm, up, GeLU, down: (batch, sequence, hidden) to itself."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(self.norm(x))))


PLANS = {
    "tp": {"up": ColwiseParallel(), "down": RowwiseParallel()},
    "sp": {
        "norm": SequenceParallel(use_local_output=True),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    },
}


def dtensor_counts(plan):
    """CommDebugMode's counts, forward and backward, of an MLP under the tensor-parallel or the sequence-parallel plan."""

    def body(rank):
        torch.manual_seed(0)
        mesh = init_device_mesh("cpu", (4,))
        model = Mlp()
        parallelize_module(model, mesh, PLANS[plan])
        x = torch.randn(2, 8 if plan == "tp" else 2, 16, requires_grad=True)
        with CommDebugMode() as forward:
            y = model(x)
        with CommDebugMode() as backward:
            y.sum().backward()
        return [{str(op).rpartition(".")[2]: n for op, n in mode.get_comm_counts().items()} for mode in (forward, backward)]

    return run_ranks(4, body)


def named(counts):
    """DTensor's operations by our names."""
    names = {"all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter"}
    return {names.get(op, op): count for op, count in counts.items()}


def per_block(rec, way):
    """Our layer has two blocks, attention and MLP: what one of them calls."""
    counted = {}
    for operation in ("all_reduce", "all_gather", "reduce_scatter"):
        name = f"{operation}s_{way}"
        if name in rec.facts and rec.fact(name):
            counted[operation] = rec.fact(name) / 2
    return counted


@pytest.mark.parametrize(("plan", "simulation", "layout"), [("tp", "tensor_parallel", "column_row"), ("sp", "sequence_parallel", "tp_sp")])
def test_collectives_of_a_block_are_those_of_dtensors_plan(monkeypatch, plan, simulation, layout):
    # CommDebugMode also follows modules through hooks that all threads share; counting needs none of that
    monkeypatch.setattr(_CommModeModuleTracker, "__enter__", lambda self: self.module_parents_dict.update({self.name: []}))
    monkeypatch.setattr(_CommModeModuleTracker, "__exit__", lambda self, *args: None)
    rec = record(simulation, {**SIZES, "layout": layout})
    assert per_block(rec, "forward") == ({"all_reduce": 1} if plan == "tp" else {"all_gather": 1, "reduce_scatter": 1})
    for rank_counts in dtensor_counts(plan):
        for way, counts in zip(("forward", "backward"), rank_counts, strict=True):
            assert per_block(rec, way) == named(counts)
