"""What `plan` says at its steps, as templates."""

from __future__ import annotations

START = "{considered:count} layouts of {model} on {gpus} x {device}"
START_DETAIL = (
    "Every factorisation of {gpus} into data, tensor, pipeline and context ranks, with every ZeRO stage, microbatch and recomputation: "
    "{fitting:count} fit into {capacity:bytes}, {large:count} need more, {impossible:count} break a rule. The fastest comes first."
)
FITS = (
    "{place:count}: {seconds:s} a step · tp {tensor_parallel} pp {pipeline_parallel} cp {context_parallel} dp {data_parallel} "
    "ep {expert_parallel} ZeRO-{zero_stage} mb {micro_batch} {recompute}"
)
FITS_DETAIL = (
    "{bytes:bytes} of {capacity:bytes} on the fullest rank, sequence parallel {sequence_parallel}. Compute {compute:s}, bubble {bubble:s}; "
    "communication that shows {exposed:s}: "
    "tensor {tensor:s}, context {context:s}, experts {expert:s}, pipeline {pipeline:s}, data {data:s}. "
    "The tensor group {crossing} a node of {node}."
)
LARGE = (
    "Needs {over:bytes} too much · tp {tensor_parallel} pp {pipeline_parallel} cp {context_parallel} dp {data_parallel} "
    "ep {expert_parallel} ZeRO-{zero_stage} mb {micro_batch} {recompute}"
)
LARGE_DETAIL = "{bytes:bytes} on the fullest rank, and {device} has {capacity:bytes}. Its step would take {seconds:s}. {reason}"
RULE = "Not possible: {reason}"
RULE_DETAIL = (
    "tp {tensor_parallel} pp {pipeline_parallel} cp {context_parallel} dp {data_parallel} ep {expert_parallel} ZeRO-{zero_stage} "
    "mb {micro_batch}, {recompute}: {reason}; it takes {allowed}."
)
