"""Where two recordings part: the first step at which they tell something else."""

from __future__ import annotations

from core.columns import Column
from core.recording.parts import Template
from core.recording.recording import Recording


def first_difference(left: Recording, right: Recording) -> int | None:
    """First step whose template or values differ (or that only one has); None when all are the same."""
    import numpy as np

    shared = min(len(left), len(right))
    different = np.zeros(shared, dtype=bool)
    known: dict[Template, int] = {}
    codes = []
    for rec in (left, right):
        table = np.array([known.setdefault(template, len(known)) for template in rec.templates], dtype=np.int64)
        codes.append(table[np.frombuffer(rec.template_ids[:shared], dtype=np.int64)] if shared else table[:0])
    different |= codes[0] != codes[1]
    for name in {*left.columns, *right.columns}:
        one, other = left.columns.get(name), right.columns.get(name)
        if one is None or other is None:
            continue  # a name only one side has shows in its templates
        if one.kind == "text" and other.kind == "text":
            renumber = np.array([_code_or(one, text) for text in other.texts], dtype=np.int64)
            b = renumber[other.array(shared)] if len(renumber) else other.array(shared)
            different |= one.array(shared) != b
        elif one.kind != other.kind and "text" in (one.kind, other.kind):
            different[:] = True
        else:
            a, b = one.array(shared), other.array(shared)
            different |= ~((a == b) | ((a != a) & (b != b)))
    if different.any():
        return int(different.argmax())
    return shared if len(left) != len(right) else None


def _code_or(column: Column, text: str) -> int:
    code = column.code(text)
    return -1 if code is None else code
