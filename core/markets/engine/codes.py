"""The codes of the matching engine's messages and reports: numbers for the words of `core.markets.matching.reports`."""

from __future__ import annotations

M_ACTION, M_SIDE, M_KIND, M_QUANTITY, M_ORDER, M_PRICE, M_TIP, M_TRIGGER, M_OWNER = range(9)
"""Columns of a block of messages."""
MESSAGE_WIDTH = 9
SUBMIT, CANCEL, MODIFY, HALT, AUCTION, OPEN = range(6)
LIMIT, MARKET, IOC, FOK, POST_ONLY, ICEBERG, HIDDEN, STOP, STOP_LIMIT = range(9)
CONTINUOUS, IN_AUCTION, HALTED = range(3)
OFF, NEWEST, OLDEST, BOTH, DECREMENT = range(5)
BY_CANCEL, BY_IOC, BY_FOK, BY_MARKET, BY_SELF_TRADE = range(5)
REFUSED_POST_ONLY, UNKNOWN_ORDER, DUPLICATE_ID, BAD_VALUE, NOT_TRADING, WAITING_STOP = range(6)
