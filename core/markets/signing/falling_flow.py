"""A seeded market whose value falls, and in which only one side sees it: the makers, or the takers.

Makers hold quotes around what they believe the value to be; each round one taker sends a market order, then makers take back
quotes that are no longer wanted and place new ones. Informed makers believe the value itself, and lower their quotes faster than
buyers lift them. Informed takers hit every bid above the value and lift every ask below it, and the makers learn of it from
nothing but those trades. All orders go through the matching engine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import msgspec

from core.markets.matching.book import BUY, SELL, Book, Cancelled, Report, Rested, Trade

OPENING = 10_000
HALF_SPREAD = 1
LEVELS = 5
LOT = 100


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened in the book: a trade (``sign`` of its taker), a placement or a deletion (sign 0), and the quotes after it."""

    time: float
    kind: str
    order: int
    sign: int
    price: int
    size: int
    bid: int | None
    ask: int | None


class FallingMarket:
    """``fall``: the fraction by which the value falls over the rounds; ``buy_share``: how many of the takers who know nothing buy."""

    def __init__(
        self, seed: int, rounds: int, fall: float, buy_share: float, informed: Literal["makers", "takers"] = "makers"
    ) -> None:  # fmt: skip
        self.rng = random.Random(seed)
        self.rounds, self.fall, self.buy_share, self.informed = rounds, fall, buy_share, informed
        self.book = Book(self._hear)
        self.quotes: dict[int, tuple[int, int]] = {}
        self.last_id = 0
        self.time = 0.0
        self._out: list[Happening] = []

    def happenings(self) -> Iterator[Happening]:
        """Everything in order; the first `LEVELS` placements of each side open the book."""
        value = believed = float(OPENING)
        self._requote(believed)
        yield from self._taken()
        for number in range(self.rounds):
            self.time += self.rng.expovariate(1.0)
            side = BUY if self.rng.random() < self.buy_share else SELL
            if self.informed == "takers":
                side = self._what_it_knows(value) or side
            self.last_id += 1
            self.book.submit(self.last_id, side, LOT * self.rng.randint(1, 6), None, "market")
            self.time += 0.05
            value = OPENING * (1 - self.fall * (number + 1) / self.rounds) + self.rng.gauss(0.0, 1.0)
            believed = value if self.informed == "makers" else self._what_trades_left(believed)
            self._requote(believed)
            yield from self._taken()

    def _what_it_knows(self, value: float) -> int:
        """The side that pays a taker who knows the value; 0 where neither does."""
        bid, ask = self.book.best(BUY), self.book.best(SELL)
        if bid is not None and bid > value:
            return SELL
        return BUY if ask is not None and ask < value else 0

    def _what_trades_left(self, believed: float) -> float:
        """Makers that know nothing believe the middle of what the last taker left."""
        bid, ask = self.book.best(BUY), self.book.best(SELL)
        return believed if bid is None or ask is None else (bid + ask) / 2

    def _requote(self, value: float) -> None:
        """Withdraw quotes on the wrong side of the value, or far from it, then fill the levels near it."""
        wanted = {(side, round(value) - side * (HALF_SPREAD + level)) for side in (BUY, SELL) for level in range(LEVELS)}
        for order, place in list(self.quotes.items()):
            if place not in wanted:
                self.book.cancel(order)
        have = set(self.quotes.values())
        for side, price in sorted(wanted - have, key=lambda place: (place[0], -place[0] * place[1])):
            self.last_id += 1
            self.book.submit(self.last_id, side, LOT * self.rng.randint(2, 5), price, "post_only")

    def _hear(self, report: Report) -> None:
        if isinstance(report, Trade):
            if not report.maker_left:
                self.quotes.pop(report.maker, None)
            self._say("trade", report.maker, report.taker_side, report.price, report.quantity)
        elif isinstance(report, Rested):
            self.quotes[report.order_id] = (report.side, report.price)
            self._say("placement", report.order_id, 0, report.price, report.quantity)
        elif isinstance(report, Cancelled) and report.reason == "cancel":
            self.quotes.pop(report.order_id, None)
            self._say("deletion", report.order_id, 0, report.price or 0, report.quantity)

    def _say(self, kind: str, order: int, sign: int, price: int, size: int) -> None:
        self._out.append(Happening(self.time, kind, order, sign, price, size, self.book.best(BUY), self.book.best(SELL)))

    def _taken(self) -> list[Happening]:
        taken, self._out = self._out, []
        return taken
