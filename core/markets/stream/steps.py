"""What each message of a stream and each of its matches is called: templates by name and side (buy, sell)."""

from __future__ import annotations

from core.markets.sided import SidedTexts, Text

_NOW = " Best bid {bid}, best ask {ask}."

_OPENS = "A limit order, and no level stood there: it opens one and waits as a maker." + _NOW
_STAYS = "It does not grow and stays at its price, so it loses no turn." + _NOW
_ANEW = "A modify takes it out of its queue and sends it anew: it waits behind {ahead} lots." + _NOW
_MEETS = "A modify sends it anew, and at its new price it meets {fills:maker|makers}." + _NOW
_UNKNOWN = "It was filled or cancelled before, or never came: nothing changes." + _NOW
_SERVED_BY_ASKS = "Order {maker} waited longest at the best ask, so it is served now, at its own price. "
_SERVED_BY_BIDS = "Order {maker} waited longest at the best bid, so it is served now, at its own price. "
_SIDED: dict[str, tuple[Text, Text]] = {
    "first": (
        ("Order {order} bids {quantity} at {price}", _OPENS),
        ("Order {order} offers {quantity} at {price}", _OPENS),
    ),
    "best": (
        ("Order {order} bids {quantity} at {price}, the new best bid", "Nobody bid as much: the mid moves without any trade." + _NOW),
        (
            "Order {order} offers {quantity} at {price}, the new best ask",
            "Nobody offered for as little: the mid moves without any trade." + _NOW,
        ),
    ),
    "joins": (
        ("Order {order} bids {quantity} at {price}", "It reaches no offer and waits behind {ahead} lots at its price." + _NOW),
        ("Order {order} offers {quantity} at {price}", "It reaches no bid and waits behind {ahead} lots at its price." + _NOW),
    ),
    "match": (
        ("Match {fills}: order {order} buys {quantity} from order {maker} at {price}", _SERVED_BY_ASKS + "More of it follows." + _NOW),
        ("Match {fills}: order {order} sells {quantity} to order {maker} at {price}", _SERVED_BY_BIDS + "More of it follows." + _NOW),
    ),
    "filled_at_once": (
        (
            "Order {order} buys {quantity} from order {maker} at {price}",
            "It reached the ask: it is the taker. " + _SERVED_BY_ASKS + "That is all it wanted, so nothing of it rests." + _NOW,
        ),
        (
            "Order {order} sells {quantity} to order {maker} at {price}",
            "It reached the bid: it is the taker. " + _SERVED_BY_BIDS + "That is all it had, so nothing of it rests." + _NOW,
        ),
    ),
    "filled": (
        (
            "Match {fills}, the last: order {order} buys {quantity} from order {maker} at {price}",
            "It has bought {traded} in all, from {fills:maker|makers} in turn, best price and oldest order first. Nothing of it rests."
            + _NOW,
        ),
        (
            "Match {fills}, the last: order {order} sells {quantity} to order {maker} at {price}",
            "It has sold {traded} in all, to {fills:maker|makers} in turn, best price and oldest order first. Nothing of it rests." + _NOW,
        ),
    ),
    "part": (
        (
            "Order {order} buys {traded} of {quantity}; the rest bids at {price}",
            "It took all that was offered up to its limit, from {fills:maker|makers}, and what it still wants is now the best bid." + _NOW,
        ),
        (
            "Order {order} sells {traded} of {quantity}; the rest is offered at {price}",
            "It took all that was bid down to its limit, from {fills:maker|makers}, and what it still has is now the best ask." + _NOW,
        ),
    ),
    "ioc": (
        (
            "Order {order} buys {traded} of {quantity} at up to {price}, the rest is cancelled",
            "Immediate or cancel: {fills:maker|makers} served it, and what they could not fill never waits." + _NOW,
        ),
        (
            "Order {order} sells {traded} of {quantity} at down to {price}, the rest is cancelled",
            "Immediate or cancel: {fills:maker|makers} served it, and what they could not fill never waits." + _NOW,
        ),
    ),
    "cancel": (
        ("Order {order} takes back its {quantity} bid at {price}", "The orders behind it move up; none of it ever trades." + _NOW),
        ("Order {order} takes back its {quantity} offered at {price}", "The orders behind it move up; none of it ever trades." + _NOW),
    ),
    "kept": (
        ("Order {order} now bids {quantity} at {price} and keeps its place", _STAYS),
        ("Order {order} now offers {quantity} at {price} and keeps its place", _STAYS),
    ),
    "moved": (
        ("Order {order} now bids {quantity} at {price}", _ANEW),
        ("Order {order} now offers {quantity} at {price}", _ANEW),
    ),
    "moved_fills": (
        ("Order {order} moves to {price} and buys {traded} of {quantity}", _MEETS),
        ("Order {order} moves to {price} and sells {traded} of {quantity}", _MEETS),
    ),
}
_PLAIN: dict[str, Text] = {
    "unknown_cancel": ("A cancel of order {order}, which does not rest", _UNKNOWN),
    "unknown_modify": ("A modify of order {order}, which does not rest", _UNKNOWN),
    "refused": ("Order {order} is refused", "Its number rests already, or its quantity or price is out of range: nothing changes." + _NOW),
}

_TEXTS = SidedTexts(_SIDED, _PLAIN)
TEMPLATES = _TEXTS.templates
step_kinds = _TEXTS.kinds
