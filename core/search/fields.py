"""The texts that a column takes under a format: the values it really held, once each, joined into one string to scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from core.columns import Column
from core.formatting import FORMATTER, Value

if TYPE_CHECKING:
    import numpy as np

SEPARATOR = "\x00"
"""Stands between texts and for an edge of one."""
_NUMBER_LETTERS = frozenset("0123456789.,-+e–∞ nainf" + SEPARATOR)
_UNIT_LETTERS = {
    "": "", "bytes": "kmgtpb", "bytes/s": "kmgtpb/s", "flop": "kmgtpflo", "flop/s": "kmgtpflo/s", "elements": "kmgtpelements",
    "s": "mµns", "%": "%", "$": "", "count": "",
}  # fmt: skip
"""Lower-case letters that a formatted number can hold, by its unit."""
_TABLE = 1 << 16
"""An int column of a narrower range than this is formatted as a table of its range."""
_STEPWISE = 4096
"""From so many distinct floats on, equal texts are found by bisection instead of formatting each value."""


class Field:
    """The texts of one column under one format: ``codes`` (None: row i holds text i) into texts joined with separators.

    They are made when a query may lie in them: ``letters`` are all that can occur (None: not known before).
    """

    def __init__(self, column: Column, spec: str, length: int) -> None:
        self._made = False
        self._source = (column, spec, length)
        self.letters: frozenset[str] | None = None
        if column.kind in ("int", "float") and (not spec or spec in _UNIT_LETTERS):
            self.letters = _NUMBER_LETTERS.union(_UNIT_LETTERS.get(spec, ""))

    def _make(self) -> None:
        import numpy as np

        column, spec, length = self._source
        texts, self.codes = _texts(column, spec, length)
        if column.kind == "text":
            texts = [text.lower().replace(SEPARATOR, " ") for text in texts]
        self.count = len(texts)
        self.joined = SEPARATOR + SEPARATOR.join(texts).lower() + SEPARATOR
        points = np.frombuffer(self.joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.starts = np.flatnonzero(points == 0)[:-1] + 1
        self.letters = frozenset(map(chr, np.flatnonzero(np.bincount(points)).tolist()))
        self._made = True

    def containing(self, text: str) -> np.ndarray | None:
        return self._rows(text)

    def matching(self, ending: str, beginning: str) -> np.ndarray | None:
        """Rows whose text ends with ``ending``, or begins with ``beginning`` (one of the two is given)."""
        return self._rows(ending + SEPARATOR if ending else SEPARATOR + beginning)

    def equal_to(self, text: str) -> np.ndarray | None:
        return self._rows(SEPARATOR + text + SEPARATOR)

    def _rows(self, pattern: str) -> np.ndarray | None:
        """Rows whose text holds ``pattern`` (a separator in it stands for an edge); None when there is none."""
        import numpy as np

        if self.letters is not None and not self.letters.issuperset(pattern):
            return None
        if not self._made:
            self._make()
        joined, at, hits = self.joined, self.joined.find(pattern), []
        while at >= 0:
            hits.append(at + (pattern[0] == SEPARATOR))
            at = joined.find(pattern, at + 1)
        if not hits:
            return None
        which = np.zeros(self.count, dtype=bool)
        which[np.searchsorted(self.starts, np.array(hits, dtype=np.int64), side="right") - 1] = True
        return which if self.codes is None else which[self.codes]


_FIELDS: dict[tuple[int, str], tuple[Column, int, Field]] = {}
_KEPT_FIELDS = 32


def field_of(column: Column, spec: str, length: int) -> Field:
    """The field of ``column`` under ``spec``; kept, as making it is most of the work of a search."""
    key = (id(column), spec)
    kept = _FIELDS.get(key)
    if kept is not None and kept[0] is column and kept[1] == length:
        return kept[2]
    made = Field(column, spec, length)
    while len(_FIELDS) >= _KEPT_FIELDS:
        _FIELDS.pop(next(iter(_FIELDS)))
    _FIELDS[key] = (column, length, made)
    return made


def _texts(column: Column, spec: str, length: int) -> tuple[list[str], np.ndarray | None]:
    """Every text the column takes under ``spec``, and each row's index into them (None: one text a row)."""
    import numpy as np

    values = column.array(length)
    if column.kind == "text":
        return [_write(text, spec) for text in column.texts], values
    if column.kind == "bool":
        return [_write(False, spec), _write(True, spec)], values
    if column.kind == "int":
        low, high = (int(values.min()), int(values.max())) if length else (0, 0)
        if high - low < min(_TABLE, max(length, 256)):
            return [_write(n, spec) for n in range(low, high + 1)], values - low
        if not spec:
            return list(map(str, values.tolist())), None
    distinct, codes = np.unique(values, return_inverse=True)
    return list(_distinct_texts(distinct.tolist(), spec)), codes


def _write(value: Value, spec: str) -> str:
    if value != value:
        value = None
    return FORMATTER.format_field(value, spec)


def _distinct_texts(values: Sequence[float], spec: str) -> Iterator[str]:
    """The text of each of the sorted ``values``.

    Rounding is monotone, so values between two of one text have that text too (not for $, which shows two or four decimals).
    """
    if len(values) < _STEPWISE or spec == "$" or isinstance(values[0], int):
        yield from (_write(value, spec) for value in values)
        return
    first, count = 0, len(values)
    while first < count:
        text = _write(values[first], spec)
        reach = 1
        while first + reach < count and _write(values[first + reach], spec) == text:
            reach *= 2
        low, high = first + reach // 2, min(first + reach, count)  # `low` has the text, `high` has not (or is the end)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _write(values[middle], spec) == text else (low, middle)
        for _ in range(first, low + 1):
            yield text
        first = low + 1
