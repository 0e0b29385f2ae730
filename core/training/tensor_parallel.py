"""Tensor parallelism on real tensors: why column-parallel then row-parallel needs no gather in between."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from msgspec import Meta

from core.recording import Recorder, Recording
from core.simulation import simulation
from core.training import tensor_parallel_checks as checks
from core.training.megatron_layer import Problem, problem
from core.training.megatron_setup import Job, LayerParams
from core.training.megatron_twin import dense
from core.training.tensor_parallel_layer import TensorParallel
from core.training.tensor_parallel_views import Story


class TensorParallelParams(LayerParams, frozen=True):
    layout: Annotated[
        Literal["column_row", "column_column", "row_first"],
        Meta(description="how the MLP's two matrices are cut; row_first applies GeLU before the sum, which is wrong"),
    ] = "column_row"


@simulation("tensor_parallel")
def tensor_parallel(params: TensorParallelParams, rec: Recorder) -> None:
    """Why can column-parallel then row-parallel skip the gather in between? One layer, cut and compared with the whole one."""
    job = Job.of(params, "tensor_parallel")
    whole = layer_to_cut(job, rec)
    want = dense(whole) if job.has_values else None
    run = TensorParallel(job, params.layout, whole, Story(rec, want))
    run.run()
    rec.progress(0.7, "comparing")
    if want is not None:
        checks.against_dense(rec, run, want)
    in_bf16 = TensorParallel(job, params.layout, whole.to(torch.bfloat16), unseen(rec))
    in_bf16.run()
    checks.traffic(rec, run, in_bf16)


def layer_to_cut(job: Job, rec: Recorder) -> Problem:
    """The whole layer, with values where they fit this machine; says so."""
    note = "" if job.has_values else f"{job.shape.flop:.2g} FLOP: shapes, saved tensors and messages are real, values are not computed"
    rec.fact("values_computed", job.has_values, note=note)
    return problem(job.shape, rec.generator, rec.device if job.has_values else "meta")


def unseen(rec: Recorder) -> Story:
    """A run that is only counted."""
    return Story(Recorder(Recording("", device=rec.device, seed=rec.seed)), None)
