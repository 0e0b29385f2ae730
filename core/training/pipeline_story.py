"""How a timed pipeline table is told: its steps with their reasons, the panels, and the facts that grow with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from string import Formatter

import numpy as np

from core.recording import Recorder
from core.training.pipeline_text import PAIR, Reason, marks, pick
from core.training.schedule_table import Kind, Table
from core.training.timing import Timing, held
from core.views import EMPTY, Axis, Cell, Column, Gantt, Plot, TableFrame, View

ROLES = ("forward", "backward", "backward", "weight")
NAMES = ("forward", "backward", "input gradient", "weight gradient", "forward and backward")
DRAWN_RANKS = 8
"""Curves that a plot can tell apart."""
LISTED_RANKS = 16
"""So many ranks have their numbers in one fact; of more, the table by rank tells."""


@dataclass(frozen=True)
class Story:
    """A table in time, with what follows from both. Arrays are (rows,), in the table's order, unless said otherwise."""

    table: Table
    timing: Timing
    message_bytes: int

    @cached_property
    def heads(self) -> np.ndarray:
        """(steps,) the first row of each action, by start, then rank: step i shows the action that begins with row heads[i]."""
        heads = self.table.heads
        found: np.ndarray = heads[np.lexsort((heads, self.table.rank[heads], self.timing.start[heads]))]
        return found

    @cached_property
    def tails(self) -> np.ndarray:
        """(steps,) the last row of each action: of an overlapped pair its backward, else the first."""
        second = np.append(self.table.joined[1:], False)
        found: np.ndarray = self.heads + second[self.heads]
        return found

    @cached_property
    def step_of(self) -> np.ndarray:
        """The step that shows each row."""
        steps = np.empty(len(self.table), dtype=np.int64)
        steps[self.heads] = steps[self.tails] = np.arange(len(self.heads))
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
        rank = table.rank
        reason = np.where(timing.arrived > timing.free, Reason.WAITED, Reason.WAS_THERE)
        here = (source >= 0) & (rank[source] == rank)
        reason[here] = Reason.SAME_RANK
        reason[here & (table.kind[source] != table.kind) & (table.kind[source] == Kind.FORWARD)] = Reason.LOSS
        reason[source < 0] = Reason.AT_HAND
        reason[(source < 0) & (timing.free == 0)] = Reason.ENTERS
        return reason

    @cached_property
    def forwards(self) -> np.ndarray:
        """How many forwards the row's rank has run, this row included."""
        return per_rank_sum(self.table, (self.table.kind == Kind.FORWARD).astype(np.int64))

    @cached_property
    def first_freed(self) -> int:
        """Rank 0's first row that frees an activation."""
        kinds = self.table.kind[: self.table.first[1]]
        return int(np.argmax((kinds == Kind.BACKWARD) | (kinds == Kind.WEIGHT_GRADIENT)))

    @cached_property
    def next_forward(self) -> int:
        """Rank 0's first forward after that; the same row when none is left."""
        kinds = self.table.kind[self.first_freed : self.table.first[1]]
        return self.first_freed + int(np.argmax(kinds == Kind.FORWARD))


def tell(story: Story, rec: Recorder) -> None:
    """Write panels, phases, facts and steps: one step an action, by start, then rank."""
    table, timing = story.table, story.timing
    rec.panel("Schedule", schedule_panel(story), weight=1.4)
    rec.panel("Activations held", stash_panel(story))
    rec.panel("By rank", RankTable(story), beside=True)
    phases(story, rec)
    facts(story, rec)
    heads, tails = story.heads, story.tails
    action = np.where(heads == tails, table.kind[heads], PAIR)
    freed = np.zeros(len(table), dtype=np.int64)
    freed[story.first_freed] = 1 if story.next_forward > story.first_freed else 2
    templates, said = pick(table, action, (story.reason[heads], story.reason[tails]), freed[tails], timing.transfer[heads] > 0)
    columns = told(story)
    mentioned = {field for template in templates for sentence in template for _, field, _, _ in Formatter().parse(sentence)}
    rec.steps(
        templates,
        said,
        timing.start[heads],
        rank=table.rank[heads],
        microbatch=table.microbatch[heads],
        stage=table.stage[heads] % table.depth,
        action=[NAMES[number] for number in action.tolist()],
        **{"direction" if table.copies > 1 else "chunk": table.place_of[table.stage[heads]]},
        **{name: column for name, column in columns.items() if name in mentioned},
    )


