"""What a `mixed_precision` run is compared with: torch's GradScaler, Adam, conversions and sums, and arithmetic on the bits."""

from __future__ import annotations

import torch
from torch import Tensor

from core.recording import Recorder
from core.training.mixed_precision_formats import BF16, FORMATS, Format, codes, decode, nearest, stochastic_bf16
from core.training.mixed_precision_train import BETAS, EPSILON, Step, Training, Values

SAMPLES = 20_000


class _CountingSGD(torch.optim.SGD):
    """Counts the steps that the scaler lets through."""

    taken = 0

    def step(self, closure: object = None) -> None:  # type: ignore[override]
        self.taken += 1


class Oracles:
    """Torch's own Adam and GradScaler, fed with the run's gradients step by step."""

    def __init__(self, run: Training, start: Values, rate: float) -> None:
        self.run = run
        self.sums = {name: torch.zeros_like(value) for name, value in start.items()}  # Adam's updates do not depend on the weights
        for total in self.sums.values():
            total.requires_grad_()
        self.adam = torch.optim.Adam(list(self.sums.values()), lr=rate, betas=BETAS, eps=EPSILON, foreach=False)
        self.mine = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in start.items()}
        self.fused: torch.optim.Optimizer | None = None
        if run.layout.state is run.layout.kept is BF16:
            self.theirs = {name: value.to(torch.bfloat16).requires_grad_() for name, value in start.items()}
            self.fused = torch.optim.Adam(list(self.theirs.values()), lr=rate, betas=BETAS, eps=EPSILON, fused=True)
        self.scaler: torch.amp.GradScaler | None = None
        self.different = self.wrong_conversions = self.wrong_copies = self.wrong_losses = self.steps = 0
        if run.scale.kind == "dynamic":
            self.parameters = [torch.zeros_like(value).requires_grad_() for value in start.values()]
            self.sgd = _CountingSGD(self.parameters, lr=1.0)
            device = next(iter(start.values())).device.type
            self.scaler = torch.amp.GradScaler(device, init_scale=run.scale.scale, growth_interval=run.scale.growth_interval)
            self.scaler.scale(torch.zeros(1, device=device))  # its scale comes to be with the first use

    def see(self, step: Step) -> None:
        """One more step of the run, just after it."""
        self.steps += 1
        if self.scaler is not None:
            self._scaler(step)
        if step.taken:
            for name, total in self.sums.items():
                total.grad = step.gradients[name].float() / step.scale
                self.mine[name] += step.updates[name].double()
            self.adam.step()
            if self.fused is not None:
                for name, weight in self.theirs.items():
                    weight.grad = step.gradients[name].clone()
                self.fused.step()
            self._rounding(step)

    def record(self, rec: Recorder) -> None:
        """The checks that need the whole run."""
        if self.scaler is not None:
            name = "steps in which skip or next loss scale differ"
            rec.check(name, self.different, 0, 0.0, f"torch.amp.GradScaler, {self.steps} steps with the same gradients")
        if self.run.layout.state.dtype == torch.float32:
            apart = max(float((total.detach().double() - self.mine[name]).abs().max()) for name, total in self.sums.items())
            rate = self.run.adam.rate
            rec.check(
                "updates of Adam, largest difference of their sums over the learning rate", apart / rate, 0.0, 1e-3, "torch.optim.Adam"
            )
        if self.fused is not None:
            pairs = [(theirs.detach(), self.run.kept[name]) for name, theirs in self.theirs.items()]
            share = sum(int((a != b).sum()) for a, b in pairs) / sum(a.numel() for a, _ in pairs)
            rec.check("share of the BF16 weights that differ after the last step", share, 0.0, 1e-3, "torch.optim.Adam, fused, all in BF16")
        rec.check("kept weights that are no rounding of weight + update", self.wrong_conversions, 0, 0.0, "rounding in fp64 arithmetic")
        name = "weights that compute and are no rounding of what is kept"
        rec.check(name, self.wrong_copies, 0, 0.0, "rounding in fp64 arithmetic, times the scale in FP8")
        rec.check("lost updates counted wrongly", self.wrong_losses, 0, 0.0, "weight + update rounds back, in fp64 arithmetic")

    def _scaler(self, step: Step) -> None:
        assert self.scaler is not None
        before, was = self.sgd.taken, self.scaler.get_scale()
        for parameter, gradient in zip(self.parameters, step.gradients.values(), strict=True):
            parameter.grad = gradient.float()
        self.scaler.step(self.sgd)
        self.scaler.update()
        agree = was == step.scale and (self.sgd.taken > before) == step.taken and self.scaler.get_scale() == self.run.scale.scale
        self.different += not agree

    def _rounding(self, step: Step) -> None:
        """Every weight, kept and computing, against `nearest` (what is kept against both neighbours where rounding is by chance)."""
        form, stuck = self.run.layout.kept, 0
        for name, update in step.updates.items():
            scale = float(self.run.scales[name]) if name in self.run.scales else 1.0
            copy, wanted = self.run.weights[name].double(), nearest(step.after[name].float() * scale, self.run.layout.weight)
            self.wrong_copies += int(((copy != wanted) & ~(copy.isnan() & wanted.isnan())).sum())
            exact, after, before = step.before[name].float() + update, step.after[name].double(), step.before[name].double()
            if self.run.layout.stochastic:
                bits = exact.view(torch.int32)
                down = (bits & -(2**16)).view(torch.float32).double()
                up = ((bits & -(2**16)) + 2**16).view(torch.float32).double()
                real = torch.isfinite(exact)
                self.wrong_conversions += int((real & (after != down) & (after != up)).sum())
                self.wrong_conversions += int((real & ((bits & 0xFFFF) == 0) & (after != exact.double())).sum())
                stuck += int(((after == before) & (update != 0)).sum())
            else:
                want = nearest(exact, form)
                self.wrong_conversions += int(((after != want) & ~(after.isnan() & want.isnan())).sum())
                stuck += int(((want == before) & (update != 0)).sum())
        self.wrong_losses += abs(stuck - step.lost[0])


