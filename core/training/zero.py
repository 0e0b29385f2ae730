"""ZeRO stages 0 to 3 (arXiv 1910.02054): a small model trained for real on simulated ranks, and the bytes of a large one.

`Training` is the algorithm. Its tensors are those of the small model; bytes and times on screen are scaled to the
full-size model, whose layers are taken to be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import torch

from core.fabric.base import Reduction, Tensors, Work
from core.fabric.simulated import SimulatedFabric
from core.recording import Recorder, Recording
from core.simulation import simulation
from core.training import zero_checks
from core.training import zero_text as text
from core.training.zero_memory import Memory
from core.training.zero_model import Batch, Block, Saved, batches, initial, loss_and_gradient
from core.training.zero_setup import UTILISATION, Job, ZeroParams, formula_facts
from core.training.zero_twin import make_optimizer
from core.training.zero_views import SHOWN_ONE_BY_ONE, Views

REDUCTION: Reduction = "avg"


@simulation("zero")
def zero(params: ZeroParams, rec: Recorder) -> None:
    """Who owns what, and when: ZeRO stages 0 to 3 on real tensors."""
    train(params, rec)


def train(params: ZeroParams, rec: Recorder, *, check: bool = True) -> Training:
    """Record one training run. ``check`` also trains the unsharded twin (and, for AdamW, a first step with SGD) and compares."""
    job = Job.of(params)
    formula_facts(rec, job)
    start = initial(job.layout, rec.generator, rec.device)
    micro = batches(job.layout, params.batch, params.steps * params.accumulation, rec.generator, rec.device)
    groups = [micro[at : at + params.accumulation] for at in range(0, len(micro), params.accumulation)]
    run = Training(job, rec, start, keep=check)
    run.train(groups)
    _closing_facts(rec, run)
    if check:
        zero_checks.against_unsharded(rec, run, start, groups)
        zero_checks.bytes_and_traffic(rec, run)
        if params.optimizer == "adamw":
            unseen = Recorder(Recording("zero", device=rec.device, seed=rec.seed))
            other = Training(replace(job, params=msgspec.structs.replace(params, optimizer="sgd")), unseen, start, keep=True)
            other.train(groups[:1])
            zero_checks.same_with_sgd(rec, other, start, groups[:1])
    return run


class Training:
    """One run. Model states live in ``memory`` by kind, layer and rank; the algorithm walks over the ranks hosted here."""

    def __init__(self, job: Job, rec: Recorder, start: Sequence[torch.Tensor], *, keep: bool) -> None:
        self.job, self.rec, self.layout, self.stage = job, rec, job.layout, job.params.stage
        self.fabric = SimulatedFabric(job.params.ranks, job.link, scale=job.scale)
        self.memory = Memory(job.params.ranks, job.layout.shard)
        self.views = Views(rec, job, self.memory, self.fabric)
        self.block = Block(job.layout, rec.device)
        self.layers = range(job.layout.layers)
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self.gradients: list[torch.Tensor] | None = [] if keep else None
        self.storages: dict[int, dict[str, int]] = {}
        rec.phase("start")
        for rank in self.fabric.ranks:
            masters = [flat[self.owned(rank)].clone() for flat in start]
            self.optimizers[rank] = make_optimizer(job.params.optimizer, masters)
            for layer, master in enumerate(masters):
                self.memory.put("master", layer, rank, master)
                for moment in ("exp_avg", "exp_avg_sq") if job.params.optimizer == "adamw" else ():
                    self.memory.put(moment, layer, rank, self.optimizers[rank].state[master][moment])
                kept = start[layer][self.layout.span(rank)] if self.stage == 3 else start[layer]
                self.memory.put("weights", layer, rank, kept.to(torch.bfloat16, copy=True))
        small = self.layout.elements * self.layout.layers
        self.tell(text.START[self.stage], text.START_DETAIL[job.params.optimizer], 0.0, psi=job.psi, small=small)

    def owned(self, rank: int) -> slice:
        """The part of every layer whose optimizer states ``rank`` holds, and which it alone updates."""
        return self.layout.span(rank) if self.stage >= 1 else slice(0, self.layout.padded)

    # one optimizer step ----------------------------------------------------------------------------------------------

    def train(self, groups: Sequence[Sequence[Batch]]) -> None:
        """One optimizer step for each group of micro-batches."""
        for number, group in enumerate(groups, 1):
            self.rec.progress((number - 1) / len(groups), f"optimizer step {number}")
            self.optimizer_step(number, group)

    def optimizer_step(self, step: int, group: Sequence[Batch]) -> None:
        """Forward and backward of every micro-batch, then every owner updates what it owns."""
        for micro, batch in enumerate(group, 1):
            at = f"step {step}" if len(group) == 1 else f"step {step}, micro-batch {micro}"
            self.rec.phase(f"{at}: forward")
            outputs, saved = self.forward({rank: batch.x[rank] for rank in self.fabric.ranks})
            losses, grads = {}, {}
            for rank, y in outputs.items():
                losses[rank], grads[rank] = loss_and_gradient(y, batch.target[rank], len(group))
            self.rec.fact("loss", sum(losses.values()) / len(losses), note="of the small model, mean over the ranks")
            self.rec.phase(f"{at}: backward")
            self.backward(grads, saved, last=micro == len(group))
        if self.gradients is not None:
            self.gradients.append(torch.stack([self.whole("averaged", layer) for layer in self.layers]))
            self.storages = self.storages or {rank: self.memory.storages(rank) for rank in self.fabric.ranks}
        self.rec.phase(f"step {step}: optimizer")
        self.update(step)
        if self.stage in (1, 2):
            self.rec.phase(f"step {step}: all-gather")
            self.publish()

    def forward(self, x: Tensors) -> tuple[Tensors, list[dict[int, Saved]]]:
        """Outputs (tokens, hidden) by rank, and by layer what backward needs."""
        saved: list[dict[int, Saved]] = []
        coming = self.fetch(0)
        for layer in self.layers:
            current, coming = coming, self.fetch(layer + 1)  # the next layer travels while this one computes
            if current is not None:
                current.wait()
            began = self.fabric.now()
            saved.append({})
            for rank in self.fabric.ranks:
                self.fabric.compute(rank, self.job.forward_time, "forward", "F{n}", layer)
                x[rank], saved[layer][rank] = self.block.forward(x[rank], self.weights(layer, rank))
            self.tell(text.FORWARD, text.FORWARD_DETAIL, began, layer=layer)
            self.release(layer)
        return x, saved

    def backward(self, grads: Tensors, saved: list[dict[int, Saved]], *, last: bool) -> None:
        """Gradients layer by layer from the top. While one layer computes, the one above is averaged on the comm stream."""
        averaging: tuple[int, Work[Tensors]] | None = None
        coming = self.fetch(self.layers[-1])
        for layer in reversed(self.layers):
            current, coming = coming, self.fetch(layer - 1)
            if current is not None:
                current.wait()
            began = self.fabric.now()
            for rank in self.fabric.ranks:
                self.fabric.compute(rank, self.job.backward_time, "backward", "B{n}", layer)
                weights, accumulate = self.weights(layer, rank), self.memory.has("local", layer, rank)
                if not accumulate:
                    self.memory.put("local", layer, rank, torch.empty_like(weights))
                local = self.memory.get("local", layer, rank)
                grads[rank] = self.block.backward(grads[rank], saved[layer].pop(rank), weights, local, add=accumulate)
            self.tell(text.BACKWARD, text.BACKWARD_DETAIL, began, layer=layer, ranks=self.fabric.size)
            self.release(layer)
            if averaging is not None:
                self.keep(*averaging)
            averaging = (layer, self.average(layer)) if last or self.stage >= 2 else None
        if averaging is not None:
            self.keep(*averaging)

    def average(self, layer: int) -> Work[Tensors]:
        """Issue what averages a layer's gradient: an all-reduce when everyone updates, a reduce-scatter when owners do."""
        began, local = self.fabric.now(), self.memory.of("local", layer)
        if self.stage == 0:
            work = self.fabric.all_reduce(local, REDUCTION, out=local, n=layer)
        else:
            work = self.fabric.reduce_scatter(local, REDUCTION, n=layer)
        self.tell(text.AVERAGE[self.stage], text.AVERAGE_DETAIL[self.stage], began, layer=layer, elements=self.layer_elements)
        return work

    def keep(self, layer: int, work: Work[Tensors]) -> None:
        """The average has arrived: an owner keeps its shard; what it does not own is dropped (stages 2, 3) or dead (stage 1)."""
        averaged = work.wait()
        dropped = 0.0
        for rank in self.fabric.ranks:
            if self.stage >= 2:
                self.memory.put("arrived", layer, rank, averaged[rank])
                if self.memory.has("averaged", layer, rank):  # an earlier micro-batch's
                    self.memory.get("averaged", layer, rank).add_(averaged[rank])
                    self.memory.drop("arrived", layer, rank)
                else:
                    self.memory.rename("arrived", "averaged", layer, rank)
                dropped = self.memory.drop("local", layer, rank) * self.job.scale
            else:
                if self.stage == 1:
                    self.write_owned(self.memory.get("local", layer, rank), rank, averaged[rank])
                self.memory.rename("local", "averaged", layer, rank)
            if self.one_by_one:
                title, detail = text.KEEP[self.stage], text.KEEP_DETAIL[self.stage]
                self.tell(title, detail, self.fabric.now(), rank=rank, shard=rank, layer=layer, dropped=dropped)
        if not self.one_by_one:
            self.tell(text.KEEP_ALL[self.stage], text.KEEP_ALL_DETAIL[self.stage], self.fabric.now(), layer=layer, dropped=dropped)

    def update(self, step: int) -> None:
        """Every rank's optimizer updates the fp32 masters it holds; they are rounded to BF16 and the gradients freed."""
        began, share = self.fabric.now(), (1 / self.fabric.size if self.stage >= 1 else 1.0)
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, self.job.update_time, "optimizer", "update")
            masters = [self.memory.get("master", layer, rank) for layer in self.layers]
            for layer, master in enumerate(masters):
                gradient = self.memory.get("averaged", layer, rank)
                master.grad = (gradient if self.is_shard(gradient) else gradient[self.owned(rank)]).float()
            self.optimizers[rank].step()
            self.optimizers[rank].zero_grad()
            for layer, master in enumerate(masters):
                weights = self.memory.get("weights", layer, rank)
                if self.is_shard(weights):
                    weights.copy_(master)
                else:
                    self.write_owned(weights, rank, master)
                self.memory.drop("averaged", layer, rank)
            if self.stage in (1, 2):
                self.views.stale(rank)
            if self.one_by_one:
                self.tell(text.UPDATE, text.UPDATE_DETAIL[self.stage], began, rank=rank, shard=rank, step=step, share=share)
        if not self.one_by_one:
            self.tell(text.UPDATE_ALL[self.stage], text.UPDATE_DETAIL[self.stage], began, step=step, share=share)

    def publish(self) -> None:
        """Stages 1 and 2: the owners' new parameters go back to everyone."""
        for layer in self.layers:
            began, weights = self.fabric.now(), self.memory.of("weights", layer)
            owned = {rank: weights[rank][self.owned(rank)] for rank in self.fabric.ranks}
            self.fabric.all_gather(owned, out=weights, n=layer).wait()
            self.views.fresh(layer)
            self.tell(text.PUBLISH, text.PUBLISH_DETAIL, began, layer=layer, elements=self.layer_elements)

    # parameters that come and go (stage 3) -------------------------------------------------------------------------------

    def fetch(self, layer: int) -> Work[Tensors] | None:
        """Stage 3: issue the all-gather of a layer's parameters; its buffers are there from now on."""
        if self.stage < 3 or layer not in self.layers:
            return None
        began, shards = self.fabric.now(), self.memory.of("weights", layer)
        for rank, shard in shards.items():
            self.memory.put("gathered", layer, rank, shard.new_empty(self.layout.padded))
        work = self.fabric.all_gather(shards, out=self.memory.of("gathered", layer), n=layer)
        self.tell(text.FETCH, text.FETCH_DETAIL, began, layer=layer, elements=self.layer_elements)
        return work

    def release(self, layer: int) -> None:
        """Stage 3: the gathered parameters of a layer have done their part."""
        if self.stage == 3:
            dropped = max(self.memory.drop("gathered", layer, rank) for rank in self.fabric.ranks) * self.job.scale
            self.tell(text.RELEASE, text.RELEASE_DETAIL, self.fabric.now(), layer=layer, dropped=dropped)

    def weights(self, layer: int, rank: int) -> torch.Tensor:
        """A layer's BF16 parameters (padded,) as ``rank`` sees them now."""
        return self.memory.get("gathered" if self.stage == 3 else "weights", layer, rank)

    # helpers ---------------------------------------------------------------------------------------------------------------

    @property
    def one_by_one(self) -> bool:
        """Whether every owner has a step of its own."""
        return self.stage >= 1 and self.fabric.size <= SHOWN_ONE_BY_ONE

    @property
    def layer_elements(self) -> float:
        """Parameters of one layer of the full-size model."""
        return self.job.psi / self.layout.layers

    def is_shard(self, tensor: torch.Tensor) -> bool:
        return tensor.numel() == self.layout.shard

    def write_owned(self, whole: torch.Tensor, rank: int, values: torch.Tensor) -> None:
        """Write what ``rank`` owns into a whole layer's tensor and poison the rest."""
        mine = self.owned(rank)
        self.memory.poison(whole[: mine.start])
        self.memory.poison(whole[mine.stop :])
        whole[mine].copy_(values)

    def whole(self, kind: str, layer: int) -> torch.Tensor:
        """A layer's tensor (padded,) put together from its owners, for comparison."""
        parts = self.memory.of(kind, layer)
        if self.stage == 0:
            return parts[self.fabric.ranks[0]].clone()
        return torch.cat([part if self.is_shard(part) else part[self.owned(rank)] for rank, part in sorted(parts.items())])

    def tell(self, title: str, detail: str, time: float, **values: int | float) -> None:
        """Close a step: paint what changed, and say how much this rank (or else the fullest one) holds now."""
        live, rank = self.memory.live, values.get("rank")
        held = float(live.max() if rank is None else live[int(rank)]) * self.job.scale
        self.views.paint()
        self.rec.fact("live_bytes", float(live.max()) * self.job.scale, "bytes", note="on the fullest rank at this step")
        self.rec.step(title, detail, time=time, held=held, **values)


def _closing_facts(rec: Recorder, run: Training) -> None:
    """What only the finished run knows: collectives counted and time, both of one optimizer step."""
    steps, fabric = run.job.params.steps, run.fabric
    calls = fabric.traffic[fabric.ranks[0]].calls
    rec.fact("collectives", sum(calls.values()) // steps, "count", note=f"calls in one optimizer step with {run.layout.layers} layers")
    for name, count in sorted(calls.items()):
        rec.fact("collectives", count // steps, "count", label=name)
    rec.fact("poisoned_elements", run.memory.poisoned, "elements", note="of the small model, filled with NaN when dropped or not owned")
    note = f"compute at {UTILISATION:.0%} of the BF16 peak of {run.job.device.name}, {run.job.link.name}"
    rec.fact("step_time", fabric.now() / steps, "s", note=note)
    rec.fact("exposed_comm_time", float(fabric.clocks.waited.max()) / steps, "s", note="compute stream idle, in one optimizer step")