def told(story: Story) -> dict[str, np.ndarray]:
    """What the sentences of a step may mention, (steps,) each; ``back_`` is of the backward in an overlapped pair."""
    table, timing, heads, tails = story.table, story.timing, story.heads, story.tails
    during, after = story.stash
    source, back = timing.source[heads], timing.source[tails]
    return {
        "source": table.rank[source],
        "sent": timing.end[source],
        "arrived": timing.arrived[heads],
        "back_microbatch": table.microbatch[tails],
        "back_chunk": table.place_of[table.stage[tails]],
        "back_stage": table.stage[tails] % table.depth,
        "back_source": table.rank[back],
        "back_sent": timing.end[back],
        "back_arrived": timing.arrived[tails],
        "ends": timing.end[heads],
        "transfer": timing.transfer[heads],
        "free": timing.free[heads],
        "wait": timing.start[heads] - timing.free[heads],
        "held": after[tails],
        "peak": during[heads],
        "forwards": story.forwards[heads],
        "all_forwards": np.full(len(heads), table.chunks * table.microbatches),
        "next": np.full(len(heads), table.microbatch[story.next_forward]),
    }


def schedule_panel(story: Story) -> Gantt:
    """One lane a rank, or two where pairs overlap: forwards and backwards.

    A span is a letter for what runs, the mark of the chunk (dualpipe: of the direction) and the microbatch's number.
    """
    table, timing = story.table, story.timing
    rows = np.argsort(story.step_of, kind="stable")
    if table.joined.any():
        names = [f"rank {rank} {letter}" for rank in range(table.ranks) for letter in "FB"]
        gantt = Gantt(Axis.of(*names), lane_groups=[rank for rank in range(table.ranks) for _ in "FB"])
        lane = 2 * table.rank + (table.kind != Kind.FORWARD)
    else:
        gantt, lane = Gantt(Axis("rank {i}", table.ranks)), table.rank
    gantt.spans(
        lane[rows],
        timing.start[rows],
        timing.end[rows],
        table.kind[rows],
        (table.kind * table.places + table.place_of[table.stage])[rows],
        table.microbatch[rows],
        story.step_of[rows],
        roles=ROLES,
        texts=[text for kind in Kind for text in marks(kind.letter, table.places)],
    )
    return gantt


def stash_panel(story: Story) -> Plot:
    """Activations held over time: the largest of all ranks so far, and a curve a rank (of many: some, evenly spread)."""
    table, timing, heads = story.table, story.timing, story.heads
    during, after = story.stash
    plot = Plot("time", "activations held")
    peak = plot.curve("peak so far", "plain", "step")
    plot.points(peak, timing.start[heads], np.maximum.accumulate(during[heads]), np.arange(len(heads)))
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
    table = story.table
    forward = table.kind[story.heads] == Kind.FORWARD
    first_backward = int(np.argmax(table.kind[story.tails] != Kind.FORWARD))
    after_forwards = int(len(forward) - np.argmax(forward[::-1]))
    rec.phase("warm-up", 0)
    if after_forwards > first_backward:
        rec.phase("steady", first_backward)
    rec.phase("cool-down", max(first_backward, after_forwards))


