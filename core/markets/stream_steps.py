"""What each message of a stream is called and what it did: templates by name and side (buy, sell)."""

from __future__ import annotations

Text = tuple[str, str]
_NOW = " Best bid {bid}, best ask {ask}."

_OPENS = "A limit order, and no level stood there: it opens one and waits as a maker." + _NOW
_STAYS = "It does not grow and stays at its price, so it loses no turn." + _NOW
_ANEW = "A modify takes it out of its queue and sends it anew: it waits behind {ahead} lots." + _NOW
_MEETS = "A modify sends it anew, and at its new price it meets {fills} makers." + _NOW
_UNKNOWN = "It was filled or cancelled before, or never came: nothing changes." + _NOW
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
    "fills": (
        (
            "Order {order} buys {traded} of {quantity} at up to {price}",
            "It reached the ask: it is the taker, served by {fills} makers in turn, best price and oldest order first. Nothing of it rests."
            + _NOW,
        ),
        (
            "Order {order} sells {traded} of {quantity} at down to {price}",
            "It reached the bid: it is the taker, served by {fills} makers in turn, best price and oldest order first. Nothing of it rests."
            + _NOW,
        ),
    ),
    "part": (
        (
            "Order {order} buys {traded} of {quantity}; the rest bids at {price}",
            "It took all that was offered up to its limit, from {fills} makers, and what it still wants is now the best bid." + _NOW,
        ),
        (
            "Order {order} sells {traded} of {quantity}; the rest is offered at {price}",
            "It took all that was bid down to its limit, from {fills} makers, and what it still has is now the best ask." + _NOW,
        ),
    ),
    "ioc": (
        (
            "Order {order} buys {traded} of {quantity} at up to {price}, the rest is cancelled",
            "Immediate or cancel: {fills} makers served it, and what they could not fill never waits." + _NOW,
        ),
        (
            "Order {order} sells {traded} of {quantity} at down to {price}, the rest is cancelled",
            "Immediate or cancel: {fills} makers served it, and what they could not fill never waits." + _NOW,
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

_NAMES = [*_SIDED, *_PLAIN]
TEMPLATES: list[Text] = [text for pair in _SIDED.values() for text in pair] + list(_PLAIN.values())


def code(name: str) -> int:
    """Index of the buy template of ``name`` (its sell template follows), or of its only one."""
    at = _NAMES.index(name)
    return 2 * at if name in _SIDED else len(_SIDED) + at
