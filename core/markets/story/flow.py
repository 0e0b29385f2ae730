"""A seeded flow of orders without intelligence: people arrive at random and look only at the best prices.

Limit and market orders arrive as Poisson processes and every resting order is cancelled at a constant rate (Smith, Farmer,
Gillemot, Krishnamurthy 2003, arXiv:cond-mat/0210475). The distance of a limit order from the price that would trade falls
off as a power law, P(distance >= d) = (1 + d)^-0.6 (Bouchaud, Mezard, Potters 2002, arXiv:cond-mat/0203511).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Literal, Protocol

import msgspec

from core.markets.matching.book import BUY, SELL, Book, Kind, Report

OPENING_PRICE = 10_000
LOT = 100
DEPTH_EXPONENT = 0.6
DEEPEST = 30
CANCEL_RATE = 0.05
RATES: dict[str, float] = {"limit": 4.0, "market": 0.7, "ioc": 0.4, "fok": 0.3, "post_only": 0.5, "modify": 0.5}
"""Arrivals a second of each kind; `CANCEL_RATE` is per resting order and second."""

SURPRISE = (-2, -1, 0, 0, 1, 3)
"""Ticks by which the price of a collected order lies beyond the opening price: opinions differ, so an auction's book is crossed."""
REOPENING = 12
"""Messages of a halt and of the auction after it."""


class Message(msgspec.Struct, frozen=True):
    """What somebody sends, or the venue (halt, auction, open). ``quantity`` in shares.

    ``price`` in ticks: None for a market order, a stop and a cancel; the reference price of an auction. ``tip``: what an
    iceberg displays; ``trigger``: of a stop, in ticks; ``owner``: who sends it (0: nobody in particular).
    """

    time: float
    phase: str
    action: Literal["submit", "cancel", "modify", "halt", "auction", "open"]
    order_id: int = 0
    side: int = 0
    quantity: int = 0
    price: int | None = None
    kind: Kind = "limit"
    tip: int = 0
    trigger: int | None = None
    owner: int = 0

    def apply(self, book: Venue) -> None:
        """Hand this message to ``book``."""
        match self.action:
            case "submit":
                book.submit(
                    self.order_id, self.side, self.quantity, self.price, self.kind,
                    tip=self.tip, trigger=self.trigger, owner=self.owner,
                )  # fmt: skip
            case "cancel":
                book.cancel(self.order_id)
            case "modify":
                book.modify(self.order_id, self.quantity, self.price or 0)
            case "halt":
                book.halt()
            case "auction":
                book.auction()
            case "open":
                book.open(self.price)


class Venue(Protocol):
    """What takes messages: a book, whichever way it is built."""

    def submit(
        self, order_id: int, side: int, quantity: int, price: int | None, kind: Kind, *, tip: int, trigger: int | None, owner: int
    ) -> None: ...
    def cancel(self, order_id: int) -> object: ...
    def modify(self, order_id: int, quantity: int, price: int) -> object: ...
    def halt(self) -> None: ...
    def auction(self) -> None: ...
    def open(self, reference: int | None) -> None: ...


class Mix(msgspec.Struct, frozen=True):
    """What a flow holds besides the usual kinds.

    ``iceberg_share`` and ``hidden_share`` of the limit orders are icebergs and hidden orders, ``stop_share`` of all new orders
    are stops (every second one a stop limit). ``owners``: how many people send them (0: nobody in particular). ``auction``:
    the book opens with one; ``halt``: after the sweep trading stops and comes back with an auction.
    """

    iceberg_share: float = 0.0
    hidden_share: float = 0.0
    stop_share: float = 0.0
    owners: int = 0
    auction: bool = False
    halt: bool = False


def order_flow(seed: int, events: int, mix: Mix | None = None) -> Iterator[Message]:
    """``events`` messages that depend on ``seed`` and ``mix`` alone: their senders look at a book of the flow's own, usual rules.

    A book with other rules gets the same messages, so what differs comes from the rules. The first messages build the book.
    At about 60 % of the way one large market order takes the two best levels and a part of the third: the sweep.
    """
    book = Book(_nobody_listens, modify_rule="keep_on_decrease", post_only="reject")
    for message in islice(_Flow(random.Random(seed), book, mix or Mix()).messages(events), events):
        message.apply(book)
        yield message


def _nobody_listens(report: Report) -> None:
    """The flow looks only at its book, not at what happens in it."""


