"""One's own fills on a tape: in which of them was one the aggressor, and what was each worth a little later?

A fill is a row of a CSV file: time, side (buy or sell), price, quantity. A time is of the clock (``09:31:05.25``), in seconds
after midnight, or a Unix time of 10, 13, 16 or 19 digits.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.files import refuse_special
from core.markets.growing import GrowingLog, Texts
from core.markets.readers.clock import UNITS, ClockTexts, unit_of
from core.markets.readers.depth_rows import number
from core.markets.signing.split import Split
from core.recording import Recorder
from core.views import Column

if TYPE_CHECKING:
    import numpy as np

COLUMNS = ("time", "side", "price", "quantity")
ALLOWED = "a CSV file with the columns time, side, price, quantity"
MOST_FILLS = 100_000
_SIDES = {"buy": 1, "b": 1, "1": 1, "+1": 1, "sell": -1, "s": -1, "-1": -1}
_CLOCK = re.compile(r"(\d{1,2}):(\d\d):(\d\d(?:\.\d+)?)")
_DID = ("made", "?", "took")


class Fills(msgspec.Struct, frozen=True):
    """Columns (fills,) in order of time, which is as the file writes it: clock and seconds as seconds, Unix times as nanoseconds."""

    time: np.ndarray
    unix: bool
    side: np.ndarray
    price: np.ndarray
    quantity: np.ndarray

    def __len__(self) -> int:
        return len(self.time)


def read_fills(path: str) -> Fills:
    """The fills at ``path``. BadInput names the line and what was expected there."""
    import numpy as np

    refuse_special(Path(path), ALLOWED)
    rows: list[tuple[float, bool, int, float, float]] = []
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [name.strip().lower() for name in next(lines, [])]
            if sorted(header) != sorted(COLUMNS):
                raise BadInput(f"{path}: line 1", f"columns {', '.join(header)[:60] or 'none'}", ALLOWED)
            for line, row in enumerate(lines, 2):
                if row:
                    rows.append(_row(f"{path}: line {line}", dict(zip(header, row, strict=False)), len(row)))
                if len(rows) > MOST_FILLS:
                    raise BadInput(path, f"more than {MOST_FILLS:,} fills", f"at most {MOST_FILLS:,}")
    except UnicodeDecodeError as error:
        raise BadInput(path, f"byte {error.start} is not UTF-8", ALLOWED) from None
    except csv.Error as error:
        raise BadInput(path, f"not CSV ({error})", ALLOWED) from None
    except OSError as error:
        raise BadInput(path, error.strerror or str(error), ALLOWED) from None
    if not rows:
        raise BadInput(path, "a header without fills", ALLOWED)
    if len({unix for _, unix, *_ in rows}) > 1:
        raise BadInput(path, "times of the clock and Unix times", "one kind of time in the whole file")
    time, unix, side, price, quantity = (np.array(column) for column in zip(*sorted(rows), strict=True))
    return Fills(time, bool(unix[0]), side, price, quantity)


def _row(where: str, row: dict[str, str], length: int) -> tuple[float, bool, int, float, float]:
    if length != len(COLUMNS):
        raise BadInput(where, f"{length} columns", f"{len(COLUMNS)} columns, as in the header")
    text = row["time"].strip()
    clock, unit = _CLOCK.fullmatch(text), unit_of(int(text)) if text.isdigit() and len(text) <= 19 else ""
    if clock:
        time = int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3])
    else:
        time = int(text) * UNITS[unit] if unit else number(text, where, "time")
    side = _SIDES.get(row["side"].strip().lower())
    if side is None:
        raise BadInput(where, f"side is {row['side'][:40]!r}", "buy or sell")
    price, quantity = number(row["price"], where, "price"), number(row["quantity"], where, "quantity")
    if quantity <= 0:
        raise BadInput(where, f"quantity is {quantity:g}", "a number above 0")
    return time, bool(unit), side, price, quantity


def fills_panel(rec: Recorder) -> GrowingLog:
    """The table of one's fills; empty until the tape is read."""
    columns = [Column("I", align="left"), Column("side", align="left"), Column("price", "$"), Column("quantity")]
    columns += [Column("mid", "$"), Column("later", "$"), Column("a share", "$"), Column("time", align="left")]
    texts: dict[int, Texts] = {0: _DID, 1: ("sell", "?", "buy"), 7: ClockTexts()}
    return rec.panel("My fills", GrowingLog(columns, ("ask", "plain", "bid"), texts), 0.8)


def judge_fills(fills: Fills, log: GrowingLog, split: Split, midnight: int, horizon: float, rec: Recorder, path: str) -> None:
    """Hold the fills against the mids of the tape: by the quote rule from one's own side, and ``horizon`` seconds later."""
    import numpy as np

    from core.markets.signing.rules import quote_rule

    time = (fills.time - midnight) / 1e9 if fills.unix else fills.time.astype(np.float64)
    if fills.unix and not midnight:
        raise BadInput(path, "Unix times", "times of the clock or seconds after midnight: the tape has no date")
    at, mids = split.columns.get("time"), split.columns.get("mid")
    outside = int(((time < at[0]) | (time > at[-1])).sum())
    if outside:
        raise BadInput(path, f"{outside:,} of {len(fills):,} fills outside the tape's time", "fills of the same session and clock")
    before = np.searchsorted(at, time, side="left") - 1
    after = np.searchsorted(at, time + horizon, side="right") - 1
    mid = np.where(before >= 0, mids[np.maximum(before, 0)], np.nan)
    later = mids[after]
    role = fills.side * quote_rule(fills.price, mid)
    earned = fills.side * (later - fills.price)
    step = np.minimum(np.searchsorted(at, time, side="left"), len(at) - 1)
    clock = np.rint(time * 1e9).astype(np.int64)
    log.extend(step, fills.side + 1, [role + 1, fills.side + 1, fills.price, fills.quantity, mid, later, earned, clock])
    known = np.isfinite(earned)
    rec.fact("fills", len(fills))
    rec.fact("fills_taken", float(fills.quantity[role > 0].sum() / fills.quantity.sum()), "%", note="of my quantity: I was the aggressor")
    if known.any():
        weights = fills.quantity[known]
        note = f"a share, from my price to the mid {horizon:g} s later"
        rec.fact("fill_markout", float((earned[known] * weights).sum() / weights.sum()), "$", note=note)
        for name, chosen in (("took", role > 0), ("made", role < 0)):
            if (chosen & known).any():
                mine = fills.quantity[chosen & known]
                rec.fact("fill_markout", float((earned[chosen & known] * mine).sum() / mine.sum()), "$", label=name)
