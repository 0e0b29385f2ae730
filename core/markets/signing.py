"""Who was the aggressor of a trade, guessed from prices alone: quote rule, tick rule, Lee-Ready.

Every rule gives (trades,) of +1 buyer, -1 seller, 0 undecided. C. Lee, M. Ready, "Inferring Trade Direction from Intraday
Data", Journal of Finance 46 (1991).
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


def tick_rule(price: np.ndarray) -> np.ndarray:
    """Up from the last different price: a buyer; down: a seller. Undecided until the price has moved once."""
    import numpy as np

    if not len(price):
        return np.zeros(0, dtype=np.int64)
    moves = np.sign(np.diff(price, prepend=price[0])).astype(np.int64)
    last = np.maximum.accumulate(np.where(moves != 0, np.arange(len(moves)), 0))
    signs: np.ndarray = moves[last]
    return signs


def lee_ready(price: np.ndarray, mid: np.ndarray) -> np.ndarray:
    """The quote rule, and at the mid the tick rule."""
    import numpy as np

    quote = quote_rule(price, mid)
    return np.where(quote != 0, quote, tick_rule(price))


def lagged(time: np.ndarray, mid: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The mid that stood before the clock second of each time ``at`` began (what a tape in whole seconds can be joined with)."""
    import numpy as np

    place = np.searchsorted(time, np.floor(at), side="left") - 1
    return np.where(place >= 0, mid[np.maximum(place, 0)], np.nan)


def accuracy(guess: np.ndarray, truth: np.ndarray) -> float | None:
    """Share of decided guesses that are right; None when none is decided."""
    decided = (guess != 0) & (truth != 0)
    return float((guess[decided] == truth[decided]).mean()) if decided.any() else None


def takers(time: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """Index of the first fill of each taker: one sweep is the fills of one time and side in a row."""
    import numpy as np

    first = np.ones(len(time), dtype=bool)
    first[1:] = (time[1:] != time[:-1]) | (sign[1:] != sign[:-1])
    return np.flatnonzero(first)
