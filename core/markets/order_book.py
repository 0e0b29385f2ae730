"""The order book: a seeded flow or a written script of orders matched step by step, or a user's day replayed event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.markets.matching.book import BUY, SELL, ModifyRule, PostOnlyRule, SelfTrade
from core.markets.matching.naive import ListBook
from core.markets.story.flow import Message, Mix, order_flow
from core.markets.story.panels import TICKS_PER_DOLLAR
from core.markets.story.recorder import BookRecorder
from core.markets.story.script import read_script
from core.markets.stream.archive import looks_like_stream
from core.recording import Recorder
from core.simulation import Params, PathText, simulation
from core.views import Level

COMPARED_STATES = 50
FileFormat = Literal["auto", "lobster", "databento", "itch", "binance", "tardis", "messages"]
ModifyChoice = Literal["auto", "benchmark", "keep_on_decrease"]


class OrderBookParams(Params, frozen=True):
    """What `order_book` takes: a file, or orders that are written down, or else a seeded flow."""

    file: Annotated[PathText, Meta(description="LOBSTER, Databento, ITCH, Binance, Tardis; '' makes a seeded flow")] = ""
    format: Annotated[FileFormat, Meta(description="of the file; auto looks at its content")] = "auto"
    symbol: Annotated[str, Meta(description="which instrument (or part of a name) where a file holds several", max_length=200)] = ""
    modify_rule: Annotated[
        ModifyChoice, Meta(description="whether an order that only shrinks keeps its place; auto: benchmark for an archive of messages")
    ] = "auto"
    post_only: Annotated[PostOnlyRule, Meta(description="what happens to a post-only order that would take")] = "reject"
    self_trade: Annotated[
        SelfTrade, Meta(description="which order is cancelled when an order reaches one of its own owner; off: they trade")
    ] = "off"
    own: Annotated[int, Meta(ge=0, description="number of an order to star, with its place in the queue; 0: none")] = 0
    opening: Annotated[str, Meta(description="script of the orders that stand in the book first", max_length=20_000)] = ""
    script: Annotated[str, Meta(description="orders instead of the seeded flow: '1 sell 500 at 100.02; 2 buy 300'", max_length=20_000)] = ""
    events: Annotated[int, Meta(ge=1, le=20_000, description="messages of the seeded flow")] = 150
    seed: Annotated[int, Meta(ge=0, description="of the flow; 0 takes the run's own seed")] = 0
    iceberg_share: Annotated[float, Meta(ge=0, le=1, description="of the flow's limit orders are icebergs")] = 0.0
    hidden_share: Annotated[float, Meta(ge=0, le=1, description="of the flow's limit orders are hidden")] = 0.0
    stop_share: Annotated[float, Meta(ge=0, le=1, description="of the flow's new orders are stops, half of them with a limit")] = 0.0
    owners: Annotated[int, Meta(ge=0, le=1000, description="people who send the flow, so that some meet themselves; 0: unknown")] = 0
    auction: Annotated[bool, Meta(description="the flow opens with an auction")] = False
    halt: Annotated[bool, Meta(description="after its sweep the flow is halted and comes back with an auction")] = False


@simulation("order_book")
def order_book(params: OrderBookParams, rec: Recorder) -> None:
    """How do bid, ask, maker, taker and volume make a price?"""
    if params.file and (params.format == "messages" or (params.format == "auto" and looks_like_stream(params.file))):
        from core.markets.stream.replay import replay_stream

        replay_stream(params.file, "benchmark" if params.modify_rule == "auto" else params.modify_rule, rec)
        return
    if params.file:
        from core.markets.open_file import replay_file

        replay_file(params.file, params.format, params.symbol, rec)
        return
    if params.format == "lobster":
        raise BadInput("order_book.format", "found lobster without a file", "file = a LOBSTER zip or message CSV")
    if params.format != "auto":
        raise BadInput("order_book.format", f"found {params.format} without a file", "file = the path of such a file")
    rec.recording.time_unit = "s"
    messages, coming = _messages(params, rec.seed)
    recorder = BookRecorder(rec, _rule(params), params.post_only, params.self_trade, own=params.own, coming=coming)
    phase = ""
    for number, message in enumerate(messages):
        if message.phase != phase:
            phase = message.phase
            rec.phase(phase)
        if number % 100 == 0:
            rec.progress(min(number / params.events, 1.0), "matching")
        recorder.apply(message)
    check_flow(recorder, params)


def _messages(params: OrderBookParams, seed: int) -> tuple[Iterable[Message], set[str]]:
    """What is sent, and which rarer things are among it. A script takes the place of the seeded flow."""
    if params.script or params.opening:
        first = read_script(params.opening, "order_book.opening", phase="opening")
        last = first[-1] if first else None
        script = [*first, *read_script(params.script, "order_book.script", phase="trading", start=last.time if last else 0.0)]
        if not script:
            raise BadInput("order_book.script", "no order in it", "statements such as '1 sell 500 at 100.02; 2 buy 300'")
        return script, {kind for message in script for kind in _coming(message)}
    if params.iceberg_share + params.hidden_share > 1:
        raise BadInput(
            "order_book.hidden_share", f"{params.hidden_share:g} with iceberg_share {params.iceberg_share:g}", "both together at most 1"
        )
    mix = Mix(params.iceberg_share, params.hidden_share, params.stop_share, params.owners, params.auction, params.halt)
    coming: set[str] = {"modifies"}
    coming |= ({"stops"} if mix.stop_share else set()) | ({"auctions"} if mix.auction or mix.halt else set())
    return order_flow(params.seed or seed, params.events, mix), coming


def _coming(message: Message) -> Iterable[str]:
    if message.action == "modify":
        yield "modifies"
    if message.trigger is not None:
        yield "stops"
    if message.action in ("halt", "auction", "open"):
        yield "auctions"


def check_flow(recorder: BookRecorder, params: OrderBookParams) -> None:
    """Quantity is conserved, the book never crossed, and a book that shares no code comes to the same trades and queues."""
    rec, book = recorder.rec, recorder.book
    resting = sum(level.total for side in (book.bids, book.asks) for level in side.levels.values())
    waiting = sum(stop.quantity for stop in book.stops.values())
    traded = sum(quantity for _, quantity, _, _ in recorder.trades)
    rec.check(
        "quantity resting at the end",
        resting + waiting,
        recorder.asked - 2 * traded - recorder.cancelled,
        oracle="asked for - 2 x traded (a maker and a taker) - cancelled",
    )
    rec.check("messages that leave the book crossed", recorder.times_crossed, 0, oracle="best bid below best ask after every message")
    naive = ListBook(_rule(params), params.post_only, params.self_trade)
    compared = set(range(0, len(recorder.messages), max(len(recorder.messages) // COMPARED_STATES, 1)))
    wrong_states = 0
    for number, (message, step) in enumerate(zip(recorder.messages, recorder.last_steps, strict=True)):
        message.apply(naive)
        if number in compared or number == len(recorder.messages) - 1:
            shown = recorder.ladder.at(step)
            mine = tuple(tuple(_plain(level) for level in side) for side in (shown.bids, shown.asks))
            wrong_states += mine != (_levels(naive, BUY), _levels(naive, SELL))
    matches = sum(mine == theirs for mine, theirs in zip(recorder.trades, naive.trades, strict=False))
    oracle = "a book that is one list, sorted again for every match"
    rec.check("trades equal to those of a list book", matches, max(len(naive.trades), len(recorder.trades)), oracle=oracle)
    rec.check("ladders that differ from a list book replayed from zero", wrong_states, 0, oracle=oracle)
    if recorder.stop_sheet is not None:
        rec.check("stops left waiting", _numbers(list(book.stops)), _numbers([stop.order_id for stop in naive.stops]), oracle=oracle)
    if recorder.auctions or naive.auctions:
        found, wanted = (", ".join(f"{price}: {volume}" for price, volume in at) for at in (recorder.auctions, naive.auctions))
        rec.check("ticks and volume of each auction", found, wanted, oracle="every price tried, one tick after another")


def _numbers(orders: list[int]) -> str:
    return ", ".join(map(str, orders)) or "none"


def _rule(params: OrderBookParams) -> ModifyRule:
    """The rule of a seeded flow: venues keep the place of an order that shrinks."""
    return "keep_on_decrease" if params.modify_rule == "auto" else params.modify_rule


def _plain(level: Level) -> tuple[int, list[tuple[int, int, int]]]:
    """A level of the ladder as `ListBook.queues` gives it."""
    orders = [(order.order_id, int(order.quantity), int(order.reserve)) for order in level.orders]
    assert level.quantity == sum(order.quantity for order in level.orders)
    return round(level.price * TICKS_PER_DOLLAR), orders


def _levels(naive: ListBook, side: int) -> tuple[tuple[int, list[tuple[int, int, int]]], ...]:
    """One side of the list book as `_plain` gives the ladder's."""
    return tuple(naive.queues(side))
