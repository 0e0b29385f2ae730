"""The order book: a seeded flow of orders matched step by step, or a user's LOBSTER day replayed event by event."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.errors import BadInput
from core.markets.book import BUY, SELL, ModifyRule, PostOnlyRule
from core.markets.book_recorder import TICKS_PER_DOLLAR, BookRecorder
from core.markets.flow import order_flow
from core.markets.naive import ListBook
from core.markets.stream_file import looks_like_stream
from core.recording import Recorder
from core.simulation import Params, PathText, simulation
from core.views import Level, Resting

COMPARED_STATES = 50
FileFormat = Literal["auto", "lobster", "databento", "itch", "binance", "tardis", "messages"]
ModifyChoice = Literal["auto", "benchmark", "keep_on_decrease"]


class OrderBookParams(Params, frozen=True):
    file: Annotated[PathText, Meta(description="LOBSTER, Databento, ITCH, Binance, Tardis; '' makes a seeded flow")] = ""
    format: Annotated[FileFormat, Meta(description="of the file; auto looks at its content")] = "auto"
    symbol: Annotated[str, Meta(description="which instrument (or part of a name) where a file holds several", max_length=200)] = ""
    modify_rule: Annotated[
        ModifyChoice, Meta(description="whether an order that only shrinks keeps its place; auto: benchmark for an archive of messages")
    ] = "auto"
    post_only: Annotated[PostOnlyRule, Meta(description="what happens to a post-only order that would take")] = "reject"
    events: Annotated[int, Meta(ge=1, le=20_000, description="messages of the seeded flow")] = 150
    seed: Annotated[int, Meta(ge=0, description="of the flow; 0 takes the run's own seed")] = 0


@simulation("order_book")
def order_book(params: OrderBookParams, rec: Recorder) -> None:
    """How do bid, ask, maker, taker and volume make a price?"""
    if params.file and (params.format == "messages" or (params.format == "auto" and looks_like_stream(params.file))):
        from core.markets.stream_replay import replay_stream

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
    recorder = BookRecorder(rec, _rule(params), params.post_only)
    phase = ""
    for number, message in enumerate(order_flow(params.seed or rec.seed, params.events)):
        if message.phase != phase:
            phase = message.phase
            rec.phase(phase)
        if number % 100 == 0:
            rec.progress(number / params.events, "matching")
        recorder.apply(message)
    check_flow(recorder, params)


def check_flow(recorder: BookRecorder, params: OrderBookParams) -> None:
    """Quantity is conserved, the book never crossed, and a book that shares no code comes to the same trades and queues."""
    rec, book = recorder.rec, recorder.book
    resting = sum(level.total for side in (book.bids, book.asks) for level in side.levels.values())
    traded = sum(quantity for _, quantity, _, _ in recorder.trades)
    rec.check(
        "quantity resting at the end",
        resting,
        recorder.asked - 2 * traded - recorder.cancelled,
        oracle="asked for - 2 x traded (a maker and a taker) - cancelled",
    )
    rec.check("messages that leave the book crossed", recorder.crossed, 0, oracle="best bid below best ask after every message")
    naive = ListBook(_rule(params), params.post_only)
    compared = set(range(0, len(recorder.messages), max(len(recorder.messages) // COMPARED_STATES, 1)))
    wrong_states = 0
    for number, (message, step) in enumerate(zip(recorder.messages, recorder.last_steps, strict=True)):
        if message.action == "submit":
            naive.submit(message.order_id, message.side, message.quantity, message.price, message.kind)
        elif message.action == "cancel":
            naive.cancel(message.order_id)
        else:
            naive.modify(message.order_id, message.quantity, message.price or 0)
        if number in compared or number == len(recorder.messages) - 1:
            shown = recorder.ladder.at(step)
            wrong_states += (shown.bids, shown.asks) != (_levels(naive, BUY), _levels(naive, SELL))
    matches = sum(mine == theirs for mine, theirs in zip(recorder.trades, naive.trades, strict=False))
    oracle = "a book that is one list, sorted again for every arrival"
    rec.check("trades equal to those of a list book", matches, max(len(naive.trades), len(recorder.trades)), oracle=oracle)
    rec.check("ladders that differ from a list book replayed from zero", wrong_states, 0, oracle=oracle)


def _rule(params: OrderBookParams) -> ModifyRule:
    """The rule of a seeded flow: venues keep the place of an order that shrinks."""
    return "keep_on_decrease" if params.modify_rule == "auto" else params.modify_rule


def _levels(naive: ListBook, side: int) -> tuple[Level, ...]:
    """One side of the list book as the ladder shows it."""
    return tuple(
        Level(
            price / TICKS_PER_DOLLAR, sum(quantity for _, quantity in queue), tuple(Resting(order, quantity) for order, quantity in queue)
        )
        for price, queue in naive.levels(side)
    )
