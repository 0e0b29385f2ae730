"""What the dispatch stage shows: gates, rows on their way, load per expert, the grouped GEMM's shapes."""

from __future__ import annotations

from collections.abc import Sequence

from core.moe.experts import Permutation
from core.moe.routers import Routing
from core.recording import Recorder
from core.views import Axis, Breakdown, Cell, Column, Heatmap, Table

FOLLOWED_WHOLE = 64
"""Up to so many tokens each one is walked step by step; of more, `FOLLOWED_OF_MANY` are, and the rest expert by expert."""
FOLLOWED_OF_MANY = 4
_SHOWN_OF_MANY = 32
_SHOWN_CELLS = 4_096

_TOKEN_ORDER, _BY_EXPERT, _OUTPUT, _BACK = range(4)
_KEPT, _CHOSEN, _DROPPED, _PADDING = range(4)

_SENTENCE = (
    "the bank by the river rose so the bank near the road sank and all who put money in the bank ran to town to ask the old man at "
    "the desk if the rate on the loan was safe or if the water had taken the bank and the money and gone down the river for good but he "
    "did not know why"
)
WORDS = tuple(_SENTENCE.split())[:FOLLOWED_WHOLE]


def group(expert: int) -> str:
    """The role that tells this expert from its neighbours."""
    return f"group{expert % 8}"


class Stage:
    """The four panels; each method writes the cells of the step being written. Only the first tokens of many are shown."""

    def __init__(self, rec: Recorder, words: Sequence[str], experts: int, top_k: int, capacity: int | None) -> None:
        self.words, self.top_k, self.capacity = words, top_k, capacity
        tokens = len(words)
        shown = tokens if tokens <= FOLLOWED_WHOLE else _SHOWN_OF_MANY
        self.shown = min(shown, max(_SHOWN_CELLS // experts, FOLLOWED_OF_MANY))
        self.rows: dict[int, int] = {}
        part = "" if self.shown == tokens else f"first {self.shown} of {tokens:,} tokens"
        names = tuple(f"{i} {word}" if word != f"t{i}" else word for i, word in enumerate(words[: self.shown]))
        self.gates = rec.panel(
            f"Router: {part or 'gate by token and expert'}",
            Heatmap(Axis.of(*names), Axis("E{i}", experts), low=0.0, high=1.0, legend={"group": "chosen"}),
            2.0,
        )
        self.path = rec.panel(
            f"Rows: {part or 'scattered, contiguous, back'}",
            Heatmap(
                Axis("{i}" if part else "row {i}", self.shown * top_k),
                Axis.of("tokens", "sorted", "expert", "× gate"),
                show="text",
                legend={"group": "one colour an expert"},
            ),
            beside=True,
        )
        parts = (("kept", "kept"), ("chosen", "selected"), ("dropped", "dropped"), ("padding", "padding"))
        limit = None if capacity is None else float(capacity)
        name = "" if capacity is None else f"capacity {capacity:,}"
        self.load = rec.panel("Load per expert", Breakdown(Axis("E{i}", experts), parts, "count", capacity=limit, capacity_name=name))
        columns = [Column("E"), Column("GEMM", align="left"), Column("M"), Column("N"), Column("K"), Column("FLOP", "flop")]
        self.shapes = rec.panel("Grouped GEMM: M × K times K × N", Table(columns), beside=True)

    # route ---------------------------------------------------------------------------------------------------------------

    def probabilities(self, routing: Routing) -> None:
        for token, line in enumerate(routing.probabilities[: self.shown].tolist()):
            for expert, value in enumerate(line):
                self.gates.set(token, expert, value, "dim")

    def choose(self, token: int, slot: int, expert: int, gate: float) -> None:
        if token < self.shown:
            self.gates.set(token, expert, gate, group(expert))
            self.path.set(token * self.top_k + slot, _TOKEN_ORDER, gate, group(expert), self.words[token])

    def chosen(self, expert: int, load: int) -> None:
        self.load.set(expert, _CHOSEN, load)

    # capacity ------------------------------------------------------------------------------------------------------------

    def drop(self, token: int, slot: int, expert: int, gate: float) -> None:
        if token < self.shown:
            self.gates.set(token, expert, gate, "dropped", "✗")
            self.path.set(token * self.top_k + slot, _TOKEN_ORDER, gate, "dropped", f"✗ {self.words[token]}")

    def seated(self, expert: int, kept: int, waiting: int, dropped: int) -> None:
        """Bars keep their height: what was chosen turns into kept or dropped."""
        for part, value in ((_CHOSEN, waiting), (_KEPT, kept), (_DROPPED, dropped)):
            self.load.set(expert, part, value)

    def pad(self, counts: Sequence[int], height: int) -> None:
        """What a padded batched matmul would add to bring every expert to ``height`` rows."""
        for expert, count in enumerate(counts):
            self.load.set(expert, _PADDING, height - count)

    # permute, experts, combine -------------------------------------------------------------------------------------------

    def place_rows(self, permutation: Permutation) -> list[tuple[int, int]]:
        """(row, assignment) of the kept shown assignments in sorted order; remembers where each is drawn."""
        rows = permutation.inverse[: self.shown * self.top_k].tolist()
        total = len(permutation.order)
        placed = sorted((row, assignment) for assignment, row in enumerate(rows) if row < total)
        self.rows = {row: line for line, (row, _) in enumerate(placed)}
        return placed

    def move(self, row: int, token: int, expert: int) -> None:
        """The row of ``token`` stands in the block of ``expert`` from now on; the raw value is its true row number."""
        if row in self.rows:
            self.path.set(self.rows[row], _BY_EXPERT, row, group(expert), self.words[token])

    def multiply(self, expert: int, rows: Sequence[int], sizes: Sequence[tuple[str, int, int, int]]) -> None:
        """Two GEMMs of one expert, (name, M, N, K) each; its shown ``rows`` turn into outputs."""
        first = expert * len(sizes)
        for k, (name, m, n, depth) in enumerate(sizes):
            cells = (Cell(expert, group(expert)), name, m, n, depth, 2 * m * n * depth)
            self.shapes.row(*cells, row=first + k)
        self.shapes.light(*range(first, first + len(sizes)))
        for row in rows:
            self.path.set(self.rows[row], _OUTPUT, row, group(expert), f"E{expert}")

    def bring_back(self, token: int, slot: int, expert: int, gate: float) -> None:
        if token < self.shown:
            self.path.set(token * self.top_k + slot, _BACK, gate, group(expert), f"×{gate:.2f}")
