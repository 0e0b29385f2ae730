"""Which layouts of a model fit on so many GPUs, and which is the fastest: all of them considered, each refusal explained.

Memory is `core.training.memory_ledger`, time is `core.training.plan_time`; one step of the recording is one layout.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from core.errors import BadInput
from core.formatting import format_value
from core.recording import Recorder
from core.simulation import simulation
from core.training import plan_text as text
from core.training.memory_ledger import Layouts, ledger, total
from core.training.memory_model import RECOMPUTE
from core.training.memory_stages import Stages
from core.training.plan_layouts import groups
from core.training.plan_search import FITS, TOO_LARGE, Found, search
from core.training.plan_setup import Job, PlanParams
from core.training.plan_time import PARTS, step_flop
from core.training.plan_views import draw, frontier, label, reason_of

SAMPLES = 24
"""Layouts whose bytes are counted once more, one by one."""


@simulation("plan")
def plan(params: PlanParams, rec: Recorder) -> None:
    """Which layouts fit on my GPUs, and which is the fastest?"""
    job = Job.of(params, rec.device)
    found = search_all(job, rec)
    order = found.order()
    fitting = int((found.verdict == FITS).sum())
    if not fitting:
        _tell(rec, job, found, order)  # every layout with the reason why it is out
        raise BadInput("plan.gpus", *_nothing_fits(job, found, order))
    facts(rec, job, found, order)
    draw(rec, job, found, order)
    _tell(rec, job, found, order)
    _checks(rec, job, found, order)


def search_all(job: Job, rec: Recorder) -> Found:
    p, experts = job.params, job.model.shape.experts
    every = list(groups(p.gpus, p.global_batch, experts, p.largest_micro_batch, p.expert_tensor_parallel))
    return search(job.model, job.setting, job.machine, every, p.global_batch, p.chunks, lambda done: rec.progress(0.8 * done, "searching"))


def _nothing_fits(job: Job, found: Found, order: np.ndarray) -> tuple[str, str]:
    """The best reason: the layout that misses by least, or the rule that most break."""
    nearest = int(order[0])
    many = f"none of {len(found):,} layouts on {job.params.gpus:,} x {job.machine.device.name} fits"
    if found.verdict[nearest] == TOO_LARGE:
        needs, has = (format_value(size, "bytes") for size in (float(found.bytes[nearest]), job.machine.device.memory))
        degree = degrees(found, nearest)
        where = f"the nearest ({label(found, nearest)}, ZeRO-{degree['zero_stage']}, recompute {degree['recompute']})"
        return f"{many}: {where} needs {needs} of {has}", "more GPUs, a shorter sequence, a smaller model or offload"
    first = [int(np.argmax(found.verdict == code)) for code in np.unique(found.verdict)]
    return f"{many}: {'; '.join(reason_of(found, row)[0] for row in first[:4])}", "sizes that divide"


def facts(rec: Recorder, job: Job, found: Found, order: np.ndarray) -> None:
    """The figures scripts read; those of the best layout carry its name."""
    p, best, layouts = job.params, int(order[0]), found.layouts
    rec.fact("layouts_considered", len(found), "count", note="every factorisation and choice, impossible ones included")
    rec.fact(
        "layouts_fitting", int((found.verdict == FITS).sum()), "count", note=f"into {format_value(job.machine.device.memory, 'bytes')}"
    )
    rec.fact("layouts_too_large", int((found.verdict == TOO_LARGE).sum()), "count")
    rec.fact("layouts_impossible", int((found.verdict > TOO_LARGE).sum()), "count", note="break a rule of divisibility")
    source = "the hardware's figures" if job.measured is None else "rates measured here"
    rec.fact("best_step_time", float(found.seconds[best]), "s", note=f"estimated from {source}")
    if job.measured is not None:
        rec.fact("measured_flops", job.measured.flops, "flop/s", "measured", f"BF16 matmul on {rec.device}, best of several")
        rec.fact("measured_bandwidth", job.measured.bandwidth, "bytes/s", "measured", f"copy on {rec.device}, read and write counted")
    rec.fact("best_layout", label(found, best), note="tensor, pipeline, context, data ranks")
    for name, value in degrees(found, best).items():
        rec.fact(f"best_{name}", value)
    rec.fact("best_total_bytes", float(found.bytes[best]), "bytes", note="of the fullest rank")
    rec.fact("best_exposed_communication", float(found.exposed[best]), "s", note="what compute does not hide")
    for name in PARTS:
        rec.fact("best_time", float(found.parts[name][best]), "s", label=name)
    rec.fact("best_tensor_crosses_nodes", bool(not job.machine.within(layouts.tensor[best : best + 1])[0]))
    used = step_flop(job.model, p.sequence, p.global_batch) / found.seconds[best] / p.gpus
    rec.fact("best_mfu", float(used / job.machine.device.flops["bf16"]), "%", note="model FLOP utilisation, nothing counted twice")
    tokens = p.sequence * p.global_batch / found.seconds[best]
    rec.fact("tokens_per_second", float(tokens), "count", note="on all GPUs together")
    rec.fact("frontier", len(frontier(found)), "count", note="layouts that no other beats in both memory and time")
    rec.fact("parameters", job.model.shape.parameters, "elements")
    for crossing, name in ((False, "in a node"), (True, "across nodes")):
        rows = np.flatnonzero((found.verdict == FITS) & (layouts.tensor > 1) & (job.machine.within(layouts.tensor) != crossing))
        if len(rows):
            rec.fact(
                "best_step_time_tensor",
                float(found.seconds[rows].min()),
                "s",
                label=name.replace(" ", "_"),
                note="fastest with such a tensor group",
            )


def degrees(found: Found, row: int) -> dict[str, int | str | bool]:
    """A layout under the parameter names of `memory`."""
    layouts = found.layouts
    return {
        "data_parallel": int(layouts.data[row]), "zero_stage": int(layouts.zero[row]), "tensor_parallel": int(layouts.tensor[row]),
        "sequence_parallel": bool(layouts.sequence[row]), "pipeline_parallel": int(found.stages[row]),
        "context_parallel": int(layouts.context[row]), "expert_parallel": int(layouts.expert[row]),
        "micro_batch": int(layouts.micro_batch[row]), "recompute": RECOMPUTE[int(layouts.recompute[row])],
    }  # fmt: skip


def _tell(rec: Recorder, job: Job, found: Found, order: np.ndarray) -> None:
    """One opening step, then a block of steps: a layout each."""
    p, device, layouts = job.params, job.machine.device, found.layouts
    verdict = found.verdict[order]
    fitting, large = int((verdict == FITS).sum()), int((verdict == TOO_LARGE).sum())
    rec.phase("the question")
    rec.step(
        text.START, text.START_DETAIL, considered=len(found), model=job.model.shape.name, gpus=p.gpus, device=device.name, fitting=fitting,
        large=large, impossible=len(found) - fitting - large, capacity=device.memory,
    )  # fmt: skip
    n = len(found)
    reasons, allowed = [], []
    for row, code in zip(order.tolist(), verdict.tolist(), strict=True):
        why, may = ("", "") if code == FITS else ("memory", "") if code == TOO_LARGE else reason_of(found, row)
        reasons.append("Sharding, recomputation or more ranks would help." if why == "memory" else why)
        allowed.append(may)
    crossing = np.where(job.machine.within(layouts.tensor[order]), 0, 1)
    words = np.array(["stays within", "crosses"])[crossing]
    columns: dict[str, np.ndarray | list[str]] = {
        "place": np.arange(1, n + 1), "fits": verdict == FITS, "reason": reasons, "allowed": allowed,
        "data_parallel": layouts.data[order].astype(np.int64), "zero_stage": layouts.zero[order].astype(np.int64),
        "tensor_parallel": layouts.tensor[order].astype(np.int64), "sequence_parallel": layouts.sequence[order] > 0,
        "pipeline_parallel": found.stages[order].astype(np.int64), "context_parallel": layouts.context[order].astype(np.int64),
        "expert_parallel": layouts.expert[order].astype(np.int64), "micro_batch": layouts.micro_batch[order].astype(np.int64),
        "microbatches": layouts.microbatches[order].astype(np.int64),
        "recompute": [RECOMPUTE[int(level)] for level in layouts.recompute[order].tolist()],
        "bytes": found.bytes[order], "over": np.maximum(found.bytes[order] - device.memory, 0.0), "seconds": found.seconds[order],
        "exposed": found.exposed[order], "crossing": words.tolist(), "capacity": np.full(n, device.memory), "device": [device.name] * n,
        "node": np.full(n, p.node_size), **{name: found.parts[name][order] for name in PARTS},
    }  # fmt: skip
    kind = np.minimum(verdict, 2)
    for first, name in ((0, "fit"), (fitting, "too large"), (fitting + large, "impossible")):
        if {"fit": fitting, "too large": large, "impossible": n - fitting - large}[name]:
            rec.phase(name, 1 + first)
    templates = [(text.FITS, text.FITS_DETAIL), (text.LARGE, text.LARGE_DETAIL), (text.RULE, text.RULE_DETAIL)]
    rec.steps(templates, kind, None, **columns)


def _checks(rec: Recorder, job: Job, found: Found, order: np.ndarray) -> None:
    """Layouts counted by plain loops, bytes by the ledger for one layout at a time, and the best against every other."""
    p = job.params
    if p.gpus <= 4096:
        by_hand = _count_by_loops(p.gpus, p.global_batch, job.model.shape.experts, p.largest_micro_batch)
        rec.check("layouts considered", len(found), by_hand, oracle="plain loops over all degrees up to the number of GPUs")
    counted = [int(row) for row in order if found.verdict[row] <= TOO_LARGE]
    sample = counted[:4] + counted[4 :: max(1, len(counted) // (SAMPLES - 4))]
    apart = 0.0
    for row in sample:
        stages = int(found.stages[row])
        alone = Layouts.one(**{name: float(getattr(found.layouts, name)[row]) for name in Layouts.__dataclass_fields__})
        lines = ledger(job.model, job.setting, Stages.of(job.model, stages, p.chunks if stages > 1 else 1), alone)
        apart = max(apart, abs(float(total(lines).max()) - float(found.bytes[row])))
    rec.check(f"bytes of {len(sample)} layouts", apart, 0.0, 1.0, "the ledger of `memory` for each of them alone; largest difference")
    fastest = min(float(found.seconds[row]) for row in counted if found.bytes[row] <= job.machine.device.memory)
    rec.check("fastest that fits", float(found.seconds[order[0]]), fastest, oracle="smallest step time over all layouts under the capacity")


def _count_by_loops(gpus: int, global_batch: int, experts: int, largest: int) -> int:
    total_count = 0
    degrees_ = [d for d in range(1, gpus + 1) if gpus % d == 0]
    for pipeline, tensor, context in product(degrees_, degrees_, degrees_):
        if gpus % (pipeline * tensor * context):
            continue
        data = gpus // (pipeline * tensor * context)
        sizes = [b for b in range(1, largest + 1) if global_batch % (data * b) == 0] or [1]
        shares = [e for e in range(1, min(experts, gpus // pipeline) + 1) if experts % e == 0] if experts else [1]
        total_count += len(sizes) * len(shares) * (4 if data * context > 1 else 1) * (2 if tensor > 1 else 1) * 3
    return total_count
