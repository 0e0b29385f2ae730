"""Words that a recording gives to find and run-until (`Recording.words`): an order by its number, a trade by its size."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from core.recording import Recording, Word
from core.search.tags import carries, number

if TYPE_CHECKING:
    import numpy as np

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "==": operator.eq, "=": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_NAMED = re.compile(r"(?:#|([A-Za-z_]+)\s+#?|([A-Za-z_]+)\s*==?\s*#?)\s*(-?\d+)", re.ASCII)


def named(text: str, recording: Recording) -> tuple[str, str] | None:
    """The word and the number of ``#12345``, ``order 12345`` or ``order = 12345``; None where ``text`` names no such thing."""
    match = _NAMED.fullmatch(text.strip())
    identities = [name for name, word in recording.words.items() if word.identity]
    if match is None or not identities:
        return None
    name = (match[1] or match[2] or identities[0]).lower()
    return (name, match[3]) if name in identities else None


def word_mask(recording: Recording, word: Word, op: str, wanted: str, length: int) -> np.ndarray:
    """(length,) bool: the steps at which one of the word's tags holds a number that ``op`` compares so with ``wanted``."""
    import numpy as np

    mask = np.zeros(length, dtype=bool)
    wished = number(wanted)
    for tag in word.tags:
        column = recording.columns.get(tag)
        if column is not None and column.kind in ("int", "float"):
            mask |= OPERATORS[op](column.array(length), wished) & carries(recording, tag, length)
    kind = recording.columns.get(word.kind)
    if word.kind:
        codes = [kind.code(text) for text in word.kinds] if kind is not None else []
        known = [code for code in codes if code is not None]
        if kind is None or not known:
            return np.zeros(length, dtype=bool)
        values = kind.array(length)
        some = values == known[0]
        for code in known[1:]:
            some |= values == code
        mask &= some & carries(recording, word.kind, length)
    return mask
