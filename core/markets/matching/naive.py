"""A second order book, as plain as it can be: one list of orders, sorted again for every match.

It shares no code with `core.markets.matching.book` and is used to check it, over every order type, self-trade mode and modify rule.
Slow: every match looks at all resting orders, and an auction tries every price.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass


@dataclass(eq=False)
class _Entry:
    order_id: int
    side: int
    quantity: int
    price: int | None
    tip: int = 0
    hidden: bool = False
    trigger: int | None = None
    owner: int = 0
    shown: int = 0
    turn: int = 0


class ListBook:
    """``resting`` in no order, ``stops`` as they came; ``trades`` are (price, quantity, maker, taker) as they happened.

    ``unfilled``: lots that will never trade; ``auctions``: (price, volume) at which each one opened.
    """

    def __init__(self, modify_rule: str = "benchmark", post_only: str = "reject", self_trade: str = "off") -> None:
        self.modify_rule, self.post_only, self.self_trade = modify_rule, post_only, self_trade
        self.resting: list[_Entry] = []
        self.stops: list[_Entry] = []
        self.trades: list[tuple[int, int, int, int]] = []
        self.auctions: list[tuple[int | None, int]] = []
        self.unfilled = 0
        self.state = "continuous"
        self.last: int | None = None
        self._prints: list[int] = []
        self._turns = 0

    def submit(
        self,
        order_id: int,
        side: int,
        quantity: int,
        price: int | None = None,
        kind: str = "limit",
        *,
        tip: int = 0,
        trigger: int | None = None,
        owner: int = 0,
    ) -> None:
        never_waits = kind in ("market", "ioc", "fok")
        if any(entry.order_id == order_id for entry in (*self.resting, *self.stops)) or self.state == "halted":
            return
        if self.state == "auction" and (never_waits or kind == "post_only"):
            return
        arriving = _Entry(order_id, side, quantity, price, tip, kind == "hidden", trigger, owner)
        if trigger is not None:
            self.stops.append(arriving)
            if self.state == "continuous" and self.last is not None:
                self._prints = [self.last]
                self._wake()
            return
        if self.state == "auction":
            self._add(arriving)
            return
        if kind == "post_only":
            met = self._reachable(side, price)
            if met:
                arriving.price = (met[0].price or 0) - side if self.post_only == "slide" else 0
                if arriving.price < 1:
                    return
        if kind == "fok" and self._could_fill(arriving) < quantity:
            self.unfilled += quantity
            return
        self._arrive(arriving, never_waits)
        self._wake()

    def cancel(self, order_id: int) -> bool:
        before = len(self.resting) + len(self.stops)
        self.resting = [entry for entry in self.resting if entry.order_id != order_id]
        self.stops = [entry for entry in self.stops if entry.order_id != order_id]
        return len(self.resting) + len(self.stops) < before

    def modify(self, order_id: int, quantity: int, price: int) -> bool:
        found = [entry for entry in self.resting if entry.order_id == order_id]
        if not found or quantity < 1 or price < 1 or self.state == "halted":
            return False
        entry = found[0]
        if self.modify_rule == "keep_on_decrease" and entry.price == price and quantity <= entry.quantity:
            entry.quantity, entry.shown = quantity, min(entry.shown, quantity)
            return True
        self.cancel(order_id)
        entry.quantity, entry.price = quantity, price
        self._arrive(entry, never_waits=False, matches=self.state == "continuous")
        self._wake()
        return True

    def halt(self) -> None:
        self.state = "halted"

    def auction(self) -> None:
        self.state = "auction"

    def open(self, reference: int | None = None) -> None:
        """Try every price between the lowest ask and the highest bid; then the fronts trade until one side is done."""
        price, volume = self._clearing(reference)
        self.auctions.append((price, volume))
        self.state = "continuous"
        while volume and price is not None:
            bid, ask = self._queue(1)[0], self._queue(-1)[0]
            traded = min(volume, *(entry.quantity if entry.hidden else entry.shown for entry in (bid, ask)))
            self._print(price, traded, ask.order_id, bid.order_id)
            volume -= traded
            self._lessen(bid, traded)
            self._lessen(ask, traded)
        if not self._prints and self.last is not None:
            self._prints = [self.last]
        self._wake()

    def levels(self, side: int) -> list[tuple[int, list[tuple[int, int]]]]:
        """(price, [(order id, displayed), …]) of the prices that display something, best price first, front order first."""
        queues = [(price, [(order, shown) for order, shown, _ in queue if shown]) for price, queue in self.queues(side)]
        return [(price, queue) for price, queue in queues if queue]

    def queues(self, side: int) -> list[tuple[int, list[tuple[int, int, int]]]]:
        """(price, [(order id, displayed, not displayed), …]) of every price, in the order of their turns."""
        mine = self._queue(side)
        prices = list(dict.fromkeys(entry.price or 0 for entry in mine))
        return [(price, [(e.order_id, e.shown, e.quantity - e.shown) for e in mine if e.price == price]) for price in prices]

    def _queue(self, side: int) -> list[_Entry]:
        """One side in the order in which it trades: price, displayed before hidden, turn."""
        return sorted((e for e in self.resting if e.side == side), key=lambda e: (-side * (e.price or 0), e.hidden, e.turn))

    def _reachable(self, side: int, price: int | None) -> list[_Entry]:
        return [entry for entry in self._queue(-side) if price is None or side * ((entry.price or 0) - price) <= 0]

    def _arrive(self, entry: _Entry, never_waits: bool, matches: bool = True) -> None:
        while matches and entry.quantity:
            met = self._reachable(entry.side, entry.price)
            if not met:
                break
            self._meet(entry, met[0])
        if entry.quantity and never_waits:
            self.unfilled += entry.quantity
        elif entry.quantity:
            self._add(entry)

    def _meet(self, taker: _Entry, maker: _Entry) -> None:
        """One match, or what the self-trade mode does instead of it."""
        own = self.self_trade != "off" and taker.owner != 0 and taker.owner == maker.owner
        if own and self.self_trade in ("oldest", "both"):
            self.unfilled += maker.quantity
            self.resting.remove(maker)
        if own and self.self_trade in ("newest", "both"):
            self.unfilled += taker.quantity
            taker.quantity = 0
        if own and self.self_trade != "decrement":
            return
        quantity = min(taker.quantity, maker.quantity if maker.hidden else maker.shown)
        if own:
            self.unfilled += 2 * quantity
        else:
            self._print(maker.price or 0, quantity, maker.order_id, taker.order_id)
        taker.quantity -= quantity
        self._lessen(maker, quantity)

    def _could_fill(self, taker: _Entry) -> int:
        """What ``taker`` would trade, tried on a copy of everything."""
        trial = ListBook(self.modify_rule, self.post_only, self.self_trade)
        trial.resting, trial._turns = [copy(entry) for entry in self.resting], self._turns
        trial._arrive(copy(taker), never_waits=True)
        return sum(quantity for _, quantity, _, _ in trial.trades)

    def _print(self, price: int, quantity: int, maker: int, taker: int) -> None:
        self.trades.append((price, quantity, maker, taker))
        self._prints.append(price)
        self.last = price

    def _lessen(self, entry: _Entry, quantity: int) -> None:
        """An iceberg whose tip is gone shows the next one behind everybody at its price."""
        entry.quantity -= quantity
        if not entry.quantity:
            self.resting.remove(entry)
        elif not entry.hidden:
            entry.shown -= quantity
            if not entry.shown:
                entry.shown, entry.turn = min(entry.tip, entry.quantity), self._next_turn()

    def _add(self, entry: _Entry) -> None:
        entry.shown = 0 if entry.hidden else min(entry.tip or entry.quantity, entry.quantity)
        entry.turn = self._next_turn()
        self.resting.append(entry)

    def _next_turn(self) -> int:
        self._turns += 1
        return self._turns

    def _wake(self) -> None:
        """Stops that the last trades reached arrive one after another; those that they wake queue behind them."""
        line: list[_Entry] = []
        while True:
            for stop in list(self.stops):
                if any(stop.side * (price - (stop.trigger or 0)) >= 0 for price in self._prints):
                    self.stops.remove(stop)
                    line.append(stop)
            self._prints = []
            if not line:
                return
            stop = line.pop(0)
            self._arrive(stop, never_waits=stop.price is None)

    def _clearing(self, reference: int | None) -> tuple[int | None, int]:
        """Most volume, then the least left over, then the nearest to ``reference`` (none: the lowest), then the lower."""
        buys: dict[int, int] = {}
        sells: dict[int, int] = {}
        for entry in self.resting:
            at = buys if entry.side > 0 else sells
            at[entry.price or 0] = at.get(entry.price or 0, 0) + entry.quantity
        if not buys or not sells or max(buys) < min(sells):
            return None, 0
        low, high = min(sells), max(buys)
        wanted, offered = sum(quantity for price, quantity in buys.items() if price >= low), 0
        best: tuple[int, int, int, int] | None = None
        for price in range(low, high + 1):
            offered += sells.get(price, 0)
            rank = -min(wanted, offered), abs(wanted - offered), abs(price - (low if reference is None else reference)), price
            best = rank if best is None else min(best, rank)
            wanted -= buys.get(price, 0)
        assert best is not None
        return best[3], -best[0]
