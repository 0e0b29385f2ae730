"""The matching engine for millions of messages: `core.markets.matching.book`'s rules on arrays, compiled with numba.

Importing this module compiles or loads the kernels (about a second from numba's cache, much longer the first time ever):
only a simulation that is running does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from core.markets.engine import state as es
from core.markets.engine.codes import LIMIT, M_ACTION, M_PRICE, MESSAGE_WIDTH, OPEN
from core.markets.engine.kernel import rows_at_most, work
from core.markets.engine.snapshot import SNAPSHOT_WIDTH, queues_from_best, restore, snapshot, totals
from core.markets.kernels.order_ids import place_of, roomy_ids
from core.markets.kernels.price_pages import roomy_index
from core.markets.kernels.rows import chained, longer, zeros
from core.markets.matching.auction import clearing
from core.markets.matching.reports import ACTIONS, BUY, KINDS, SELF_TRADES, ModifyRule, PostOnlyRule, SelfTrade

BLOCK = 1 << 11
"""Messages handed to the kernel at once, few enough that their reports stay in the processor's cache; arrays may grow between blocks."""
SKIPPED_BLOCK = 1 << 13
"""As many when nobody reads the reports."""


class Rules(NamedTuple):
    """The rules of a `core.markets.matching.book.Book`, under the same names."""

    modify_rule: ModifyRule = "benchmark"
    post_only: PostOnlyRule = "reject"
    self_trade: SelfTrade = "off"
    lowest: int = 1


class QueueLevel(NamedTuple):
    """A price with what it displays and its displayed orders (id, shown), front first."""

    price: int
    quantity: int
    orders: tuple[tuple[int, int], ...]


def message(
    action: str,
    order_id: int = 0,
    side: int = BUY,
    quantity: int = 0,
    price: int | None = None,
    kind: str = "limit",
    *,
    tip: int = 0,
    trigger: int | None = None,
    owner: int = 0,
) -> tuple[int, ...]:
    """One message as the kernel reads it (a column of ``messages``); the words are those of `core.markets.matching.book.Book`."""
    return (
        ACTIONS.index(action), 0 if side == BUY else 1, KINDS.index(kind), quantity, order_id,
        es.NONE if price is None else price, tip, es.NONE if trigger is None else trigger, owner,
    )  # fmt: skip


