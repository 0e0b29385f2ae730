"""What the screen shows of a DDP run: both streams of every rank, what each bucket holds, and what other bucket sizes would cost."""

from __future__ import annotations

from collections.abc import Sequence

from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.training.ddp_buckets import MIB, Bucket, assign
from core.training.ddp_setup import Job
from core.training.ddp_timing import sweep, time_iteration
from core.views import Axis, Breakdown, Plot

PARTS = (("to come", "dim"), ("ready", "gradient"), ("on the wire", "comm"), ("averaged", "kept"))
DOUBLINGS = 9
"""Bucket sizes of the sweep: the whole model, a half of it, a quarter, ..."""


class Views:
    """The panels of one run, painted from what each bucket holds on rank 0: all ranks are alike."""

    def __init__(self, rec: Recorder, job: Job, fabric: SimulatedFabric, order: Sequence[int], bars: int) -> None:
        self.fabric = fabric
        fabric.draw(rec.panel("Compute and comm streams", fabric.lanes(), 2.2))
        self.bars = rec.panel("What each bucket holds", Breakdown(Axis("bucket {i}", bars), PARTS, "bytes"), 1.2)
        plot = Plot("bucket size (MiB)", "exposed communication", y_unit="s", x_log=True)
        self.plot = rec.panel("Exposed time by bucket size", plot, 1.2, beside=True)
        self.sizes: dict[int, int] = {}
        self.missing: dict[int, int] = {}
        self.ends: dict[int, float] = {}
        self.painted: dict[tuple[int, int], float] = {}
        self._sweep(job, order)

    def rebuilt(self, buckets: Sequence[Bucket], sizes: Sequence[int]) -> None:
        """There are new buckets."""
        self.sizes = {bucket.number: sum(sizes[index] for index in bucket.parameters) for bucket in buckets}
        self.begin()

    def begin(self) -> None:
        """A new backward is to come: nothing is ready."""
        self.missing = dict(self.sizes)
        self.ends = {}

    def filled(self, bucket: int, missing: int) -> None:
        """``missing`` bytes of this bucket are still to come."""
        self.missing[bucket] = missing

    def on_the_wire(self, bucket: int) -> None:
        """The all-reduce issued last is this bucket's; its end is when the comm streams are free again."""
        self.ends[bucket] = float(self.fabric.clocks.comm.max())

    def ended(self, time: float) -> None:
        """All buckets have been waited for."""
        self.ends = {bucket: min(end, time) for bucket, end in self.ends.items()}

    def paint(self, time: float) -> None:
        """Write the bars that differ from those painted, as they are at ``time``."""
        for bucket in range(len(self.bars.bars)):
            size = self.sizes.get(bucket, 0)
            missing = self.missing.get(bucket, 0)
            end = self.ends.get(bucket)
            state = 1 if end is None else 2 if end > time else 3
            values = [float(missing), 0.0, 0.0, 0.0]
            values[state] += size - missing
            for part, value in enumerate(values):
                if self.painted.get((bucket, part)) != value:
                    self.painted[bucket, part] = value
                    self.bars.set(bucket, part, value)

    def _sweep(self, job: Job, order: Sequence[int]) -> None:
        """The same iteration with other bucket sizes, on the clocks alone, and this run's own size among them."""
        first, own = job.limits
        whole = sum(job.plan.sizes)
        limits = sorted({max(whole >> k, 1) for k in range(DOUBLINGS)})
        curve = self.plot.curve("any bucket size", "comm")
        for limit, timed in zip(limits, sweep(job.plan, order, first, limits), strict=True):
            self.plot.point(curve, limit / MIB, timed.exposed)
        own = min(own, whole)
        mine = self.plot.curve("this run, once rebuilt", "own", "scatter")
        timed = time_iteration(job.plan, assign(order, job.plan.sizes, *job.limits))
        self.plot.point(mine, own / MIB, timed.exposed)
        self.plot.cursor(own / MIB)
