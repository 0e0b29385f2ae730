"""Pipeline parallelism: a schedule's table run in time and on a real small model; what it idles, holds and sends."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from core.errors import BadInput
from core.recording import Recorder
from core.simulation import Params, simulation
from core.training.blocking_replay import replay
from core.training.longest_path import longest_path_starts
from core.training.memory_limit import within
from core.training.pipeline_story import Story, tell
from core.training.pipeline_theory import THEORY, Size, Theory, Times
from core.training.schedule_table import Kind, Table
from core.training.schedules import SCHEDULES, build
from core.training.timing import Costs, Timing, peak_by_rank, time_table

MOST_ACTIONS = 2_000_000
"""Largest table: about 1 kB a recorded action, so 2 GB."""
REPLAYED_ROWS = 20_000
"""Largest table that is also replayed with blocking messages."""
MODEL_ACTIONS = 4096
MODEL_PARAMETERS = 16_777_216
MODEL_FLOP = 20_000_000_000
MODEL_BYTES = 250_000_000
"""Bounds of the real run, which takes two training steps' worth of arithmetic; beyond them only the timing is recorded."""
LONGEST = 1e9
"""Units of time that one computation or message may take."""
SUMMED_APART = 1e-6
"""Largest relative difference of float32 sums of the same numbers in another order."""
BYTES = 4
"""Of one number of an activation, a gradient, a parameter (float32)."""

Time = Annotated[float, Meta(gt=0, le=LONGEST)]
TimeOrNone = Annotated[float, Meta(ge=0, le=LONGEST)]
Microbatches = Annotated[float, Meta(ge=1, le=1e9)]


class PipelineParams(Params, frozen=True):
    """What `pipeline` takes."""

    schedule: Annotated[
        Literal["gpipe", "1f1b", "interleaved", "looped_bfs", "zb_h1", "interleaved_zb", "zbv", "dualpipe", "dualpipev"],
        Meta(description="order in which a rank runs its work"),
    ] = "1f1b"
    stages: Annotated[int, Meta(ge=1, le=1024, description="ranks in the pipeline")] = 4
    microbatches: Annotated[int, Meta(ge=1, le=65536, description="microbatches in a training step; dualpipe: of both directions")] = 8
    chunks: Annotated[
        int, Meta(ge=0, le=64, description="parts of the model on a rank; 0 = 2 for interleaved, looped and V schedules, else 1")
    ] = 0
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
    overlapped_time: Annotated[
        tuple[Time, ...],
        Meta(
            description="units of time of an overlapped forward-backward pair (dualpipe, dualpipev); 1 value, 1 for each rank, none = F + B"
        ),
    ] = ()
    p2p_time: Annotated[float, Meta(ge=0, le=LONGEST, description="units of time of any message between two ranks")] = 0.0
    p2p_bandwidth: Annotated[
        float, Meta(ge=0, le=1e18, description="bytes in a unit of time; a message takes its size / bandwidth more, 0 = no more")
    ] = 0.0
    memory_limit: Annotated[
        tuple[Microbatches, ...],
        Meta(description="microbatches whose activations a rank may hold, each = chunks x a chunk's; 1 value, 1 for each rank, none = any"),
    ] = ()
    batch: Annotated[int, Meta(ge=1, le=65536, description="rows of a microbatch, samples x tokens")] = 4
    hidden: Annotated[int, Meta(ge=1, le=65536, description="width of the model")] = 32


@simulation("pipeline")
def pipeline(params: PipelineParams, rec: Recorder) -> None:
    """Same bubble, so why 1F1B? A pipeline schedule action by action: who waits for what, and what each rank holds."""
    table = sized_table(params)
    costs = costs_of(params, table)
    limits = memory_limits(params, table)
    if limits is not None:
        table = within(table, limits, costs, lambda done: rec.progress(0.2 * done, "keeping to the memory limit"))
    timing = time_table(table, costs, lambda done: rec.progress(0.2 + 0.3 * done, "timing"))
    story = Story(table, timing, message_bytes(params))
    tell(story, rec)
    expectations(params, table, costs, timing, limits, rec)
    rec.progress(0.8, "running the model")
    run_model(params, story, rec)


def sized_table(params: PipelineParams) -> Table:
    """The schedule's table. BadInput where it is too large, or not defined."""
    schedule = SCHEDULES[params.schedule]
    chunks = params.chunks or schedule.chunks
    actions = 2 * params.stages * chunks * params.microbatches
    if actions > MOST_ACTIONS:
        found = f"2 x {params.stages} stages x {chunks} chunks x {params.microbatches} microbatches = {actions:,} actions"
        raise BadInput("pipeline", found, f"up to {MOST_ACTIONS:,} actions")
    return build(params.schedule, params.stages, params.microbatches, chunks)


