"""Run-until: conditions over facts, tags, words and the clock, and the steps at which they come to hold."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Literal

import msgspec

from core.errors import BadInput, nearest
from core.formatting import FORMATTER
from core.recording import FactSeries, Recording
from core.search.moments import moment, steps_at
from core.search.tags import carries, number, tag_mask
from core.search.words import OPERATORS, named, word_mask

if TYPE_CHECKING:
    import numpy as np

_COMPARISON = re.compile(r"(.+?)\s*(<=|>=|!=|==|=|<|>)\s*(.+)")


class Condition(msgspec.Struct, frozen=True):
    """``kind`` fact, tag, word or time; its ``name``, an operator and what it is compared with."""

    kind: Literal["fact", "tag", "word", "time"]
    name: str
    op: str
    wanted: str

    def mask(self, recording: Recording, length: int) -> np.ndarray:
        """(length,) bool: the steps at which the condition holds (of a time: at which it has come)."""
        import numpy as np

        if self.kind == "time":
            mask = np.zeros(length, dtype=bool)
            mask[self.steps(recording, length)] = True
            return mask
        if self.kind == "word":
            return word_mask(recording, recording.words[self.name], self.op, self.wanted, length)
        if self.kind == "tag" and self.op == ":":
            return tag_mask(recording, self.name, self.wanted, length)
        wished = number(self.wanted)
        if self.kind == "tag":
            values = recording.columns[self.name].array(length)
            found: np.ndarray = OPERATORS[self.op](values, wished) & carries(recording, self.name, length)
            return found
        series = recording.facts[self.name]
        if wished is None or wished == float("inf"):
            return _text_fact_mask(series, self.op, self.wanted, length)
        column = series.column(length)
        holds: np.ndarray = OPERATORS[self.op](column, wished) & ~np.isnan(column)
        return holds

    def steps(self, recording: Recording, length: int) -> np.ndarray:
        """The steps that count, in order: where the condition holds, and of a fact where it begins to hold."""
        import numpy as np

        if self.kind == "time":
            found = moment(self.wanted, recording)
            return steps_at(recording, *found, length) if found is not None else np.zeros(0, dtype=np.int64)
        mask = self.mask(recording, length)
        if self.kind == "fact":
            mask = mask & ~np.concatenate([[False], mask[:-1]])
        return np.flatnonzero(mask)

    def next(self, recording: Recording, step: int, direction: int) -> int | None:
        """The nearest step on (back: before ``step``) that counts. A time is a place: one that lies on the other side is gone to."""
        steps = self.steps(recording, len(recording))
        at = bisect_right(steps, step) if direction > 0 else bisect_left(steps, step) - 1
        if self.kind == "time" and len(steps):
            return int(steps[min(max(at, 0), len(steps) - 1)])
        return int(steps[at]) if 0 <= at < len(steps) else None


def _text_fact_mask(series: FactSeries, op: str, wanted: str, length: int) -> np.ndarray:
    """Facts that are text or yes/no change rarely: compare each value once, over the steps it holds."""
    import numpy as np

    out = np.zeros(length, dtype=bool)
    changes = series.changes(length)
    for first, end in zip(changes, [*changes[1:], length], strict=False):
        held = FORMATTER.format_field(series.value(first), "").lower()
        out[min(first, length) : min(end, length)] = (held == wanted.lower()) != (op == "!=")
    return out


def condition(text: str, recording: Recording) -> tuple[Condition, int]:
    """What ``text`` asks for, and its direction: -1 when it begins with ``<``, else 1.

    ``fact op number``, ``tag:value``, a word of the recording (``order 12345``, ``#12345``, ``trade >= 500``) or a time (``09:45``,
    ``@12.5``). BadInput for another form, or for a name that is none of the recording's.
    """
    where = f"until {text.strip()!r}"
    body, direction = text.strip(), 1
    if body.startswith("<"):
        body, direction = body[1:].strip(), -1
    special = asked(body, recording, where)
    if special is not None:
        return special, direction
    match = _COMPARISON.fullmatch(body)
    if match is None:
        name, colon, wanted = body.partition(":")
        if not colon or not wanted.strip():
            raise BadInput(where, "no condition", "fact op number (peak_stash >= 3) or tag:value (rank:2)")
        if name not in recording.columns:
            raise BadInput(where, f"no tag {name!r}", nearest(name, recording.columns))
        return Condition("tag", name, ":", wanted.strip()), direction
    name, op, wanted = match.groups()
    kind: Literal["fact", "tag"] = "fact" if name in recording.facts else "tag"
    if kind == "tag" and name not in recording.columns:
        raise BadInput(where, f"no fact or tag {name!r}", nearest(name, [*recording.facts, *recording.columns, *recording.words]))
    if kind == "tag" and recording.columns[name].kind == "text":
        if op not in ("=", "=="):
            raise BadInput(where, f"tag {name!r} holds text", f"{name}:{wanted}")
        return Condition("tag", name, ":", wanted), direction
    if number(wanted) in (None, float("inf")) and (kind == "tag" or op not in ("=", "==", "!=")):
        raise BadInput(where, f"found {wanted!r}", "a number, as 3, 0.25, 27% or 4k")
    return Condition(kind, name, op, wanted), direction


def asked(text: str, recording: Recording, where: str) -> Condition | None:
    """A time or a word of the recording: the forms that find and run-until share. None for anything else.

    BadInput where one of them is meant and cannot be read.
    """
    body = text.strip()
    if moment(body, recording, where) is not None:
        return Condition("time", "time", ">=", body)
    identity = named(body, recording)
    if identity is not None:
        return Condition("word", identity[0], "==", identity[1])
    match = _COMPARISON.fullmatch(body)
    name = match[1].strip().lower() if match is not None else body.partition(" ")[0].lower()
    if match is None or name not in recording.words:
        return None
    op, wanted = match[2], match[3]
    if recording.words[name].identity:
        raise BadInput(where, f"found {op + ' ' + wanted!r}", f"a number that names it, as {name} 12345 or #12345")
    if number(wanted) in (None, float("inf")):
        raise BadInput(where, f"found {wanted!r}", f"a number, as {name} >= 500 or {name} > 4k")
    return Condition("word", name, op, wanted)
