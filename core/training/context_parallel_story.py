"""The steps of a context-parallel run and the facts that grow with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from core.fabric.base import Tensors
from core.formatting import Value
from core.training import context_parallel_text as text
from core.training.context_parallel_setup import BF16, FORWARD_FLOP
from core.training.context_parallel_splits import chunks
from core.training.context_parallel_views import SHOWN_ONE_BY_ONE, Pass

if TYPE_CHECKING:
    from core.training.context_parallel import Run

SHOWN_LABELS = 16
"""Up to so many ranks each has a fact of its own."""


class Computed(NamedTuple):
    """What a rank computed since its last step: when it began, for how long, how many score elements."""

    start: float
    seconds: float
    work: float


class Story:
    """Says what happened since the last step. Times never go back: a step stands at the latest start so far."""

    def __init__(self, run: Run) -> None:
        self.run, self.job, self.rec = run, run.job, run.rec
        self.one_by_one = run.fabric.size <= SHOWN_ONE_BY_ONE
        self.mean = run.job.whole_work / run.job.ranks
        self.pending: dict[int, Computed] = {}
        self.time = 0.0
        self.forward_time = 0.0
        self.forward_exposed = 0.0

    def computed(self, rank: int, start: float, seconds: float, work: float) -> None:
        """``rank`` has computed; a later `tile`, `rank` or `hop` says so."""
        before = self.pending.get(rank, Computed(start, 0.0, 0.0))
        self.pending[rank] = Computed(before.start, before.seconds + seconds, before.work + work)

    def start(self, q: Tensors, kv: Tensors) -> None:
        """What every rank begins with."""
        run, job, p = self.run, self.job, self.job.params
        self.rec.phase("start")
        for rank in run.fabric.ranks:
            run.hold(rank, "q", q[rank], f"q{rank}")
            run.hold(rank, "own", kv[rank], f"K{rank}")
            run.views.work(rank, 0.0, self.mean, 0.0)
        first = chunks(p.split, p.sequence, p.ranks, p.ranks - 1)[0].first
        held = (job.full.q_elements + 2 * job.full.kv_elements) / p.ranks * BF16
        self.rec.step(
            text.START[p.split], text.start_detail(p.causal, p.rope), time=0.0, sequence=p.sequence, ranks=p.ranks, block=job.block,
            half=job.block // 2, held=held, work=job.whole_work, mean=self.mean, last=p.ranks - 1, position=first,
        )  # fmt: skip

    # ring ------------------------------------------------------------------------------------------------------------------

    def pass_(self, hop: int) -> None:
        """Blocks of K and V have been sent on."""
        job, size = self.job, self.job.kv_block_bytes
        tile = job.seconds(job.block**2 * job.full.heads * job.full.batch, FORWARD_FLOP)
        held = max(map(self.run.views.kv_held, self.run.fabric.ranks))
        self._tell(text.PASS, text.PASS_DETAIL, self._now(), hop=hop, size=size, wire=job.link.time(size), tile=tile, held=held)

    def gradients_pass(self, hop: int) -> None:
        """dK and dV have been sent after their blocks."""
        self._tell(text.GRADIENTS_PASS, text.GRADIENTS_PASS_DETAIL, self._now(), hop=hop, size=self.job.kv_block_bytes)

    def tile(self, which: Pass, rank: int, source: int, hop: int) -> None:
        """``rank`` has done its tile of this hop, or had nothing to do."""
        if not self.one_by_one:
            return
        done, job, p = self.pending.pop(rank), self.job, self.job.params
        share = self.run.views.share(done.work)
        reason = "idle" if not done.work else "own" if rank == source else "full" if share == 1 else "part"
        mine, theirs = (chunks(p.split, p.sequence, p.ranks, r) for r in (rank, source))
        values: dict[str, Value] = {"rank": rank, "source": source, "hop": hop}
        if reason == "idle":
            most = sum(job.work(p.ranks - 1, other) for other in range(p.ranks))
            values.update(last=mine[-1].last, first=theirs[0].first, done=self.run.work[rank], most=most)
        else:
            values.update(share=share, elements=done.work, seconds=done.seconds, done=self.run.work[rank])
        self._work(rank)
        self._tell(text.TILE[which][reason], text.TILE_DETAIL[which][reason], done.start, **values)

    def hop(self, which: Pass, hop: int) -> None:
        """Of many ranks: one step for all of them."""
        if self.one_by_one:
            return
        busy = [done for done in self.pending.values() if done.work]
        longest = max(busy, key=lambda done: done.seconds)
        idle = len(self.pending) - len(busy)
        self._work(*self.pending)
        self.pending.clear()
        share = self.run.views.share(longest.work)
        self._tell(
            text.HOP[which], text.HOP_DETAIL, longest.start, hop=hop, busy=len(busy), idle=idle, share=share, seconds=longest.seconds
        )

    # all-gather and Ulysses ------------------------------------------------------------------------------------------------------

    def gathered(self, began: float) -> None:
        """Every rank has all K and V; the all-gather ``began`` then."""
        held = max(map(self.run.views.kv_held, self.run.fabric.ranks))
        self._tell(text.GATHERED, text.GATHERED_DETAIL, began, wire=self.sent(), seconds=self._now() - began, held=held)

    def exchanged(self, which: Pass, began: float) -> None:
        """Every rank has all tokens of its heads; the all-to-all ``began`` then."""
        full = self.job.full
        self._tell(
            text.EXCHANGED[which], text.EXCHANGED_DETAIL, began, block=self.job.block, heads=full.heads, sequence=full.sequence,
            own_heads=full.heads // self.job.ranks, wire=self.sent(), seconds=self._now() - began,
        )  # fmt: skip

    def back(self, which: Pass) -> None:
        """Every rank has all heads of its tokens."""
        self._tell(text.BACK[which], text.BACK_DETAIL, self._now(), block=self.job.block, wire=self.sent())

    def rank(self, which: Pass, rank: int) -> None:
        """``rank`` has done all its tiles of this pass."""
        if self.one_by_one:
            done = self.pending.pop(rank)
            self._work(rank)
            ratio = done.work / self.mean
            self._tell(text.RANK[which], text.RANK_DETAIL, done.start, rank=rank, elements=done.work, ratio=ratio, seconds=done.seconds)

    def ranks(self, which: Pass) -> None:
        """Of many ranks: one step for all of them."""
        if not self.one_by_one:
            busiest = max(self.pending.values(), key=lambda done: done.work)
            self._work(*self.pending)
            self.pending.clear()
            self._tell(text.RANKS[which], text.RANKS_DETAIL, busiest.start, elements=busiest.work, ratio=busiest.work / self.mean)

    # ends ------------------------------------------------------------------------------------------------------------------------

    def home(self) -> None:
        """Every rank has the whole gradient of its own keys and values."""
        self._tell(text.HOME[self.job.params.method], text.HOME_DETAIL, self._now(), sent=self.sent())

    def output(self, error: float) -> None:
        """The forward is done. ``error``: largest difference from attention on one device."""
        busy = max(self.run.busy.values())
        self.forward_time = self._now()
        self.forward_exposed = self.forward_time - busy
        self.rec.fact("comm_bytes_per_rank", self.sent(), "bytes", note="on the wire in the forward", label="forward")
        elements = max(t.elements for t in self.run.fabric.traffic.values()) * self.job.scale * 8 / BF16
        self.rec.fact("comm_elements_per_rank", elements, "elements", note="handed to collectives or sent in the forward", label="forward")
        self.rec.fact("forward_time", self.forward_time, "s", note=self._timed_on())
        self._tell(
            text.OUTPUT,
            text.OUTPUT_DETAIL[error < 1e-6],
            self.forward_time,
            seconds=self.forward_time,
            busy=busy,
            idle=self.idle(),
            error=error,
        )

    def end(self) -> None:
        """Everything is done: what only the finished run knows."""
        rec, run, time = self.rec, self.run, self._now()
        exposed = time - max(run.busy.values())
        rec.fact("step_time", time, "s", note="forward and backward")
        note = "time that the busiest rank's compute stream waits for messages: end - its compute"
        rec.fact("exposed_comm_time", exposed, "s", note=note)
        rec.fact("exposed_comm_time", self.forward_exposed, "s", note=note, label="forward")
        rec.fact("idle_fraction", self.idle(), "%", note="of all ranks' compute streams, waiting for work or for messages")
        rec.fact("kv_bytes_held", max(run.views.peak_kv), "bytes", note="most of K and V on a rank at any moment, its own among them")
        sent = self.sent()
        rec.fact("comm_bytes_per_rank", sent, "bytes", note="on the wire, forward and backward, BF16; most of any rank")
        imbalance = max(run.work.values()) / (sum(run.work.values()) / len(run.work))
        self._tell(
            text.END, text.END_DETAIL, time, imbalance=imbalance, seconds=time, idle=self.idle(), exposed=exposed, sent=sent
        )  # fmt: skip

    # helpers ---------------------------------------------------------------------------------------------------------------------

    def sent(self) -> float:
        """Bytes on the wire so far, full size, of the rank that sent most."""
        return max(t.bytes_sent for t in self.run.fabric.traffic.values()) * self.job.scale

    def idle(self) -> float:
        """Share of all hosted ranks' time so far in which their compute streams idled."""
        end = self._now()
        return 1 - sum(self.run.busy.values()) / (end * len(self.run.busy)) if end else 0.0

    def _now(self) -> float:
        return self.run.fabric.now()

    def _timed_on(self) -> str:
        return f"compute at the BF16 peak of {self.job.device.name}, {self.job.link.name}"

    def _work(self, *ranks: int) -> None:
        """Write the work facts and the rows of these ranks."""
        run, note = self.run, "score elements of the forward, a token with itself counted half, all heads"
        most, total = max(run.work.values()), sum(run.work.values())
        self.rec.fact("work_per_rank", most, "elements", note=f"{note}; the busiest rank")
        self.rec.fact("imbalance", most / (total / len(run.work)), note="max / mean of work_per_rank")
        for rank in ranks:
            run.views.work(rank, run.work[rank], self.mean, run.busy[rank])
            if run.fabric.size <= SHOWN_LABELS:
                self.rec.fact("work_per_rank", run.work[rank], "elements", note=note, label=rank)

    def _tell(self, title: str, detail: str, time: float, **values: Value) -> None:
        self.time = max(self.time, time)
        self.rec.step(title, detail, time=self.time, **values)
