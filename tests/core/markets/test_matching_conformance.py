"""The published report of a 2-million-message stream, line by line and as a whole."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from core.markets.stream.conformance import COLUMNS, report_lines, report_sha256

STREAM = Path(__file__).resolve().parents[3] / "../shared/data/matching/orders_normal.npz"
PUBLISHED = "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e"


def messages(limit: int | None = None):
    if not STREAM.exists():
        pytest.skip("the matching benchmark's messages are not here (../shared/data/matching)")
    with np.load(STREAM) as stream:
        return list(zip(*(stream[name][:limit].tolist() for name in COLUMNS), strict=True))


def naive_report(rows):
    """The report made from plain lists per side, re-sorted whenever one changes; no code of the engine."""
    lines, sides, where = [], {0: [], 1: []}, {}

    def match(seq, side, price, quantity, taker):
        other = sides[1 - side]
        while quantity and other and ((other[0][0] <= price) if side == 0 else (-other[0][0] >= price)):
            best = other[0]
            traded = min(quantity, best[3])
            lines.append(f"1,{seq},{abs(best[0])},{traded},{best[2]},{taker}")
            best[3] -= traded
            quantity -= traded
            if not best[3]:
                other.pop(0)
                del where[best[2]]
        return quantity

    def rest(seq, side, price, quantity, order_id):
        entry = [price if side == 1 else -price, seq, order_id, quantity]
        sides[side].append(entry)
        sides[side].sort()
        where[order_id] = (side, entry)

    for seq, (kind, side, ioc, quantity, order_id, price) in enumerate(rows):
        if kind == 0:
            lines.append(f"0,{seq},{side},{order_id},{price},{quantity}")
            left = match(seq, side, price, quantity, order_id)
            if left and ioc:
                lines.append(f"2,{seq},{side},{order_id},{price}")
            elif left:
                rest(seq, side, price, left, order_id)
        elif order_id not in where:
            lines.append(f"{4 if kind == 1 else 5},{seq},{order_id}")
        else:
            old_side, entry = where.pop(order_id)
            sides[old_side].remove(entry)
            if kind == 1:
                lines.append(f"2,{seq},{old_side},{order_id},{abs(entry[0])}")
            else:
                left = match(seq, old_side, price, quantity, order_id)
                lines.append(f"3,{seq},{old_side},{order_id},{price},{quantity}")
                if left:
                    rest(seq, old_side, price, left, order_id)
    return lines


def test_first_hundred_thousand_messages_give_the_report_of_plain_lists():
    rows = messages(100_000)
    ours = list(report_lines(rows))
    theirs = naive_report(rows)
    assert len(ours) > 100_000 and {line[0] for line in ours} >= set("01234")
    assert ours == theirs


@pytest.mark.slow
def test_whole_stream_gives_the_published_sha256():
    assert report_sha256(report_lines(messages())) == PUBLISHED


def test_each_line_type_has_its_published_form():
    rows = [
        (0, 1, 0, 10, 1, 100),  # a sell rests
        (0, 0, 1, 15, 2, 101),  # an IOC buys it all and loses the rest
        (1, 0, 0, 0, 7, 0),  # cancel of nobody
        (2, 0, 0, 5, 7, 90),  # modify of nobody
        (0, 0, 0, 5, 3, 90),
        (0, 1, 0, 4, 4, 95),
        (2, 0, 0, 6, 3, 95),  # a modify that trades
        (1, 0, 0, 0, 3, 0),
    ]
    assert list(report_lines(rows)) == [
        "0,0,1,1,100,10", "0,1,0,2,101,15", "1,1,100,10,1,2", "2,1,0,2,101", "4,2,7", "5,3,7",
        "0,4,0,3,90,5", "0,5,1,4,95,4", "1,6,95,4,4,3", "3,6,0,3,95,6", "2,7,0,3,95",
    ]  # fmt: skip


def test_sha256_joins_lines_by_newlines_across_blocks():
    lines = [f"1,{n},100,1,2,3" for n in range(120_001)]
    assert report_sha256(lines) == hashlib.sha256("\n".join(lines).encode()).hexdigest()
    assert report_sha256([]) == hashlib.sha256(b"").hexdigest()