def formats(rec: Recorder, run: Training, sums: tuple[float, float], count: int) -> None:
    """Formats, sums and rounding by chance, whatever was trained; ``sums``: the running BF16 sum of ``count`` ones, and torch's."""
    rec.check(
        f"running BF16 sum of {count:,} ones", sums[0], min(2.0 ** (BF16.mantissa + 1), count), 0.0, "2^8: where numbers become 2 apart"
    )
    rec.check(
        f"torch.sum of {count:,} BF16 ones", sums[1], float(nearest(torch.tensor(float(count)), BF16)), 0.0, "the count, rounded once"
    )
    wrong = sum(misread(form) for form in FORMATS if form.bytes < 4)
    rec.check("codes of BF16, FP16, E4M3 and E5M2 read wrongly", wrong, 0, 0.0, "torch, all 131,584 codes")
    values = torch.cat([value.float().flatten() for part in (run.kept, run.gradients) for value in part.values()])
    values = values[torch.isfinite(values)]
    rec.check("conversions that differ", sum(misrounded(values, form) for form in FORMATS), 0, 0.0, "torch's, on weights and gradients")
    if run.layout.stochastic:
        got, want, deviation = mean_of_stochastic(run.generator)
        rec.check(
            "mean of many stochastic roundings of one number", got, want, 5 * deviation, "the number itself, within 5 standard errors"
        )


def misread(form: Format) -> int:
    """Codes whose value by sign, exponent and mantissa is not torch's."""
    every = torch.arange(2**form.bits)
    theirs = every.to(torch.uint8 if form.bytes == 1 else torch.int16).view(form.dtype)
    mine, want = decode(every, form), theirs.double()
    return int(((mine != want) & ~(mine.isnan() & want.isnan())).sum()) + int((codes(theirs, form) != every).sum())


def misrounded(values: Tensor, form: Format) -> int:
    """Values (fp32, finite) within the format's range that torch converts to another number than `nearest` does."""
    inside = values[values.abs() <= form.largest]
    return int((nearest(inside, form) != inside.to(form.dtype).double()).sum())


def mean_of_stochastic(generator: torch.Generator) -> tuple[float, float, float]:
    """Mean of `SAMPLES` roundings of 1 + 3/8 of a BF16 step, that number, and the standard error sqrt(p (1 - p) / n) steps."""
    step, share = 2.0**-BF16.mantissa, 0.375
    number = 1 + share * step
    rounded = stochastic_bf16(torch.full((SAMPLES,), number), generator)
    return float(rounded.double().mean()), number, step * (share * (1 - share) / SAMPLES) ** 0.5
