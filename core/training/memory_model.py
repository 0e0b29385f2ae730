"""A model as the memory ledger needs it: kinds of layer, their parameters by how they are cut, and what each saves for backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.training.memory_saved import CUTS, Saved, operations, paper
from core.transformer import Module, Shape

RECOMPUTE = ("none", "selective", "full")
ActivationModel = Literal["paper", "operations"]


@dataclass(frozen=True)
class Weights:
    """Parameters of a layer by what divides them: tensor ranks (``cut``), those up to the kv heads, nothing, expert ranks."""

    cut: int
    kv: int
    whole: int
    experts: int

    @classmethod
    def of(cls, modules: tuple[Module, ...]) -> Weights:
        routed = sum(m.parameters for m in modules if m.name == "experts")
        whole, kv = sum(m.whole for m in modules), sum(m.kv for m in modules)
        return cls(sum(m.parameters for m in modules) - routed - whole - kv, kv, whole, routed)

    @property
    def parameters(self) -> int:
        return self.cut + self.kv + self.whole + self.experts


@dataclass(frozen=True)
class Kind:
    """A kind of layer (dense, sparse, ...): its weights, and what one such layer saves with nothing recomputed."""

    name: str
    weights: Weights
    saved: tuple[Saved, ...]
    active: int


@dataclass(frozen=True)
class Model:
    """``kind_of``: (layers,) index into ``kinds``. ``per_token``: (recompute, kinds, cuts) and ``per_score``: (recompute, kinds)
    are bytes a layer keeps for each token, and for each entry of its heads' score matrices.
    """

    shape: Shape
    kinds: tuple[Kind, ...]
    kind_of: np.ndarray
    per_token: np.ndarray
    per_score: np.ndarray
    activation_model: ActivationModel
    flash: bool

    @classmethod
    def of(cls, shape: Shape, activation_model: ActivationModel, flash: bool) -> Model:
        kinds: list[Kind] = []
        kind_of = np.zeros(shape.layers, dtype=np.int64)
        known: dict[tuple[object, ...], int] = {}
        for layer, modules in enumerate(shape.layer_modules):
            key = (modules, layer in shape.linear_layers)
            if key not in known:
                known[key] = len(kinds)
                saved = paper(shape, flash) if activation_model == "paper" else operations(shape, layer, flash)
                name = "linear attention" if layer in shape.linear_layers else "sparse" if shape.is_sparse(layer) else "dense"
                kinds.append(Kind(name, Weights.of(modules), tuple(saved), sum(m.active for m in modules)))
            kind_of[layer] = known[key]
        per_token, per_score = np.zeros((3, len(kinds), len(CUTS))), np.zeros((3, len(kinds)))
        for k, kind in enumerate(kinds):
            for item in kind.saved:
                for level in range(1 if item.core else 2):
                    per_token[level, k, CUTS.index(item.cut)] += item.per_token
                    per_score[level, k] += item.per_score
            per_token[2, k, CUTS.index("sequence")] = 2 * shape.hidden  # full: the layer's input alone, BF16
        return cls(shape, tuple(kinds), kind_of, per_token, per_score, activation_model, flash)

    def layers_of(self, kind: int) -> int:
        return int((self.kind_of == kind).sum())


def with_parameters(shape: Shape, parameters: int) -> Shape:
    """The same sizes with a stated number of parameters, spread evenly over the layers: for models known by their count alone."""
    base, more = divmod(parameters, shape.layers)
    nothing = Module("", 0, 0)
    counts = [base + (layer < more) for layer in range(shape.layers)]
    layers = tuple((Module("all weights", count, count),) for count in counts)
    return Shape(
        **{name: getattr(shape, name) for name in shape.__struct_fields__}
        | {"embedding": nothing, "positions": nothing, "final_norm": nothing, "head": nothing, "layer_modules": layers}
    )
