"""What the screen shows of an fsdp2 run: two streams a rank, live bytes by part, and who holds which rows of what."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.training.fsdp2_memory import Memory
from core.training.fsdp2_setup import Job
from core.views import Axis, Heatmap, Plot

CURVES = (("in all", "plain", ()), ("activations", "activation", ("activations",)), ("sharded", "optimizer", ("sharded",)))
Held = Mapping[tuple[str, int], object]


class Views:
    """The panels of one run; bytes are those of the full-size model, on the rank that is fullest at the step."""

    def __init__(self, rec: Recorder, job: Job, memory: Memory, fabric: SimulatedFabric) -> None:
        self.rec, self.job, self.memory = rec, job, memory
        self.order = [*job.blocks, *([job.root] if job.root else [])]
        fabric.draw(rec.panel("Compute and comm streams", fabric.lanes(), 2.0))
        self.plot = rec.panel("Live bytes of the fullest rank", Plot("step", "bytes", y_unit="bytes"), 1.6)
        for name, role, _ in CURVES:
            self.plot.curve(name, role, "step")
        ranks = Axis("rank {i}", job.params.ranks)
        groups = Axis.of(*(group.name for group in self.order))
        view = Heatmap(ranks, groups, "%", low=0.0, high=1.0, show="text")
        self.groups = rec.panel("Who holds which part of each group", view, 1.1)
        self._rows()
        self.painted: dict[tuple[int, int], str] = {}

    def paint(self, fullest: int, whole: Held, local: Held, reduced: Mapping[tuple[str, int], Tensor]) -> None:
        """Add the step's point to every curve, and write the cells that differ from those painted."""
        for number, (_, _, parts) in enumerate(CURVES):
            held = sum(int(self.memory.live[part][fullest]) for part in parts) if parts else int(self.memory.total()[fullest])
            self.plot.point(number, self.rec.now + 1, held * self.job.scale)
        for column, group in enumerate(self.order):
            for rank in range(self.job.params.ranks):
                at = group.name, rank
                letters = ("P" if at in whole else "p") + ("G" if at in local else "g" if at in reduced else "")
                if self.painted.get((rank, column)) != letters:
                    self.painted[rank, column] = letters
                    rows = [group.rows(name, rank) for name in group.shapes]
                    empty = all(its.start == its.stop for its in rows)
                    share = 1.0 if "P" in letters else 0.0 if empty else 1 / self.job.params.ranks
                    role = "parameter" if "P" in letters else "gradient" if "g" in letters else "dim" if empty else "optimizer"
                    self.groups.set(rank, column, share, role, letters)

    def _rows(self) -> None:
        """How many rows of each parameter every rank owns; all blocks are cut alike."""
        kinds = [self.job.blocks[0], *([self.job.root] if self.job.root else [])]
        named = [(group, name) for group in kinds for name in group.shapes]
        labels = (f"{'root ' if group is self.job.root else ''}{name}" for group, name in named)
        ranks = Axis("rank {i}", self.job.params.ranks)
        table = self.rec.panel("Rows of each parameter", Heatmap(Axis.of(*labels), ranks, "", low=0.0, show="text"), 1.1, beside=True)
        for row, (group, name) in enumerate(named):
            for rank in range(self.job.params.ranks):
                rows = group.rows(name, rank)
                mine = rows.stop - rows.start
                table.set(row, rank, mine / group.shapes[name][0], "optimizer" if mine else "padding", str(mine))
