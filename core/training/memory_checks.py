"""What the memory ledger is compared with: the closed forms of the papers, and a real small layer run through autograd."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from core.recording import Recorder
from core.training import zero_bytes
from core.training.memory_saved import Saved, operations, paper
from core.training.memory_setup import Job
from core.transformer import Latent, Shape

TOKENS, BATCH = 24, 2
"""Size of the microbatch that the real layer runs."""


def states(rec: Recorder, job: Job, found: dict[str, np.ndarray]) -> None:
    """Model states: ZeRO's formula where only data parallelism divides, else that all ranks together hold every parameter."""
    p, shape = job.params, job.model.shape
    mine = [float(found[name].sum()) for name in ("parameters", "gradients", "optimizer")]
    alone = p.tensor_parallel == p.pipeline_parallel == p.expert_parallel == 1 and p.expert_tensor_parallel <= 1
    if alone and p.convention == "16" and p.offload == "none":
        want = sum(zero_bytes.model_states(shape.parameters, p.zero_stage, p.data_parallel * p.context_parallel))
        rec.check("model states", sum(mine), want, 1e-6 * want, "ZeRO's formula for Psi parameters on N ranks (arXiv 1910.02054)")
    elif p.offload == "none":
        whole = counted_once(job)
        tied = shape.embedding.parameters if shape.tied and job.stages.size > 1 else 0
        copies = f", and {tied:,} of the tied embedding twice" if tied else ""
        oracle = f"sum over the model's weight groups{copies}"
        rec.check("parameters on all ranks, each once", whole, shape.parameters + tied, 1e-6 * shape.parameters, oracle)


def counted_once(job: Job) -> float:
    """Parameters put together again from the ranks: what each rank holds x the ranks among which it is cut."""
    from core.training.memory_ledger import dense_share, end_parameters, expert_share

    layouts, model = job.layouts, job.model
    tensor = float(layouts.tensor[0])
    counts = job.stages.counts.sum(axis=(0, 1))
    total = 0.0
    for k, kind in enumerate(model.kinds):
        w = kind.weights
        held = float(dense_share(model, layouts)[k, 0])
        repeated = w.whole * (tensor - 1) + w.kv * (tensor / min(tensor, model.shape.kv_heads) - 1)
        experts = float(expert_share(model, layouts)[k, 0]) * float(layouts.expert[0] * layouts.expert_tensor[0])
        total += float(counts[k]) * (held * tensor - repeated + experts)
    shape = model.shape
    repeated = (tensor - 1) * sum(m.whole for m in (shape.embedding, shape.positions, shape.final_norm, shape.head))
    return total + float(end_parameters(model, job.stages, layouts).sum()) * tensor - repeated


def paper_formula(rec: Recorder, job: Job, found: dict[str, np.ndarray]) -> None:
    """Activations of the first stage in one closed form: L s b h (...) (1 + (p-1)/(pv)), as arXiv 2205.05198 writes it."""
    p, shape = job.params, job.model.shape
    parts = p.pipeline_parallel * p.chunks
    plenty = p.microbatches == 0 or p.microbatches >= 2 * parts
    if p.activation_model != "paper" or shape.layers % parts or p.stage_layers or p.offload == "activations" or not plenty:
        return
    t, sbh = p.tensor_parallel, p.sequence / p.context_parallel * p.micro_batch * shape.hidden
    scores = 0.0 if p.attention == "flash" or p.recompute != "none" else 5 * shape.heads * p.sequence / shape.hidden
    if p.recompute == "full":
        each, formula = 2 * sbh / (t if p.sequence_parallel else 1), "2sbh"
    elif p.sequence_parallel:
        each, formula = sbh / t * (34 + scores), "sbh/t (34 + 5as/h)"
    else:
        each, formula = sbh * (10 + (24 + scores) / t), "sbh(10 + 24/t + 5as/(ht))"
    first = 1 + (p.pipeline_parallel - 1) / parts if p.chunks > 1 else 1
    want = shape.layers * each * first
    got = float(found["scores"][0] + found["activations"][0])
    rec.check("activations of the first stage", got, want, 1e-9 * want, f"L x {formula} x {first:.4g} (arXiv 2205.05198)")


