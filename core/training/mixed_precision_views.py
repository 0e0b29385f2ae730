"""What the screen shows of a `mixed_precision` run: gradients by size, the loss, one weight bit by bit, and bytes a parameter."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from core.recording import Recorder
from core.training.mixed_precision_formats import E5M2, FP32, Format, codes, fields, gap
from core.training.mixed_precision_setup import LAYOUTS, PARTS, PRECISIONS, Layout
from core.training.mixed_precision_train import Step
from core.views import Axis, Breakdown, Column, Plot, Table

LOWEST = -44
"""Powers of two below this are counted with it."""


def backward_format(layout: Layout) -> Format:
    """The format that limits gradients on their way: FP8's are E5M2 between layers."""
    return E5M2 if layout.weight.bytes == 1 else layout.weight


class Views:
    """The panels of one run. ``place`` is the watched weight: a parameter's name and its flat index."""

    def __init__(self, rec: Recorder, layout: Layout, place: tuple[str, int]) -> None:
        self.rec, self.layout, self.place = rec, layout, place
        columns = [Column("", align="left"), Column("value"), Column("sign"), Column("exponent"), Column("mantissa"), Column("moved")]
        self.table = rec.panel("One weight, bit by bit", Table(columns), 1.1)
        gradients = Plot("size of a gradient, as a power of two", "gradients")
        self.gradients = rec.panel("Gradients in fp32, and those that are zero here (▲: the smallest that survives)", gradients, 1.4)
        self.loss = rec.panel("Loss", Plot("step", "loss"), 1.2)
        self.loss.curve(layout.name, "forward")
        self.loss.curve("fp32", "dim")
        bars = Breakdown(Axis.of(*PRECISIONS), PARTS, "bytes")
        self.bytes = rec.panel("Bytes a parameter", bars, 1.2, beside=True)
        for bar, name in enumerate(PRECISIONS):
            for part, size in enumerate(LAYOUTS[name].bytes):
                if size:
                    self.bytes.set(bar, part, size)
        self.all = np.zeros(-LOWEST + 20, dtype=np.int64)
        self.gone = np.zeros_like(self.all)

    def weight(self, kept: Tensor, copy: Tensor, scale: Tensor | None, update: float | None, moved: tuple[bool, bool]) -> None:
        """Write the watched weight: what is kept, the copy that computes (a code, with its ``scale`` in FP8), the update, half a gap."""
        layout, row = self.layout, 0
        if layout.master is not None:
            self._row(0, "fp32 master", kept, layout.master, moved[0])
            row = 1
        self._row(row, f"{layout.weight.name} weight", copy, layout.weight, moved[1])
        if scale is not None:
            row += 1
            self.table.row("its scale", f"{float(scale):.7g}", "", "", "", "", row=row)
        step = torch.tensor(0.0 if update is None else update)
        self._row(row + 1, "update", step, FP32, None)
        half = float(gap(copy.double(), layout.weight)) / 2 / (float(scale) if scale is not None else 1.0)
        self.table.row("half the gap", f"{half:.7g}", "", "", "", "", row=row + 2)
        self.table.light(*[r for r, its in enumerate(moved) if its and r <= row])

    def count(self, step: Step) -> None:
        """Add a step's gradients, by the power of two of their size in fp32, to the histogram."""
        gone = step.gone
        for name, exact in step.exact.items():
            for mask, into in (((exact != 0) & torch.isfinite(exact), self.all), (gone[name], self.gone)):
                _, exponent = torch.frexp(exact[mask])
                at = (exponent - 1 - LOWEST).clamp(0, len(into) - 1)
                into += torch.bincount(at.cpu(), minlength=len(into)).numpy()

    def point(self, number: int, loss: float, reference: float, scale: float) -> None:
        """A step's losses, and how small a gradient may be under this loss scale."""
        if math.isfinite(loss):
            self.loss.point(0, number, loss)
        self.loss.point(1, number, reference)
        threshold = math.log2(backward_format(self.layout).smallest / scale)
        self.gradients.cursor(max(threshold, LOWEST))

    def draw(self) -> None:
        """The histogram of the run so far: while it records it grows, then it stands at every step."""
        some = np.flatnonzero(self.all)
        if not len(some):
            return
        at = np.arange(some[0], some[-1] + 1)
        for number, (name, role, counts) in enumerate((("in fp32", "gradient", self.all), ("of them zero here", "bad", self.gone))):
            if counts.any():
                if number == len(self.gradients.curves):
                    self.gradients.curve(name, role, "bar")
                self.gradients.replace(number, (at + LOWEST).tolist(), counts[at].tolist())

    def _row(self, row: int, name: str, value: Tensor, form: Format, moved: bool | None) -> None:
        sign, exponent, mantissa = fields(int(codes(value.reshape(1).to(form.dtype), form)), form)
        said = "" if moved is None else "yes" if moved else "no"
        self.table.row(name, f"{float(value):.9g}", sign, exponent, mantissa, said, row=row)
