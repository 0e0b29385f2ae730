"""A small seeded LOBSTER day: random orders on a plain dictionary book, written as message and orderbook rows."""

from __future__ import annotations

import random
from pathlib import Path

UNOCCUPIED = 9_999_999_999


def row_of(book: dict[int, dict[int, int]], levels: int) -> list[int]:
    """ask price, ask size, bid price, bid size for each level; ``book[side][price]`` is a quantity."""
    row: list[int] = []
    asks, bids = sorted(book[-1]), sorted(book[1], reverse=True)
    for k in range(levels):
        row += [asks[k], book[-1][asks[k]]] if k < len(asks) else [UNOCCUPIED, 0]
        row += [bids[k], book[1][bids[k]]] if k < len(bids) else [-UNOCCUPIED, 0]
    return row


def sample_day(seed: int = 0, events: int = 400, levels: int = 3) -> tuple[list[list[object]], list[list[int]]]:
    """Message rows and orderbook rows of one day. Every event is at a visible price, as in a real file."""
    rng = random.Random(seed)
    book: dict[int, dict[int, int]] = {1: {}, -1: {}}
    orders: dict[int, list[int]] = {}
    messages: list[list[object]] = []
    rows: list[list[int]] = []
    time, next_id = 34_200.0, 100

    def visible(side: int) -> list[int]:
        return sorted(book[side], key=lambda price: -side * price)[:levels]

    while len(messages) < events:
        time += rng.expovariate(2.0)
        kind = rng.choices((1, 2, 3, 4, 5, 7), (10, 2, 5, 5, 1, 0.1))[0]
        side = rng.choice((1, -1))
        other = min(book[-side], key=lambda price: side * price, default=None)
        seen = [order for order, (s, price, _) in orders.items() if s == side and price in visible(side)]
        if kind == 1 or (kind in (2, 3, 4) and not seen):
            touch = other if other is not None else 1_000_000
            price = touch - side * 100 * rng.randint(1, 8)
            if len(book[side]) >= levels and price not in visible(side) and side * price < side * visible(side)[-1]:
                continue
            size = rng.randint(1, 5) * 100
            orders[next_id] = [side, price, size]
            book[side][price] = book[side].get(price, 0) + size
            message: list[object] = [f"{time:.9f}", 1, next_id, size, price, side]
            next_id += 1
        elif kind in (2, 3, 4):
            order = rng.choice(seen)
            if kind == 4:
                best = visible(side)[0]
                order = min(o for o, (s, price, _) in orders.items() if s == side and price == best)
            _, price, left = orders[order]
            size = left if kind == 3 else rng.randint(1, left)
            if kind == 2 and size == left:
                continue
            orders[order][2] -= size
            if not orders[order][2]:
                del orders[order]
            book[side][price] -= size
            if not book[side][price]:
                del book[side][price]
            message = [f"{time:.9f}", kind, order, size, price, side]
        elif kind == 5:
            if not book[1] or not book[-1]:
                continue
            price = max(book[1]) + rng.randint(0, min(book[-1]) - max(book[1]))
            message = [f"{time:.9f}", 5, 0, rng.randint(1, 200), price, side]
        else:
            message = [f"{time:.9f}", 7, 0, 0, rng.choice((-1, 0, 1)), -1]
        messages.append(message)
        rows.append(row_of(book, levels))
    return messages, rows


def csv_text(rows: list[list[object]] | list[list[int]], newline: str = "\n") -> str:
    return "".join(",".join(map(str, row)) + newline for row in rows)


def write_day(folder: Path, seed: int = 0, events: int = 400, levels: int = 3, newline: str = "\n") -> Path:
    """Write the pair of CSV files and return the message file."""
    messages, rows = sample_day(seed, events, levels)
    message = folder / f"TEST_2024-01-02_34200000_57600000_message_{levels}.csv"
    message.write_bytes(csv_text(messages, newline).encode())
    book = folder / message.name.replace("message", "orderbook")
    book.write_bytes(csv_text(rows, newline).encode())
    return message
