"""A book's state after any message: snapshots now and then, kept small, and a replay from the nearest one.

A snapshot is taken when it costs no more than a few bytes for every message since the last one, so that a book of any size
keeps within the memory of its messages.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

EVERY = 8192
BYTES_PER_MESSAGE = 24
Replayed = TypeVar("Replayed")
Made = TypeVar("Made", covariant=True)


class Packed:
    """An integer table (rows, columns), each column as the smallest unsigned type above its least value."""

    def __init__(self, rows: np.ndarray) -> None:
        self.length = len(rows)
        self._least = rows.min(axis=0) if len(rows) else np.zeros(rows.shape[1], dtype=np.int64)
        self._columns: list[np.ndarray | None] = []
        for column, least in zip(rows.T, self._least, strict=True):
            span = int(column.max()) - int(least) if len(column) else 0
            # NONE is far from every price: such a column keeps its 64 bits
            kind = np.min_scalar_type(span)
            self._columns.append(None if span == 0 else (column - least).astype(kind))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns if column is not None) + 8 * len(self._least)

    def unpack(self) -> np.ndarray:
        rows = np.empty((self.length, len(self._least)), dtype=np.int64)
        for at, (column, least) in enumerate(zip(self._columns, self._least, strict=True)):
            rows[:, at] = least if column is None else column.astype(np.int64) + least
        return rows


class Frame(Protocol[Made]):
    """What a state can be made from again."""

    @property
    def nbytes(self) -> int: ...

    def restore(self, old: Any = None) -> Made:
        """``old``: a state that nobody needs any more, to be written over."""
        ...


class Frames(Generic[Replayed]):
    """Any state of a replay. ``forward(state, first, end)`` takes a state that has seen [0, first) on to ``end``."""

    def __init__(self, start: Callable[[], Replayed], forward: Callable[[Replayed, int, int], None]) -> None:
        self._start, self._forward = start, forward
        self._ends: list[int] = [0]
        self._frames: list[Frame[Replayed] | None] = [None]
        self._spent = 0
        self._lock = threading.Lock()
        self._current: tuple[int, Replayed] | None = None

    @property
    def nbytes(self) -> int:
        return self._spent

    def __len__(self) -> int:
        return len(self._ends)

    def worth(self, end: int, resting: int) -> bool:
        """Whether a snapshot with so many orders, after message ``end - 1``, costs little for the messages since the last one."""
        since = end - self._ends[-1]
        return since >= EVERY and 10 * resting + 512 <= BYTES_PER_MESSAGE * since

    def keep(self, end: int, frame: Frame[Replayed]) -> None:
        """The writer's state when messages [0, end) are done."""
        self._spent += frame.nbytes
        self._frames.append(frame)
        self._ends.append(end)  # last: readers search the ends

    @contextmanager
    def after(self, number: int) -> Iterator[Replayed]:
        """The state as it was when message ``number`` was done; only to be read, and only within the ``with``."""
        with self._lock:
            yield self._at(number + 1)

    def rebuilt(self, number: int) -> Replayed:
        """The same state made anew from the snapshot before it: the caller's own."""
        end = number + 1
        at = bisect_right(self._ends, end) - 1
        frame = self._frames[at]
        state = self._start() if frame is None else frame.restore()
        self._forward(state, self._ends[at], end)
        return state

    def _at(self, end: int) -> Replayed:
        at = bisect_right(self._ends, end) - 1
        if self._current is None or not self._ends[at] <= self._current[0] <= end:
            frame = self._frames[at]
            old, self._current = self._current and self._current[1], None
            self._current = (self._ends[at], self._start() if frame is None else frame.restore(old))
        done, state = self._current
        if done < end:
            self._current = None  # a failure on the way must not leave a half-done state
            self._forward(state, done, end)
            self._current = (end, state)
        return state
