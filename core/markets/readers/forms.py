"""The two normal forms that every reader ends in: market by order (each order named) and market by price (levels only).

Times are whole nanoseconds: since 1970-01-01 UTC, or since the exchange's midnight where a file has no date.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    import numpy as np

MAX_EVENTS = 20_000_000
"""The longest replay, in events. At about 200 bytes each it needs 4 GB of memory; the doctor reads files of any length."""

LONGEST_EVENT = 1_000_000

ADD, CANCEL, MODIFY, CLEAR, TRADE, FILL, NONE, EXECUTE, DELETE, HIDDEN, CROSS, HALT = range(12)
ACTION_NAMES = (
    "add", "cancel", "modify", "clear", "trade", "fill", "none", "execution", "delete", "hidden execution", "cross", "halt",
)  # fmt: skip
"""ADD rests; CANCEL takes ``size`` off an order, DELETE all of it; MODIFY gives price and size anew; CLEAR empties the book.
EXECUTE trades and takes ``size`` off the resting order. TRADE, FILL, NONE, HIDDEN, CROSS and HALT change no level: TRADE
tells of the aggressor (its side), FILL of a resting order that traded (its side)."""

QUOTE, SNAPSHOT, DELTA, PRINT = range(4)
MESSAGE_NAMES = ("best prices", "snapshot", "level changes", "trade")
"""QUOTE gives the best level of each side, SNAPSHOT all levels of the depth sent, DELTA new quantities of single levels (0:
gone), PRINT a trade."""


class OrderEvents(msgspec.Struct, frozen=True):
    """A block of market-by-order events, columns of one length (events,).

    price in 1 / ``price_scale`` of the file; side +1 buy, -1 sell, 0 unknown; ``last``: the exchange's event ends here, the
    book may be read; ``snapshot``: the record only tells what rested before the file begins.
    """

    time: np.ndarray
    received: np.ndarray
    action: np.ndarray
    order: np.ndarray
    side: np.ndarray
    price: np.ndarray
    size: np.ndarray
    last: np.ndarray
    snapshot: np.ndarray

    def __len__(self) -> int:
        return len(self.time)


class DepthEvents(msgspec.Struct, frozen=True):
    """A block of market-by-price messages (messages,) and their levels (levels,): message i owns first[i] to first[i + 1].

    side, price and size speak of the trade of a PRINT (side of the aggressor, 0 unknown), and are 0 elsewhere; quantities
    are as the file writes them. ``update`` is the exchange's number of the message, 0 where there is none; ``line`` the line
    of a text file that it begins on (None where a file has no lines).
    """

    time: np.ndarray
    received: np.ndarray
    kind: np.ndarray
    side: np.ndarray
    price: np.ndarray
    size: np.ndarray
    update: np.ndarray
    previous: np.ndarray
    first: np.ndarray
    level_side: np.ndarray
    level_price: np.ndarray
    level_size: np.ndarray
    line: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.time)


class Header(msgspec.Struct, frozen=True):
    """What a file is before its first event."""

    path: str
    format: str
    symbol: str
    note: str = ""
    price_scale: int = 1
    quantity_unit: str = ""
    clock: Literal["utc", "midnight"] = "utc"
    time_unit: str = "ns"
    by_order: bool = True


class OrderFile(Protocol):
    """A market-by-order file being read; ``done`` is the share of it that has been read."""

    header: Header

    @property
    def done(self) -> float: ...

    def blocks(self) -> Iterator[OrderEvents]:
        """The file from its start, block by block."""
        ...


class DepthFile(Protocol):
    """A market-by-price file being read; ``done`` is the share of it that has been read."""

    header: Header

    @property
    def done(self) -> float: ...

    def blocks(self) -> Iterator[DepthEvents]:
        """The file from its start, block by block."""
        ...


def whole_events(blocks: Iterator[OrderEvents], size: int) -> Iterator[OrderEvents]:
    """The same events in blocks of about ``size`` that end where an exchange's event is complete."""
    import numpy as np

    rest: OrderEvents | None = None
    for block in blocks:
        if rest is not None and len(rest):
            block = OrderEvents(*(np.concatenate([getattr(rest, n), getattr(block, n)]) for n in OrderEvents.__struct_fields__))
        ends = np.flatnonzero(block.last) + 1
        first = 0
        while first < len(block):
            at = int(np.searchsorted(ends, first + size))
            end = int(ends[at]) if at < len(ends) else int(ends[-1]) if len(ends) and ends[-1] > first else first
            if end == first:
                break
            yield part_of(block, first, end)
            first = end
        rest = part_of(block, first, len(block))
        if len(rest) > LONGEST_EVENT:
            yield rest
            rest = None
    if rest is not None and len(rest):
        yield rest


def part_of(events: OrderEvents, first: int, end: int) -> OrderEvents:
    """Events first, …, end - 1 (no copy)."""
    return OrderEvents(*(getattr(events, name)[first:end] for name in OrderEvents.__struct_fields__))
