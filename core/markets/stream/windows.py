"""What a ladder shows after any message of a stream, from small keyframes: each holds the part of the book its messages can reach.

A second engine follows the first one block behind. When the first has matched a block, `core.markets.engine.window` knows what
of the book before it can come into sight. So a book of millions of orders is no slower to look into than a small one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import msgspec
import numpy as np

from core.markets.engine import state as es
from core.markets.engine.codes import M_ORDER
from core.markets.engine.engine import Engine, Rules
from core.markets.engine.window import window
from core.markets.keyframes import Frames, Packed


class EngineFrame(msgspec.Struct, frozen=True):
    """A snapshot of an engine, or of the best levels of one. ``depths``: what both sides of the whole book display."""

    rules: Rules
    scalars: np.ndarray
    rows: Packed
    depths: tuple[int, int]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.scalars.nbytes

    def restore(self, old: Engine | None = None) -> Engine:
        engine = Engine.from_snapshot(self.rules, self.scalars, self.rows.unpack())
        engine.state.scalars[[es.S_BID_DEPTH, es.S_ASK_DEPTH]] = self.depths
        return engine


class Windows(Frames[Engine]):
    """States of a matched stream, right in the best ``depth`` levels and the first ``longest`` orders of each.

    ``messages(first, end)`` gives the messages again.
    """

    def __init__(self, rules: Rules, messages: Callable[[int, int], np.ndarray], depth: int, longest: int) -> None:
        super().__init__(lambda: Engine(rules), lambda engine, first, end: engine.skip(messages(first, end)))
        self._rules, self._messages, self._depth, self._longest = rules, messages, depth, longest
        self._behind: Engine | None = Engine(rules)
        self._done = 0
        self._state: tuple[int, int, Engine] | None = None

    def extend(self, engine: Engine, end: int) -> None:
        """``engine`` has matched messages [0, end): from now on any state up to there can be asked for."""
        behind, block = self._behind, self._messages(self._done, end)
        if behind is None:
            raise ValueError("the stream is complete")
        if self._done:
            most = behind.resting + int(behind.state.scalars[es.S_LEVELS])
            rows = window(behind.state, engine.state, block[M_ORDER], self._depth, self._longest, most)
            self.keep(self._done, EngineFrame(self._rules, behind.state.scalars.copy(), Packed(rows), behind.depth))
        behind.skip(block)
        self._done = end

    def complete(self) -> None:
        """No messages follow: give up the engine that only they need."""
        self._behind = None

    def _at(self, end: int) -> Engine:
        at = bisect_right(self._ends, end) - 1
        if self._state is None or self._state[0] != at or self._state[1] > end:  # a window is right for its own messages only
            frame = self._frames[at]
            self._state = at, self._ends[at], self._start() if frame is None else frame.restore()
        _, done, state = self._state
        if done < end:
            self._state = None  # a failure on the way must not leave a half-done state
            self._forward(state, done, end)
            self._state = at, end, state
        return state
