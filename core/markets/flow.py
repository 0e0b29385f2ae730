"""A seeded flow of orders without intelligence: people arrive at random and look only at the best prices.

Limit and market orders arrive as Poisson processes and every resting order is cancelled at a constant rate (Smith, Farmer,
Gillemot, Krishnamurthy 2003, arXiv:cond-mat/0210475). The distance of a limit order from the price that would trade falls
off as a power law, P(distance >= d) = (1 + d)^-0.6 (Bouchaud, Mezard, Potters 2002, arXiv:cond-mat/0203511).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import msgspec

from core.markets.book import BUY, SELL, Book, Kind, Report

OPENING_PRICE = 10_000
LOT = 100
DEPTH_EXPONENT = 0.6
DEEPEST = 30
CANCEL_RATE = 0.05
RATES: dict[str, float] = {"limit": 4.0, "market": 0.7, "ioc": 0.4, "fok": 0.3, "post_only": 0.5, "modify": 0.5}
"""Arrivals a second of each kind; `CANCEL_RATE` is per resting order and second."""

Phase = Literal["opening", "trading", "the sweep", "after the sweep"]


class Message(msgspec.Struct, frozen=True):
    """What somebody sends. ``price`` in ticks (None for a market order and a cancel), ``quantity`` in shares."""

    time: float
    phase: Phase
    action: Literal["submit", "cancel", "modify"]
    order_id: int
    side: int
    quantity: int = 0
    price: int | None = None
    kind: Kind = "limit"

    def apply(self, book: Book) -> None:
        """Hand this message to ``book``."""
        if self.action == "submit":
            book.submit(self.order_id, self.side, self.quantity, self.price, self.kind)
        elif self.action == "cancel":
            book.cancel(self.order_id)
        else:
            book.modify(self.order_id, self.quantity, self.price or 0)


def order_flow(seed: int, events: int) -> Iterator[Message]:
    """``events`` messages that depend on ``seed`` alone: their senders look at a book of the flow's own with usual rules.

    A book with other rules gets the same messages, so what differs comes from the rules. The first messages build the book.
    At about 60 % of the way one large market order takes the two best levels and a part of the third: the sweep.
    """
    flow = _Flow(random.Random(seed), Book(_nobody_listens, modify_rule="keep_on_decrease", post_only="reject"))
    opening = min(30, max(events // 5, 2))
    sweep_at = max(opening, round(events * 0.6))
    swept = False
    for number in range(events):
        message = None
        if number < opening:
            message = flow.opening(BUY if number % 2 == 0 else SELL)
        elif number >= sweep_at and not swept:
            message = flow.sweep()
            swept = message is not None
        if message is None:
            message = flow.trading("after the sweep" if swept else "trading")
        message.apply(flow.book)
        yield message


def _nobody_listens(report: Report) -> None:
    """The flow looks only at its book, not at what happens in it."""


class _Flow:
    def __init__(self, rng: random.Random, book: Book) -> None:
        self.rng, self.book = rng, book
        self.time = 0.0
        self.last_id = 0

    def opening(self, side: int) -> Message:
        self._wait(RATES["limit"])
        return self._new("opening", side, self._size(), OPENING_PRICE - side * (1 + self._distance()), "limit")

    def trading(self, phase: Phase) -> Message:
        rates = {**RATES, "cancel": CANCEL_RATE * len(self.book.orders)}
        if not self.book.orders:
            rates["modify"] = 0.0
        self._wait(sum(rates.values()))
        action = self.rng.choices(list(rates), list(rates.values()))[0]
        side = self.rng.choice((BUY, SELL))
        if action == "cancel":
            order = self.book.orders[self._somebody()]
            return Message(self.time, phase, "cancel", order.order_id, order.side)
        if action == "modify":
            return self._modify(phase)
        touch = self.book.best(-side)
        if action == "market":
            return self._new(phase, side, self._size(), None, "market")
        if action == "limit" or touch is None:
            price = self._price(side)
            return self._new(phase, side, self._size(), price, "limit")
        if action == "post_only":
            return self._new(phase, side, self._size(), max(touch - side * self.rng.choice((0, 1, 1, 2)), 1), "post_only")
        kind: Kind = "ioc" if action == "ioc" else "fok"
        return self._new(phase, side, self._size() + self._size(), max(touch + side * self.rng.choice((-1, 0, 0, 1, 2)), 1), kind)

    def sweep(self) -> Message | None:
        """A market order for the two best levels and a part of the third; None while no side has four levels."""
        sides = [side for side in (BUY, SELL) if len(self.book.side(-side).levels) >= 4]
        if not sides:
            return None
        side = self.rng.choice(sides)
        levels = self.book.side(-side).from_best()
        quantity = next(levels).quantity + next(levels).quantity + max(next(levels).quantity // 2, 1)
        self._wait(1.0)
        return self._new("the sweep", side, quantity, None, "market")

    def _modify(self, phase: Phase) -> Message:
        order = self.book.orders[self._somebody()]
        quantity, price = order.quantity, order.price
        what = self.rng.random()
        if what < 0.5 and quantity > 1:
            quantity = max(quantity // 2, 1)
        elif what < 0.75:
            quantity += LOT
        else:
            price = max(price + self.rng.choice((-2, -1, 1, 2)), 1)
        return Message(self.time, phase, "modify", order.order_id, order.side, quantity, price)

    def _new(self, phase: Phase, side: int, quantity: int, price: int | None, kind: Kind) -> Message:
        self.last_id += 1
        return Message(self.time, phase, "submit", self.last_id, side, quantity, price, kind)

    def _price(self, side: int) -> int:
        """At least one tick short of the opposite best, or of the last known middle when that side is empty."""
        touch = self.book.best(-side)
        if touch is None:
            own = self.book.best(side)
            touch = own + side if own is not None else OPENING_PRICE
        return max(touch - side * (1 + self._distance()), 1)

    def _distance(self) -> int:
        while True:
            distance = int((1.0 - self.rng.random()) ** (-1.0 / DEPTH_EXPONENT)) - 1
            if distance <= DEEPEST:
                return distance

    def _size(self) -> int:
        return LOT * min(1 + int(self.rng.expovariate(0.6)), 9)

    def _somebody(self) -> int:
        return self.rng.choice(list(self.book.orders))

    def _wait(self, rate: float) -> None:
        self.time += self.rng.expovariate(rate)
