"""Everything that moved a mid, block by block, from any source with named orders: executions, placements, deletions, modifications."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from core.errors import BadInput
from core.markets.readers import forms

if TYPE_CHECKING:
    import numpy as np

    from core.markets.readers.forms import OrderFile

EXECUTION, PLACEMENT, DELETION, MODIFICATION, OTHER = range(5)
CAUSES = ("executions", "placements", "deletions", "modifications", "other")
NO_MID = -(2**63)
BLOCK = 5_000


class Tape(msgspec.Struct, frozen=True):
    """A block of columns (events,). ``twice`` is bid + ask after the event in 1 / ``Feed.scale`` (`NO_MID` where a side is empty):
    whole numbers, so that changes sum exactly. time is in seconds after ``Feed.midnight``. sign, price, size speak of a trade and
    are 0 elsewhere: sign is its taker's (0: nobody's, or not known); ``hidden``: it met a hidden order.
    """

    time: np.ndarray
    cause: np.ndarray
    twice: np.ndarray
    sign: np.ndarray
    price: np.ndarray
    size: np.ndarray
    hidden: np.ndarray

    def __len__(self) -> int:
        return len(self.time)


class Feed(Protocol):
    """Where tapes come from. ``inferred``: the file does not say which change a trade made; it is told from prices and times.

    ``zone``: that of the clock, "" where times are no time of day; ``begins``: what is done before the first block.
    """

    source: str
    scale: int
    unit: str
    inferred: bool
    midnight: int
    zone: str
    begins: str

    @property
    def done(self) -> float:
        """The share of it that has been read."""
        ...

    def blocks(self) -> Iterator[Tape]: ...


class LobsterFeed:
    """A LOBSTER day with its orderbook file. BadInput where that is missing: the mid would be a guess."""

    source, unit, inferred, midnight, zone, begins = "LOBSTER", "shares", False, 0, "ET", "reading messages"

    def __init__(self, path: str, symbol: str, *, sure: bool) -> None:
        from core.markets.lobster import reader as lobster

        self._files = lobster.find_source(path, symbol, sure=sure)
        self.scale = lobster.PRICE_SCALE
        self.done = 0.0
        if not self._files.orderbook:
            raise BadInput(path, "a message file without its orderbook file", "both: the mid is read from the orderbook")

    def blocks(self) -> Iterator[Tape]:
        import numpy as np

        from core.markets.lobster import reader as lobster

        kinds = np.full(lobster.HALT + 1, OTHER)
        kinds[lobster.SUBMISSION] = PLACEMENT
        kinds[[lobster.PARTIAL_CANCEL, lobster.DELETION]] = DELETION
        trades = [lobster.EXECUTION, lobster.HIDDEN_EXECUTION, lobster.CROSS]
        kinds[trades] = EXECUTION
        for events, rows, done in lobster.read_together(self._files):
            self.done = done
            gone = (rows[:, 0] == lobster.UNOCCUPIED) | (rows[:, 2] == -lobster.UNOCCUPIED)
            trade = np.isin(events.type, trades)
            taken = (events.type == lobster.EXECUTION) | (events.type == lobster.HIDDEN_EXECUTION)
            yield Tape(
                events.time, kinds[events.type], np.where(gone, NO_MID, rows[:, 0] + rows[:, 2]), np.where(taken, -events.direction, 0),
                np.where(trade, events.price / self.scale, 0.0), np.where(trade, events.size, 0),
                events.type == lobster.HIDDEN_EXECUTION,
            )  # fmt: skip


class OrderFeed:
    """A market-by-order file. Mids are read where the exchange's event is complete; all of its change belongs to its cause."""

    inferred = False

    def __init__(self, file: OrderFile) -> None:
        from core.markets.kernels.compiled import is_ready
        from core.markets.readers.clock import zone_of

        self._file, header = file, file.header
        self.zone = zone_of(header.clock)
        self.begins = "reading events" if is_ready("events/kernel.replay") else "compiling the order book, once"
        self.source, self.scale, self.unit, self.midnight = header.format, header.price_scale, header.quantity_unit or "lots", 0

    @property
    def done(self) -> float:
        return self._file.done

    def blocks(self) -> Iterator[Tape]:
        import numpy as np

        from core.markets.events.book import NO_PRICE, EventBook
        from core.markets.readers.clock import day_of

        book, carry, begun = EventBook(), NO_MID, False
        for events in forms.whole_events(self._file.blocks(), BLOCK):
            if not begun:
                self.midnight, _ = day_of(events.received, events.time, self._file.header.clock)
                begun = True
            effects = book.run(events)
            gone = (effects.bid == NO_PRICE) | (effects.ask == NO_PRICE) | (effects.bid >= effects.ask)
            now = np.where(gone, NO_MID, effects.bid + effects.ask)
            place = np.maximum.accumulate(np.where(events.last, np.arange(len(events)), -1))
            twice = np.where(place >= 0, now[place], carry)
            carry = int(twice[-1])
            trade = np.isin(events.action, (forms.TRADE, forms.EXECUTE, forms.HIDDEN, forms.CROSS))
            sign = np.where(events.action == forms.TRADE, events.side, np.where(events.action == forms.EXECUTE, -effects.side, 0))
            clock = (np.where(events.received > 0, events.received, events.time) - self.midnight) / 1e9
            yield Tape(
                clock, _causes(events, trade), twice, sign, np.where(trade, effects.price / self.scale, 0.0),
                np.where(trade, events.size, 0), events.action == forms.HIDDEN,
            )  # fmt: skip


