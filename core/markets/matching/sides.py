"""The queues of a limit order book: orders, price levels and the two sides, best price at hand."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator


class Order:
    """A resting or arriving order. ``quantity`` is what is left of it, ``shown`` the part of that which a level displays.

    ``tip``: how much an iceberg displays at a time (0: all); ``owner``: who sent it (0: nobody in particular).
    """

    __slots__ = ("hidden", "order_id", "owner", "price", "quantity", "shown", "side", "tip")

    def __init__(self, order_id: int, side: int, price: int, quantity: int, *, tip: int = 0, hidden: bool = False, owner: int = 0) -> None:
        self.order_id = order_id
        self.side = side
        self.price = price
        self.quantity = quantity
        self.tip, self.hidden, self.owner = tip, hidden, owner
        self.shown = 0

    @property
    def reach(self) -> int:
        """What a taker gets from it before the next order has its turn."""
        return self.quantity if self.hidden else self.shown


class PriceLevel:
    """The queues at one price, front first: displayed ``orders``, and behind all of them the ``hidden`` ones.

    ``quantity`` is what the level displays, ``reserve`` what it holds besides: hidden orders and icebergs under their tips.
    """

    __slots__ = ("hidden", "orders", "price", "quantity", "reserve")

    def __init__(self, price: int) -> None:
        self.price = price
        self.quantity = self.reserve = 0
        self.orders: OrderedDict[int, Order] = OrderedDict()
        self.hidden: OrderedDict[int, Order] = OrderedDict()

    @property
    def front(self) -> Order:
        return next(iter((self.orders or self.hidden).values()))

    @property
    def total(self) -> int:
        return self.quantity + self.reserve

    def queue(self) -> Iterator[Order]:
        """Every order in the order of its turn."""
        yield from self.orders.values()
        yield from self.hidden.values()


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
        """What the side displays."""
        return sum(level.quantity for level in self.levels.values())

    def append(self, order: Order) -> int:
        """Put ``order`` at the back of its queue; returns the quantity displayed ahead of it."""
        level = self.levels.get(order.price)
        if level is None:
            level = self.levels[order.price] = PriceLevel(order.price)
            insort(self._ranked, self.side * order.price)
        ahead = level.quantity
        order.shown = 0 if order.hidden else min(order.tip or order.quantity, order.quantity)
        (level.hidden if order.hidden else level.orders)[order.order_id] = order
        level.quantity += order.shown
        level.reserve += order.quantity - order.shown
        return ahead

    def remove(self, order: Order) -> None:
        """Take ``order`` out, and its level with it when it was the last."""
        level = self.levels[order.price]
        level.quantity -= order.shown
        level.reserve -= order.quantity - order.shown
        del (level.hidden if order.hidden else level.orders)[order.order_id]
        if not level.orders and not level.hidden:
            del self.levels[order.price]
            del self._ranked[bisect_left(self._ranked, self.side * order.price)]

    def shrink(self, order: Order, quantity: int) -> None:
        """Only ``quantity`` of a resting order stays, at its place; the reserve goes first."""
        level = self.levels[order.price]
        shown = min(order.shown, quantity)
        level.quantity += shown - order.shown
        level.reserve += (quantity - shown) - (order.quantity - order.shown)
        order.quantity, order.shown = quantity, shown

    def fill(self, order: Order, quantity: int) -> bool:
        """Take ``quantity`` (at most its reach) off a resting order, which leaves at 0.

        An iceberg whose tip is used up shows the next one at the back of the queue; returns whether that happened.
        """
        level = self.levels[order.price]
        if quantity == order.quantity:
            self.remove(order)
            order.quantity = order.shown = 0
            return False
        order.quantity -= quantity
        if order.hidden:
            level.reserve -= quantity
            return False
        order.shown -= quantity
        level.quantity -= quantity
        if order.shown:
            return False
        order.shown = min(order.tip, order.quantity)
        level.quantity += order.shown
        level.reserve -= order.shown
        level.orders.move_to_end(order.order_id)
        return True

    def displayed(self, price: int) -> int:
        level = self.levels.get(price)
        return level.quantity if level else 0
