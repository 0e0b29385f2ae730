"""How a timed pipeline table is told: its steps with their reasons, the panels, and the facts that grow with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from string import Formatter

import numpy as np

from core.recording import Recorder
from core.training.pipeline_text import Reason, marks, pick
from core.training.schedules import Kind, Table
from core.training.timing import Timing, held
from core.views import EMPTY, Axis, Cell, Column, Gantt, Plot, TableFrame, View

ROLES = ("forward", "backward", "backward", "weight")
NAMES = ("forward", "backward", "input gradient", "weight gradient")
DRAWN_RANKS = 8
"""Curves that a plot can tell apart."""


@dataclass(frozen=True)
class Story:
    """A table in time, with what follows from both. Arrays are (actions,), in the table's order unless said otherwise."""

    table: Table
    timing: Timing
    copies: int
    message_bytes: int

    @cached_property
    def in_time(self) -> np.ndarray:
        """(steps,) the rows of the table by start, then rank: step i shows row in_time[i]."""
        return np.lexsort((np.arange(len(self.table)), self.table.rank, self.timing.start))

    @cached_property
    def step_of(self) -> np.ndarray:
        """The step that shows each row."""
        steps = np.empty(len(self.table), dtype=np.int64)
        steps[self.in_time] = np.arange(len(self.table))
        return steps

    @cached_property
    def stash(self) -> tuple[np.ndarray, np.ndarray]:
        return held(self.table)

    @cached_property
    def sent_bytes(self) -> np.ndarray:
        """Bytes that each row sends to another rank when it ends."""
        sent = np.zeros(len(self.table), dtype=np.int64)
        source, rank = self.timing.source, self.table.rank
        sent[source[(source >= 0) & (rank[source] != rank)]] = self.message_bytes
        return sent

    @cached_property
    def reason(self) -> np.ndarray:
        """Why each row starts when it does, as `Reason`."""
        table, timing, source = self.table, self.timing, self.timing.source
        rank, first_backward = table.rank, first_of(table, backward=True)
        reason = np.where(timing.arrived > timing.free, Reason.WAITED, Reason.WAS_THERE)
        here = (source >= 0) & (rank[source] == rank)
        reason[here] = Reason.SAME_RANK
        reason[here & (table.kind[source] != table.kind) & (table.kind[source] == Kind.FORWARD)] = Reason.LOSS
        reason[source < 0] = Reason.AT_HAND
        reason[(source < 0) & (timing.free == 0)] = Reason.ENTERS
        if table.ranks > 1:
            left = self.forwards[first_backward] < table.chunks * table.microbatches
            reason[first_backward] = Reason.FREES_EARLY if left else Reason.FREES_LATE
        return reason

    @cached_property
    def forwards(self) -> np.ndarray:
        """How many forwards the row's rank has run, this row included."""
        return per_rank_sum(self.table, (self.table.kind == Kind.FORWARD).astype(np.int64))


def first_of(table: Table, *, backward: bool, after: int = 0) -> int:
    """Rank 0's first row from ``after`` on that is a backward (else a forward); ``after`` when it has none."""
    forward = table.kind[after : table.first[1]] == Kind.FORWARD
    return after + int(np.argmax(forward != backward))