def costs_of(params: PipelineParams, table: Table) -> Costs:
    """The durations. BadInput for numbers of values that fit no stages or ranks, or pairs shorter than their longer half."""
    transfer = params.p2p_time + (message_bytes(params) / params.p2p_bandwidth if params.p2p_bandwidth else 0.0)
    if transfer > LONGEST:
        raise BadInput(
            "pipeline.p2p_bandwidth", f"a message of {message_bytes(params):,} bytes takes {transfer:.3g}", f"up to {LONGEST:,.0f}"
        )
    costs = Costs(
        per_stage("forward_time", params.forward_time, table),
        per_stage("input_gradient_time", params.input_gradient_time, table),
        per_stage("weight_gradient_time", params.weight_gradient_time, table),
        transfer,
        per_rank("overlapped_time", params.overlapped_time, table) if params.overlapped_time else None,
    )
    second = np.flatnonzero(table.joined)
    if costs.overlapped is not None and len(second):
        alone, pair = costs.alone(table), costs.durations(table)
        longer = np.maximum(alone[second - 1], alone[second])
        short = int(np.argmax(longer - pair[second]))
        if pair[second[short]] < longer[short]:
            least = f"at least {longer[short]:g}: a pair takes no less than the longer of its F and B"
            raise BadInput("pipeline.overlapped_time", f"found {pair[second[short]]:g}", least)
    return costs


def message_bytes(params: PipelineParams) -> int:
    """One activation or gradient between two stages."""
    return params.batch * params.hidden * BYTES


def memory_limits(params: PipelineParams, table: Table) -> np.ndarray | None:
    """(ranks,) how many chunks' activations each rank may hold, None without a limit. BadInput where the schedule cannot."""
    if not params.memory_limit:
        return None
    limits = np.floor(per_rank("memory_limit", params.memory_limit, table) * table.chunks + 1e-9).astype(np.int64)
    peaks, rigid = peak_by_rank(table), SCHEDULES[params.schedule].rigid
    short = int(np.argmax(peaks - limits))
    if rigid and peaks[short] > limits[short]:
        found = f"found {limits[short] / table.chunks:g} microbatches on rank {short} of {params.schedule}"
        raise BadInput("pipeline.memory_limit", found, f"at least {peaks[short] / table.chunks:g}, since {rigid}")
    return limits


def per_stage(name: str, values: tuple[float, ...], table: Table) -> np.ndarray:
    """(stages,) the value of each chunk of the model. BadInput unless there is one value, one a rank, or one a chunk."""
    if len(values) == table.depth:
        return np.tile(values, table.copies)
    if len(values) in (1, table.ranks):
        spread: np.ndarray = np.resize(values, table.ranks)[table.rank_of]
        return spread
    sizes = f"{table.ranks} (one a rank)" + (f", or {table.depth} (one for each chunk of the model)" if table.chunks > 1 else "")
    raise BadInput(f"pipeline.{name}", f"found {len(values)} values", f"1 value, or {sizes}")


def per_rank(name: str, values: tuple[float, ...], table: Table) -> np.ndarray:
    """(ranks,) the value of each rank. BadInput unless there is one value, or one a rank."""
    if len(values) not in (1, table.ranks):
        raise BadInput(f"pipeline.{name}", f"found {len(values)} values", f"1 value, or {table.ranks} (one a rank)")
    return np.resize(values, table.ranks)


def expectations(params: PipelineParams, table: Table, costs: Costs, timing: Timing, limits: np.ndarray | None, rec: Recorder) -> None:
    """What theory says about this table, as facts of kind formula and checks, each where it applies."""
    size, theory = Size(table.ranks, table.microbatches, table.chunks), THEORY[params.schedule]
    apart = np.abs(timing.start - longest_path_starts(table, costs.durations(table), costs.transfer))
    rec.check("start of every action", float(apart.max()), 0.0, 1e-9 * timing.makespan, "longest path over the graph of all dependencies")
    if len(table) <= REPLAYED_ROWS:
        rec.check("actions of a replay with blocking messages", replay(table), len(table), oracle="it ends when no rank can go on")
    peaks, at_input = peak_by_rank(table), peak_by_rank(table, "input")
    want = [theory.held(size, rank) for rank in range(table.ranks)]
    want_at_input = [theory.held_at_input(size, rank) for rank in range(table.ranks)]
    limited = limits is not None and any(most > limit for most, limit in zip(want, limits.tolist(), strict=True))
    if limits is not None:
        within_it = bool((peaks <= limits).all())
        rec.check(
            "chunks held within the memory limit", joined(peaks), f"at most {joined(limits)}", oracle="memory_limit x chunks", ok=within_it
        )
    if not limited:
        rec.check("peak stash by rank", joined(peaks), joined(want), oracle="closed form, each freed at its W")
        rec.check("peak stash by rank, freed at I", joined(at_input), joined(want_at_input), oracle="closed form, each freed at its I")
    sent = 2 * theory.links(size) * table.microbatches * message_bytes(params)
    oracle = "2 directions x links x microbatches x batch x hidden x 4 bytes"
    rec.check("bytes between ranks", rec.recording.fact("p2p_bytes"), sent, oracle=oracle)
    if not limited:
        bubble(table, theory, costs, timing, rec)


