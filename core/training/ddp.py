"""Data parallelism with buckets, as in PyTorch's DistributedDataParallel (arXiv 2006.15704): why not one big all-reduce at the end?

`Training` is the algorithm. Gradients come from autograd, half a block at a time on every rank; each one that is ready is copied
into its bucket, and a bucket that is full on every rank starts its all-reduce while backward goes on.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from core.fabric.base import Reduction, Tensors
from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder
from core.simulation import simulation
from core.training import ddp_checks, mlp
from core.training import ddp_text as text
from core.training.ddp_buckets import Bucket, assign
from core.training.ddp_setup import LEARNING_RATE, DdpParams, Job, of_layer, ready_order
from core.training.ddp_timing import Half, Timed
from core.training.ddp_views import Views
from core.training.mlp import Batch
from core.training.zero_setup import UTILISATION

REDUCTION: Reduction = "avg"
Graph = dict[int, list[tuple[tuple[Tensor, ...], Tensor]]]
"""By rank, for each half in forward order: its inputs, cut off from what came before, and its output."""


@simulation("ddp")
def ddp(params: DdpParams, rec: Recorder) -> None:
    """Why not one big AllReduce at the end? Gradient buckets that travel while backward still runs."""
    train(params, rec)


def train(params: DdpParams, rec: Recorder, *, check: bool = True) -> Training:
    """Record one training run. ``check`` also trains one process on the whole batch and compares."""
    job = Job.of(params)
    block = mlp.block_shapes(params.hidden)
    start: dict[str, Tensor] = {}
    for layer in range(params.layers):
        values = mlp.initial(block, rec.generator, rec.device, params.layers)
        start |= {f"{layer}.{name}": value for name, value in values.items()}
    batches = mlp.batches(params.ranks, params.batch, params.hidden, params.hidden, params.steps, rec.generator, rec.device)
    run = Training(job, rec, start, keep=check)
    for number, batch in enumerate(batches):
        rec.progress(0.8 * number / len(batches), f"iteration {number}")
        if number == 1:
            run.rebuild()
        run.iteration(number, batch)
    if check:
        rec.progress(0.8, "one process on the whole batch")
        ddp_checks.against_one_process(rec, run, start, batches)
        ddp_checks.buckets_and_time(rec, run)
    return run


class Training:
    """One run: a copy of the model on every hosted rank, and the buckets that all of them share."""

    def __init__(self, job: Job, rec: Recorder, start: dict[str, Tensor], *, keep: bool) -> None:
        self.job, self.rec, self.plan, self.names = job, rec, job.plan, job.names
        self.fabric = SimulatedFabric(job.params.ranks, job.link)
        self.expected_order = ready_order(job)
        self.values: dict[int, dict[str, Tensor]] = {}
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self.order: dict[int, list[int]] = {rank: [] for rank in self.fabric.ranks}
        for rank in self.fabric.ranks:
            mine = self.values[rank] = {name: value.clone().requires_grad_() for name, value in start.items()}
            for index, leaf in enumerate(mine.values()):
                leaf.register_post_accumulate_grad_hook(partial(self.ready, rank, index))  # type: ignore[no-untyped-call]
            self.optimizers[rank] = torch.optim.SGD(mine.values(), lr=LEARNING_RATE, foreach=False)
        self.gradients: list[dict[str, Tensor]] | None = [] if keep else None
        self.membership: list[list[list[int]]] = []
        self.times: list[Timed] = []
        self.calls: list[int] = []
        self.order_bytes = dict.fromkeys(self.fabric.ranks, 0)
        rebuilt = assign(self.expected_order, self.plan.sizes, *job.limits)
        self.views = Views(rec, job, self.fabric, self.expected_order, bars=len(rebuilt))
        self.buckets: list[Bucket] = []
        self.launched = 0
        rec.phase("start")
        self.make_buckets([list(range(len(self.names)))])  # before the order is known: everything in one bucket
        size, elements = sum(self.plan.sizes), sum(self.plan.elements)
        self.tell(text.START, text.START_DETAIL, 0.0, elements=elements, size=size, ranks=self.fabric.size, parameters=len(self.names))

    # buckets -----------------------------------------------------------------------------------------------------------

    def make_buckets(self, membership: list[list[int]]) -> None:
        """Buckets with these parameters, and on every hosted rank a buffer for each."""
        self.buckets = []
        self.bucket_of: dict[int, Bucket] = {}
        for number, parameters in enumerate(membership):
            elements = sum(self.plan.elements[index] for index in parameters)
            buffers = {rank: torch.empty(elements, device=self.rec.device) for rank in self.fabric.ranks}
            bucket = Bucket(number, parameters, self.plan.elements, buffers)
            self.buckets.append(bucket)
            self.bucket_of.update(dict.fromkeys(parameters, bucket))
        self.rec.fact("buckets", len(self.buckets), "count", note="all-reduces in an iteration")
        self.views.rebuilt(self.buckets, self.plan.sizes)

    def rebuild(self) -> None:
        """Buckets in the order in which gradients became ready in iteration 0; rank 0's order counts, so all ranks cut alike."""
        self.rec.phase("rebuild")
        began = self.fabric.now()
        sent = {rank: self.fabric.traffic[rank].bytes_sent for rank in self.fabric.ranks}
        orders = {rank: torch.tensor(self.order[rank], device=self.rec.device) for rank in self.fabric.ranks}
        agreed = self.fabric.broadcast(orders, root=0).wait()
        self.order_bytes = {rank: self.fabric.traffic[rank].bytes_sent - before for rank, before in sent.items()}
        order = agreed[self.fabric.ranks[0]].tolist()
        self.make_buckets(assign(order, self.plan.sizes, *self.job.limits))
        first, most = self.buckets[0], max(bucket.elements for bucket in self.buckets)
        first_size, largest = first.elements * 4, most * 4
        limit = self.job.limits[1]
        values = {"buckets": len(self.buckets), "first": first_size, "largest": largest, "limit": limit, "name": self.names[order[0]]}
        self.tell(text.REBUILD, text.REBUILD_DETAIL, began, **values)

    def ready(self, rank: int, index: int, leaf: Tensor) -> None:
        """Autograd has finished a gradient: copy it to its place in the bucket. Called by the hook on the parameter."""
        assert leaf.grad is not None
        bucket = self.bucket_of[index]
        bucket.buffers[rank][bucket.places[index]].copy_(leaf.grad.view(-1))
        bucket.missing[rank].discard(index)
        if len(self.order[rank]) < len(self.names):
            self.order[rank].append(index)

    def launch(self, ahead: float) -> None:
        """Start the all-reduce of every bucket that is full, in the order of the buckets, so that all ranks agree on it."""
        while self.launched < len(self.buckets) and self.buckets[self.launched].full:
            bucket = self.buckets[self.launched]
            began = self.fabric.now()
            bucket.work = self.fabric.all_reduce(bucket.buffers, REDUCTION, out=bucket.buffers, n=bucket.number)
            self.launched += 1
            self.views.on_the_wire(bucket.number)
            share, size = len(bucket.parameters), bucket.elements * 4
            title, detail = text.LAUNCH[ahead > 0] if self.fabric.size > 1 else text.LAUNCH_ALONE
            values = {"bucket": bucket.number, "gradients": share, "all": len(self.names), "size": size, "ahead": ahead}
            self.tell(title, detail, began, **values)

    # one iteration ---------------------------------------------------------------------------------------------------------

    def iteration(self, number: int, batch: Batch) -> None:
        """Forward, backward with all-reduces beside it, the wait for what is still on the wire, and the update."""
        clocks, calls = self.fabric.clocks, self.fabric.traffic[self.fabric.ranks[0]].calls
        began, waited, busy, before = self.fabric.now(), clocks.waited.copy(), clocks.busy.copy(), calls["all_reduce"]
        self.launched = 0
        for bucket in self.buckets:
            bucket.empty()
        self.views.begin()
        self.rec.phase(f"iteration {number}: forward")
        outputs, graph = self.forward({rank: batch.x[rank] for rank in self.fabric.ranks})
        grads: Tensors = {}
        losses = []
        for rank, y in outputs.items():
            y = y.detach().requires_grad_()
            loss = mlp.loss_of(y, batch.target[rank])
            (grads[rank],) = torch.autograd.grad(loss, y)
            losses.append(float(loss.detach()))
        self.rec.fact("loss", sum(losses) / len(losses), note="mean over the ranks")
        self.rec.phase(f"iteration {number}: backward")
        self.backward(grads, graph)
        self.rec.phase(f"iteration {number}: wait and update")
        self.wait()
        self.update(number)
        exposed, comm = float((clocks.waited - waited).min()), float((clocks.busy - busy).min())
        self.times.append(Timed(self.fabric.now() - began, exposed, comm))
        self.membership.append([list(bucket.parameters) for bucket in self.buckets])
        self.calls.append(calls["all_reduce"] - before)
        self.facts(number)

    def forward(self, x: Tensors) -> tuple[Tensors, Graph]:
        """Outputs (rows, hidden) by rank, and for every half of every rank its detached inputs and its output."""
        graph: Graph = {rank: [] for rank in self.fabric.ranks}
        for layer in range(self.job.params.layers):
            began = self.fabric.now()
            halves = self.plan.halves[2 * layer : 2 * layer + 2]
            for rank in self.fabric.ranks:
                self.fabric.compute(rank, sum(half.forward_time for half in halves), "forward", "F{n}", layer)
                p = of_layer(self.values[rank], layer)
                first = x[rank].detach().requires_grad_()
                inner = mlp.up(p, first)
                second = (first.detach().requires_grad_(), inner.detach().requires_grad_())
                x[rank] = mlp.down(p, *second)
                graph[rank] += [((first,), inner), (second, x[rank])]
            self.tell(text.FORWARD, text.FORWARD_DETAIL, began, layer=layer)
        return x, graph

    def backward(self, grads: Tensors, graph: Graph) -> None:
        """Half a block after the other from the top; hooks fill the buckets, and those that are full leave at once."""
        ahead = sum(half.backward_time for half in self.plan.halves)
        through: Tensors = {}
        for half in reversed(self.plan.halves):
            began = self.fabric.now()
            ahead -= half.backward_time
            for rank in self.fabric.ranks:
                self.fabric.compute(rank, half.backward_time, "backward", f"{text.LETTER[half.name]}{{n}}", half.layer)
                inputs, output = graph[rank].pop()
                torch.autograd.backward(output, grads[rank])
                gradients = [value.grad for value in inputs if value.grad is not None]
                if half.name == "down":  # the residual stream's gradient goes round the upper half
                    through[rank], grads[rank] = gradients
                else:
                    grads[rank] = through[rank] + gradients[0]
            self.tell_ready(half, began)
            self.launch(0.0 if half is self.plan.halves[0] else ahead)

    def wait(self) -> None:
        """Nothing is left to compute: wait for every bucket and hand the averages back to the parameters."""
        began, busy_until = self.fabric.now(), float(self.fabric.clocks.comm.max())
        late = sum(end > began for end in self.views.ends.values())
        for bucket in self.buckets:
            assert bucket.work is not None
            averaged = bucket.work.wait()
            for rank in self.fabric.ranks:
                for index in bucket.parameters:
                    gradient = self.values[rank][self.names[index]].grad
                    assert gradient is not None
                    gradient.view(-1).copy_(averaged[rank][bucket.places[index]])
        if self.gradients is not None:
            mine = self.values[self.fabric.ranks[0]]
            self.gradients.append({name: leaf.grad.clone() for name, leaf in mine.items() if leaf.grad is not None})
        exposed = max(busy_until - began, 0.0)
        title, detail = text.WAIT[late > 0]
        self.tell(title, detail, began, exposed=exposed, late=late, buckets=len(self.buckets))

    def update(self, number: int) -> None:
        """Every rank updates all parameters: equal gradients keep the copies equal."""
        began = self.fabric.now()
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, self.plan.update_time, "optimizer", "update")
            self.optimizers[rank].step()
            self.optimizers[rank].zero_grad()
        self.views.ended(self.fabric.now())
        self.tell(text.UPDATE, text.UPDATE_DETAIL, began, iteration=number, ranks=self.fabric.size)

    # telling -----------------------------------------------------------------------------------------------------------------

    def tell_ready(self, half: Half, began: float) -> None:
        """The step of one half's backward: how full the bucket of its largest gradient is now."""
        largest = max(half.parameters, key=lambda index: self.plan.elements[index])
        bucket = self.bucket_of[largest]
        here = self.fabric.ranks[0]
        for its in self.buckets:
            self.views.filled(its.number, sum(self.plan.sizes[index] for index in its.missing[here]))
        left = len(bucket.missing[here])
        values = {"layer": half.layer, "bucket": bucket.number, "left": left, "gradients": len(bucket.parameters)}
        self.tell(text.READY[half.name], text.READY_DETAIL[left > 0], began, **values)

    def tell(self, title: str, detail: str, time: float, **values: int | float | str) -> None:
        """Close a step; the buckets on the wire at ``time`` are painted so."""
        self.views.paint(time)
        self.rec.step(title, detail, time=time, **values)

    def facts(self, number: int) -> None:
        """The iteration that has just ended, also under its number."""
        timed = self.times[-1]
        overlap = 1 - timed.exposed / timed.comm_time if timed.comm_time else None
        how = f"{self.job.device.name} at {UTILISATION:.0%} of its BF16 peak, {self.job.params.tokens:,} tokens, {self.job.link.name}"
        waits = "the rank that computes longest is idle, waiting for the wire"
        for label in (None, f"iteration_{number}"):
            self.rec.fact("step_time", timed.step_time, "s", note=how, label=label)
            self.rec.fact("exposed_comm_time", timed.exposed, "s", note=waits, label=label)
            self.rec.fact("overlap_fraction", overlap, "%", note="share of the wire's time that computing hides", label=label)
        self.rec.fact("buckets", len(self.buckets), "count", note="all-reduces in an iteration", label=f"iteration_{number}")
        self.rec.fact("comm_time", timed.comm_time, "s", note="the wire is busy, in an iteration")
        self.rec.fact("gradient_bytes", sum(self.plan.sizes), "bytes", note="fp32, on every rank")
        traffic = self.fabric.traffic[self.fabric.ranks[0]]
        self.rec.fact("bytes_sent_per_rank", traffic.bytes_sent, "bytes", note="rank 0, all iterations so far")
