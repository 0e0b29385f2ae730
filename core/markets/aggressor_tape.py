"""One tape of everything that moved a mid: executions, placements, deletions, modifications, from any source with named orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.markets.readers import forms
from core.recording import Recorder

if TYPE_CHECKING:
    import numpy as np

    from core.markets.readers.forms import OrderFile

EXECUTION, PLACEMENT, DELETION, MODIFICATION, OTHER = range(5)
CAUSES = ("executions", "placements", "deletions", "modifications", "other")


class Tape(msgspec.Struct, frozen=True):
    """Columns (events,). ``twice`` is bid + ask after the event in 1 / ``scale`` (`NO_MID` where a side is empty): whole numbers,
    so that changes sum exactly. sign, price, size speak of a trade's taker and are 0 elsewhere; ``hidden``: it met a hidden order.
    """

    time: np.ndarray
    cause: np.ndarray
    twice: np.ndarray
    sign: np.ndarray
    price: np.ndarray
    size: np.ndarray
    hidden: np.ndarray
    scale: int
    unit: str
    clock: int  # seconds of the midnight that times count from
    source: str

    def mids(self) -> np.ndarray:
        """(events,) the mid after each event in price units, NaN where there is none."""
        import numpy as np

        mid: np.ndarray = np.where(self.twice == NO_MID, np.nan, self.twice / (2 * self.scale))
        return mid


NO_MID = -(2**63)


def lobster_tape(path: str, symbol: str, rec: Recorder, *, sure: bool) -> Tape:
    """A LOBSTER day with its orderbook file. BadInput where that is missing: the mid would be a guess."""
    import numpy as np

    from core.markets import lobster

    source = lobster.find_source(path, symbol, sure=sure)
    if not source.orderbook:
        raise BadInput(path, "a message file without its orderbook file", "both: the mid is read from the orderbook")
    rec.progress(0.0, "reading messages")
    events = lobster.read_messages(source)
    parts, read = [], 0
    for rows in lobster.read_orderbook(source, len(events)):
        gone = (rows[:, 0] == lobster.UNOCCUPIED) | (rows[:, 2] == -lobster.UNOCCUPIED)
        parts.append(np.where(gone, NO_MID, rows[:, 0] + rows[:, 2]))
        read += len(rows)
        rec.progress(0.9 * read / len(events), "reading the order book")
    kind = events.type
    cause = np.array((OTHER, PLACEMENT, DELETION, DELETION, EXECUTION, OTHER, OTHER, OTHER))[kind]
    trade = (kind == lobster.EXECUTION) | (kind == lobster.HIDDEN_EXECUTION)
    return Tape(
        events.time, cause, np.concatenate(parts), np.where(trade, -events.direction, 0),
        np.where(trade, events.price / lobster.PRICE_SCALE, 0.0), np.where(trade, events.size, 0),
        kind == lobster.HIDDEN_EXECUTION, lobster.PRICE_SCALE, "shares", 0, "LOBSTER",
    )  # fmt: skip


def order_tape(file: OrderFile, rec: Recorder) -> Tape:
    """A market-by-order file. Mids are read where the exchange's event is complete; all of its change belongs to its cause."""
    import numpy as np

    from core.markets.event_book import NO_PRICE, EventBook
    from core.markets.readers.clock import day_of
    from core.markets.readers.forms import whole_events

    header, book, carry = file.header, EventBook(), NO_MID
    parts: list[list[np.ndarray]] = []
    midnight = 0
    for events in whole_events(file.blocks(), 20_000):
        if not parts:
            midnight, _ = day_of(events.received, events.time, header.clock)
        effects = book.run(events)
        gone = (effects.bid == NO_PRICE) | (effects.ask == NO_PRICE) | (effects.bid >= effects.ask)
        now = np.where(gone, NO_MID, effects.bid + effects.ask)
        place = np.maximum.accumulate(np.where(events.last, np.arange(len(events)), -1))
        twice = np.where(place >= 0, now[place], carry)
        carry = int(twice[-1])
        printed = np.isin(events.action, (forms.TRADE, forms.EXECUTE))
        hidden = events.action == forms.HIDDEN
        sign = np.where(events.action == forms.TRADE, events.side, np.where(events.action == forms.EXECUTE, -effects.side, 0))
        clock = (np.where(events.received > 0, events.received, events.time) - midnight) / 1e9
        parts.append(
            [
                clock, _causes(events, printed), twice, sign, np.where(printed | hidden, effects.price / header.price_scale, 0.0),
                np.where(printed | hidden, events.size, 0), hidden,
            ]
        )  # fmt: skip
        rec.progress(0.9 * file.done, "reading events")
    if not parts:
        raise BadInput(header.path, "no event", "a file with events in it")
    clock, cause, twice, sign, price, size, hidden = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Tape(
        clock, cause, twice, sign, price, size, hidden, header.price_scale, header.quantity_unit or "lots",
        midnight // 1_000_000_000, header.format,
    )  # fmt: skip


def _causes(events: forms.OrderEvents, printed: np.ndarray) -> np.ndarray:
    """(events,) the cause of the whole exchange event each record belongs to: a trade in it wins."""
    import numpy as np

    starts = np.concatenate([[0], np.flatnonzero(events.last)[:-1] + 1]) if events.last.any() else np.zeros(1, dtype=np.int64)
    starts = starts[starts < len(events)]
    group = np.searchsorted(starts, np.arange(len(events)), side="right") - 1
    own = np.full(len(events), OTHER)
    own[events.action == forms.ADD] = PLACEMENT
    own[(events.action == forms.CANCEL) | (events.action == forms.DELETE)] = DELETION
    own[events.action == forms.MODIFY] = MODIFICATION
    own[printed] = EXECUTION
    cause: np.ndarray = np.minimum.reduceat(own, starts)[group]
    return cause


def falling_tape(seed: int, takers: int, fall: float, buy_share: float) -> Tape:
    """The seeded market that falls while buyers take more (`core.markets.falling_flow`). Prices in cents."""
    import numpy as np

    from core.markets.falling_flow import FallingMarket

    happened = list(FallingMarket(seed, takers, fall, buy_share).happenings())
    cause = {"trade": EXECUTION, "placement": PLACEMENT, "deletion": DELETION}
    twice = [h.bid + h.ask if h.bid is not None and h.ask is not None else NO_MID for h in happened]
    sign = np.array([h.sign for h in happened])
    return Tape(
        np.array([h.time for h in happened]), np.array([cause[h.kind] for h in happened]), np.array(twice, dtype=np.int64), sign,
        np.where(sign != 0, np.array([h.price for h in happened]) / 100, 0.0), np.where(sign != 0, [h.size for h in happened], 0),
        np.zeros(len(happened), dtype=bool), 100, "shares", 0, "seeded flow",
    )  # fmt: skip
