"""What each market-by-order event is called and how it is explained: one template per kind of event and side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.events import book as marks_of
from core.markets.readers import forms
from core.markets.sided import SidedTexts, Text

if TYPE_CHECKING:
    import numpy as np

_STAY = "Best bid {bid:$}, best ask {ask:$}."
_LEVEL = "The level goes from {level_before} to {level}. "

# Each name stands for (buy order, sell order): the title and the detail of its steps.
_SIDED: dict[str, tuple[Text, Text]] = {
    "snapshot": (
        (
            "Order {order} was there before the file begins: {quantity} bid at {price:$}",
            "The file starts with the orders that rest already, each queue from its front. The level now shows {level}. " + _STAY,
        ),
        (
            "Order {order} was there before the file begins: {quantity} offered at {price:$}",
            "The file starts with the orders that rest already, each queue from its front. The level now shows {level}. " + _STAY,
        ),
    ),
    "improve": (
        (
            "Order {order} bids {quantity} at {price:$}: a new best bid",
            "The best bid was {bid_before:$}; this one is higher, so it stands alone in front: a quote moves the price without "
            "a trade. " + _STAY,
        ),
        (
            "Order {order} offers {quantity} at {price:$}: a new best ask",
            "The best ask was {ask_before:$}; this one is lower, so it stands alone in front: a quote moves the price without "
            "a trade. " + _STAY,
        ),
    ),
    "first": (
        (
            "Order {order} bids {quantity} at {price:$}: the only bid",
            "Nothing was bid before it, so it stands alone in front. " + _STAY,
        ),
        (
            "Order {order} offers {quantity} at {price:$}: the only offer",
            "Nothing was offered before it, so it stands alone in front. " + _STAY,
        ),
    ),
    "crosses": (
        (
            "Order {order} bids {quantity} at {price:$}: the book is crossed",
            "The best ask is {ask:$}. Where an exchange matches, the two would have traded at once. So either it collects orders "
            "for an auction, or an order shown here is long gone there and the file does not tell of its end.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}: the book is crossed",
            "The best bid is {bid:$}. Where an exchange matches, the two would have traded at once. So either it collects orders "
            "for an auction, or an order shown here is long gone there and the file does not tell of its end.",
        ),
    ),
    "join": (
        (
            "Order {order} bids {quantity} at {price:$}",
            "It waits behind {level_before} at this price: first price, then time. The level now shows {level}. " + _STAY,
        ),
        (
            "Order {order} offers {quantity} at {price:$}",
            "It waits behind {level_before} at this price: first price, then time. The level now shows {level}. " + _STAY,
        ),
    ),
    "duplicate": (
        (
            "Order {order} is added again: {quantity} bid at {price:$}",
            "An order of this id rests already. The new one takes its place, and the doctor counts it. " + _STAY,
        ),
        (
            "Order {order} is added again: {quantity} offered at {price:$}",
            "An order of this id rests already. The new one takes its place, and the doctor counts it. " + _STAY,
        ),
    ),
    "filled": (
        (
            "Order {order} leaves the bid at {price:$}: it is filled",
            "The fill was told before; now {quantity} leave the book. " + _LEVEL + _STAY,
        ),
        (
            "Order {order} leaves the offer at {price:$}: it is filled",
            "The fill was told before; now {quantity} leave the book. " + _LEVEL + _STAY,
        ),
    ),
    "cancel": (
        (
            "Order {order} takes back {quantity} of the bid at {price:$}",
            "Nobody traded; whoever stands behind moves up. " + _LEVEL + _STAY,
        ),
        (
            "Order {order} takes back {quantity} of the offer at {price:$}",
            "Nobody traded; whoever stands behind moves up. " + _LEVEL + _STAY,
        ),
    ),
    "cancel_best": (
        (
            "Order {order} is taken back and the best bid with it: {quantity} at {price:$}",
            "It was the last order at the best price. The best bid falls from {bid_before:$} to {bid:$} and nobody traded.",
        ),
        (
            "Order {order} is taken back and the best ask with it: {quantity} at {price:$}",
            "It was the last order at the best price. The best ask rises from {ask_before:$} to {ask:$} and nobody traded.",
        ),
    ),
    "cancel_last": (
        (
            "Order {order} is taken back: {quantity} at {price:$}, and nothing is bid any more",
            "It was the last bid, at any price, and nobody traded. A book with one side has no mid and no spread. " + _STAY,
        ),
        (
            "Order {order} is taken back: {quantity} at {price:$}, and nothing is offered any more",
            "It was the last offer, at any price, and nobody traded. A book with one side has no mid and no spread. " + _STAY,
        ),
    ),
    "kept": (
        (
            "Order {order} now bids {quantity} at {price:$} and keeps its place",
            "An order that only gets smaller keeps its place in the queue. " + _LEVEL + _STAY,
        ),
        (
            "Order {order} now offers {quantity} at {price:$} and keeps its place",
            "An order that only gets smaller keeps its place in the queue. " + _LEVEL + _STAY,
        ),
    ),
    "kept_filled": (
        (
            "Order {order} is filled in part: {quantity} still bid at {price:$}",
            "The fill was told before; what is left keeps its place in front. " + _LEVEL + _STAY,
        ),
        (
            "Order {order} is filled in part: {quantity} still offered at {price:$}",
            "The fill was told before; what is left keeps its place in front. " + _LEVEL + _STAY,
        ),
    ),
    "refreshed": (
        (
            "Order {order} shows {quantity} again at {price:$}: an iceberg refreshes its bid",
            "Its displayed part was filled and more than was left is shown: a hidden reserve. The new part goes to the back. "
            + _LEVEL
            + _STAY,
        ),
        (
            "Order {order} shows {quantity} again at {price:$}: an iceberg refreshes its offer",
            "Its displayed part was filled and more than was left is shown: a hidden reserve. The new part goes to the back. "
            + _LEVEL
            + _STAY,
        ),
    ),
    "moved": (
        (
            "Order {order} moves to {price:$} and bids {quantity} there, at the back",
            "A new price or a larger quantity costs the place in the queue. The level it joins goes from {level_before} to "
            "{level}. " + _STAY,
        ),
        (
            "Order {order} moves to {price:$} and offers {quantity} there, at the back",
            "A new price or a larger quantity costs the place in the queue. The level it joins goes from {level_before} to "
            "{level}. " + _STAY,
        ),
    ),
    "trade": (
        (
            "A buyer takes {quantity} at {price:$}",
            "The tape's print. By itself it changes no level: the orders that were hit follow. " + _STAY,
        ),
        (
            "A seller gives {quantity} at {price:$}",
            "The tape's print. By itself it changes no level: the orders that were hit follow. " + _STAY,
        ),
    ),
    "fill": (
        (
            "Order {order} is hit: {quantity} of its bid at {price:$}",
            "The maker's side of the trade. The level changes with the record that follows in the same event. " + _STAY,
        ),
        (
            "Order {order} is lifted: {quantity} of its offer at {price:$}",
            "The maker's side of the trade. The level changes with the record that follows in the same event. " + _STAY,
        ),
    ),
    "own_fill": (
        (
            "Order {order}, the buyer itself, is filled with {quantity} at {price:$}",
            "The aggressor's own side of the trade. It took before it rested, so no level changes. " + _STAY,
        ),
        (
            "Order {order}, the seller itself, is filled with {quantity} at {price:$}",
            "The aggressor's own side of the trade. It took before it rested, so no level changes. " + _STAY,
        ),
    ),
    "execute": (
        (
            "A seller hits the bid: {quantity} from order {order} at {price:$}",
            "The resting bid is the maker, the incoming sell order the taker. " + _LEVEL + _STAY,
        ),
        (
            "A buyer lifts the ask: {quantity} from order {order} at {price:$}",
            "The resting offer is the maker, the incoming buy order the taker. " + _LEVEL + _STAY,
        ),
    ),
    "execute_best": (
        (
            "A seller empties the bid at {price:$}: {quantity} from order {order}",
            "It was the last order there. The best bid falls from {bid_before:$} to {bid:$}: a trade moves the price when it "
            "uses up a level.",
        ),
        (
            "A buyer empties the ask at {price:$}: {quantity} from order {order}",
            "It was the last order there. The best ask rises from {ask_before:$} to {ask:$}: a trade moves the price when it "
            "uses up a level.",
        ),
    ),
    "execute_last": (
        (
            "A seller empties the bid at {price:$}: {quantity} from order {order}",
            "It was the last bid, at any price: nothing is bid any more. A book with one side has no mid and no spread. " + _STAY,
        ),
        (
            "A buyer empties the ask at {price:$}: {quantity} from order {order}",
            "It was the last offer, at any price: nothing is offered any more. A book with one side has no mid and no spread. " + _STAY,
        ),
    ),
    "hidden": (
        ("{quantity} trade with a hidden bid at {price:$}", "It was never displayed, so no level changes. " + _STAY),
        ("{quantity} trade with a hidden offer at {price:$}", "It was never displayed, so no level changes. " + _STAY),
    ),
}
_PLAIN: dict[str, Text] = {
    "unknown": (
        "Order {order} is not in this book: {quantity} at {price:$}",
        "The file never told of this order's arrival, so there is nothing to take from. The book stays as it is. " + _STAY,
    ),
    "clear": ("The book is emptied", "The exchange sends the whole book anew after this."),
    "auction_trade": (
        "The auction trades {quantity} at {price:$}",
        "Both sides meet at one price and nobody is the aggressor. The orders that traded follow. " + _STAY,
    ),
    "auction_fill": ("Order {order} trades {quantity} in the auction at {price:$}", "It leaves its level with a later record. " + _STAY),
    "hidden_plain": (
        "{quantity} trade out of sight at {price:$}",
        "A trade with an order that was not displayed; no level changes. " + _STAY,
    ),
    "cross": ("A cross (auction) trades {quantity} at {price:$}", "Many orders meet at one price. It changes no level by itself. " + _STAY),
    "halt": ("The trading state changes", "In a halt orders can be placed or taken back, and nothing trades. " + _STAY),
    "none": ("A record without effect on the book", "It is in the file, and it changes no level. " + _STAY),
}
_TEXTS = SidedTexts(_SIDED, _PLAIN)
TEMPLATES = _TEXTS.templates


def step_kinds(
    action: np.ndarray, side: np.ndarray, marks: np.ndarray, snapshot: np.ndarray, best_moved: np.ndarray, crossed: np.ndarray,
    alone: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Index into `TEMPLATES` for each event. All arrays (events,).

    best_moved: the best price of its side is another now; crossed: a book, where it may be read, whose best bid is not below
    its best ask; alone: its side was empty before the event or is after it.
    """
    import numpy as np

    def has(mark: int) -> np.ndarray:
        found: np.ndarray = (marks & mark) > 0
        return found

    add, cancel, modify = action == forms.ADD, (action == forms.CANCEL) | (action == forms.DELETE), action == forms.MODIFY
    executed = action == forms.EXECUTE
    cases: dict[str, np.ndarray] = {
        "unknown": has(marks_of.UNKNOWN) & (action != forms.TRADE),
        "clear": action == forms.CLEAR,
        "duplicate": has(marks_of.DUPLICATE),
        "snapshot": snapshot & add,
        "crosses": add & best_moved & crossed,
        "first": add & best_moved & alone,
        "improve": add & best_moved,
        "join": add,
        "filled": cancel & has(marks_of.FILLED),
        "cancel_last": cancel & best_moved & alone,
        "cancel_best": cancel & best_moved,
        "cancel": cancel,
        "refreshed": modify & has(marks_of.REFRESHED),
        "kept_filled": modify & has(marks_of.KEPT) & has(marks_of.FILLED),
        "kept": modify & has(marks_of.KEPT),
        "moved": modify,
        "auction_trade": (action == forms.TRADE) & (side == 0),
        "trade": action == forms.TRADE,
        "own_fill": has(marks_of.OWN_FILL),
        "auction_fill": (action == forms.FILL) & (side == 0),
        "fill": action == forms.FILL,
        "execute_last": executed & best_moved & alone,
        "execute_best": executed & best_moved,
        "execute": executed,
        "hidden_plain": (action == forms.HIDDEN) & (side == 0),
        "hidden": action == forms.HIDDEN,
        "cross": action == forms.CROSS,
        "halt": action == forms.HALT,
        "none": np.ones(len(action), dtype=bool),
    }
    return _TEXTS.kinds(cases, side < 0)
