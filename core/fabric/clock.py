"""A clock for every rank and stream: when compute and messages start and end, from the link's latency and bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from core.views import Gantt


class LinkCost(Protocol):
    """What a link costs: ``latency`` seconds a message (alpha), ``bandwidth`` bytes a second in one direction."""

    @property
    def latency(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...


class Clocks:
    """Two streams a rank, as arrays (ranks,) in seconds; spans go to ``gantt`` (lane 2 r compute, 2 r + 1 comm).

    Without a link messages take no time. ``scale`` multiplies the bytes that are charged, so that a small tensor can
    take the time of the large one that it stands for.
    """

    def __init__(self, ranks: int, link: LinkCost | None, scale: float) -> None:
        self.compute = np.zeros(ranks)
        self.comm = np.zeros(ranks)
        self.waited = np.zeros(ranks)
        self.link = link
        self.scale = scale
        self.gantt: Gantt | None = None

    def run(self, rank: int, seconds: float, role: str, text: str, n: int) -> float:
        """Add ``seconds`` to the compute stream of ``rank``; returns the start."""
        start = float(self.compute[rank])
        self.compute[rank] = start + seconds
        if self.gantt is not None and seconds > 0:
            self.gantt.span(2 * rank, start, start + seconds, role, text, n)
        return start

    def begin(self) -> np.ndarray:
        """When each rank can start a collective issued now: its comm stream is free and its compute so far has ended."""
        return np.maximum(self.comm, self.compute)

    def hop(self, at: np.ndarray, sent: Mapping[int, tuple[int, int]]) -> np.ndarray:
        """Times after one round of messages ``{source: (target, bytes)}``; a message needs both its ends ready."""
        after = at.copy()
        for source, (target, size) in sent.items():
            end = max(at[source], at[target]) + self.cost(size)
            after[source] = max(after[source], end)
            after[target] = max(after[target], end)
        return after

    def cost(self, size: int) -> float:
        """alpha + bytes / bandwidth of one message; a message of no bytes is not sent."""
        if self.link is None or size == 0:
            return 0.0
        return self.link.latency + size * self.scale / self.link.bandwidth

    def end(self, start: np.ndarray, end: np.ndarray, text: str, n: int) -> None:
        """Close a collective that ran from ``start`` to ``end`` (arrays (ranks,)) on the comm streams."""
        for rank in range(len(end)):
            self.occupy(rank, float(start[rank]), float(end[rank]), text, n)

    def occupy(self, rank: int, start: float, end: float, text: str, n: int) -> None:
        """The comm stream of ``rank`` is busy from ``start`` to ``end``."""
        self.comm[rank] = max(self.comm[rank], end)
        if self.gantt is not None and end > start:
            self.gantt.span(2 * rank + 1, start, end, "comm", text, n)

    def wait(self, rank: int, end: float) -> None:
        """The compute stream of ``rank`` goes on after ``end``; what it idles counts as exposed communication."""
        idle = end - float(self.compute[rank])
        if idle > 0:
            self.waited[rank] += idle
            self.compute[rank] = end
