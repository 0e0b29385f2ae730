"""Market-by-price files as a tape: which change of the best prices belongs to a trade is told from prices and times.

A change of one side belongs to trades when they reached its best price and that price is gone with the first message of the
book after them (or another of the same time); everything else is a quote placed or withdrawn. Trades and quotes may stand in
two files; messages are put in order of the exchange's time, trades first, because streams arrive out of step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.errors import BadInput
from core.markets.depth.book import DepthBook
from core.markets.readers import forms
from core.markets.readers.forms import DepthEvents, DepthFile
from core.markets.signing.tape import BLOCK, DELETION, EXECUTION, NO_MID, OTHER, PLACEMENT, Tape

if TYPE_CHECKING:
    import numpy as np

SCALE = 100_000_000
OUT_OF_STEP = 1_000_000_000
"""Nanoseconds by which the streams of one capture may arrive in another order than the exchange sent them."""

# format -> (the words for what it holds that its file's name may have, those of its other half, the finest first)
_BINANCE = ("bookTicker", "depth")
_TARDIS = ("quotes", "book_ticker", "book_snapshot_5", "book_snapshot_25", "incremental_book_L2")
_TRADES_ONLY = {"Binance aggTrades": (("aggTrades",), _BINANCE), "Tardis trades": (("trades",), _TARDIS)}
_QUOTES_ONLY = {
    "Binance bookTicker": (("bookTicker",), ("aggTrades",)), "Binance depth": (("depth",), ("aggTrades",)),
    "Tardis quotes": (("quotes", "book_ticker"), ("trades",)), "Tardis incremental_book_L2": (("incremental_book_L2",), ("trades",)),
}  # fmt: skip
_SNAPSHOTS = re.compile(r"Tardis (book_snapshot_\d+)")


def with_its_other_half(file: DepthFile) -> list[DepthFile]:
    """``file``, and the file beside it that holds its quotes or its trades. BadInput where neither holds both."""
    header = file.header
    if header.format in ("Databento trades", "Databento tbbo"):
        found = "trades without quotes" if header.format.endswith("trades") else "quotes only where a trade is"
        allowed = "the mbp-1, mbp-10 or mbo file of the same session: the mid must be known between trades"
        raise BadInput(header.path, f"{header.format}, {found}", allowed)
    snapshots = _SNAPSHOTS.fullmatch(header.format)
    own = _TRADES_ONLY.get(header.format) or _QUOTES_ONLY.get(header.format) or (snapshots and ((snapshots[1],), ("trades",)))
    if not own:
        return [file]
    words, others = own
    path = Path(header.path)
    names = dict.fromkeys(path.name.replace(word, other) for word in words if word in path.name for other in others)
    for name in names:
        partner = _opened(path.with_name(name), header.symbol)
        if partner is not None:
            return [file, partner]
    holds, lacks = ("trades", "quotes") if header.format in _TRADES_ONLY else ("quotes", "trades")
    example = next(iter(names), f"named alike, with {words[0]} and {others[0]} in their names")
    raise BadInput(header.path, f"{header.format}, {holds} without {lacks}", f"the file of the {lacks} beside it ({example})")


def _opened(path: Path, symbol: str) -> DepthFile | None:
    """The market-by-price file at ``path``; None where there is none."""
    from core.markets.open_file import open_market

    found = open_market(str(path), "auto", symbol) if path.is_file() else None
    return None if found is None or found.header.by_order else cast(DepthFile, found)


class DepthFeed:
    """One or two market-by-price files as blocks of a tape."""

    scale, unit, inferred, begins = SCALE, "", True, "reading messages"

    def __init__(self, files: Sequence[DepthFile]) -> None:
        from core.markets.readers.clock import zone_of

        self._files = files
        self.zone = zone_of(files[0].header.clock)
        self.source = " + ".join(file.header.format for file in files)
        self.midnight = 0
        self._attribution = _Attribution()

    @property
    def done(self) -> float:
        return min(file.done for file in self._files)

    def blocks(self) -> Iterator[Tape]:
        from core.markets.depth.replay import part_of
        from core.markets.readers.clock import day_of

        begun = False
        for block in in_order([file.blocks() for file in self._files]):
            if not begun:
                self.midnight, _ = day_of(block.time, block.time, self._files[0].header.clock)
                begun = True
            for first in range(0, len(block), BLOCK):
                yield self._attribution.tape(part_of(block, first, first + BLOCK), self.midnight)
        if not self._attribution.prints:
            found = f"{self.source} without a trade among {self._attribution.messages:,} messages"
            raise BadInput(self._files[0].header.path, found, "a capture with its stream of trades: who took is the question")


def in_order(streams: Sequence[Iterator[DepthEvents]]) -> Iterator[DepthEvents]:
    """The messages of all streams by exchange time, trades before changes of the book at one time, as far as both are read."""
    import numpy as np

    seen: list[float] = [float("-inf")] * len(streams)
    rest: DepthEvents | None = None
    while min(seen) < float("inf"):
        slowest = seen.index(min(seen))
        block = next(streams[slowest], None)
        if block is None:
            seen[slowest] = float("inf")
        elif len(block):
            seen[slowest] = max(seen[slowest], float(block.time.max()) - OUT_OF_STEP)
            rest = block if rest is None else joined(rest, block)
        if rest is None or not len(rest):
            continue
        order = np.lexsort((rest.kind != forms.PRINT, rest.time))
        ready = int(np.searchsorted(rest.time[order], min(seen)))
        if ready:
            yield taken(rest, order[:ready])
            rest = taken(rest, order[ready:])


def joined(one: DepthEvents, other: DepthEvents) -> DepthEvents:
    """Two blocks as one."""
    import numpy as np

    names = [name for name in DepthEvents.__struct_fields__ if name not in ("first", "line")]
    columns = {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names}
    return DepthEvents(first=np.concatenate([one.first, other.first[1:] - other.first[0] + one.first[-1]]), **columns)


def taken(block: DepthEvents, rows: np.ndarray) -> DepthEvents:
    """The messages at ``rows``, in that order, with their levels."""
    import numpy as np

    counts = np.diff(block.first)[rows]
    first = np.concatenate([[0], np.cumsum(counts)])
    levels = np.arange(first[-1]) + np.repeat(block.first[rows] - first[:-1], counts)
    names = ("time", "received", "kind", "side", "price", "size", "update", "previous")
    mine = {name: getattr(block, name)[rows] for name in names}
    mine |= {name: getattr(block, name)[levels] for name in ("level_side", "level_price", "level_size")}
    return DepthEvents(first=first, **mine)


class _Attribution:
    """The book, and the trades that the next message of the book answers for."""

    def __init__(self) -> None:
        self.book = DepthBook()
        self.prints = self.messages = 0
        self._sent_changes = False
        self._highest, self._lowest = float("-inf"), float("inf")  # that buyers paid, that sellers took
        self._answered: int | None = None  # the time of the first message of the book after those trades

    def tape(self, block: DepthEvents, midnight: int) -> Tape:
        """Rows for trades and for changes of the best prices; nothing for the rest."""
        import numpy as np

        rows: list[tuple[float, int, int, int, float, float]] = []
        columns = (block.time, block.kind, block.side, block.price, block.size, block.update, block.first[:-1], block.first[1:])
        sides, prices, sizes = block.level_side.tolist(), block.level_price.tolist(), block.level_size.tolist()
        for time, kind, side, price, size, update, first, end in zip(*(c.tolist() for c in columns), strict=True):
            clock = (time - midnight) / 1e9
            self.messages += 1
            if kind == forms.PRINT:
                self._trade(time, side, price)
                rows.append((clock, EXECUTION, self._twice(), side, price, size))
            if kind == forms.PRINT and end == first:
                continue
            before = self.book.best(1), self.book.best(-1)
            self.book.apply(kind, update, sides[first:end], prices[first:end], sizes[first:end])
            after = self.book.best(1), self.book.best(-1)
            if before != after:
                rows += [(clock, cause, twice, 0, 0.0, 0.0) for cause, twice in self._causes(time, kind, before, after)]
            if kind != forms.PRINT:
                self._sent_changes |= kind == forms.DELTA
                self._answered = time if self._answered is None else self._answered
        time, cause, twice, sign, price, size = (np.array([row[k] for row in rows], dtype=code) for k, code in enumerate("dqqqdd"))
        return Tape(time, cause, twice, sign, price, size, np.zeros(len(rows), dtype=bool))

    def _trade(self, time: int, side: int, price: float) -> None:
        if self._answered is not None and time > self._answered:
            self._forget()
        self.prints += 1
        if side >= 0:
            self._highest = max(self._highest, price)
        if side <= 0:
            self._lowest = min(self._lowest, price)

    def _forget(self) -> None:
        self._highest, self._lowest, self._answered = float("-inf"), float("inf"), None

    def _causes(
        self, time: int, kind: int, before: tuple[float | None, float | None], after: tuple[float | None, float | None]
    ) -> Iterator[tuple[int, int]]:
        """(cause, bid + ask after it): one, or where the two sides moved for two reasons one each, the trades' first."""
        if self._answered is not None and time > self._answered:
            self._forget()
        whole = kind == forms.SNAPSHOT and self._sent_changes
        causes = []
        for side, was, now in ((1, before[0], after[0]), (-1, before[1], after[1])):
            if was == now:
                continue
            worse = was is not None and (now is None or side * now < side * was)
            reached = worse and was is not None and (self._lowest <= was if side > 0 else self._highest >= was)
            causes.append((OTHER if whole else EXECUTION if reached else DELETION if worse else PLACEMENT, side))
        twice = _twice(*after)
        first, last = min(causes), max(causes)
        if first[0] == last[0] or NO_MID in (_twice(*before), twice):
            return iter([(first[0], twice)])
        half = _twice(after[0] if first[1] > 0 else before[0], after[1] if first[1] < 0 else before[1], crossed=True)
        return iter([(first[0], half), (last[0], twice)])

    def _twice(self) -> int:
        return _twice(self.book.best(1), self.book.best(-1))


def _twice(bid: float | None, ask: float | None, *, crossed: bool = False) -> int:
    """bid + ask in 1 / `SCALE`; `NO_MID` where a side is empty or the two cross (unless that is only halfway)."""
    if bid is None or ask is None or (bid >= ask and not crossed):
        return NO_MID
    return round(bid * SCALE) + round(ask * SCALE)
