"""Report rows of the engine as text lines (`core.markets.stream.conformance`), written digit by digit into bytes, and back as records."""

# ruff: noqa: ANN001, ANN201, ANN202 - numba finds the types of the kernels
from __future__ import annotations

import numpy as np

from core.markets.engine.codes import CANCEL, SUBMIT
from core.markets.engine.state import (
    ACCEPTED,
    CANCELLED,
    DECREMENTED,
    MODIFIED,
    NONE,
    R_EXTRA,
    R_KIND,
    R_LEVEL,
    R_ORDER,
    R_OTHER,
    R_PRICE,
    R_QUANTITY,
    R_SEQ,
    R_SIDE,
    REFRESHED,
    REJECTED,
    RESTED,
    SLID,
    STATE_CHANGED,
    TRADE,
    TRIGGERED,
    WAITS,
    WITHDRAWN,
)
from core.markets.kernels.compiled import compiled
from core.markets.matching import reports as say

LONGEST_LINE = 6 * 21
"""Bytes of the longest report line: six numbers of up to twenty characters, each with a comma or newline."""


@compiled
def _digits(text, at, number):  # type: ignore[no-untyped-def]
    if number < 0:
        text[at] = 45
        at += 1
        number = -number
    end, rest = at + 1, number
    while rest >= 10:
        rest //= 10
        end += 1
    for place in range(end - 1, at - 1, -1):
        text[place] = 48 + number % 10
        number //= 10
    return end


@compiled
def _number(text, at, number):  # type: ignore[no-untyped-def]
    text[at] = 44
    return _digits(text, at + 1, number)


@compiled
def write_lines(rows, text, opened):  # type: ignore[no-untyped-def]
    """Write the lines of ``rows`` into ``text`` (bytes), each after a newline but the very first of a report; returns their end.

    opened: whether lines came before. ``text`` needs `LONGEST_LINE` bytes a row.
    """
    at = 0
    for row in range(len(rows)):
        kind = rows[row, R_KIND]
        code = -1
        if kind == ACCEPTED:
            code = 0
        elif kind == TRADE:
            code = 1
        elif kind == CANCELLED:
            code = 2
        elif kind == MODIFIED:
            code = 3
        elif kind == REJECTED and rows[row, R_SIDE] != SUBMIT:
            code = 4 if rows[row, R_SIDE] == CANCEL else 5
        if code < 0:
            continue
        if opened or at > 0:
            text[at] = 10
            at += 1
        text[at] = 48 + code
        at = _number(text, at + 1, rows[row, R_SEQ])
        if code == 1:
            at = _number(text, at, rows[row, R_PRICE])
            at = _number(text, at, rows[row, R_QUANTITY])
            at = _number(text, at, rows[row, R_OTHER])
            at = _number(text, at, rows[row, R_ORDER])
            continue
        if code < 4:
            at = _number(text, at, 0 if rows[row, R_SIDE] > 0 else 1)
        at = _number(text, at, rows[row, R_ORDER])
        if code < 4:
            at = _number(text, at, rows[row, R_PRICE])
        if code == 0 or code == 3:
            at = _number(text, at, rows[row, R_QUANTITY])
    return at


def lines_of(rows: np.ndarray, opened: bool) -> memoryview:
    """The report lines of ``rows`` as bytes; see `write_lines`."""
    text = np.empty(len(rows) * LONGEST_LINE + 1, dtype=np.uint8)
    return memoryview(text)[: write_lines(rows, text, opened)]  # type: ignore[arg-type]


def count_lines(rows: np.ndarray) -> int:
    """How many of ``rows`` have a line in the report."""
    kind = rows[:, R_KIND]
    lined = (kind == ACCEPTED) | (kind == TRADE) | (kind == CANCELLED) | (kind == MODIFIED)
    return int((lined | ((kind == REJECTED) & (rows[:, R_SIDE] != SUBMIT))).sum())


def as_report(row: np.ndarray) -> say.Report:
    """One row as the record `core.markets.matching.book.Book` emits. What a taker still wants is not in a row: it reads -1."""
    kind, order, other, side, price, quantity, extra, level = (
        int(row[column]) for column in (R_KIND, R_ORDER, R_OTHER, R_SIDE, R_PRICE, R_QUANTITY, R_EXTRA, R_LEVEL)
    )
    at = None if price == NONE else price
    if kind == TRADE:
        return say.Trade(price, quantity, other, order, side, extra, -1, level)
    if kind == DECREMENTED:
        return say.Decremented(price, quantity, other, order, side, extra, -1, level)
    made: dict[int, object] = {
        ACCEPTED: lambda: say.Accepted(order, side, quantity, at, say.KINDS[other]),
        RESTED: lambda: say.Rested(order, side, price, quantity, extra),
        CANCELLED: lambda: say.Cancelled(order, side, at, quantity, say.CANCEL_REASONS[other]),
        SLID: lambda: say.Slid(order, side, quantity, price),
        MODIFIED: lambda: say.Modified(order, side, level, extra, price, quantity, bool(other)),
        WITHDRAWN: lambda: say.Withdrawn(order, side, price, quantity),
        REFRESHED: lambda: say.Refreshed(order, side, price, quantity, extra),
        WAITS: lambda: say.Waits(order, side, price, quantity),
        TRIGGERED: lambda: say.Triggered(order, side, extra, quantity, at),
        STATE_CHANGED: lambda: say.StateChanged(say.STATES[order], at, quantity),
        REJECTED: lambda: say.Rejected(order, ("submit", "cancel", "modify")[side], say.REJECT_REASONS[other]),  # type: ignore[arg-type]
    }
    return made[kind]()  # type: ignore[operator, no-any-return]
