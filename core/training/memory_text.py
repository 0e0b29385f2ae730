"""What `memory` says at its steps, as templates, and the formula of every line of the ledger with its numbers."""

from __future__ import annotations

from core.formatting import digits
from core.training.memory_ledger import CONVENTIONS
from core.training.memory_setup import Job

MODULE = "{name}: {parameters:elements}"
MODULE_DETAIL = (
    "{count:count} of them in the model, {each:count} parameters each, {share:%} of all {total:count}. One token uses {active:count} of "
    "these. Tensor parallelism leaves {whole:count} of each whole on every rank."
)
STATE = {
    "parameters": "Parameters take {size:bytes}",
    "gradients": "Gradients take {size:bytes}",
    "optimizer": "Optimizer states take {size:bytes}",
}
STATE_DETAIL = "{how} = {size:bytes} ({gib} GiB) on stage {stage}. Counted as {convention}. So far {sum:bytes}."
SAVED = "{operation}: {size:bytes} saved in every {kind} layer"
SAVED_DETAIL = (
    "{what}: {how} = {size:bytes} a layer and microbatch. Stage {stage} holds {held} such layers in flight, so {held_bytes:bytes} there "
    "({gib} GiB)."
)
SAVED_NOT = "{operation}: {size:bytes} not kept in every {kind} layer"
SAVED_NOT_DETAIL = (
    "{what}: {how} = {size:bytes} a layer and microbatch. With recompute = {recompute} it is dropped and computed again in backward."
)
INPUT = "Each layer keeps its input: {size:bytes}"
INPUT_DETAIL = "{how} = {size:bytes} a layer and microbatch, {held} layers in flight: {held_bytes:bytes} on stage {stage} ({gib} GiB)."
SUM = "Activations: {size:bytes}, of which scores {scores:bytes}"
SUM_DETAIL = (
    "Counted by {model}. Softmax outputs and their dropout grow with the square of the sequence: {scores:bytes}. All else grows with it: "
    "{rest:bytes}. Together {gib} GiB on stage {stage}, in flight in its first chunk: {microbatches}."
)
OTHER = {
    "outputs": "Embedding, head and loss keep {size:bytes}",
    "recomputed": "While a layer is recomputed, {size:bytes} are back",
    "buffers": "Buffers that come and go: {size:bytes}",
    "reserve": "Context and fragmentation: {size:bytes} in reserve",
}
OTHER_DETAIL = "{how} = {size:bytes} ({gib} GiB) on stage {stage}. So far {sum:bytes}."
TOTAL = "In all {total:bytes} on the fullest rank"
TOTAL_DETAIL = (
    "{total:bytes} = {gib} GiB on stage {stage} of {stages}: {states:bytes} of model states, {saved:bytes} of activations, {rest:bytes} of "
    "the rest."
)
FITS = "{total:bytes} of {capacity:bytes}: it fits on {device}, {left:bytes} are left"
FITS_NOT = "{total:bytes} of {capacity:bytes}: it does not fit on {device}, {left:bytes} too much"
CHANGED = "{choice}: {total:bytes}, {saved:bytes} less"
CHANGED_MORE = "{choice}: {total:bytes}, {saved:bytes} more"
CHANGED_DETAIL = "{why} The same ledger gives {total:bytes} ({gib} GiB) on the fullest rank in place of {before:bytes}."

NAMES = {
    "parameters": "parameters", "gradients": "gradients", "optimizer": "optimizer states", "scores": "attention scores",
    "activations": "other activations", "outputs": "embedding, head, loss", "recomputed": "recomputed layer", "buffers": "buffers",
    "reserve": "reserve",
}  # fmt: skip
ROLES = {
    "parameters": "parameter", "gradients": "gradient", "optimizer": "optimizer", "scores": "bad", "activations": "activation",
    "outputs": "group4", "recomputed": "group2", "buffers": "buffer", "reserve": "dim",
}  # fmt: skip


def state_formula(job: Job, line: str, elements: float, experts: float) -> str:
    """Bytes of a state for each parameter x the rank's parameters / the ranks that share them."""
    size = dict(zip(("parameters", "gradients", "optimizer"), CONVENTIONS[job.params.convention][:3], strict=True))[line]
    stage = {"parameters": 3, "gradients": 2, "optimizer": 1}[line]
    p = job.params
    if (p.offload == "optimizer" and line == "optimizer") or p.offload == "states":
        return f"0, for {p.offload} live in the host's memory"
    sharded = p.zero_stage >= stage
    shared = f" / {p.data_parallel * p.context_parallel} data x context ranks (ZeRO-{p.zero_stage})" if sharded else ""
    text = f"{size} B x {digits(elements)} parameters{shared}"
    if experts:
        ranks = float(job.layouts.expert_replicas[0])
        text += f" + {size} B x {digits(experts)} of experts" + (f" / {digits(ranks)}" if sharded else "")
    return text


def other_formula(job: Job, line: str) -> str:
    """Where the smaller lines come from, with this layout's numbers."""
    p, shape = job.params, job.model.shape
    if line == "outputs":
        if not shape.vocabulary:
            return "no vocabulary: neither embedding nor head"
        return f"final norm and head input, and FP32 log-probabilities: 4 B x s b V / t with V = {shape.vocabulary:,} on the last stage"
    if line == "recomputed":
        if p.recompute == "none":
            return "nothing is recomputed"
        return "all that one layer saves, less what was kept"
    if line == "reserve":
        return "a flat figure (parameter reserve)"
    parts = []
    if shape.vocabulary:
        parts.append("BF16 logits and their FP32 copy, 6 B x s b V / t, on the last stage")
    if p.sequence_parallel and p.tensor_parallel > 1:
        parts.append("a layer's gathered input, 2sbh")
    if p.context_parallel > 1:
        parts.append("two blocks of keys and values")
    if shape.experts:
        parts.append("copies of tokens on their way to experts and back")
    shares = p.data_parallel * p.context_parallel > 1
    if p.zero_stage == 2 and shares:
        parts.append(f"two gradient buckets of {p.bucket:,} elements")
    if p.zero_stage == 3 and (shares or p.convention == "fsdp2"):
        parts.append("gathered BF16 parameters and gradients of two layers")
    return " + ".join(parts) or "none in this layout"
