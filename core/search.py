"""Find and run-until over the columns of a recording: instant at a million steps, no title is formatted.

A query is aligned with each title template, literal by literal and field by field. A field contributes the texts of the
values it really held, once each, joined into one string that `str.find` scans; rows are then boolean arrays.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from core.columns import Column
from core.errors import BadInput, nearest
from core.formatting import FORMATTER, Value
from core.recording import Recording

if TYPE_CHECKING:
    import numpy as np

_SEPARATOR = "\x00"
_NUMBER_LETTERS = frozenset("0123456789.,-+e–∞ nainf" + _SEPARATOR)
_UNIT_LETTERS = {
    "": "", "bytes": "kmgtpb", "bytes/s": "kmgtpb/s", "flop": "kmgtpflo", "flop/s": "kmgtpflo/s", "elements": "kmgtpelements",
    "s": "mµns", "%": "%", "$": "", "count": "",
}  # fmt: skip
"""Lower-case letters that a formatted number can hold, by its unit."""
_TABLE = 1 << 16
"""An int column of a narrower range than this is formatted as a table of its range."""
_STEPWISE = 4096
"""From so many distinct floats on, equal texts are found by bisection instead of formatting each value."""

# queries -------------------------------------------------------------------------------------------------------------


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
    """The steps whose title contains ``query``, whatever its case; words of the form ``name:value`` are tags that must hold too.

    BadInput when ``name:`` is no tag of the recording and no title contains it.
    """
    import numpy as np

    length = len(recording)
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


def tag_mask(recording: Recording, name: str, wanted: str, length: int) -> np.ndarray:
    """(length,) bool: the steps that carry ``name`` with this value; text is compared whole, whatever its case."""
    import numpy as np

    column = recording.columns[name]
    values = column.array(length)
    if column.kind == "text":
        codes = [code for code, text in enumerate(column.texts) if text.lower() == wanted.lower()]
        mask = np.isin(values, codes)
    else:
        number = _number(wanted, column.kind)
        mask = values == number if number is not None else np.isnan(values)
    found: np.ndarray = mask & _carries(recording, name, length)
    return found


def _carries(recording: Recording, name: str, length: int) -> np.ndarray:
    import numpy as np

    if not length:
        return np.zeros(0, dtype=bool)
    has = np.array([name in template.names for template in recording.templates], dtype=bool)
    rows: np.ndarray = has[_template_ids(recording, length)]
    return rows


def _template_ids(recording: Recording, length: int) -> np.ndarray:
    import numpy as np

    return np.frombuffer(recording.template_ids[:length], dtype=np.int64)


def _number(text: str, kind: str = "float") -> float | None:
    word = text.strip().lower()
    if kind == "bool":
        return {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}.get(word, float("inf"))
    if word in ("–", "none", "nan"):
        return None
    factor = 1.0
    if word.endswith("%"):
        word, factor = word[:-1], 0.01
    elif word[-1:] in ("k", "m", "g", "t"):
        word, factor = word[:-1], {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[word[-1]]
    try:
        return float(word.replace(",", "").replace("_", "")) * factor
    except ValueError:
        return float("inf")  # no number equals it


# titles ----------------------------------------------------------------------------------------------------------------


def title_mask(recording: Recording, query: str, length: int) -> np.ndarray:
    """(length,) bool: the steps whose formatted title contains ``query``, whatever its case."""
    import numpy as np

    wanted = query.lower().replace(_SEPARATOR, " ")
    ids = _template_ids(recording, length)
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


def _parts(recording: Recording, title: str, names: Sequence[str], length: int) -> list[str | _Field] | None:
    """The title as lower-case literals and fields, neighbouring literals joined; None when it has a field that is more than a name."""
    parts: list[str | _Field] = []

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
            parts.append(_field(recording.columns[name], spec or "", length))
        else:
            literal("{" + name + "}")
    return parts


def _align(parts: Sequence[str | _Field], query: str, rows: np.ndarray) -> np.ndarray:
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


class _Field:
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
            texts = [text.lower().replace(_SEPARATOR, " ") for text in texts]
        self.count = len(texts)
        self.joined = _SEPARATOR + _SEPARATOR.join(texts).lower() + _SEPARATOR
        points = np.frombuffer(self.joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self.starts = np.flatnonzero(points == 0)[:-1] + 1
        self.letters = frozenset(map(chr, np.flatnonzero(np.bincount(points)).tolist()))
        self._made = True

    def containing(self, text: str) -> np.ndarray | None:
        return self._rows(text)

    def matching(self, ending: str, beginning: str) -> np.ndarray | None:
        """Rows whose text ends with ``ending``, or begins with ``beginning`` (one of the two is given)."""
        return self._rows(ending + _SEPARATOR if ending else _SEPARATOR + beginning)

    def equal_to(self, text: str) -> np.ndarray | None:
        return self._rows(_SEPARATOR + text + _SEPARATOR)

    def _rows(self, pattern: str) -> np.ndarray | None:
        """Rows whose text holds ``pattern`` (a separator in it stands for an edge); None when there is none."""
        import numpy as np

        if self.letters is not None and not self.letters.issuperset(pattern):
            return None
        if not self._made:
            self._make()
        joined, at, hits = self.joined, self.joined.find(pattern), []
        while at >= 0:
            hits.append(at + (pattern[0] == _SEPARATOR))
            at = joined.find(pattern, at + 1)
        if not hits:
            return None
        which = np.zeros(self.count, dtype=bool)
        which[np.searchsorted(self.starts, np.array(hits, dtype=np.int64), side="right") - 1] = True
        return which if self.codes is None else which[self.codes]


_FIELDS: dict[tuple[int, str], tuple[Column, int, _Field]] = {}
_KEPT_FIELDS = 32


def _field(column: Column, spec: str, length: int) -> _Field:
    """The field of ``column`` under ``spec``; kept, as making it is most of the work of a search."""
    key = (id(column), spec)
    kept = _FIELDS.get(key)
    if kept is not None and kept[0] is column and kept[1] == length:
        return kept[2]
    made = _Field(column, spec, length)
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


# conditions ------------------------------------------------------------------------------------------------------------

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "==": operator.eq, "=": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


class Condition(msgspec.Struct, frozen=True):
    """``kind`` fact or tag, its ``name``, an operator and what it is compared with."""

    kind: Literal["fact", "tag"]
    name: str
    op: str
    wanted: str

    def mask(self, recording: Recording, length: int) -> np.ndarray:
        """(length,) bool: the steps at which the condition holds."""
        import numpy as np

        if self.kind == "tag" and self.op == ":":
            return tag_mask(recording, self.name, self.wanted, length)
        number = _number(self.wanted)
        if self.kind == "tag":
            values = recording.columns[self.name].array(length)
            mask: np.ndarray = _OPERATORS[self.op](values, number) & _carries(recording, self.name, length)
            return mask
        series = recording.facts[self.name]
        if number is None or number == float("inf"):
            return _text_fact_mask(series.value, list(series.steps), self.op, self.wanted, length)
        column = series.column(length)
        holds: np.ndarray = _OPERATORS[self.op](column, number) & ~np.isnan(column)
        return holds

    def next(self, recording: Recording, step: int, direction: int) -> int | None:
        """The nearest step on (back: before ``step``) at which the condition holds; a fact's, at which it begins to hold."""
        import numpy as np

        mask = self.mask(recording, len(recording))
        if self.kind == "fact":
            mask = mask & ~np.concatenate([[False], mask[:-1]])
        steps = np.flatnonzero(mask)
        at = bisect_right(steps, step) if direction > 0 else bisect_left(steps, step) - 1
        return int(steps[at]) if 0 <= at < len(steps) else None


