"""Small market data files made from scratch: Databento DBN, ITCH 5.0, and the random flow of orders that fills them."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from types import SimpleNamespace

PRICE = 1_000_000_000
LAST, SNAPSHOT = 128, 32
START = 1_703_462_400_000_000_000  # 2023-12-25 00:00 UTC


def dbn_header(schema: str = "mbo", symbols: dict[str, int] | None = None) -> bytes:
    """A header as the package writes it."""
    import datetime

    import databento_dbn

    names = symbols or {"TEST": 7}
    day = {"start_date": datetime.date(2023, 12, 25), "end_date": datetime.date(2023, 12, 26)}
    mappings = [SimpleNamespace(raw_symbol=name, intervals=[SimpleNamespace(**day, symbol=str(number))]) for name, number in names.items()]
    metadata = databento_dbn.Metadata(
        dataset="GLBX.MDP3", start=START, stype_in=databento_dbn.SType.RAW_SYMBOL,
        stype_out=databento_dbn.SType.INSTRUMENT_ID, schema=databento_dbn.Schema.from_str(schema), symbols=list(names),
        partial=[], not_found=[], mappings=mappings, end=START + 1,
    )  # fmt: skip
    return bytes(metadata)


def mbo(action: str, order: int = 1, side: str = "B", price: float = 100.0, size: int = 1, *, at: int = 0, last: bool = True,
        flags: int = 0, instrument: int = 7, event: int | None = None, sequence: int = 0) -> bytes:  # fmt: skip
    """One market-by-order record, after the published layout (56 bytes, little-endian). ``at``: nanoseconds after `START`."""
    flags |= LAST if last else 0
    return struct.pack(
        "<BBHIQQqIBBccQiI", 14, 0xA0, 1, instrument, START + (at if event is None else event), order, round(price * PRICE), size,
        flags, 0, action.encode(), side.encode(), START + at, 0, sequence,
    )  # fmt: skip


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


def mbo_day(seed: int, events: int) -> tuple[list[bytes], list[tuple[str, int, str, int, int, bool]]]:
    """Records of a consistent random flow and the same as plain tuples (action, order, side, price in ticks, size, last).

    An aggressor's T is followed by the F and the C or M of each order that it hit, all in one exchange event.
    """
    rng = random.Random(seed)
    resting: dict[int, list] = {}  # order -> [side, price, size], in arrival order
    rows: list[tuple[str, int, str, int, int, bool]] = []
    next_id = 0

    def best(side: str) -> list[int]:
        mine = [order for order, (s, _, _) in resting.items() if s == side]
        return sorted(mine, key=lambda order: (-1 if side == "B" else 1) * resting[order][1])  # stable: older first

    for _ in range(events):
        kind = rng.choices(("add", "cancel", "modify", "trade"), (5, 2, 2, 2))[0]
        bids, asks = best("B"), best("A")
        if kind == "add" or not bids or not asks:
            next_id += 1
            side = rng.choice("BA")
            limit = (resting[asks[0]][1] - 1 if asks else 10_000) if side == "B" else (resting[bids[0]][1] + 1 if bids else 10_000)
            price = limit - (1 if side == "B" else -1) * rng.randint(0, 5)
            size = rng.randint(1, 9)
            resting[next_id] = [side, price, size]
            rows.append(("A", next_id, side, price, size, True))
        elif kind == "cancel":
            order = rng.choice(list(resting))
            side, price, size = resting.pop(order)
            rows.append(("C", order, side, price, size, True))
        elif kind == "modify":
            order = rng.choice(list(resting))
            side, price, size = resting[order]
            new = rng.randint(1, 9)
            if new > size:
                resting.pop(order)
            resting[order] = [side, price, new]
            rows.append(("M", order, side, price, new, True))
        else:
            taker, side = rng.choice((("B", "A"), ("A", "B")))
            wanted = rng.randint(1, 15)
            hit = []
            for order in best(side):
                if not wanted:
                    break
                done = min(wanted, resting[order][2])
                wanted -= done
                hit.append((order, done))
            rows.append(("T", 0, taker, resting[hit[0][0]][1], sum(done for _, done in hit), False))
            fills, changes = [], []
            for order, done in hit:
                _, price, size = resting[order]
                fills.append(("F", order, side, price, done, False))
                if done == size:
                    resting.pop(order)
                    changes.append(("C", order, side, price, size, False))
                else:
                    resting[order][2] = size - done
                    changes.append(("M", order, side, price, size - done, False))
            changes[-1] = (*changes[-1][:5], True)
            rows += fills + changes
    records = [
        mbo(action, order, side, price / 100, size, at=1000 * number, last=last)
        for number, (action, order, side, price, size, last) in enumerate(rows)
    ]
    return records, rows


# ITCH ------------------------------------------------------------------------------------------------------------------


def itch(kind: str, body: bytes, *, locate: int = 1, time: int = 0, prefix: int | None = None) -> bytes:
    """One ITCH 5.0 message with its two-byte prefix (its length unless ``prefix`` says 0)."""
    message = kind.encode() + struct.pack(">HH", locate, 0) + time.to_bytes(6, "big") + body
    return struct.pack(">H", len(message) if prefix is None else prefix) + message


def itch_open(code: str = "O") -> bytes:
    return itch("S", code.encode(), locate=0)


def itch_directory(stock: str, locate: int = 1) -> bytes:
    return itch("R", stock.ljust(8).encode() + b"NN" + struct.pack(">I", 100) + b"NNZ PNN2N" + struct.pack(">I", 0) + b"N", locate=locate)


def itch_add(order: int, side: str, shares: int, price: float, **more: int) -> bytes:
    return itch("A", struct.pack(">QcI", order, side.encode(), shares) + b"TEST    " + struct.pack(">I", round(price * 10_000)), **more)


def itch_executed(order: int, shares: int, **more: int) -> bytes:
    return itch("E", struct.pack(">QIQ", order, shares, 1), **more)


def itch_executed_at(order: int, shares: int, price: float, printable: str = "Y", **more: int) -> bytes:
    return itch("C", struct.pack(">QIQcI", order, shares, 1, printable.encode(), round(price * 10_000)), **more)


def itch_cancel(order: int, shares: int, **more: int) -> bytes:
    return itch("X", struct.pack(">QI", order, shares), **more)


def itch_delete(order: int, **more: int) -> bytes:
    return itch("D", struct.pack(">Q", order), **more)


def itch_replace(old: int, new: int, shares: int, price: float, **more: int) -> bytes:
    return itch("U", struct.pack(">QQII", old, new, shares, round(price * 10_000)), **more)


def itch_hidden(shares: int, price: float, **more: int) -> bytes:
    return itch("P", struct.pack(">QcI", 0, b"B", shares) + b"TEST    " + struct.pack(">IQ", round(price * 10_000), 1), **more)


def itch_cross(shares: int, price: float, **more: int) -> bytes:
    return itch("Q", struct.pack(">Q", shares) + b"TEST    " + struct.pack(">IQc", round(price * 10_000), 1, b"O"), **more)


def itch_broken(**more: int) -> bytes:
    return itch("B", struct.pack(">Q", 1), **more)
