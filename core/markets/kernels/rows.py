"""Arrays of rows for the kernels: they begin at a cache line, grow by doubling, and chain the rows nobody uses."""

from __future__ import annotations

import numpy as np


def zeros(length: int) -> np.ndarray:
    """(length,) zeros that begin at a cache line and take memory only where they are written."""
    space = np.zeros(length + 8, dtype=np.int64)
    skip = (-space.ctypes.data % 64) // 8
    return space[skip : skip + length]


def longer(numbers: np.ndarray, needed: int) -> np.ndarray:
    """``numbers`` with zeros behind: ``needed`` in all, and at least twice as many as before when any are missing."""
    if len(numbers) >= needed:
        return numbers
    more = zeros(max(needed, 2 * len(numbers)))
    more[: len(numbers)] = numbers
    return more


def chained(rows: np.ndarray, needed: int, width: int, scalars: np.ndarray, free: int, link: int) -> np.ndarray:
    """``rows`` with room for ``needed`` besides the one that is nobody; new ones join the chain that ``scalars[free]`` begins."""
    old, more = max(len(rows), width), longer(rows, (needed + 1) * width)
    if len(more) > len(rows):
        more[old + link :: width] = np.arange(old + width, len(more) + width, width)
        more[len(more) - width + link] = scalars[free]
        scalars[free] = old
    return more
