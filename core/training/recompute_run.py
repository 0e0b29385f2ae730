"""One forward and backward of real layers with checkpoints and offload, and when each part of it runs on three streams.

`Run.forward` and `Run.backward` are the algorithm. What they do to real tensors happens in the order of issue; `Action`s say when it
happens on the modelled device, whose compute and copies overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.flop_counter import FlopCounterMode

from core.training import recompute_layer as model
from core.training.recompute_setup import INPUT, PROBABILITIES, Job, Shape
from core.training.recompute_store import Frame, Store

COMPUTE, OUT, IN = range(3)
"""The streams."""
Work = Callable[[Shape], int]
FORWARD, BACKWARD, STOPPED, SCORES = (attrgetter(f"{name}_flop") for name in ("forward", "backward", "stopped", "scores"))
"""FLOPs of a layer of a given shape: one forward, one backward, a forward that stops early, the scores alone."""


@dataclass
class Action:
    """Something a stream does for one layer: ``takes`` those tensors on the device at ``start`` and ``gives`` some back at ``end``.

    ``flop`` and times are those of the layers that are shown; ``alive`` and ``ledger`` bytes of the small ones on the device after it,
    counted by reference and summed up by name.
    """

    kind: str
    layer: int
    stream: int
    start: float
    end: float
    takes: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    flop: int = 0
    small_flop: int = 0
    bytes: int = 0
    waited: float = 0.0
    alive: int = 0
    ledger: int = 0


@dataclass(frozen=True)
class Problem:
    """The small layers' parameters, the causal mask they share, and ``x`` and ``target`` (b, s, h)."""

    parameters: list[dict[str, Tensor]]
    mask: Tensor
    x: Tensor
    target: Tensor

    @classmethod
    def of(cls, job: Job, generator: torch.Generator, device: str) -> Problem:
        shape = job.small
        parameters = [model.initial(shape, generator, device) for _ in range(job.params.layers)]
        x, target = torch.randn(2, shape.batch, shape.sequence, shape.hidden, generator=generator).to(device)
        return cls(parameters, model.causal(shape, device), x.requires_grad_(), target)


@dataclass
class Clock:
    """When each stream is free again, and how long compute has waited for the copies."""

    free: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    busy: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    waited: float = 0.0

    def run(self, stream: int, ready: float, seconds: float) -> tuple[float, float]:
        """Start as soon as the stream is free and the input is there; returns start and end."""
        start = max(self.free[stream], ready)
        if stream == COMPUTE:
            self.waited += start - self.free[stream]
        self.free[stream] = start + seconds
        self.busy[stream] += seconds
        return start, start + seconds


