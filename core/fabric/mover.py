"""Executes a schedule on real tensors: values move message by message, and a rank reads only its own and what it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from core.fabric.hops import Schedule, Transfer

Chunks = Mapping[int, torch.Tensor]
"""Chunk number -> its values."""


class Mover:
    """The buffers of all ranks during one collective.

    ``inputs[rank][chunk]`` are read and never written. ``into[rank][chunk]`` receive the results; where there is none
    (or no entry) a new tensor is kept. Sums are made in the tensors' own dtype, one contribution after the other;
    ``divide_by`` divides the finished ones (an average); with ``largest`` the largest value takes the place of the sum.
    """

    def __init__(
        self,
        schedule: Schedule,
        inputs: Mapping[int, Chunks],
        into: Mapping[int, Chunks] | None = None,
        divide_by: int = 1,
        largest: bool = False,
    ) -> None:
        self.schedule, self.inputs, self.divide_by = schedule, inputs, divide_by
        self.largest = largest
        self.results: dict[int, dict[int, torch.Tensor]] = {rank: dict(into[rank]) if into else {} for rank in inputs}
        self._partial: dict[int, dict[int, torch.Tensor]] = {rank: {} for rank in inputs}
        self._settled = False

    def round(self, transfers: Sequence[Transfer]) -> list[int]:
        """Move all messages of one round; bytes of each, counted on what moved."""
        sizes = []
        exchanged: list[tuple[int, int, torch.Tensor]] = []
        for source, target, chunks, mode in transfers:
            size = 0
            for chunk in chunks:
                if mode == "reduce":
                    size += self._reduce(source, target, chunk)
                elif mode == "copy":
                    size += self._copy(source, target, chunk)
                else:
                    sent = self._sum(source, chunk)
                    exchanged.append((target, chunk, self._joined(self._sum(target, chunk), sent)))
                    size += sent.nbytes
            sizes.append(size)
        for target, chunk, total in exchanged:  # both ends have read before either writes
            self._partial[target][chunk] = total
        return sizes

    def settle(self) -> None:
        """No sum changes any more: those of the owners become results."""
        self._settled = True
        for rank, chunks in self.schedule.owners:
            for chunk in chunks:
                own = self._partial[rank].pop(chunk, None)
                fresh = own is not None
                value = self.inputs[rank][chunk] if own is None else own
                if self.divide_by > 1:
                    value = value.div_(self.divide_by) if fresh else value / self.divide_by
                    fresh = True
                self._store(rank, chunk, value, fresh=fresh)

    def value(self, rank: int, chunk: int) -> torch.Tensor:
        """What ``rank`` has for ``chunk`` now: a result, a partial sum, or its own input."""
        if self._settled and chunk in self.results[rank]:
            return self.results[rank][chunk]
        return self._sum(rank, chunk)

    def _sum(self, rank: int, chunk: int) -> torch.Tensor:
        partial = self._partial[rank].get(chunk)
        return self.inputs[rank][chunk] if partial is None else partial

    def _join(self, total: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        """One more contribution, written into ``total``."""
        return torch.maximum(total, more, out=total) if self.largest else total.add_(more)

    def _joined(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return torch.maximum(one, other) if self.largest else one + other

    def _reduce(self, source: int, target: int, chunk: int) -> int:
        """Add the source's partial sum to the target's. A buffer that has been handed over is written into, no new one is made."""
        sent = self._partial[source].pop(chunk, None)
        own = self._partial[target].get(chunk)
        if own is not None:
            self._join(own, self.inputs[source][chunk] if sent is None else sent)
        elif sent is not None:
            self._partial[target][chunk] = self._join(sent, self.inputs[target][chunk])
            return sent.nbytes
        else:
            own = self._partial[target][chunk] = self._joined(self.inputs[source][chunk], self.inputs[target][chunk])
        return own.nbytes

    def _copy(self, source: int, target: int, chunk: int) -> int:
        value = self.results[source].get(chunk)
        if value is None:
            value = self.inputs[source][chunk]
        self._store(target, chunk, value, fresh=False)
        return value.nbytes

    def _store(self, rank: int, chunk: int, value: torch.Tensor, *, fresh: bool) -> None:
        place = self.results[rank].get(chunk)
        if place is not None:
            place.copy_(value)
        else:
            self.results[rank][chunk] = value if fresh else value.clone()
