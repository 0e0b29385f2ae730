"""What it takes to open a collective hop by hop later: its tensors as they were when it was issued."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import torch

from core.fabric.clock import Clocks
from core.fabric.hops import Schedule
from core.fabric.mover import Mover

if TYPE_CHECKING:
    from core.recording import Recording

WHOLE_BYTES = 1 << 18
"""A collective keeps all its values up to so many bytes on all ranks together; beyond, the first few of every chunk."""
SLICE_BYTES = 1 << 14
"""Bytes of values that a larger collective keeps, at least one value of every chunk."""
TOTAL_BYTES = 1 << 26
"""Bytes that one run keeps; the collectives after that do not open."""
MOST_MESSAGES = 20_000
"""A collective of more messages does not open."""


class Drill:
    """Makes the recording of one collective when it is called, once; every rank's span opens the same one."""

    def __init__(self, schedule: Schedule, clocks: Clocks, start: np.ndarray, divide_by: int) -> None:
        self.schedule, self.start, self.divide_by = schedule, start, divide_by
        self.clocks = copy(clocks)  # links and scale as they are now
        self.clocks.gantt = None
        self.values: dict[int, torch.Tensor] = {}
        self.lengths: dict[int, list[int]] = {}
        self.sizes: dict[int, int] = {}
        self.kept: int | None = None
        self.itemsize = 0
        self._recording: Recording | None = None

    def snapshot(self, mover: Mover) -> int:
        """Copy what the ranks bring along, or the beginning of every chunk; bytes kept."""
        pieces = {rank: [mover.inputs[rank][c].reshape(-1) for c in self.schedule.starting(rank)] for rank in mover.inputs}
        numbers = [piece.numel() for row in pieces.values() for piece in row]
        self.itemsize = next(piece.element_size() for row in pieces.values() for piece in row)
        if sum(numbers) * self.itemsize > WHOLE_BYTES:
            self.kept = max(SLICE_BYTES // (len(numbers) * self.itemsize), 1)
        for rank, row in pieces.items():
            self.sizes.update(zip(self.schedule.starting(rank), (piece.numel() for piece in row), strict=True))
            short = [piece[: self.kept] for piece in row] if self.kept is not None else row
            self.lengths[rank] = [piece.numel() for piece in short]
            if short:
                self.values[rank] = torch.cat(short)
        return sum(values.nbytes for values in self.values.values())

    def __call__(self) -> Recording:
        if self._recording is None:
            self._recording = self._record()
            self.values = {}
        return self._recording

    def _record(self) -> Recording:
        from core.fabric.hop_by_hop import Collective, HopByHop
        from core.recording import Recorder, Recording

        schedule = self.schedule
        inputs = {
            rank: dict(zip(schedule.starting(rank), torch.split(self.values[rank], self.lengths[rank]), strict=True))
            if rank in self.values
            else {}
            for rank in range(schedule.ranks)
        }
        kind = str(next(iter(self.values.values())).dtype).removeprefix("torch.")
        mine = {c: size for c, size in self.sizes.items() if schedule.op != "all_to_all" or c < schedule.ranks}
        params = {
            "op": schedule.op,
            "algorithm": schedule.algorithm,
            "ranks": schedule.ranks,
            "elements": sum(mine.values()),
            "dtype": kind,
        }
        recording = Recording("collectives", params)
        rec = Recorder(recording)
        recording.time_unit = "s"
        job = Collective(schedule, inputs, self.sizes, self.itemsize, self.clocks, self.start, self.divide_by, self.kept)
        if self.kept is not None:
            rec.fact("values_kept", self.kept, "elements", note="the first of every chunk; bytes and times are those of the whole arrays")
        if self.clocks.scale != 1:
            rec.fact(
                "scale", self.clocks.scale, note="bytes of the full-size model that each byte moved stands for; sizes are the full ones"
            )
        if self.divide_by > 1:
            rec.fact("divided_by", self.divide_by, "count", note="the finished sums, which makes them averages")
        run = HopByHop(rec, job)
        run.play()
        run.check()
        recording.state = "finished"
        return recording


class Keeper:
    """Takes the snapshots of one run, within its bounds, while its schedule is being drawn."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.bytes = 0

    def keep(self, mover: Mover, start: np.ndarray) -> Drill | None:
        """What opens the collective that ``mover`` is about to run, or None: not drawn, too large, a maximum, without values."""
        schedule = mover.schedule
        drawn = self.clocks.gantt is not None and self.clocks.link is not None and schedule.messages
        replayed = not mover.largest and not any(piece.is_meta for pieces in mover.inputs.values() for piece in pieces.values())
        if not drawn or not replayed or self.bytes >= TOTAL_BYTES or schedule.messages > MOST_MESSAGES:
            return None
        drill = Drill(schedule, self.clocks, start, mover.divide_by)
        self.bytes += drill.snapshot(mover)
        return drill
