"""Pipeline parallelism: a schedule's table run in time and on a real small model; what it idles, holds and sends."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from core.errors import BadInput
from core.recording import Recorder
from core.simulation import Params, simulation
from core.training.longest_path import longest_path_starts
from core.training.pipeline_story import Story, tell
from core.training.schedules import SCHEDULES, Table, build, rounds
from core.training.timing import Costs, Timing, peak_by_rank, time_table

MOST_ACTIONS = 2_000_000
"""Largest table: about 1 kB a recorded action, so 2 GB."""
MODEL_ACTIONS = 4096
MODEL_PARAMETERS = 16_777_216
MODEL_FLOP = 20_000_000_000
MODEL_BYTES = 250_000_000
"""Bounds of the real run, which takes two training steps' worth of arithmetic; beyond them only the timing is recorded."""
LONGEST = 1e9
"""Units of time that one computation or message may take."""
BYTES = 4
"""Of one number of an activation, a gradient, a parameter (float32)."""

Time = Annotated[float, Meta(gt=0, le=LONGEST)]
TimeOrNone = Annotated[float, Meta(ge=0, le=LONGEST)]


class PipelineParams(Params, frozen=True):
    schedule: Annotated[Literal["gpipe", "1f1b", "interleaved"], Meta(description="order in which a rank runs its work")] = "1f1b"
    stages: Annotated[int, Meta(ge=1, le=1024, description="ranks in the pipeline")] = 4
    microbatches: Annotated[int, Meta(ge=1, le=65536, description="microbatches in a training step")] = 8
    chunks: Annotated[int, Meta(ge=0, le=64, description="parts of the model on a rank; 0 = 2 for interleaved, else 1")] = 0
    forward_time: Annotated[
        tuple[Time, ...],
        Meta(description="units of time a chunk's forward takes; 1 value, 1 for each rank, or 1 for each chunk of the model"),
    ] = (1.0,)
    input_gradient_time: Annotated[tuple[Time, ...], Meta(description="units of time, gradient for a chunk's input; as many values")] = (
        1.0,
    )
    weight_gradient_time: Annotated[
        tuple[TimeOrNone, ...], Meta(description="units of time, gradient for a chunk's weights; as many values, 0 = frozen")
    ] = (1.0,)
    p2p_time: Annotated[float, Meta(ge=0, le=LONGEST, description="units of time of any message between two ranks")] = 0.0
    p2p_bandwidth: Annotated[
        float, Meta(ge=0, le=1e18, description="bytes in a unit of time; a message takes its size / bandwidth more, 0 = no more")
    ] = 0.0
    batch: Annotated[int, Meta(ge=1, le=65536, description="rows of a microbatch, samples x tokens")] = 4
    hidden: Annotated[int, Meta(ge=1, le=65536, description="width of the model")] = 32


@simulation("pipeline")
def pipeline(params: PipelineParams, rec: Recorder) -> None:
    """Same bubble, so why 1F1B? A pipeline schedule action by action: who waits for what, and what each rank holds."""
    chunks = params.chunks or SCHEDULES[params.schedule].chunks
    actions = 2 * params.stages * chunks * params.microbatches
    if actions > MOST_ACTIONS:
        found = f"2 x {params.stages} stages x {chunks} chunks x {params.microbatches} microbatches = {actions:,} actions"
        raise BadInput("pipeline", found, f"up to {MOST_ACTIONS:,} actions")
    table = build(params.schedule, params.stages, params.microbatches, chunks)
    message_bytes = params.batch * params.hidden * BYTES
    transfer = params.p2p_time + (message_bytes / params.p2p_bandwidth if params.p2p_bandwidth else 0.0)
    if transfer > LONGEST:
        raise BadInput("pipeline.p2p_bandwidth", f"a message of {message_bytes:,} bytes takes {transfer:.3g}", f"up to {LONGEST:,.0f}")
    costs = Costs(
        per_stage("forward_time", params.forward_time, table),
        per_stage("input_gradient_time", params.input_gradient_time, table),
        per_stage("weight_gradient_time", params.weight_gradient_time, table),
        transfer,
    )
    timing = time_table(table, costs, lambda done: rec.progress(0.5 * done, "timing"))
    story = Story(table, timing, SCHEDULES[params.schedule].copies, message_bytes)
    tell(story, rec)
    expectations(params, table, costs, timing, rec)
    rec.progress(0.8, "running the model")
    run_model(params, story, rec)


def per_stage(name: str, values: tuple[float, ...], table: Table) -> np.ndarray:
    """(stages,) the value of each chunk of the model. BadInput unless there is one value, one a rank, or one a chunk."""
    if len(values) == 1:
        return np.full(table.stages, values[0])
    if len(values) == table.stages:
        return np.array(values)
    if len(values) == table.ranks:
        spread: np.ndarray = np.array(values)[table.rank_of]
        return spread
    sizes = f"{table.ranks} (one a rank)" + (f", or {table.stages} (one for each chunk of the model)" if table.chunks > 1 else "")
    raise BadInput(f"pipeline.{name}", f"found {len(values)} values", f"1 value, or {sizes}")


