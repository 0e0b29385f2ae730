"""DualPipe (arXiv 2412.19437) and DualPipeV: forwards overlap with backwards that come the other way.

The order of a rank is that of github.com/deepseek-ai/DualPipe. DualPipe sends microbatches in from both ends, so each rank holds
two copies' stages; DualPipeV cuts it in half: one copy, folded into a V.
"""

from __future__ import annotations

from core.training.schedule_table import Order, spelled


def dualpipev(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Rank r holds stages r and 2 ranks - 1 - r; needs microbatches >= 2 ranks."""
    return [spelled(meeting(ranks, rank, microbatches), (rank, 2 * ranks - 1 - rank)) for rank in range(ranks)]


def dualpipe(ranks: int, microbatches: int, chunks: int) -> list[Order]:
    """Half of the microbatches enter at rank 0, half at the last rank; needs even ranks and microbatches, microbatches >= 2 ranks.

    Stage numbers go on through the second copy, whose first stage, number ``ranks``, is on the last rank; it takes the second
    half of the microbatches. Each half of the ranks runs the same order, mirrored.
    """
    half = microbatches // 2
    orders = []
    for rank in range(ranks):
        down, up = rank, 2 * ranks - 1 - rank  # this rank's stage in the copy that runs down the ranks, and in the other
        if rank < ranks // 2:
            orders.append(spelled(meeting(ranks // 2, rank, half), (down, up), (0, half)))
        else:
            orders.append(spelled(meeting(ranks // 2, ranks - 1 - rank, half), (up, down), (half, 0)))
    return orders


def meeting(depth: int, rank: int, microbatches: int) -> list[str]:
    """What a rank runs that is ``rank`` hops from where place 0's microbatches enter, and ``depth`` - 1 - rank from the turn.

    microbatches: of each place. Place 0 is on the way in, place 1 on the way out. See `spelled` for the symbols.
    """
    behind = depth - 1 - rank
    both = microbatches - 2 * depth + rank + 1
    main = ["F0", "+B1", "F1", "+B0"] * both
    if not behind:  # at the turn the first pair is run apart, which shortens the bubble
        main[1] = "B1"
    backwards = ["1", "0"] * (rank + 1)  # place of each, half of them whole and half without their weight gradients
    split = [*backwards[rank + 1 :], *["0"] * behind]
    weights = [f"W{place}" for place in split]  # in the order of the input gradients
    return [
        *["F0"] * (2 * behind),
        *["F0", "F1"] * (rank + 1),
        *["I1", "W1", "F1"] * behind,
        *main,
        *["B1", "F1", "+B0"] * behind,
        *[f"B{place}" for place in backwards[: rank + 1]],
        *[f"I{place}" for place in backwards[rank + 1 :]],
        *[symbol for weight in weights[:behind] for symbol in (weight, "I0")],
        *weights[behind:],
    ]
