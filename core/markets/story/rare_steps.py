"""What happens to icebergs, stops, orders of one owner, and in auctions and halts: templates by name and side (buy, sell)."""

from __future__ import annotations

from core.markets.sided import Text

ARRIVALS: dict[str, tuple[Text, Text]] = {
    "market_alone": (
        (
            "Order {order} buys {quantity} at any price",
            "A market order takes what is offered, and nobody offers anything: there is no best ask. It never rests.",
        ),
        (
            "Order {order} sells {quantity} at any price",
            "A market order gives to who bids, and nobody bids anything: there is no best bid. It never rests.",
        ),
    ),
    "iceberg": (
        (
            "Order {order} bids {quantity} at {price:$} and shows only {tip}",
            "An iceberg: the book displays {tip} of it at a time. The other {reserve} are hidden and have no place in the queue: "
            "they trade only after everything that is displayed at {price:$}.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} and shows only {tip}",
            "An iceberg: the book displays {tip} of it at a time. The other {reserve} are hidden and have no place in the queue: "
            "they trade only after everything that is displayed at {price:$}.",
        ),
    ),
    "hidden": (
        (
            "Order {order} bids {quantity} at {price:$}, hidden",
            "Nobody will see it in the book. The price of hiding: whatever is displayed at {price:$} trades before it, even if it came "
            "later.",
        ),
        (
            "Order {order} offers {quantity} at {price:$}, hidden",
            "Nobody will see it in the book. The price of hiding: whatever is displayed at {price:$} trades before it, even if it came "
            "later.",
        ),
    ),
    "meets_hidden": (
        (
            "Order {order} bids {quantity} at {price:$} or better",
            "The best displayed ask is {ask:$}, out of reach. But a hidden offer stands at {price:$} or lower: they trade, and only now "
            "the others learn that it was there.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} or better",
            "The best displayed bid is {bid:$}, out of reach. But a hidden bid stands at {price:$} or higher: they trade, and only now "
            "the others learn that it was there.",
        ),
    ),
    "stop": (
        (
            "Order {order} is a stop: buy {quantity} at any price once {trigger:$} trades",
            "It is not in the book yet. When a trade prints at {trigger:$} or higher it becomes a market order. "
            "So those who have sold short limit their loss.",
        ),
        (
            "Order {order} is a stop: sell {quantity} at any price once {trigger:$} trades",
            "It is not in the book yet. When a trade prints at {trigger:$} or lower it becomes a market order. "
            "So those who own the shares limit their loss.",
        ),
    ),
    "stop_limit": (
        (
            "Order {order} is a stop limit: once {trigger:$} trades, buy {quantity} up to {price:$}",
            "It is not in the book yet. When a trade prints at {trigger:$} or higher it becomes a limit order: it never pays more than "
            "{price:$}, and may stay unfilled.",
        ),
        (
            "Order {order} is a stop limit: once {trigger:$} trades, sell {quantity} down to {price:$}",
            "It is not in the book yet. When a trade prints at {trigger:$} or lower it becomes a limit order: it never sells below "
            "{price:$}, and may stay unfilled.",
        ),
    ),
    "collected": (
        (
            "Order {order} bids {quantity} at {price:$} into the auction",
            "In an auction orders are collected and nothing trades yet, even where a bid reaches an offer.",
        ),
        (
            "Order {order} offers {quantity} at {price:$} into the auction",
            "In an auction orders are collected and nothing trades yet, even where an offer reaches a bid.",
        ),
    ),
}

