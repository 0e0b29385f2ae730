"""A clock for every rank and stream: when compute and messages start and end, from the link's latency and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from core.views import Gantt

if TYPE_CHECKING:
    from core.recording import Recording


class LinkCost(Protocol):
    """What a link costs: ``latency`` seconds a message (alpha), ``bandwidth`` bytes a second in one direction."""

    @property
    def latency(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...


class Hop(NamedTuple):
    """One round on the wire: ``after`` (ranks,) is when each rank is free again, ``start`` and ``end`` those of the messages."""

    after: np.ndarray
    start: np.ndarray
    end: np.ndarray


class Clocks:
    """Two streams a rank, as arrays (ranks,) in seconds; spans go to ``gantt`` (lane 2 r compute, 2 r + 1 comm).

    ``compute`` and ``comm`` say when each is free, ``waited`` how long compute has waited for communication, ``busy`` how
    long the comm stream has carried something.

    Without a link messages take no time. ``scale`` multiplies the bytes that are charged, so that a small tensor can
    take the time of the large one that it stands for. With ``inter_link``, ``node_size`` neighbours share a node: a message
    between nodes takes that link. Links are full duplex, and every rank has its own port on both levels.
    """

    def __init__(self, ranks: int, link: LinkCost | None, scale: float, *, inter_link: LinkCost | None = None, node_size: int = 0) -> None:
        self.compute = np.zeros(ranks)
        self.comm = np.zeros(ranks)
        self.waited = np.zeros(ranks)
        self.busy = np.zeros(ranks)
        self.link = link
        self.inter_link = inter_link
        self.node = np.arange(ranks) // (node_size if inter_link is not None and node_size else max(ranks, 1))
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
        """`round` for messages ``{source: (target, bytes)}``: when each rank is free again."""
        source = np.array(list(sent), dtype=np.int64)
        target, size = np.array(list(sent.values()), dtype=np.int64).reshape(-1, 2).T
        return self.round(at, source, target, size).after

    def round(self, at: np.ndarray, source: np.ndarray, target: np.ndarray, size: np.ndarray) -> Hop:
        """One round of messages of ``size`` bytes, at most one from and one to each rank; each needs both its ends ready.

        ``at`` (ranks,) is when each rank is ready. A message of no bytes is not sent: it waits for nobody.
        """
        start = np.maximum(at[source], at[target])
        end = start + self.costs(source, target, size)
        after = at.copy()
        sent = size > 0
        np.maximum.at(after, source[sent], end[sent])
        np.maximum.at(after, target[sent], end[sent])
        return Hop(after, start, end)

    def costs(self, source: np.ndarray, target: np.ndarray, size: np.ndarray) -> np.ndarray:
        """alpha + bytes / bandwidth of each message, on the link that joins its two ends; 0 for a message of no bytes."""
        if self.link is None:
            return np.zeros(len(size))
        charged = size * self.scale
        seconds = self.link.latency + charged / self.link.bandwidth
        if self.inter_link is not None:
            between = self.node[source] != self.node[target]
            seconds = np.where(between, self.inter_link.latency + charged / self.inter_link.bandwidth, seconds)
        return np.where(size > 0, seconds, 0.0)

    def cost(self, source: int, target: int, size: int) -> float:
        """`costs` of one message."""
        return float(self.costs(np.array([source]), np.array([target]), np.array([size]))[0])

    def end(self, start: np.ndarray, end: np.ndarray, text: str, n: int, child: Callable[[], Recording] | None = None) -> None:
        """Close a collective that ran from ``start`` to ``end`` (arrays (ranks,)) on the comm streams; ``child`` opens its spans."""
        for rank in range(len(end)):
            self.occupy(rank, float(start[rank]), float(end[rank]), text, n, child)

    def occupy(self, rank: int, start: float, end: float, text: str, n: int, child: Callable[[], Recording] | None = None) -> None:
        """The comm stream of ``rank`` is busy from ``start`` to ``end``."""
        self.busy[rank] += max(end - max(start, float(self.comm[rank])), 0.0)
        self.comm[rank] = max(self.comm[rank], end)
        if self.gantt is not None and end > start:
            self.gantt.span(2 * rank + 1, start, end, "comm", text, n, child=child)

    def wait(self, rank: int, end: float) -> None:
        """The compute stream of ``rank`` goes on after ``end``; what it idles counts as exposed communication."""
        idle = end - float(self.compute[rank])
        if idle > 0:
            self.waited[rank] += idle
            self.compute[rank] = end