class Run:
    """One training step under one method. ``tick`` is called between layers and may raise to abandon it."""

    def __init__(self, job: Job, work: Problem, tick: Callable[[float], None] = lambda done: None) -> None:
        self.job, self.work, self.tick = job, work, tick
        self.device = work.x.device
        self.store = Store([work.mask, *(p for layer in work.parameters for p in layer.values())])
        self.clock = Clock()
        self.actions: list[Action] = []
        self.gradients: list[dict[str, Tensor]] = [{} for _ in work.parameters]
        self.frames: dict[int, Frame] = {}
        self.cores: dict[int, Frame] = {}
        self.copied_out: dict[int, float] = {}
        self.copied_in: dict[int, float] = {}
        self.edges: list[GradientEdge] = []
        self.input_gradient = torch.empty(0)
        self.offload_bytes = self.executed_flop = 0
        self.there: dict[int, set[str]] = {layer: set() for layer in range(job.params.layers)}

    def run(self) -> Run:
        """Forward, loss and backward; FLOPs really executed are counted on the way."""
        with FlopCounterMode(display=False) as counted:
            gradient = self.forward()
            self.backward(gradient)
        self.executed_flop = counted.get_total_flops()
        return self

    # the algorithm -----------------------------------------------------------------------------------------------------

    def forward(self) -> Tensor:
        """Every layer once; what autograd saves is kept, dropped under a checkpoint, or sent to the host. The output's gradient."""
        job, store = self.job, self.store
        x = self.work.x.clone()
        starts = {segment.start: segment for segment in job.segments}
        for layer in range(job.params.layers):
            self.tick(layer / (3 * job.params.layers))
            store.layer = layer
            self.edges.append(get_gradient_edge(x))
            if layer in starts:
                frame = Frame([store.keep(store.mark(INPUT, x))])
                self.frames.update(dict.fromkeys(starts[layer], frame))
            if layer in self.frames:
                x = store.run(store.dropping(self.frames[layer]), partial(self.layer, layer), x, dropping=True)
            else:
                x = store.run(store.keeping(), partial(self.layer, layer), x)
            room = self.copied_out.get(layer - job.params.in_flight, 0.0)
            self.note("forward", layer, COMPUTE, room, FORWARD, takes=store.labels(layer))
            if job.offloaded(layer):
                labels = store.labels(layer)
                self.offload_bytes += store.offload(layer)
                self.copied_out[layer] = self.note("out", layer, OUT, self.clock.free[COMPUTE], gives=labels).end
        self.edges.append(get_gradient_edge(x))
        output = x.detach().requires_grad_()
        loss = torch.nn.functional.mse_loss(output, self.work.target)
        return torch.autograd.grad(loss, output)[0]

    def backward(self, gradient: Tensor) -> None:
        """Layers from the top: copies are fetched a few layers ahead, what was dropped is computed again, then its gradients."""
        job, store = self.job, self.store
        for layer in reversed(range(job.params.layers)):
            self.tick(1 - (layer + 1) / (1.5 * job.params.layers))
            for wanted in range(layer, max(layer - job.params.in_flight, 0) - 1, -1):
                if wanted in self.copied_out and wanted not in self.copied_in:
                    self.fetch(wanted)
            frame = self.frames.get(layer)
            if frame is not None and layer == max(frame.holders):
                self.recompute(frame)
            if job.params.method == "selective":
                self.recompute_core(layer)
            p = self.work.parameters[layer]
            found = torch.autograd.grad([self.edges[layer + 1]], [self.edges[layer], *map(get_gradient_edge, p.values())], [gradient])
            gradient, self.gradients[layer] = found[0], dict(zip(p, found[1:], strict=True))
            labels = store.labels(layer)
            store.free(layer)
            self.note("backward", layer, COMPUTE, self.copied_in.get(layer, 0.0), BACKWARD, gives=labels)
        self.input_gradient = gradient

    def fetch(self, layer: int) -> None:
        """Start the copy back from the host; it takes its room on the device from the start."""
        self.store.fetch(layer, str(self.device))
        ready = max(self.copied_out[layer], self.clock.free[COMPUTE])
        self.copied_in[layer] = self.note("in", layer, IN, ready, takes=self.store.labels(layer)).end

    def recompute(self, frame: Frame) -> None:
        """Run a checkpointed stretch forward again from its input; its last layer stops once everything it saved is there."""
        x = frame.inputs[0].tensor()
        last = max(frame.holders)
        for layer in frame.holders:
            self.store.layer = layer
            before = set(self.store.labels(layer))
            output = self.store.rerun(frame, partial(self.layer, layer), x, last=layer == last)
            work = STOPPED if output is None else FORWARD
            new = tuple(label for label in self.store.labels(layer) if label not in before)
            x = x if output is None else output
            self.note("recompute", layer, COMPUTE, self.copied_in.get(layer, 0.0), work, takes=new)

    def recompute_core(self, layer: int) -> None:
        """Run only the attention core again, from the kept q, k and v; it stops at the probabilities."""
        self.store.layer = layer
        frame = self.cores[layer]
        self.store.rerun(frame, self.core, *(saved.tensor() for saved in frame.inputs), last=True)
        self.note("recompute", layer, COMPUTE, 0.0, SCORES, takes=(PROBABILITIES,))

    # one layer ---------------------------------------------------------------------------------------------------------

    def layer(self, layer: int, x: Tensor) -> Tensor:
        """One layer of the small model; under ``selective`` its attention core is a checkpoint of its own."""
        core = partial(self.checkpointed_core, layer) if self.job.params.method == "selective" else self.core
        return model.layer(self.work.parameters[layer], x, heads=self.job.small.heads, mark=self.store.mark, core=core)

    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return model.attention(q, k, v, mask=self.work.mask, mark=self.store.mark)

    def checkpointed_core(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k and v are kept, the probabilities are not."""
        frame = self.cores[layer] = Frame([self.store.keep(tensor) for tensor in (q, k, v)])
        return self.store.run(self.store.dropping(frame), self.core, q, k, v, dropping=True)

    # bookkeeping -------------------------------------------------------------------------------------------------------

    def note(
        self,
        kind: str,
        layer: int,
        stream: int,
        ready: float,
        work: Work | None = None,
        *,
        takes: Sequence[str] = (),
        gives: Sequence[str] = (),
    ) -> Action:
        """Put what has just been done on its stream, and count the small layers' bytes twice: by reference and by name."""
        job, free = self.job, self.clock.free[stream]
        flop, small_flop = (work(job.large), work(job.small)) if work else (0, 0)
        moved = 0 if work else sum(job.large.bytes(label) for label in (*takes, *gives))
        start, end = self.clock.run(stream, ready, job.seconds(flop) if work else job.link.time(moved))
        self.there[layer] = (self.there[layer] | set(takes)) - set(gives)
        ledger = sum(job.small.bytes(label) for labels in self.there.values() for label in labels)
        waited = start - free if stream == COMPUTE else 0.0
        action = Action(
            kind, layer, stream, start, end, tuple(takes), tuple(gives), flop, small_flop, moved, waited, self.store.alive(), ledger
        )  # fmt: skip
        self.actions.append(action)
        return action
