"""Records one collective hop by hop: every message moved, timed, counted and drawn.

The `collectives` simulation records through this, and so does whoever opens the span of a collective of a larger run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from core.fabric import hop_checks
from core.fabric import hop_text as text
from core.fabric.clock import Clocks
from core.fabric.hop_views import HopViews, Place
from core.fabric.hops import Contributors, Phase, Round, Schedule, Transfer
from core.fabric.mover import Chunks, Mover
from core.recording import Recorder


@dataclass
class Collective:
    """One collective to record.

    ``inputs[rank][chunk]`` are the values that move; ``sizes[chunk]`` the elements that are counted and charged, more than
    those when only the first few of each chunk were ``kept``. ``start`` (ranks,) is when each rank is ready, in seconds;
    ``clocks`` knows the links. ``exact`` says that every sum of these values is exact in their dtype.
    """

    schedule: Schedule
    inputs: Mapping[int, Chunks]
    sizes: dict[int, int]
    itemsize: int
    clocks: Clocks
    start: np.ndarray
    divide_by: int = 1
    kept: int | None = None
    exact: bool = False


@dataclass
class Counted:
    """What was counted while it ran: bytes sent by each rank (of which between nodes), messages, rounds with a message, seconds."""

    sent: np.ndarray
    between: int = 0
    hops: int = 0
    rounds: int = 0
    seconds: float = 0.0


class HopByHop:
    """Records one collective: the panels are there at once, `play` moves the messages, `check` compares the outcome."""

    def __init__(self, rec: Recorder, job: Collective) -> None:
        self.rec, self.job, self.schedule = rec, job, job.schedule
        self.mover = Mover(job.schedule, job.inputs, divide_by=job.divide_by)
        self.contributors = Contributors(job.schedule)
        shown = "First value of each chunk" if job.schedule.chunks > 1 else "First value of each array"
        self.views = HopViews(rec, job.schedule, job.sizes, shown=shown)
        self.at = job.start
        self.began = float(job.start.min())
        self.shown_at = self.began
        self.row = 0
        self.crossing = np.zeros(0, dtype=bool)
        self.counted = Counted(np.zeros(job.schedule.ranks, dtype=np.int64))
        self.want = [job.schedule.wanted(rank) for rank in range(job.schedule.ranks)]
        self.places = sum(map(len, self.want))
        self.finished = {(r, c) for r in range(job.schedule.ranks) for c in job.schedule.starting(r) if self._done(r, c)}
        distinct = {c: size for c, size in job.sizes.items() if job.schedule.op != "all_to_all" or c < job.schedule.ranks}
        self.elements = sum(distinct.values())

    def play(self) -> Counted:
        """Move every message in turn, a step for each round; what was counted."""
        schedule, rec = self.schedule, self.rec
        size = float(self.elements * self.job.itemsize * self.job.clocks.scale)
        rec.phase("start")
        self._paint([(rank, chunk) for rank in range(schedule.ranks) for chunk in schedule.starting(rank)])
        self._facts()
        rec.step(*text.START[schedule.op], time=self.began, ranks=schedule.ranks, elements=self.elements, size=size, root=schedule.root)
        for number, phase in enumerate(schedule.phases):
            if number == schedule.settled:
                self._settle(schedule.phases[:number], more=bool(phase.rounds))
            if phase.rounds:
                rec.phase(phase.name)
                for hop, transfers in enumerate(phase.rounds, 1):
                    self._round(phase, hop, transfers)
        if schedule.settled == len(schedule.phases):
            self._settle(schedule.phases, more=False)
        self._end()
        return self.counted

    def check(self) -> None:
        """Values, contributors and bytes against independent computations."""
        hop_checks.contributors(self.rec, self.schedule, self.contributors)
        hop_checks.values(self.rec, self.schedule, self.job.inputs, self.mover, self.job.divide_by, exact=self.job.exact)

    def _round(self, phase: Phase, hop: int, transfers: Round) -> None:
        """Move the messages of one round, then time and draw those that carry anything."""
        moved = self.mover.round(transfers)
        self.contributors.round(transfers)
        if self.job.kept is not None:
            moved = [sum(self.job.sizes[c] for c in t.chunks) * self.job.itemsize for t in transfers]
        row, self.row = self.row, self.row + 1
        landed = [(t.target, c) for t in transfers for c in t.chunks]
        spent = [(t.source, c) for t in transfers if t.mode == "reduce" for c in t.chunks]
        self.finished.update(place for place in landed if self._done(*place))
        self._paint(dict.fromkeys([*spent, *landed]))
        going = [t for t, size in zip(transfers, moved, strict=True) if size]
        if going:
            size = np.array([size for size in moved if size], dtype=np.int64)
            self._time(going, size, row)
            self._facts()
            self._tell(phase, hop, going, size)

    def _time(self, going: list[Transfer], size: np.ndarray, row: int) -> None:
        """Let the messages that carry anything cross their links; count them and draw them."""
        source = np.fromiter((t.source for t in going), np.int64, len(going))
        target = np.fromiter((t.target for t in going), np.int64, len(going))
        clocks, counted = self.job.clocks, self.counted
        times = clocks.round(self.at, source, target, size)
        self.at = times.after
        np.add.at(counted.sent, source, size)
        self.crossing = clocks.node[source] != clocks.node[target]
        counted.between += int(size[self.crossing].sum())
        counted.hops += len(going)
        counted.rounds += 1
        counted.seconds = float(self.at.max()) - self.began
        self.views.messages(row, going, size * clocks.scale, source, target, times)
        self.shown_at = max(self.shown_at, float(times.start.min()))

    def _tell(self, phase: Phase, hop: int, going: list[Transfer], size: np.ndarray) -> None:
        first = going[0]
        across = self.job.clocks.inter_link is not None
        title, detail = (text.ROUND_ACROSS_NODES if across else text.ROUND)[self.schedule.algorithm, phase.name]
        self.rec.step(
            title,
            detail,
            time=self.shown_at,
            hop=hop,
            hops=len(phase.rounds),
            source=first.source,
            target=first.target,
            chunk=self.views.column(first.chunks[0]),
            chunks=len(first.chunks),
            size=float(size[0]) * self.job.clocks.scale,
            messages=len(going),
            between_nodes=int(self.crossing.sum()),
            after=self.contributors.held[first.target].get(first.chunks[0], 0).bit_count(),
            distance=abs(first.target - first.source),
            ranks=self.schedule.ranks,
            root=self.schedule.root,
            finished=len(self.finished),
            places=self.places,
        )

    def _settle(self, before: tuple[Phase, ...], *, more: bool) -> None:
        """Sums are finished; say so where more is to come."""
        self.mover.settle()
        held = [set(chunks) for chunks in self.contributors.held]
        self.contributors.settle(self.schedule)
        gone = [(rank, chunk) for rank, chunks in enumerate(held) for chunk in chunks - set(self.contributors.held[rank])]
        divided = [(rank, chunk) for rank, chunks in self.schedule.owners for chunk in chunks] if self.job.divide_by > 1 else []
        self._paint([*gone, *divided])
        summed = [phase for phase in before if phase.rounds]
        if not more or not summed:
            return
        title, detail = text.HALFWAY[summed[-1].name]
        self.shown_at = max([self.shown_at, *(float(self.at[rank]) for rank, _ in self.schedule.owners)])
        sent = float(self.counted.sent.max()) * self.job.clocks.scale
        self.rec.step(title, detail, time=self.shown_at, ranks=self.schedule.ranks, root=self.schedule.root, sent=sent)

    def _end(self) -> None:
        self.rec.phase("done")
        counted = self.counted
        self.views.finish()
        self.rec.step(
            *text.DONE[self.schedule.op],
            time=max(self.shown_at, float(self.at.max())),
            ranks=self.schedule.ranks,
            root=self.schedule.root,
            messages=counted.hops,
            hops=counted.rounds,
            seconds=counted.seconds,
            sent=float(counted.sent.max()) * self.job.clocks.scale,
        )

    def _facts(self) -> None:
        """The counters as they stand after this step."""
        rec, counted = self.rec, self.counted
        scale = self.job.clocks.scale
        sent = counted.sent.max() * scale
        rec.fact(
            "bytes_sent_per_rank", float(sent) if scale != 1 else int(sent), "bytes", note="by the busiest rank, counted message by message"
        )
        rec.fact("hops", counted.hops, "count", note="messages; those of one round travel at the same time")
        rec.fact("rounds", counted.rounds, "count", note="one after another: what latency is paid for")
        rec.fact("time", counted.seconds, "s", note="from the first rank ready to the last one done")
        rec.fact("finished_chunks", len(self.finished), "count", note=f"of {self.places} places that are to hold a finished chunk")

    def _done(self, rank: int, chunk: int) -> bool:
        return self.contributors.held[rank].get(chunk) == self.want[rank].get(chunk, -1)

    def _paint(self, places: Iterable[Place]) -> None:
        """Draw ``places`` with the first of the values that are really there."""
        first: dict[Place, float | int | None] = {}
        for rank, chunk in places:
            if chunk in self.contributors.held[rank] and self.job.sizes[chunk]:
                value = self.mover.value(rank, chunk)
                first[rank, chunk] = (value if value.dim() == 1 else value.flatten())[0].item()
        self.views.paint(places, self.contributors, first)