TRADES: dict[str, tuple[Text, Text]] = {
    "tip": (
        (
            "Order {taker} buys {quantity} at {price:$}: all that order {maker} showed",
            "Order {maker} is an iceberg: what it displayed is used up, {maker_left} more were hidden. It shows the next part now. "
            "The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$}: all that order {maker} showed",
            "Order {maker} is an iceberg: what it displayed is used up, {maker_left} more were hidden. It shows the next part now. "
            "The taker still wants {taker_left}.",
        ),
    ),
    "part_iceberg": (
        (
            "Order {taker} buys {quantity} at {price:$} and takes from order {maker}",
            "Order {maker} is an iceberg and has its turn. It still shows {maker_shown} of its {maker_left} and stays in front.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} and gives to order {maker}",
            "Order {maker} is an iceberg and has its turn. It still shows {maker_shown} of its {maker_left} and stays in front.",
        ),
    ),
    "hidden": (
        (
            "Order {taker} buys {quantity} at {price:$} from order {maker}, which nobody saw",
            "Order {maker} is hidden: nothing displayed was left at {price:$} or lower, so it has its turn. It keeps {maker_left}. "
            "The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} to order {maker}, which nobody saw",
            "Order {maker} is hidden: nothing displayed was left at {price:$} or higher, so it has its turn. It keeps {maker_left}. "
            "The taker still wants {taker_left}.",
        ),
    ),
    "one_sided": (
        (
            "Order {taker} buys {quantity} at {price:$} from order {maker}",
            "Order {maker} is at the best ask and the oldest there. It keeps {maker_left}, and {level_left} are left at {price:$}. "
            "Nobody bids, so there is no mid. The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} to order {maker}",
            "Order {maker} is at the best bid and the oldest there. It keeps {maker_left}, and {level_left} are left at {price:$}. "
            "Nobody offers, so there is no mid. The taker still has {taker_left} to sell.",
        ),
    ),
    "last": (
        (
            "Order {taker} buys {quantity} from order {maker} at {price:$}: the last offer is gone",
            "Nobody offers anything any more: there is no best ask and no mid. The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} to order {maker} at {price:$}: the last bid is gone",
            "Nobody bids anything any more: there is no best bid and no mid. The taker still wants {taker_left}.",
        ),
    ),
    "stop": (
        (
            "The stop buys too: order {taker} takes {quantity} from order {maker} at {price:$}",
            "It pays what is asked. The best ask is now {ask:$}, the mid {mid:$}. It still wants {taker_left}.",
        ),
        (
            "The stop sells too: order {taker} gives {quantity} to order {maker} at {price:$}",
            "It takes what is bid. The best bid is now {bid:$}, the mid {mid:$}. It still has {taker_left} to sell.",
        ),
    ),
    "self": (
        (
            "Order {taker} buys {quantity} at {price:$} from order {maker}: both belong to owner {owner}",
            "A trade with oneself: volume grows and nothing changes hands. Most venues forbid it; self_trade off lets it pass. "
            "The taker still wants {taker_left}.",
        ),
        (
            "Order {taker} sells {quantity} at {price:$} to order {maker}: both belong to owner {owner}",
            "A trade with oneself: volume grows and nothing changes hands. Most venues forbid it; self_trade off lets it pass. "
            "The taker still has {taker_left} to sell.",
        ),
    ),
}

UNCROSSES: dict[str, Text] = {
    "auction": (
        "Order {taker} buys {quantity} from order {maker} at {price:$}",
        "One price for all: the buyer was ready to pay {buyer_limit:$}, the seller to take {seller_limit:$}. "
        "The best bid meets the best offer, at each price the oldest first.",
    ),
    "self": (
        "Order {taker} buys {quantity} from order {maker} at {price:$}: both belong to owner {owner}",
        "An owner trades with itself. Self-trade prevention acts when an arriving order reaches one of its own; in an auction nothing "
        "arrives, all that was collected meets at one price, so it has no say here.",
    ),
}

RESTS: dict[str, Text] = {
    "iceberg": (
        "Order {order} rests: {shown} displayed, {reserve} hidden at {price:$}, behind {ahead}",
        "Only the displayed {shown} stand in the queue, behind the {ahead} that came to {price:$} earlier.",
    ),
    "iceberg_first": (
        "Order {order} rests: {shown} displayed, {reserve} hidden at {price:$}, first in line there",
        "Nobody else is displayed at {price:$}. Others see {shown} and no sign of the {reserve} beneath. "
        "Best bid {bid:$}, best ask {ask:$}, mid {mid:$}.",
    ),
    "hidden": (
        "Order {order} rests unseen: {quantity} at {price:$}",
        "The book as others see it does not change: best bid {bid:$}, best ask {ask:$}, mid {mid:$}.",
    ),
    "more_buyers": (
        "Order {order} is collected: {quantity} at {price:$}",
        "If the auction opened now, {matched} would trade at {indicative:$}, the price at which the most can. "
        "Then {imbalance} would still want to buy.",
    ),
    "more_sellers": (
        "Order {order} is collected: {quantity} at {price:$}",
        "If the auction opened now, {matched} would trade at {indicative:$}, the price at which the most can. "
        "Then {imbalance} would still want to sell.",
    ),
    "balanced": (
        "Order {order} is collected: {quantity} at {price:$}",
        "If the auction opened now, {matched} would trade at {indicative:$}, the price at which the most can. "
        "Nobody would be left over there: as many to buy as to sell.",
    ),
    "apart_alone": (
        "Order {order} is collected: {quantity} at {price:$}",
        "Nobody stands on the other side yet, so nothing would trade.",
    ),
    "apart": (
        "Order {order} is collected: {quantity} at {price:$}",
        "The best bid is {bid:$}, the best offer {ask:$}: no bid reaches an offer, so nothing would trade yet.",
    ),
}

STOPS: dict[str, tuple[Text, Text]] = {
    "market": (
        (
            "Stop {order} is triggered: it buys {quantity} at any price",
            "A trade printed at {trigger:$} or higher, so the stop of order {order} arrives as a market order, now that the one before is "
            "done. It is stop number {number} that order {source} has set off.",
        ),
        (
            "Stop {order} is triggered: it sells {quantity} at any price",
            "A trade printed at {trigger:$} or lower, so the stop of order {order} arrives as a market order, now that the one before is "
            "done. It is stop number {number} that order {source} has set off.",
        ),
    ),
    "limit": (
        (
            "Stop {order} is triggered: it buys {quantity} up to {price:$}",
            "A trade printed at {trigger:$} or higher, so it arrives as a limit order: above {price:$} it would rather wait. "
            "It is stop number {number} that order {source} has set off.",
        ),
        (
            "Stop {order} is triggered: it sells {quantity} down to {price:$}",
            "A trade printed at {trigger:$} or lower, so it arrives as a limit order: below {price:$} it would rather wait. "
            "It is stop number {number} that order {source} has set off.",
        ),
    ),
}

