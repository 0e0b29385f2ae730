"""ZeRO by formula: bytes and traffic of every rank for Psi parameters on N ranks (arXiv 1910.02054).

The convention is the paper's: BF16 parameter 2 + BF16 gradient 2 + fp32 master 4 + Adam's m 4 + v 4 = 16 bytes a parameter.
"""

from __future__ import annotations

from core.fabric.ring import wire_share

PARAMETER, GRADIENT = 2, 2
OPTIMIZER = {"adamw": 12, "sgd": 4}
"""fp32 master weights, and for AdamW two moments."""

CONVENTION = {
    "adamw": "16 bytes a parameter: BF16 parameter 2 + BF16 gradient 2 + fp32 master 4 + m 4 + v 4",
    "sgd": "8 bytes a parameter: BF16 parameter 2 + BF16 gradient 2 + fp32 master 4",
}


def model_states(psi: float, stage: int, ranks: int, optimizer: str = "adamw") -> tuple[float, float, float]:
    """Bytes of parameters, gradients and optimizer states that each rank holds: each stage shards one more of them."""
    return (
        PARAMETER * psi / (ranks if stage >= 3 else 1),
        GRADIENT * psi / (ranks if stage >= 2 else 1),
        OPTIMIZER[optimizer] * psi / (ranks if stage >= 1 else 1),
    )


def transient(psi: float, stage: int, ranks: int, layers: int, accumulation: int) -> float:
    """Bytes above the model states at the worst moment, with ``layers`` equal layers as the unit of communication.

    Stage 2 holds the whole gradient of the layer in backward and of the one on the wire. Stage 3 also holds the
    gathered parameters of the layer in use and of the next. Shards not yet written are subtracted.
    """
    if stage < 2:
        return 0.0
    layer = GRADIENT * psi / layers
    if stage == 2:
        whole, shards = min(layers, 2), max(layers - 1, 1) if accumulation == 1 else layers + 1
    else:
        whole, shards = min(layers, 3) + 1, max(layers - 3, 0) if accumulation == 1 else layers
    return layer * whole + (shards - layers) * layer / ranks


def comm_elements(psi: float, stage: int, accumulation: int) -> float:
    """Elements each rank hands to collectives in one optimizer step; an all-reduce counts as its two halves.

    Stages 0 and 1 average once a step, stage 2 after every micro-batch, stage 3 also gathers the parameters twice.
    """
    return psi * (2, 2, accumulation + 1, 3 * accumulation)[stage]


def wire_bytes(psi: float, stage: int, ranks: int, accumulation: int) -> float:
    """Bytes each rank sends on a ring in one optimizer step; everything travels as BF16."""
    return comm_elements(psi, stage, accumulation) * wire_share(ranks) * PARAMETER


def collectives(stage: int, layers: int, accumulation: int) -> dict[str, int]:
    """How often each rank calls which collective in one optimizer step."""
    return (
        {"all_reduce": layers},
        {"reduce_scatter": layers, "all_gather": layers},
        {"reduce_scatter": accumulation * layers, "all_gather": layers},
        {"reduce_scatter": accumulation * layers, "all_gather": 2 * accumulation * layers},
    )[stage]
