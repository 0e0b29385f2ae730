"""What the screen shows of sequence parallelism: shares of every activation, bytes held for backward, and the three layouts by formula."""

from __future__ import annotations

from core.recording import Recorder
from core.training import megatron_bytes
from core.training.tensor_parallel_views import Story
from core.views import Column, Table

LAYOUTS = ("tp", "tp_sp", "tp_sp_regather")


class SequenceStory(Story):
    """Bars of what each rank holds for backward in place of GeLU in numbers."""

    def __init__(self, rec: Recorder) -> None:
        super().__init__(rec, None)

    def panels(self) -> None:
        self.rec.panel("Held for backward", self.bars, 1.25)
        self.rec.panel("Activations: which part a rank has", self.activations, beside=True)
        columns = [Column("layout", align="left"), Column("held", "bytes"), Column("sent", "bytes")]
        table = self.rec.panel("One layer on one rank, by formula", Table(columns))
        for layout in LAYOUTS:
            table.row(layout, megatron_bytes.activation_bytes(self.shape, layout), megatron_bytes.wire_bytes(self.shape, layout))
        table.light(LAYOUTS.index(self.layout))
        self.rec.panel("Messages of this step", self.exchange, beside=True)
