"""LOBSTER messages as market-by-order events, as far as a message file can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.lobster.reader import Events
from core.markets.readers import forms
from core.markets.readers.forms import OrderEvents

if TYPE_CHECKING:
    import numpy as np

_ACTION = (0, forms.ADD, forms.CANCEL, forms.DELETE, forms.EXECUTE, forms.HIDDEN, forms.CROSS, forms.HALT)


def order_events(events: Events) -> OrderEvents:
    """One event a message. Times are nanoseconds after midnight; prices stay in dollars x 10,000."""
    import numpy as np

    kind = np.array(_ACTION, dtype=np.int8)[events.type]
    zero, every = np.zeros(len(events), dtype=np.int64), np.ones(len(events), dtype=bool)
    nanoseconds: np.ndarray = np.rint(events.time * 1e9).astype(np.int64)
    return OrderEvents(
        nanoseconds, zero, kind, events.order, events.direction.astype(np.int8), events.price, events.size, every, ~every
    )  # fmt: skip
