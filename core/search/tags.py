"""Which steps carry a tag, and with which value: boolean arrays over the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.recording import Recording

if TYPE_CHECKING:
    import numpy as np


def tag_mask(recording: Recording, name: str, wanted: str, length: int) -> np.ndarray:
    """(length,) bool: the steps that carry ``name`` with this value; text is compared whole, whatever its case."""
    import numpy as np

    column = recording.columns[name]
    values = column.array(length)
    if column.kind == "text":
        codes = [code for code, text in enumerate(column.texts) if text.lower() == wanted.lower()]
        mask = np.isin(values, codes)
    else:
        wished = number(wanted, column.kind)
        mask = values == wished if wished is not None else np.isnan(values)  # a whole number is compared as one: ids have 64 bits
    found: np.ndarray = mask & carries(recording, name, length)
    return found


def carries(recording: Recording, name: str, length: int) -> np.ndarray:
    """(length,) bool: the steps whose template has ``name``."""
    import numpy as np

    if not length:
        return np.zeros(0, dtype=bool)
    has = np.array([name in template.names for template in list(recording.templates)], dtype=bool)
    rows: np.ndarray = np.ones(length, dtype=bool) if has.all() else has[template_ids(recording, length)]
    return rows


def template_ids(recording: Recording, length: int) -> np.ndarray:
    """(length,) the template of each step."""
    import numpy as np

    ids = recording.template_ids[:length]
    return np.frombuffer(ids, dtype=ids.typecode)


def number(text: str, kind: str = "float") -> int | float | None:
    """A number as a person writes it (27%, 4k, 1,000); None for a missing value, infinity for what is none."""
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
        plain = word.replace(",", "").replace("_", "")
        if factor == 1.0 and plain.lstrip("+-").isdecimal() and abs(int(plain)) < 1 << 63:
            return int(plain)
        return float(plain) * factor
    except ValueError:
        return float("inf")  # no number equals it
