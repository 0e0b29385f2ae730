"""Where the bytes of training go: a ledger of one rank, line by line, each with the formula that gives it.

The sums are in `core.training.memory_ledger`; this file tells them in order and compares them with the papers and with autograd.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from core.errors import BadInput
from core.formatting import digits
from core.recording import Recorder
from core.simulation import simulation
from core.training import memory_checks as checks
from core.training import memory_text as text
from core.training.memory_ledger import CONVENTIONS, LINES, SAVED, SOURCES, STATES, dense_share, end_parameters, expert_share
from core.training.memory_saved import Saved
from core.training.memory_setup import Job, MemoryParams
from core.training.memory_views import Views, fullest, gib, ledger_of
from core.views import Cell

STAGES = 64
"""Up to so many stages have a fact each."""
GPUS = 8
"""Ranks of the "ZeRO" bars that show one choice changed."""


FACTS = {
    "parameters": "parameter_bytes", "gradients": "gradient_bytes", "optimizer": "optimizer_bytes", "outputs": "output_bytes",
    "recomputed": "recomputed_bytes", "buffers": "buffer_bytes", "reserve": "reserve_bytes",
}  # fmt: skip
OTHERS = {
    "outputs": "embedding, final norm, head and loss", "recomputed": "of the layer that is computed again",
    "buffers": "what comes and goes: gathered layers, buckets, logits", "reserve": "context, communication libraries, fragmentation",
}  # fmt: skip


@simulation("memory")
def memory(params: MemoryParams, rec: Recorder) -> None:
    """Where do the bytes of training a model go? Line by line, with the formula of each."""
    job = Job.of(params)
    found = ledger_of(job)
    stage = fullest(found)
    changed = choices(job)
    views = Views(rec, job, found, [name for name, _, _ in changed])
    count_facts(rec, job)
    tell = Story(rec, job, found, stage, views)
    tell.modules()
    tell.states()
    tell.saved()
    tell.others()
    tell.total()
    tell.changed(changed)
    checks.states(rec, job, found)
    checks.paper_formula(rec, job, found)
    checks.real_layers(rec, job)


def choices(job: Job) -> list[tuple[str, str, MemoryParams]]:
    """(name, why, parameters) of layouts one choice away from the one that was asked for, where the choice is open."""
    p, found = job.params, []
    change = msgspec.structs.replace
    if p.attention == "math":
        found.append(("flash attention", "Flash attention never writes the score matrices.", change(p, attention="flash")))
    if p.recompute == "none":
        why = "The attention core is computed again in backward."
        found.append(("selective recompute", why, change(p, recompute="selective")))
    if p.recompute != "full":
        found.append(("full recompute", "Each layer keeps its input only and runs forward twice.", change(p, recompute="full")))
    if p.offload == "none":
        found.append(("optimizer on the host", "Master weights and moments live in the host's memory.", change(p, offload="optimizer")))
    if p.data_parallel == 1 and p.convention != "fsdp2":
        for zero in (1, 3):
            why = f"{GPUS} data-parallel ranks share " + ("the optimizer states." if zero == 1 else "all model states.")
            found.append((f"ZeRO-{zero} on {GPUS}", why, change(p, data_parallel=GPUS, zero_stage=zero)))
    return found


class Story:
    """The steps of one recording."""

    def __init__(self, rec: Recorder, job: Job, found: dict[str, np.ndarray], stage: int, views: Views) -> None:
        self.rec, self.job, self.found, self.stage, self.views = rec, job, found, stage, views
        self.so_far = 0.0

    def modules(self) -> None:
        """Parameters by module."""
        shape = self.job.model.shape
        self.rec.phase("parameters")
        count: Counter[str] = Counter()
        total: Counter[str] = Counter()
        active: Counter[str] = Counter()
        whole: Counter[str] = Counter()
        for module in shape.modules:
            if module.parameters:
                count[module.name] += 1
                total[module.name] += module.parameters
                active[module.name] += module.active
                whole[module.name] = max(whole[module.name], module.whole)
        for name, parameters in total.items():
            self.rec.fact("module_parameters", parameters, "elements", label=name)
            self.rec.step(
                text.MODULE, text.MODULE_DETAIL, name=name, parameters=parameters, count=count[name], each=parameters // count[name],
                share=parameters / shape.parameters, total=shape.parameters, active=active[name], whole=whole[name],
            )  # fmt: skip

    def states(self) -> None:
        self.rec.phase("model states")
        job, rec = self.job, self.rec
        counts = job.stages.counts[self.stage].sum(axis=0).astype(float)
        dense = float(
            counts @ dense_share(job.model, job.layouts)[:, 0] + end_parameters(job.model, job.stages, job.layouts)[self.stage, 0]
        )
        experts = float(counts @ expert_share(job.model, job.layouts)[:, 0])
        for name in STATES:
            how = text.state_formula(job, name, dense, experts)
            size = self._line(name, how)
            rec.fact(FACTS[name], size, "bytes", note=_where(job, self.stage))
            if name == STATES[-1]:
                rec.fact("model_state_bytes", self.so_far, "bytes", note=_where(job, self.stage))
            rec.step(
                text.STATE[name], text.STATE_DETAIL, size=size, gib=gib(size), how=how, stage=self.stage, sum=self.so_far,
                convention=CONVENTIONS[job.params.convention][3],
            )  # fmt: skip

    def saved(self) -> None:
        """Each operation of each kind of layer, then both lines of activations."""
        self.rec.phase("activations")
        job, rec, views = self.job, self.rec, self.views
        counts = job.stages.counts[self.stage].astype(float)
        flight = job.stages.in_flight(job.layouts.microbatches)[self.stage, :, 0]
        for number, kind in enumerate(job.model.kinds):
            held = float(flight @ counts[:, number])
            if job.params.recompute == "full":
                size = float(job.model.per_token[2, number].sum()) * self._tokens() / float(job.layouts.divisor("sequence", 1)[0])
                how = self._how(Saved("", "", 2 * job.model.shape.hidden, "sequence"))
                row = views.saved.row(f"{kind.name} layer", 2 * job.model.shape.hidden, size, size * held, "input of the layer")
                views.saved.light(row)
                self._saved_step(text.INPUT, text.INPUT_DETAIL, size, held, how)
            for item in kind.saved if held else ():
                size, kept = self._size(item), job.params.recompute == "none" or (job.params.recompute == "selective" and not item.core)
                if size == 0:
                    continue
                how, role = self._how(item), "activation" if kept else "dim"
                per_token = item.per_token + item.per_score * job.model.shape.heads * job.params.sequence
                views.saved.light(
                    views.saved.row(Cell(item.operation, role), per_token, size, size * held if kept else 0.0, item.what)
                )  # fmt: skip
                title, detail = (text.SAVED, text.SAVED_DETAIL) if kept else (text.SAVED_NOT, text.SAVED_NOT_DETAIL)
                extra: dict[str, str] = {"operation": _sentence(item.operation), "what": item.what, "kind": kind.name}
                if not kept:
                    rec.step(title, detail, time=None, size=size, how=how, recompute=job.params.recompute, **extra)
                else:
                    self._saved_step(title, detail, size, held, how, extra)
        by = "the paper's formula (GPT layer)" if job.model.activation_model == "paper" else "what autograd saves"
        scores, rest = (float(self.found[name][self.stage]) for name in SAVED)
        self._line("scores", "softmax outputs and their dropout, s x s for every head" if scores else "never stored in this layout")
        self._line("activations", f"what the layers save besides, {by}")
        where = _where(job, self.stage)
        rec.fact("activation_bytes", scores + rest, "bytes", note=f"of the layers, {by}, {where}")
        rec.fact("score_bytes", scores, "bytes", note="softmax outputs and their dropout, part of activation_bytes")
        if job.params.offload == "activations":
            by += ", all but two layers' moved to the host"
        rec.step(
            text.SUM, text.SUM_DETAIL, size=scores + rest, scores=scores, rest=rest, gib=gib(scores + rest), model=by, stage=self.stage,
            microbatches=float(flight[0]),
        )  # fmt: skip

    def others(self) -> None:
        self.rec.phase("buffers")
        for name in LINES[5:]:
            how = text.other_formula(self.job, name)
            size = self._line(name, how)
            self.rec.fact(FACTS[name], size, "bytes", note=OTHERS[name])
            if size == 0 and name == "recomputed":
                continue
            self.rec.step(text.OTHER[name], text.OTHER_DETAIL, size=size, gib=gib(size), how=how, stage=self.stage, sum=self.so_far)

    def total(self) -> None:
        self.rec.phase("total")
        job, whole = self.job, self.so_far
        states, saved = (sum(float(self.found[n][self.stage]) for n in names) for names in (STATES, SAVED))
        values = {"total": whole, "gib": gib(whole), "stage": self.stage, "stages": job.stages.size, "states": states, "saved": saved}
        values["rest"] = whole - states - saved
        self.views.choice(0, self.found, self.stage)
        total_facts(self.rec, job, self.found, self.stage)
        if job.device is None:
            self.rec.step(text.TOTAL, text.TOTAL_DETAIL, **values)
            return
        room = job.device.memory - whole
        title = text.FITS if room >= 0 else text.FITS_NOT
        self.rec.fact("fits", room >= 0, note=f"{job.device.name}: {digits(job.device.memory / 2**30)} GiB")
        self.rec.step(title, text.TOTAL_DETAIL, capacity=job.device.memory, left=abs(room), device=job.device.name, **values)

    def changed(self, changed: list[tuple[str, str, MemoryParams]]) -> None:
        """The same ledger with one choice changed at a time."""
        if changed:
            self.rec.phase("one choice changed")
        for bar, (name, why, params) in enumerate(changed, 1):
            try:
                other = ledger_of(Job.of(params))
            except BadInput:
                continue  # the choice does not go with this layout
            at = fullest(other)
            total = sum(float(values[at]) for values in other.values())
            saved = self.so_far - total
            self.views.choice(bar, other, at)
            self.rec.fact("total_bytes_with", total, "bytes", label=name.replace(" ", "_"))
            title = text.CHANGED if saved >= 0 else text.CHANGED_MORE
            self.rec.step(
                title, text.CHANGED_DETAIL, choice=_sentence(name), why=why, total=total, saved=abs(saved),
                before=self.so_far, gib=gib(total),
            )  # fmt: skip

    def _line(self, name: str, how: str) -> float:
        size = float(self.found[name][self.stage])
        self.so_far += size
        self.views.line(name, self.stage, self.so_far, how)
        self.rec.fact("bytes_so_far", self.so_far, "bytes", note="the ledger up to this step")
        return size

    def _saved_step(self, title: str, detail: str, size: float, held: float, how: str, extra: dict[str, str] | None = None) -> None:
        values = {"size": size, "held": held, "held_bytes": size * held, "gib": gib(size * held), "stage": self.stage}
        self.rec.step(title, detail, time=None, how=how, **values, **(extra or {}))

    def _tokens(self) -> float:
        p = self.job.params
        return p.sequence / p.context_parallel * p.micro_batch

    def _size(self, item: Saved) -> float:
        """Bytes that one layer would keep of it for one microbatch, nothing recomputed."""
        shape, p = self.job.model.shape, self.job.params
        by_score = item.per_score * self._tokens() * p.sequence * shape.heads / p.tensor_parallel
        return item.per_token * self._tokens() / float(self.job.layouts.divisor(item.cut, shape.kv_heads)[0]) + by_score

    def _how(self, item: Saved) -> str:
        p, shape = self.job.params, self.job.model.shape
        tokens = f"{digits(self._tokens())} tokens"
        if item.per_score:
            cut = f" / {p.tensor_parallel} tensor ranks" if p.tensor_parallel > 1 else ""
            return f"{item.per_score:g} B x {shape.heads} heads x {p.sequence:,} keys x {tokens}{cut}"
        by = float(self.job.layouts.divisor(item.cut, shape.kv_heads)[0])
        return f"{item.per_token:,.0f} B x {tokens}" + (f" / {digits(by)} ranks" if by > 1 else "")


def _sentence(name: str) -> str:
    return name[:1].upper() + name[1:]


def count_facts(rec: Recorder, job: Job) -> None:
    """What is known of the model before a byte is counted."""
    p, shape = job.params, job.model.shape
    rec.fact("model", shape.name, note=f"{shape.layers} layers" + (f", {shape.part} only" if shape.part else ""))
    rec.fact("parameters", shape.parameters, "elements", note="of the whole model, a tied head counted once")
    active, table = shape.active_parameters, shape.embedding.parameters
    rec.fact("active_parameters", active, "elements", note="in one token's forward pass, embedding included")
    rec.fact("active_parameters_without_embedding", active - table, "elements", note="the input embedding, a look-up, left out")
    rec.fact("gpus", p.data_parallel * p.tensor_parallel * p.pipeline_parallel * p.context_parallel, "count",
             note="data x tensor x pipeline x context")  # fmt: skip
    rec.fact("convention", f"{p.convention}: {CONVENTIONS[p.convention][3]}", kind="reference", note=SOURCES[p.convention])
    if shape.quantised:
        rec.fact(
            "quantised", shape.quantised, note="the config is of quantised weights; training with Adam needs the full ones, counted here"
        )


def total_facts(rec: Recorder, job: Job, found: dict[str, np.ndarray], stage: int) -> None:
    """The totals, and what others estimate."""
    p, shape = job.params, job.model.shape
    here = {name: float(values[stage]) for name, values in found.items()}
    rec.fact("total_bytes", sum(here.values()), "bytes", note=_where(job, stage))
    rec.fact("total_gib", sum(here.values()) / 2**30, "GiB", note="the same in units of 2^30")
    if 1 < job.stages.size <= STAGES:
        for at in range(job.stages.size):
            rec.fact("total_bytes", sum(float(values[at]) for values in found.values()), "bytes", label=f"stage {at}")
    if p.offload != "none":
        rec.fact("host_bytes", host_bytes(job, stage, sum(here.values())), "bytes", note="moved to the host's memory")
    elements, ranks = shape.parameters, p.data_parallel
    largest = p.largest_layer or max(module.parameters for module in shape.modules)
    note = "DeepSpeed's documented estimate of model states, {}"
    rec.fact("deepspeed_zero2_bytes", 4 * elements + 16 * elements / ranks, "bytes", "formula", note.format("4 Psi + 16 Psi / N"))
    rec.fact(
        "deepspeed_zero3_bytes", 18 * elements / ranks + 4 * largest, "bytes", "formula", note.format("18 Psi / N + 4 x largest module")
    )


def _where(job: Job, stage: int) -> str:
    return "on the fullest rank" + (f", stage {stage} of {job.stages.size}" if job.stages.size > 1 else "")


def host_bytes(job: Job, stage: int, on_device: float) -> float:
    """What the same layout would hold more on the device without offload."""
    kept = ledger_of(Job.of(msgspec.structs.replace(job.params, offload="none")))
    return sum(float(values[stage]) for name, values in kept.items() if name != "buffers") - (
        on_device - float(ledger_of(job)["buffers"][stage])
    )