def facts(story: Story, rec: Recorder) -> None:
    """The facts as series: each counts the actions up to its step, so the last value is the whole schedule's.

    Those that compare schedules on one model stand first.
    """
    table, timing, heads, tails = story.table, story.timing, story.heads, story.tails
    during, after = story.stash
    makespan = np.maximum.accumulate(timing.end[heads])
    busy = np.cumsum((timing.end - timing.start)[heads])
    idle = table.ranks * makespan - busy
    at_input = held(table, "input")[0]
    peak, peak_at_input = np.maximum.accumulate(during[heads]), np.maximum.accumulate(at_input[heads])
    sent = np.where(heads == tails, 0, story.sent_bytes[tails]) + story.sent_bytes[heads]
    rec.fact_column("makespan_model_time", makespan / table.chunks, note="makespan / chunks: one model on every schedule")
    rec.fact_column("bubble_of_makespan", idle / (table.ranks * makespan), "%", note="idle of all ranks / (ranks x makespan)")
    rec.fact_column("peak_stash_microbatches", peak / table.chunks, "microbatches", note="peak_stash / chunks")
    rec.fact("parameter_copies", table.copies, note="of a stage, over all ranks")
    rec.fact_column("makespan", makespan, note="end of the last action so far")
    rec.fact_column("bubble_of_ideal", idle / busy, "%", note="idle of all ranks / their busy time")
    rec.fact_column("own_span_idle", np.maximum.accumulate(own_idle(story)[heads]), note="most of any rank, first to last action")
    rec.fact_column("peak_stash", peak, "chunks", note="activations on the fullest rank, each freed when its weights have their gradient")
    rec.fact_column("peak_stash_freed_at_input", peak_at_input, "chunks", note="if freed when the input has its gradient")
    rec.fact_column("stash_held", after[tails], "chunks", note="on this step's rank")
    rec.fact_column("p2p_bytes", np.cumsum(sent), "bytes", note="sent between ranks, both directions, all ranks together")
    if table.ranks <= LISTED_RANKS:
        by_rank(story, at_input, rec)


def by_rank(story: Story, at_input: np.ndarray, rec: Recorder) -> None:
    """The whole schedule's figures of each rank, rank 0 first."""
    timing, first = story.timing, story.table.first
    idle = timing.makespan - np.add.reduceat(lasting(story), first[:-1])
    for name, values, unit, note in (
        ("idle_by_rank", idle, "", "over the whole makespan"),
        ("own_span_idle_by_rank", own_idle(story)[first[1:] - 1], "", "from the rank's first action to its last"),
        ("peak_stash_by_rank", np.maximum.reduceat(story.stash[0], first[:-1]), "chunks", "freed at W"),
        ("peak_stash_freed_at_input_by_rank", np.maximum.reduceat(at_input, first[:-1]), "chunks", "freed at I"),
    ):
        rec.fact(name, ",".join(f"{value:.6g}" for value in values.tolist()), unit, note=note)


def lasting(story: Story) -> np.ndarray:
    """(rows,) how long each action takes, counted at its first row."""
    return np.where(story.table.joined, 0.0, story.timing.end - story.timing.start)


def own_idle(story: Story) -> np.ndarray:
    """Idle of the row's rank between its first action and this one."""
    waits = story.timing.start - story.timing.free  # 0 in the second row of a pair
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
        table, timing, heads, first = story.table, story.timing, story.heads, story.table.first
        during, after = story.stash
        names = ("rank", "held", "peak", "busy", "idle", "own-span idle")
        self.columns = (*(Column(name) for name in names), Column("sent", "bytes"))
        self._steps = [story.step_of[a:b] for a, b in pairwise(first)]
        self._first = first
        self._rank = table.rank[heads]
        self._makespan = np.maximum.accumulate(timing.end[heads])
        self._busy = per_rank_sum(table, lasting(story))
        self._own_idle = own_idle(story)
        self._held = after
        self._peak = np.concatenate([np.maximum.accumulate(during[a:b]) for a, b in pairwise(first)])
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
