"""A limit order book with price-time priority: the matching engine.

Prices are whole ticks, quantities whole lots. An order that arrives takes from the best opposite price, the oldest order
there first; what is left rests behind the orders already at its own price. Every happening is handed to ``emit`` at the
moment it happened, so a listener that looks at the book then sees the state right after it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

BUY, SELL = 1, -1

Kind = Literal["limit", "market", "ioc", "fok", "post_only"]
ModifyRule = Literal["benchmark", "keep_on_decrease"]
PostOnlyRule = Literal["reject", "slide"]


class Accepted(msgspec.Struct, frozen=True):
    """An order has arrived and has touched nothing yet; ``price`` is None for a market order."""

    order_id: int
    side: int
    quantity: int
    price: int | None
    kind: Kind


class Trade(msgspec.Struct, frozen=True):
    """``taker`` bought (taker_side +1) or sold ``quantity`` at the maker's price. ``*_left`` is what each still wants."""

    price: int
    quantity: int
    maker: int
    taker: int
    taker_side: int
    maker_left: int
    taker_left: int
    level_left: int


class Rested(msgspec.Struct, frozen=True):
    """An order, or what is left of it, now waits at ``price`` behind ``ahead`` lots."""

    order_id: int
    side: int
    price: int
    quantity: int
    ahead: int


class Cancelled(msgspec.Struct, frozen=True):
    """``quantity`` will never trade: taken back (cancel), or what an IOC, FOK or market order could not fill at once."""

    order_id: int
    side: int
    price: int | None
    quantity: int
    reason: Literal["cancel", "ioc", "fok", "market"]


class Slid(msgspec.Struct, frozen=True):
    """A post-only order that would have taken was moved to ``price``, the nearest one that does not."""

    order_id: int
    side: int
    wanted: int
    price: int


class Modified(msgspec.Struct, frozen=True):
    """An order has a new price and quantity. Emitted after the trades its new price caused."""

    order_id: int
    side: int
    old_price: int
    old_quantity: int
    price: int
    quantity: int
    kept_priority: bool


class Withdrawn(msgspec.Struct, frozen=True):
    """A modify took the order out of its queue; it arrives again at its new price (then `Modified` follows)."""

    order_id: int
    side: int
    price: int
    quantity: int


class Rejected(msgspec.Struct, frozen=True):
    """Nothing was done."""

    order_id: int
    action: Literal["submit", "cancel", "modify"]
    reason: Literal["post_only", "unknown_order", "duplicate_id", "bad_value"]


Report = Accepted | Trade | Rested | Cancelled | Slid | Modified | Withdrawn | Rejected


class Order:
    """A resting or arriving order; ``quantity`` is what is left of it."""

    __slots__ = ("order_id", "price", "quantity", "side")

    def __init__(self, order_id: int, side: int, price: int, quantity: int) -> None:
        self.order_id = order_id
        self.side = side
        self.price = price
        self.quantity = quantity


class PriceLevel:
    """The queue at one price, front first. ``quantity`` is the sum over its orders and never 0."""

    __slots__ = ("orders", "price", "quantity")

    def __init__(self, price: int) -> None:
        self.price = price
        self.quantity = 0
        self.orders: OrderedDict[int, Order] = OrderedDict()

    @property
    def front(self) -> Order:
        return next(iter(self.orders.values()))


class BookSide:
    """All levels of one side. ``side * price`` is kept sorted, so the best price stands last on either side."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.levels: dict[int, PriceLevel] = {}
        self._ranked: list[int] = []

    @property
    def best(self) -> PriceLevel | None:
        return self.levels[self._ranked[-1] * self.side] if self._ranked else None

    def from_best(self) -> Iterator[PriceLevel]:
        for rank in reversed(self._ranked):
            yield self.levels[rank * self.side]

    @property
    def quantity(self) -> int:
        return sum(level.quantity for level in self.levels.values())

    def append(self, order: Order) -> int:
        """Put ``order`` at the back of its level; returns the quantity ahead of it."""
        level = self.levels.get(order.price)
        if level is None:
            level = self.levels[order.price] = PriceLevel(order.price)
            insort(self._ranked, self.side * order.price)
        ahead = level.quantity
        level.orders[order.order_id] = order
        level.quantity += order.quantity
        return ahead

    def reduce(self, order: Order, quantity: int) -> int:
        """Take ``quantity`` off a resting order, which leaves at 0 and its level with it; returns the level's quantity."""
        level = self.levels[order.price]
        order.quantity -= quantity
        level.quantity -= quantity
        if not order.quantity:
            del level.orders[order.order_id]
            if not level.orders:
                del self.levels[order.price]
                del self._ranked[bisect_left(self._ranked, self.side * order.price)]
        return level.quantity


