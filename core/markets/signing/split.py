"""The change of the mid split by its cause, block by block: what a feed's tape adds to it, with running totals and the rules' guesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from core.columns import Column, ComputedColumn
from core.markets.growing import Growing
from core.markets.signing import rules
from core.markets.signing.tape import CAUSES, EXECUTION, NO_MID, Tape

if TYPE_CHECKING:
    import numpy as np

RULES = ("quote_rule", "tick_rule", "lee_ready", "exact_quotes")
PER_TAKER = "tick_rule_per_taker"
NAMED = (*RULES, PER_TAKER)


class Moves(msgspec.Struct, frozen=True):
    """Those events of one block that trade or move the mid, as columns (steps,). ``change`` is in half-ticks; mids are in price
    units, NaN before both sides were first there; ``guesses`` are each rule's, 0 where there is no visible trade.
    """

    first: int
    time: np.ndarray
    cause: np.ndarray
    change: np.ndarray
    mid: np.ndarray
    mid_before: np.ndarray
    sign: np.ndarray
    price: np.ndarray
    size: np.ndarray
    visible: np.ndarray
    guesses: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.time)


class Split:
    """All moves so far. ``columns`` (steps,) grows: time, mid, cause, price, size, bought, sold, and for each cause the changes up and
    down (half-ticks) and how many there were; the share of right guesses of each rule. Totals are the last row.
    """

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.columns = Growing(small=[f"{part}{cause}" for part in ("up", "down", "events") for cause in range(len(CAUSES))])
        self.opening = self.held = NO_MID
        self._totals: dict[str, float] = {}
        self._tick, self._taker_tick = rules.TickRule(), rules.TickRule()
        self._lag, self._first_fills = rules.LaggedMid(), rules.FirstFills()
        self.scores = {name: rules.Score() for name in NAMED}

    def __len__(self) -> int:
        return len(self.columns)

    def money(self, halves: np.ndarray) -> np.ndarray:
        """Half-ticks as price units."""
        priced: np.ndarray = halves / (2 * self.scale)
        return priced

    def add(self, tape: Tape) -> Moves | None:
        """Take one block; None where nothing trades or moves in it."""
        import numpy as np

        held, before = self._held(tape.twice)
        both = (held != NO_MID) & (before != NO_MID)
        change = np.where(both, held - before, 0)
        raw = np.where(tape.twice == NO_MID, np.nan, self.money(tape.twice))
        lagged = self._lag(tape.time, raw)
        at = np.flatnonzero((change != 0) | (tape.size > 0))
        if not len(at):
            return None
        mid, mid_before = (np.where(c == NO_MID, np.nan, self.money(c))[at] for c in (held, before))
        visible = (tape.size[at] > 0) & ~tape.hidden[at]
        sign = np.where(visible, tape.sign[at], 0).astype(np.int64)
        price, time = tape.price[at], tape.time[at]
        guesses = self._guesses(price[visible], lagged[at][visible], mid_before[visible], visible)
        moves = Moves(len(self), time, tape.cause[at], change[at], mid, mid_before, sign, price, tape.size[at], visible, guesses)
        mine = {"time": time, "mid": mid, "cause": moves.cause.astype(np.int8), "price": price, "size": moves.size}
        self.columns.extend({**mine, **self._running(moves), **self._scored(moves)})
        return moves

    def _held(self, twice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the last known bid + ask at each event, the same before it): where a side is empty the mid waits for it."""
        import numpy as np

        place = np.maximum.accumulate(np.where(twice != NO_MID, np.arange(len(twice)), -1))
        held = np.where(place >= 0, twice[np.maximum(place, 0)], self.held)
        before = np.concatenate([[self.held], held[:-1]])
        if self.opening == NO_MID and len(held) and held[-1] != NO_MID:
            self.opening = int(held[held != NO_MID][0])
        self.held = int(held[-1]) if len(held) else self.held
        return held, before

    def _guesses(self, price: np.ndarray, lagged: np.ndarray, exact: np.ndarray, visible: np.ndarray) -> dict[str, np.ndarray]:
        import numpy as np

        quote, tick = rules.quote_rule(price, lagged), self._tick(price)
        found = {
            "quote_rule": quote, "tick_rule": tick, "lee_ready": rules.lee_ready(quote, tick),
            "exact_quotes": rules.quote_rule(price, exact),
        }  # fmt: skip
        out = {}
        for name, guess in found.items():
            out[name] = np.zeros(len(visible), dtype=np.int64)
            out[name][visible] = guess
        return out

    def _running(self, moves: Moves) -> dict[str, np.ndarray]:
        """Running totals: volume by who took, and for each cause what it moved up, what down, and how often."""
        import numpy as np

        rows = {"bought": np.where(moves.sign > 0, moves.size, 0), "sold": np.where(moves.sign < 0, moves.size, 0)}
        for cause in range(len(CAUSES)):
            mine = np.where(moves.cause == cause, moves.change, 0)
            rows |= {f"up{cause}": np.maximum(mine, 0), f"down{cause}": np.minimum(mine, 0), f"events{cause}": (mine != 0).astype(np.int64)}
        out = {}
        for name, values in rows.items():
            out[name] = np.cumsum(values) + self._totals.get(name, 0)
            self._totals[name] = out[name][-1].item()
        return out

    def _scored(self, moves: Moves) -> dict[str, np.ndarray]:
        """The share of right guesses so far: of each rule per fill, and of the tick rule per taker (one sweep is one)."""
        import numpy as np

        shares = {name: self.scores[name](moves.guesses[name], moves.sign) for name in RULES}
        signed = np.flatnonzero(moves.sign != 0)
        first = signed[self._first_fills(moves.time[signed], moves.sign[signed])]
        guess, truth = np.zeros(len(moves), dtype=np.int64), np.zeros(len(moves), dtype=np.int64)
        guess[first], truth[first] = self._taker_tick(moves.price[first]), moves.sign[first]
        shares[PER_TAKER] = self.scores[PER_TAKER](guess, truth)
        return shares

    # what the columns say, at one step or at a slice of them

    def by(self, cause: int, key: int | slice) -> np.ndarray:
        """Half-ticks by which the mid changed at ``cause`` so far."""
        up, down = (self.columns.get(f"{part}{cause}")[key].astype("int64") for part in ("up", "down"))
        moved: np.ndarray = up + down
        return moved

    def at_trades(self, key: int | slice) -> np.ndarray:
        return self.by(EXECUTION, key)

    def at_quotes(self, key: int | slice) -> np.ndarray:
        """Half-ticks by which the mid changed at everything that is no trade."""
        moved: np.ndarray = sum((self.by(cause, key) for cause in range(EXECUTION + 2, len(CAUSES))), self.by(EXECUTION + 1, key))
        return moved

    def changed(self, first: int, end: int) -> np.ndarray:
        """Half-ticks by which each of the moves first, …, end - 1 changed the mid."""
        import numpy as np

        span = slice(max(first - 1, 0), end)
        total = self.at_trades(span) + self.at_quotes(span)
        return np.diff(total, prepend=0) if first == 0 else np.diff(total)

    def before(self, first: int, end: int) -> np.ndarray:
        """The mid before each of these moves, in price units."""
        import numpy as np

        return self.money(np.rint(self.columns.get("mid")[first:end] * (2 * self.scale)) - self.changed(first, end))

    def step_values(self) -> list[Column]:
        """The values of the steps, each computed where it is read."""
        get = self.columns.get

        def kept(name: str) -> Callable[[int, int], np.ndarray]:
            return lambda first, end: get(name)[first:end]

        counted: Literal["int", "float"] = "int" if get("bought").dtype.kind == "i" else "float"
        return [
            ComputedColumn("cause", "text", lambda first, end: get("cause")[first:end].astype("int64"), CAUSES),
            ComputedColumn("price", "float", kept("price")),
            ComputedColumn("quantity", counted, kept("size")),
            ComputedColumn("mid_before", "float", self.before),
            ComputedColumn("mid", "float", kept("mid")),
            ComputedColumn("change", "float", lambda first, end: self.money(self.changed(first, end))),
            ComputedColumn("bought", counted, kept("bought")),
            ComputedColumn("sold", counted, kept("sold")),
            ComputedColumn("by_trades", "float", lambda first, end: self.money(self.at_trades(slice(first, end)))),
            ComputedColumn("by_quotes", "float", lambda first, end: self.money(self.at_quotes(slice(first, end)))),
        ]
