"""A book kept from market-by-order events: which orders rest at which price, in which order, and what each event did to it.

It believes the file: nothing is matched here. What the file says that cannot be (an unknown order, an id used twice) is
counted and marked, never repaired in silence. The work is done by `core.markets.events.kernel`.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from core.errors import BadInput
from core.markets.events import kernel, queues
from core.markets.events.kernel import (
    DUPLICATE,
    FILLED,
    IN_TURN,
    KEPT,
    NO_PRICE,
    OUT_OF_TURN,
    OWN_FILL,
    PASSED,
    REFRESHED,
    TOO_MUCH,
    UNKNOWN,
)
from core.markets.kernels.hashed import EMPTY, find, grown, table
from core.markets.kernels.price_pages import level_at, rank_of, roomy_index
from core.markets.kernels.rows import chained, zeros
from core.markets.keyframes import Packed
from core.markets.readers.forms import ADD, MODIFY, OrderEvents

__all__ = [
    "DUPLICATE", "FILLED", "IN_TURN", "KEPT", "NO_PRICE", "OUT_OF_TURN", "OWN_FILL", "PASSED", "REFRESHED", "TOO_MUCH", "UNKNOWN",
    "Effects", "EventBook", "Keyframe",
]  # fmt: skip
# What an event turned out to be (marks): about an order that is not there; an add of an id that rests already; a resting order
# executed as the first or not as the first of its price; a fill that names the aggressor's own order; a cancel or modify that
# books fills told before; a modify that keeps its place; one that refreshes an iceberg; more taken than rested; a fill in turn
# that passed over orders withdrawn in the same exchange event (self-trade prevention).

PIECE = 1 << 13
"""Events in one compiled call: a millisecond or less, without the interpreter's lock."""
_NOTHING = np.zeros((kernel.OUT, 0), dtype=np.int64)


class Effects(msgspec.Struct, frozen=True):
    """What each event of a block did, columns (events,). ``bid`` and ``ask`` are `NO_PRICE` where a side is empty.

    bids and asks: the quantity of a whole side; level_before and level: the quantity at the event's own side and price; side
    and price: the order's, where the event itself does not carry them (a modify's price is its new one).
    """

    bid: np.ndarray
    ask: np.ndarray
    bids: np.ndarray
    asks: np.ndarray
    level_before: np.ndarray
    level: np.ndarray
    side: np.ndarray
    price: np.ndarray
    marks: np.ndarray


