"""In which order the chunks of a rank take their turns in interleaved schedules (arXiv 2104.04473)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def rounds(ranks: int, microbatches: int) -> list[range]:
    """The microbatches of each interleaved round: as many rounds as in torch, as equal as they can be, the longer ones first.

    No round is shorter than ``ranks`` unless there are fewer microbatches than ranks, so a chunk's first result is there when
    the next chunk's turn comes. Cutting off full rounds and leaving a rest of 1 (4 ranks, 9 microbatches, 3 chunks) deadlocks.
    """
    count = max(1, microbatches // ranks)
    short, longer = divmod(microbatches, count)
    cuts = [turn * short + min(turn, longer) for turn in range(count + 1)]
    return [range(begin, end) for begin, end in pairwise(cuts)]


def chunk_turns(ranks: int, microbatches: int, chunks: int) -> tuple[np.ndarray, np.ndarray]:
    """Chunk and microbatch of every forward of a rank in turn, and of every backward: two (chunks x microbatches, 2) arrays."""
    members = rounds(ranks, microbatches)
    upwards = [(chunk, microbatch) for turn in members for chunk in range(chunks) for microbatch in turn]
    downwards = [(chunk, microbatch) for turn in members for chunk in reversed(range(chunks)) for microbatch in turn]
    return np.array(upwards), np.array(downwards)
