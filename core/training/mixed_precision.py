"""Mixed precision (arXiv 1710.03740, 1910.02054, 2209.05433): what are the 16 bytes, and why keep a master copy?

`mixed_precision_train.Training` is the algorithm. A small model really trains in the chosen formats, beside it the same model in fp32;
one weight is watched bit by bit.
"""

from __future__ import annotations

import torch

from core.recording import Recorder
from core.simulation import simulation
from core.training import mixed_precision_checks as checks
from core.training import mixed_precision_model as model
from core.training import mixed_precision_text as text
from core.training.mixed_precision_formats import BF16, gap, running_sum_of_ones
from core.training.mixed_precision_setup import LAYOUTS, MixedPrecisionParams, require_small
from core.training.mixed_precision_train import LossScale, Step, Training, Values
from core.training.mixed_precision_views import Views, backward_format

ONES = 1000


@simulation("mixed_precision")
def mixed_precision(params: MixedPrecisionParams, rec: Recorder) -> None:
    """What are the 16 bytes, and why keep a master copy? A model trained in fp32, BF16, FP16 or FP8, one weight bit by bit."""
    require_small(params)
    layout = LAYOUTS[params.precision]
    start = model.initial(params.layers, params.hidden, rec.generator, rec.device)
    data = model.batches(params.steps, params.batch, params.hidden, rec.generator, rec.device)
    scaled = layout.scaled and params.loss_scaling != "none"
    scale = LossScale(params.loss_scaling, params.loss_scale, params.growth_interval) if scaled else LossScale()
    run = Training(layout, start, params.learning_rate, scale, rec.generator)
    reference = Training(LAYOUTS["fp32"], start, params.learning_rate, LossScale(), rec.generator)
    oracles = checks.Oracles(run, start, params.learning_rate)
    story = Story(rec, run, start)
    sums = running_sum_of_ones(ONES, BF16, rec.device), float(torch.ones(ONES, dtype=torch.bfloat16, device=rec.device).sum())
    story.begin(sums)
    for number, batch in enumerate(data, 1):
        rec.progress(0.9 * number / len(data), f"step {number}")
        good = run.scale.good_steps
        step = run.train(batch)
        oracles.see(step)
        story.tell(number, step, reference.train(batch, compare=False).loss, grown=run.scale.scale > step.scale and good > 0)
    story.end(params.steps)
    elements = sum(value.numel() for value in start.values())
    there = layout.bytes if run.adam.step else (*layout.bytes[:3], 0, 0)  # moments come to be with the first step that is taken
    rec.check("bytes a parameter, from the storages that are there", sum(run.stored()) / elements, sum(there), 0.0, "the convention")
    oracles.record(rec)
    checks.formats(rec, run, sums, ONES)


