"""The steps of an expert-parallel run and the facts that grow with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.fabric.base import Tensors
from core.formatting import Value
from core.moe.routers import expert_capacity
from core.training import expert_parallel_text as text
from core.training.expert_parallel_routing import Sent
from core.training.expert_parallel_views import SHOWN_ONE_BY_ONE, Views

if TYPE_CHECKING:
    from core.training.expert_parallel import Layer


class Story:
    """Says what happened since the last step. Times never go back: a step stands at the latest time so far.

    ``load`` (ranks, experts): choices that each rank's tokens make of each expert, of which the kept ones are computed.
    """

    def __init__(self, layer: Layer) -> None:
        self.layer, self.job, self.rec, self.fabric = layer, layer.job, layer.rec, layer.fabric
        self.views = Views(layer.rec, layer.job, layer.fabric)
        p = layer.job.params
        self.one_by_one = p.ranks <= SHOWN_ONE_BY_ONE
        self.load = np.zeros((p.ranks, p.experts), dtype=np.int64)
        self.busy = np.zeros(p.ranks)
        self.rows = np.zeros(p.ranks, dtype=np.int64)
        self.free = np.zeros(p.ranks)
        self.began = self.time = 0.0
        self.totals = {"dispatch": 0.0, "combine": 0.0}
        self.between = {"dispatch": 0.0, "combine": 0.0}
        self.seconds = {"dispatch": 0.0, "combine": 0.0}
        self.copies = {"dispatch": 0, "combine": 0}
        self.dispatches = self.combines = 0
        self.last_finished = 0
        self.error = 0.0
        self.started: dict[int, float] = {}

    # route and seat ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Where tokens and experts are."""
        p, job = self.job.params, self.job
        for rank in self.fabric.ranks:
            self.views.hold(rank, "tokens", self.layer.sizes[rank] * job.combine_copy, f"{self.layer.sizes[rank]:,}")
            self._row(rank)
        self._tell(
            text.START, text.START_DETAIL, 0.0, tokens=p.tokens, experts=p.experts, ranks=p.ranks, top_k=p.top_k,
            per_rank=job.per_rank, last=job.per_rank - 1, vector=job.dispatch_copy, back=job.combine_copy,
        )  # fmt: skip

    def routed(self, rank: int) -> None:
        """``rank`` knows the experts of its tokens."""
        experts = self.layer.routing[rank].experts
        self.load[rank] = np.bincount(experts.cpu().numpy().reshape(-1), minlength=self.job.params.experts)
        if not self.one_by_one:
            return
        if not len(experts):
            self._tell(text.NO_TOKEN, text.NO_TOKEN_DETAIL, 0.0, rank=rank)
            return
        to, choices = self._by_rank()[rank], int(self.load[rank].sum())
        stay, favourite = int(to[rank]), int(to.argmax())
        self._tell(
            text.ROUTE, text.ROUTE_DETAIL, 0.0, rank=rank, tokens=len(experts), share=1 - stay / choices, choices=choices, stay=stay,
            favourite=favourite, most=int(to[favourite]), distinct=self._distinct({rank: experts >= 0}, self.job.per_rank),
        )  # fmt: skip

    def all_routed(self) -> None:
        """Facts of the routing before anything is dropped."""
        everything = {rank: routing.experts >= 0 for rank, routing in self.layer.routing.items()}
        self._routing_facts(everything)
        per_expert = self.load.sum(0)
        note = "choices of the busiest expert / mean, before any are dropped"
        self.rec.fact("max_over_mean_load", float(per_expert.max() / per_expert.mean()), note=note, label="expert")
        self.rec.fact("dropped_tokens", 0, "count", note="choices (token, expert) past the capacity, as a count of rows")
        for rank in self.fabric.ranks:
            self._row(rank)
        if self.one_by_one:
            return
        choices, own = int(self.load.sum()), int(np.trace(self._by_rank()))
        to = self._by_rank().sum(0)
        self._tell(
            text.ROUTED, text.ROUTED_DETAIL, 0.0, share=1 - own / choices, choices=choices, hottest=int(to.argmax()), most=int(to.max()),
            ratio=self._ratio(), distinct=self._distinct(everything, self.job.per_rank),
        )  # fmt: skip

    def seated(self, kept: Tensors) -> None:
        """Some choices are dropped."""
        p, choices = self.job.params, int(self.load.sum())
        for rank, mask in kept.items():
            chosen = self.layer.routing[rank].experts[mask].cpu().numpy()
            self.load[rank] = np.bincount(chosen, minlength=p.experts)
        tokens = p.tokens if p.capacity == "global" else max(self.layer.sizes)
        seats = expert_capacity(p.capacity_factor, tokens, p.top_k, p.experts)
        dropped, gathered = choices - int(self.load.sum()), p.ranks * p.top_k * p.experts * 8
        lost = sum(int((~mask.any(1)).sum()) for mask in kept.values())
        self._routing_facts(kept)
        self.rec.fact("dropped_tokens", dropped, "count", note="choices (token, expert) past the capacity, as a count of rows")
        self.rec.fact("dropped_tokens", lost, "count", note="tokens that lost all their experts", label="whole")
        for rank in self.fabric.ranks:
            self._row(rank)
        title, detail = text.SEATS[p.capacity], text.SEATS_DETAIL[p.capacity]
        self._tell(title, detail, self._now(), seats=seats, gathered=gathered, dropped=dropped, choices=choices, ratio=self._ratio())

    # all-to-alls ---------------------------------------------------------------------------------------------------------------

    def charge(self, copy: int, width: int) -> None:
        """From now on a row of ``width`` fp64 numbers takes the time of ``copy`` bytes."""
        self.fabric.clocks.scale = copy / (8 * width)

    def dispatching(self, sent: dict[int, Sent], began: float) -> None:
        """Copies have been issued."""
        p = self.job.params
        self._issue("dispatch", sent, self.job.dispatch_copy, began, back=False)
        title, detail = (
            (text.FORWARD, text.FORWARD_DETAIL) if self.dispatches else (text.DISPATCH[p.copies], text.DISPATCH_DETAIL[p.copies])
        )
        self.dispatches += 1
        size = float(_leaving(self.matrix).sum())
        self._tell(title, detail, began, copies=sum(map(len, (s.row for s in sent.values()))), choices=int(self.load.sum()), size=size)

    def dispatched(self, sent: dict[int, Sent]) -> None:
        """Every rank has what it was sent; the hottest is the last to be told."""
        ends, counts = self._ends("dispatch"), np.array([sent[rank].counts for rank in self.fabric.ranks])
        inbox = _leaving(self.matrix).sum(0)
        mean, hottest = float(inbox.mean()), int(inbox.argmax())
        even = (
            self.began + float(np.mean(ends - self.began))
            if mean == 0
            else self.began + (ends[hottest] - self.began) * mean / inbox[hottest]
        )
        for rank in sorted(self.fabric.ranks, key=lambda rank: (rank == hottest, ends[rank])):
            copies = int(counts[:, rank].sum())
            self.views.inbox(rank, self.matrix[:, rank], hottest=rank == hottest and mean > 0)
            self.views.hold(rank, "copies", copies * self.job.dispatch_copy, f"{copies:,}")
            self._row(rank)
            wait = max(float(ends[rank] - self.free[rank]), 0.0)
            values: dict[str, Value] = {
                "rank": rank,
                "copies": copies,
                "received": inbox[rank],
                "ratio": inbox[rank] / mean if mean else 0.0,
            }
            values |= {"end": float(ends[rank]), "wait": wait, "even": float(even)}
            if self.one_by_one and (rank != hottest or not mean or self.fabric.size == 1):
                self._tell(text.ARRIVED, text.ARRIVED_DETAIL, float(ends[rank]), **values)
            elif rank == hottest:
                title = text.HOTTEST if self.one_by_one else text.ALL_ARRIVED
                self._tell(title, text.HOTTEST_DETAIL, float(ends[rank]), **values)
        self._bytes_facts("dispatch")

    def computed(self, rank: int, rows: int, active: int, start: float, seconds: float) -> None:
        """``rank`` has run its experts."""
        self.busy[rank], self.rows[rank], self.started[rank] = seconds, rows, start
        self.views.hold(rank, "outputs", rows * self.job.combine_copy, f"{rows:,}")
        self._row(rank)
        if self.one_by_one:
            mean = self.load.sum() / self.fabric.size
            title, detail = (text.EXPERTS, text.EXPERTS_DETAIL) if rows else (text.NO_ROWS, text.NO_ROWS_DETAIL)
            values: dict[str, Value] = (
                {"active": active, "rows": rows, "ratio": rows / mean if mean else 0.0, "seconds": seconds} if rows else {}
            )
            self.rec.phase("experts") if rank == self.fabric.ranks[0] else None
            self._tell(title, detail, start, rank=rank, **values)

    def all_computed(self) -> None:
        """Of many ranks: one step for all of them."""
        self.last_finished = int(self.fabric.clocks.compute.argmax())
        self.rec.fact("expert_time", float(self.busy.max()), "s", note=f"of the busiest rank, roofline of {self.job.device.name}")
        if not self.one_by_one:
            self.rec.phase("experts")
            most, mean = int(self.rows.max()), float(self.rows.mean())
            busiest = int(self.busy.argmax())
            self._tell(
                text.ALL_EXPERTS, text.ALL_EXPERTS_DETAIL, self.started[busiest], rows=most, ratio=most / mean if mean else 0.0,
                seconds=float(self.busy.max()), rank=busiest, mean=float(self.busy.mean()),
            )  # fmt: skip
        self.rec.phase("combine")

    def combining(self, sent: dict[int, Sent], began: float) -> None:
        """Outputs have been issued."""
        self._issue("combine", sent, self.job.combine_copy, began, back=True)
        size = float(_leaving(self.matrix).sum())
        copies = sum(len(mine.row) for mine in sent.values())
        self.combines += 1
        detail = text.COMBINE_DETAIL[self.job.params.copies]
        self._tell(text.COMBINE, detail, began, copies=copies, size=size, rank=self.last_finished)

    def combined(self, sent: dict[int, Sent]) -> None:
        """Every rank has its outputs back."""
        ends = self._ends("combine")
        inbox = _leaving(self.matrix).sum(0)
        for rank in self.fabric.ranks:
            self.views.inbox(rank, self.matrix[:, rank], hottest=False)
        self._bytes_facts("combine")
        hottest = int(self.rows.argmax())
        waits = np.maximum(ends - self.free, 0.0)
        if self.job.params.copies == "node" and self.combines == 1:
            self._tell(text.PARTLY_BACK, text.PARTLY_BACK_DETAIL, float(ends.max()), size=float(inbox.sum()))
            return
        for rank in self.fabric.ranks:
            self.views.hold(rank, "copies", 0.0)
            self.views.hold(rank, "outputs", self.layer.sizes[rank] * self.job.combine_copy, f"{self.layer.sizes[rank]:,}")
            self._row(rank)
        longest = int(waits.argmax())
        for rank in sorted(self.fabric.ranks, key=lambda rank: ends[rank]) if self.one_by_one else [longest]:
            title, detail = (text.BACK, text.BACK_DETAIL) if self.one_by_one else (text.ALL_BACK, text.ALL_BACK_DETAIL)
            self._tell(title, detail, float(ends[rank]), rank=rank, wait=float(waits[rank]), received=float(inbox[rank]), hottest=hottest)

    def end(self) -> None:
        """What only the finished run knows."""
        rec, p = self.rec, self.job.params
        time, busy = self._now(), float(self.busy.max())
        for name, seconds in self.seconds.items():
            rec.fact(f"{name}_time", seconds, "s", note=f"{p.link} inside nodes of {self.job.node_size}, {p.node_link} between")
        rec.fact("layer_time", time, "s", note="dispatch, experts and combine")
        rec.fact("exposed_comm_time", time - busy, "s", note="time of the layer in which the busiest rank does not compute")
        note = "dispatch and combine, and in the backward the same the other way"
        rec.fact("bytes_with_backward", 2 * sum(self.totals.values()), "bytes", "formula", note)
        self._tell(
            text.END, text.END_DETAIL, time, seconds=time, busy=busy, ratio=self._ratio(), dispatch=self.totals["dispatch"],
            combine=self.totals["combine"], error=self.error,
        )  # fmt: skip

    # helpers -------------------------------------------------------------------------------------------------------------------

    def _issue(self, name: str, sent: dict[int, Sent], copy: int, began: float, *, back: bool) -> None:
        """Remember an all-to-all: ``matrix`` (ranks, ranks) bytes from row to column."""
        counts = np.array([sent[rank].counts for rank in self.fabric.ranks], dtype=np.float64)
        self.matrix = (counts.T if back else counts) * copy
        self.began, self.free = began, self.fabric.clocks.compute.copy()
        node = np.arange(self.fabric.size) // self.job.node_size
        self.totals[name] += float(_leaving(self.matrix).sum())
        self.between[name] += float(self.matrix[node[:, None] != node].sum())
        self.copies[name] += int(counts.sum())
        self.views.messages(_leaving(self.matrix))

    def _ends(self, name: str) -> np.ndarray:
        """When each rank's part of the all-to-all ended."""
        ends = self.fabric.clocks.comm.copy()
        self.seconds[name] += float(ends.max()) - self.began
        return ends

    def _bytes_facts(self, name: str) -> None:
        note = {
            "dispatch": "copies of tokens that leave their rank, all ranks",
            "combine": "outputs that go back to another rank, all ranks",
        }[name]
        self.rec.fact(f"{name}_bytes", self.totals[name], "bytes", note=note)
        self.rec.fact(f"{name}_bytes", self.between[name], "bytes", note=f"{note}; between nodes", label="between_nodes")
        most = float(_leaving(self.matrix).sum(0 if name == "dispatch" else 1).max())
        note = "received by the hottest rank" if name == "dispatch" else "sent by the hottest rank"
        self.rec.fact(f"{name}_bytes", most, "bytes", note=note, label="hottest")

    def _routing_facts(self, kept: Tensors) -> None:
        self.rec.fact("max_over_mean_load", self._ratio(), note="rows of the busiest rank / mean, those that are computed")
        note = "mean over tokens, of the choices that are kept"
        self.rec.fact("distinct_ranks_per_token", self._distinct(kept, self.job.per_rank), note=note)
        if self.job.nodes > 1:
            self.rec.fact("distinct_nodes_per_token", self._distinct(kept, self.job.per_rank * self.job.node_size), note=note)

    def _distinct(self, kept: Tensors, experts: int) -> float:
        """Mean number of distinct blocks of so many experts among a token's kept choices."""
        blocks, tokens = 0, 0
        for rank, mask in kept.items():
            which = self.layer.routing[rank].experts // experts
            seen = np.zeros((len(which), self.job.params.experts // experts), dtype=bool)
            row, slot = mask.cpu().numpy().nonzero()
            seen[row, which.cpu().numpy()[row, slot]] = True
            blocks, tokens = blocks + int(seen.sum()), tokens + len(which)
        return blocks / tokens

    def _by_rank(self) -> np.ndarray:
        """(ranks, ranks) choices by the rank of the token and the rank of the expert."""
        by_rank: np.ndarray = self.load.reshape(self.fabric.size, self.fabric.size, -1).sum(2)
        return by_rank

    def _ratio(self) -> float:
        """Rows of the busiest rank over the mean."""
        to = self._by_rank().sum(0)
        return float(to.max() / to.mean()) if to.sum() else 1.0

    def _row(self, rank: int) -> None:
        to = self._by_rank().sum(0)
        ratio = float(to[rank] / to.mean()) if to.sum() else 0.0
        self.views.row(rank, int(to[rank]), ratio, float(self.busy[rank]), float(self.fabric.clocks.waited[rank]))

    def _now(self) -> float:
        return self.fabric.now()

    def _tell(self, title: str, detail: str, time: float, **values: Value) -> None:
        self.time = max(self.time, time)
        if "rank" in values:
            self.views.load.light(int(str(values["rank"])))
        self.rec.step(title, detail, time=self.time, **values)


def _leaving(matrix: np.ndarray) -> np.ndarray:
    """The matrix without what stays on its rank."""
    left: np.ndarray = matrix * ~np.eye(len(matrix), dtype=bool)
    return left
