"""The real thing: a small model, cut into stages, trained through a pipeline table with real activations held and freed.

Imported only when it runs, since it imports torch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from core.training.schedule_table import Kind, Table

Gradients = dict[nn.Parameter, Tensor]


class Block(nn.Module):
    """One stage of the model: x + W2 gelu(W1 x), from (batch, hidden) to (batch, hidden), 8 hidden² + 5 hidden parameters."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.down(nn.functional.gelu(self.up(x)))
        return x + added


@dataclass
class Problem:
    """A model of ``stages`` blocks and its microbatches; inputs and targets: (microbatches, batch, hidden)."""

    blocks: list[Block]
    inputs: Tensor
    targets: Tensor

    def loss(self, output: Tensor, microbatch: int) -> Tensor:
        """This microbatch's share of the mean squared error of the whole batch: they add up to it."""
        return nn.functional.mse_loss(output, self.targets[microbatch]) / len(self.inputs)

    def parameters(self) -> Iterator[nn.Parameter]:
        for block in self.blocks:
            yield from block.parameters()


def problem(stages: int, microbatches: int, batch: int, hidden: int, generator: torch.Generator, device: str) -> Problem:
    """Random weights, inputs and targets, drawn on the CPU and moved to ``device``."""
    blocks = []
    for _ in range(stages):
        with torch.device("meta"):  # no values are drawn from the global generator
            block = Block(hidden)
        block = block.to_empty(device="cpu")
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[-1] ** -0.5)
        blocks.append(block.to(device))
    inputs, targets = torch.randn(2, microbatches, batch, hidden, generator=generator).to(device)
    return Problem(blocks, inputs, targets)


@dataclass
class Stash:
    """What a forward leaves for its backward: the stage's input, the end of its graph, and the bytes that autograd saved."""

    input: Tensor
    output: Tensor
    saved_bytes: int
    gradient: Tensor | None = None  # of the output, kept between an input gradient and its weight gradient


class LiveStashes:
    """Counts the stashes of each rank that are really alive, from their weak references: a leak would show."""

    def __init__(self, ranks: int) -> None:
        self.count, self.peak = [0] * ranks, [0] * ranks
        self.bytes, self.peak_bytes = [0] * ranks, [0] * ranks

    def watch(self, rank: int, stash: Stash) -> None:
        self.count[rank] += 1
        self.bytes[rank] += stash.saved_bytes
        self.peak[rank] = max(self.peak[rank], self.count[rank])
        self.peak_bytes[rank] = max(self.peak_bytes[rank], self.bytes[rank])
        weakref.finalize(stash.output, self._gone, rank, stash.saved_bytes)

    def _gone(self, rank: int, saved_bytes: int) -> None:
        self.count[rank] -= 1
        self.bytes[rank] -= saved_bytes


@dataclass
class Outcome:
    """What a training step left: the loss, a gradient per parameter, and the live stashes by rank."""

    loss: Tensor
    gradients: Gradients
    live: LiveStashes


def run_table(table: Table, rows: list[int], work: Problem, tick: Callable[[], None] | None = None) -> Outcome:
    """Run ``rows`` of the table (their order in time) on real tensors; a stage sees only what another has sent it.

    Each copy of the model that the table holds has parameters of its own. Gradients add up per parameter in the order in which
    its stage runs backwards; those of the copies are summed at the end. KeyError when a row's input is missing.
    """
    last = table.depth - 1
    live = LiveStashes(table.ranks)
    blocks = [*work.blocks, *(deepcopy(block) for _ in range(table.copies - 1) for block in work.blocks)]
    entrances = np.unique(table.actions[table.stage % table.depth == 0][:, 1:], axis=0).tolist()
    arrived: dict[tuple[str, int, int], Tensor] = {("activation", stage, m): work.inputs[m] for stage, m in entrances}
    stashes: dict[tuple[int, int], Stash] = {}
    gradients: Gradients = {}
    losses = torch.zeros((), device=work.inputs.device, dtype=torch.float64)  # of many microbatches, in whatever order
    for row in rows:
        kind, stage, microbatch = table.actions[row].tolist()
        if tick is not None:
            tick()
        if kind == Kind.FORWARD:
            part = stage % table.depth
            received = arrived.pop(("activation", stage, microbatch)).detach().requires_grad_(part > 0)
            output, saved_bytes = _counting_saved_bytes(blocks[stage], received)
            if part == last:
                output = work.loss(output, microbatch)
                losses += output.detach()
                arrived["gradient", stage, microbatch] = torch.ones_like(output)
            else:
                arrived["activation", stage + 1, microbatch] = output.detach()
            stashes[stage, microbatch] = stash = Stash(received, output, saved_bytes)
            live.watch(int(table.rank_of[stage]), stash)
            del output, stash
        else:
            _backward(Kind(kind), stage, microbatch, blocks[stage], stashes, arrived, gradients)
    return Outcome(losses, _summed(gradients, work, blocks), live)


