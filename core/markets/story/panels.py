"""What a recorded book shows: the ladder, the tape, prices, depth, waiting stops, the auction's schedule, and its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from core.formatting import Value
from core.markets.matching.auction import clearing, schedule
from core.markets.matching.book import BUY, SELL, Book, Order
from core.markets.story.tables import Sheet, Tape
from core.recording import Recorder, Word
from core.views import Axis, Breakdown, Cell, Column, Ladder, Plot, Resting

TICKS_PER_DOLLAR = 100
SIDES = {BUY: "buy", SELL: "sell", 0: "cross"}
SCHEDULED_PRICES = 25
"""Rows of an auction's schedule, around its price."""
_TAPE = (Column("time", "s"), Column("side", align="left"), Column("price", "$"), Column("quantity"), Column("taker"), Column("maker"))
_AUCTION = (Column("price", "$"), Column("buy ≥"), Column("sell ≤"), Column("trade"), Column("left"))
_STOPS = (Column("trigger", "$"), Column("then", align="left"), Column("quantity"), Column("limit", "$"), Column("order"))
_COUNTED = {
    "modifies_kept": ("", "changed orders that kept their place"),
    "modifies_requeued": ("", "changed orders that lost their place"),
    "refills": ("", "times an iceberg showed its next part"),
    "stops_triggered": ("", ""),
    "longest_cascade": ("", "stops set off by one order"),
    "self_trades": ("", "trades of an owner with itself"),
    "self_trades_prevented": ("", "matches with an own order that did not trade"),
    "prevented_volume": ("shares", "cancelled or taken off both to prevent them"),
    "auction_volume": ("shares", "of the last auction that opened"),
}


