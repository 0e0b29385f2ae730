"""What a pipeline schedule is made of: kinds of actions, the order of a rank, where stages live, and the table of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

Order = np.ndarray
"""What one rank runs, from first to last: int32 rows (kind, stage, microbatch), or (kind, stage, microbatch, joined).

joined 1: the row is one action with the row before it, an overlapped forward-backward pair."""


class Kind(IntEnum):
    """What an action computes for one stage and one microbatch."""

    FORWARD = 0
    BACKWARD = 1  # both gradients in one action, I then W; the gradient leaves when the action ends
    INPUT_GRADIENT = 2
    WEIGHT_GRADIENT = 3

    @property
    def letter(self) -> str:
        return "FBIW"[self]


class Action(NamedTuple):
    """One row of a table. ``str`` writes it as torch does: stage, letter, microbatch ("3F7")."""

    kind: Kind
    stage: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.letter}{self.microbatch}"


class Placement(NamedTuple):
    """Where stages live. rank_of, place_of: (stages,) the rank that holds a stage, and its number there.

    copies: of the model. Stages are counted through all copies, ``len(rank_of) / copies`` to each, first stage to last.
    """

    rank_of: np.ndarray
    place_of: np.ndarray
    copies: int = 1


def looped(ranks: int, chunks: int) -> Placement:
    """Stage s on rank s mod ranks, as its chunk s div ranks."""
    stages = np.arange(ranks * chunks)
    return Placement(stages % ranks, stages // ranks)


def v_shaped(ranks: int, chunks: int = 2) -> Placement:
    """Rank r holds stages r and 2 ranks - 1 - r: down one arm of a V and up the other, so the last rank turns."""
    stages = np.arange(2 * ranks)
    return Placement(np.minimum(stages, 2 * ranks - 1 - stages), stages // ranks)


def both_ways(ranks: int, chunks: int = 1) -> Placement:
    """Two copies of the model, one down the ranks and one up: rank r holds stage r of the first and ranks - 1 - r of the second."""
    down = np.arange(ranks)
    return Placement(np.concatenate([down, down[::-1]]), np.repeat([0, 1], ranks), copies=2)


@dataclass(frozen=True)
class Table:
    """A schedule for one size, rank by rank.

    actions: (rows, 3) int32, the orders of all ranks one after another; joined: (rows,) bool, the row is one action with the row
    before it; first: (ranks + 1,) where each rank's begin; rank_of, place_of, copies: see `Placement`.
    """

    ranks: int
    microbatches: int
    actions: np.ndarray
    joined: np.ndarray
    first: np.ndarray
    rank_of: np.ndarray
    place_of: np.ndarray
    copies: int

    @classmethod
    def of(cls, orders: Sequence[Order], microbatches: int, placement: Placement) -> Table:
        """Put the orders of all ranks together."""
        first = np.zeros(len(orders) + 1, dtype=np.int64)
        np.cumsum([len(order) for order in orders], out=first[1:])
        rows = np.concatenate(orders)
        joined = rows[:, 3].astype(bool) if rows.shape[1] > 3 else np.zeros(len(rows), dtype=bool)
        return cls(len(orders), microbatches, np.ascontiguousarray(rows[:, :3]), joined, first, *placement)

    @property
    def stages(self) -> int:
        """Stages of all copies together."""
        return len(self.rank_of)

    @property
    def depth(self) -> int:
        """Stages of one copy of the model: a microbatch passes through so many."""
        return len(self.rank_of) // self.copies

    @property
    def chunks(self) -> int:
        """Parts of one copy of the model on each rank."""
        return self.depth // self.ranks

    @property
    def places(self) -> int:
        """Stages on each rank, of all copies."""
        return len(self.rank_of) // self.ranks

    @property
    def kind(self) -> np.ndarray:
        return self.actions[:, 0]

    @property
    def stage(self) -> np.ndarray:
        return self.actions[:, 1]

    @property
    def microbatch(self) -> np.ndarray:
        return self.actions[:, 2]

    @property
    def rank(self) -> np.ndarray:
        """(rows,) the rank of each row."""
        return np.repeat(np.arange(self.ranks), np.diff(self.first))

    @property
    def heads(self) -> np.ndarray:
        """(actions,) the first row of each action; an overlapped pair has two rows, any other action one."""
        return np.flatnonzero(~self.joined)

    @property
    def tails(self) -> np.ndarray:
        """(actions,) the last row of each action."""
        return np.append(self.heads[1:], len(self.actions)) - 1

    def __len__(self) -> int:
        """Rows."""
        return len(self.actions)

    def of_rank(self, rank: int) -> list[Action]:
        """What ``rank`` runs, in order."""
        rows = self.actions[self.first[rank] : self.first[rank + 1]].tolist()
        return [Action(Kind(kind), stage, microbatch) for kind, stage, microbatch in rows]


def rows_of(kind: Kind, stage: int | np.ndarray, microbatch: np.ndarray) -> Order:
    """(microbatches, 3) one row for each microbatch."""
    rows = np.empty((len(microbatch), 3), dtype=np.int32)
    rows[:, 0], rows[:, 1], rows[:, 2] = kind, stage, microbatch
    return rows


_SYMBOLS = {
    f"{plus}{kind.letter}{place}": (kind, place, int(bool(plus)))
    for plus in ("", "+")
    for kind in Kind
    for place in (0, 1)
}  # fmt: skip
_CODE_OF = {symbol: code for code, symbol in enumerate(_SYMBOLS)}
_MEANING = np.array(list(_SYMBOLS.values()), dtype=np.int32)


def spelled(symbols: list[str], stages: tuple[int, int], first: tuple[int, int] = (0, 0)) -> Order:
    """The order that ``symbols`` spell: letter and place ("F0", "B1"), with + when joined to the one before ("F0", "+B1").

    stages: those at place 0 and 1; first: the first microbatch of each. Each place takes its microbatches in turn: its n-th
    forward, its n-th B or I, its n-th B or W are of microbatch first + n.
    """
    meaning = _MEANING[[_CODE_OF[symbol] for symbol in symbols]]
    kind, place = meaning[:, 0], meaning[:, 1]
    order = np.empty((len(symbols), 4), dtype=np.int32)
    order[:, 0], order[:, 1], order[:, 3] = kind, np.array(stages)[place], meaning[:, 2]
    for number in (0, 1):
        mine = place == number
        for counted, written in (
            ((Kind.FORWARD,), (Kind.FORWARD,)),
            ((Kind.BACKWARD, Kind.INPUT_GRADIENT), (Kind.BACKWARD, Kind.INPUT_GRADIENT)),
            ((Kind.BACKWARD, Kind.WEIGHT_GRADIENT), (Kind.WEIGHT_GRADIENT,)),
        ):
            turn = np.cumsum(mine & np.isin(kind, counted)) - 1
            which = mine & np.isin(kind, written)
            order[which, 2] = first[number] + turn[which]
    return order