def bubble(table: Table, theory: Theory, costs: Costs, timing: Timing, rec: Recorder) -> None:
    """The published bubble, where all chunks are equal, messages take no time, and there are microbatches enough."""
    size = Size(table.ranks, table.microbatches, table.chunks)
    each = [cost for cost in (costs.forward, costs.input_gradient, costs.weight_gradient, costs.overlapped) if cost is not None]
    if any(np.ptp(cost) > 0 for cost in each) or costs.transfer or size.microbatches < theory.fewest(size):
        return
    f, i, w = (float(cost[0]) for cost in each[:3])
    times = Times(f, i, w, float(costs.overlapped[0]) if costs.overlapped is not None else f + i + w)
    idle, ideal = theory.bubble(size, times), size.microbatches * size.chunks * times.chunk
    rec.fact("idle_formula", idle, kind="formula", note=f"{theory.formula}, B = I+W; exact for {theory.exactly_for}")
    if not theory.exact(times):
        return
    lasts = np.where(table.joined, 0.0, timing.end - timing.start)
    most = float((timing.makespan - np.add.reduceat(lasts, table.first[:-1])).max())
    rec.check("idle of the most idle rank", most, idle, 1e-9 * timing.makespan, f"{theory.formula}, with B = I+W")
    if table.joined.any() and times.overlapped < times.chunk:
        return  # ranks with more pairs are less busy: there is no one ratio
    notes = (f"{theory.formula} / makespan", f"{theory.formula} / (vm(F+B))")
    if theory.formula == "(p-1)(F+B)":  # F and B cancel
        notes = ("(p-1)/(m+p-1)", "(p-1)/m") if size.chunks == 1 else ("(p-1)/(vm+p-1)", "(p-1)/(vm)")
    rec.fact("bubble_formula", idle / (ideal + idle), "%", "formula", notes[0])
    rec.fact("bubble_of_ideal_formula", idle / ideal, "%", "formula", notes[1])


def run_model(params: PipelineParams, story: Story, rec: Recorder) -> None:
    """Train a real model of one block a stage through the table, and once more without a pipeline."""
    table = story.table
    reason = too_big(params, table)
    if reason:
        rec.fact("real_model", reason, note="the table is timed, but no tensors run through it")
        return
    from core.training import pipeline_model as model

    work = model.problem(table.depth, table.microbatches, params.batch, params.hidden, rec.generator, rec.device)
    outcome = model.run_table(table, story.timing.order.tolist(), work, lambda: rec.progress(0.8, "running the model"))
    order = accumulation_order(table)
    loss, gradients = model.run_sequentially(work, order)
    unequal, largest = model.differences(outcome.gradients, gradients)
    rec.fact("real_model", "ran", note=f"{table.depth} blocks x + W2 gelu(W1 x), float32")
    rec.fact("loss", float(outcome.loss), note="mean squared error of the whole batch, before the update")
    rec.fact("peak_stash_bytes", max(outcome.live.peak_bytes), "bytes", note="saved by autograd for the blocks, the fullest rank")
    complete = len(gradients) == len(outcome.gradients) == 4 * table.depth
    if order is not None:
        # Every stage adds its gradients up in this order, so they are equal bit for bit to those without a pipeline.
        oracle = "each microbatch through the whole model in turn, bit for bit"
        rec.check("largest difference of a gradient", largest, 0.0, oracle=oracle, ok=unequal == 0 and complete)
        in_turn = order == list(range(table.microbatches))  # forwards are: then the losses add up in the same order, too
        rec.check("loss", float(outcome.loss), float(loss), 0.0 if in_turn else SUMMED_APART * float(loss), oracle)
    else:
        # Two copies each add up their own microbatches and are summed after that: the same numbers in another order.
        scale = max(float(gradient.abs().max()) for gradient in gradients.values())
        oracle = "each microbatch through the whole model in turn; added up in another order"
        rec.check("largest difference of a gradient", largest, 0.0, SUMMED_APART * max(scale, 1.0), oracle, ok=None if complete else False)
        rec.check("loss", float(outcome.loss), float(loss), SUMMED_APART * float(loss), oracle)
    rec.check("live stashes at the peak, by rank", joined(outcome.live.peak), joined(peak_by_rank(table)), oracle="the table's count")


def accumulation_order(table: Table) -> list[int] | None:
    """The microbatches in the order in which every stage adds up their weight gradients; None when stages differ in it."""
    weights = (table.kind == Kind.BACKWARD) | (table.kind == Kind.WEIGHT_GRADIENT)
    orders = {tuple(table.microbatch[weights & (table.stage == stage)].tolist()) for stage in range(table.stages)}
    return list(orders.pop()) if len(orders) == 1 and table.copies == 1 else None


def too_big(params: PipelineParams, table: Table) -> str:
    """Why the real model does not run at this size; '' when it does."""
    parameters = table.depth * (8 * params.hidden**2 + 5 * params.hidden)
    flop = 2 * 6 * parameters * params.batch * params.microbatches
    saved = 9 * BYTES * params.batch * params.hidden * table.depth * params.microbatches  # as if none were freed
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
