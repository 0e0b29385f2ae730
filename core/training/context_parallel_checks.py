"""What a context-parallel run is held against: attention on the whole sequence by torch, and the published counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from core.fabric.base import Tensors
from core.recording import Recorder
from core.training.context_parallel_rope import angles
from core.training.context_parallel_setup import BF16, Job, Shape
from core.training.context_parallel_splits import imbalance_formula

if TYPE_CHECKING:
    from core.training.context_parallel import Run

TOLERANCE = 1e-9
VISIBLY_WRONG = 1e-3
ORACLE = "torch scaled_dot_product_attention on the whole sequence, fp64"


@dataclass
class Whole:
    """The whole sequence on one device: q (batch, kv_heads, group, sequence, head_dim), kv (2, batch, kv_heads, sequence, head_dim),
    grad_out like q, all fp64 and not yet rotated; and what torch makes of them.
    """

    q: Tensor
    kv: Tensor
    grad_out: Tensor
    out: Tensor
    grad_q: Tensor
    grad_kv: Tensor

    @classmethod
    def draw(cls, job: Job, generator: torch.Generator, device: str) -> Whole:
        s = job.small
        group = s.heads // s.kv_heads
        of_queries = (s.batch, s.kv_heads, group, s.sequence, s.head_dim)
        q, grad_out = (torch.randn(of_queries, generator=generator, dtype=torch.float64).to(device) for _ in range(2))
        kv = torch.randn((2, s.batch, s.kv_heads, s.sequence, s.head_dim), generator=generator, dtype=torch.float64).to(device)
        out, grad_q, grad_kv = attention(q, kv, grad_out, s, causal=job.params.causal, rope=job.params.rope != "off")
        return cls(q, kv, grad_out, out, grad_q, grad_kv)


def attention(q: Tensor, kv: Tensor, grad_out: Tensor, shape: Shape, *, causal: bool, rope: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Output and gradients for q and kv by torch's attention and autograd; RoPE as a product of complex numbers."""
    q, kv = q.clone().requires_grad_(), kv.clone().requires_grad_()
    rows, keys, values = q, kv[0].unsqueeze(2).expand_as(q), kv[1].unsqueeze(2).expand_as(q)
    if rope:
        turn = angles(torch.arange(shape.sequence, device=q.device), shape.head_dim, q.dtype)
        rows, keys = _turned(rows, turn), _turned(keys, turn)
    flat = (shape.batch, shape.heads, shape.sequence, shape.head_dim)
    rows, keys, values = (t.reshape(flat) for t in (rows, keys, values))
    out = F.scaled_dot_product_attention(rows, keys, values, is_causal=causal).view_as(q)
    grad_q, grad_kv = torch.autograd.grad(out, (q, kv), grad_out)
    return out.detach(), grad_q, grad_kv


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    one, other = x.chunk(2, dim=-1)
    turned = torch.complex(one, other) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1)


def output(rec: Recorder, run: Run, whole: Whole, out: Tensors) -> float:
    """Every rank's rows of the output; returns the largest difference."""
    error = _distance(out, run.local(whole.out))
    _judge(rec, run, "output, largest difference", error)
    rec.fact("max_error", error, note=f"output, largest difference from {ORACLE}")
    return error


def gradients(rec: Recorder, run: Run, whole: Whole, grad_q: Tensors, grad_kv: Tensors) -> None:
    """Every rank's rows of dq, dk and dv."""
    _judge(rec, run, "dq, largest difference", _distance(grad_q, run.local(whole.grad_q)))
    for number, name in enumerate(("dk", "dv")):
        got = {rank: grad[number] for rank, grad in grad_kv.items()}
        _judge(rec, run, f"{name}, largest difference", _distance(got, run.local(whole.grad_kv[number])))


def work_and_bytes(rec: Recorder, run: Run) -> None:
    """Work counted from the masks tile by tile, its balance, and what was sent, against closed forms."""
    job, p, s = run.job, run.job.params, run.job.small
    pairs = s.sequence * (s.sequence + 1) // 2 if p.causal else s.sequence**2
    want = pairs * s.heads * s.batch
    oracle = "N(N+1)/2 x heads x batch" if p.causal else "N² x heads x batch"
    rec.check("score elements not masked, over all ranks and hops", sum(run.counted.values()), want, oracle=oracle)
    rec.check(
        "tiles whose count of unmasked elements is not the closed form's", run.miscounted, 0, oracle="the mask itself, element by element"
    )
    most = max(run.work.values())
    split = imbalance_formula(p.split, p.sequence, p.ranks, causal=p.causal) if p.method != "ulysses" else 1.0
    oracle = "contiguous 2 - 1/P, zigzag 1, striped 1 + (P-1)/N; ulysses and without a mask 1"
    rec.check("imbalance", most * p.ranks / sum(run.work.values()), split, 1e-12, oracle)
    wire = job.sent_bytes(backward=False) + job.sent_bytes(backward=True)
    sent = [t.bytes_sent * job.scale for t in run.fabric.traffic.values()]
    rec.check(
        "bytes on the wire of the rank that sent most", max(sent), wire, 1e-9 * wire, f"closed form of {p.method}, {BF16} bytes an element"
    )
    rec.check(
        "bytes on the wire of the rank that sent least", min(sent), wire, 1e-9 * wire, f"closed form of {p.method}, {BF16} bytes an element"
    )


def _judge(rec: Recorder, run: Run, name: str, error: float) -> None:
    """Equal to the oracle; positions that are wrong on purpose must show."""
    if run.job.params.rope == "local" and run.fabric.size > 1 and "dv" not in name:
        oracle = f"{ORACLE}; positions counted from 0 on every rank must show"
        rec.check(name, error, f"above {VISIBLY_WRONG}", oracle=oracle, ok=error > VISIBLY_WRONG)
    elif run.job.params.rope != "local" or run.fabric.size == 1:
        rec.check(name, error, 0.0, TOLERANCE, ORACLE)


def _distance(got: Tensors, want: Tensors) -> float:
    """Largest absolute difference over the hosted ranks; infinite when anything is NaN."""
    return max(float((got[rank] - want[rank]).abs().nan_to_num(nan=float("inf")).max()) for rank in want)
