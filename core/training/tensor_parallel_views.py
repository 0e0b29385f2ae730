"""What the screen shows of a cut layer: who holds which part of every matrix and activation, GeLU in numbers, messages, streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from core.fabric import ring
from core.fabric.base import Tensors
from core.recording import Recorder
from core.training import tensor_parallel_text as text
from core.training.megatron_layer import COLUMNS, WHOLE
from core.training.megatron_setup import BYTES
from core.training.megatron_tape import Held
from core.views import Axis, Breakdown, Exchange, Heatmap

if TYPE_CHECKING:
    from core.training.megatron_twin import Dense
    from core.training.tensor_parallel_layer import TensorParallel

MATRICES = {
    "norm 1": "norm1.weight",
    "QKV": "qkv.weight",
    "output": "out.weight",
    "output bias": "out.bias",
    "norm 2": "norm2.weight",
    "A": "up.weight",
    "B": "down.weight",
    "B bias": "down.bias",
    "vocabulary": "head.weight",
}
ACTIVATIONS = (
    "input", "norm 1", "att. input", "attention", "residual 1", "norm 2", "MLP input", "GeLU(XA)", "MLP", "residual 2", "logits",
)  # fmt: skip
BLOCKS = {"attention": "attention", "up": "the MLP", "head": "the output head", "MLP": "the MLP"}
_ROWS = {"attention": "attention", "up": "GeLU(XA)", "head": "logits"}
_INPUTS = {"attention": "att. input", "up": "MLP input"}
_UNITS = 4
"""So many columns of GeLU(XA) are shown in numbers."""
_GELU_MEANINGS = {"comm": "a rank's part", "activation": "value", "good": "same", "bad": "wrong"}
_SAME = 1e-9
"""What differs by less is equal: fp64 sums in another order."""
PARTS = (("norm, drop", "buffer"), ("inputs", "comm"), ("attention", "forward"), ("MLP", "activation"))
_PART_OF = {
    "Q, K, V": 2, "softmax output": 2, "softmax dropout mask": 2, "softmax after dropout": 2, "projection input": 2,
    "GeLU input": 3, "GeLU output": 3, "QKV input": 1, "MLP input": 1, "head input": 1,
}  # fmt: skip


def convention_bytes(held: Held) -> int:
    """A storage in the convention on screen: 2 bytes a number, 1 an element of a mask."""
    return held.elements * (BYTES if held.floating else 1)


class Story:
    """Tells one run: closes the steps and paints the panels. ``want`` is the dense layer, where values are there to compare."""

    def __init__(self, rec: Recorder, want: Dense | None) -> None:
        self.rec, self.want = rec, want
        self.began = 0.0
        self.sent = 0.0

    def open(self, layer: TensorParallel) -> None:
        """Put up the panels and tell how the layer is cut."""
        self.layer, self.shape = layer, layer.shape
        self.t = layer.ranks
        self.layout = layer.layout
        ranks = Axis("rank {i}", self.t)
        self.weights = Heatmap(Axis.of(*MATRICES), ranks, "%", low=0, high=1, show="text")
        self.activations = Heatmap(Axis.of(*ACTIVATIONS), ranks, "%", low=0, high=1, show="text")
        self.bars = Breakdown(ranks, PARTS, "bytes")
        self.exchange = Exchange(ranks)
        self.panels()
        self.layer.fabric.draw(self.rec.panel("Compute and comm streams", self.layer.fabric.lanes()))
        self.rec.phase("start")
        for row, parameter in enumerate(MATRICES.values()):
            self._weight(row, parameter, "parameter")
        self.show("input", *self.tokens())
        title, detail = text.START[self.layout]
        detail += text.SIZES + (text.TIMED if layer.job.magnify > 1 else "")
        detail += text.NO_VALUES if layer.problem.x.is_meta else text.VALUES
        self.tell(title, detail, magnify=layer.job.magnify, share=1 / self.t)

    def panels(self) -> None:
        """Weights, activations, GeLU in numbers (or bytes, where there are no values) and messages."""
        self.rec.panel("Weights: who holds which part", self.weights, 1.25)
        self.rec.panel("Activations", self.activations, beside=True)
        if self.want is not None:
            rows = Axis.of(*(f"rank {rank}" for rank in range(self.t)), "together", "dense", "off by")
            total = self.shape.ffn
            self.units = sorted({k * total // _UNITS for k in range(min(_UNITS, total))})
            names = Axis.of(*(f"column {unit}" for unit in self.units))
            self.gelu = self.rec.panel("GeLU(XA), first token", Heatmap(rows, names, show="text", legend=_GELU_MEANINGS))
        else:
            self.rec.panel("Held for backward", self.bars)
        self.rec.panel("Messages of this step", self.exchange, beside=True)

    def phase(self, name: str) -> None:
        self.rec.phase(name)

    # forward -------------------------------------------------------------------------------------------------------------

    def normed(self, row: str, share: float) -> None:
        block = "attention" if row == "norm 1" else "the MLP"
        self._use(row)
        self.show(row, *self.tokens())
        if share == 1:
            self.tell(text.NORM, text.NORM_DETAIL, block=block)
        else:
            self.tell(text.NORM_CUT, text.NORM_CUT_DETAIL, block=block, share=share)

    def entered(self, piece: str) -> None:
        self.show_input(piece, "activation", 1.0, "all")
        self.tell(text.ENTER, text.ENTER_DETAIL, block=_capital(BLOCKS[piece]))

    def gathered(self, piece: str, *, forget: bool) -> None:
        self.show_input(piece, "activation", 1.0, "all")
        detail = text.GATHER_FORGET_DETAIL if forget else text.GATHER_DETAIL
        self.tell_sent(text.GATHER, detail, BLOCKS[piece])

    def attention(self) -> None:
        self._use("QKV", "output")
        self.show("attention", "comm", 1.0, "part")
        self.tell(text.ATTENTION, text.ATTENTION_DETAIL, heads=self.shape.heads // self.t)

    def left(self, block: str) -> None:
        self.show(block, "activation", 1.0, "all")
        self.tell_sent(text.LEAVE, text.LEAVE_DETAIL, BLOCKS[block], size=self.shape.sbh * BYTES)

    def scattered(self, block: str) -> None:
        self.show(block, *self.tokens())
        self.tell_sent(text.SCATTER, text.SCATTER_DETAIL, BLOCKS[block])

    def added(self, row: str, block: str, bias: str, share: float) -> None:
        self._use("output bias" if bias == "out.bias" else "B bias")
        self.show(row, *self.tokens())
        detail = text.ADD_DETAIL if share == 1 else text.ADD_CUT_DETAIL
        self.tell(text.ADD, detail, block=BLOCKS[block], mask=int(self.shape.sbh * share))

    def up(self, hidden: Tensors) -> None:
        self._use("A")
        cut = self.layout != "row_first"
        if not cut:
            self.show("MLP input", "activation", 1 / self.t, lambda rank: self._part("c", rank))
        role = ("activation", 1 / self.t) if cut else ("comm", 1.0)
        self.show("GeLU(XA)", *role, lambda rank: self._part("c", rank) if cut else "part")
        columns = self.shape.ffn // (self.t if cut else 1)
        if self.want is None or len(hidden) < self.t:
            self.tell(text.UP, text.UP_DETAIL, columns=columns)
            return
        error = self._gelu_in_numbers(hidden, self.want.hidden, cut=cut)
        relative = error / float(self.want.hidden.abs().max())
        ratio = self.shape.ffn / self.shape.hidden
        told = text.UP_CHECKED["column" if cut else "row" if self.t > 1 else "one"]
        self.rec.fact("gelu_error", error, note="largest difference of GeLU(XA) from the dense layer, first token")
        self.tell(*told, columns=columns, error=error, relative=relative, ratio=ratio)

    def down(self) -> None:
        self._use("B")
        kind = {"column_column": "column", "row_first": "whole"}.get(self.layout, "row")
        columns = self.layout == "column_column"
        state = ("activation", 1 / self.t) if columns else ("comm", 1.0)
        self.show("MLP", *state, lambda rank: self._part("c", rank) if columns else "part")
        self.tell(*text.DOWN[kind], columns=self.shape.ffn // self.t, share=1 / self.t)

    def gathered_columns(self, what: str, section: str) -> None:
        row = {"hidden": "GeLU(XA)", "MLP": "MLP", "MLP input": "MLP input"}[what]
        self.show(row, "gradient" if section == "backward" else "activation", 1.0, "all")
        self.tell_sent(*text.GATHER_COLUMNS[what], BLOCKS["MLP"], ratio=self.shape.ffn / self.shape.hidden / 2)

    # loss ----------------------------------------------------------------------------------------------------------------

    def logits(self) -> None:
        self._use("vocabulary")
        rows = self.shape.padded_vocabulary // self.t
        self.show("logits", "activation", 1 / self.t, lambda rank: self._part("w", rank))
        padding = self.shape.padded_vocabulary - self.shape.vocabulary
        size = self.shape.tokens * self.shape.padded_vocabulary * BYTES
        detail = text.LOGITS_DETAIL + (text.PADDED if padding else "")
        self.tell(text.LOGITS, detail, rows=rows, vocabulary=self.shape.vocabulary, size=size, padding=padding)

    def loss(self, loss: Tensors) -> None:
        size = self.shape.tokens * 4
        if self.layer.problem.x.is_meta:
            self.tell(text.LOSS_SHAPES, text.LOSS_DETAIL, size=size)
            return
        value = float(next(iter(loss.values())))
        self.rec.fact("loss", value, note="mean cross-entropy of all tokens")
        told = (text.LOSS, text.LOSS_DETAIL) if self.t > 1 else (text.LOSS_ALONE, text.ALONE_DETAIL)
        self.tell(*told, loss=value, size=size)

    # backward --------------------------------------------------------------------------------------------------------------

    def back(self, row: str, title: str, block: str) -> None:
        """A norm's or a residual's backward."""
        self.show(row, "gradient", *self.tokens()[1:])
        if title == text.BACK_ADD:
            self._gradient("output bias" if row == "residual 1" else "B bias")
            through_sum = self.layer.norm_share == 1 and not (self.layout == "column_column" and row == "residual 2")
            detail = text.LEAVE_BACK_DETAIL + text.BACK_ADD_DETAIL if through_sum and self.t > 1 else text.BACK_ADD_DETAIL
            self.tell(title, detail, block=BLOCKS[block])
        else:
            self._gradient(row)
            kind = "tp" if self.layer.norm_share == 1 else "sp"
            self.tell(title, text.BACK_NORM_DETAIL[kind], block=BLOCKS[block])

    def back_down(self) -> None:
        self._gradient("B")
        share = 1.0 if self.layout in ("column_column", "row_first") else 1 / self.t
        self.show("GeLU(XA)", "gradient", share, lambda rank: "part" if share == 1 else self._part("c", rank))
        self.tell(text.BACK_DOWN, text.BACK_DOWN_DETAIL)

    def back_up_rows(self) -> None:
        self._gradient("A")
        self.show("MLP input", "gradient", 1 / self.t, lambda rank: self._part("c", rank))
        self.tell(text.BACK_UP_ROWS, text.BACK_UP_ROWS_DETAIL)

    def scattered_columns(self) -> None:
        self.show("GeLU(XA)", "gradient", 1 / self.t, lambda rank: self._part("c", rank))
        self.tell_sent(*text.SCATTER_COLUMNS, BLOCKS["MLP"])

    def entered_backward(self, piece: str) -> None:
        """The input's gradient is summed, and the weights' gradients beside it are done."""
        self._gradient(*{"attention": ("QKV", "output"), "up": ("A",), "head": ("vocabulary",)}[piece])
        self.show(_ROWS[piece], "gradient", 1 / self.t, "done")
        self.show_input(piece, "gradient", *self.tokens()[1:])
        waited = float(self.layer.fabric.clocks.waited.max())
        cut = self.layer.norm_share < 1
        told = (text.GATHER_BACK, text.GATHER_BACK_DETAIL) if cut else (text.ENTER_BACK, text.ENTER_BACK_DETAIL)
        self.tell_sent(*told, BLOCKS[piece], waited=waited)

    def gathered_backward(self, block: str) -> None:
        self.show(block, "gradient", 1.0, "all")
        self.tell_sent(text.SCATTER_BACK, text.SCATTER_BACK_DETAIL, BLOCKS[block])

    def regathered(self, piece: str) -> None:
        self.show_input(piece, "activation", 1.0, "all")
        saved = self.shape.sbh * BYTES * (1 - 1 / self.t)
        self.tell_sent(text.REGATHER, text.REGATHER_DETAIL, BLOCKS[piece], saved=saved)

    def finished(self, summed: list[str]) -> None:
        layer_sent = sum(self.layer.sent[section] for section in ("forward", "backward", "regather")) * self.layer.counted_as
        if not summed:
            self.tell(text.DONE, text.DONE_DETAIL, layer_sent=layer_sent)
            return
        elements = sum(self.layer.problem.parameters[name].numel() for name in summed)
        names = ", ".join(summed)
        self.tell(text.DONE_SUMMED, text.DONE_SUMMED_DETAIL, names=names, elements=elements, layer_sent=layer_sent)

    # painting ----------------------------------------------------------------------------------------------------------------

    def tell(self, title: str, detail: str, **values: float | int | str) -> None:
        """Close a step; it stands at the time at which its work began."""
        held = [sum(map(convention_bytes, tape.held())) for tape in self.layer.tapes.values()]
        self.rec.fact("held_bytes", max(held), "bytes", note="saved for backward on the fullest rank at this step, BF16")
        self.paint_held()
        own = self.shape.sequence * self.shape.batch * self.layer.norm_share
        common = {"ranks": self.t, "tokens": self.shape.tokens, "own_tokens": int(own), "held": max(held), "sent": int(self.sent)}
        self.rec.step(title, detail, time=self.began, **common, **values)
        self.began, self.sent = self.layer.fabric.now(), 0.0

    def tell_sent(self, title: str, detail: str, block: str, **values: float | int | str) -> None:
        """A step with communication; on one rank there is none."""
        if self.t == 1:
            title, detail = text.ALONE, text.ALONE_DETAIL
        self.tell(title, detail, block=block, **values)

    def paint_held(self) -> None:
        """What waits for backward on every rank, by part of the layer."""
        for rank, tape in self.layer.tapes.items():
            parts = [0.0] * len(PARTS)
            for held in tape.held():
                parts[_PART_OF.get(held.label, 0)] += convention_bytes(held)
            for part, value in enumerate(parts):
                self.bars.set(rank, part, value)

    def messages(self, operation: str, sent: Mapping[int, float]) -> None:
        """What every rank has sent to its neighbour on the ring, all hops of one collective together."""
        self.sent += max(sent.values())
        for rank, size in sent.items():
            if size:
                self.exchange.send(rank, ring.next_rank(rank, self.t), size, "comm", operation.replace("_", "-"))

    def tokens(self) -> tuple[str, float, object]:
        """Role, share and text of an activation outside the blocks."""
        if self.layer.norm_share == 1:
            return "activation", 1.0, "all"
        return "activation", self.layer.norm_share, lambda rank: self._part("t", rank)

    def show(self, row: str, role: str, share: float, what: object) -> None:
        """An activation on every rank hosted here; ``what`` is a text, or a function from rank to text."""
        at = ACTIVATIONS.index(row)
        for rank in self.layer.fabric.ranks:
            said = what(rank) if callable(what) else str(what)
            self.activations.set(at, rank, share, role, said)
            self.exchange.hold(rank, 0, None, role, said)

    def show_input(self, piece: str, role: str, share: float, what: object) -> None:
        """The input of a block, on every rank hosted here; that of the output head has no row of its own."""
        if piece in _INPUTS:
            self.show(_INPUTS[piece], role, share, what)

    def _part(self, letter: str, rank: int) -> str:
        """The part of something that a rank has: h heads, c columns, r rows, t tokens, w words."""
        return "all" if self.t == 1 else f"{letter}{rank}"

    def _use(self, *rows: str) -> None:
        for row in rows:
            self._weight(list(MATRICES).index(row), MATRICES[row], "parameter")

    def _gradient(self, *rows: str) -> None:
        for row in rows:
            self._weight(list(MATRICES).index(row), MATRICES[row], "gradient")

    def _weight(self, row: int, parameter: str, role: str) -> None:
        letter = self._letter(parameter)
        share = 1 / self.t if letter else 1.0
        for rank in self.layer.fabric.ranks:
            self.weights.set(row, rank, share, role, self._part(letter, rank) if letter else "all")

    def _letter(self, parameter: str) -> str:
        """How a parameter is cut; '' for one that is whole everywhere."""
        cut = self.layer.cuts[parameter]
        return "" if cut is WHOLE else {"qkv.weight": "h", "head.weight": "w"}.get(parameter, "c" if cut == COLUMNS else "r")

    def _gelu_in_numbers(self, hidden: Tensors, want: torch.Tensor, *, cut: bool) -> float:
        """Paint some columns of the first token's GeLU(XA), rank by rank; the largest difference from the dense layer of all columns."""
        parts = [hidden[rank][0, 0].to(want) for rank in sorted(hidden)]
        together = torch.cat(parts) if cut else torch.stack(parts).sum(0)
        off = (together - want).abs()
        each = self.shape.ffn // self.t
        for column, unit in enumerate(self.units):
            for rank, part in enumerate(parts):
                if not cut or unit // each == rank:
                    self._number(rank, column, part[unit if not cut else unit - rank * each], "activation" if cut else "comm")
            close = float(off[unit]) < _SAME
            self._number(self.t, column, together[unit], "activation" if close else "bad")
            self._number(self.t + 1, column, want[unit], "activation")
            self._number(self.t + 2, column, off[unit], "good" if close else "bad")
        return float(off.max())

    def _number(self, row: int, column: int, value: torch.Tensor, role: str) -> None:
        self.gelu.set(row, column, float(value), role, f"{float(value):.2f}")


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