def _text_fact_mask(value: Callable[[int], Value], changes: list[int], op: str, wanted: str, length: int) -> np.ndarray:
    """Facts that are text or yes/no change rarely: compare each value once, over the steps it holds."""
    import numpy as np

    out = np.zeros(length, dtype=bool)
    for first, end in zip(changes, [*changes[1:], length], strict=True):
        held = FORMATTER.format_field(value(first), "").lower()
        out[min(first, length) : min(end, length)] = (held == wanted.lower()) != (op == "!=")
    return out


def condition(text: str, recording: Recording) -> tuple[Condition, int]:
    """``fact op number`` or ``tag:value``, and its direction: -1 when it begins with ``<``, else 1.

    BadInput for another form, or for a name that is neither a fact nor a tag of ``recording``.
    """
    where = f"until {text.strip()!r}"
    body, direction = text.strip(), 1
    if body.startswith("<"):
        body, direction = body[1:].strip(), -1
    match = re.fullmatch(r"(.+?)\s*(<=|>=|!=|==|=|<|>)\s*(.+)", body)
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
        raise BadInput(where, f"no fact or tag {name!r}", nearest(name, [*recording.facts, *recording.columns]))
    if kind == "tag" and recording.columns[name].kind == "text":
        if op not in ("=", "=="):
            raise BadInput(where, f"tag {name!r} holds text", f"{name}:{wanted}")
        return Condition("tag", name, ":", wanted), direction
    if _number(wanted) in (None, float("inf")) and (kind == "tag" or op not in ("=", "==", "!=")):
        raise BadInput(where, f"found {wanted!r}", "a number, as 3, 0.25, 27% or 4k")
    return Condition(kind, name, op, wanted), direction