class EventBook:
    """The orders that rest, each in the queue of its price. ``dense``: order ids are 0, 1, … below that number; None: any 64-bit ids."""

    def __init__(self, dense: int | None = None) -> None:
        self.dense = dense is not None
        self.scalars = np.zeros(queues.SCALARS, dtype=np.int64)
        self.scalars[queues.T_UNIT] = 1
        self.ids, self.spots = _places(1), table(1)
        self.orders, self.names = zeros(queues.ORDER_WIDTH * ((dense or 0) + 1)), np.arange(-1, dense or 0)
        self.levels, self.words, self.pages = zeros(0), zeros(0), np.zeros(0, dtype=np.int32)
        self.happened = np.zeros((0, 5), dtype=np.int64)
        self.early, self.front = np.zeros((64, 3), dtype=np.int64), np.zeros((256, 2), dtype=np.int64)
        self._levels()
        self._unit_known = False

    def _orders(self, count: int) -> None:
        """The first ``count`` rows are about to be written, all others are free."""
        self.scalars[[queues.T_ORDERS, queues.T_FREE]] = 0
        if self.dense:
            self.orders[queues.E_LEVEL :: queues.ORDER_WIDTH] = 0
            return
        self.orders = zeros(0)
        self._room_for_orders(count + PIECE)
        self.scalars[queues.T_FREE] = (count + 1) * queues.ORDER_WIDTH

    def _levels(self) -> None:
        """No level yet."""
        self.levels, self.words, self.pages = zeros(0), zeros(0), np.zeros(0, dtype=np.int32)
        reset = (queues.T_BEST, queues.T_BEST_ASK, queues.T_SEEN_LEVEL, queues.T_FREE_LEVEL, queues.T_LEVELS, queues.T_BIDS, queues.T_ASKS)
        self.scalars[list(reset)] = 0

    # looking ---------------------------------------------------------------------------------------------------------

    @property
    def unit(self) -> int:
        """All prices are multiples of it."""
        return int(self.scalars[queues.T_UNIT])

    @property
    def resting(self) -> int:
        """How many orders rest."""
        return int(self.scalars[queues.T_ORDERS])

    @property
    def unknown(self) -> int:
        """Events so far about orders that were not there."""
        return int(self.scalars[queues.T_UNKNOWN])

    @property
    def complete(self) -> bool:
        """Whether no exchange event is open: nothing is known that is not in the queues."""
        return not self.scalars[queues.T_TAKER] and not self.scalars[queues.T_HAPPENED]

    def total(self, side: int) -> int:
        """The quantity of a whole side."""
        return int(self.scalars[queues.T_BIDS if side > 0 else queues.T_ASKS])

    def best(self, side: int) -> int:
        """The best price of a side, `NO_PRICE` when it is empty."""
        level = int(self.scalars[queues.T_BEST if side > 0 else queues.T_BEST_ASK])
        return int(self.levels[level + queues.V_PRICE]) * self.unit if level else NO_PRICE

    def shown(self, side: int, levels: int, orders: int) -> list[tuple[int, int, list[tuple[int, int]]]]:
        """(price, quantity, the first ``orders`` of its queue as (id, quantity)) of the best levels, best first."""
        found, queue = np.zeros((levels, 4), dtype=np.int64), np.zeros((levels * orders, 2), dtype=np.int64)
        book = 0 if side > 0 else 1
        count = queues.from_best(self.scalars, self.orders, self.names, self.levels, self.words, self.pages, book, found, queue)
        unit = self.unit
        return [
            (price * unit, size, list(map(tuple, queue[row * orders : row * orders + told].tolist())))
            for row, (price, size, told, _) in enumerate(found[:count].tolist())
        ]

    def depth(self, side: int, levels: int | None = None) -> list[tuple[int, int]]:
        """(price, quantity) of the best levels (of all of them), best first."""
        count = int(self.scalars[queues.T_LEVELS]) if levels is None else levels
        return [(price, size) for price, size, _ in self.shown(side, count, 0)]

    def queue(self, side: int, price: int) -> list[tuple[int, int]]:
        """(order id, quantity) at a price, front first."""
        scaled, rest = divmod(price, self.unit)
        if rest or abs(scaled) >= queues.FURTHEST:
            return []
        book = 0 if side > 0 else 1
        level = int(level_at(self.words, self.pages, book, rank_of(book, scaled)))
        slot = int(self.levels[level + queues.V_HEAD]) if level else 0
        found = []
        while slot:
            found.append((int(self.names[slot // queues.ORDER_WIDTH]), int(self.orders[slot + queues.E_SIZE])))
            slot = int(self.orders[slot + queues.E_NEXT])
        return found

    # writing ---------------------------------------------------------------------------------------------------------

    def run(self, events: OrderEvents) -> Effects:
        """Apply a block and say what each of its events did. BadInput for a price that fits no grid with the others."""
        out = np.empty((kernel.OUT, len(events)), dtype=np.int64)
        self.early[:, 0] = -1  # rows of the block before are published
        self.apply(events.action, events.side, events.order, events.price, events.size, events.last, out)
        return Effects(*out)

    def apply(
        self, action: np.ndarray, side: np.ndarray, order: np.ndarray, price: np.ndarray, size: np.ndarray,
        last: np.ndarray | None = None, out: np.ndarray = _NOTHING,
    ) -> None:  # fmt: skip
        """Columns (events,) of codes, sides (+1 buy, -1 sell), ids, prices, quantities, and where an exchange's event ends."""
        end, at = len(action), 0
        kinds = ((action, np.int8), (order, np.int64), (side, np.int8), (price, np.int64), (size, np.int64))
        columns = [_column(values, kind) for values, kind in kinds]
        columns.append(np.ones(end, dtype=np.bool_) if last is None else _column(last, np.bool_))
        while at < end:
            if not self._unit_known:
                self._find_unit(columns, at)
            stop = min(at + PIECE, end)
            self._make_room(stop - at)
            at = kernel.replay(
                self.scalars, self.orders, self.names, self.levels, self.words, self.pages, self.ids, self.happened, self.spots,
                self.early, self.front, self.dense, *columns, at, stop, out,
            )  # fmt: skip
            if self.scalars[queues.T_WHY] == kernel.NEEDS_UNIT:
                self._find_unit(columns, at)
            elif self.scalars[queues.T_WHY] == kernel.NEEDS_ROOM:
                need = int(self.scalars[queues.T_NEED])
                if self.scalars[queues.T_EARLY] >= len(self.early):
                    self.early = _longer(self.early, len(self.early))
                if self.scalars[queues.T_FRONT] + need > len(self.front):
                    self.front = _longer(self.front, max(len(self.front), need))

    def _find_unit(self, columns: list[np.ndarray], first: int) -> None:
        """The largest unit that all prices so far, and those that come to rest soon after event ``first``, are multiples of."""
        soon = slice(first, first + PIECE)
        action, side, price, size = columns[0][soon], columns[2][soon], columns[3][soon], columns[4][soon]
        rests = np.flatnonzero((((action == ADD) & (side != 0)) | (action == MODIFY)) & (size > 0))
        if not len(rests):
            return
        rows = self._resting()
        prices = price[rests]
        unit = _common(prices, self.unit if self._unit_known else 0)
        far = max(int(prices.max()), int(prices.min()), key=abs)
        held = int(np.abs(rows[:, 2]).max()) * self.unit if len(rows) else 0
        if max(abs(far), held) >= unit * queues.FURTHEST:
            at = int(rests[int((prices == far).argmax())])
            found = f"{far} beside a step of {unit}, in the file's own unit"
            raise BadInput(f"the price of order {columns[1][first + at]}", found, "prices less than 2^40 steps from 0")
        self._unit_known = True
        if unit == self.unit:
            return
        rows[:, 2] *= self.unit // unit if len(rows) else 1
        self._reload(rows, unit)

    def _reload(self, rows: np.ndarray, unit: int) -> None:
        """Exactly these orders (id, side, price in ``unit``, size), each queue from its front."""
        self.scalars[queues.T_UNIT] = unit
        self._unit_known = True
        count = len(rows)
        self.ids[:] = 0
        self._levels()
        self._orders(count)
        done = 0
        while done < count:
            self._room_for_levels(count - done)
            done = queues.load(self.scalars, self.orders, self.names, self.levels, self.words, self.pages, self.ids, self.dense, rows, done)

    def _forget(self) -> None:
        """No exchange event is open."""
        if self.scalars[queues.T_HAPPENED]:
            self.spots[:, 0] = EMPTY
        self.scalars[[queues.T_TAKER, queues.T_HAPPENED, queues.T_EARLY, queues.T_FRONT]] = 0

    def _resting(self) -> np.ndarray:
        rows = np.zeros((self.resting, 4), dtype=np.int64)
        queues.resting(self.scalars, self.orders, self.names, self.levels, self.words, self.pages, rows)
        return rows

    def _make_room(self, events: int) -> None:
        self._room_for_levels(events)
        happened = int(self.scalars[queues.T_HAPPENED]) + events
        if len(self.happened) < happened:
            self.happened = _longer(self.happened, max(happened, 2 * len(self.happened)) - len(self.happened))
        if len(self.spots) < 2 * happened:
            self.spots = grown(self.spots, happened)
            held = self.happened[: int(self.scalars[queues.T_HAPPENED])]
            held[:, kernel.H_PLACE] = [int(find(self.spots, order)) for order in held[:, kernel.H_ORDER].tolist()]
        self._room_for_orders(events)

    def _room_for_levels(self, more: int) -> None:
        """Rows for ``more`` levels, and places for as many as are likely; the kernel says when these are used up."""
        used = int(self.scalars[queues.T_LEVELS])
        self.words, self.pages = roomy_index(self.words, self.pages, max(used // 4, 64))
        self.levels = chained(self.levels, used + more, queues.LEVEL_WIDTH, self.scalars, queues.T_FREE_LEVEL, queues.V_HEAD)

    def _room_for_orders(self, more: int) -> None:
        if self.dense:
            return
        resting = self.resting + more
        self.orders = chained(self.orders, resting, queues.ORDER_WIDTH, self.scalars, queues.T_FREE, queues.E_NEXT)
        rows = len(self.orders) // queues.ORDER_WIDTH
        if len(self.names) < rows:
            self.names = np.concatenate([self.names, np.zeros(rows - len(self.names), dtype=np.int64)])
        if len(self.ids) < 2 * resting:
            larger = _places(2 * resting)
            queues.refill_ids(self.ids, larger, self.names)
            self.ids = larger

    # keyframes -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> Keyframe:
        """Everything that the next event depends on."""
        told = self.happened[: int(self.scalars[queues.T_HAPPENED]), kernel.H_ORDER : kernel.H_BITS + 1]
        return Keyframe(self.unit if self._unit_known else 0, int(self.scalars[queues.T_TAKER]), Packed(self._resting()), told.copy())


class Keyframe(msgspec.Struct, frozen=True):
    """A book between two events: its orders, the side of the taker at work and what happened in an exchange event that is still open."""

    unit: int
    taker: int
    orders: Packed
    happened: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.orders.nbytes + self.happened.nbytes

    def restore(self, old: EventBook | None = None) -> EventBook:
        """The book this was taken of; ``old``, if given, is given up for it, which spares the making of its tables."""
        book = old or EventBook()
        book._forget()
        book._reload(self.orders.unpack(), self.unit or 1)
        book._unit_known = self.unit > 0
        book.scalars[queues.T_TAKER] = self.taker
        if len(self.happened):
            book._make_room(len(self.happened))
            for order, told, filled, bits in self.happened.tolist():
                row = kernel.happening(book.scalars, book.happened, book.spots, order)
                book.happened[row, kernel.H_TOLD : kernel.H_BITS + 1] = told, filled, bits
        return book


def _column(values: np.ndarray, kind: type) -> np.ndarray:
    """``values`` as the kernel takes them, copied only where they are of another kind or cannot be written."""
    column: np.ndarray = np.ascontiguousarray(values, dtype=kind)
    return column if column.flags.writeable else column.copy()


def _common(prices: np.ndarray, unit: int) -> int:
    """The largest number that divides ``unit`` (0: any) and all prices; 1 where there is none."""
    rest = prices
    while len(rest) and unit != 1:
        unit = math.gcd(unit, int(np.gcd.reduce(rest[:64])))
        rest = rest[64:]
        rest = rest[rest % unit != 0] if unit else rest[rest != 0]
    return unit or 1


def _places(orders: int) -> np.ndarray:
    """An empty hash table of orders' rows, at half load with so many."""
    return np.zeros(max(64, 1 << (2 * orders - 1).bit_length()), dtype=np.int32)


def _longer(rows: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((more, rows.shape[1]), dtype=rows.dtype)])
