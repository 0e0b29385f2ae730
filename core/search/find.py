"""Find: the steps whose title holds a text, that carry tags, that an order took part in, that a time comes at."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput, nearest
from core.recording import Recording
from core.search.conditions import asked
from core.search.forms import nothing
from core.search.tags import tag_mask
from core.search.titles import title_mask

if TYPE_CHECKING:
    import numpy as np


class Found(msgspec.Struct, frozen=True):
    """The steps that match ``query`` among the first ``length``, in order (an int64 array)."""

    query: str
    length: int
    steps: np.ndarray

    def __len__(self) -> int:
        return len(self.steps)

    def next(self, step: int, direction: int) -> int | None:
        """The nearest match after ``step`` (before it for -1), around the ends; None when nothing matches."""
        if not len(self.steps):
            return None
        if direction > 0:
            return int(self.steps[bisect_right(self.steps, step) % len(self.steps)])
        return int(self.steps[bisect_left(self.steps, step) - 1])

    def position(self, step: int) -> int:
        """Which match ``step`` is, from 1."""
        return bisect_right(self.steps, step)


def find(recording: Recording, query: str) -> Found:
    """The steps that match ``query``: a time, a word of the recording, or else text and tags.

    Text is looked for in the titles, whatever its case; words of the form ``name:value`` are tags that must hold too. BadInput
    when ``name:`` is no tag of the recording and no title contains it, and when a time or a word matches no step.
    """
    import numpy as np

    length = len(recording)
    special = asked(query, recording, f"find {query.strip()!r}")
    if special is not None:
        steps = special.steps(recording, length)
        if not len(steps):
            raise nothing(special, recording, f"find {query.strip()!r}")
        return Found(query, length, steps)
    tags, text = _terms(recording, query)
    mask = np.ones(length, dtype=bool) if text or tags else np.zeros(length, dtype=bool)
    for name, wanted in tags:
        mask &= tag_mask(recording, name, wanted, length)
    if text:
        mask &= title_mask(recording, text, length)
    steps = np.flatnonzero(mask)
    if not len(steps) and not tags and re.fullmatch(r"[A-Za-z_]\w*:\S+", text):
        name = text.partition(":")[0]
        raise BadInput(f"find {text}", f"no tag {name!r}", nearest(name, recording.columns))
    return Found(query, length, steps)


def _terms(recording: Recording, query: str) -> tuple[list[tuple[str, str]], str]:
    tags: list[tuple[str, str]] = []
    words: list[str] = []
    for word in query.split(" "):
        name, colon, wanted = word.partition(":")
        if colon and name in recording.columns and wanted:
            tags.append((name, wanted))
        else:
            words.append(word)
    return tags, " ".join(words) if not tags else " ".join(word for word in words if word)
