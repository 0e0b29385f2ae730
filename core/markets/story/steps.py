"""What each happening in the book is called and why it happened: templates by name and side (buy, sell)."""

from __future__ import annotations

from core.markets.matching.book import BUY
from core.markets.sided import Text

ARRIVALS: dict[str, tuple[Text, Text]] = {
    "limit_first": (
        (
            "Order {order} bids {quantity} at {price:$} or better",
            "A limit order. Nobody offers anything yet, so there is nothing to buy. It will wait as a maker.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} or better",
            "A limit order. Nobody bids anything yet, so there is nobody to sell to. It will wait as a maker.",
        ),
    ),
    "limit_rests": (
        (
            "Order {order} bids {quantity} at {price:$} or better",
            "A limit order. The best ask is {ask:$}; {price:$} does not reach it, so nobody can sell to it now. It will wait as a maker.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} or better",
            "A limit order. The best bid is {bid:$}; {price:$} does not reach it, so nobody can buy from it now. It will wait as a maker.",
        ),
    ),
    "limit_takes": (
        (
            "Order {order} bids {quantity} at {price:$} or better and reaches the ask",
            "A limit order. The best ask is {ask:$} and this bid would pay up to {price:$}, so it trades at once: it is the taker, "
            "and it gets the maker's price, not its own.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} or better and reaches the bid",
            "A limit order. The best bid is {bid:$} and this offer would take down to {price:$}, so it trades at once: it is the taker, "
            "and it gets the maker's price, not its own.",
        ),
    ),
    "market": (
        (
            "Order {order} buys {quantity} at any price",
            "A market order: it takes from the lowest ask upwards until it is filled. The best ask is {ask:$}. "
            "What cannot be filled is cancelled; it never rests.",
        ),
        (
            "Order {order} sells {quantity} at any price",
            "A market order: it takes from the highest bid downwards until it is filled. The best bid is {bid:$}. "
            "What cannot be filled is cancelled; it never rests.",
        ),
    ),
    "sweep": (
        (
            "The sweep: order {order} buys {quantity} at any price",
            "The best ask {ask:$} holds only {best_quantity}. A taker larger than the best level must go on to the next price: "
            "watch the level empty and the mid jump.",
        ),
        (
            "The sweep: order {order} sells {quantity} at any price",
            "The best bid {bid:$} holds only {best_quantity}. A taker larger than the best level must go on to the next price: "
            "watch the level empty and the mid jump.",
        ),
    ),
    "ioc": (
        (
            "Order {order} buys {quantity} up to {price:$}, immediate or cancel",
            "{available} stand at {price:$} or lower. It takes what it wants of them now and never waits: what is left is cancelled. "
            "The best ask is {ask:$}.",
        ),
        (
            "Order {order} sells {quantity} down to {price:$}, immediate or cancel",
            "{available} are bid at {price:$} or higher. It sells to them now and never waits: what is left is cancelled. "
            "The best bid is {bid:$}.",
        ),
    ),
    "fok": (
        (
            "Order {order} buys {quantity} up to {price:$}, all or nothing",
            "Fill or kill: {available} can be had at {price:$} or lower, {quantity} are wanted. It is counted before anything trades, "
            "so a FOK is never filled in part.",
        ),
        (
            "Order {order} sells {quantity} down to {price:$}, all or nothing",
            "Fill or kill: {available} can be sold at {price:$} or higher, {quantity} are wanted. It is counted before anything trades, "
            "so a FOK is never filled in part.",
        ),
    ),
    "post_only": (
        (
            "Order {order} bids {quantity} at {price:$}, post only",
            "It wants to be a maker and never a taker: it may rest below the best ask {ask:$} but not reach it.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}, post only",
            "It wants to be a maker and never a taker: it may rest above the best bid {bid:$} but not reach it.",
        ),
    ),
}