class Story:
    """Tells a training: facts, views and sentences about the watched weight, the largest of the last layer."""

    def __init__(self, rec: Recorder, run: Training, start: Values) -> None:
        self.rec, self.run, self.layout = rec, run, run.layout
        name = list(start)[-1]
        self.name, self.index = name, int(start[name].abs().argmax())
        self.views = Views(rec, run.layout, (self.name, self.index))
        self.lost = self.wanted = self.gone = self.seen = self.skipped = 0
        self.went = self.meant = 0.0
        self.losses = (float("nan"), float("nan"))

    def begin(self, sums: tuple[float, float]) -> None:
        """The bytes, and why small numbers get lost in a large sum."""
        self.rec.phase("bytes")
        self._weight(None, (False, False))
        self._facts(None)
        sizes = dict(zip(("weights", "gradients", "master", "m", "v"), self.layout.bytes, strict=True))
        self.rec.step(text.BYTES, text.BYTES_DETAIL[self.layout.name], total=sum(self.layout.bytes), **sizes)
        self.rec.step(text.SUM, text.SUM_DETAIL, count=ONES, stop=int(sums[0]), torch_sum=int(sums[1]))
        self.rec.phase("training")

    def tell(self, number: int, step: Step, reference: float, *, grown: bool) -> None:
        """The steps of one training step: backward, what became of the loss scale, and the update."""
        self.losses = step.loss, reference
        self.views.count(step)
        self.views.draw()
        self.views.point(number, step.loss, reference, step.scale)
        gone, seen = sum(int(g.sum()) for g in step.gone.values()), sum(int((e != 0).sum()) for e in step.exact.values())
        self.gone, self.seen = self.gone + gone, self.seen + seen
        self._facts(step)
        smallest = backward_format(self.layout).smallest
        values: dict[str, int | float | str] = {"number": number, "loss": step.loss, "gradients": seen, "gone": gone, "smallest": smallest}
        if step.scale > 1:
            self.rec.step(text.BACKWARD, text.SCALED_DETAIL, time=None, **values, scale=int(step.scale), reached=smallest / step.scale)
        else:
            self.rec.step(text.BACKWARD, text.BACKWARD_DETAIL, time=None, **values, format=self._compute_name())
        if not step.taken:
            self._skip(number, step)
            return
        lost, wanted = step.lost
        went, meant = step.moved
        self.lost, self.wanted, self.went, self.meant = self.lost + lost, self.wanted + wanted, self.went + went, self.meant + meant
        self._update(number, step)
        if grown:
            interval = self.run.scale.growth_interval
            self._facts(step)
            self.rec.step(text.GROWN, text.GROWN_DETAIL, number=number, interval=interval, scale=int(self.run.scale.scale))

    def end(self, steps: int) -> None:
        self.rec.phase("end")
        self._facts(None)
        lost, underflow = self.lost / self.wanted if self.wanted else 0.0, self.gone / self.seen if self.seen else 0.0
        loss, reference = self.losses
        if self.layout.stochastic:
            kept = self.went / self.meant if self.meant else 0.0
            values, detail = {"lost": lost, "underflow": underflow, "kept": kept}, text.END_CHANCE_DETAIL
        else:
            values, detail = {"lost": lost, "underflow": underflow, "skipped": self.skipped}, text.END_DETAIL
        self.rec.step(text.END, detail, steps=steps, loss=loss, reference=reference, **values)

    def _skip(self, number: int, step: Step) -> None:
        self.skipped += 1
        count = sum(int((~torch.isfinite(g)).sum()) for g in step.gradients.values())
        title, detail = (text.SKIP, text.SKIP_DETAIL) if self.run.scale.kind == "dynamic" else (text.STATIC, text.STATIC_DETAIL)
        self._weight(0.0, (False, False))
        self._facts(step)
        scale = self.run.scale.scale
        self.rec.step(title, detail, number=number, count=count, all=sum(g.numel() for g in step.gradients.values()), scale=scale)

    def _update(self, number: int, step: Step) -> None:
        """The step of the update, told of the watched weight."""
        at = self.name, self.index
        update, before, after = (_item(part, at) for part in (step.updates, step.before, step.after))
        copy, was = _item(step.copy_after, at), _item(step.copy_before, at)
        self._weight(update, (after != before, copy != was))
        self._facts(step)
        room = self._gap()
        values: dict[str, float | str] = {
            "update": update, "before": before, "after": after, "copy": copy, "gap": room, "still": step.still,
            "stuck": step.lost[0] / max(step.lost[1], 1),
            "share": min(abs(update) / room, 1.0), "kept": self.went / self.meant if self.meant else 0.0, "format": self.layout.weight.name,
        }  # fmt: skip
        title, detail = self._sentence(update, copy != was)
        named = {name: value for name, value in values.items() if f"{{{name}:" in title + detail or f"{{{name}}}" in title + detail}
        self.rec.step(title, detail, time=None, **named)

    def _sentence(self, update: float, moved: bool) -> tuple[str, str]:
        if update == 0:
            return text.MASTER_ZERO, text.NOTHING_DETAIL
        if self.layout.master is not None:
            return (text.MASTER_MOVES, text.MASTER_MOVES_DETAIL) if moved else (text.MASTER_STILL, text.MASTER_STILL_DETAIL)
        if self.layout.stochastic:
            return text.CHANCE_MOVES if moved else text.CHANCE_STAYS, text.CHANCE_DETAIL
        return (text.MOVES, text.MOVES_DETAIL) if moved else (text.LOST, text.LOST_DETAIL)

    def _gap(self) -> float:
        stored = self.run.weights[self.name].flatten()[self.index]
        scale = self.run.scales.get(self.name)
        return float(gap(stored, self.layout.weight)) / (float(scale) if scale is not None else 1.0)

    def _weight(self, update: float | None, moved: tuple[bool, bool]) -> None:
        kept, stored = (part[self.name].flatten()[self.index] for part in (self.run.kept, self.run.weights))
        self.views.weight(kept, stored, self.run.scales.get(self.name), update, moved if self.layout.master else (moved[1], False))

    def _compute_name(self) -> str:
        return "FP8 (E4M3 forward, E5M2 backward)" if self.layout.weight.bytes == 1 else self.layout.weight.name

    def _facts(self, step: Step | None) -> None:
        """All facts as they are now; shares are those of the whole training so far."""
        fact = self.rec.fact
        fact("bytes_per_parameter", sum(self.layout.bytes), "bytes", note="weight, gradient, master, Adam's two moments")
        lost = self.lost / self.wanted if self.wanted else 0.0
        fact("lost_updates_fraction", lost, "%", note="updates that are not zero and leave what the optimizer keeps as it was")
        fact("underflow_fraction", self.gone / self.seen if self.seen else 0.0, "%", note="gradients that are zero here and not in fp32")
        fact("loss_scale", self.run.scale.scale, note="of the next backward")
        fact("skipped_steps", self.skipped, "count", note="an infinite or NaN gradient")
        if self.meant:
            fact(
                "update_kept_fraction",
                self.went / self.meant,
                "%",
                note="way that weights went in the direction of their updates, over its sum",
            )
        if step is not None and step.updates:
            fact(
                "still_weights_fraction",
                step.still,
                "%",
                note="weights that compute and did not move in this step, of those with an update",
            )
        if self.seen:
            fact("loss", self.losses[0])
            fact("loss_fp32", self.losses[1], note="the same training in fp32")


def _item(values: Values, at: tuple[str, int]) -> float:
    return float(values[at[0]].flatten()[at[1]])