def real_layers(rec: Recorder, job: Job) -> None:
    """A real small layer of the same structure, forward under saved_tensors_hooks: every operation saves what the ledger says."""
    import torch

    from core.training.memory_layers import Layer

    shape, flash = small(job.model.shape), job.model.flash
    if job.model.activation_model == "paper":
        shape = small_gpt(shape)
    for kind, name in _kinds(job, shape):
        generator = torch.Generator().manual_seed(rec.seed)
        use_flash = flash and shape.latent is None
        got = Layer(shape, kind, flash=use_flash, generator=generator, device=rec.device).run(BATCH, TOKENS)
        if job.model.activation_model == "paper":
            left_out = 16 + (4 * shape.heads if use_flash else 0)  # statistics of both norms, log-sum-exp of each row
            got["norm 1"] -= left_out * BATCH * TOKENS
            want = by_operation(paper(shape, use_flash), shape)
            same = sum(got.values()) == sum(want.values())
        else:
            want = by_operation(operations(shape, kind, use_flash), shape)
            same = got == want
        wrong = sorted(op for op in {*got, *want} if got[op] != want[op]) if job.model.activation_model == "operations" else ["the sum"]
        oracle = f"a real {name} layer, hidden {shape.hidden}, {BATCH * TOKENS} tokens: unique storages seen by saved_tensors_hooks"
        if not same:
            oracle += f"; differs in {', '.join(wrong)}"
        rec.check(f"bytes saved by a {name} layer", int(sum(want.values())), int(sum(got.values())), 0, oracle, ok=same)


def by_operation(saved: list[Saved], shape: Shape) -> Counter[str]:
    """Bytes by operation for the real layer's microbatch."""
    found: Counter[str] = Counter()
    for item in saved:
        found[item.operation] += int(BATCH * TOKENS * (item.per_token + item.per_score * shape.heads * TOKENS))
    return +found


def _kinds(job: Job, shape: Shape) -> list[tuple[int, str]]:
    """(layer of the small shape, name) for every kind of layer that can be run."""
    if job.model.activation_model == "paper":
        return [(0, "GPT")]
    names = {kind.name for kind in job.model.kinds}
    found = [(1, "dense")] if "dense" in names else []
    return found + ([(0, "sparse")] if "sparse" in names else [])


def small(shape: Shape) -> Shape:
    """The same structure (how heads are grouped, gates, norms, experts, latents) at a size that runs at once; layer 0 is sparse
    if any is, layer 1 dense."""
    from core.transformer import Module

    group = min(shape.heads // shape.kv_heads, 4)
    kv = 1 if shape.kv_heads == 1 else 2
    sparse = (Module("experts", 1, 1),) if shape.experts else (Module("mlp", 1, 1),)
    latent = shape.latent
    if latent is not None:
        latent = Latent(24 if latent.query_rank else 0, 16, 12, 4, 10)
    experts = min(shape.experts, 4)
    return msgspec.structs.replace(
        shape, hidden=32, layers=2, heads=kv * group, kv_heads=kv, head_dim=8, ffn=48, expert_ffn=20 if experts else 0,
        shared_ffn=12 if shape.shared_ffn else 0, experts=experts, top_k=min(shape.top_k, 2), latent=latent, linear_layers=(),
        layer_modules=(sparse, (Module("mlp", 1, 1),)),
    )  # fmt: skip


def small_gpt(shape: Shape) -> Shape:
    """The layer of the paper: 4h GELU, multi-head attention, LayerNorm, dropout."""
    from core.transformer import Module

    return msgspec.structs.replace(
        shape, heads=4, kv_heads=4, head_dim=8, ffn=128, gated=False, norm="layer", norms_per_layer=2, qk_norm="none", dropout=True,
        experts=0, latent=None, layer_modules=((Module("mlp", 1, 1),),) * 2,
    )  # fmt: skip
