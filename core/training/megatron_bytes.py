"""A layer by formula: bytes saved for backward and bytes on the wire, in BF16 with one-byte dropout masks (arXiv 2205.05198)."""

from __future__ import annotations

from collections import Counter

from core.fabric.ring import wire_share
from core.training.megatron_layer import Shape
from core.training.megatron_setup import BYTES


def activation_bytes(shape: Shape, layout: str) -> float:
    """Saved by one layer on one rank, nothing recomputed; with ffn = 4 hidden:

    tp sbh(10 + 24/t + 5as/(ht)), tp_sp sbh(4 + 30/t + 5as/(ht)), tp_sp_regather sbh/t (34 + 5as/h).
    """
    whole = {"tp": 10, "tp_sp": 4, "tp_sp_regather": 0}[layout]
    matrices = shape.tokens * (8 * shape.hidden + 4 * shape.ffn)
    scores = 5 * shape.heads * shape.sequence * shape.tokens
    return shape.sbh * whole + (shape.sbh * (10 - whole) + matrices + scores) / shape.ranks


def without_scores(shape: Shape, layout: str) -> float:
    """The same without softmax outputs and their dropout, 5as^2b/t: what selective recomputation keeps."""
    return activation_bytes(shape, layout) - 5.0 * shape.heads * shape.sequence * shape.tokens / shape.ranks


def formula_text(layout: str) -> str:
    """The formula as the paper writes it."""
    return {
        "tp": "sbh(10 + 24/t + 5as/(ht))",
        "tp_sp": "sbh(4 + 30/t + 5as/(ht))",
        "tp_sp_regather": "sbh/t (34 + 5as/h)",
    }[layout]


def wire_bytes(shape: Shape, layout: str) -> float:
    """Sent by each rank on a ring in one forward and backward of the layer; gradients of parameters not counted.

    An all-reduce is a reduce-scatter and an all-gather, each (t-1)/t of the array.
    """
    inner = shape.ffn / shape.hidden
    passes = {
        "column_row": 8.0,
        "column_column": 2 + 1 + inner + 4 + inner,
        "row_first": 4 + 2 + 1.0,
        "tp": 8.0,
        "tp_sp": 8.0,
        "tp_sp_regather": 10.0,
    }[layout]
    return passes * shape.sbh * BYTES * wire_share(shape.ranks)


def regather_bytes(shape: Shape, layout: str) -> float:
    """The part of `wire_bytes` that gathers the two inputs once more in backward."""
    return 2.0 * shape.sbh * BYTES * wire_share(shape.ranks) if layout == "tp_sp_regather" else 0.0


def calls(layout: str, ranks: int) -> dict[str, Counter[str]]:
    """Collectives of one layer, forward and backward; one rank makes none."""
    if ranks == 1:
        return {"forward": Counter(), "backward": Counter()}
    forward, backward = {
        "column_row": ({"all_reduce": 2}, {"all_reduce": 2}),
        "column_column": ({"all_reduce": 1, "all_gather": 2}, {"all_reduce": 2, "reduce_scatter": 1}),
        "row_first": ({"all_reduce": 2}, {"all_reduce": 1, "all_gather": 1}),
        "tp": ({"all_reduce": 2}, {"all_reduce": 2}),
        "tp_sp": ({"all_gather": 2, "reduce_scatter": 2}, {"all_gather": 2, "reduce_scatter": 2}),
        "tp_sp_regather": ({"all_gather": 2, "reduce_scatter": 2}, {"all_gather": 4, "reduce_scatter": 2}),
    }[layout]
    return {"forward": Counter(forward), "backward": Counter(backward)}