TRADES: dict[str, tuple[Text, Text]] = {
    "part": (
        (
            "Order {taker} buys {quantity} at {price:$} and takes from order {maker}",
            "Order {maker} is at the best ask and the oldest there, so it is first. It is larger: it keeps {maker_left} and stays in "
            "front. Best ask {ask:$} and mid {mid:$} do not move.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} and gives to order {maker}",
            "Order {maker} is at the best bid and the oldest there, so it is first. It is larger: it keeps {maker_left} and stays in "
            "front. Best bid {bid:$} and mid {mid:$} do not move.",
        ),
    ),
    "whole": (
        (
            "Order {taker} buys {quantity} at {price:$} and takes all of order {maker}",
            "Order {maker} is at the best ask and the oldest there, so it is first. It is filled and leaves; {level_left} more wait at "
            "{price:$}, so the best ask and the mid {mid:$} do not move. The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} and fills all of order {maker}",
            "Order {maker} is at the best bid and the oldest there, so it is first. It is filled and leaves; {level_left} more wait at "
            "{price:$}, so the best bid and the mid {mid:$} do not move. The taker still wants {taker_left}.",
        ),
    ),
    "level": (
        (
            "Order {taker} buys {quantity} from order {maker} and empties {price:$}: the mid rises",
            "Order {maker} was the last at the best ask. The best ask goes from {price:$} to {ask:$} and the mid from {mid_before:$} to "
            "{mid:$}. The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} to order {maker} and empties {price:$}: the mid falls",
            "Order {maker} was the last at the best bid. The best bid goes from {price:$} to {bid:$} and the mid from {mid_before:$} to "
            "{mid:$}. The taker still wants {taker_left}.",
        ),
    ),
    "sweep_level": (
        (
            "The sweep empties {price:$}: the mid jumps from {mid_before:$} to {mid:$}",
            "Order {taker} took the last {quantity} from order {maker}; nothing is offered at {price:$} any more, and the best ask is now "
            "{ask:$}. It still wants {taker_left} and goes on there. No new information was needed: size alone moved the price.",
        ),
        (
            "The sweep empties {price:$}: the mid jumps from {mid_before:$} to {mid:$}",
            "Order {taker} gave the last {quantity} to order {maker}; nothing is bid at {price:$} any more, so the best bid is now "
            "{bid:$}. It still wants {taker_left} and goes on there. No new information was needed: size alone moved the price.",
        ),
    ),
}

RESTS: dict[str, tuple[Text, Text]] = {
    "first": (
        (
            "Order {order} rests: {quantity} at {price:$}, the only bid",
            "No other bid is in the book, so this is the best one. Spread {spread:$}, mid {mid:$}.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, the only offer",
            "No other offer is in the book, so this is the best one. Spread {spread:$}, mid {mid:$}.",
        ),
    ),
    "first_alone": (
        (
            "Order {order} rests: {quantity} at {price:$}, the only bid",
            "No other bid is in the book, so this is the best one. Nobody offers anything yet, so there is no spread and no mid.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, the only offer",
            "No other offer is in the book, so this is the best one. Nobody bids anything yet, so there is no spread and no mid.",
        ),
    ),
    "best_alone": (
        (
            "Order {order} rests: {quantity} at {price:$}, a new best bid",
            "It is higher than the best bid {bid_before:$}, so it stands alone in front. Nobody offers anything, so there is no mid.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, a new best ask",
            "It is lower than the best ask {ask_before:$}, so it stands alone in front. Nobody bids anything, so there is no mid.",
        ),
    ),
    "queue_alone": (
        (
            "Order {order} rests: {quantity} at {price:$}, behind {ahead}",
            "First price, then time: {ahead} shares came to {price:$} earlier and trade first. Nobody offers anything, so there is no mid.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, behind {ahead}",
            "First price, then time: {ahead} shares came to {price:$} earlier and trade first. Nobody bids anything, so there is no mid.",
        ),
    ),
    "deeper_alone": (
        (
            "Order {order} rests: {quantity} at {price:$}, alone there",
            "Nobody else bids {price:$}, but everything up to the best bid {bid:$} trades before it. Nobody offers anything, so there is "
            "no mid.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, alone there",
            "Nobody else offers at {price:$}, but everything down to the best ask {ask:$} trades before it. Nobody bids anything, so "
            "there is no mid.",
        ),
    ),
    "best": (
        (
            "Order {order} rests: {quantity} at {price:$}, a new best bid",
            "It is higher than the best bid {bid_before:$}, so it stands alone in front. The spread is now {spread:$}, the mid {mid:$}: "
            "a quote moves the mid without a trade.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, a new best ask",
            "It is lower than the best ask {ask_before:$}, so it stands alone in front. The spread is now {spread:$}, the mid {mid:$}: "
            "a quote moves the mid without a trade.",
        ),
    ),
    "queue": (
        (
            "Order {order} rests: {quantity} at {price:$}, behind {ahead}",
            "First price, then time: {ahead} shares came to {price:$} earlier and trade first. Best bid {bid:$} and mid {mid:$} stay.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, behind {ahead}",
            "First price, then time: {ahead} shares came to {price:$} earlier and trade first. Best ask {ask:$} and mid {mid:$} stay.",
        ),
    ),
    "deeper": (
        (
            "Order {order} rests: {quantity} at {price:$}, alone there",
            "Nobody else bids {price:$}, but everything up to the best bid {bid:$} trades before it. The mid {mid:$} stays.",
        ),
        (
            "Order {order} rests: {quantity} at {price:$}, alone there",
            "Nobody else offers at {price:$}, but everything down to the best ask {ask:$} trades before it. The mid {mid:$} stays.",
        ),
    ),
}