class Engine:
    """Works through blocks of messages. ``scalars[S_…]`` and ``after`` rows say what the book shows."""

    def __init__(self, rules: Rules | None = None, *, room: int = 1024) -> None:
        self.rules = rules or Rules()
        scalars = np.zeros(es.SCALARS, dtype=np.int64)
        scalars[[es.S_LAST, es.S_LOW, es.S_HIGH]] = es.NONE
        scalars[es.S_CLEARED] = -1
        scalars[es.S_MODIFY_RULE] = self.rules.modify_rule == "keep_on_decrease"
        scalars[es.S_SLIDE] = self.rules.post_only == "slide"
        scalars[es.S_SELF_TRADE] = SELF_TRADES.index(self.rules.self_trade)
        scalars[es.S_LOWEST] = self.rules.lowest
        none = zeros(0)
        self.state = es.State(scalars, none, none, none, none, none.astype(np.int32), none, none)
        self._out = np.empty((0, es.REPORT_WIDTH), dtype=np.int64)
        self._make_room(room)

    @property
    def resting(self) -> int:
        """Orders in the book and stops that wait."""
        return int(self.state.scalars[es.S_ORDERS])

    @property
    def crossed(self) -> int:
        """Messages after which a continuous book stood crossed: 0, or the engine is wrong."""
        return int(self.state.scalars[es.S_CROSSED])

    def best(self, side: int) -> int | None:
        level = int(self.state.scalars[es.S_BEST + (0 if side == BUY else 1)])
        return int(self.state.levels[level + es.L_PRICE]) if level else None

    @property
    def depth(self) -> tuple[int, int]:
        """What bids and asks display."""
        return int(self.state.scalars[es.S_BID_DEPTH]), int(self.state.scalars[es.S_ASK_DEPTH])

    def run(self, messages: np.ndarray, after: np.ndarray | None = None) -> Iterator[tuple[int, int, np.ndarray]]:
        """Work through ``messages`` (MESSAGE_WIDTH, n); yields (first, end, reports) of each block.

        reports: (rows, REPORT_WIDTH), valid until the next block. after: (n, AFTER_WIDTH), filled as the blocks are done.
        """
        if messages.ndim != 2 or len(messages) != MESSAGE_WIDTH or messages.dtype != np.int64:
            raise ValueError(f"messages are int64 columns ({MESSAGE_WIDTH}, n), not {messages.dtype} {messages.shape}")
        yield from self._blocks(messages, after, BLOCK)

    def _blocks(self, messages: np.ndarray, after: np.ndarray | None, size: int) -> Iterator[tuple[int, int, np.ndarray]]:
        nobody = np.empty((0, es.AFTER_WIDTH), dtype=np.int64) if after is None else after
        first, end = 0, messages.shape[1]
        self.state.scalars[es.S_KEEP] = size == BLOCK
        while first < end:
            block = min(size, end - first)
            self._make_room(block)
            self.state.scalars[es.S_REPORTS] = 0
            done = work(self.state, messages, first, first + block, self._out.reshape(-1), nobody)
            yield first, done, self._out[: self.state.scalars[es.S_REPORTS]]
            first = done
            if first < end and messages[M_ACTION, first] == OPEN:
                self._clear(int(messages[M_PRICE, first]))

    def apply(self, *messages: tuple[int, ...]) -> np.ndarray:
        """Hand over a few messages (see `message`); returns their report rows."""
        rows = [reports.copy() for _, _, reports in self.run(np.array(messages, dtype=np.int64).T.copy())]
        return np.concatenate(rows) if rows else np.empty((0, es.REPORT_WIDTH), dtype=np.int64)

    def skip(self, messages: np.ndarray) -> None:
        """Work through ``messages`` for their effect alone."""
        for _ in self._blocks(messages, None, SKIPPED_BLOCK):
            pass

    def levels(self, side: int, depth: int, longest: int = 1 << 62) -> list[QueueLevel]:
        """The best ``depth`` levels that display something, with the first ``longest`` orders of their displayed queues."""
        levels, orders = queues_from_best(self.state, 0 if side == BUY else 1, depth, longest)
        found, first, queue = [], 0, [(order, shown) for order, shown in orders.tolist()]
        for price, shown, end in levels.tolist():
            found.append(QueueLevel(price, shown, tuple(queue[first:end])))
            first = end
        return found

    def rests(self, order_id: int) -> bool:
        """Whether an order is in the book or a stop of that id waits."""
        return bool(self.state.ids[place_of(self.state.ids, self.state.orders, order_id)])

    def snapshot(self) -> tuple[np.ndarray, np.ndarray]:
        """Everything that can matter later: (scalars, orders), the orders (resting, SNAPSHOT_WIDTH) queue by queue."""
        rows = np.empty((self.resting, SNAPSHOT_WIDTH), dtype=np.int64)
        snapshot(self.state, rows)
        return self.state.scalars.copy(), rows

    @classmethod
    def from_snapshot(cls, rules: Rules, scalars: np.ndarray, rows: np.ndarray) -> Engine:
        """An engine that goes on where `snapshot` was taken."""
        engine = cls(rules, room=len(rows) + 64)
        done = 0
        while (done := restore(engine.state, rows, done)) < len(rows):
            engine._make_room(len(rows) - done)
        for kept in (es.S_SEQ, es.S_STATE, es.S_LAST, es.S_ARRIVALS, es.S_TRADES, es.S_VOLUME, es.S_CROSSED, es.S_WAITING):
            engine.state.scalars[kept] = scalars[kept]
        return engine

    def _clear(self, reference: int) -> None:
        """Work out at which price the collected book uncrosses, for the message that opens trading."""
        sides = []
        for book in (0, 1):
            found = np.empty((int(self.state.scalars[es.S_LEVELS]), 2), dtype=np.int64)
            sides.append([(price, quantity) for price, quantity in found[: totals(self.state, book, found)].tolist()])
        price, volume = clearing(sides[0], sides[1], None if reference == es.NONE else reference)
        self.state.scalars[es.S_CLEARING] = es.NONE if price is None else price
        self.state.scalars[es.S_CLEARED] = volume

    def _make_room(self, messages: int) -> None:
        """Room for whatever ``messages`` can add: one order each, a level each, and a level for each stop they trigger."""
        state, scalars = self.state, self.state.scalars
        orders = int(scalars[es.S_ORDERS]) + messages + 1
        waiting, used = int(scalars[es.S_WAITING]), int(scalars[es.S_LEVELS])
        words, pages = roomy_index(state.words, state.pages, max(used // 4, 64) + waiting)
        rows = chained(state.orders, orders, es.ORDER_WIDTH, scalars, es.S_FREE_ORDER, es.O_NEXT)
        self.state = es.State(
            scalars,
            rows,
            chained(state.levels, used + messages + waiting + 1, es.LEVEL_WIDTH, scalars, es.S_FREE_LEVEL, es.L_HEAD),
            roomy_ids(state.ids, orders),
            words,
            pages,
            longer(state.stops, len(rows)),
            longer(state.wave, orders),
        )
        reports = 2 * (rows_at_most(scalars) + 4 * messages)
        if len(self._out) < reports:
            self._out = np.empty((2 * reports, es.REPORT_WIDTH), dtype=np.int64)  # never touched beyond what is written


def stream_messages(columns: dict[str, np.ndarray], first: int = 0, end: int | None = None) -> np.ndarray:
    """Messages (MESSAGE_WIDTH, n) of rows [first, end) of a conformance stream (`core.markets.stream.conformance.COLUMNS`)."""
    span = slice(first, end)
    made = np.zeros((MESSAGE_WIDTH, len(columns["type"][span])), dtype=np.int64)
    for row, name in enumerate(("type", "side", "ioc", "quantity", "order_id", "price")):
        made[row] = columns[name][span]
    made[2] = np.where(made[2] != 0, KINDS.index("ioc"), LIMIT)
    made[7] = es.NONE
    return made
