"""Zero-bubble schedules (arXiv 2401.10241): the gradient for the weights, W, waits until a rank has nothing more urgent to do."""

from __future__ import annotations

import numpy as np

from core.training.interleaving import chunk_turns, rounds
from core.training.schedule_table import Kind, Order, rows_of, spelled


def zb_h1(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """ZB-H1: in each slot of F = I = W a rank takes a forward, else an input gradient, else a weight gradient, if it may.

    A forward may run while the rank is at most as far ahead of its input gradients as 1F1B, and holds fewer than ``ranks``
    activations, each until its W. So weight gradients fill what 1F1B idles, and no rank holds more than its first one does there.
    """
    orders: list[list[tuple[Kind, int]]] = [[] for _ in range(ranks)]
    forwards, inputs, weights = [0] * ranks, [0] * ranks, [0] * ranks
    busy = list(range(ranks))
    while busy:
        arrived = [microbatches, *forwards[:-1]]  # what had left the neighbours when the slot began
        returned = [*inputs[1:], forwards[-1]]
        for rank in busy:
            f, i, w = forwards[rank], inputs[rank], weights[rank]
            if f < arrived[rank] and f - i < ranks - rank and f - w < ranks:
                orders[rank].append((Kind.FORWARD, f))
                forwards[rank] = f + 1
            elif i < f and i < returned[rank]:
                orders[rank].append((Kind.INPUT_GRADIENT, i))
                inputs[rank] = i + 1
            elif w < i:
                orders[rank].append((Kind.WEIGHT_GRADIENT, w))
                weights[rank] = w + 1
        busy = [rank for rank in busy if weights[rank] < microbatches]
    return [np.array([(kind, rank, m) for kind, m in order], dtype=np.int32) for rank, order in enumerate(orders)]


def interleaved_zb(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Interleaved 1F1B with split backwards (ZB1P): one warm-up forward less for each rank behind, W ``rank`` turns after I.

    Rounds are those of interleaved 1F1B, also where torch refuses the number of microbatches.
    """
    upwards, downwards = chunk_turns(ranks, microbatches, chunks)
    turn = np.arange(len(upwards))
    orders = []
    for rank in range(ranks):
        warm_up = min((chunks - 1) * len(rounds(ranks, microbatches)[0]) + ranks - 1 - rank, len(upwards))
        backward_stage = downwards[:, 0] * ranks + rank
        rows = np.concatenate([
            rows_of(Kind.FORWARD, upwards[:, 0] * ranks + rank, upwards[:, 1]),
            rows_of(Kind.INPUT_GRADIENT, backward_stage, downwards[:, 1]),
            rows_of(Kind.WEIGHT_GRADIENT, backward_stage, downwards[:, 1]),
        ])  # fmt: skip
        place = np.concatenate([3 * (turn - warm_up), 3 * turn + 1, 3 * (turn + rank) + 2])  # three slots a turn: F, I, W
        orders.append(rows[np.argsort(place)])
    return orders


def zbv(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """ZB-V: two chunks on a V, so that the last rank turns round at once and every rank is busy within its own span.

    Written for at least 2 ranks - 1 microbatches; with fewer, those beyond are left out, as in torch.
    """
    orders = []
    whole = max(2 * ranks - 1, microbatches)
    for rank in range(ranks):
        behind = ranks - rank
        symbols = [
            *["F0"] * (2 * behind - 1),
            *["F1", "F0"] * rank,
            *["F1", "I1", "W1"] * behind,
            *["F0", "I0", "W0", "F1", "I1", "W1"] * (whole - 2 * ranks + 1 + rank),
            *["I0", "W0", "F1", "I1", "W1"] * (behind - 1),
            *["I0", "I1"] * rank,
            *["I0", "W0"] * behind,
            *["W1"] * rank,
            *["W0"] * rank,
        ]
        order = spelled(symbols, (rank, 2 * ranks - 1 - rank))
        orders.append(order[order[:, 2] < microbatches])
    return orders