class _Flow:
    def __init__(self, rng: random.Random, book: Book, mix: Mix) -> None:
        self.rng, self.book, self.mix = rng, book, mix
        self.time = 0.0
        self.last_id = 0

    def messages(self, events: int) -> Iterator[Message]:
        """Endless. Each message is to be applied to the flow's book before the next one is asked for."""
        opening = min(30, max(events // 5, 2))
        sweep_at = max(opening, round(events * 0.6))
        if self.mix.auction:
            yield self._venue("auction", "opening auction", OPENING_PRICE)
        for number in range(opening):
            yield self.opening(BUY if number % 2 == 0 else SELL)
        if self.mix.auction:
            yield self._venue("open", "opening auction", OPENING_PRICE)
        for _ in range(opening, sweep_at):
            yield self.trading("trading")
        while (sweep := self.sweep()) is None:
            yield self.trading("trading")
        yield sweep
        if self.mix.halt:
            yield from self._halted()
        while True:
            yield self.trading("after the sweep")

    def opening(self, side: int) -> Message:
        self._wait(RATES["limit"])
        size, price = self._size(), OPENING_PRICE - side * (1 + self._distance())
        if self.mix.auction:
            return self._new("opening auction", side, size, price + side * (1 + self.rng.choice(SURPRISE)), "limit")
        return self._new("opening", side, size, price, "limit")

    def _halted(self) -> Iterator[Message]:
        """Trading stops; some take their orders back; new ones are collected around the last price, then it goes on."""
        last = self.book.last or OPENING_PRICE
        yield self._venue("halt", "halt", None)
        for _ in range(min(REOPENING // 4, len(self.book.orders))):
            self._wait(1.0)
            order = self.book.orders[self._somebody()]
            yield Message(self.time, "halt", "cancel", order.order_id, order.side)
        yield self._venue("auction", "reopening auction", last)
        for number in range(REOPENING - REOPENING // 4):
            self._wait(RATES["limit"])
            side = BUY if number % 2 == 0 else SELL
            yield self._new("reopening auction", side, self._size(), max(last + side * self.rng.choice(SURPRISE), 1), "limit")
        yield self._venue("open", "reopening auction", last)

    def _venue(self, action: Literal["halt", "auction", "open"], phase: str, reference: int | None) -> Message:
        self._wait(1.0)
        return Message(self.time, phase, action, price=reference)

    def trading(self, phase: str) -> Message:
        rates = {**RATES, "cancel": CANCEL_RATE * (len(self.book.orders) + len(self.book.stops))}
        if not self.book.orders:
            rates["modify"] = 0.0
        self._wait(sum(rates.values()))
        action = self.rng.choices(list(rates), list(rates.values()))[0]
        side = self.rng.choice((BUY, SELL))
        if action == "cancel":
            number = self._somebody(*self.book.stops)
            order = self.book.orders.get(number) or self.book.stops[number]
            return Message(self.time, phase, "cancel", number, order.side)
        if action == "modify":
            return self._modify(phase)
        if self.mix.stop_share and self.rng.random() < self.mix.stop_share:
            return self._stop(phase, side)
        touch = self._best(-side)
        if action == "market":
            return self._new(phase, side, self._size(), None, "market")
        if action == "limit" or touch is None:
            price = self._price(side)
            return self._limit(phase, side, self._size(), price)
        if action == "post_only":
            return self._new(phase, side, self._size(), max(touch - side * self.rng.choice((0, 1, 1, 2)), 1), "post_only")
        kind: Kind = "ioc" if action == "ioc" else "fok"
        return self._new(phase, side, self._size() + self._size(), max(touch + side * self.rng.choice((-1, 0, 0, 1, 2)), 1), kind)

    def sweep(self) -> Message | None:
        """A market order for the two best levels and a part of the third; None while no side has four levels."""
        shown = {side: [level for level in self.book.side(-side).from_best() if level.quantity] for side in (BUY, SELL)}
        sides = [side for side in (BUY, SELL) if len(shown[side]) >= 4]
        if not sides:
            return None
        side = self.rng.choice(sides)
        levels = iter(shown[side])
        quantity = next(levels).quantity + next(levels).quantity + max(next(levels).quantity // 2, 1)
        self._wait(1.0)
        return self._new("the sweep", side, quantity, None, "market")

    def _limit(self, phase: str, side: int, quantity: int, price: int) -> Message:
        """A limit order, or what hides behind one: an iceberg is several times as large and shows a part, a hidden order nothing."""
        mix = self.mix
        drawn = self.rng.random() if mix.iceberg_share or mix.hidden_share else 1.0
        if drawn < mix.iceberg_share:
            tip = LOT * self.rng.randint(1, 2)
            return self._new(phase, side, quantity + tip * self.rng.randint(2, 5), price, "iceberg", tip=tip)
        return self._new(phase, side, quantity, price, "hidden" if drawn < mix.iceberg_share + mix.hidden_share else "limit")

    def _stop(self, phase: str, side: int) -> Message:
        """It waits beyond the best price: a buy stop above the ask, a sell stop below the bid."""
        touch = self._best(-side)
        start = self.book.last or OPENING_PRICE if touch is None else touch
        trigger = max(start + side * (1 + self._distance()), 1)
        if self.rng.random() < 0.5:
            return self._new(phase, side, self._size(), None, "stop", trigger=trigger)
        return self._new(phase, side, self._size(), max(trigger + 2 * side, 1), "stop_limit", trigger=trigger)

    def _modify(self, phase: str) -> Message:
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

    def _new(
        self, phase: str, side: int, quantity: int, price: int | None, kind: Kind, *, tip: int = 0, trigger: int | None = None
    ) -> Message:
        self.last_id += 1
        owner = self.rng.randint(1, self.mix.owners) if self.mix.owners else 0
        return Message(self.time, phase, "submit", self.last_id, side, quantity, price, kind, tip, trigger, owner)

    def _best(self, side: int) -> int | None:
        """The best price that is displayed: nobody sees a hidden order."""
        return next((level.price for level in self.book.side(side).from_best() if level.quantity), None)

    def _price(self, side: int) -> int:
        """At least one tick short of the opposite best, or of the last known middle when that side is empty."""
        touch = self._best(-side)
        if touch is None:
            own = self._best(side)
            touch = own + side if own is not None else OPENING_PRICE
        return max(touch - side * (1 + self._distance()), 1)

    def _distance(self) -> int:
        while True:
            distance = int((1.0 - self.rng.random()) ** (-1.0 / DEPTH_EXPONENT)) - 1
            if distance <= DEEPEST:
                return distance

    def _size(self) -> int:
        return LOT * min(1 + int(self.rng.expovariate(0.6)), 9)

    def _somebody(self, *others: int) -> int:
        return self.rng.choice([*self.book.orders, *others])

    def _wait(self, rate: float) -> None:
        self.time += self.rng.expovariate(rate)
