"""Tensor parallelism (Megatron-LM, arXiv 1909.08053): one layer and its loss, forward and backward, on ranks that hold a cut of it.

`enter` and `leave` stand where a tensor-parallel block starts and ends. Here they are the paper's f (nothing forward, all-reduce
backward) and its conjugate (all-reduce forward, nothing backward); `sequence_parallel` puts others in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from core.fabric.base import Tensors, Work
from core.fabric.simulated import SimulatedFabric
from core.training import tensor_parallel_text as text
from core.training.megatron_layer import CUTS, Problem, add_dropped, attention, down, norm, shard, up, vocabulary_product
from core.training.megatron_setup import BYTES, Job
from core.training.megatron_tape import Held, Tape
from core.training.tensor_parallel_loss import vocabulary_loss
from core.training.tensor_parallel_views import Story

PARAMETERS = {
    "norm1": ("norm1.weight", "norm1.bias"),
    "attention": ("qkv.weight", "qkv.bias", "out.weight"),
    "add1": ("out.bias",),
    "norm2": ("norm2.weight", "norm2.bias"),
    "up": ("up.weight", "up.bias"),
    "down": ("down.weight",),
    "add2": ("down.bias",),
    "head": ("head.weight",),
}
"""What each piece of the layer reads; a piece lies between two collectives."""


class TensorParallel:
    """One layer on the ranks hosted here. Every tensor of a rank is its own; only the fabric moves values between them."""

    norm_share = 1.0
    """Share of the tokens that a rank's norms, dropouts and residuals see."""

    def __init__(self, job: Job, layout: str, problem: Problem, story: Story) -> None:
        self.job, self.layout, self.problem, self.story = job, layout, problem, story
        self.shape, self.ranks = job.shape, job.shape.ranks
        self.cuts = CUTS.get(layout, CUTS["column_row"])
        self.counted_as = BYTES / problem.x.element_size()
        self.fabric = SimulatedFabric(self.ranks, job.link, scale=job.magnify**2 * self.counted_as)
        self.time = job.times(layout, self.norm_share)
        self.parameters = dict(PARAMETERS)
        if layout == "column_column":  # the output's columns are cut, and so is their bias
            self.parameters |= {"down": ("down.weight", "down.bias"), "add2": ()}
        self.tapes: dict[int, Tape] = {}
        for rank in self.fabric.ranks:
            own = {name: shard(value, self.cuts[name], rank, self.ranks) for name, value in problem.parameters.items()}
            self.tapes[rank] = Tape(own)
        self.calls: dict[str, Counter[str]] = {}
        self.sent: Counter[str] = Counter()
        self.issued = 0
        self.layer_held: dict[int, list[Held]] = {}
        self.hidden: Tensors = {}
        self.output: Tensors = {}
        self.x_gradient: Tensors = {}
        self.loss: Tensors = {}
        story.open(self)

    # the layer -----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """One forward and backward of the layer and its loss."""
        self.story.phase("forward")
        self.output = self.forward({rank: self.tokens_of(self.problem.x, rank) for rank in self.fabric.ranks})
        self.layer_held = {rank: tape.held() for rank, tape in self.tapes.items()}
        self.story.phase("loss")
        gradient = self.loss_and_gradient(self.output)
        self.story.phase("backward")
        self.x_gradient = self.backward(gradient)
        self.add_up_gradients()

    def forward(self, x: Tensors) -> Tensors:
        """Output of the layer; a rank's input and output are (s, b, h), or its share of the tokens."""
        normed = self.each("norm1", lambda rank, x: norm(self.tapes[rank], self.own(rank), "norm1", x), x)
        self.story.normed("norm 1", self.norm_share)
        partial = self.each_entered("attention", self.attention, normed)
        self.story.attention()
        summed = self.leave("attention", partial)
        middle = self.each("add1", self.add_attention, summed, x)
        self.story.added("residual 1", "attention", "out.bias", self.norm_share)
        normed = self.each("norm2", lambda rank, x: norm(self.tapes[rank], self.own(rank), "norm2", x), middle)
        self.story.normed("norm 2", self.norm_share)
        summed = self.mlp(normed)
        output = self.each("add2", self.add_mlp, summed, middle)
        self.story.added("residual 2", "MLP", "down.bias", self.norm_share)
        return output

    def backward(self, grad: Tensors) -> Tensors:
        """Gradient of the layer's input, given that of its output; the forward read from its end."""
        summed, middle = self.back("add2", grad)
        self.story.back("residual 2", text.BACK_ADD, "MLP")
        normed = self.mlp_backward(summed)
        middle = _plus(middle, self.back("norm2", normed)[0])
        self.story.back("norm 2", text.BACK_NORM, "MLP")
        summed, x = self.back("add1", middle)
        self.story.back("residual 1", text.BACK_ADD, "attention")
        partial = self.leave_backward("attention", summed)
        normed = self.column_backward("attention", partial)
        x = _plus(x, self.back("norm1", normed)[0])
        self.story.back("norm 1", text.BACK_NORM, "attention")
        return x

    # the MLP, by layout ----------------------------------------------------------------------------------------------------

    def mlp(self, x: Tensors) -> Tensors:
        """GeLU(XA)B, without the row bias where B is cut by rows."""
        if self.layout == "row_first":  # X = [X1 X2]: each rank multiplies its columns of X by its rows of A
            x = {rank: _columns(value, rank, self.ranks) for rank, value in x.items()}
            self.hidden = self.each("up", self.up, x)
        else:
            self.hidden = self.each_entered("up", self.up, x)
        self.story.up(self.hidden)
        if self.layout == "column_column":
            whole = self.gather_columns("hidden", self.hidden)
            columns = self.each("down", self.down, whole)
            self.story.down()
            return self.gather_columns("MLP", columns)
        partial = self.each("down", self.down, self.hidden)
        self.story.down()
        return self.leave("MLP", partial)

    def mlp_backward(self, grad: Tensors) -> Tensors:
        """Gradient of the MLP's input (s, b, h)."""
        if self.layout == "column_column":  # behind the gather all ranks do the same: each goes on with its own columns
            grad = {rank: _columns(value, rank, self.ranks) for rank, value in grad.items()}
            whole = self.back("down", grad)[0]
            self.story.back_down()
            return self.column_backward("up", self.scatter_columns(whole))
        partial = self.leave_backward("MLP", grad)
        hidden = self.back("down", partial)[0]
        self.story.back_down()
        if self.layout != "row_first":
            return self.column_backward("up", hidden)
        own = self.back("up", hidden)[0]
        self.story.back_up_rows()
        return self.gather_columns("MLP input", own, section="backward")

    # where a tensor-parallel block starts and ends ------------------------------------------------------------------------

    def enter(self, piece: str, x: Tensors) -> Tensors:
        """f forward: the input is whole on every rank, so there is nothing to do."""
        self.story.entered(piece)
        return x

    def enter_backward(self, piece: str, partial: Tensors) -> Work[Tensors]:
        """f backward: every rank has a part of the input's gradient; their sum is issued."""
        with self.counted(section_of(piece, "backward"), "all_reduce"):
            return self.fabric.all_reduce(flat(partial), n=self.issued)

    def leave(self, block: str, partial: Tensors) -> Tensors:
        """f's conjugate forward: the sum of all partial outputs, on every rank."""
        with self.counted("forward", "all_reduce"):
            summed = self.fabric.all_reduce(flat(partial), n=self.issued).wait()
        self.story.left(block)
        return _shaped(summed, partial)

    def leave_backward(self, block: str, grad: Tensors) -> Tensors:
        """f's conjugate backward: the gradient of a sum is that of every summand, and every rank has it."""
        return grad

    def tokens_of(self, whole: Tensor, rank: int) -> Tensor:
        """The part of (s, b, ...) outside the tensor-parallel blocks that a rank computes with: all of it."""
        return whole

    # columns (the layouts that do not fit) ---------------------------------------------------------------------------------

    def gather_columns(self, what: str, columns: Tensors, section: str = "forward") -> Tensors:
        """Every rank gets all columns: (s, b, n/t) becomes (s, b, n)."""
        with self.counted(section, "all_gather"):
            whole = self.fabric.all_gather(flat(columns), n=self.issued).wait()
        self.story.gathered_columns(what, section)
        return {rank: _side_by_side(whole[rank], columns[rank]) for rank in self.fabric.ranks}

    def scatter_columns(self, partial: Tensors) -> Tensors:
        """Every rank gets the sum of its own columns: (s, b, n) becomes (s, b, n/t)."""
        stacked = {rank: torch.stack(value.chunk(self.ranks, -1)).flatten() for rank, value in partial.items()}
        with self.counted("backward", "reduce_scatter"):
            own = self.fabric.reduce_scatter(stacked, n=self.issued).wait()
        self.story.scattered_columns()
        return {rank: own[rank].view_as(_columns(value, rank, self.ranks)) for rank, value in partial.items()}

    # loss ------------------------------------------------------------------------------------------------------------------

    def loss_and_gradient(self, x: Tensors) -> Tensors:
        """Vocabulary-parallel cross-entropy: its mean goes to ``loss``; the gradient of the layer's output comes back."""
        logits = self.each_entered("head", lambda rank, x: vocabulary_product(self.tapes[rank], self.own(rank), x), x)
        self.story.logits()
        self.loss, grad = vocabulary_loss(self, logits)
        return self.column_backward("head", grad)

    # gradients of parameters -------------------------------------------------------------------------------------------------

    def shared_gradients(self) -> list[str]:
        """Whole parameters whose gradients differ by rank and have to be added up: none as long as their inputs are equal."""
        return ["up.bias", "down.weight"] if self.layout == "row_first" else []

    def add_up_gradients(self) -> None:
        """All-reduce the gradients of parameters that every rank holds but has seen only a part of, in one message."""
        names = self.shared_gradients() if self.ranks > 1 else []
        if names:
            together = {rank: torch.cat([tape.gradients[name].flatten() for name in names]) for rank, tape in self.tapes.items()}
            with self.counted("parameters", "all_reduce"):
                summed = self.fabric.all_reduce(together, n=self.issued).wait()
            for rank, tape in self.tapes.items():
                sizes = [tape.gradients[name].numel() for name in names]
                for name, part in zip(names, torch.split(summed[rank], sizes), strict=True):
                    tape.gradients[name] = part.view_as(tape.gradients[name])
        self.story.finished(names)

    # pieces of work ----------------------------------------------------------------------------------------------------------

    def attention(self, rank: int, x: Tensor) -> Tensor:
        keep = self.problem.keep_scores.tensor_split(self.ranks, 1)[rank]
        return attention(self.tapes[rank], self.own(rank), x, keep.clone())

    def add_attention(self, rank: int, y: Tensor, residual: Tensor) -> Tensor:
        keep = self.tokens_of(self.problem.keep_attention, rank)
        return add_dropped(self.tapes[rank], "attention dropout mask", self.own(rank)["out.bias"], y, residual, keep)

    def add_mlp(self, rank: int, y: Tensor, residual: Tensor) -> Tensor:
        keep = self.tokens_of(self.problem.keep_mlp, rank)
        bias = self.own(rank)["down.bias"] if self.parameters["add2"] else None
        return add_dropped(self.tapes[rank], "MLP dropout mask", bias, y, residual, keep)

    def up(self, rank: int, x: Tensor) -> Tensor:
        return up(self.tapes[rank], self.own(rank), x, add_bias=self.layout != "row_first" or rank == 0)

    def down(self, rank: int, x: Tensor) -> Tensor:
        return down(self.tapes[rank], self.own(rank), x, add_bias=self.layout == "column_column")

    def own(self, rank: int) -> dict[str, Tensor]:
        return self.tapes[rank].parameters

    def each(self, piece: str, function: Callable[..., Tensor], *inputs: Tensors, shards: Tensors | None = None) -> Tensors:
        """Every rank runs ``piece`` on its own tensors. With ``shards``, these are held in place of the first input."""
        outputs = {}
        for rank in self.fabric.ranks:
            self.fabric.compute(rank, self.time[piece].forward, "forward", text.SPANS[piece])
            own = [each[rank] for each in inputs]
            instead = None if shards is None else shards[rank]
            outputs[rank] = self.tapes[rank].run(piece, lambda *x, rank=rank: function(rank, *x), *own, instead=instead)
        return outputs

    def each_entered(self, piece: str, function: Callable[..., Tensor], x: Tensors) -> Tensors:
        """A piece that starts with a column-parallel product."""
        return self.each(piece, function, self.enter(piece, x))

    def back(self, piece: str, grad: Tensors) -> tuple[Tensors, ...]:
        """Gradients of a piece's inputs, one for each; those of its parameters stay with their rank."""
        found: list[Tensors] = []
        for rank, tape in self.tapes.items():
            self.fabric.compute(rank, self.time[piece].backward + self.time[piece].weight, "backward", text.SPANS[piece])
            gradients = tape.input_gradients(piece, grad[rank])
            tape.weight_gradients(piece, grad[rank], self.parameters[piece])
            found = found or [{} for _ in gradients]
            for by_rank, gradient in zip(found, gradients, strict=True):
                by_rank[rank] = gradient
        return tuple(found)

    def column_backward(self, piece: str, grad: Tensors) -> Tensors:
        """Backward of a piece that starts with a column-parallel product.

        The input's gradient is summed over ranks on the comm stream while the weight's is computed.
        """
        again = self.bring_back(piece)
        partial = {}
        for rank, tape in self.tapes.items():
            self.fabric.compute(rank, self.time[piece].backward, "backward", text.SPANS[piece])
            (partial[rank],) = tape.input_gradients(piece, grad[rank])
        if again is not None:
            again.wait()
        work = self.enter_backward(piece, partial)
        for rank, tape in self.tapes.items():
            self.fabric.compute(rank, self.time[piece].weight, "weight", text.SPANS[piece])
            tape.weight_gradients(piece, grad[rank], self.parameters[piece])
        summed = work.wait()
        self.story.entered_backward(piece)
        like = {rank: self.tokens_of(self.problem.x, rank) for rank in self.fabric.ranks}
        return _shaped(summed, like)

    def bring_back(self, piece: str) -> Work[Tensors] | None:
        """Gather again what forward did not keep: nothing here."""
        return None

    @contextmanager
    def counted(self, section: str, operation: str, shown_as: float = 1.0) -> Iterator[None]:
        """Book the collective inside under ``section``: its call (one rank makes none), the bytes of the busiest rank, its messages.

        ``shown_as``: bytes of a number on screen, where that is not BF16, in units of it.
        """
        before = {rank: self.fabric.traffic[rank].bytes_sent for rank in self.fabric.ranks}
        yield
        sent = {rank: self.fabric.traffic[rank].bytes_sent - before[rank] for rank in self.fabric.ranks}
        if self.ranks > 1:
            self.calls.setdefault(section, Counter())[operation] += 1
        self.sent[section] += max(sent.values())
        self.issued += 1
        self.story.messages(operation, {rank: size * self.counted_as * shown_as for rank, size in sent.items()})


def section_of(piece: str, section: str) -> str:
    """Under which name a collective is booked: those of the output head are not the layer's."""
    return f"loss {section}" if piece == "head" else section


def flat(tensors: Tensors) -> Tensors:
    """One-dimensional, as collectives take them."""
    return {rank: value.flatten() for rank, value in tensors.items()}


def _shaped(flat: Tensors, like: Tensors) -> Tensors:
    return {rank: value.view_as(like[rank]) for rank, value in flat.items()}


def _plus(one: Tensors, other: Tensors) -> Tensors:
    return {rank: value + other[rank] for rank, value in one.items()}


def _columns(value: Tensor, rank: int, ranks: int) -> Tensor:
    """This rank's columns of (s, b, n), as a tensor of its own."""
    return value.tensor_split(ranks, -1)[rank].contiguous()


def _side_by_side(stacked: Tensor, columns: Tensor) -> Tensor:
    """The columns of all ranks, which arrive one behind the other, as (s, b, n)."""
    s, b, own = columns.shape
    return stacked.view(-1, s, b, own).permute(1, 2, 0, 3).reshape(s, b, -1)
