"""Who was the aggressor of a trade, guessed from prices alone: quote rule, tick rule, Lee-Ready.

Every rule gives (trades,) of +1 buyer, -1 seller, 0 undecided. C. Lee, M. Ready, "Inferring Trade Direction from Intraday
Data", Journal of Finance 46 (1991). What must remember the trades before it is an object that is called block after block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def quote_rule(price: np.ndarray, mid: np.ndarray) -> np.ndarray:
    """Above the mid a buyer took, below it a seller; at the mid, or without one (NaN), undecided."""
    import numpy as np

    sign: np.ndarray = np.sign(np.nan_to_num(np.round(price - mid, 9))).astype(np.int64)
    return sign


class TickRule:
    """Up from the last different price: a buyer; down: a seller. Undecided until the price has moved once."""

    def __init__(self) -> None:
        self._price = float("nan")
        self._sign = 0

    def __call__(self, price: np.ndarray) -> np.ndarray:
        """(trades,) for the prices that follow those of the calls before."""
        import numpy as np

        if not len(price):
            return np.zeros(0, dtype=np.int64)
        before = price[0] if self._price != self._price else self._price
        moves = np.sign(np.diff(price, prepend=before)).astype(np.int64)
        signs = np.concatenate([[self._sign], moves])
        last = np.maximum.accumulate(np.where(moves != 0, np.arange(1, len(signs)), 0))
        out: np.ndarray = signs[last]
        self._price, self._sign = float(price[-1]), int(out[-1])
        return out


def tick_rule(price: np.ndarray) -> np.ndarray:
    """`TickRule` over all trades at once."""
    return TickRule()(price)


def lee_ready(quote: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """What the quote rule says, and at the mid (0) what the tick rule says. Both (trades,)."""
    import numpy as np

    return np.where(quote != 0, quote, tick)


class LaggedMid:
    """The mid that stood before the clock second of an event began: what a tape in whole seconds can be joined with.

    A time that goes back belongs to the latest second seen.
    """

    def __init__(self) -> None:
        self._second = float("-inf")
        self._now = self._before = float("nan")

    def __call__(self, time: np.ndarray, mid: np.ndarray) -> np.ndarray:
        """(events,) for the events that follow those of the calls before. mid: after each event, NaN where there is none."""
        import numpy as np

        second = np.maximum.accumulate(np.concatenate([[self._second], np.floor(time)]))
        begins = np.diff(second) > 0
        stood = np.concatenate([[self._before], np.concatenate([[self._now], mid[:-1]])[begins]])
        lagged: np.ndarray = stood[np.cumsum(begins)]
        if len(time):
            self._second, self._now, self._before = float(second[-1]), float(mid[-1]), float(lagged[-1])
        return lagged


class FirstFills:
    """Which fills are the first of their taker: one taker's are the fills of one time and side in a row."""

    def __init__(self) -> None:
        self._last: tuple[float, int] = (float("nan"), 0)

    def __call__(self, time: np.ndarray, sign: np.ndarray) -> np.ndarray:
        """(fills,) bool, for the fills that follow those of the calls before."""
        import numpy as np

        first = np.ones(len(time), dtype=bool)
        if len(time):
            first[1:] = (time[1:] != time[:-1]) | (sign[1:] != sign[:-1])
            first[0] = (time[0], sign[0]) != self._last
            self._last = (float(time[-1]), int(sign[-1]))
        return first


class Score:
    """How often a rule was right so far, of the trades that it decided."""

    def __init__(self) -> None:
        self.right = self.decided = self.asked = 0

    def __call__(self, guess: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """(trades,) the share after each trade, NaN while none is decided; a trade without a true side (0) is not asked."""
        import numpy as np

        decided = (guess != 0) & (truth != 0)
        right = self.right + np.cumsum(decided & (guess == truth))
        count = self.decided + np.cumsum(decided)
        if len(guess):
            self.right, self.decided = int(right[-1]), int(count[-1])
            self.asked += int((truth != 0).sum())
        share: np.ndarray = np.where(count > 0, right / np.maximum(count, 1), np.nan)
        return share
