"""Sequence parallelism on real tensors: what tensor parallelism leaves replicated, and what cutting it costs."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from msgspec import Meta

from core.recording import Recorder
from core.simulation import simulation
from core.training import megatron_bytes
from core.training import tensor_parallel_checks as checks
from core.training.megatron_setup import Job, LayerParams
from core.training.megatron_tape import STATISTICS, UNNAMED
from core.training.megatron_twin import dense
from core.training.sequence_parallel_layer import SequenceParallel
from core.training.sequence_parallel_views import SequenceStory
from core.training.tensor_parallel import layer_to_cut, unseen
from core.training.tensor_parallel_layer import TensorParallel

LAYERS = {"tp": TensorParallel, "tp_sp": SequenceParallel, "tp_sp_regather": SequenceParallel}


class SequenceParallelParams(LayerParams, frozen=True):
    layout: Annotated[
        Literal["tp", "tp_sp", "tp_sp_regather"],
        Meta(description="tensor parallelism; with norms and dropouts cut along the sequence; and block inputs gathered again in backward"),
    ] = "tp_sp"


@simulation("sequence_parallel")
def sequence_parallel(params: SequenceParallelParams, rec: Recorder) -> None:
    """What is left replicated in TP, and what does cutting it cost? One layer with and without sequence parallelism."""
    layout = params.layout
    job = Job.of(params, "sequence_parallel", cut_sequence=layout != "tp")
    whole = layer_to_cut(job, rec)
    formulas(rec, job, layout)
    run = LAYERS[layout](job, layout, whole, SequenceStory(rec))
    run.run()
    rec.progress(0.7, "comparing")
    if job.has_values:
        checks.against_dense(rec, run, dense(whole))
    in_bf16 = LAYERS[layout](job, layout, whole.to(torch.bfloat16), unseen(rec))
    in_bf16.run()
    checks.traffic(rec, run, in_bf16)
    saved_bytes(rec, in_bf16)


def formulas(rec: Recorder, job: Job, layout: str) -> None:
    """Bytes of one layer on one rank as the paper has them."""
    note = f"{megatron_bytes.formula_text(layout)}, arXiv 2205.05198, one rank, ffn = {job.shape.ffn / job.shape.hidden:g} hidden"
    rec.fact("activation_bytes_per_layer", megatron_bytes.activation_bytes(job.shape, layout), "bytes", "formula", note)
    note = "without the terms in s^2, which flash attention or selective recomputation does not keep"
    without = megatron_bytes.without_scores(job.shape, layout)
    rec.fact("activation_bytes_per_layer", without, "bytes", "formula", note, label="without_scores")
    regather = megatron_bytes.regather_bytes(job.shape, layout)
    rec.fact("regather_bytes", regather, "bytes", "formula", "sent by each rank to gather block inputs again, part of comm_bytes")


def saved_bytes(rec: Recorder, run: TensorParallel) -> None:
    """Storages that autograd saved for the layer in BF16, each once, against the formula: the fullest rank."""
    fullest = max(run.layer_held.values(), key=lambda held: sum(storage.bytes for storage in held))
    counted = sum(storage.bytes for storage in fullest if storage.label != STATISTICS)
    statistics = sum(storage.bytes for storage in fullest if storage.label == STATISTICS)
    note = "distinct storages saved by autograd in a BF16 layer, masks one byte; norms' means and deviations apart"
    rec.fact("activation_bytes_per_layer", counted, "bytes", note=note, label="counted")
    note = "means and deviations of the norms, which the formula leaves out"
    rec.fact("activation_bytes_per_layer", statistics, "bytes", note=note, label="norm_statistics")
    want = megatron_bytes.activation_bytes(run.shape, run.layout)
    rec.check("activation bytes counted, without norm statistics", counted, want, 0.5, megatron_bytes.formula_text(run.layout))
    unnamed = sum(storage.label == UNNAMED for storage in fullest)
    rec.check("storages saved that the layer does not name", unnamed, 0, oracle="autograd's saved-tensor hooks")
    want_again = megatron_bytes.regather_bytes(run.shape, run.layout)
    rec.check("bytes gathered again, counted hop by hop", run.sent["regather"], want_again, 0.5, "2 all-gathers of sbh, (t-1)/t each")
