"""Collectives hop by hop: real values move as an algorithm says, and are counted, timed and held against the formulas.

Why do data parallelism and ZeRO-2 choose different primitives? Because responsibility for the update differs: whoever
updates everything needs the whole sum, whoever updates a shard needs a chunk of it.
"""

from __future__ import annotations

import numpy as np

from core.fabric import cost
from core.fabric.clock import Clocks
from core.fabric.hop_by_hop import Collective, Counted, HopByHop
from core.fabric.schedules import algorithms_of, build
from core.recording import FactKind, Recorder
from core.simulation import simulation
from core.training.collectives_setup import CollectivesParams, Job
from core.views import Cell, Column, Plot, Table

_FORMULA = (
    "{ranks:count} ranks, by formula: the values were not moved",
    "{reason}. Every rank sends up to {sent:bytes} in {rounds:count} rounds one after the other, {seconds:s} on {link}.",
)
_CURVE_ROLES = ("comm", "forward", "backward", "weight")


@simulation("collectives")
def collectives(params: CollectivesParams, rec: Recorder) -> None:
    """Who ends with what, and what does it cost? Collectives moved hop by hop."""
    record_collective(params, rec)


def record_collective(params: CollectivesParams, rec: Recorder, *, check: bool = True) -> Counted | None:
    """Record one collective; without ``check`` nothing is compared. None when it is too large to be moved."""
    job = Job.of(params)
    rec.recording.time_unit = "s"
    rec.fact("array_bytes", job.size, "bytes", note="S, the whole array: the gathered output, the scattered input")
    if job.too_large:
        _by_formula(rec, job)
        return None
    schedule = build(params.op, params.algorithm, params.ranks)
    inputs, sizes = job.inputs(schedule, rec.generator, rec.device)
    clocks = Clocks(params.ranks, job.link, 1.0, inter_link=job.inter, node_size=job.node_size)
    start = np.zeros(params.ranks)
    run = HopByHop(rec, Collective(schedule, inputs, sizes, job.dtype.itemsize, clocks, start, exact=job.exact))
    _algorithms(rec, job)
    counted = run.play()
    _closing_facts(rec, job, counted)
    if check:
        run.check()
        _against_formulas(rec, job, counted)
    return counted


def _closing_facts(rec: Recorder, job: Job, counted: Counted) -> None:
    """What only the finished collective knows."""
    rec.fact("bytes_sent_total", int(counted.sent.sum()), "bytes", note="on the wire, by all ranks together")
    if job.inter is not None:
        rec.fact("bytes_between_nodes", counted.between, "bytes", note=f"of them over {job.inter.name}")
    _bandwidths(rec, job, counted.seconds, "simulated")
    rec.fact("values_moved", True, note="every message carried its values")


def _bandwidths(rec: Recorder, job: Job, seconds: float, kind: FactKind) -> None:
    """Both of nccl-tests; one rank has none, for nothing travels."""
    algorithm = job.size / seconds if seconds else None
    bus = algorithm * cost.bus_factor(job.op, job.params.ranks) if algorithm is not None else None
    rec.fact("algorithm_bandwidth", algorithm, "bytes/s", kind, "S / time (nccl-tests)")
    factor = cost.bus_factor(job.op, job.params.ranks)
    rec.fact(
        "bus_bandwidth",
        bus,
        "bytes/s",
        kind,
        f"algorithm bandwidth x {factor:.4g}: comparable with the link's, whatever the op (nccl-tests)",
    )