WAITS: dict[str, Text] = {
    "waits": (
        "Order {order} waits outside the book until {trigger:$} trades",
        "Stops that wait now: {waiting}. The book does not show them and nobody can trade with them. The last trade was at {last:$}.",
    ),
    "waits_first": (
        "Order {order} waits outside the book until {trigger:$} trades",
        "Stops that wait now: {waiting}. The book does not show them and nobody can trade with them. Nothing has traded yet.",
    ),
}

REFILLS: dict[str, Text] = {
    "behind": (
        "Iceberg {order} shows its next {quantity}, at the back of the queue",
        "Every refill arrives like a new order: {ahead} at {price:$} are now in front of it. {reserve} of it stay hidden.",
    ),
    "alone": (
        "Iceberg {order} shows its next {quantity} at {price:$}",
        "A refill goes to the back of the queue, but nobody else is displayed at {price:$}. {reserve} of it stay hidden.",
    ),
}

SELF_TRADES: dict[str, Text] = {
    "maker": (
        "Order {order} is cancelled: order {taker} of its own owner {owner} has reached it",
        "They would trade with each other. self_trade {mode}: the older one, which waited, loses all its {quantity} at {price:$}.",
    ),
    "taker": (
        "The rest of order {order} is cancelled: next in line is order {maker} of its own owner {owner}",
        "They would trade with each other. self_trade {mode}: the newer one loses the {quantity} it still wanted. "
        "What it traded before, {filled}, stands.",
    ),
    "taker_too": (
        "The rest of order {order} is cancelled too: {quantity}",
        "self_trade both: neither the order that waited nor the one that reached it goes on. What order {order} traded before, "
        "{filled}, stands.",
    ),
    "decrement": (
        "Orders {taker} and {maker} of owner {owner} lose {quantity} each, and nothing trades",
        "They would trade {quantity} with each other at {price:$}. self_trade decrement: both shrink by that. "
        "Order {maker} keeps {maker_left}, order {taker} still wants {taker_left}.",
    ),
}

CANCELS: dict[str, Text] = {
    "stop": (
        "Stop {order} is taken back: {quantity}",
        "It waited outside the book, so the book does not change. Best bid {bid:$}, best ask {ask:$}.",
    ),
    "halted": (
        "Order {order} is cancelled: {quantity} at {price:$}",
        "Its owner takes it back. While trading is halted nothing new is taken in, but cancels are accepted.",
    ),
    "auction": (
        "Order {order} is cancelled: {quantity} at {price:$}",
        "Its owner takes it back before the auction opens: it will not trade at the auction's price.",
    ),
}

STATES: dict[str, Text] = {
    "halted": (
        "Trading is halted",
        "Nothing trades and nothing new is taken in. Orders stand at prices from before, so their owners may take them back. "
        "The last trade was at {last:$}.",
    ),
    "auction": (
        "An auction begins: orders are collected, nothing trades",
        "Bids and offers may now cross. The price will be the one at which the most can trade; among several the one with the least "
        "left over, then the one nearest to the reference price {reference:$}.",
    ),
    "auction_alone": (
        "An auction begins: orders are collected, nothing trades",
        "Bids and offers may now cross. The price will be the one at which the most can trade; among several the one with the least "
        "left over, then the lowest.",
    ),
    "opens": (
        "The auction opens at {price:$}: {quantity} trade",
        "At {price:$} there are {buy} to buy at that price or higher and {sell} to sell at that price or lower: no other price trades "
        "more. Everybody gets {price:$}, whatever limit they gave.",
    ),
    "opens_empty": (
        "The auction opens: nothing trades",
        "No bid reaches an offer. Continuous trading begins with best bid {bid:$} and best ask {ask:$}.",
    ),
    "resumes": (
        "Trading goes on",
        "The halt is over. Best bid {bid:$}, best ask {ask:$}, mid {mid:$}.",
    ),
}

CHANGES: dict[str, Text] = {
    "collected": (
        "Order {order} is now {quantity} at {price:$} instead of {old_quantity} at {old_price:$}",
        "It is collected for the auction at its new price, as if it had just come.",
    ),
    "halted": (
        "Order {order} is refused: trading is halted",
        "A halt takes in nothing new and changes nothing. Only cancels are accepted.",
    ),
    "auction": (
        "Order {order} is refused: this is an auction",
        "An auction takes only orders that can wait: no market, IOC, FOK or post-only order.",
    ),
    "waiting_stop": (
        "Stop {order} cannot be changed while it waits",
        "It is outside the book. Cancel it and send another one.",
    ),
}