class Book:
    """Both sides and the rules. Every public method ends with the book uncrossed.

    ``modify_rule``: under ``benchmark`` a modified order leaves and arrives anew; under ``keep_on_decrease`` an order that
    only shrinks keeps its place. ``post_only``: an order that would take is rejected, or slides to one tick short of it.
    """

    def __init__(
        self, emit: Callable[[Report], None], *, modify_rule: ModifyRule = "benchmark", post_only: PostOnlyRule = "reject"
    ) -> None:
        self.emit = emit
        self.modify_rule = modify_rule
        self.post_only = post_only
        self.bids = BookSide(BUY)
        self.asks = BookSide(SELL)
        self.orders: dict[int, Order] = {}

    def side(self, side: int) -> BookSide:
        return self.bids if side == BUY else self.asks

    def best(self, side: int) -> int | None:
        """The best price of a side in ticks, None when it is empty."""
        level = self.side(side).best
        return None if level is None else level.price

    # what participants do ------------------------------------------------------------------------------------------

    def submit(self, order_id: int, side: int, quantity: int, price: int | None = None, kind: Kind = "limit") -> None:
        """A new order. A market order has no price; every other kind needs one (in ticks, at least 1)."""
        if order_id in self.orders:
            self.emit(Rejected(order_id, "submit", "duplicate_id"))
            return
        if quantity < 1 or (kind == "market") != (price is None) or (price is not None and price < 1):
            self.emit(Rejected(order_id, "submit", "bad_value"))
            return
        self.emit(Accepted(order_id, side, quantity, price, kind))
        if kind == "post_only" and price is not None and self.reaches(side, price):
            slid = self._slide(order_id, side, price)
            if slid is None:
                self.emit(Rejected(order_id, "submit", "post_only"))
                return
            price = slid
        if kind == "fok" and self.available(side, price, quantity) < quantity:
            self.emit(Cancelled(order_id, side, price, quantity, "fok"))
            return
        taker = Order(order_id, side, price or 0, quantity)
        self._match(taker, price)
        if not taker.quantity:
            return
        if kind == "market" or kind == "ioc" or kind == "fok":
            self.emit(Cancelled(order_id, side, price, taker.quantity, kind))
        else:
            self._rest(taker)

    def cancel(self, order_id: int) -> None:
        """Take a resting order back."""
        order = self.orders.pop(order_id, None)
        if order is None:
            self.emit(Rejected(order_id, "cancel", "unknown_order"))
            return
        left = order.quantity
        self.side(order.side).reduce(order, left)
        self.emit(Cancelled(order_id, order.side, order.price, left, "cancel"))

    def modify(self, order_id: int, quantity: int, price: int) -> None:
        """Give a resting order a new price and a new quantity (what is left to trade)."""
        order = self.orders.get(order_id)
        if order is None:
            self.emit(Rejected(order_id, "modify", "unknown_order"))
            return
        if quantity < 1 or price < 1:
            self.emit(Rejected(order_id, "modify", "bad_value"))
            return
        side, old_price, old_quantity = order.side, order.price, order.quantity
        if self.modify_rule == "keep_on_decrease" and price == old_price and quantity <= old_quantity:
            self.side(side).reduce(order, old_quantity - quantity)
            self.emit(Modified(order_id, side, old_price, old_quantity, price, quantity, True))
            return
        del self.orders[order_id]
        self.side(side).reduce(order, old_quantity)
        self.emit(Withdrawn(order_id, side, old_price, old_quantity))
        order.price, order.quantity = price, quantity
        self._match(order, price)
        self.emit(Modified(order_id, side, old_price, old_quantity, price, quantity, False))
        if order.quantity:
            self._rest(order)

    # how the book answers ------------------------------------------------------------------------------------------

    def _match(self, taker: Order, limit: int | None) -> None:
        """Take from the best opposite price, its front order first, while ``limit`` allows (None: at any price)."""
        opposite = self.side(-taker.side)
        while taker.quantity:
            level = opposite.best
            if level is None or (limit is not None and taker.side * (level.price - limit) > 0):
                return
            maker = level.front
            quantity = min(taker.quantity, maker.quantity)
            taker.quantity -= quantity
            level_left = opposite.reduce(maker, quantity)
            if not maker.quantity:
                del self.orders[maker.order_id]
            self.emit(Trade(level.price, quantity, maker.order_id, taker.order_id, taker.side, maker.quantity, taker.quantity, level_left))

    def _rest(self, order: Order) -> None:
        self.orders[order.order_id] = order
        ahead = self.side(order.side).append(order)
        self.emit(Rested(order.order_id, order.side, order.price, order.quantity, ahead))

    def reaches(self, side: int, price: int) -> bool:
        """Whether an order at ``price`` would trade at once."""
        best = self.best(-side)
        return best is not None and side * (price - best) >= 0

    def _slide(self, order_id: int, side: int, price: int) -> int | None:
        """The price one tick short of the opposite best, where the rule and the price scale allow it."""
        best = self.best(-side)
        if self.post_only == "reject" or best is None or best - side < 1:
            return None
        self.emit(Slid(order_id, side, price, best - side))
        return best - side

    def available(self, side: int, limit: int | None, wanted: int | None = None) -> int:
        """What an order could take at once; nothing is touched. The count may stop once it is ``wanted``."""
        found = 0
        for level in self.side(-side).from_best():
            if (wanted is not None and found >= wanted) or (limit is not None and side * (level.price - limit) > 0):
                break
            found += level.quantity
        return found
