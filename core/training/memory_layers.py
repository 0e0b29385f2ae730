"""A real layer in torch, built as a config describes it, whose forward tells what autograd saved, operation by operation.

BF16 activations and matrices, FP32 norm weights, no fused kernels except flash attention. Rotary tables are shared by all layers
and belong to none. Dropout keeps one byte an element, as on an accelerator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812

from core.transformer import Shape

RATE = 0.1
"""Dropout of the families that use it."""


class Storages:
    """Bytes of the storages that autograd saves, each once, under the operation that saved it first."""

    def __init__(self) -> None:
        self.bytes: Counter[str] = Counter()
        self.elsewhere: set[int] = set()
        self._alive: dict[int, torch.Tensor] = {}
        self._operation = ""

    def exclude(self, *tensors: torch.Tensor) -> None:
        """Weights and shared tables: they would be there without this forward."""
        self.elsewhere.update(tensor.untyped_storage().data_ptr() for tensor in tensors)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        self._operation, before = name, self._operation
        yield
        self._operation = before

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in self.elsewhere and place not in self._alive:
            self._alive[place] = tensor  # kept, so that no other storage takes its place
            self.bytes[self._operation] += tensor.untyped_storage().nbytes()
        return tensor


class Layer:
    """One decoder layer of ``shape``. ``flash`` uses scaled_dot_product_attention's flash kernel, else the scores are written out."""

    def __init__(self, shape: Shape, layer: int, *, flash: bool, generator: torch.Generator, device: str = "cpu") -> None:
        self.shape, self.sparse, self.flash = shape, shape.is_sparse(layer), flash
        self.saved = Storages()
        self.generator, self.device = generator, device
        self.weights: dict[str, torch.Tensor] = {}

    def run(self, batch: int, sequence: int) -> Counter[str]:
        """Forward of ``(batch, sequence, hidden)`` random activations; returns the bytes saved by operation. Backward works too."""
        x = torch.randn(batch, sequence, self.shape.hidden, generator=self.generator).bfloat16().to(self.device).requires_grad_()
        angles = torch.randn(sequence, 64, generator=self.generator).to(self.device)
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        self.mask = torch.full((sequence, sequence), float("-inf"), device=self.device).triu(1).bfloat16()
        self.saved.exclude(self.cos, self.sin, self.mask)
        with torch.autograd.graph.saved_tensors_hooks(self.saved.pack, lambda tensor: tensor):
            y = self.forward(x)
        torch.autograd.backward(y.float().sum())
        if x.grad is None or not bool(torch.isfinite(x.grad).all()):
            raise ArithmeticError("the layer's gradient is not finite")
        return self.saved.bytes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, hidden) -> the same, both residual branches included."""
        s = self.shape
        normed = self.norm("norm 1", x)
        attended = self.attention(normed)
        if s.norms_per_layer == 4:
            attended = self.norm("norm after attention", attended)
        x = x + self.dropout("dropout after attention", attended)
        if s.norms_per_layer > 1:
            normed = self.norm("norm 2", x)
        mixed = self.experts(normed) if self.sparse else self.mlp(normed, s.ffn)
        if s.norms_per_layer == 4:
            mixed = self.norm("norm after experts" if self.sparse else "norm after MLP", mixed)
        return x + (mixed if self.sparse else self.dropout("dropout after MLP", mixed))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        s = self.shape
        q, k, v = self.latent(x) if s.latent else self.grouped(x)
        batch, sequence = x.shape[:2]
        if self.flash:
            with self.saved.operation("flash attention"):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] < q.shape[1])
        else:
            if k.shape[1] < q.shape[1]:
                k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
            with self.saved.operation("scores"):
                scores = q * q.shape[-1] ** -0.5 @ k.transpose(2, 3) + self.mask
            with self.saved.operation("softmax"):
                probabilities = scores.softmax(-1)
            probabilities = self.dropout("attention dropout", probabilities)
            with self.saved.operation("attention over values"):
                out = probabilities @ v
        return self.linear("output projection", out.transpose(1, 2).reshape(batch, sequence, -1), s.hidden)

    def grouped(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Queries (batch, heads, sequence, head_dim), keys and values (batch, kv_heads, sequence, head_dim)."""
        s, name = self.shape, "query, key, value projections"
        found = []
        for part, heads in (("query", s.heads), ("key", s.kv_heads), ("value", s.kv_heads)):
            y = self.linear(name, x, heads * s.head_dim, part)
            if part != "value" and s.qk_norm == "width":
                y = self.norm(f"{part} norm", y)
            y = y.view(*y.shape[:-1], heads, s.head_dim)
            if part != "value" and s.qk_norm in ("head", "head_bias"):
                y = self.norm(f"{part} norm", y)
            y = y.transpose(1, 2)
            found.append(self.rotate(y) if part != "value" else y)
        return tuple(found)

    def latent(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Multi-head latent attention: queries, keys (batch, heads, sequence, nope + rope), values (batch, heads, sequence, value)."""
        s, m = self.shape, self.shape.latent
        assert m is not None
        shared = "query, key, value projections"
        if m.query_rank:
            down = self.norm("query latent norm", self.linear(shared, x, m.query_rank, "query latent"))
            q = self.linear("query up projection", down, s.heads * (m.nope + m.rope))
        else:
            q = self.linear(shared, x, s.heads * (m.nope + m.rope), "query")
        latent, key = torch.split(self.linear(shared, x, m.kv_rank + m.rope, "latent"), [m.kv_rank, m.rope], -1)
        up = self.linear("key-value up projection", self.norm("key-value latent norm", latent), s.heads * (m.nope + m.value))
        nope, value = torch.split(up.view(*up.shape[:-1], s.heads, -1).transpose(1, 2), [m.nope, m.value], -1)
        q_nope, q_rope = torch.split(q.view(*q.shape[:-1], s.heads, -1).transpose(1, 2), [m.nope, m.rope], -1)
        key = self.rotate(key.unsqueeze(1)).expand(-1, s.heads, -1, -1)
        return torch.cat([q_nope, self.rotate(q_rope)], -1), torch.cat([nope, key], -1), value.contiguous()

    def mlp(self, x: torch.Tensor, width: int, name: str = "", weight: str = "") -> torch.Tensor:
        """Gated (SiLU) or plain (GELU); ``name`` stands before the operations, ``weight`` before the matrices."""

        def label(operation: str) -> str:
            return f"{name}: {operation}" if name else operation

        up = self.linear(label("up projection"), x, width, f"{weight} up")
        if self.shape.gated:
            gate = self.linear(label("up projection"), x, width, f"{weight} gate")
            with self.saved.operation(label("activation")):
                gate = F.silu(gate)
            with self.saved.operation(label("gate times up")):
                up = gate * up
        else:
            with self.saved.operation(label("activation")):
                up = F.gelu(up)
        return self.linear(label("down projection"), up, self.shape.hidden, weight)

    def experts(self, x: torch.Tensor) -> torch.Tensor:
        """Every token through its top_k experts, weighted by the router, and through the shared experts."""
        s, flat = self.shape, x.flatten(0, 1)
        logits = self.linear("router", flat, s.experts)
        with self.saved.operation("router"):
            weights, chosen = logits.softmax(-1, dtype=torch.float32).topk(s.top_k, -1)
            weights = weights / weights.sum(-1, keepdim=True)
        weights = weights.to(x.dtype)
        out = torch.zeros_like(flat)
        for expert in range(s.experts):
            token, slot = torch.where(chosen == expert)
            with self.saved.operation("dispatch"):
                copies, share = flat[token], weights[token, slot]
            made = self.mlp(copies, s.expert_ffn, "experts", f"expert {expert}")
            with self.saved.operation("combine"):
                out = out.index_add(0, token, made * share.unsqueeze(-1))
        if s.shared_ffn:
            out = out + self.mlp(flat, s.shared_ffn, "shared", "shared")
        return out.view_as(x)

    # small operations ------------------------------------------------------------------------------------------------------

    def linear(self, operation: str, x: torch.Tensor, width: int, weight: str = "") -> torch.Tensor:
        matrix = self.weight(f"{operation} {weight}", lambda: torch.randn(width, x.shape[-1], generator=self.generator) * 0.05)
        with self.saved.operation(operation):
            return F.linear(x, matrix)

    def norm(self, operation: str, x: torch.Tensor) -> torch.Tensor:
        width = x.shape[-1]
        weight = self.weight(operation, lambda: torch.ones(width), torch.float32)
        with self.saved.operation(operation):
            if self.shape.norm == "rms":  # written out as in the published models: FP32 inside, BF16 outside
                wide = x.float()
                wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
                return (wide * weight).to(x.dtype)
            return F.layer_norm(x, (width,), weight, weight)

    def dropout(self, operation: str, x: torch.Tensor) -> torch.Tensor:
        if not self.shape.dropout:
            return x
        with self.saved.operation(operation):
            return torch.native_dropout(x, RATE, True)[0]

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions over the last axis."""
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        width = 2 * half
        return x[..., :width] * self.cos[:, :width] + turned[..., :width] * self.sin[:, :width]

    def weight(self, name: str, make: Callable[[], torch.Tensor], dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        if name not in self.weights:
            self.weights[name] = make().to(self.device, dtype).requires_grad_()
            self.saved.exclude(self.weights[name])
        return self.weights[name]
