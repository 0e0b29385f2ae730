"""Curves to characters: braille dots for lines and points, half blocks for bars.

Everything here works on places: numpy arrays of numbers from 0 (left, bottom) to 1 (right, top). A picture is an array of
character codes (rows, columns), top row first, 0 where nothing is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    Places = tuple[np.ndarray, np.ndarray]

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bits of a braille cell, top row first
_POINT = ord("•")
_FEW = 3  # points per column of the picture up to which each gets a mark of its own
_LONGEST_BROKEN = 64  # a line with more gaps than this is drawn without them


def column_of(place: float, width: int) -> int:
    """The column of a picture of ``width`` that ``place`` falls on."""
    return int(place * (2 * width - 1) + 0.5) // 2


def row_of(place: float, height: int) -> int:
    """The row, counted from the top, of a picture of ``height`` that ``place`` falls on."""
    return height - 1 - int(place * (4 * height - 1) + 0.5) // 4


def line(x: np.ndarray, y: np.ndarray, width: int, height: int, buckets: int = 0) -> np.ndarray:
    """The connected points, thinned to two per bucket (default: a bucket a column); NaN in y breaks the line."""
    import numpy as np

    dots = np.zeros((4 * height, 2 * width), dtype=bool)
    for px, py in _pieces(x, y):
        across, along = _grid(*_thinned(px, py, buckets or width), 2 * width, 4 * height)
        _connect(dots, across, along)
    return _braille(dots)


def stairs(x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
    """A line that holds each value until the next point, the last one until the right end."""
    import numpy as np

    if len(x) > 2 * width:  # no tread is as wide as a dot
        return line(x, y, width, height)
    held = np.append(np.repeat(x, 2)[1:], 1.0)
    return line(held, np.repeat(y, 2), width, height, buckets=2 * width)


def points(x: np.ndarray, y: np.ndarray, width: int, height: int) -> np.ndarray:
    """Separate points: a mark each where there are few, braille dots where there are many."""
    import numpy as np

    here = np.isfinite(y)
    x, y = x[here], y[here]
    if len(x) > _FEW * width:
        dots = np.zeros((4 * height, 2 * width), dtype=bool)
        across, along = _grid(x, y, 2 * width, 4 * height)
        dots[along, across] = True
        return _braille(dots)
    codes = np.zeros((height, width), dtype=np.int32)
    across, along = _grid(x, y, 2 * width, 4 * height)
    codes[height - 1 - along // 4, across // 2] = _POINT
    return codes


def bars(x: np.ndarray, y: np.ndarray, size: float, base: float, width: int, height: int) -> np.ndarray:
    """Bars from ``base``, each ``size`` wide with a gap to the next where there is room for one."""
    import numpy as np

    filled = np.zeros((2 * height, width), dtype=bool)
    here = np.isfinite(y)
    x, y = _thinned(x[here], y[here], width)
    gap = 1 if size * width >= 3 else 0
    left = np.clip(np.round((x - size / 2) * width).astype(np.int64), 0, width - 1)
    right = np.clip(np.round((x + size / 2) * width).astype(np.int64) - gap, left + 1, width)
    ends = np.clip(np.round(np.column_stack([np.minimum(y, base), np.maximum(y, base)]) * 2 * height).astype(np.int64), 0, 2 * height)
    for start, stop, (low, high) in zip(left.tolist(), right.tolist(), ends.tolist(), strict=True):
        filled[low:high, start:stop] = True
    halves = filled[::-1].reshape(height, 2, width)
    glyphs = np.array([0, ord("▄"), ord("▀"), ord("█")], dtype=np.int32)
    codes: np.ndarray = glyphs[halves[:, 0] * 2 + halves[:, 1]]
    return codes


def _grid(x: np.ndarray, y: np.ndarray, columns: int, rows: int) -> Places:
    import numpy as np

    across = np.clip((x * (columns - 1) + 0.5).astype(np.int64), 0, columns - 1)
    along = np.clip((y * (rows - 1) + 0.5).astype(np.int64), 0, rows - 1)
    return across, along


def _connect(dots: np.ndarray, across: np.ndarray, along: np.ndarray) -> None:
    """Light the dots between neighbouring points (a digital differential analyser over all segments at once)."""
    import numpy as np

    dots[along, across] = True
    dx, dy = np.diff(across), np.diff(along)
    counts = np.maximum(np.abs(dx), np.abs(dy))
    total = int(counts.sum())
    if not total:
        return
    segment = np.repeat(np.arange(len(counts)), counts)
    done = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    share = done / counts[segment]
    dots[
        np.rint(along[segment] + dy[segment] * share).astype(np.int64), np.rint(across[segment] + dx[segment] * share).astype(np.int64)
    ] = True


def _braille(dots: np.ndarray) -> np.ndarray:
    import numpy as np

    rows, columns = dots.shape
    cells = dots[::-1].reshape(rows // 4, 4, columns // 2, 2)
    bits = np.einsum("rick,ik->rc", cells.astype(np.int32), np.array(_DOTS, dtype=np.int32))
    return np.where(bits > 0, bits + _BRAILLE, 0)


def _ordered(x: np.ndarray) -> bool:
    return bool((x[1:] >= x[:-1]).all())


def _thinned(x: np.ndarray, y: np.ndarray, buckets: int) -> Places:
    """At most two points per bucket of the x axis, the lowest and the highest, in the order in which they come.

    Points in no order keep every so many-th one. Both arrays are finite.
    """
    import numpy as np

    if len(x) <= 2 * buckets:
        return x, y
    if not _ordered(x):
        pick = np.linspace(0, len(x) - 1, 2 * buckets).astype(np.int64)
        return x[pick], y[pick]
    span = float(x[-1] - x[0]) or 1.0
    bucket = np.minimum(((x - x[0]) / span * buckets).astype(np.int64), buckets - 1)
    starts = np.flatnonzero(np.diff(bucket, prepend=-1))
    ends = np.append(starts[1:], len(x)) - 1
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    rising = y[starts] <= y[ends]
    thin_x = np.column_stack([x[starts], x[ends]]).ravel()
    thin_y = np.column_stack([np.where(rising, low, high), np.where(rising, high, low)]).ravel()
    return thin_x, thin_y


def _pieces(x: np.ndarray, y: np.ndarray) -> list[Places]:
    """The curve between its gaps (NaN in y); one piece of all its points when there are too many gaps."""
    import numpy as np

    finite = np.isfinite(y)
    if finite.all():
        return [(x, y)] if len(x) else []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], finite, [False]]).astype(np.int8)))
    if len(edges) // 2 > _LONGEST_BROKEN:
        return [(x[finite], y[finite])]
    return [(x[a:b], y[a:b]) for a, b in zip(edges[::2], edges[1::2], strict=True)]
