"""The published report of a matching engine over a stream of messages, line by line, and its SHA-256.

The stream is a NumPy archive (.npz) with one entry per message in each column: type (0 new, 1 cancel, 2 modify), side
(0 buy, 1 sell), ioc, quantity, order_id, price. Report lines: ``0,seq,side,order_id,price,quantity`` for a new order;
``1,seq,price,quantity,maker,taker`` for a trade; ``2,seq,side,order_id,price`` for a cancel and for what is left of an IOC;
``3,seq,side,order_id,price,quantity`` for a modify, after its trades; ``4,seq,order_id`` and ``5,seq,order_id`` for a cancel
and a modify of an unknown order. ``seq`` is the number of the message, from 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from core.markets.matching.book import BUY, SELL, Accepted, Book, Cancelled, Modified, ModifyRule, Rejected, Report, Trade
from core.markets.matching.reports import FURTHEST
from core.markets.stream.archive import CANCEL, COLUMNS, NEW

__all__ = ["COLUMNS", "report_lines", "report_sha256"]


def report_lines(
    messages: Iterable[Sequence[int]], first: int = 0, book: Book | None = None, *, modify_rule: ModifyRule = "benchmark"
) -> Iterator[str]:
    """The report of ``messages`` (rows in the order of `COLUMNS`), numbered from ``first``; ``book`` goes on from before.

    A new order that is refused (its number rests already) has no line.
    """
    reports: list[Report] = []
    if book is None:
        book = Book(reports.append, modify_rule=modify_rule, lowest=-FURTHEST)
    else:
        book.emit = reports.append
    for seq, (kind, side, ioc, quantity, order_id, price) in enumerate(messages, first):
        if kind == NEW:
            book.submit(order_id, SELL if side else BUY, quantity, price, "ioc" if ioc else "limit")
        elif kind == CANCEL:
            book.cancel(order_id)
        else:
            book.modify(order_id, quantity, price)
        for report in reports:
            line = _line(seq, report)
            if line:
                yield line
        reports.clear()


def report_sha256(lines: Iterable[str]) -> str:
    """SHA-256 of the lines joined by newlines, without a final one."""
    digest = hashlib.sha256()
    block: list[str] = []
    joint = ""
    for line in lines:
        block.append(line)
        if len(block) == 50_000:
            digest.update((joint + "\n".join(block)).encode("ascii"))
            block.clear()
            joint = "\n"
    if block:
        digest.update((joint + "\n".join(block)).encode("ascii"))
    return digest.hexdigest()


def _line(seq: int, report: Report) -> str:
    if isinstance(report, Accepted):
        return f"0,{seq},{_code(report.side)},{report.order_id},{report.price},{report.quantity}"
    if isinstance(report, Trade):
        return f"1,{seq},{report.price},{report.quantity},{report.maker},{report.taker}"
    if isinstance(report, Cancelled):
        return f"2,{seq},{_code(report.side)},{report.order_id},{report.price}"
    if isinstance(report, Modified):
        return f"3,{seq},{_code(report.side)},{report.order_id},{report.price},{report.quantity}"
    if isinstance(report, Rejected) and report.action != "submit":
        return f"{4 if report.action == 'cancel' else 5},{seq},{report.order_id}"
    return ""


def _code(side: int) -> int:
    return 0 if side == BUY else 1
