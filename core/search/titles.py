"""Which titles contain a text, without writing a title.

A query is aligned with each title template, literal by literal and field by field; rows are boolean arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.formatting import FORMATTER
from core.recording import Recording
from core.search.fields import SEPARATOR, Field, field_of
from core.search.tags import template_ids

if TYPE_CHECKING:
    import numpy as np


def title_mask(recording: Recording, query: str, length: int) -> np.ndarray:
    """(length,) bool: the steps whose formatted title contains ``query``, whatever its case."""
    import numpy as np

    wanted = query.lower().replace(SEPARATOR, " ")
    ids = template_ids(recording, length)
    out = np.zeros(length, dtype=bool)
    for number, template in enumerate(list(recording.templates)):
        mine = ids == number
        if not mine.any():
            continue
        parts = _parts(recording, template.title, template.names, length)
        if parts is None:  # a field of an unusual form: format its rows
            for row in np.flatnonzero(mine):
                out[row] = wanted in recording.title(int(row)).lower()
            continue
        if any(isinstance(part, str) and wanted in part for part in parts):
            out |= mine
        elif not all(isinstance(part, str) for part in parts):
            out |= _align(parts, wanted, mine)
    return out


def _parts(recording: Recording, title: str, names: Sequence[str], length: int) -> list[str | Field] | None:
    """The title as lower-case literals and fields, neighbouring literals joined; None when it has a field that is more than a name."""
    parts: list[str | Field] = []

    def literal(text: str) -> None:
        if parts and isinstance(parts[-1], str):
            parts[-1] += text.lower()
        else:
            parts.append(text.lower())

    for text, name, spec, conversion in FORMATTER.parse(title):
        literal(text)
        if name is None:
            continue
        if conversion or not name.isidentifier() or "{" in (spec or ""):
            return None
        if name in names:
            parts.append(field_of(recording.columns[name], spec or "", length))
        else:
            literal("{" + name + "}")
    return parts


def _align(parts: Sequence[str | Field], query: str, rows: np.ndarray) -> np.ndarray:
    """Rows (among ``rows``) in which ``query`` lies somewhere in the concatenation of ``parts``.

    ``open[n]`` are the rows in which the text before the part at hand ends with the first ``n`` letters of the query.
    """
    import numpy as np

    hit = np.zeros(len(rows), dtype=bool)
    open_: dict[int, np.ndarray] = {}
    for part in parts:
        following: dict[int, np.ndarray] = {}

        def pass_on(n: int, mask: np.ndarray, following: dict[int, np.ndarray] = following) -> None:
            following[n] = following[n] | mask if n in following else mask

        for n, mask in open_.items():
            rest = query[n:]
            if isinstance(part, str):
                if part.startswith(rest):
                    hit |= mask
                elif rest.startswith(part):
                    pass_on(n + len(part), mask)
                continue
            if (begins := part.matching("", rest)) is not None:
                hit |= mask & begins
            for taken in range(len(rest)):
                if (same := part.equal_to(rest[:taken])) is not None:
                    pass_on(n + taken, mask & same)
        if isinstance(part, str):
            for n in range(1, min(len(part) + 1, len(query))):
                if part.endswith(query[:n]):
                    pass_on(n, rows)
        else:
            if (inside := part.containing(query)) is not None:
                hit |= rows & inside
            for n in range(1, len(query)):
                if (ends := part.matching(query[:n], "")) is not None:
                    pass_on(n, rows & ends)
        open_ = {n: mask for n, mask in following.items() if mask.any()}
    return hit
