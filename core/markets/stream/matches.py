"""Steps of a matched stream: a message that trades has one step for each match, and one more for what becomes of its rest."""

from __future__ import annotations

import msgspec
import numpy as np


class Layout(msgspec.Struct, frozen=True):
    """How the messages of a block become steps.

    message: (steps,) which message a step belongs to; match: (steps,) which of its matches the step is, from 0, and -1 for a step
    that is the message itself; last: (messages,) the step at which a message is done; open: (steps,) bool, more of the message
    follows.
    """

    message: np.ndarray
    match: np.ndarray
    last: np.ndarray
    open: np.ndarray

    def __len__(self) -> int:
        return len(self.message)

    @property
    def joins(self) -> np.ndarray:
        """(steps,) bool: the step belongs to the same message as the one before."""
        return np.concatenate([[False], self.open[:-1]])


def laid_out(matches: np.ndarray, more: np.ndarray) -> Layout:
    """matches: (messages,) how often each trades; more: (messages,) bool, something of it rests or is cancelled after its matches."""
    count = np.maximum(matches + (more & (matches > 0)), 1)
    last = np.cumsum(count) - 1
    message = np.repeat(np.arange(len(matches)), count)
    place = np.arange(len(message)) - (last - count + 1)[message]
    match = np.where(place < matches[message], place, -1)
    return Layout(message, match, last, np.arange(len(message)) < last[message])


class Book(msgspec.Struct, frozen=True):
    """What the book shows after each message or step: columns of one length; prices are NaN where a side is empty."""

    bid: np.ndarray
    ask: np.ndarray
    bids: np.ndarray
    asks: np.ndarray
    trades: np.ndarray
    volume: np.ndarray

    def at(self, rows: np.ndarray) -> Book:
        return Book(*(getattr(self, name)[rows] for name in Book.__struct_fields__))

    def before(self, carried: Book) -> Book:
        """One row earlier; ``carried`` (one row) is what stood before the first."""
        names = Book.__struct_fields__
        return Book(*(np.concatenate([getattr(carried, name), getattr(self, name)[:-1]]) for name in names))

    @classmethod
    def empty(cls) -> Book:
        """The one row of a book in which nothing has happened."""
        none, zero = np.full(1, np.nan), np.zeros(1, dtype=np.int64)
        return cls(none, none, zero, zero, zero, zero)


def books_between(
    layout: Layout, side: np.ndarray, before: Book, after: Book, own_best: np.ndarray, removed: np.ndarray,
    price: np.ndarray, quantity: np.ndarray,
) -> Book:  # fmt: skip
    """What the book shows after each step. Between two matches of a taker the makers served so far are gone, and it rests nowhere.

    side, own_best, removed: (messages,) of the taker: its side, the best price of that side while it trades, and what was taken off
    that side before (a modified order leaves its queue). price, quantity: (matches of the block,) in order.
    """
    out = after.at(layout.message)
    inside = np.flatnonzero(layout.open)
    if not len(inside):
        return out
    number = np.cumsum(layout.match >= 0) - 1  # which match of the block the step is
    at, mine = number[inside], layout.message[inside]
    done = np.cumsum(quantity)
    so_far = done[at] - (done - quantity)[at - layout.match[inside]]
    follows = layout.match[np.minimum(inside + 1, len(layout) - 1)] >= 0
    buys = side[mine] > 0
    other_after = np.where(buys, after.ask[mine], after.bid[mine])
    other = np.where(follows, price[np.minimum(at + 1, len(price) - 1)], other_after)
    out.bid[inside], out.ask[inside] = np.where(buys, own_best[mine], other), np.where(buys, other, own_best[mine])
    bids, asks = before.bids[mine], before.asks[mine]
    out.bids[inside] = np.where(buys, bids - removed[mine], bids - so_far)
    out.asks[inside] = np.where(buys, asks - so_far, asks - removed[mine])
    out.trades[inside] = before.trades[mine] + layout.match[inside] + 1
    out.volume[inside] = before.volume[mine] + so_far
    return out


class Told:
    """What the reports of a block tell of each of its messages. All arrays (messages,).

    side, price and quantity are those of the order a cancel or modify found. lots: what the message itself added to or took from the
    level at its side and price. old_price, old_quantity: of a modified order, before.
    """

    def __init__(self, columns: dict[str, np.ndarray], first: int, end: int, rows: np.ndarray, at: np.ndarray) -> None:
        """``at``: (rows,) the message of each report row, counted from ``first``."""
        from core.markets.engine import state as es

        count, span = end - first, slice(first, end)
        kind, quantity = rows[:, es.R_KIND], rows[:, es.R_QUANTITY]
        self.type, self.order = columns["type"][span].astype(np.int64), columns["order_id"][span].astype(np.int64)
        self.side = np.where(columns["side"][span] == 0, 1, -1)
        self.price, self.quantity = columns["price"][span].astype(np.int64), columns["quantity"][span].astype(np.int64)
        self.ahead, self.lots, self.old_price, self.old_quantity = (np.zeros(count, dtype=np.int64) for _ in range(4))
        self.rested, self.kept, self.refused, self.ended = (np.zeros(count, dtype=bool) for _ in range(4))
        self.fills = np.bincount(at[kind == es.TRADE], minlength=count)
        rests, gone, changed = (kind == name for name in (es.RESTED, es.CANCELLED, es.MODIFIED))
        self.rested[at[rests]], self.ahead[at[rests]], self.lots[at[rests]] = True, rows[rests, es.R_EXTRA], quantity[rests]
        self.ended[at[gone]] = True
        gone &= self.type[at] == 1
        for chosen in (gone, changed):
            place = at[chosen]
            self.side[place], self.price[place] = rows[chosen, es.R_SIDE], rows[chosen, es.R_PRICE]
            self.quantity[place] = quantity[chosen]
        self.lots[at[gone]] = -quantity[gone]
        place = at[changed]
        self.kept[place] = rows[changed, es.R_OTHER] == 1
        self.old_price[place], self.old_quantity[place] = rows[changed, es.R_LEVEL], rows[changed, es.R_EXTRA]
        self.lots[place] = np.where(self.kept[place], quantity[changed] - rows[changed, es.R_EXTRA], self.lots[place])
        self.refused[at[kind == es.REJECTED]] = True
