"""A limit order book with price-time priority: the matching engine, written to be read.

Prices are whole ticks, quantities whole lots. An order that arrives takes from the best opposite price, the oldest order
there first; what is left rests behind the orders already at its own price. Every happening is handed to ``emit`` at the
moment it happened, so a listener that looks at the book then sees the state right after it. `core.markets.engine.engine` does the
same on arrays, for millions of messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from core.markets.matching.auction import clearing
from core.markets.matching.reports import (
    BUY,
    FURTHEST,
    LARGEST,
    MOST_TIPS,
    SELL,
    Accepted,
    Cancelled,
    Decremented,
    Kind,
    Modified,
    ModifyRule,
    PostOnlyRule,
    Refreshed,
    Rejected,
    RejectReason,
    Report,
    Rested,
    SelfTrade,
    Slid,
    State,
    StateChanged,
    Trade,
    Triggered,
    Waits,
    Withdrawn,
)
from core.markets.matching.sides import BookSide, Order, PriceLevel

__all__ = [
    "BUY", "SELL", "Accepted", "Book", "BookSide", "Cancelled", "Decremented", "Kind", "Modified", "ModifyRule", "Order", "PostOnlyRule",
    "PriceLevel", "Refreshed", "Rejected", "Report", "Rested", "SelfTrade", "Slid", "State", "StateChanged", "Trade", "Triggered",
    "Waits", "Withdrawn",
]  # fmt: skip


class Stop:
    """A stop that waits: with a ``price`` it becomes a limit order, without one a market order."""

    __slots__ = ("order_id", "owner", "price", "quantity", "side", "trigger")

    def __init__(self, order_id: int, side: int, trigger: int, quantity: int, price: int | None, owner: int) -> None:
        self.order_id, self.side, self.trigger, self.quantity, self.price, self.owner = order_id, side, trigger, quantity, price, owner


class Book:
    """Both sides and the rules. In continuous trading every public method ends with the book uncrossed.

    ``modify_rule``: under ``benchmark`` a modified order leaves and arrives anew; under ``keep_on_decrease`` an order that
    does not grow, at its own price, keeps its place. ``post_only``: an order that would take is rejected, or slides to one
    tick short of it. ``self_trade``: what happens when a taker reaches an order of its own owner (earlier fills stand):
    the newest (the taker), the oldest (the maker) or both are cancelled, or the smaller quantity is taken off both.
    ``lowest`` is the lowest price allowed.
    """

    def __init__(
        self,
        emit: Callable[[Report], None],
        *,
        modify_rule: ModifyRule = "benchmark",
        post_only: PostOnlyRule = "reject",
        self_trade: SelfTrade = "off",
        lowest: int = 1,
    ) -> None:
        self.emit = emit
        self.modify_rule, self.post_only, self.self_trade, self.lowest = modify_rule, post_only, self_trade, lowest
        self.state: State = "continuous"
        self.bids = BookSide(BUY)
        self.asks = BookSide(SELL)
        self.orders: dict[int, Order] = {}
        self.stops: dict[int, Stop] = {}
        self.last: int | None = None
        self._traded: list[int] = []

    def side(self, side: int) -> BookSide:
        return self.bids if side == BUY else self.asks

    def best(self, side: int) -> int | None:
        """The best price of a side in ticks, None when it is empty."""
        level = self.side(side).best
        return None if level is None else level.price

    # what participants do ------------------------------------------------------------------------------------------

    def submit(
        self,
        order_id: int,
        side: int,
        quantity: int,
        price: int | None = None,
        kind: Kind = "limit",
        *,
        tip: int = 0,
        trigger: int | None = None,
        owner: int = 0,
    ) -> None:
        """A new order. Market orders and stops have no ``price``, every other kind needs one (in ticks).

        ``tip``: what an iceberg displays; ``trigger``: of a stop or stop_limit.
        """
        fault = self._fault(order_id, quantity, price, kind, tip, trigger)
        if fault:
            self.emit(Rejected(order_id, "submit", fault))
            return
        self.emit(Accepted(order_id, side, quantity, price, kind))
        if trigger is not None:
            self._wait(Stop(order_id, side, trigger, quantity, price, owner))
            return
        order = Order(order_id, side, price or 0, quantity, tip=tip, hidden=kind == "hidden", owner=owner)
        if self.state == "auction":
            self._rest(order)
            return
        if kind == "post_only" and price is not None and self.reaches(side, price):
            slid = self._slide(order_id, side, price)
            if slid is None:
                self.emit(Rejected(order_id, "submit", "post_only"))
                return
            order.price = price = slid
        if kind == "fok" and self.available(side, price, quantity, owner) < quantity:
            self.emit(Cancelled(order_id, side, price, quantity, "fok"))
            return
        self._take(order, price, kind)
        self._trigger_stops()

    def cancel(self, order_id: int) -> None:
        """Take a resting order or a waiting stop back; a halt allows it too."""
        order = self.orders.pop(order_id, None)
        if order is not None:
            self.side(order.side).remove(order)
            self.emit(Cancelled(order_id, order.side, order.price, order.quantity, "cancel"))
            return
        stop = self.stops.pop(order_id, None)
        if stop is None:
            self.emit(Rejected(order_id, "cancel", "unknown_order"))
        else:
            self.emit(Cancelled(order_id, stop.side, stop.price, stop.quantity, "cancel"))

    def modify(self, order_id: int, quantity: int, price: int) -> None:
        """Give a resting order a new price and a new quantity (what is left to trade)."""
        order = self.orders.get(order_id)
        if order is None:
            self.emit(Rejected(order_id, "modify", "waiting_stop" if order_id in self.stops else "unknown_order"))
            return
        if self.state == "halted":
            self.emit(Rejected(order_id, "modify", "not_trading"))
            return
        if not 1 <= quantity <= LARGEST or not self._allowed(price) or (order.tip and quantity > order.tip * MOST_TIPS):
            self.emit(Rejected(order_id, "modify", "bad_value"))
            return
        side, old_price, old_quantity = order.side, order.price, order.quantity
        if self.modify_rule == "keep_on_decrease" and price == old_price and quantity <= old_quantity:
            self.side(side).shrink(order, quantity)
            self.emit(Modified(order_id, side, old_price, old_quantity, price, quantity, True))
            return
        del self.orders[order_id]
        self.side(side).remove(order)
        self.emit(Withdrawn(order_id, side, old_price, old_quantity))
        order.price, order.quantity = price, quantity
        if self.state == "continuous":
            self._match(order, price)
        self.emit(Modified(order_id, side, old_price, old_quantity, price, quantity, False))
        if order.quantity:
            self._rest(order)
        self._trigger_stops()

    # what the venue does -------------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Nothing trades and nothing arrives; cancels are accepted."""
        self.state = "halted"
        self.emit(StateChanged("halted", None, 0))

    def auction(self) -> None:
        """Orders that can wait are collected, crossing or not, until `open`."""
        self.state = "auction"
        self.emit(StateChanged("auction", None, 0))

    def open(self, reference: int | None = None) -> None:
        """Uncross at the price of `core.markets.matching.auction.clearing`, then trade continuously. Self-trades are not looked for."""
        bids, asks = ([(level.price, level.total) for level in side.from_best()] for side in (self.bids, self.asks))
        price, volume = clearing(bids, asks, reference)
        self.state = "continuous"
        self.emit(StateChanged("continuous", price, volume))
        while volume and price is not None:
            bid, ask = self._front(BUY), self._front(SELL)
            quantity = min(volume, bid.reach, ask.reach)
            volume -= quantity
            refreshed = [order for order in (bid, ask) if self._fill(order, quantity)]
            self._note(price)
            shown = self.asks.displayed(ask.price)
            self.emit(Trade(price, quantity, ask.order_id, bid.order_id, 0, ask.quantity, bid.quantity, shown))
            for order in refreshed:
                self._say_refreshed(order)
        if not self._traded and self.last is not None:
            self._traded.append(self.last)  # for stops that came while nothing traded
        self._trigger_stops()

    # how the book answers ------------------------------------------------------------------------------------------

    def _fault(self, order_id: int, quantity: int, price: int | None, kind: Kind, tip: int, trigger: int | None) -> RejectReason | None:
        if order_id in self.orders or order_id in self.stops:
            return "duplicate_id"
        if not 1 <= quantity <= LARGEST or (kind in ("market", "stop")) != (price is None) or not self._allowed(price):
            return "bad_value"
        if (kind in ("stop", "stop_limit")) != (trigger is not None) or not self._allowed(trigger):
            return "bad_value"
        if (kind == "iceberg") != (tip != 0) or (tip and not 1 <= tip <= quantity <= tip * MOST_TIPS):
            return "bad_value"
        if self.state == "halted" or (self.state == "auction" and kind in ("market", "ioc", "fok", "post_only")):
            return "not_trading"
        return None

    def _allowed(self, price: int | None) -> bool:
        return price is None or self.lowest <= price <= FURTHEST

    def _take(self, taker: Order, limit: int | None, kind: Kind) -> None:
        """Match an arriving order; what is left of it rests or is cancelled, as its kind says."""
        self._match(taker, limit)
        if not taker.quantity:
            return
        if kind == "market" or kind == "ioc" or kind == "fok":
            self.emit(Cancelled(taker.order_id, taker.side, limit, taker.quantity, kind))
        else:
            self._rest(taker)

    def _match(self, taker: Order, limit: int | None) -> None:
        """Take from the best opposite price, its front order first, while ``limit`` allows (None: at any price)."""
        opposite = self.side(-taker.side)
        while taker.quantity:
            level = opposite.best
            if level is None or (limit is not None and taker.side * (level.price - limit) > 0):
                return
            maker = level.front
            own = self.self_trade != "off" and taker.owner != 0 and taker.owner == maker.owner
            if own and self.self_trade != "decrement":
                self._prevent(taker, maker, limit)
                continue
            quantity = min(taker.quantity, maker.reach)
            taker.quantity -= quantity
            refreshed = self._fill(maker, quantity)
            if not own:
                self._note(level.price)
            report = Decremented if own else Trade
            self.emit(
                report(level.price, quantity, maker.order_id, taker.order_id, taker.side, maker.quantity, taker.quantity, level.quantity)
            )
            if refreshed:
                self._say_refreshed(maker)

    def _prevent(self, taker: Order, maker: Order, limit: int | None) -> None:
        """The taker has reached an order of its own owner: cancel the oldest (the maker), the newest (the taker) or both."""
        if self.self_trade in ("oldest", "both"):
            del self.orders[maker.order_id]
            self.side(maker.side).remove(maker)
            self.emit(Cancelled(maker.order_id, maker.side, maker.price, maker.quantity, "self_trade"))
        if self.self_trade in ("newest", "both"):
            left, taker.quantity = taker.quantity, 0
            self.emit(Cancelled(taker.order_id, taker.side, limit, left, "self_trade"))

    def _fill(self, order: Order, quantity: int) -> bool:
        refreshed = self.side(order.side).fill(order, quantity)
        if not order.quantity:
            del self.orders[order.order_id]
        return refreshed

    def _say_refreshed(self, order: Order) -> None:
        self.emit(Refreshed(order.order_id, order.side, order.price, order.shown, order.quantity - order.shown))

    def _rest(self, order: Order) -> None:
        self.orders[order.order_id] = order
        ahead = self.side(order.side).append(order)
        self.emit(Rested(order.order_id, order.side, order.price, order.quantity, ahead))

    def _front(self, side: int) -> Order:
        level = self.side(side).best
        assert level is not None
        return level.front

    # stops ---------------------------------------------------------------------------------------------------------

    def _wait(self, stop: Stop) -> None:
        self.stops[stop.order_id] = stop
        self.emit(Waits(stop.order_id, stop.side, stop.trigger, stop.quantity))
        if self.state == "continuous" and self.last is not None:
            self._traded.append(self.last)
            self._trigger_stops()

    def _note(self, price: int) -> None:
        self.last = price
        self._traded.append(price)

    def _trigger_stops(self) -> None:
        """Now that the taker is done: the stops that its trades reached arrive, in the order in which they were sent.

        Those that they reach in turn queue behind them. A stop triggers once, so this ends.
        """
        queue: deque[Stop] = deque()
        while True:
            reached = [stop for stop in self.stops.values() if any(stop.side * (price - stop.trigger) >= 0 for price in self._traded)]
            self._traded.clear()
            for stop in reached:
                del self.stops[stop.order_id]
            queue.extend(reached)
            if not queue:
                return
            stop = queue.popleft()
            self.emit(Triggered(stop.order_id, stop.side, stop.trigger, stop.quantity, stop.price))
            order = Order(stop.order_id, stop.side, stop.price or 0, stop.quantity, owner=stop.owner)
            self._take(order, stop.price, "market" if stop.price is None else "limit")

    # what an order would meet --------------------------------------------------------------------------------------

    def reaches(self, side: int, price: int) -> bool:
        """Whether an order at ``price`` would trade at once."""
        best = self.best(-side)
        return best is not None and side * (price - best) >= 0

    def _slide(self, order_id: int, side: int, price: int) -> int | None:
        """The price one tick short of the opposite best, where the rule and the price scale allow it."""
        best = self.best(-side)
        if self.post_only == "reject" or best is None or best - side < self.lowest:
            return None
        self.emit(Slid(order_id, side, price, best - side))
        return best - side

    def available(self, side: int, limit: int | None, wanted: int | None = None, owner: int = 0) -> int:
        """What an order of ``owner`` could fill at once; nothing is touched. The count may stop once it is ``wanted``."""
        found = 0
        for level in self.side(-side).from_best():
            if (wanted is not None and found >= wanted) or (limit is not None and side * (level.price - limit) > 0):
                break
            own = [order for order in level.queue() if order.owner == owner] if owner and self.self_trade != "off" else []
            if not own:
                found += level.total
            elif self.self_trade == "oldest":
                found += level.total - sum(order.quantity for order in own)
            else:  # it is filled only up to the first order of its own
                return found + _before(level, own[0])
        return found


def _before(level: PriceLevel, own: Order) -> int:
    """What trades at ``level`` before ``own`` has its turn: tips in front of it, or all that is displayed in front of a hidden one."""
    before = 0
    for order in level.queue():
        if order is own:
            break
        before += order.quantity if own.hidden else order.shown
    return before
