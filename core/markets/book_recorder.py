"""Listens to the matching engine and records each happening as a step: the ladder, the tape, prices, depth, and why."""

from __future__ import annotations

from core.formatting import Value
from core.markets.book import (
    BUY,
    SELL,
    Accepted,
    Book,
    Cancelled,
    Modified,
    ModifyRule,
    PostOnlyRule,
    Rejected,
    Report,
    Rested,
    Slid,
    Trade,
    Withdrawn,
)
from core.markets.book_steps import ARRIVALS, CANCELS, CHANGES, RESTS, TRADES, Text, sided
from core.markets.flow import Message
from core.markets.tape import Tape
from core.recording import Recorder
from core.views import Axis, Breakdown, Column, Ladder, Plot, Resting

TICKS_PER_DOLLAR = 100
_TAPE = (Column("time", "s"), Column("side", align="left"), Column("price", "$"), Column("quantity"), Column("taker"), Column("maker"))
_SIDES = {BUY: "buy", SELL: "sell"}


def dollars(ticks: int | None) -> float | None:
    return None if ticks is None else ticks / TICKS_PER_DOLLAR


class BookRecorder:
    """Applies messages to its own `Book` and writes one step for every report of it."""

    def __init__(self, rec: Recorder, modify_rule: ModifyRule, post_only: PostOnlyRule) -> None:
        self.rec = rec
        self.book = Book(self.hear, modify_rule=modify_rule, post_only=post_only)
        self.messages: list[Message] = []
        self.last_steps: list[int] = []
        self.trades: list[tuple[int, int, int, int]] = []
        self.volume = self.asked = self.cancelled = self.crossed = 0
        self.kept = self.requeued = 0
        self.ladder = rec.panel("Book", Ladder(1 / TICKS_PER_DOLLAR), 2.0)
        self.tape = rec.panel("Trades", Tape(_TAPE), beside=True)
        self.plot = rec.panel("Price", Plot("time", "price", x_unit="s", y_unit="$"))
        self.mid_curve = self.plot.curve("mid", "plain", "step")
        self.curves = {BUY: self.plot.curve("bid", "bid", "step"), SELL: self.plot.curve("ask", "ask", "step")}
        self.trade_curve = self.plot.curve("trades", "trade", "scatter")
        parts = [("best price", "group0"), ("next four", "group1"), ("deeper", "group2")]
        self.depth = rec.panel("Depth", Breakdown(Axis.of("bids", "asks"), parts, unit="shares"), beside=True)
        self._facts: dict[str, Value] = {}
        self._parts: dict[tuple[int, int], int] = {}
        self._trades_before = 0
        self._quotes()

    def apply(self, message: Message) -> None:
        """Hand ``message`` to the book; its steps are written while the book works."""
        self.message = message
        self.messages.append(message)
        self._trades_before = len(self.trades)
        message.apply(self.book)
        bid, ask = self.book.best(BUY), self.book.best(SELL)
        self.crossed += bid is not None and ask is not None and bid >= ask
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
                self.cancelled += report.quantity
                if report.reason == "cancel":
                    self._level(report.side, report.price)
                self._mark(report.price, report.side, f"-{report.quantity}")
                self._step(CANCELS[report.reason], "cancel", report.order_id, report.side, report.price, report.quantity)
            case Withdrawn():
                self._withdrawn(report)
            case Modified():
                self._modified(report)
            case Slid():
                wanted = dollars(report.wanted)
                self._mark(report.price, report.side, "slides here")
                self._step(CHANGES["slid"], "slide", report.order_id, report.side, report.price, self.message.quantity, wanted=wanted)
            case Rejected():
                self._rejected(report)

    def _accepted(self, report: Accepted) -> None:
        book, side, price = self.book, report.side, report.price
        self.asked += report.quantity
        best = book.side(-side).best
        name: str = report.kind
        more: dict[str, Value] = {}
        if name == "limit" and price is not None:
            name = "limit_first" if best is None else "limit_takes" if book.reaches(side, price) else "limit_rests"
        elif name in ("ioc", "fok"):
            more["available"] = book.available(side, price)
        elif self.message.phase == "the sweep" and best is not None and report.quantity > best.quantity:
            name, more["best_quantity"] = "sweep", best.quantity
        at = price if price is not None else (best.price if best else None)
        self._mark(at, side, f"{_SIDES[side]} {report.quantity}")
        self._step(sided(ARRIVALS[name], side), "arrive", report.order_id, side, price, report.quantity, **more)

    def _trade(self, report: Trade) -> None:
        side, price = report.taker_side, report.price
        self.trades.append((price, report.quantity, report.maker, report.taker))
        self.volume += report.quantity
        emptied = not report.level_left
        name = "part" if report.maker_left else "whole" if not emptied else "level"
        if emptied and self.message.phase == "the sweep":
            name = "sweep_level"
        time = self.message.time
        self._level(-side, price)
        self.ladder.mark(price / TICKS_PER_DOLLAR, "trade", f"{report.quantity} traded")
        self.plot.point(self.trade_curve, time, price / TICKS_PER_DOLLAR)
        values = (time, _SIDES[side], dollars(price), report.quantity, report.taker, report.maker)
        self.tape.add("bid" if side == BUY else "ask", *values)
        self._step(
            sided(TRADES[name], side), "trade", report.taker, side, price, report.quantity, maker=report.maker, taker=report.taker,
            maker_left=report.maker_left, taker_left=report.taker_left, level_left=report.level_left,
        )  # fmt: skip

    def _rested(self, report: Rested) -> None:
        best_before = self.bid if report.side == BUY else self.ask
        improves = best_before is not None and report.side * (report.price - best_before) > 0
        name = "first" if best_before is None else "best" if improves else "queue" if report.ahead else "deeper"
        self._level(report.side, report.price)
        self._mark(report.price, report.side, f"+{report.quantity}")
        self._step(sided(RESTS[name], report.side), "rest", report.order_id, report.side, report.price, report.quantity, ahead=report.ahead)

    def _withdrawn(self, report: Withdrawn) -> None:
        message = self.message
        self._level(report.side, report.price)
        self._mark(report.price, report.side, f"-{report.quantity}")
        self._step(
            CHANGES["withdrawn"], "modify", report.order_id, report.side, report.price, report.quantity,
            new_quantity=message.quantity, new_price=dollars(message.price),
        )  # fmt: skip

    def _modified(self, report: Modified) -> None:
        self.asked += report.quantity - report.old_quantity
        self.kept += report.kept_priority
        self.requeued += not report.kept_priority
        taken = sum(quantity for _, quantity, _, taker in self.trades[self._trades_before :] if taker == report.order_id)
        self._level(report.side, report.price)
        self._mark(report.price, report.side, "changed")
        self._step(
            CHANGES["kept" if report.kept_priority else "changed"], "modify", report.order_id, report.side, report.price,
            report.quantity, old_quantity=report.old_quantity, old_price=dollars(report.old_price), left=report.quantity - taken,
        )  # fmt: skip

    def _rejected(self, report: Rejected) -> None:
        message = self.message
        name = report.reason if report.reason in CHANGES else "refused"
        if report.reason == "post_only":
            self.cancelled += message.quantity
        self._mark(message.price, message.side, "refused", role="bad")
        self._step(CHANGES[name], "reject", report.order_id, message.side, message.price, message.quantity, reason=report.reason)

    # writing -----------------------------------------------------------------------------------------------------------

    def _step(self, text: Text, action: str, order: int, side: int, price: int | None, quantity: int, **more: Value) -> None:
        """Close the step with the quotes before and after it; facts change only where they differ."""
        mid_before, bid_before, ask_before = self._mid(), dollars(self.bid), dollars(self.ask)
        self._quotes()
        mid, spread = self._mid(), self._spread()
        self._draw(mid)
        levels = {BUY: self._depth(BUY), SELL: self._depth(SELL)}
        self._fact("trades", len(self.trades))
        self._fact("volume", self.volume, "shares")
        self._fact("best_bid", dollars(self.bid), "$")
        self._fact("best_ask", dollars(self.ask), "$")
        self._fact("spread", spread, "$")
        self._fact("mid", mid, "$")
        self._fact("depth", levels[BUY] + levels[SELL], "shares", "all that rests, bids and asks")
        self._fact("depth[bid]", levels[BUY], "shares")
        self._fact("depth[ask]", levels[SELL], "shares")
        self._fact("modifies_kept", self.kept, note="changed orders that kept their place")
        self._fact("modifies_requeued", self.requeued, note="changed orders that lost their place")
        self.rec.step(
            text[0], text[1], time=self.message.time,
            action=action, order=order, side=_SIDES[side], price=dollars(price), quantity=quantity,
            bid=dollars(self.bid), ask=dollars(self.ask), mid=mid, spread=spread,
            bid_before=bid_before, ask_before=ask_before, mid_before=mid_before, **more,
        )  # fmt: skip

    def _fact(self, name: str, value: Value, unit: str = "", note: str = "") -> None:
        if name not in self._facts or self._facts[name] != value:
            self._facts[name] = value
            self.rec.fact(name, value, unit, note=note)

    def _quotes(self) -> None:
        self.bid, self.ask = self.book.best(BUY), self.book.best(SELL)

    def _mid(self) -> float | None:
        return None if self.bid is None or self.ask is None else (self.bid + self.ask) / (2 * TICKS_PER_DOLLAR)

    def _spread(self) -> float | None:
        return None if self.bid is None or self.ask is None else (self.ask - self.bid) / TICKS_PER_DOLLAR

    def _level(self, side: int, price: int | None) -> None:
        """Write the level's queue as it is now."""
        if price is None:
            return
        level = self.book.side(side).levels.get(price)
        orders = [Resting(order.order_id, order.quantity) for order in level.orders.values()] if level else []
        self.ladder.level("bid" if side == BUY else "ask", price / TICKS_PER_DOLLAR, level.quantity if level else 0, orders)

    def _mark(self, price: int | None, side: int, text: str, role: str = "") -> None:
        if price is not None:
            self.ladder.mark(price / TICKS_PER_DOLLAR, role or ("bid" if side == BUY else "ask"), text)

    def _draw(self, mid: float | None) -> None:
        time = self.message.time
        self.plot.cursor(time)
        for curve, price in ((self.mid_curve, mid), (self.curves[BUY], dollars(self.bid)), (self.curves[SELL], dollars(self.ask))):
            if price is not None:
                self.plot.point(curve, time, price)

    def _depth(self, side: int) -> int:
        """Write the bars of one side; returns all that rests there."""
        quantities = [level.quantity for level in self.book.side(side).from_best()]
        bar = 0 if side == BUY else 1
        for part, quantity in enumerate((sum(quantities[:1]), sum(quantities[1:5]), sum(quantities[5:]))):
            if self._parts.get((bar, part)) != quantity:
                self._parts[bar, part] = quantity
                self.depth.set(bar, part, quantity)
        return sum(quantities)