def tell(story: Story, rec: Recorder) -> None:
    """Write panels, phases, facts and steps: one step an action, by start, then rank."""
    table, timing = story.table, story.timing
    rec.panel("Schedule", schedule_panel(story), weight=1.4)
    rec.panel("Activations held", stash_panel(story))
    rec.panel("By rank", RankTable(story), beside=True)
    phases(story, rec)
    facts(story, rec)
    rows, source = story.in_time, timing.source
    during, after = story.stash
    rank = table.rank
    following = first_of(table, backward=False, after=first_of(table, backward=True))
    templates, said = pick(table, timing, story.reason)
    columns = {
        "source": rank[source],
        "sent": timing.end[source],
        "arrived": timing.arrived,
        "transfer": timing.transfer,
        "free": timing.free,
        "wait": timing.start - timing.free,
        "held": np.where(table.kind == Kind.FORWARD, during, after),
        "peak": during,
        "forwards": story.forwards,
        "all_forwards": np.full(len(table), table.chunks * table.microbatches),
        "next": np.full(len(table), table.microbatch[following]),
    }
    mentioned = {field for template in templates for sentence in template for _, field, _, _ in Formatter().parse(sentence)}
    rec.steps(
        templates,
        said[rows],
        timing.start[rows],
        rank=rank[rows],
        microbatch=table.microbatch[rows],
        chunk=table.chunk_of[table.stage][rows],
        stage=table.stage[rows],
        action=[NAMES[number] for number in table.kind[rows].tolist()],
        **{name: column[rows] for name, column in columns.items() if name in mentioned},
    )


def schedule_panel(story: Story) -> Gantt:
    """One lane a rank; a letter for what runs, the chunk's mark, the microbatch's number."""
    table, timing, rows = story.table, story.timing, story.in_time
    gantt = Gantt(Axis("rank {i}", table.ranks))
    texts = [text for kind in Kind for text in marks(kind.letter, table.chunks)]
    gantt.spans(
        table.rank[rows],
        timing.start[rows],
        timing.end[rows],
        table.kind[rows],
        (table.kind * table.chunks + table.chunk_of[table.stage])[rows],
        table.microbatch[rows],
        np.arange(len(table)),
        roles=ROLES,
        texts=texts,
    )
    return gantt


def stash_panel(story: Story) -> Plot:
    """Activations held over time: the largest of all ranks so far, and a curve a rank (of many: some, evenly spread)."""
    table, timing, rows = story.table, story.timing, story.in_time
    during, after = story.stash
    plot = Plot("time", "activations held")
    peak = plot.curve("peak so far", "plain", "step")
    plot.points(peak, timing.start[rows], np.maximum.accumulate(during[rows]), np.arange(len(table)))
    for number, rank in enumerate(spread(table.ranks)):
        mine = slice(table.first[rank], table.first[rank + 1])
        forward = table.kind[mine] == Kind.FORWARD
        curve = plot.curve(f"rank {rank}", f"group{number}", "step")
        plot.points(
            curve,
            np.where(forward, timing.start[mine], timing.end[mine]),
            np.where(forward, during[mine], after[mine]),
            story.step_of[mine],
        )
    return plot


def spread(ranks: int) -> list[int]:
    """Every rank, or `DRAWN_RANKS` of them from the first to the last."""
    return list(range(ranks)) if ranks <= DRAWN_RANKS else np.linspace(0, ranks - 1, DRAWN_RANKS).round().astype(int).tolist()


def phases(story: Story, rec: Recorder) -> None:
    """A rank warms up until its first backward and cools down after its last forward.

    The recording's warm-up ends when the first rank has done with its own, its cool-down begins when the last rank comes to
    its own; GPipe, whose backwards begin after all forwards, has nothing in between.
    """
    kind = story.table.kind[story.in_time]
    first_backward = int(np.argmax(kind != Kind.FORWARD))
    after_forwards = int(len(kind) - np.argmax(kind[::-1] == Kind.FORWARD))
    rec.phase("warm-up", 0)
    if after_forwards > first_backward:
        rec.phase("steady", first_backward)
    rec.phase("cool-down", max(first_backward, after_forwards))


