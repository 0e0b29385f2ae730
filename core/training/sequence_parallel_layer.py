"""Sequence parallelism (arXiv 2205.05198): outside the tensor-parallel blocks each rank has some of the tokens.

It is the tensor-parallel layer with two other operators: g (all-gather forward, reduce-scatter backward) where a block starts,
and its conjugate (reduce-scatter forward, all-gather backward) where it ends. Each all-reduce is cut into its two halves.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from core.fabric.base import Tensors, Work
from core.training.megatron_layer import Problem
from core.training.megatron_setup import Job
from core.training.tensor_parallel_layer import TensorParallel, flat, section_of
from core.training.tensor_parallel_views import Story


class SequenceParallel(TensorParallel):
    """``regather``: of a block's gathered input a rank keeps its own tokens only, and gathers the rest again in backward."""

    def __init__(self, job: Job, layout: str, problem: Problem, story: Story) -> None:
        self.norm_share = 1 / job.shape.ranks
        self.regather = layout == "tp_sp_regather"
        super().__init__(job, layout, problem, story)

    def tokens_of(self, whole: Tensor, rank: int) -> Tensor:
        """This rank's tokens of (s, b, ...): a piece of the sequence, as a tensor of its own."""
        return whole.tensor_split(self.ranks)[rank].clone()

    def enter(self, piece: str, x: Tensors) -> Tensors:
        """g forward: every rank gets all tokens."""
        with self.counted(section_of(piece, "forward"), "all_gather"):
            whole = self.fabric.all_gather(flat(x), n=self.issued).wait()
        self.story.gathered(piece, forget=self.regather)
        return {rank: whole[rank].view(self.problem.x.shape) for rank in self.fabric.ranks}

    def enter_backward(self, piece: str, partial: Tensors) -> Work[Tensors]:
        """g backward: the sum of all parts of the input's gradient is issued; each rank will get that of its tokens."""
        with self.counted(section_of(piece, "backward"), "reduce_scatter"):
            return self.fabric.reduce_scatter(flat(partial), n=self.issued)

    def leave(self, block: str, partial: Tensors) -> Tensors:
        """g's conjugate forward: the sum of all partial outputs, of its own tokens on each rank."""
        with self.counted("forward", "reduce_scatter"):
            own = self.fabric.reduce_scatter(flat(partial), n=self.issued).wait()
        self.story.scattered(block)
        return {rank: own[rank].view(-1, *self.problem.x.shape[1:]) for rank in self.fabric.ranks}

    def leave_backward(self, block: str, grad: Tensors) -> Tensors:
        """g's conjugate backward: every rank needs the gradient of all tokens for its part of the block."""
        with self.counted("backward", "all_gather"):
            whole = self.fabric.all_gather(flat(grad), n=self.issued).wait()
        self.story.gathered_backward(block)
        return {rank: whole[rank].view(self.problem.x.shape) for rank in self.fabric.ranks}

    def shared_gradients(self) -> list[str]:
        """Norms and row biases have seen the tokens of their rank only."""
        return [name for name, cut in self.cuts.items() if cut is None]

    def each_entered(self, piece: str, function: Callable[..., Tensor], x: Tensors) -> Tensors:
        """A piece that starts with a column-parallel product; its gathered input is emptied behind it when it can be gathered again."""
        return self.each(piece, function, self.enter(piece, x), shards=x if self.regather else None)

    def bring_back(self, piece: str) -> Work[Tensors] | None:
        """Gather the block's input again, on the comm stream."""
        if not self.regather:
            return None
        shards = {rank: tape.kept_instead(piece).flatten() for rank, tape in self.tapes.items()}
        with self.counted("loss regather" if piece == "head" else "regather", "all_gather"):
            work = self.fabric.all_gather(shards, out={rank: tape.room(piece) for rank, tape in self.tapes.items()}, n=self.issued)
        self.story.regathered(piece)
        return work
