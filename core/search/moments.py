"""Times as a person writes them, and the steps at which they come: ``09:45``, ``9:45:12.5``, ``@09:45``, ``@12.5``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from core.errors import BadInput
from core.recording import Recording

if TYPE_CHECKING:
    import numpy as np

DAY = 86_400
_CLOCK = re.compile(r"(?P<at>@)?\s*(?P<h>\d{1,3}):(?P<m>[0-5]\d)(:(?P<s>[0-5]\d(\.\d*)?))?(\s*\+(?P<d>\d{1,2})d)?", re.ASCII)
_NUMBER = re.compile(r"@\s*(\d+\.?\d*|\.\d+)", re.ASCII)


def moment(text: str, recording: Recording, where: str = "") -> tuple[float, bool] | None:
    """The time that ``text`` means in ``recording``'s own unit, and whether it is a time of day that names no day.

    None where it is no time: it does not begin with @, and either does not read as a clock or the recording counts no seconds.
    BadInput (of ``where``) for a time after @ that cannot be read, and where the recording has no times at all.
    """
    body = text.strip()
    where = where or repr(body)
    marked = body.startswith("@")
    clock = _CLOCK.fullmatch(body)
    if not marked and (clock is None or not _counts_seconds(recording)):
        return None
    if marked and not recording.has_time:
        raise BadInput(where, "a time, and the steps of this recording have none", "text, a tag or a condition")
    if clock is not None and _counts_seconds(recording):
        seconds = int(clock["h"]) * 3600 + int(clock["m"]) * 60 + float(clock["s"] or 0)
        return seconds + DAY * int(clock["d"] or 0), bool(recording.clock) and clock["d"] is None and int(clock["h"]) < 24
    plain = _NUMBER.fullmatch(body)
    if plain is None:
        forms = "@09:45 or @9:45:12.5" if recording.clock else "@12.5" + (" or @0:00:12.5" if _counts_seconds(recording) else "")
        raise BadInput(where, "no time", f"a time, as {forms}")
    return float(plain[1]), False


def steps_at(recording: Recording, when: float, every_day: bool, length: int) -> np.ndarray:
    """The first step at or after ``when`` among the first ``length``; of a time of day one step for each day it comes on.

    A time read from text may be one rounding away from the file's: half a nanosecond of a clock is the same moment. Steps
    without a time do not count. Empty where the recording ends earlier.
    """
    import numpy as np

    times = np.frombuffer(recording.times[:length], dtype=np.float64)
    if not length or np.isnan(times).all():
        return np.zeros(0, dtype=np.int64)
    wanted = [when]
    if every_day:
        first, last = float(np.nanmin(times)), float(np.nanmax(times))
        days = [when + day * DAY for day in range(int(first // DAY), int(last // DAY) + 1)]
        wanted = [second for second in days if first <= second <= last] or days[:1]
    found = set()
    for second in wanted:
        late = times >= (second - 5e-10 if recording.clock else second)
        if late.any():
            found.add(int(late.argmax()))
    return np.array(sorted(found), dtype=np.int64)


def _counts_seconds(recording: Recording) -> bool:
    return recording.has_time and (bool(recording.clock) or recording.time_unit == "s")
