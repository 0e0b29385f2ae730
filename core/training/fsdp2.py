"""FSDP2 (torch fully_shard; ZeRO-3, arXiv 1910.02054 and 2304.11277): every parameter is cut along dimension 0 and gathered for use.

`Training` is the algorithm, group by group (a block, or the root). Shards are fp32; what is gathered is a BF16 copy that lives from
the all-gather until the group has done its part; gradients are averaged in fp32 by a reduce-scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import torch
from torch import Tensor

from core.fabric.base import Reduction, Tensors, Work
from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder, Recording
from core.simulation import simulation
from core.training import fsdp2_checks, mlp
from core.training import fsdp2_text as text
from core.training.fsdp2_memory import Memory
from core.training.fsdp2_setup import Fsdp2Params, Job
from core.training.fsdp2_shards import Group
from core.training.fsdp2_views import Views
from core.training.mlp import Batch
from core.training.zero_setup import UTILISATION
from core.training.zero_twin import make_optimizer

REDUCTION: Reduction = "avg"
Whole = dict[str, dict[str, Tensor]]
"""Parameters by group and name."""
Graph = list[dict[int, tuple[Tensor, list[Tensor], Tensor]]]
"""For each group that has run forward and each rank: its input, its parameters as autograd knows them, its output."""


@simulation("fsdp2")
def fsdp2(params: Fsdp2Params, rec: Recorder) -> None:
    """ZeRO-3 shards everything: is the problem solved? fully_shard on real tensors, byte by byte."""
    train(params, rec)


def train(params: Fsdp2Params, rec: Recorder, *, check: bool = True) -> Training:
    """Record one training run. ``check`` also trains the unsharded twin (and, for AdamW, a first step with SGD) and compares."""
    job = Job.of(params)
    start = {group.name: mlp.initial(group.shapes, rec.generator, rec.device, params.layers) for group in job.groups}
    count = params.steps * params.accumulation
    micro = mlp.batches(params.ranks, params.batch, params.hidden, job.outputs, count, rec.generator, rec.device)
    steps = [micro[at : at + params.accumulation] for at in range(0, count, params.accumulation)]
    run = Training(job, rec, start, keep=check)
    for number, group in enumerate(steps, 1):
        rec.progress((number - 1) / len(steps), f"optimizer step {number}")
        run.optimizer_step(number, group)
    run.closing_facts()
    if check:
        fsdp2_checks.against_unsharded(rec, run, start, steps)
        fsdp2_checks.shards_bytes_and_traffic(rec, run, start)
        if params.optimizer == "adamw":
            other = replace(job, params=msgspec.structs.replace(params, optimizer="sgd"))
            plain = Training(other, Recorder(Recording("fsdp2", device=rec.device, seed=rec.seed)), start, keep=True)
            plain.optimizer_step(1, steps[0])
            fsdp2_checks.same_with_sgd(rec, plain, start, steps[:1])
    return run


class Training:
    """One run: shards of every group on every hosted rank, and whole parameters while they are in use."""

    def __init__(self, job: Job, rec: Recorder, start: Whole, *, keep: bool) -> None:
        self.job, self.rec, self.root, self.blocks = job, rec, job.root, job.blocks
        self.number = {group.name: number for number, group in enumerate([*self.blocks, *([self.root] if self.root else [])])}
        self.fabric = SimulatedFabric(job.params.ranks, job.link, scale=job.scale)
        self.memory = Memory(job.params.ranks)
        self.shards: dict[tuple[str, int], dict[str, Tensor]] = {}
        self.whole: dict[tuple[str, int], dict[str, Tensor]] = {}
        self.local: dict[tuple[str, int], dict[str, Tensor]] = {}
        self.reduced: dict[tuple[str, int], Tensor] = {}
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self.used: Group | None = None  # whose all-gather buffer is kept until the next group is copied out
        self.reducing: tuple[Group, Work[Tensors]] | None = None
        self.gradients: list[Whole] | None = [] if keep else None
        self.sharded_bytes = 0
        self.views = Views(rec, job, self.memory, self.fabric)
        rec.phase("start")
        for rank in self.fabric.ranks:
            for group in job.groups:
                mine = self.shards[group.name, rank] = group.cut(start[group.name], rank)
                self.memory.put("sharded", group.name, rank, mine.values())
            self.optimizers[rank] = make_optimizer(job.params.optimizer, self.masters(rank))
            for master, state in self.optimizers[rank].state.items():
                moments = [state["exp_avg"], state["exp_avg_sq"]]
                self.memory.put("sharded", f"moments of {id(master)}", rank, moments)
        each = 16 if job.params.optimizer == "adamw" else 8
        values = {"psi": job.psi, "small": job.elements, "ranks": self.fabric.size, "each": each, "tokens": job.tokens}
        self.tell(text.START, text.START_DETAIL[job.params.optimizer], 0.0, layers=len(self.blocks), **values)

    def masters(self, rank: int) -> list[Tensor]:
        """All fp32 shards of ``rank``, group by group."""
        return [shard for group in self.job.groups for shard in self.shards[group.name, rank].values()]

    # one optimizer step ----------------------------------------------------------------------------------------------------

    def optimizer_step(self, step: int, micro_batches: Sequence[Batch]) -> None:
        """Forward and backward of every micro-batch, then every rank updates its own rows."""
        for micro, batch in enumerate(micro_batches, 1):
            at = f"step {step}" if len(micro_batches) == 1 else f"step {step}, micro-batch {micro}"
            self.rec.phase(f"{at}: forward")
            graph: Graph = []
            outputs = self.forward({rank: batch.x[rank].to(self.job.dtype, copy=True) for rank in self.fabric.ranks}, graph)
            grads, losses = {}, []
            for rank, y in outputs.items():
                leaf = y.detach().requires_grad_()
                loss = mlp.loss_of(leaf.float(), batch.target[rank], len(micro_batches))
                (grads[rank],) = torch.autograd.grad(loss, leaf)
                losses.append(float(loss.detach()))
            self.rec.fact("loss", sum(losses) / len(losses), note="of the small model, mean over the ranks")
            self.rec.phase(f"{at}: backward")
            self.backward(grads, graph)
        if self.gradients is not None:
            self.gradients.append(self.put_together(lambda group, rank: group.views(self.reduced[group.name, rank], rank)))
        self.sharded_bytes = max(self.memory.walked("sharded", rank) for rank in self.fabric.ranks)
        self.rec.phase(f"step {step}: optimizer")
        self.update(step)

    def forward(self, x: Tensors, graph: Graph) -> Tensors:
        """Outputs (tokens, outputs) by rank. With prefetch the next group travels while this one computes."""
        ahead, keep = self.job.params.prefetch, not self.job.params.reshard_after_forward
        at_root = self.fetch(self.root) if self.root else None
        coming = self.fetch(self.blocks[0]) if ahead else None
        if self.root and at_root:
            self.copy_out(self.root, at_root, defer=ahead)
        for number, block in enumerate(self.blocks):
            self.copy_out(block, coming or self.fetch(block), defer=ahead)
            coming = self.fetch(self.blocks[number + 1]) if ahead and number + 1 < len(self.blocks) else None
            self.run_forward(block, x, graph)
            if not keep:
                self.reshard(block, text.RESHARD_DETAIL)
        if self.root:
            self.run_forward(self.root, x, graph)
        self.free_used()
        self.tell(text.FORWARD_DONE, text.FORWARD_DONE_DETAIL[keep], self.fabric.now(), layers=len(self.blocks))
        return x

    def backward(self, grads: Tensors, graph: Graph) -> None:
        """Groups from the top. A group's all-gather is issued before the one above computes, its reduce-scatter right after itself."""
        ahead, regather = self.job.params.prefetch, self.job.params.reshard_after_forward
        coming = None
        for number, block in reversed([*enumerate(self.blocks), *([(len(self.blocks), self.root)] if self.root else [])]):
            if regather and block is not self.root:
                self.copy_out(block, coming or self.fetch(block), defer=False)
            coming = self.fetch(self.blocks[number - 1]) if ahead and regather and number else None
            self.run_backward(block, grads, graph.pop())
            if block is not self.root:
                self.reshard(block, text.RESHARD_BACKWARD_DETAIL)
                self.reduce(block)
        if self.root:  # whose input has no gradient to wait for: torch leaves it for the end
            self.reshard(self.root, text.RESHARD_ROOT_DETAIL)
            self.reduce(self.root)
        self.finish_reducing()

    # parameters that come and go ---------------------------------------------------------------------------------------------

    def fetch(self, group: Group) -> Work[Tensors]:
        """Issue the all-gather of a group: BF16 copies of all shards, into a buffer that is there from now on."""
        began = self.fabric.now()
        flats, buffers = {}, {}
        for rank in self.fabric.ranks:
            flats[rank] = group.pack(self.shards[group.name, rank], self.job.dtype)
            buffers[rank] = flats[rank].new_empty(group.ranks * group.shard)
            self.memory.put("gathered", f"{group.name} buffer", rank, [buffers[rank]])
        work = self.fabric.all_gather(flats, out=buffers, n=self.number[group.name])
        size = group.elements * self.job.scale
        self.tell(text.FETCH, text.FETCH_DETAIL[self.job.params.prefetch], began, group=group.name, elements=size)
        return work

    def copy_out(self, group: Group, work: Work[Tensors], *, defer: bool) -> None:
        """The all-gather has ended: its buffer becomes parameters. Deferred, the buffer stays until the next group is copied out."""
        buffers = work.wait()
        self.free_used()
        for rank in self.fabric.ranks:
            whole = self.whole[group.name, rank] = group.unpack(buffers[rank])
            for parameter in whole.values():
                parameter.requires_grad_()
            self.memory.put("gathered", group.name, rank, whole.values())
        self.used = group
        if not defer:
            self.free_used()

    def free_used(self) -> None:
        """Free the all-gather buffer that was copied out last."""
        if self.used is not None:
            for rank in self.fabric.ranks:
                self.memory.drop("gathered", f"{self.used.name} buffer", rank)
            self.used = None

    def reshard(self, group: Group, detail: str) -> None:
        """Every rank is left with its own rows of this group."""
        freed = 0.0
        for rank in self.fabric.ranks:
            freed = self.memory.drop("gathered", group.name, rank) * self.job.scale
            del self.whole[group.name, rank]
        self.tell(text.RESHARD, detail, self.fabric.now(), group=group.name, freed=freed)

    # compute -----------------------------------------------------------------------------------------------------------------

    def run_forward(self, group: Group, x: Tensors, graph: Graph) -> None:
        """A group's forward on every rank; what autograd saves for backward are the activations."""
        began, before = self.fabric.now(), self.memory.live["activations"].max()
        function = mlp.head if group is self.root else mlp.block
        graph.append({})
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, self.job.forward_time(group), "forward", "F{n}", self.number[group.name])
            whole = self.whole[group.name, rank]
            leaf = x[rank].detach().requires_grad_(len(graph) > 1)
            with self.memory.saving(rank, whole, lambda name, at=(group.name, rank): self.whole[at][name]):  # type: ignore[misc]
                y = function(whole, leaf)
            graph[-1][rank] = leaf, list(whole.values()), y
            x[rank] = y
        added = float(self.memory.live["activations"].max() - before) * self.job.scale
        self.tell(text.FORWARD, text.FORWARD_DETAIL, began, group=group.name, added=added)

    def run_backward(self, group: Group, grads: Tensors, ran: dict[int, tuple[Tensor, list[Tensor], Tensor]]) -> None:
        """A group's backward on every rank: a whole gradient of every parameter, and what autograd saved is free."""
        began, before = self.fabric.now(), self.memory.live["activations"].max()
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, 2 * self.job.forward_time(group), "backward", "B{n}", self.number[group.name])
            leaf, parameters, y = ran.pop(rank)
            wanted = [leaf] if leaf.requires_grad else []
            found = torch.autograd.grad(y, [*wanted, *parameters], grads.pop(rank))
            if wanted:
                grads[rank] = found[0]
            self.local[group.name, rank] = dict(zip(group.shapes, found[len(wanted) :], strict=True))
            self.memory.put("gradients", group.name, rank, self.local[group.name, rank].values())
        freed = float(before - self.memory.live["activations"].max()) * self.job.scale
        self.tell(text.BACKWARD, text.BACKWARD_DETAIL, began, group=group.name, freed=freed)

    # gradients -----------------------------------------------------------------------------------------------------------------

    def reduce(self, group: Group) -> None:
        """Issue the reduce-scatter of a group's gradients in fp32, once the one before has given its buffer back."""
        self.finish_reducing()
        began = self.fabric.now()
        flats = {}
        for rank in self.fabric.ranks:
            flats[rank] = group.pack_gradients(self.local.pop((group.name, rank)), torch.float32)
            self.memory.put("gradients", f"{group.name} buffer", rank, [flats[rank]])
            self.memory.drop("gradients", group.name, rank)
        work = self.fabric.reduce_scatter(flats, REDUCTION, sizes=[group.shard] * group.ranks, n=self.number[group.name])
        self.reducing = group, work
        self.tell(text.REDUCE, text.REDUCE_DETAIL, began, group=group.name, elements=group.elements * self.job.scale)

    def finish_reducing(self) -> None:
        """The average has arrived: every rank keeps its own rows (or adds them to those of earlier micro-batches)."""
        if self.reducing is None:
            return
        (group, work), self.reducing = self.reducing, None
        averaged = work.wait()
        for rank in self.fabric.ranks:
            at = group.name, rank
            self.memory.drop("gradients", f"{group.name} buffer", rank)
            if at not in self.reduced:
                self.reduced[at] = averaged[rank]
                self.memory.put("sharded", f"{group.name} gradient", rank, [averaged[rank]])
            else:
                self.memory.put("gradients", f"{group.name} arrived", rank, [averaged[rank]])
                self.reduced[at].add_(averaged[rank])
                self.memory.drop("gradients", f"{group.name} arrived", rank)
        self.tell(text.KEEP, text.KEEP_DETAIL, self.fabric.now(), group=group.name, ranks=group.ranks)

    def update(self, step: int) -> None:
        """Every rank's optimizer updates its own rows in fp32; there is nothing to send, the next forward gathers them."""
        began = self.fabric.now()
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, self.job.update_time, "optimizer", "update")
            for group in self.job.groups:
                gradients = group.views(self.reduced.pop((group.name, rank)), rank)
                for name, shard in self.shards[group.name, rank].items():
                    shard.grad = gradients[name]
            self.optimizers[rank].step()
            self.optimizers[rank].zero_grad()
            for group in self.job.groups:
                self.memory.drop("sharded", f"{group.name} gradient", rank)
        self.tell(text.UPDATE, text.UPDATE_DETAIL, began, step=step)

    # telling ---------------------------------------------------------------------------------------------------------------------

    def put_together(self, of: fsdp2_checks.ShardsOf) -> Whole:
        """Whole tensors from every rank's rows, for comparison."""
        ranks = self.fabric.ranks
        parts = {group.name: [of(group, rank) for rank in ranks] for group in self.job.groups}
        return {
            group.name: {name: torch.cat([part[name] for part in parts[group.name]]) for name in group.shapes} for group in self.job.groups
        }

    def tell(self, title: str, detail: str, time: float, **values: int | float | str) -> None:
        """Close a step: what the fullest rank holds now, in all and by part."""
        scale, live = self.job.scale, self.memory.total()
        fullest = int(live.argmax())
        held = float(live[fullest]) * scale
        floor = float(self.memory.live["activations"][fullest]) * scale
        self.views.paint(fullest, self.whole, self.local, self.reduced)
        self.rec.fact("live_bytes", held, "bytes", note="on the fullest rank at this step, live storages x scale")
        self.rec.fact("peak_bytes", float(self.memory.highest.max()) * scale, "bytes", note="of live_bytes so far")
        self.rec.step(title, detail, time=time, held=held, activations=floor, **values)

    def closing_facts(self) -> None:
        """What only the finished run knows, each on the fullest rank; counts and times are those of one optimizer step."""
        p, scale, rec = self.job.params, self.job.scale, self.rec
        kept = f"fp32 parameters, gradients and {p.optimizer} states on the fullest rank, live storages after backward"
        rec.fact("sharded_bytes", self.sharded_bytes * scale, "bytes", note=kept)
        for fact, part, note in (
            ("gathered_bytes", "gathered", "most whole parameters and all-gather buffers at once"),
            ("activation_bytes", "activations", "most that autograd kept for backward at once"),
            ("gradient_buffer_bytes", "gradients", "most whole gradients and reduce-scatter buffers at once"),
        ):
            rec.fact(fact, float(self.memory.peak[part].max()) * scale, "bytes", note=f"{note}, {p.param_dtype}")
        calls = self.fabric.traffic[self.fabric.ranks[0]].calls
        rec.fact("all_gathers", calls["all_gather"] // p.steps, "count", note="calls in one optimizer step")
        rec.fact("reduce_scatters", calls["reduce_scatter"] // p.steps, "count", note="calls in one optimizer step")
        traffic = self.fabric.traffic[self.fabric.ranks[0]]
        rec.fact(
            "comm_elements_per_rank", traffic.elements * scale / p.steps, "elements", note="handed to collectives in one optimizer step"
        )
        rec.fact("bytes_sent_per_rank", traffic.bytes_sent * scale / p.steps, "bytes", note="on the wire in one optimizer step")
        how = f"{self.job.device.name} at {UTILISATION:.0%} of its {p.param_dtype} peak, {self.job.link.name}"
        rec.fact("step_time", self.fabric.now() / p.steps, "s", note=how)
        exposed = float(self.fabric.clocks.waited.max()) / p.steps
        rec.fact("exposed_comm_time", exposed, "s", note="compute stream idle, in one optimizer step")
        rec.fact("parameters", self.job.psi, "elements", note="of the full-size model")
        rec.fact("tokens", self.job.tokens, "", note="of a rank in a micro-batch of the full-size model")
        convention = fsdp2_checks.CONVENTION[p.optimizer]
        rec.fact("convention", convention, "", "reference", "torch fully_shard with MixedPrecisionPolicy")
        rec.fact("poisoned_elements", self.memory.poisoned, "elements", note="of the small model, NaN when freed")
