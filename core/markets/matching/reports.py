"""What a book says: one frozen record for every happening, and the words for orders, rules and modes."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

BUY, SELL = 1, -1

MOST_TIPS = 10_000
"""An iceberg shows itself at most so many times: what one taker can cause stays bounded."""
FURTHEST = 1 << 40
"""The highest price in ticks; the lowest a book can be told to allow is its negative."""
LARGEST = 1 << 50
"""The largest quantity of one order, so that no sum of them overflows 64 bits."""

Kind = Literal["limit", "market", "ioc", "fok", "post_only", "iceberg", "hidden", "stop", "stop_limit"]
ModifyRule = Literal["benchmark", "keep_on_decrease"]
PostOnlyRule = Literal["reject", "slide"]
SelfTrade = Literal["off", "newest", "oldest", "both", "decrement"]
State = Literal["continuous", "auction", "halted"]

CancelReason = Literal["cancel", "ioc", "fok", "market", "self_trade"]
RejectReason = Literal["post_only", "unknown_order", "duplicate_id", "bad_value", "not_trading", "waiting_stop"]

ACTIONS = ("submit", "cancel", "modify", "halt", "auction", "open")
KINDS: tuple[Kind, ...] = get_args(Kind)
SELF_TRADES: tuple[SelfTrade, ...] = get_args(SelfTrade)
STATES: tuple[State, ...] = get_args(State)
CANCEL_REASONS: tuple[CancelReason, ...] = get_args(CancelReason)
REJECT_REASONS: tuple[RejectReason, ...] = get_args(RejectReason)
"""The words in the order of their codes in `core.markets.engine.kernel`."""


class Accepted(msgspec.Struct, frozen=True):
    """An order has arrived and has touched nothing yet; ``price`` is None for a market order."""

    order_id: int
    side: int
    quantity: int
    price: int | None
    kind: Kind


class Trade(msgspec.Struct, frozen=True):
    """``taker`` bought (taker_side +1) or sold ``quantity`` at the maker's price. ``*_left`` is what each still wants.

    In an auction nobody takes: taker_side is 0, ``taker`` the buying and ``maker`` the selling order.
    ``level_left`` is what the maker's level still displays.
    """

    price: int
    quantity: int
    maker: int
    taker: int
    taker_side: int
    maker_left: int
    taker_left: int
    level_left: int


class Rested(msgspec.Struct, frozen=True):
    """An order, or what is left of it, now waits at ``price``; ``ahead`` lots are displayed in front of it."""

    order_id: int
    side: int
    price: int
    quantity: int
    ahead: int


class Cancelled(msgspec.Struct, frozen=True):
    """``quantity`` will never trade: taken back (cancel), stopped before it met an order of its own owner (self_trade), or
    what an IOC, FOK or market order could not fill at once."""

    order_id: int
    side: int
    price: int | None
    quantity: int
    reason: CancelReason


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


class Refreshed(msgspec.Struct, frozen=True):
    """An iceberg's tip was used up: the next one, ``shown`` lots, waits at the back; ``reserve`` lots stay hidden."""

    order_id: int
    side: int
    price: int
    shown: int
    reserve: int


class Waits(msgspec.Struct, frozen=True):
    """A stop has been taken in: it waits outside the book for a trade at ``trigger`` or beyond."""

    order_id: int
    side: int
    trigger: int
    quantity: int


class Triggered(msgspec.Struct, frozen=True):
    """A stop's trigger has traded: it now arrives as a market order, or as a limit order at ``price``."""

    order_id: int
    side: int
    trigger: int
    quantity: int
    price: int | None


class Decremented(msgspec.Struct, frozen=True):
    """Two orders of one owner met: ``quantity`` was taken off both and nothing traded."""

    price: int
    quantity: int
    maker: int
    taker: int
    taker_side: int
    maker_left: int
    taker_left: int
    level_left: int


class StateChanged(msgspec.Struct, frozen=True):
    """Trading goes over to ``state``. Out of an auction: ``volume`` lots will trade at ``price`` (None: nothing)."""

    state: State
    price: int | None
    volume: int


class Rejected(msgspec.Struct, frozen=True):
    """Nothing was done."""

    order_id: int
    action: Literal["submit", "cancel", "modify"]
    reason: RejectReason


Report = (
    Accepted
    | Trade
    | Rested
    | Cancelled
    | Slid
    | Modified
    | Withdrawn
    | Refreshed
    | Waits
    | Triggered
    | Decremented
    | StateChanged
    | Rejected
)
