"""Growing typed columns: one value name of the steps, one reader may look while one writer appends.

Standard-library arrays hold the values, so that nothing here needs numpy until a whole column is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core.formatting import Value

if TYPE_CHECKING:
    import numpy as np

_CODES = {"int": "q", "bool": "q", "text": "q", "float": "d"}


def _kind_of(value: Value) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float) or value is None:
        return "float"
    if isinstance(value, str):
        return "text"
    raise TypeError(f"a step value is a number, text, bool or None, not {type(value).__name__}")


class Column:
    """Values of one name, one per step; steps that lack the name hold zero (their template says so).

    ``kind`` is int, float, bool or text (text is stored once per distinct string). An int column that meets a float
    becomes a float column. None is stored as NaN.
    """

    __slots__ = ("_codes", "_consolidated", "kind", "name", "store", "texts")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.store: array[int] | array[float] = array(_CODES[kind])
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._consolidated: tuple[int, np.ndarray] | None = None

    @classmethod
    def like(cls, name: str, value: Value) -> Column:
        return cls(name, _kind_of(value))

    def pad(self, length: int) -> None:
        """Fill rows up to ``length`` for the steps before that lacked this name."""
        missing = length - len(self.store)
        if missing > 0:
            self.store.frombytes(bytes(self.store.itemsize * missing))

    def append(self, value: Value) -> None:
        if self.kind == "text":
            if not isinstance(value, str):
                raise TypeError(f"step value {self.name!r} was text before and is now {value!r}")
            self.store.append(self._code(value))
            return
        kind = _kind_of(value)
        if kind == "text":
            raise TypeError(f"step value {self.name!r} was a number before and is now {value!r}")
        if kind == "float" and self.kind != "float":
            self._promote()
        self.store.append(float("nan") if value is None else value)  # type: ignore[arg-type]

    def extend(self, values: Sequence[Value] | np.ndarray) -> None:
        """Append a block: a numpy array of ints, floats or bools, or a sequence of text."""
        import numpy as np

        if self.kind == "text":
            texts = list(map(str, values))
            for text in dict.fromkeys(texts):
                self._code(text)
            self.store.extend(array("q", map(self._codes.__getitem__, texts)))
            return
        block = np.asarray(values)
        if block.dtype.kind == "f" and self.kind != "float":
            self._promote()
        dtype = np.float64 if self.kind == "float" else np.int64
        self.store.frombytes(np.ascontiguousarray(block, dtype=dtype).tobytes())

    def value(self, row: int) -> Value:
        raw = self.store[row]
        if self.kind == "text":
            return self.texts[int(raw)]
        if self.kind == "bool":
            return bool(raw)
        if self.kind == "float":
            return None if raw != raw else float(raw)
        return int(raw)

    def array(self, length: int) -> np.ndarray:
        """The first ``length`` values as a numpy array (text as its codes into ``texts``); a copy, cached."""
        import numpy as np

        cached = self._consolidated
        if cached is not None and cached[0] == length:
            return cached[1]
        store = self.store
        values = np.frombuffer(store[:length], dtype=np.float64 if store.typecode == "d" else np.int64)
        if len(values) < length:
            values = np.concatenate([values, np.zeros(length - len(values), values.dtype)])
        self._consolidated = (length, values)
        return values

    def code(self, text: str) -> int | None:
        """The stored code of ``text``, or None when no step ever held it."""
        return self._codes.get(text)

    def _code(self, text: str) -> int:
        code = self._codes.get(text)
        if code is None:
            self.texts.append(text)
            code = self._codes[text] = len(self.texts) - 1
        return code

    def _promote(self) -> None:
        self.store = array("d", self.store)
        self.kind = "float"
        self._consolidated = None


class ComputedColumn(Column):
    """A column without a store: ``compute(first, end)`` gives its values of these rows (text as indices into ``texts``).

    For recordings of millions of steps, whose values follow from arrays that the simulation keeps anyway.
    """

    __slots__ = ("_compute",)

    def __init__(self, name: str, kind: str, compute: Callable[[int, int], np.ndarray], texts: Sequence[str] = ()) -> None:
        super().__init__(name, kind)
        self._compute = compute
        for text in texts:
            self._code(text)

    def pad(self, length: int) -> None:
        raise TypeError(f"step value {self.name!r} is computed, nothing can be appended")

    def value(self, row: int) -> Value:
        raw: int | float = self._compute(row, row + 1)[0].item()
        if self.kind == "text":
            return self.texts[int(raw)]
        if self.kind == "bool":
            return bool(raw)
        return None if raw != raw else raw

    def array(self, length: int) -> np.ndarray:
        import numpy as np

        return np.asarray(self._compute(0, length), dtype=np.float64 if self.kind == "float" else np.int64)