def _causes(events: forms.OrderEvents, trade: np.ndarray) -> np.ndarray:
    """(events,) the cause of the whole exchange event each record belongs to: a trade in it wins."""
    import numpy as np

    starts = np.concatenate([[0], np.flatnonzero(events.last) + 1])
    starts = starts[starts < len(events)]
    group = np.searchsorted(starts, np.arange(len(events)), side="right") - 1
    own = np.full(len(events), OTHER)
    own[events.action == forms.ADD] = PLACEMENT
    own[(events.action == forms.CANCEL) | (events.action == forms.DELETE)] = DELETION
    own[events.action == forms.MODIFY] = MODIFICATION
    own[events.snapshot] = OTHER
    own[trade] = EXECUTION
    cause: np.ndarray = np.minimum.reduceat(own, starts)[group]
    return cause


class SeededFeed:
    """The seeded market in which makers see a value that takers do not (`core.markets.signing.falling_flow`). Prices in cents."""

    source, scale, unit, inferred, midnight, zone, begins = "seeded flow", 100, "shares", False, 0, "", "matching orders"

    def __init__(self, seed: int, takers: int, fall: float, buy_share: float, informed: Literal["makers", "takers"]) -> None:
        from core.markets.signing.falling_flow import FallingMarket

        self._market = FallingMarket(seed, takers, fall, buy_share, informed)
        self._rounds, self.done = takers, 0.0

    def blocks(self) -> Iterator[Tape]:
        from itertools import islice

        import numpy as np

        cause = {"trade": EXECUTION, "placement": PLACEMENT, "deletion": DELETION}
        happenings = self._market.happenings()
        while happened := list(islice(happenings, BLOCK // 5)):
            twice = [h.bid + h.ask if h.bid is not None and h.ask is not None else NO_MID for h in happened]
            sign = np.array([h.sign for h in happened])
            yield Tape(
                np.array([h.time for h in happened]), np.array([cause[h.kind] for h in happened]), np.array(twice, dtype=np.int64), sign,
                np.where(sign != 0, np.array([h.price for h in happened]) / 100, 0.0), np.where(sign != 0, [h.size for h in happened], 0),
                np.zeros(len(happened), dtype=bool),
            )  # fmt: skip
            self.done = min(happened[-1].time / self._rounds, 0.99)  # a round takes about a second