def dollars(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS_PER_DOLLAR


class BookPanels:
    """Writes what ``book`` shows. ``own``: an order that is starred, with its place in the queue as numbers (0: none).

    ``coming``: which of modifies, stops and auctions will come. The panels of the last two take the place of the depth bars.
    """

    def __init__(self, rec: Recorder, book: Book, *, own: int = 0, coming: Collection[str] = ("modifies",)) -> None:
        stops, auctions = "stops" in coming, "auctions" in coming
        self.rec, self.book, self.own = rec, book, own
        self.time = 0.0
        self.trades: list[tuple[int, int, int, int]] = []
        self.volume = 0
        self.reference: int | None = None
        self.counts: Counter[str] = Counter()
        if "modifies" in coming:
            self.counts.update(modifies_kept=0, modifies_requeued=0)
        self.ladder = rec.panel("Book", Ladder(1 / TICKS_PER_DOLLAR), 2.0)
        self.tape = rec.panel("Trades", Tape(_TAPE), beside=True)
        self.plot = rec.panel("Price", Plot("time", "price", x_unit="s", y_unit="$"))
        self.mid_curve = self.plot.curve("mid", "plain", "step")
        self.curves = {BUY: self.plot.curve("bid", "bid", "step"), SELL: self.plot.curve("ask", "ask", "step")}
        self.trade_curve = self.plot.curve("trades", "trade", "scatter")
        self.auction_sheet = rec.panel("Auction", Sheet(_AUCTION), beside=True) if auctions else None
        self.stop_sheet = rec.panel("Stops that wait", Sheet(_STOPS), beside=not auctions) if stops else None
        self.depth: Breakdown | None = None
        if not (auctions or stops):
            parts = [("best price", "group0"), ("next four", "group1"), ("deeper", "group2")]
            self.depth = rec.panel("Depth", Breakdown(Axis.of("bids", "asks"), parts, unit="shares"), beside=True)
        if stops:
            self.counts.update(stops_triggered=0, longest_cascade=0)
        self.has_hidden = False
        self.own_filled = 0
        self.indicative: tuple[int | None, int] = (None, 0)
        rec.recording.words = {
            "order": Word(("order", "maker", "taker"), identity=True),
            "trade": Word(("quantity",), "action", ("trade",)),
        }
        self._begun, self._sweeps = 0, False
        self._facts: dict[str, Value] = {}
        self._parts: dict[tuple[int, int], int] = {}
        self.quotes()

    # one step ----------------------------------------------------------------------------------------------------------

    def begins(self) -> None:
        """The next step is the first of a taker (or of a message that takes nothing)."""
        self._begun, self._sweeps = self.rec.now, False

    def close(self, text: tuple[str, str], action: str, order: int, side: int, price: int | None, quantity: int, **more: Value) -> None:
        """Close the step with the quotes before and after it; facts change only where they differ.

        From its first match on a taker's steps join the one before, its arrival too: its fills, refills it causes, its rest.
        """
        mid_before, bid_before, ask_before = self.mid(), dollars(self.bid), dollars(self.ask)
        self.quotes()
        self._draw()
        self._numbers()
        self._sweeps |= side != 0 and action in ("trade", "self_trade")
        self.rec.step(
            text[0], text[1], time=self.time, joins=self._sweeps and self.rec.now > self._begun,
            action=action, order=order, side=SIDES[side], price=dollars(price), quantity=quantity,
            bid=dollars(self.bid), ask=dollars(self.ask), mid=self.mid(), spread=self._spread(),
            bid_before=bid_before, ask_before=ask_before, mid_before=mid_before, **more,
        )  # fmt: skip

    def level(self, side: int, price: int | None, refilling: int = 0) -> None:
        """Write the level's queue as it is now. The order ``refilling`` has shown all of its tip and not yet the next one."""
        if price is None:
            return
        found = self.book.side(side).levels.get(price)
        orders = []
        for order in found.queue() if found else ():
            shown = 0 if order.order_id == refilling else order.shown
            orders.append(Resting(order.order_id, shown, order.order_id == self.own, order.quantity - shown))
            self.has_hidden |= shown < order.quantity
        self.ladder.level("bid" if side == BUY else "ask", price / TICKS_PER_DOLLAR, sum(order.quantity for order in orders), orders)

    def mark(self, price: int | None, side: int, text: str, role: str = "") -> None:
        if price is not None:
            self.ladder.mark(price / TICKS_PER_DOLLAR, role or ("bid" if side == BUY else "ask"), text)

    def trade(self, price: int, quantity: int, maker: int, taker: int, side: int) -> None:
        """Note a trade on the tape and the plot; ``side`` is its taker's, 0 in an auction."""
        self.trades.append((price, quantity, maker, taker))
        self.volume += quantity
        self.own_filled += quantity if self.own and self.own in (maker, taker) else 0
        self.ladder.mark(price / TICKS_PER_DOLLAR, "trade", f"{quantity} traded")
        self.plot.point(self.trade_curve, self.time, price / TICKS_PER_DOLLAR)
        role = {BUY: "bid", SELL: "ask", 0: "trade"}[side]
        self.tape.add(role, self.time, SIDES[side], dollars(price), quantity, taker, maker)

    def show_stops(self, newest: int = 0) -> None:
        """Those that wait, the next to be triggered first: falling triggers of sells, then rising ones of buys."""
        if self.stop_sheet is None:
            return
        stops = sorted(self.book.stops.values(), key=lambda stop: (stop.side, stop.side * stop.trigger))
        rows = []
        for stop in stops:
            role = "bid" if stop.side == BUY else "ask"
            values = (dollars(stop.trigger), SIDES[stop.side], stop.quantity, dollars(stop.price), stop.order_id)
            rows.append(tuple(Cell(value, role, "none" if value is None else "") for value in values))
        self.stop_sheet.write(rows, [place for place, stop in enumerate(stops) if stop.order_id == newest])

    def show_auction(self) -> None:
        """What would trade at each price if the auction opened now; the price it would open at is lit."""
        bids, asks = ([(level.price, level.total) for level in side.from_best()] for side in (self.book.bids, self.book.asks))
        self.indicative = price, _ = clearing(bids, asks, self.reference)
        if self.auction_sheet is None:
            return
        found = schedule(bids, asks, *([] if price is None else [price]))
        at = next((place for place, (p, _, _) in enumerate(found) if p == price), len(found) // 2)
        first = max(min(at - SCHEDULED_PRICES // 2, len(found) - SCHEDULED_PRICES), 0)
        shown = found[first : first + SCHEDULED_PRICES]
        rows = [self._scheduled(p, buy, sell, p == price) for p, buy, sell in shown]
        self.auction_sheet.write(rows, [at - first] if price is not None else [])

    def imbalance(self, price: int) -> tuple[int, int]:
        """What could be bought and sold at ``price`` as the book stands: (to buy there or higher, to sell there or lower)."""
        wanted = sum(level.total for level in self.book.bids.levels.values() if level.price >= price)
        return wanted, sum(level.total for level in self.book.asks.levels.values() if level.price <= price)

    # what holds now ----------------------------------------------------------------------------------------------------

    def quotes(self) -> None:
        """Look at the best displayed prices."""
        self.bid, self.ask = (
            next((level.price for level in self.book.side(side).from_best() if level.quantity), None) for side in (BUY, SELL)
        )

    @property
    def crossed(self) -> bool:
        return self.bid is not None and self.ask is not None and self.bid >= self.ask

    def mid(self) -> float | None:
        return None if self.bid is None or self.ask is None or self.crossed else (self.bid + self.ask) / (2 * TICKS_PER_DOLLAR)

    def _spread(self) -> float | None:
        return None if self.bid is None or self.ask is None or self.crossed else (self.ask - self.bid) / TICKS_PER_DOLLAR

    def _scheduled(self, price: int, buy: int, sell: int, chosen: bool) -> tuple[Cell, ...]:
        role = "trade" if chosen else "plain"
        values = (dollars(price), buy, sell, min(buy, sell))
        left = Cell(buy - sell, role, f"{buy - sell:+,}" if buy != sell else "0")
        return (*(Cell(value, role) for value in values), left)

    def _draw(self) -> None:
        self.plot.cursor(self.time)
        if self.book.state == "continuous" and not self.crossed:
            for curve, price in (
                (self.mid_curve, self.mid()),
                (self.curves[BUY], dollars(self.bid)),
                (self.curves[SELL], dollars(self.ask)),
            ):
                if price is not None:
                    self.plot.point(curve, self.time, price)

    # facts -------------------------------------------------------------------------------------------------------------

    def _numbers(self) -> None:
        levels = {BUY: self._depth(BUY), SELL: self._depth(SELL)}
        self._fact("trades", len(self.trades))
        self._fact("volume", self.volume, "shares")
        self._fact("best_bid", dollars(self.bid), "$")
        self._fact("best_ask", dollars(self.ask), "$")
        self._fact("spread", self._spread(), "$")
        self._fact("mid", self.mid(), "$")
        self._fact("depth", levels[BUY] + levels[SELL], "shares", "all that rests, bids and asks")
        self._fact("depth[bid]", levels[BUY], "shares")
        self._fact("depth[ask]", levels[SELL], "shares")
        if self.has_hidden:
            reserve = sum(level.reserve for side in (self.book.bids, self.book.asks) for level in side.levels.values())
            self._fact("hidden_depth", reserve, "shares", "rests and is not displayed, not in depth")
        self._own_numbers()
        if self.stop_sheet is not None:
            self._fact("stops_waiting", len(self.book.stops))
        if self.auction_sheet is not None:
            self._fact("state", self.book.state)
            price, matched = self.indicative if self.book.state == "auction" else (None, 0)
            self._fact("indicative_price", dollars(price), "$", "where the auction would open now")
            self._fact("matched_volume", matched, "shares", "would trade there")
        for name, count in self.counts.items():
            self._fact(name, count, *_COUNTED[name])

    def _own_numbers(self) -> None:
        if not self.own:
            return
        order = self.book.orders.get(self.own)
        self._fact("own_ahead", None if order is None else self._ahead(order), "shares", "in front of the starred order at its price")
        self._fact("own_filled", self.own_filled, "shares")
        self._fact("own_left", 0 if order is None else order.quantity, "shares", "of it that still rest")

    def _ahead(self, mine: Order) -> int:
        """What trades at the order's price before its own displayed part (of a hidden one: before it) has its turn."""
        ahead = 0
        for order in self.book.side(mine.side).levels[mine.price].queue():
            if order is mine:
                break
            ahead += order.quantity if order.hidden else order.shown
        return ahead

    def _fact(self, name: str, value: Value, unit: str = "", note: str = "") -> None:
        if name not in self._facts or self._facts[name] != value:
            self._facts[name] = value
            self.rec.fact(name, value, unit, note=note)

    def _depth(self, side: int) -> int:
        """Write the bars of one side; returns all that is displayed there."""
        quantities = [level.quantity for level in self.book.side(side).from_best() if level.quantity]
        bar = 0 if side == BUY else 1
        for part, quantity in enumerate((sum(quantities[:1]), sum(quantities[1:5]), sum(quantities[5:]))):
            if self.depth is not None and self._parts.get((bar, part)) != quantity:
                self._parts[bar, part] = quantity
                self.depth.set(bar, part, quantity)
        return sum(quantities)
