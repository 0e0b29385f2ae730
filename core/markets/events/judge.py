"""Judges the exchange's events of a market-by-order file: do fills equal trades, is a book crossed outside an auction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.events.book import NO_PRICE, OWN_FILL, Effects
from core.markets.readers import forms
from core.markets.readers.forms import OrderEvents

if TYPE_CHECKING:
    import numpy as np


class EventJudge:
    """Counts over blocks that follow each other; an event may be cut by the end of a block."""

    def __init__(self) -> None:
        self.states = 0
        self.crossed = 0
        self.in_auction = 0
        self.one_sided = 0
        self.continuous = 0
        self.uneven = 0
        self.passed = 0
        self.executed = 0
        self.first_crossed = -1
        self._events = 0
        self._waiting = 0  # crossed states since the last trade
        self._first_waiting = -1
        self._open = (0, 0, 0, 0)

    def see(self, events: OrderEvents, effects: Effects) -> None:
        """Judge one block."""
        import numpy as np

        trade, fill = events.action == forms.TRADE, (events.action == forms.FILL) & ((effects.marks & OWN_FILL) == 0)
        auction = trade & (events.side == 0)
        executed = events.action == forms.EXECUTE
        totals = [np.cumsum(np.where(what, events.size, 0)) for what in (trade, fill, auction, executed)]
        ends = np.flatnonzero(events.last)
        if len(ends):
            traded, filled, printed, hit = (np.diff(total[ends], prepend=0) for total in totals)
            for column, open_part in zip((traded, filled, printed, hit), self._open, strict=True):
                column[0] += open_part
            self.uneven += int(((traded != filled) & (printed == 0)).sum())
            self.continuous += int(((traded > 0) & (printed == 0)).sum())
            bid, ask = effects.bid[ends], effects.ask[ends]
            missing = (bid == NO_PRICE) | (ask == NO_PRICE)
            self.states += len(ends)
            self.one_sided += int((missing & (bid != ask)).sum())
            self.executed += int((hit > 0).sum())
            self._auctions((bid >= ask) & ~missing, (traded > 0) | (hit > 0), printed > 0, self._events + ends)
            self._better_prices(events, effects, ends)
            totals = [total - total[ends[-1]] for total in totals]
            self._open = (0, 0, 0, 0)
        self._events += len(events)
        self._open = tuple(int(total[-1]) + part for total, part in zip(totals, self._open, strict=True))  # type: ignore[assignment]

    def finish(self) -> None:
        """The file ends: what is crossed and waits for a trade is an auction's only if nothing has traded continuously before."""
        self._decide(self.continuous + self.executed == 0)

    def _decide(self, auction: bool) -> None:
        """What is crossed and waits was an auction's, or was not."""
        if auction:
            self.in_auction += self._waiting
        else:
            self.crossed += self._waiting
            if self._waiting and self.first_crossed < 0:
                self.first_crossed = self._first_waiting
        self._waiting, self._first_waiting = 0, -1

    def _auctions(self, crossed: np.ndarray, traded: np.ndarray, printed: np.ndarray, ends: np.ndarray) -> None:
        """Crossed states belong to an auction if the next trade is an auction's print; the others count. ``ends``: their events."""
        import numpy as np

        before = 0
        for at in np.flatnonzero(traded).tolist():
            self._wait(crossed[before:at], ends[before:at])
            self._decide(bool(printed[at]))
            before = at
        self._wait(crossed[before:], ends[before:])

    def _wait(self, crossed: np.ndarray, ends: np.ndarray) -> None:
        """Crossed states whose next trade is still to come."""
        found = crossed.nonzero()[0]
        if len(found):
            self._waiting += len(found)
            if self._first_waiting < 0:
                self._first_waiting = int(ends[found[0]])

    def _better_prices(self, events: OrderEvents, effects: Effects, ends: np.ndarray) -> None:
        """Executions past a better price: after the event, orders still rest ahead of the worst price that traded."""
        import numpy as np

        hit = np.flatnonzero(((events.action == forms.FILL) & ((effects.marks & OWN_FILL) == 0)) | (events.action == forms.EXECUTE))
        side = np.where(events.action[hit] == forms.FILL, events.side[hit], effects.side[hit])
        hit, side = hit[side != 0], side[side != 0]
        at = np.searchsorted(ends, hit)
        inside = at < len(ends)
        hit, side, at = hit[inside], side[inside], at[inside]
        after = np.where(side > 0, effects.bid[ends[at]], effects.ask[ends[at]])
        past = (after != NO_PRICE) & (side * (after - effects.price[hit]) > 0)
        self.passed += len(np.unique(at[past]))


def knowledge_of_queues(unseen: int) -> tuple[str, str]:
    """(what is known of queues, why) after ``unseen`` events about orders whose arrival was never told."""
    if unseen:
        note = "orders are named, but some rested before the file begins and are not in it: who stands in front is a lower bound"
        return "estimated", note
    return "exact", "every order is named, from a snapshot or an empty start"
