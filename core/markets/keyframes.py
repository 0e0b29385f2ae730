"""The engine's state after any message: snapshots now and then, kept small, and a replay from the nearest one.

A snapshot is taken when it costs no more than a few bytes for every message since the last one, so that a book of any size
keeps within the memory of its messages.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from core.markets.engine import Engine, Rules

EVERY = 8192
BYTES_PER_MESSAGE = 24


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


class Keyframes:
    """``messages(first, end)`` gives the messages again. States are asked for by the number of the last message they hold."""

    def __init__(self, rules: Rules, messages: Callable[[int, int], np.ndarray]) -> None:
        self._rules, self._messages = rules, messages
        self._ends: list[int] = [0]
        self._frames: list[tuple[np.ndarray, Packed] | None] = [None]
        self._spent = 0
        self._lock = threading.Lock()
        self._current: tuple[int, Engine] | None = None

    @property
    def nbytes(self) -> int:
        return self._spent

    def __len__(self) -> int:
        return len(self._ends)

    def offer(self, end: int, engine: Engine) -> bool:
        """The writer is at message ``end`` (messages [0, end) are done): keep a snapshot if it is worth its bytes."""
        estimate = 10 * engine.resting + 512
        if end - self._ends[-1] < EVERY or estimate > BYTES_PER_MESSAGE * (end - self._ends[-1]):
            return False
        scalars, rows = engine.snapshot()
        packed = Packed(rows)
        self._spent += packed.nbytes + scalars.nbytes
        self._frames.append((scalars, packed))
        self._ends.append(end)  # last: readers search the ends
        return True

    @contextmanager
    def after(self, number: int) -> Iterator[Engine]:
        """The engine as it was when message ``number`` was done; only to be read, and only within the ``with``."""
        with self._lock:
            yield self._engine(number + 1)

    def _engine(self, end: int) -> Engine:
        from core.markets.engine import Engine

        at = bisect_right(self._ends, end) - 1
        if self._current is None or not self._ends[at] <= self._current[0] <= end:
            frame = self._frames[at]
            engine = Engine(self._rules) if frame is None else Engine.from_snapshot(self._rules, frame[0], frame[1].unpack())
            self._current = (self._ends[at], engine)
        done, engine = self._current
        if done < end:
            self._current = None  # a failure on the way must not leave a half-done state
            engine.skip(self._messages(done, end))
            self._current = (end, engine)
        return engine
