"""What the aggressor's recording shows: who moved the mid, how much each side took, the split by cause, the tape with guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.markets.growing import GrowingLog, Texts
from core.markets.readers.clock import ClockTexts
from core.markets.signing.split import Moves, Split
from core.markets.signing.tape import CAUSES, DELETION, EXECUTION, MODIFICATION, PLACEMENT
from core.recording import Recorder
from core.views import Cell, Column, Plot, TableFrame, View

if TYPE_CHECKING:
    import numpy as np

_GOES = "The mid goes from {mid_before:$} to {mid:$}. "
_SUM = "So far takers bought {bought:count} and sold {sold:count}; trades moved the mid by {by_trades:$}, quotes by {by_quotes:$}."
TEMPLATES: list[tuple[str, str]] = [
    (
        "A buyer takes {quantity:count} at {price:$}: the mid rises to {mid:$}",
        "The trade uses up the best ask, and the next one is higher. " + _GOES + _SUM,
    ),
    (
        "A seller takes {quantity:count} at {price:$}: the mid falls to {mid:$}",
        "The trade uses up the best bid, and the next one is lower. " + _GOES + _SUM,
    ),
    (
        "A buyer takes {quantity:count} at {price:$}",
        "Somebody sold exactly as much: every trade has both sides. More rests at that price, so the mid stays {mid:$}. " + _SUM,
    ),
    (
        "A seller takes {quantity:count} at {price:$}",
        "Somebody bought exactly as much: every trade has both sides. More rests at that price, so the mid stays {mid:$}. " + _SUM,
    ),
    (
        "{quantity:count} trade with a hidden order at {price:$}",
        "No displayed quantity leaves the book. Who took is not visible to the market, so it is in neither volume. " + _SUM,
    ),
    (
        "{quantity:count} trade at {price:$}, and nobody is named as the taker",
        "An auction, or a file that does not tell the side: it is in neither volume. " + _SUM,
    ),
    ("A higher bid: the mid rises to {mid:$}", "Nobody traded. A buyer now offers a better price than all others. " + _GOES + _SUM),
    ("A lower ask: the mid falls to {mid:$}", "Nobody traded. A seller now asks less than all others. " + _GOES + _SUM),
    ("The best ask is withdrawn: the mid rises to {mid:$}", "Nobody traded. The last order at the best ask left. " + _GOES + _SUM),
    ("The best bid is withdrawn: the mid falls to {mid:$}", "Nobody traded. The last order at the best bid left. " + _GOES + _SUM),
    ("A changed order moves the mid to {mid:$}", "Nobody traded. An order got another price or size. " + _GOES + _SUM),
    ("What was bought is gone from the book: the mid rises to {mid:$}", "The trades before reached the best ask. " + _GOES + _SUM),
    ("What was sold is gone from the book: the mid falls to {mid:$}", "The trades before reached the best bid. " + _GOES + _SUM),
    ("The mid moves to {mid:$}", "Neither a trade nor an order that the file tells of: a halt, an auction or a new start. " + _GOES + _SUM),
    (
        "{quantity:count} trade at {price:$}: the mid moves to {mid:$}",
        "A trade, and the mid moves with it; both sides of the book are there again. " + _GOES + _SUM,
    ),
]
(_BUYER_UP, _SELLER_DOWN, _BUYER, _SELLER, _HIDDEN, _NOBODY, _BID_UP, _ASK_DOWN, _ASK_GONE, _BID_GONE, _CHANGED, _TAKEN_UP, _TAKEN_DOWN,
 _OTHER, _ODD) = range(len(TEMPLATES))  # fmt: skip
_RIGHT, _WRONG = 3, 4
_GUESSES = ("sell", "?", "buy", "✓", "✗")
_QUOTES = "group3"  # the role of everything that is no trade


def step_kinds(moves: Moves) -> np.ndarray:
    """(steps,) index into `TEMPLATES`."""
    import numpy as np

    sign, change, cause, traded = moves.sign, moves.change, moves.cause, moves.size > 0
    up, down, still = change > 0, change < 0, change == 0
    cases = [
        (traded & ~moves.visible & still, _HIDDEN), ((sign > 0) & up, _BUYER_UP), ((sign < 0) & down, _SELLER_DOWN),
        ((sign > 0) & still, _BUYER), ((sign < 0) & still, _SELLER), (traded & still, _NOBODY), (traded, _ODD),
        ((cause == PLACEMENT) & up, _BID_UP), ((cause == PLACEMENT) & down, _ASK_DOWN),
        ((cause == DELETION) & up, _ASK_GONE), ((cause == DELETION) & down, _BID_GONE),
        (cause == MODIFICATION, _CHANGED), ((cause == EXECUTION) & up, _TAKEN_UP), ((cause == EXECUTION) & down, _TAKEN_DOWN),
    ]  # fmt: skip
    return np.select([case for case, _ in cases], [kind for _, kind in cases], _OTHER)


class SplitTable(View):
    """How much the mid moved up and down up to the step: at trades, at quotes and each kind of quote, and altogether."""

    kind = "table"
    _ROWS = ("trades", "quotes", "  placed", "  withdrawn", "  changed", "  other")

    def __init__(self, split: Split) -> None:
        super().__init__()
        self.columns = (Column("moved at", align="left"), Column("sum", "$"), Column("up", "$"), Column("down", "$"), Column("times"))
        self._split = split

    def at(self, step: int) -> TableFrame:
        split, get = self._split, self._split.columns.get
        found = [tuple(get(f"{part}{cause}")[step].item() for part in ("up", "down", "events")) for cause in range(len(CAUSES))]
        quotes = tuple(sum(column) for column in zip(*found[EXECUTION + 1 :], strict=True))
        named = list(zip(self._ROWS, [found[EXECUTION], quotes, *found[EXECUTION + 1 :]], strict=True))
        named = [row for at, row in enumerate(named) if at < 4 or row[1][2]]
        named.append(("together", tuple(a + b for a, b in zip(found[EXECUTION], quotes, strict=True))))
        rows = []
        for name, (up, down, times) in named:
            role = "trade" if name == "trades" else "plain" if name == "together" else _QUOTES
            values = [value / (2 * split.scale) for value in (up + down, up, down)]
            rows.append((Cell(name, role), *(Cell(value, role) for value in values), Cell(times, role)))
        return TableFrame(tuple(rows), self._lit(step, [name for name, _ in named]))

    def _lit(self, step: int, names: list[str]) -> frozenset[int]:
        get = self._split.columns.get
        for cause in range(len(CAUSES)):
            count = get(f"events{cause}")
            if count[step] != (count[step - 1] if step else 0):
                name = self._ROWS[cause + (cause > EXECUTION)]
                return frozenset(at for at, own in enumerate(names) if own == name or (own == "quotes" and cause > EXECUTION))
        return frozenset()


class Stage:
    """The four panels, and how a block of moves comes into them."""

    def __init__(self, rec: Recorder, split: Split) -> None:
        unit = "clock" if rec.recording.clock else "s"
        self._split, self._last = split, [float("nan")] * 5
        self._change = rec.panel("What moved the mid", Plot("time", "change", x_unit=unit, y_unit="$"), 1.6)
        for name, role in (("the mid", "plain"), ("trades", "trade"), ("quotes", _QUOTES)):
            self._change.curve(name, role, "step")
        rec.panel("How far, and how often", SplitTable(split), beside=True)
        self._volume = rec.panel("Who took", Plot("time", "volume", x_unit=unit), 1.2)
        self._volume.curve("bought", "bid", "step")
        self._volume.curve("sold", "ask", "step")
        columns = [Column("taker", align="left"), Column("price", "$")]
        columns += [Column(name, align="left") for name in ("quote", "tick", "Lee-Ready")]
        columns += [Column("quantity"), Column("time", align="left")]
        texts: dict[int, Texts] = {0: _GUESSES, **dict.fromkeys((2, 3, 4), _GUESSES), 6: ClockTexts()}
        self._log = rec.panel("Did each rule guess the taker?", GrowingLog(columns, ("ask", "plain", "bid"), texts), beside=True)

    def _curves(self, span: slice) -> list[np.ndarray]:
        split, get = self._split, self._split.columns.get
        trades, quotes = split.money(split.at_trades(span)), split.money(split.at_quotes(span))
        return [trades + quotes, trades, quotes, get("bought")[span].astype(float), get("sold")[span].astype(float)]

    def add(self, moves: Moves) -> None:
        """Draw one block."""
        import numpy as np

        span = slice(moves.first, moves.first + len(moves))
        steps = np.arange(span.start, span.stop)
        for number, values in enumerate(self._curves(span)):
            turns = np.diff(values, prepend=self._last[number]) != 0
            turns[-1] = True  # every curve goes on to the last step
            self._last[number] = float(values[-1])
            plot, curve = (self._change, number) if number < 3 else (self._volume, number - 3)
            plot.points(curve, moves.time[turns], values[turns], steps[turns])
        at = np.flatnonzero(moves.visible)
        taker = moves.sign[at] + 1
        codes = []
        for name in ("quote_rule", "tick_rule", "lee_ready"):
            guess = moves.guesses[name][at]
            known = (moves.sign[at] != 0) & (guess != 0)
            codes.append(np.where(known, np.where(guess == moves.sign[at], _RIGHT, _WRONG), guess + 1).astype(np.int8))
        clock = np.rint(moves.time[at] * 1e9).astype(np.int64)
        self._log.extend(span.start + at, taker.astype(np.int8), [taker.astype(np.int8), moves.price[at], *codes, moves.size[at], clock])
