"""What a recorded collective is held against: who contributed to what, and the same result from whole arrays at once."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from core.fabric.hops import Contributors, Schedule
from core.fabric.mover import Chunks, Mover
from core.recording import Recorder


def contributors(rec: Recorder, schedule: Schedule, got: Contributors) -> None:
    """Every chunk that a rank must end with has exactly the right contributors, each once."""
    wrong = sum(got.held[rank].get(chunk) != mask for rank in range(schedule.ranks) for chunk, mask in schedule.wanted(rank).items())
    rec.check("chunks with a missing or foreign contributor", wrong, 0, 0.0, "bitmask of contributors that each chunk must end with")
    rec.check("contributions that arrived twice", got.twice, 0, 0.0, "bitmask of contributors, replayed message by message")


def values(rec: Recorder, schedule: Schedule, inputs: Mapping[int, Chunks], mover: Mover, divide_by: int, *, exact: bool) -> None:
    """The results on every rank equal whole-array arithmetic: exactly, or (sums that round) within the rounding bound."""
    kind = next(t.dtype for chunks in inputs.values() for t in chunks.values())
    sums = schedule.op in ("all_reduce", "reduce_scatter", "reduce")
    whole = exact or not sums or not kind.is_floating_point
    worst = 0.0
    wanted: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
    for rank in range(schedule.ranks):
        for chunk in schedule.wanted(rank):
            if chunk not in wanted:
                wanted[chunk] = _expected(schedule, inputs, chunk, divide_by, sums=sums, whole=whole)
            want, bound = wanted[chunk]
            got = mover.results[rank].get(chunk)
            if got is None or got.numel() != want.numel():
                worst = float("inf")
            elif bound is None:
                worst = max(worst, 0.0 if torch.equal(got.reshape(-1), want) else _distance(got, want))
            else:
                error = (got.reshape(-1).double() - want).abs() / bound
                worst = max(worst, float(error.nan_to_num(nan=float("inf")).max()) if len(error) else 0.0)
    if whole:
        oracle = "torch: all arrays summed in int64" if sums and (exact or not kind.is_floating_point) else "the array itself"
        rec.check("values on every rank, largest difference", worst, 0.0, 0.0, oracle)
    else:
        oracle = "torch: all arrays summed in fp64; 1 is the largest error that rounding every partial sum allows"
        rec.check("values on every rank, in units of the rounding bound", worst, "at most 1", 1.0, oracle, ok=worst <= 1)


def _expected(
    schedule: Schedule, inputs: Mapping[int, Chunks], chunk: int, divide_by: int, *, sums: bool, whole: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What ``chunk`` must be: in its own dtype when exact, else in fp64 with the rounding bound of each element."""
    if not sums:
        source = schedule.root if schedule.op == "broadcast" else chunk // schedule.ranks if schedule.op == "all_to_all" else chunk
        return inputs[source][chunk].reshape(-1), None
    parts = [inputs[rank][chunk].reshape(-1) for rank in range(schedule.ranks)]
    if whole:
        total = torch.zeros(parts[0].shape, dtype=torch.int64, device=parts[0].device)
        for part in parts:
            total += part.long()
        kind = parts[0].dtype
        return (total.to(kind) if divide_by == 1 else total.double().div(divide_by).to(kind)), None
    total = torch.zeros(parts[0].shape, dtype=torch.float64, device=parts[0].device)
    size = torch.zeros_like(total)
    for part in parts:
        total += part.double()
        size += part.double().abs()
    roundings = schedule.ranks + (divide_by > 1)
    tiny = torch.finfo(parts[0].dtype).tiny
    bound = roundings * torch.finfo(parts[0].dtype).eps * size / divide_by + tiny
    return total / divide_by, bound


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.reshape(-1).double() - want.double()).abs().nan_to_num(nan=float("inf")).max())