def expectations(params: PipelineParams, table: Table, costs: Costs, timing: Timing, rec: Recorder) -> None:
    """What theory says about this table, as facts of kind formula and checks, each where it applies."""
    p, m, v = table.ranks, table.microbatches, table.chunks
    apart = np.abs(timing.start - longest_path_starts(table, costs.durations(table), costs.transfer))
    rec.check("start of every action", float(apart.max()), 0.0, 1e-9 * timing.makespan, "longest path over the graph of all dependencies")
    want = closed_form_peaks(params.schedule, p, m, v)
    rec.check("peak stash by rank", joined(peak_by_rank(table)), joined(want), oracle="one more than the forwards before a backward")
    links = table.stages - 1 if p > 1 else 0
    sent = rec.recording.fact("p2p_bytes")
    want_sent = 2 * links * m * params.batch * params.hidden * BYTES
    rec.check("bytes between ranks", sent, want_sent, oracle="2 directions x links x microbatches x batch x hidden x 4 bytes")
    equal = all(len(set(cost.tolist())) == 1 for cost in (costs.forward, costs.input_gradient, costs.weight_gradient))
    if not equal or costs.transfer or (v > 1 and m < p):
        return
    each = float(costs.forward[0] + costs.input_gradient[0] + costs.weight_gradient[0])
    idle = timing.makespan - m * v * each
    rec.check("idle of each rank", idle, (p - 1) * each, 1e-9 * timing.makespan, "(p-1)(F+B), with equal times and no transfer")
    notes = ("(p-1)/(m+p-1)", "(p-1)/m") if v == 1 else ("(p-1)/(vm+p-1)", "(p-1)/(vm)")
    rec.fact("bubble_formula", (p - 1) / (v * m + p - 1), "%", "formula", notes[0])
    rec.fact("bubble_of_ideal_formula", (p - 1) / (v * m), "%", "formula", notes[1])


def closed_form_peaks(schedule: str, p: int, m: int, v: int) -> list[int]:
    """Most activations each rank holds: m in GPipe; p - r in 1F1B; in an interleaved schedule a round of each chunk but the
    last, and two for every rank behind (arXiv 2104.04473). Never more than all vm.
    """
    if schedule == "gpipe":
        return [m] * p
    if v == 1:
        return [min(p - rank, m) for rank in range(p)]
    return [min((v - 1) * len(rounds(p, m)[0]) + 2 * (p - 1 - rank) + 1, v * m) for rank in range(p)]


def run_model(params: PipelineParams, story: Story, rec: Recorder) -> None:
    """Train a real model of one block a stage through the table, and once more without a pipeline."""
    table = story.table
    reason = too_big(params, table)
    if reason:
        rec.fact("real_model", reason, note="the table is timed, but no tensors run through it")
        return
    from core.training import pipeline_model as model

    work = model.problem(table.stages, table.microbatches, params.batch, params.hidden, rec.generator, rec.device)
    outcome = model.run_table(table, story.timing.order.tolist(), work, lambda: rec.progress(0.8, "running the model"))
    loss, gradients = model.run_sequentially(work)
    unequal, largest = model.differences(outcome.gradients, gradients)
    rec.fact("real_model", "ran", note=f"{table.stages} blocks x + W2 gelu(W1 x), float32")
    rec.fact("loss", float(outcome.loss), note="mean squared error of the whole batch, before the update")
    rec.fact("peak_stash_bytes", max(outcome.live.peak_bytes), "bytes", note="saved by autograd for the blocks, the fullest rank")
    # Each stage runs its backwards in the order of the microbatches, so a parameter's gradients add up in the same order as
    # without a pipeline: equal bit for bit, not only nearly.
    same = unequal == 0 and len(gradients) == 4 * table.stages
    oracle = "each microbatch through the whole model in turn, bit for bit"
    rec.check("largest difference of a gradient", largest, 0.0, oracle=oracle, ok=same)
    rec.check("loss", float(outcome.loss), float(loss), oracle=oracle)
    rec.check("live stashes at the peak, by rank", joined(outcome.live.peak), joined(peak_by_rank(table)), oracle="the table's count")


def too_big(params: PipelineParams, table: Table) -> str:
    """Why the real model does not run at this size; '' when it does."""
    parameters = table.stages * (8 * params.hidden**2 + 5 * params.hidden)
    flop = 2 * 6 * parameters * params.batch * params.microbatches
    saved = 9 * BYTES * params.batch * params.hidden * table.stages * params.microbatches  # as if none were freed
    for what, found, most in (
        ("actions", len(table), MODEL_ACTIONS),
        ("parameters", parameters, MODEL_PARAMETERS),
        ("FLOP", flop, MODEL_FLOP),
        ("bytes of activations", saved, MODEL_BYTES),
    ):
        if found > most:
            return f"not run: {found:,} {what}, more than {most:,}"
    return ""


def joined(numbers: np.ndarray | list[int]) -> str:
    return ",".join(str(int(number)) for number in numbers)
