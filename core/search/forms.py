"""What can be asked of a recording, said with its own names and numbers: hints for the prompts, and answers that found nothing."""

from __future__ import annotations

import math

from core.errors import BadInput
from core.formatting import clock_text, format_value
from core.recording import Recording, Word
from core.search.conditions import Condition
from core.search.moments import moment
from core.search.words import word_mask

_LOOKED_AT = 400
"""Steps up to the playhead among which an example is looked for."""
_MEASURED = 50_000


def examples(recording: Recording, step: int) -> dict[str, str]:
    """One example of each form that ``recording`` has, by what it is called: fact, tag, time, order, trade; near ``step``."""
    found: dict[str, str] = {}
    if not len(recording):
        return found
    step = min(max(step, 0), len(recording) - 1)
    fact = next((f for f in recording.facts_at(step) if isinstance(f.value, int | float) and not isinstance(f.value, bool)), None)
    if fact is not None:
        found["fact"] = f"{fact.name} > {fact.value:.6g}"
    tag = next((f"{k}:{v}" for k, v in recording.values(step).items() if isinstance(v, str) and v and " " not in v), "")
    if tag:
        found["tag"] = tag
    time = _time(recording) if recording.clock else ""
    if time:
        found["time"] = time
    for name, word in recording.words.items():
        found[name] = f"{name} {_identity(recording, word, step)}" if word.identity else f"{name} >= {_size(recording, word)}"
    return found


def nothing(wanted: Condition, recording: Recording, where: str, side: str = "") -> BadInput:
    """Says that no step is what ``wanted`` asks for, and what there is. ``side``: "after this one", "before this one" or ''."""
    so_far = " so far" if recording.state == "recording" else ""
    place = f" {side}{so_far}" if side else so_far
    if wanted.kind == "time":
        found = moment(wanted.wanted, recording)
        when = _when(recording, found[0]) if found is not None else wanted.wanted
        return BadInput(where, f"no step at or after {when}{so_far}", _span(recording))
    if wanted.kind == "word" and recording.words[wanted.name].identity:
        known = _identity(recording, recording.words[wanted.name], len(recording) - 1)
        return BadInput(where, f"no step{place} with it", f"a number as {known}")
    return BadInput(where, f"no step{place} with it", "another number, or the other direction")


def _time(recording: Recording) -> str:
    """A round time that the recording comes to: half way, to the minute where it is long enough; '' where it is too short."""
    first, last = recording.time(0) or 0.0, recording.time(len(recording) - 1) or 0.0
    unit = 60 if last - first > 180 else 1
    middle = math.ceil((first + last) / 2 / unit) * unit
    if middle > last:
        return ""
    text = clock_text(middle * 1_000_000_000, 0)
    return text[:5] + text[8:] if unit == 60 else text


def _identity(recording: Recording, word: Word, step: int) -> str:
    """The number of something that has a step near ``step``."""
    for near in range(step, max(step - _LOOKED_AT, -1), -1):
        values = recording.values(near)
        number = next((values[tag] for tag in word.tags if tag in values), None)
        if isinstance(number, int) and number > 0:
            return str(number)
    return "12345"


def _size(recording: Recording, word: Word) -> str:
    """A round size that one in about twenty of what the word names reaches (of the first steps: the prompt opens at once)."""
    import numpy as np

    length = min(len(recording), _MEASURED)
    some = np.flatnonzero(word_mask(recording, word, ">", "0", length))
    if not len(some):
        return "500"
    sizes = recording.columns[word.tags[0]].array(length)[some]
    large = float(np.quantile(sizes, 0.95))
    power = 10.0 ** math.floor(math.log10(large))
    return f"{math.floor(large / power) * power:.6g}" if large < 1e6 else f"{large:.0f}"


def _when(recording: Recording, seconds: float) -> str:
    return format_value(seconds, "clock") if recording.clock else f"t = {format_value(seconds, recording.time_unit)}"


def _span(recording: Recording) -> str:
    """From when to when the steps go."""
    if not len(recording):
        return "a time that is recorded"
    first, last = (recording.time_text(step, 0).removeprefix("t = ") for step in (0, len(recording) - 1))
    return f"{first.removesuffix(recording.clock).strip()} to {last}"
