"""What each LOBSTER event is called and how it is explained: one template per kind of event and side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.lobster.reader import CROSS, DELETION, EXECUTION, HALT, HIDDEN_EXECUTION, PARTIAL_CANCEL, SUBMISSION
from core.markets.sided import SidedTexts, Text

if TYPE_CHECKING:
    import numpy as np

EVENT_NAMES = ("", "submission", "partial cancel", "deletion", "execution", "hidden execution", "cross", "halt")

# Each name stands for (buy order, sell order): the title and the detail of its steps.
_SIDED: dict[str, tuple[Text, Text]] = {
    "improve": (
        (
            "Order {order} bids {quantity} at {price:$}: a new best bid",
            "The best bid was {bid_before:$}; this one is higher, so it stands alone in front. The spread goes from "
            "{spread_before:$} to {spread:$} and the mid from {mid_before:$} to {mid:$}: a quote moves the price without a trade.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}: a new best ask",
            "The best ask was {ask_before:$}; this one is lower, so it stands alone in front. The spread goes from "
            "{spread_before:$} to {spread:$} and the mid from {mid_before:$} to {mid:$}: a quote moves the price without a trade.",
        ),
    ),
    "join": (
        (
            "Order {order} bids {quantity} at {price:$}",
            "It waits behind {level_before} that came to this price before it: first price, then time. "
            "The level now shows {level}. Best bid {bid:$} and best ask {ask:$} stay.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}",
            "It waits behind {level_before} that came to this price before it: first price, then time. "
            "The level now shows {level}. Best bid {bid:$} and best ask {ask:$} stay.",
        ),
    ),
    "open": (
        (
            "Order {order} bids {quantity} at {price:$}, a level of its own",
            "Nobody was bidding this price in the visible book. It is behind the best bid {bid:$} in price, so it trades only "
            "when the bids above it are gone. Best bid {bid:$} and best ask {ask:$} stay.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}, a level of its own",
            "Nobody was offering at this price in the visible book. It is behind the best ask {ask:$} in price, so it trades only "
            "when the asks below it are gone. Best bid {bid:$} and best ask {ask:$} stay.",
        ),
    ),
    "shrink": (
        (
            "Order {order} takes back {quantity} of its bid at {price:$}",
            "A partial cancel: the rest of the order keeps its place in the queue. The level goes from {level_before} to {level}. "
            "No trade: volume stays {volume:count}.",
        ),
        (
            "Order {order} takes back {quantity} of its offer at {price:$}",
            "A partial cancel: the rest of the order keeps its place in the queue. The level goes from {level_before} to {level}. "
            "No trade: volume stays {volume:count}.",
        ),
    ),
    "delete": (
        (
            "Order {order} is deleted: {quantity} bid at {price:$}",
            "Whoever stood behind it moves up. The level goes from {level_before} to {level}. "
            "No trade: volume stays {volume:count}, best bid {bid:$}, best ask {ask:$}.",
        ),
        (
            "Order {order} is deleted: {quantity} offered at {price:$}",
            "Whoever stood behind it moves up. The level goes from {level_before} to {level}. "
            "No trade: volume stays {volume:count}, best bid {bid:$}, best ask {ask:$}.",
        ),
    ),
    "delete_last": (
        (
            "Order {order} is deleted and its level with it: {quantity} bid at {price:$}",
            "It was alone at this price, behind the best bid. The next bids count one level less. No trade: volume stays {volume:count}, "
            "best bid {bid:$}, best ask {ask:$}.",
        ),
        (
            "Order {order} is deleted and its level with it: {quantity} offered at {price:$}",
            "It was alone at this price, behind the best ask. The next offers count one level less. No trade: volume stays {volume:count}, "
            "best bid {bid:$}, best ask {ask:$}.",
        ),
    ),
    "delete_best": (
        (
            "Order {order} is deleted and the best bid with it: {quantity} at {price:$}",
            "It was the last order at the best price. The best bid falls from {bid_before:$} to {bid:$}, the mid from "
            "{mid_before:$} to {mid:$}: the price moved and nobody traded.",
        ),
        (
            "Order {order} is deleted and the best ask with it: {quantity} at {price:$}",
            "It was the last order at the best price. The best ask rises from {ask_before:$} to {ask:$}, the mid from "
            "{mid_before:$} to {mid:$}: the price moved and nobody traded.",
        ),
    ),
    "execute": (
        (
            "A seller hits the bid: {quantity} from order {order} at {price:$}",
            "The resting bid is the maker, the incoming sell order the taker. The level goes from {level_before} to {level}, so the "
            "best bid {bid:$} holds and the mid stays {mid:$}. Volume is now {volume:count}.",
        ),
        (
            "A buyer lifts the ask: {quantity} from order {order} at {price:$}",
            "The resting offer is the maker, the incoming buy order the taker. The level goes from {level_before} to {level}, so the "
            "best ask {ask:$} holds and the mid stays {mid:$}. Volume is now {volume:count}.",
        ),
    ),
    "execute_best": (
        (
            "A seller empties the bid at {price:$}: {quantity} from order {order}, and the mid falls",
            "It was the last order there. The best bid falls from {bid_before:$} to {bid:$} and the mid from {mid_before:$} to "
            "{mid:$}: a trade moves the price when it uses up a level. Volume is now {volume:count}.",
        ),
        (
            "A buyer empties the ask at {price:$}: {quantity} from order {order}, and the mid rises",
            "It was the last order there. The best ask rises from {ask_before:$} to {ask:$} and the mid from {mid_before:$} to "
            "{mid:$}: a trade moves the price when it uses up a level. Volume is now {volume:count}.",
        ),
    ),
    "unseen": (
        (
            "Order {order}, which this book never saw, changes by {quantity} bid at {price:$}",
            "Its submission lies before the first message, and only an orderbook file would show it. The rebuilt book has no such "
            "quantity at this price and stays as it is. Volume is now {volume:count}.",
        ),
        (
            "Order {order}, which this book never saw, changes by {quantity} offered at {price:$}",
            "Its submission lies before the first message, and only an orderbook file would show it. The rebuilt book has no such "
            "quantity at this price and stays as it is. Volume is now {volume:count}.",
        ),
    ),
    "hidden": (
        (
            "A seller trades {quantity} with a hidden bid at {price:$}",
            "The bid was never displayed, so no level of the ladder changes. Best bid {bid:$}, best ask {ask:$}, mid {mid:$} stay; "
            "volume is now {volume:count}.",
        ),
        (
            "A buyer trades {quantity} with a hidden offer at {price:$}",
            "The offer was never displayed, so no level of the ladder changes. Best bid {bid:$}, best ask {ask:$}, mid {mid:$} stay; "
            "volume is now {volume:count}.",
        ),
    ),
}
_PLAIN: dict[str, Text] = {
    "hidden_unsigned": (
        "{quantity} trade with a hidden order at {price:$}",
        "The file does not say which side was hidden. No level of the ladder changes: best bid {bid:$}, best ask {ask:$}, "
        "mid {mid:$} stay; volume is now {volume:count}.",
    ),
    "cross": (
        "A cross (auction) trades {quantity} at {price:$}",
        "Many orders meet at one price. Its message changes no level by itself. Best bid {bid:$}, best ask {ask:$}; "
        "volume is now {volume:count}.",
    ),
    "halt": (
        "Trading halts",
        "From here on orders can still be placed or deleted, but nothing trades. Best bid {bid:$}, best ask {ask:$}.",
    ),
    "quote": ("Quoting resumes", "Orders are shown again before trading goes on. Best bid {bid:$}, best ask {ask:$}."),
    "resume": ("Trading resumes", "Orders can trade again. Best bid {bid:$}, best ask {ask:$}."),
}

_TEXTS = SidedTexts(_SIDED, _PLAIN)
TEMPLATES = _TEXTS.templates


def step_kinds(
    type: np.ndarray,
    price: np.ndarray,
    direction: np.ndarray,
    size: np.ndarray,
    level_before: np.ndarray,
    level: np.ndarray,
    best_moved: np.ndarray,
) -> np.ndarray:
    """Index into `TEMPLATES` for each event. All arrays (events,).

    level_before, level: what the event's side shows at its price in the row before and in its own; best_moved: the best price
    of its side is another one than before.
    """
    submitted, deleted, executed, state = type == SUBMISSION, type == DELETION, type == EXECUTION, type == HALT
    cases = {
        "unseen": (type >= PARTIAL_CANCEL) & (type <= EXECUTION) & (level_before < size),
        "improve": submitted & best_moved,
        "open": submitted & (level_before == 0),
        "join": submitted,
        "shrink": type == PARTIAL_CANCEL,
        "delete_best": deleted & best_moved,
        "delete_last": deleted & (level == 0),
        "delete": deleted,
        "execute_best": executed & best_moved,
        "execute": executed,
        "hidden_unsigned": (type == HIDDEN_EXECUTION) & (direction == 0),
        "hidden": type == HIDDEN_EXECUTION,
        "cross": type == CROSS,
        "halt": state & (price < 0),
        "quote": state & (price == 0),
        "resume": state,
    }
    return _TEXTS.kinds(cases, direction < 0)
