"""The rarer happenings as steps: icebergs, stops, orders of one owner, auctions and halts."""

from __future__ import annotations

from collections.abc import Collection

from core.formatting import Value
from core.markets.matching.book import (
    BUY,
    Book,
    Cancelled,
    Decremented,
    Refreshed,
    SelfTrade,
    StateChanged,
    Trade,
    Triggered,
    Waits,
)
from core.markets.sided import Text
from core.markets.story import rare_steps as rare
from core.markets.story.flow import Message
from core.markets.story.panels import BookPanels, dollars
from core.markets.story.steps import sided
from core.recording import Recorder


class RareOrders(BookPanels):
    """What `core.markets.story.recorder.BookRecorder` says of them.

    ``cancelled`` adds up what will never trade; ``auctions`` holds (price, volume) of each one that opened; ``sent`` the
    messages that brought the orders.
    """

    message: Message

    def __init__(self, rec: Recorder, book: Book, self_trade: SelfTrade, *, own: int, coming: Collection[str]) -> None:
        super().__init__(rec, book, own=own, coming=coming)
        self.self_trade = self_trade
        self.cancelled = 0
        self.auctions: list[tuple[int | None, int]] = []
        self.sent: dict[int, Message] = {}
        self._taker = self._met = self._set_off = 0
        self._left = 0
        self._state = ""
        self._tips: dict[int, int] = {}
        self._prices: dict[int, int] = {}
        self._waiting: set[int] = set()

    # icebergs ----------------------------------------------------------------------------------------------------------

    def _fill(self, number: int, side: int, price: int, quantity: int) -> bool:
        """Show the level after ``quantity`` of a resting order is gone; whether that was all an iceberg displayed, and more is left."""
        order, tip = self.book.orders.get(number), self._tips.pop(number, 0)
        tip_gone = order is not None and tip == quantity
        if order is not None and tip:
            self._tips[number] = order.shown
        self.level(side, price, refilling=number if tip_gone else 0)
        return tip_gone

    def _refreshed(self, report: Refreshed) -> None:
        self.counts["refills"] += 1
        level = self.book.side(report.side).levels[report.price]
        ahead = level.quantity - report.shown
        self.level(report.side, report.price)
        self.mark(report.price, report.side, f"shows {report.shown}")
        self.close(
            rare.REFILLS["behind" if ahead else "alone"], "refill", report.order_id, report.side, report.price, report.shown,
            ahead=ahead, reserve=report.reserve,
        )  # fmt: skip

    # stops -------------------------------------------------------------------------------------------------------------

    def _waits(self, report: Waits) -> None:
        stop = self.book.stops[report.order_id]
        self._waiting.add(report.order_id)
        self.show_stops(newest=report.order_id)
        self.mark(report.trigger, report.side, "stop waits", role="dim")
        self.close(
            rare.WAITS["waits" if self.book.last is not None else "waits_first"], "wait", report.order_id, report.side, stop.price,
            report.quantity, trigger=dollars(report.trigger), last=dollars(self.book.last), waiting=len(self.book.stops),
        )  # fmt: skip

    def _triggered(self, report: Triggered) -> None:
        self.begins()
        self._set_off += 1
        self._waiting.discard(report.order_id)
        self._taker, self._left = report.order_id, report.quantity
        self.counts["stops_triggered"] += 1
        self.counts["longest_cascade"] = max(self.counts["longest_cascade"], self._set_off)
        self.show_stops()
        self.mark(report.trigger, report.side, "triggered")
        self.close(
            sided(rare.STOPS["market" if report.price is None else "limit"], report.side), "trigger", report.order_id, report.side,
            report.price, report.quantity, trigger=dollars(report.trigger), number=self._set_off, source=self.message.order_id,
        )  # fmt: skip

    # orders of one owner -----------------------------------------------------------------------------------------------

    def _shared_owner(self, one: int, other: int) -> int:
        """The owner of both orders; 0 when they differ or nobody in particular sent them."""
        owner = self.sent[one].owner
        return owner if owner == self.sent[other].owner else 0

    def _prevented(self, report: Cancelled) -> None:
        order, owner = report.order_id, self.sent[report.order_id].owner
        is_maker = order != self._taker
        self.counts["self_trades_prevented"] += is_maker or self.self_trade == "newest"
        self.counts["prevented_volume"] += report.quantity
        more: dict[str, Value] = {"owner": owner, "mode": self.self_trade, "taker": self._taker}
        if is_maker:
            self._met = order
            self._tips.pop(order, None)
            self.level(report.side, report.price)
        else:
            if self.self_trade == "newest":
                level = self.book.side(-report.side).best
                assert level is not None
                self._met = level.front.order_id
            more["maker"] = self._met
            more["filled"] = sum(quantity for _, quantity, _, taker in self.trades if taker == order)
            self._left = 0
        self.mark(report.price, report.side, f"-{report.quantity} own", role="bad")
        text = rare.SELF_TRADES["maker" if is_maker else "taker_too" if self.self_trade == "both" else "taker"]
        self.close(text, "self_trade", order, report.side, report.price, report.quantity, **more)

    def _decremented(self, report: Decremented) -> None:
        self._left = report.taker_left
        self.cancelled += 2 * report.quantity
        self.counts["self_trades_prevented"] += 1
        self.counts["prevented_volume"] += 2 * report.quantity
        self._fill(report.maker, -report.taker_side, report.price, report.quantity)
        self.mark(report.price, -report.taker_side, f"-{report.quantity} both", role="bad")
        self.close(
            rare.SELF_TRADES["decrement"], "self_trade", report.taker, report.taker_side, report.price, report.quantity,
            owner=self.sent[report.taker].owner, maker=report.maker, taker=report.taker,
            maker_left=report.maker_left, taker_left=report.taker_left,
        )  # fmt: skip

    # auctions and halts ------------------------------------------------------------------------------------------------

    def _state_changed(self, report: StateChanged) -> None:
        before, self._state = self._state, report.state
        price, reference = report.price, self.reference
        more: dict[str, Value] = {}
        if report.state == "halted":
            name, more["last"] = "halted", dollars(self.book.last)
        elif report.state == "auction":
            name, more["reference"] = "auction" if reference is not None else "auction_alone", dollars(reference)
            self.show_auction()
        elif price is not None:
            name = "opens"
            more["buy"], more["sell"] = self.imbalance(price)
            self.mark(price, 0, f"{report.volume} will trade", role="trade")
            self.auctions.append((price, report.volume))
            self.counts["auction_volume"] = report.volume
        else:
            name = "opens_empty" if before == "auction" else "resumes"
            self.auctions.append((None, 0))
        self.close(rare.STATES[name], "state", 0, 0, price, report.volume, **more)

    def _collected(self, more: dict[str, Value]) -> Text:
        """The text for an order that an auction takes in, with what would happen now."""
        self.show_auction()
        price, matched = self.indicative
        if price is None:
            both = self.book.bids.levels and self.book.asks.levels
            return rare.RESTS["apart" if both else "apart_alone"]
        buy, sell = self.imbalance(price)
        more |= {"indicative": dollars(price), "matched": matched, "imbalance": abs(buy - sell)}
        return rare.RESTS["more_buyers" if buy > sell else "more_sellers" if sell > buy else "balanced"]

    def _uncrossed(self, report: Trade, owner: int, more: dict[str, Value]) -> None:
        """A trade of the auction: the book's best bid and best offer at one price."""
        for number, left, side in ((report.taker, report.taker_left, BUY), (report.maker, report.maker_left, -BUY)):
            limit = self._prices[number]
            self._fill(number, side, limit, report.quantity)
            more["buyer_limit" if side == BUY else "seller_limit"] = dollars(limit)
            more["taker_left" if side == BUY else "maker_left"] = left
        if owner:
            more["owner"] = owner
        text = rare.UNCROSSES["self" if owner else "auction"]
        self.close(text, "trade", report.taker, 0, report.price, report.quantity, level_left=report.level_left, **more)

    def _best_shown(self, side: int) -> tuple[int, int] | None:
        """(price, quantity) of the best level that displays something."""
        return next(((level.price, level.quantity) for level in self.book.side(side).from_best() if level.quantity), None)
