"""What autograd holds on one rank between forward and backward, storage by storage, under the names the algorithm gives.

A layer runs as pieces with communication between them; each piece is a graph of its own and ends where a collective starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

STATISTICS = "norm statistics"
UNNAMED = "unnamed"


class Held(NamedTuple):
    """One storage that waits for backward. ``bytes`` are those of the whole storage in the format that really runs."""

    label: str
    elements: int
    bytes: int
    floating: bool


@dataclass
class _Piece:
    inputs: tuple[Tensor, ...]
    output: Tensor
    storages: dict[int, Held] = field(default_factory=dict)
    instead: Tensor | None = None


class Tape:
    """One rank's pieces. ``parameters`` are leaves: their storages are no activations and are not counted."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = {name: value.requires_grad_() for name, value in parameters.items()}
        self.gradients: dict[str, Tensor] = {}
        self._own = {_storage(value) for value in self.parameters.values()}
        self._pieces: dict[str, _Piece] = {}
        self._labels: dict[int, str] = {}

    def label(self, name: str, tensor: Tensor) -> Tensor:
        """Name the storage of a tensor that backward will need; returns the tensor."""
        self._labels[_storage(tensor)] = name
        return tensor

    def run(self, name: str, function: Callable[..., Tensor], *inputs: Tensor, instead: Tensor | None = None) -> Tensor:
        """The output of ``function(*inputs)``, cut off from its graph, which is held under ``name``.

        With ``instead`` the storage of the first input is emptied and ``instead``, the shard it was gathered from, is held:
        it has to be gathered into `room` before the weight gradients.
        """
        leaves = tuple(x.detach().requires_grad_() for x in inputs)
        saved: dict[int, Tensor] = {}

        def pack(tensor: Tensor) -> Tensor:
            held = tensor.detach()
            if _storage(tensor) not in self._own:
                saved[_storage(tensor)] = held
            return held

        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            output = function(*leaves)
        storages = {key: self._held(tensor) for key, tensor in saved.items()}  # only now has everything its name
        if instead is not None:
            gathered = storages.pop(_storage(leaves[0]))
            storages[_storage(instead)] = self._held(self.label(gathered.label, instead))
            leaves[0].untyped_storage().resize_(0)
        self._pieces[name] = _Piece(leaves, output, storages, instead)
        return output.detach()

    def kept_instead(self, name: str) -> Tensor:
        """The shard that a piece holds in place of its first input."""
        instead = self._pieces[name].instead
        if instead is None:
            raise RuntimeError(f"{name} holds its whole input")
        return instead

    def room(self, name: str) -> Tensor:
        """The emptied input of a piece, one-dimensional and with its room back, to be gathered into."""
        leaf = self._pieces[name].inputs[0].detach()
        leaf.untyped_storage().resize_(leaf.numel() * leaf.element_size())
        return leaf.view(-1)

    def input_gradients(self, name: str, grad: Tensor) -> tuple[Tensor, ...]:
        """Gradients of a piece's inputs, given that of its output. The piece stays."""
        piece = self._pieces[name]
        return torch.autograd.grad(piece.output, piece.inputs, grad, retain_graph=True)

    def weight_gradients(self, name: str, grad: Tensor, parameters: Sequence[str]) -> None:
        """Gradients of the piece's ``parameters`` (zero where it did not read them), to `gradients`; the piece is freed."""
        piece = self._pieces.pop(name)
        if parameters:
            found = torch.autograd.grad(piece.output, [self.parameters[p] for p in parameters], grad, materialize_grads=True)
            self.gradients.update(zip(parameters, found, strict=True))
        for storage in piece.storages:
            self._labels.pop(storage, None)

    def held(self) -> list[Held]:
        """Every storage that waits for backward, each once."""
        return list({key: held for piece in self._pieces.values() for key, held in piece.storages.items()}.values())

    def _held(self, tensor: Tensor) -> Held:
        named = self._labels.get(_storage(tensor))
        label = named or (STATISTICS if tensor.shape[-1:] == (1,) else UNNAMED)
        size = tensor.untyped_storage().nbytes()
        return Held(label, size // tensor.element_size(), size, tensor.is_floating_point())


def _storage(tensor: Tensor) -> int:
    """Identity of a tensor's storage, on every device (data pointers are zero on "meta")."""
    return int(tensor.untyped_storage()._cdata)
