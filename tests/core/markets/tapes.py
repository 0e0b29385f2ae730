"""The split of a price change written again: one event at a time, by hand-readable rules, over rows that a test writes down."""

from __future__ import annotations

from collections import Counter

TRADES = (4, 5, 6)
CAUSE_OF_LOBSTER = {1: "placements", 2: "deletions", 3: "deletions", 4: "trades", 5: "trades", 6: "trades", 7: "other"}
UNOCCUPIED = 9_999_999_999


def split_of_lobster(messages: list[list], rows: list[list[int]]) -> dict[str, float]:
    """What a LOBSTER day says, in dollars and shares: changes of the mid by cause, volumes of visible trades by their taker."""
    changes: Counter[str] = Counter()
    volume = {1: 0, -1: 0}
    mid = None
    for message, row in zip(messages, rows, strict=True):
        kind, size, direction = message[1], message[3], message[5]
        if kind == 4:
            volume[-direction] += size
        ask, bid = row[0], row[2]
        if ask == UNOCCUPIED or bid == -UNOCCUPIED:
            continue  # the mid waits
        now = ask + bid
        if mid is not None:
            changes[CAUSE_OF_LOBSTER[kind]] += now - mid
        mid = now
    return {
        "change_at_trades": changes["trades"] / 20_000,
        "change_at_quotes": sum(v for k, v in changes.items() if k != "trades") / 20_000,
        "change_at_quotes[placements]": changes["placements"] / 20_000,
        "change_at_quotes[deletions]": changes["deletions"] / 20_000,
        "change_at_quotes[other]": changes["other"] / 20_000,
        "buy_volume": volume[1],
        "sell_volume": volume[-1],
    }


def agrees(recording, want: dict[str, float]) -> None:
    """Every fact that ``want`` names; one of 0 may be missing."""
    for name, value in want.items():
        got = recording.fact(name) if name in recording.facts else 0
        assert abs(got - value) < 1e-9, (name, got, value)
