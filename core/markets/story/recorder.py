"""Listens to the matching engine and records each happening as a step, with a sentence that says what happened and why."""

from __future__ import annotations

from collections.abc import Collection

from core.formatting import Value
from core.markets.matching.book import (
    BUY,
    Accepted,
    Book,
    Cancelled,
    Decremented,
    Modified,
    ModifyRule,
    Order,
    PostOnlyRule,
    Refreshed,
    Rejected,
    Report,
    Rested,
    SelfTrade,
    Slid,
    StateChanged,
    Trade,
    Triggered,
    Waits,
    Withdrawn,
)
from core.markets.story import rare_steps as rare
from core.markets.story.flow import Message
from core.markets.story.panels import SIDES, dollars
from core.markets.story.rare_recorder import RareOrders
from core.markets.story.steps import ARRIVALS, CANCELS, CHANGES, RESTS, TRADES, sided
from core.recording import Recorder


class BookRecorder(RareOrders):
    """Applies messages to its own `Book` and writes one step for every report of it.

    ``asked`` adds up what orders wanted; ``times_crossed`` counts messages that left a book in continuous trading crossed.
    """

    def __init__(
        self,
        rec: Recorder,
        modify_rule: ModifyRule,
        post_only: PostOnlyRule,
        self_trade: SelfTrade = "off",
        *,
        own: int = 0,
        coming: Collection[str] = ("modifies",),
    ) -> None:
        book = Book(self.hear, modify_rule=modify_rule, post_only=post_only, self_trade=self_trade)
        super().__init__(rec, book, self_trade, own=own, coming=coming)
        self.messages: list[Message] = []
        self.last_steps: list[int] = []
        self.asked = self.times_crossed = 0

    def apply(self, message: Message) -> None:
        """Hand ``message`` to the book; its steps are written while the book works."""
        self.message, self.time = message, message.time
        self.messages.append(message)
        if message.action in ("auction", "open"):
            self.reference = message.price
        self._set_off = 0
        self.begins()
        message.apply(self.book)
        bid, ask = self.book.best(BUY), self.book.best(-BUY)
        self.times_crossed += self.book.state == "continuous" and bid is not None and ask is not None and bid >= ask
        self.last_steps.append(self.rec.now - 1)

    # one step for each report ----------------------------------------------------------------------------------------

    def hear(self, report: Report) -> None:
        """The book's listener: called right after each happening."""
        match report:
            case Accepted():
                self._accepted(report)
            case Trade():
                self._trade(report)
            case Rested():
                self._rested(report)
            case Cancelled():
                self._cancelled(report)
            case Withdrawn():
                self._withdrawn(report)
            case Modified():
                self._modified(report)
            case Slid():
                wanted = dollars(report.wanted)
                self.mark(report.price, report.side, "slides here")
                self.close(CHANGES["slid"], "slide", report.order_id, report.side, report.price, self.message.quantity, wanted=wanted)
            case Rejected():
                self._rejected(report)
            case Refreshed():
                self._refreshed(report)
            case Waits():
                self._waits(report)
            case Triggered():
                self._triggered(report)
            case Decremented():
                self._decremented(report)
            case StateChanged():
                self._state_changed(report)

    def _accepted(self, report: Accepted) -> None:
        book, side, price, message = self.book, report.side, report.price, self.message
        self.asked += report.quantity
        self.sent[report.order_id] = message
        self._taker, self._left = report.order_id, report.quantity
        best = self._best_shown(-side)
        texts, name = ARRIVALS, str(report.kind)
        more: dict[str, Value] = {}
        if report.kind in ("stop", "stop_limit"):
            texts, more["trigger"] = rare.ARRIVALS, dollars(message.trigger)
        elif book.state == "auction":
            texts, name = rare.ARRIVALS, "collected"
        elif report.kind in ("iceberg", "hidden"):
            texts = rare.ARRIVALS
            more |= {"tip": message.tip, "reserve": report.quantity - message.tip}
        elif name == "limit" and price is not None:
            shown = best is not None and side * (price - best[0]) >= 0
            name = "limit_takes" if shown else "limit_first" if best is None else "limit_rests"
            if book.reaches(side, price) and not shown:
                texts, name = rare.ARRIVALS, "meets_hidden"
        elif name == "market" and best is None and book.side(-side).best is None:
            texts, name = rare.ARRIVALS, "market_alone"
        elif name in ("ioc", "fok"):
            more["available"] = book.available(side, price, owner=message.owner)
        elif message.phase == "the sweep" and best is not None and report.quantity > best[1]:
            name, more["best_quantity"] = "sweep", best[1]
        at = price if price is not None else message.trigger if message.trigger is not None else best[0] if best else None
        self.mark(at, side, f"{SIDES[side]} {report.quantity}")
        self.close(sided(texts[name], side), "arrive", report.order_id, side, price, report.quantity, **more)

    def _trade(self, report: Trade) -> None:
        side, price = report.taker_side, report.price
        self._left = report.taker_left
        self.trade(price, report.quantity, report.maker, report.taker, side)
        owner = self._shared_owner(report.maker, report.taker)
        if owner:
            self.counts["self_trades"] += 1
        more: dict[str, Value] = {"maker": report.maker, "taker": report.taker}
        if not side:
            self._uncrossed(report, owner, more)
            return
        tip_gone = self._fill(report.maker, -side, price, report.quantity)
        maker = self.book.orders.get(report.maker)
        name = self._trade_name(report, maker, owner, tip_gone)
        if maker is not None and maker.tip:
            more["maker_shown"] = maker.shown
        if owner:
            more["owner"] = owner
        texts = TRADES if name in TRADES else rare.TRADES
        self.close(
            sided(texts[name], side), "trade", report.taker, side, price, report.quantity, **more,
            maker_left=report.maker_left, taker_left=report.taker_left, level_left=report.level_left,
        )  # fmt: skip

    def _trade_name(self, report: Trade, maker: Order | None, owner: int, tip_gone: bool) -> str:
        """Which of the texts tells this trade: the rarest thing about it."""
        emptied = not report.level_left
        if owner:
            return "self"
        if self.sent[report.maker].kind == "hidden":
            return "hidden"
        if tip_gone:
            return "tip"
        if maker is not None and maker.tip:
            return "part_iceberg"
        if emptied and self._best_shown(-report.taker_side) is None:
            return "last"
        if self._best_shown(report.taker_side) is None:
            return "one_sided"
        if report.maker_left:
            return "part"
        if self.sent[report.taker].trigger is not None and self._set_off:
            return "stop"
        if emptied and self.message.phase == "the sweep":
            return "sweep_level"
        return "level" if emptied else "whole"

    def _rested(self, report: Rested) -> None:
        side, price, order = report.side, report.price, self.book.orders[report.order_id]
        self._prices[order.order_id] = price
        if order.tip:
            self._tips[order.order_id] = order.shown
        self.level(side, price)
        self.mark(price, side, f"+{order.shown}" if order.shown else "hidden", "" if order.shown else "dim")
        more: dict[str, Value] = {"ahead": report.ahead}
        text = sided(RESTS[self._rest_name(report)], side)
        if self.book.state == "auction":
            text = self._collected(more)
        elif order.hidden:
            text = rare.RESTS["hidden"]
        elif order.tip and order.shown < order.quantity:
            text = rare.RESTS["iceberg" if report.ahead else "iceberg_first"]
            more |= {"shown": order.shown, "reserve": order.quantity - order.shown}
        self.close(text, "rest", report.order_id, side, price, report.quantity, **more)

    def _rest_name(self, report: Rested) -> str:
        before = self.bid if report.side == BUY else self.ask
        alone = "" if self._best_shown(-report.side) else "_alone"
        if before is None:
            return f"first{alone}"
        return ("best" if report.side * (report.price - before) > 0 else "queue" if report.ahead else "deeper") + alone

    def _cancelled(self, report: Cancelled) -> None:
        self.cancelled += report.quantity
        if report.reason == "self_trade":
            self._prevented(report)
            return
        text = CANCELS[report.reason]
        if report.reason == "cancel" and report.order_id in self._waiting:
            self._waiting.discard(report.order_id)
            self.show_stops()
            text = rare.CANCELS["stop"]
        elif report.reason == "cancel":
            self._tips.pop(report.order_id, None)
            self.level(report.side, report.price)
            text = rare.CANCELS.get(self.book.state, text)
            if self.book.state == "auction":
                self.show_auction()
        self.mark(report.price, report.side, f"-{report.quantity}")
        self.close(text, "cancel", report.order_id, report.side, report.price, report.quantity)

    def _withdrawn(self, report: Withdrawn) -> None:
        message = self.message
        self._taker, self._left = report.order_id, message.quantity
        self._tips.pop(report.order_id, None)
        self.level(report.side, report.price)
        self.mark(report.price, report.side, f"-{report.quantity}")
        self.close(
            CHANGES["withdrawn"], "modify", report.order_id, report.side, report.price, report.quantity,
            new_quantity=message.quantity, new_price=dollars(message.price),
        )  # fmt: skip

    def _modified(self, report: Modified) -> None:
        self.asked += report.quantity - report.old_quantity
        self.counts["modifies_kept" if report.kept_priority else "modifies_requeued"] += 1
        text = CHANGES["kept" if report.kept_priority else "changed"]
        if report.kept_priority:
            order = self.book.orders[report.order_id]
            self._left = report.quantity
            if order.tip:
                self._tips[order.order_id] = order.shown
            self.level(report.side, report.price)
        elif self.book.state == "auction":
            text = rare.CHANGES["collected"]
        if self.book.state == "auction":
            self.show_auction()
        self.mark(report.price, report.side, "changed")
        self.close(
            text, "modify", report.order_id, report.side, report.price, report.quantity,
            old_quantity=report.old_quantity, old_price=dollars(report.old_price), left=self._left,
        )  # fmt: skip

    def _rejected(self, report: Rejected) -> None:
        message = self.message
        name = report.reason if report.reason in CHANGES else "refused"
        if report.reason == "post_only":
            self.cancelled += message.quantity
        text = CHANGES[name]
        if report.reason in ("not_trading", "waiting_stop"):
            text = rare.CHANGES["waiting_stop" if report.reason == "waiting_stop" else self.book.state]
        self.mark(message.price, message.side, "refused", role="bad")
        self.close(text, "reject", report.order_id, message.side, message.price, message.quantity, reason=report.reason)