def facts(story: Story, rec: Recorder) -> None:
    """The facts as series: each counts the actions up to its step, so the last value is the whole schedule's."""
    table, timing, rows = story.table, story.timing, story.in_time
    during, after = story.stash
    makespan = np.maximum.accumulate(timing.end[rows])
    busy = np.cumsum((timing.end - timing.start)[rows])
    idle = table.ranks * makespan - busy
    peak = np.maximum.accumulate(during[rows])
    peak_at_input = np.maximum.accumulate(held(table, "input")[0][rows])
    rec.fact_column("makespan", makespan, note="end of the last action so far")
    rec.fact_column("bubble_of_makespan", idle / (table.ranks * makespan), "%", note="idle of all ranks / (ranks x makespan)")
    rec.fact_column("peak_stash", peak, "chunks", note="activations on the fullest rank, each freed when its weights have their gradient")
    rec.fact_column("stash_held", np.where(table.kind == Kind.FORWARD, during, after)[rows], "chunks", note="on this step's rank")
    rec.fact_column("bubble_of_ideal", idle / busy, "%", note="idle of all ranks / their busy time")
    rec.fact_column("own_span_idle", np.maximum.accumulate(own_idle(story)[rows]), note="most of any rank, first to last action")
    rec.fact_column("makespan_model_time", makespan / table.chunks, note="makespan / chunks: one model on every schedule")
    rec.fact_column("peak_stash_microbatches", peak / table.chunks, "microbatches", note="peak_stash / chunks")
    rec.fact_column("peak_stash_freed_at_input", peak_at_input, "chunks", note="if freed when the input has its gradient")
    rec.fact_column("p2p_bytes", np.cumsum(story.sent_bytes[rows]), "bytes", note="sent between ranks, both directions, all ranks together")
    rec.fact("parameter_copies", story.copies, note="of a stage, over all ranks")


def own_idle(story: Story) -> np.ndarray:
    """Idle of the row's rank between its first action and this one."""
    waits = story.timing.start - story.timing.free
    waits[story.table.first[:-1]] = 0.0
    return per_rank_sum(story.table, waits)


def per_rank_sum(table: Table, values: np.ndarray) -> np.ndarray:
    """The running sum of ``values`` down each rank's rows."""
    total = np.cumsum(values)
    before = total[table.first[:-1]] - values[table.first[:-1]]
    summed: np.ndarray = total - np.repeat(before, np.diff(table.first))
    return summed


class RankTable(View):
    """A row a rank: its work so far, what it holds and has held. Reads the story's arrays, so any step costs the same."""

    kind = "table"

    def __init__(self, story: Story) -> None:
        super().__init__()
        table, timing, rows = story.table, story.timing, story.in_time
        during, after = story.stash
        names = ("rank", "held", "peak", "busy", "idle", "own-span idle")
        self.columns = (*(Column(name) for name in names), Column("sent", "bytes"))
        self._steps = [story.step_of[a:b] for a, b in zip(table.first[:-1], table.first[1:], strict=True)]
        self._first = table.first
        self._rank = table.rank[rows]
        self._makespan = np.maximum.accumulate(timing.end[rows])
        self._busy = per_rank_sum(table, timing.end - timing.start)
        self._own_idle = own_idle(story)
        self._held = np.where(table.kind == Kind.FORWARD, during, after)
        self._peak = np.concatenate([np.maximum.accumulate(during[a:b]) for a, b in zip(table.first[:-1], table.first[1:], strict=True)])
        self._sent = per_rank_sum(table, story.sent_bytes)

    def at(self, step: int) -> TableFrame:
        step = min(max(step, 0), len(self._rank) - 1)
        makespan = float(self._makespan[step])
        rows = []
        for rank, steps in enumerate(self._steps):
            done = int(np.searchsorted(steps, step, side="right"))
            if not done:
                rows.append((Cell(rank), *(EMPTY,) * (len(self.columns) - 1)))
                continue
            row = int(self._first[rank]) + done - 1
            busy = float(self._busy[row])
            held_now, peak, sent = int(self._held[row]), int(self._peak[row]), int(self._sent[row])
            values = (held_now, peak, busy, makespan - busy, float(self._own_idle[row]), sent)
            rows.append((Cell(rank), *(Cell(value) for value in values)))
        return TableFrame(tuple(rows), frozenset({int(self._rank[step])}))
