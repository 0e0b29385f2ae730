"""Market data files by content: which reader takes a file, and its replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from core.errors import BadInput
from core.markets.readers.forms import DepthFile, OrderFile
from core.recording import Recorder


class Format(msgspec.Struct, frozen=True):
    """One row: files that pass ``test`` are read by ``open`` (path, symbol)."""

    name: str
    title: str
    test: Callable[[str | Path], bool]
    open: Callable[[str | Path, str], OrderFile | DepthFile]
    kernel: str = ""  # what has to be compiled before it can read


def _formats() -> tuple[Format, ...]:
    from core.markets.readers.binance import looks_like_binance, open_binance
    from core.markets.readers.dbn import looks_like_dbn, open_dbn
    from core.markets.readers.itch import looks_like_itch, open_itch
    from core.markets.readers.tardis import looks_like_tardis, open_tardis

    return (
        Format("databento", "Databento DBN (mbo, mbp-1, mbp-10, trades; raw or zst)", looks_like_dbn, open_dbn),
        Format("itch", "Nasdaq ITCH 5.0 (raw or gzip)", looks_like_itch, open_itch, "readers/itch_kernel.stock_events"),
        Format("binance", "Binance (raw websocket lines; aggTrades, bookTicker, depth CSV)", looks_like_binance, open_binance),
        Format("tardis", "Tardis CSV (trades, quotes, book_snapshot, incremental_book_L2)", looks_like_tardis, open_tardis),
    )


def recognised(path: str | Path) -> Format | None:
    """The format of a file by its first bytes; None when it is none of those with a reader here (LOBSTER has its own)."""
    try:
        if not Path(path).is_file():  # a pipe would wait for ever
            return None
        return next((row for row in _formats() if row.test(path)), None)
    except (OSError, ValueError):
        return None


def is_funding(path: str | Path) -> bool:
    """Whether the file is a history of funding settlements: market data without a book."""
    from core.markets.readers.funding import looks_like_funding

    try:
        return Path(path).is_file() and looks_like_funding(path)
    except (OSError, ValueError):
        return False


def refuse_unknown_packed(path: str | Path) -> None:
    """BadInput for gzip or zstandard data that no reader knows, saying whether it is damaged or what it begins with."""
    from core.markets.readers.streams import GZIP, ZSTD, Stream

    try:
        if not Path(path).is_file():
            return
        with Path(path).open("rb") as file:
            head = file.read(4)
    except (OSError, ValueError):
        return
    kind = "gzip" if head.startswith(GZIP) else "zstandard" if head == ZSTD else ""
    if not kind:
        return
    start = next(Stream(path).pieces())[:60]
    first = start.split(b"\n", 1)[0].strip()
    text = repr(first.decode()) if first.isascii() and first.decode("ascii").isprintable() else start[:8].hex(" ")
    raise BadInput(str(path), f"{kind} data that starts with {text}", "Databento, ITCH, Binance or Tardis data; LOBSTER as a zip or CSV")


def open_market(path: str, format: str, symbol: str) -> OrderFile | DepthFile | None:
    """The reader of ``path``, None where it is LOBSTER's (or nobody's). ``format`` insists on one. BadInput as the reader says."""
    if format in ("auto", "lobster"):
        row = recognised(path) if format == "auto" else None
        if row is None:
            refuse_unknown_packed(path)
        return row.open(path, symbol) if row else None
    row = next((row for row in _formats() if row.name == format), None)
    if row is None:
        raise BadInput("format", f"found {format!r}", "auto, lobster, " + ", ".join(row.name for row in _formats()))
    if not Path(path).is_file():
        raise BadInput(path, "no such file", row.title)
    return row.open(path, symbol)


def _say_if_compiling(path: str, format: str, rec: Recorder) -> None:
    """The first file of a kind waits for its reader, seconds, and the person should know why."""
    row = recognised(path) if format == "auto" else next((row for row in _formats() if row.name == format), None)
    if row is not None and row.kernel:
        from core.markets.kernels.compiled import is_ready

        if not is_ready(row.kernel):
            rec.progress(0.0, "compiling the reader, once")


def replay_file(path: str, format: str, symbol: str, rec: Recorder) -> None:
    """Record the file at ``path`` event by event."""
    if format in ("auto", "binance") and is_funding(path):
        from core.markets.funding_replay import replay_funding

        replay_funding(path, symbol, rec)
        return
    _say_if_compiling(path, format, rec)
    file = open_market(path, format, symbol)
    if file is None:
        from core.markets.lobster.replay import replay_lobster

        replay_lobster(path, symbol, rec, sure=format == "lobster")
        return
    if file.header.by_order:
        from core.markets.events.replay import replay_orders

        replay_orders(cast(OrderFile, file), rec)
        return
    from core.markets.depth.replay import replay_depth

    replay_depth(cast(DepthFile, file), rec)
