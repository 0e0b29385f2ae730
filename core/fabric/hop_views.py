"""What the screen shows of a collective: this hop's messages, who holds which chunk, its values, and the links over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from core.fabric.clock import Hop
from core.fabric.hops import Contributors, Schedule, Transfer
from core.recording import Recorder
from core.views import Axis, Cell, Exchange, Gantt, Heatmap, Listing

HELD_ONE_BY_ONE = 16
"""Up to so many ranks the exchange lists the chunks each of them holds, and both directions of a link have a lane."""
LISTED = 8
"""Messages of a round that the listing writes out."""

Place = tuple[int, int]
"""(rank, chunk)"""
_NOTHING = Cell(None, "dim", "·")
_EMPTY_CHUNK = Cell(None, "padding", "–")
_MEANINGS = {"comm": "partial sum", "good": "finished", "padding": "empty"}


class HopViews:
    """The panels of one collective. A chunk is drawn with the number of ranks whose values it is made of."""

    def __init__(self, rec: Recorder, schedule: Schedule, sizes: dict[int, int], *, shown: str) -> None:
        self.schedule, self.sizes = schedule, sizes
        ranks = Axis("rank {i}", schedule.ranks)
        self.blocks = schedule.op == "all_to_all"
        self.sums = schedule.op in ("all_reduce", "reduce_scatter", "reduce")
        self.full = schedule.ranks if self.sums else 1
        columns = schedule.ranks if self.blocks else schedule.chunks
        noun = "from {i}" if self.blocks else "chunk {i}" if columns > 1 else "array"
        self.one_by_one = schedule.ranks <= HELD_ONE_BY_ONE
        slots = Axis(noun, columns)
        self.exchange = rec.panel("Messages of this hop", Exchange(ranks, "bytes", slots=slots if self.one_by_one else None), 1.6)
        title = "Ranks whose values are in a chunk" if self.sums else "Chunks that have arrived"
        self.counts = rec.panel(title, Heatmap(ranks, Axis("{i}", columns), low=0.0, high=float(self.full), legend=_MEANINGS), 1.0)
        self.values = rec.panel(shown, Heatmap(ranks, Axis("{i}", columns), legend=_MEANINGS), 1.0, beside=True)
        lanes = [f"rank {r} {way}" for r in range(schedule.ranks) for way in ("sends", "gets")] if self.one_by_one else []
        axis = Axis.of(*lanes) if lanes else Axis("rank {i} sends", schedule.ranks)
        groups = [r for r in range(schedule.ranks) for _ in range(2 if lanes else 1)]
        self.gantt = rec.panel("Links", Gantt(axis, "s", lane_groups=groups), 1.2)
        self.listing = rec.panel("Schedule", Listing(listed(schedule)), 0.6, beside=True)
        self._count_cells: dict[int, Cell] = {}
        self._spans: list[tuple[np.ndarray, ...]] = []
        self._collected = 0

    def column(self, chunk: int) -> int:
        """A block of an all-to-all stands under the rank it came from."""
        return chunk // self.schedule.ranks if self.blocks else chunk

    def drawn(self, rank: int, chunk: int) -> bool:
        """Of an all-to-all only the blocks that are where they belong are drawn."""
        return not self.blocks or chunk % self.schedule.ranks == rank

    def paint(self, places: Iterable[Place], contributors: Contributors, first: dict[Place, float | int | None]) -> None:
        """Write the cells of ``places``; ``first`` has the first value of those that hold something."""
        drawn = [place for place in places if self.drawn(*place)]
        masks = [contributors.held[rank].get(chunk, 0).bit_count() for rank, chunk in drawn]
        cells = [(rank, self.column(chunk)) for rank, chunk in drawn]
        self.counts.put(cells, [self._count_cell(count) for count in masks])
        filled = [_NOTHING if not count else self._value_cell(count, place, first) for place, count in zip(drawn, masks, strict=True)]
        self.values.put(cells, filled)
        if self.one_by_one:
            for (rank, column), count in zip(cells, masks, strict=True):
                self._hold(rank, column, count)

    def _count_cell(self, count: int) -> Cell:
        known = self._count_cells.get(count)
        if known is None:
            known = self._count_cells[count] = Cell(count, self._role(count)) if count else Cell(0, "dim", "·")
        return known

    def _value_cell(self, count: int, place: Place, first: dict[Place, float | int | None]) -> Cell:
        return Cell(first[place], self._role(count)) if self.sizes[place[1]] else _EMPTY_CHUNK

    def _role(self, count: int) -> str:
        """Finished, a rank's own, or on the way."""
        return "good" if count == self.full else "plain" if count == 1 else "comm"

    def _hold(self, rank: int, column: int, count: int) -> None:
        if not count:
            self.exchange.drop(rank, column)
            return
        mark = "✓" if count == self.full else f"{count}/{self.full}"
        name = f"b{column}" if self.blocks else f"c{column}" if self.schedule.chunks > 1 else "all"
        self.exchange.hold(rank, column, None, self._role(count), f"{name} {mark}")

    def messages(self, row: int, going: Sequence[Transfer], size: np.ndarray, source: np.ndarray, target: np.ndarray, times: Hop) -> None:
        """This step's arrows, and its spans; among many ranks those of small rounds are collected first."""
        for transfer, bytes_ in zip(going, size.tolist(), strict=True):
            self.exchange.send(transfer.source, transfer.target, bytes_, "comm", self._named(transfer))
        self.listing.light(row)
        chunk = np.fromiter((t.chunks[0] if len(t.chunks) == 1 else -1 for t in going), np.int64, len(going))
        step = np.full(len(going), self.exchange.now())
        self._spans.append((step, source, target, chunk, times.start, times.end))
        self._collected += len(going)
        if self.one_by_one or 8 * self._collected >= self.schedule.ranks:  # a block costs time for every lane
            self.finish()

    def finish(self) -> None:
        """Write the spans that are collected."""
        if not self._spans:
            return
        both = self.one_by_one
        step, source, target, chunk, start, end = (np.concatenate(part) for part in zip(*self._spans, strict=True))
        named = 1 if self.blocks else 0 if self.schedule.chunks > 1 else 2
        text = np.where(chunk < 0, 2, named)
        number = chunk // self.schedule.ranks if self.blocks else np.maximum(chunk, 0)
        lane = source * 2 if both else source
        role = np.zeros(len(lane), dtype=np.int64)
        if both:  # sends and receives of one step stay together: spans are written in order of their steps
            order = np.argsort(np.concatenate([step, step]), kind="stable")
            lane = np.concatenate([lane, target * 2 + 1])[order]
            role = np.concatenate([role, role + 1])[order]
            start, end, text, number, step = (np.concatenate([x, x])[order] for x in (start, end, text, number, step))
        self.gantt.spans(lane, start, end, role, text, number, step, roles=["comm", "buffer"], texts=["c{n}", "b{n}", ""])
        self._spans, self._collected = [], 0

    def _named(self, transfer: Transfer) -> str:
        if len(transfer.chunks) > 1:
            return f"{len(transfer.chunks)} chunks"
        return f"{'b' if self.blocks else 'c'}{self.column(transfer.chunks[0])}" if self.schedule.chunks > 1 else ""


def listed(schedule: Schedule) -> list[str]:
    """One line for every round: its phase and who sends which chunk to whom."""
    lines = []
    for phase in schedule.phases:
        for number, transfers in enumerate(phase.rounds, 1):
            written = "  ".join(_written(t, schedule) for t in transfers[:LISTED])
            more = f"  … {len(transfers)} messages" if len(transfers) > LISTED else ""
            lines.append(f"{phase.name} {number}: {written}{more}")
    return lines or ["one rank: nothing to send"]


def _written(transfer: Transfer, schedule: Schedule) -> str:
    arrow = "⇄" if transfer.mode == "exchange" else "→"
    if schedule.chunks == 1:
        return f"{transfer.source}{arrow}{transfer.target}"
    if schedule.op == "all_to_all":
        return f"{transfer.source}{arrow}{transfer.target}"
    chunks = ",".join(map(str, transfer.chunks[:4])) + ("…" if len(transfer.chunks) > 4 else "")
    return f"{transfer.source}{arrow}{transfer.target} c{chunks}"