def _by_formula(rec: Recorder, job: Job) -> None:
    """Too large to be moved: the closed forms answer, and say so."""
    p, item = job.params, job.dtype.itemsize
    sent = cost.busiest_elements(p.op, p.algorithm, p.ranks, p.elements) * item
    total = float(cost.total_elements(p.op, p.algorithm, p.ranks, p.elements) * item)
    turns, seconds = cost.rounds(p.op, p.algorithm, p.ranks, p.elements), job.seconds(p.algorithm)
    bound = "" if cost.is_exact(p.op, p.algorithm, p.ranks, p.elements, job.node_size) else "at most: "
    rec.fact("bytes_sent_per_rank", sent, "bytes", "formula", "by the busiest rank")
    rec.fact("bytes_sent_total", total, "bytes", "formula", "on the wire, by all ranks together")
    rec.fact("hops", cost.messages(p.op, p.algorithm, p.ranks, p.elements), "count", "formula", "messages")
    rec.fact("rounds", turns, "count", "formula", "one after another")
    rec.fact("time", seconds, "s", "formula", f"{bound}alpha x rounds + bytes / bandwidth")
    _bandwidths(rec, job, seconds, "formula")
    rec.fact("values_moved", False, note=job.too_large)
    _algorithms(rec, job)
    links = job.link.name if job.inter is None else f"{job.link.name} and {job.inter.name}"
    rec.phase("by formula")
    rec.step(
        *_FORMULA, time=0.0, ranks=p.ranks, reason=job.too_large[0].upper() + job.too_large[1:], sent=float(sent), rounds=turns,
        seconds=seconds, link=links,
    )  # fmt: skip
    want = cost.bus_factor(p.op, p.ranks) * p.elements * item
    if p.op in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all") and p.algorithm in ("ring", "direct"):
        rec.check("bytes of a rank against bus bandwidth x time", sent, want, 1e-9 * want, "nccl-tests doc/PERFORMANCE.md")


def _algorithms(rec: Recorder, job: Job) -> None:
    """All algorithms of this collective side by side, and their time over the size of the array."""
    p, item = job.params, job.dtype.itemsize
    columns = [Column("algorithm", align="left"), Column("time", "s"), Column("rounds"), Column("sends", "bytes")]
    table = rec.panel("Every algorithm by formula", Table(columns), 0.8)
    plot = rec.panel("Time against size", Plot("array", "time", x_unit="bytes", y_unit="s", x_log=True, y_log=True), 0.8, beside=True)
    sizes = np.unique(np.round(np.logspace(3, 10, 43) / item).astype(np.int64))
    known = algorithms_of(p.op)
    for row, algorithm in enumerate(known):
        sent = cost.busiest_elements(p.op, algorithm, p.ranks, p.elements) * item
        turns = cost.rounds(p.op, algorithm, p.ranks, p.elements)
        table.row(Cell(algorithm), job.seconds(algorithm), turns, float(sent), step=0)
        curve = plot.curve(algorithm, _CURVE_ROLES[row])
        times = np.array([job.seconds(algorithm, size) for size in sizes.tolist()])
        plot.points(curve, sizes * float(item), times, np.zeros(len(sizes), dtype=np.int64))
    table.light(known.index(p.algorithm), step=0)
    plot.cursor(float(job.size), step=0)


def _against_formulas(rec: Recorder, job: Job, counted: Counted) -> None:
    """What was counted message by message equals the closed forms."""
    p, item = job.params, job.dtype.itemsize
    n, s = p.ranks, p.elements
    total = cost.total_elements(p.op, p.algorithm, n, s) * item
    rec.check("bytes on the wire, all ranks, counted hop by hop", int(counted.sent.sum()), total, 0.0, "formula")
    busiest = cost.busiest_elements(p.op, p.algorithm, n, s) * item
    room = 0.0 if s % n == 0 else float(n * item)
    rec.check("bytes of the busiest rank", int(counted.sent.max()), busiest, room, "formula; chunks that differ by one element leave room")
    if s >= n:
        rec.check("messages", counted.hops, cost.messages(p.op, p.algorithm, n, s), 0.0, "formula")
        rec.check("rounds", counted.rounds, cost.rounds(p.op, p.algorithm, n, s), 0.0, "formula")
    want = job.seconds(p.algorithm)
    near = 1e-9 * want
    if cost.is_exact(p.op, p.algorithm, n, s, job.node_size):
        rec.check("time from the clocks", counted.seconds, want, near, "alpha x rounds + bytes / bandwidth of the busiest path")
    else:
        oracle = "alpha x rounds + bytes / bandwidth, each round at its slowest link"
        rec.check("time from the clocks", counted.seconds, f"at most {want:.6g}", near, oracle, ok=counted.seconds <= want + near)