def _summed(gradients: Gradients, work: Problem, blocks: list[Block]) -> Gradients:
    """The gradients of all copies added up, by the parameters of the problem: what an all-reduce between the copies does."""
    summed: Gradients = {}
    for number, block in enumerate(blocks):
        for own, parameter in zip(work.blocks[number % len(work.blocks)].parameters(), block.parameters(), strict=True):
            if parameter in gradients:
                summed[own] = gradients[parameter] if own not in summed else summed[own] + gradients[parameter]
    return summed


def _backward(
    kind: Kind,
    stage: int,
    microbatch: int,
    block: Block,
    stashes: dict[tuple[int, int], Stash],
    arrived: dict[tuple[str, int, int], Tensor],
    gradients: Gradients,
) -> None:
    """One backward (I + W) or one half of it; the stash goes when its weight gradient is done."""
    stash = stashes[stage, microbatch]
    weights = list(block.parameters()) if kind != Kind.INPUT_GRADIENT else []
    wanted = [stash.input] if kind != Kind.WEIGHT_GRADIENT and stash.input.requires_grad else []
    if kind == Kind.WEIGHT_GRADIENT:
        gradient = stash.gradient
    else:
        gradient = stash.gradient = arrived.pop(("gradient", stage, microbatch))
    if weights or wanted:
        found = torch.autograd.grad(stash.output, [*wanted, *weights], gradient, retain_graph=kind == Kind.INPUT_GRADIENT)
        if wanted:
            arrived["gradient", stage - 1, microbatch] = found[0]
        for weight, part in zip(weights, found[len(wanted) :], strict=True):
            gradients[weight] = part if weight not in gradients else gradients[weight] + part
    if kind != Kind.INPUT_GRADIENT:
        del stashes[stage, microbatch]


def run_sequentially(work: Problem, order: Sequence[int] | None = None) -> tuple[Tensor, Gradients]:
    """The same training step without a pipeline: each microbatch through the whole model, one autograd graph each.

    order: in which the microbatches take their turns, as they are numbered when None.
    """
    losses = torch.zeros((), device=work.inputs.device, dtype=torch.float64)
    for parameter in work.parameters():
        parameter.grad = None
    for microbatch in order if order is not None else range(len(work.inputs)):
        x = work.inputs[microbatch]
        for block in work.blocks:
            x = block(x)
        loss = work.loss(x, microbatch)
        loss.backward()  # type: ignore[no-untyped-call]
        losses += loss.detach()
    return losses, {parameter: parameter.grad for parameter in work.parameters() if parameter.grad is not None}


def differences(got: Gradients, want: Gradients) -> tuple[int, float]:
    """How many parameters' gradients are not equal bit for bit, and the largest difference (inf where one is missing)."""
    unequal, largest = 0, 0.0
    for parameter in {**got, **want}:
        one, other = got.get(parameter), want.get(parameter)
        if one is None or other is None:
            unequal, largest = unequal + 1, float("inf")
        elif not torch.equal(one, other):
            unequal, largest = unequal + 1, max(largest, float((one - other).abs().max()))
    return unequal, largest


def _counting_saved_bytes(block: Block, x: Tensor) -> tuple[Tensor, int]:
    """The block's output, and the bytes autograd saved for its backward: distinct storages that are no parameters."""
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = block(x)
    return output, sum(saved.values())