CANCELS: dict[str, Text] = {
    "cancel": (
        "Order {order} is cancelled: {quantity} at {price:$}",
        "Its owner takes it back; whoever stood behind it moves up. Best bid {bid:$}, best ask {ask:$}, mid {mid:$}. No trade.",
    ),
    "ioc": (
        "The rest of order {order} is cancelled: {quantity}",
        "Immediate or cancel: nothing more stands at {price:$} or better, and it does not wait. Best bid {bid:$}, best ask {ask:$}.",
    ),
    "fok": (
        "Order {order} is killed: all {quantity}",
        "Fill or kill: less than {quantity} can be filled at {price:$} or better, so nothing at all trades and the book stays as it was.",
    ),
    "market": (
        "The rest of order {order} is cancelled: {quantity}",
        "A market order never rests, and nothing is left on the other side to take.",
    ),
}

CHANGES: dict[str, Text] = {
    "kept": (
        "Order {order} shrinks from {old_quantity} to {quantity} and keeps its place",
        "modify_rule keep_on_decrease: the price stays and the quantity only falls, so nobody behind it is worse off. "
        "Its {quantity} at {price:$} stay where they were in the queue.",
    ),
    "withdrawn": (
        "Order {order} leaves its place at {price:$} to be changed",
        "This change costs the place in the queue: all {quantity} leave, and the order comes back like a new one "
        "with {new_quantity} at {new_price:$}. Under modify_rule benchmark every change does that; under keep_on_decrease all "
        "but a smaller quantity at the same price.",
    ),
    "changed": (
        "Order {order} is now {quantity} at {price:$} instead of {old_quantity} at {old_price:$}",
        "It was matched at its new price like a new arrival. {left} of it are left to rest at the back of the queue.",
    ),
    "slid": (
        "Order {order} slides from {wanted:$} to {price:$}",
        "Post only: at {wanted:$} it would trade, so it moves to the nearest price that does not and stays a maker.",
    ),
    "post_only": (
        "Order {order} is rejected: it would take",
        "Post only: at {price:$} it reaches the other side (bid {bid:$}, ask {ask:$}). "
        "The rule is to refuse it rather than make it a taker.",
    ),
    "unknown_order": ("Order {order} is not in the book", "It has been filled or cancelled before. Nothing happens."),
    "refused": ("Order {order} is refused", "The message is not valid ({reason}). Nothing happens."),
}


def sided(pair: tuple[Text, Text], side: int) -> Text:
    """The buy or the sell text of a pair."""
    return pair[0] if side == BUY else pair[1]
