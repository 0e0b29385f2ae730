"""A Plot as a cached character picture: data cleaned, curves rasterised, axes and marks put together by plotext.

plotext is imported at the first drawing. It raises on what real data holds (infinities, values near the float limit, empty
series, equal limits, logarithms of zero) and takes long to trace a line, so it is handed finished cells in coordinates of
the picture, never data.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from core.views import Plot
from tui.widgets import raster
from tui.widgets.axes import SCALED, Axis, axis, vertical
from tui.widgets.fitting import clip

if TYPE_CHECKING:
    import numpy as np

    Values = tuple[np.ndarray, np.ndarray]

Runs = tuple[tuple[str, int], ...]
_LARGEST, _SMALLEST = 1e300, 1e-280  # differences of larger values overflow, of smaller ones vanish
_COLOURS = 250  # plotext's colour codes serve as curve numbers


@dataclass(slots=True)
class Chart:
    """A picture of the curves. ``rows`` hold (text, curve number or -1 for the axes); ``axis`` is the row of the x axis."""

    rows: list[Runs]
    axis: int
    left: int
    width: int
    x: Axis
    stops: dict[int, float] = field(default_factory=dict)
    letters: dict[int, str] = field(default_factory=dict)
    data: list[tuple[np.ndarray, np.ndarray, bool]] = field(default_factory=list)

    def column(self, x: float) -> int | None:
        """The column of the picture that ``x`` falls on, None outside."""
        place = self.x.place(x)
        return None if place is None else self.left + raster.column_of(min(max(place, 0.0), 1.0), self.width)

    def value(self, curve: int, x: float) -> float | None:
        """The curve's last value up to ``x``; of points in no order, the nearest one's."""
        import numpy as np

        if curve >= len(self.data):
            return None
        xs, ys, ordered = self.data[curve]
        if not len(xs):
            return None
        at = int(np.searchsorted(xs, x, side="right")) - 1 if ordered else int(np.abs(xs - x).argmin())
        return float(ys[at]) if at >= 0 else None


def draw_chart(view: Plot, lengths: tuple[int, ...], width: int, height: int) -> Chart | None:
    """Draw the first ``lengths`` points of each curve; None when there is nothing to draw or no room for it."""
    if width < 16 or height < 2 or not any(lengths):
        return None
    import numpy as np

    values = [_clean(view, number, length) for number, length in enumerate(lengths)]
    series = [(np.log10(x) if view.x_log else x, np.log10(y) if view.y_log else y) for x, y in values]
    xs = np.concatenate([x for x, _ in series])
    ys = np.concatenate([y[np.isfinite(y)] for _, y in series])
    if not len(ys):
        return None
    styles = [curve.style for curve in view.curves]
    low, high = _with_zero(float(ys.min()), float(ys.max()), view.y_log, "bar" in styles)
    rows = height - 2 if height >= 5 else height - 1  # the axis line stands below, and its labels where there is room
    y = vertical(low, high, rows, view.y_unit, log=view.y_log, whole=_whole(ys))
    y = replace(y, labels=tuple(clip(label, width // 2) if rows > 1 else "" for label in y.labels))
    room = max((_spacing(x) for (x, _), style in zip(series, styles, strict=False) if style == "bar"), default=0.0)
    x_low, x_high = float(xs.min()) - room / 2, float(xs.max()) + room / 2
    wide = 7 if view.x_unit == "clock" and x_high - x_low >= 1200 else 14  # hours and minutes are short
    x = axis(x_low, x_high, min(max(width // wide, 2), 5), view.x_unit, log=view.x_log, whole=_whole(xs))
    columns = width - 1 - max(len(label) for label in y.labels)
    pictures = [_picture(style, pair, x, y, room, columns, rows) for style, pair in zip(styles, series, strict=False)]
    chart = Chart([], rows, width - columns, columns, x)
    markers, owner = _assembled(pictures, x, y, (width, height), columns, rows)
    if height > rows + 1:
        _put_name(markers[-1], _axis_name(view))
    if 1 < len(view.curves) <= 26:
        _put_letters(chart, markers, owner, series, y)
    chart.rows = [_runs(row, who) for row, who in zip(markers, owner, strict=True)]
    chart.data = [(a[np.isfinite(b)], b[np.isfinite(b)], bool((a[1:] >= a[:-1]).all())) for a, b in values]
    chart.stops = _stops(chart)
    return chart


# data --------------------------------------------------------------------------------------------------------------


def _clean(view: Plot, number: int, length: int) -> Values:
    """The values of one curve that can be drawn: x finite, y finite or NaN (a gap), positive where its axis is logarithmic."""
    import numpy as np

    curve = view.curves[number]
    # slices copy: a view of an array that still grows would stop its writer
    x, y = np.array(curve.x[:length], dtype=np.float64), np.array(curve.y[:length], dtype=np.float64)
    length = min(len(x), len(y))
    x, y = x[:length], y[:length]
    keep = np.isfinite(x) & ((x > 0) if view.x_log else True)
    x, y = x[keep], y[keep]
    y = np.where(np.isfinite(y) & ((y > 0) if view.y_log else True), y, np.nan)
    return _bounded(x), _bounded(y)


def _bounded(values: np.ndarray) -> np.ndarray:
    import numpy as np

    bounded: np.ndarray = np.clip(values, -_LARGEST, _LARGEST)
    return np.where((np.abs(bounded) < _SMALLEST) & (bounded != 0), np.copysign(_SMALLEST, bounded), bounded)


def _with_zero(low: float, high: float, log: bool, bars: bool) -> tuple[float, float]:
    """Limits that take in zero where bars stand on it or where the values come near it."""
    if log:
        return low, high
    if low > 0 and (bars or low <= 0.5 * high):
        low = 0.0
    if high < 0 and (bars or high >= 0.5 * low):
        high = 0.0
    return low, high


def _whole(values: np.ndarray) -> bool:
    import numpy as np

    return bool(np.all(values == np.floor(values)))


def _spacing(x: np.ndarray) -> float:
    """The room of one bar: the smallest distance between neighbours."""
    import numpy as np

    gaps = np.diff(np.unique(x))
    return float(gaps.min()) if len(gaps) else 1.0


# the picture -------------------------------------------------------------------------------------------------------


def _picture(style: str, series: Values, x: Axis, y: Axis, room: float, columns: int, rows: int) -> np.ndarray:
    """One curve as character codes (rows, columns), 0 where it is not."""
    across, along = (series[0] - x.low) / (x.high - x.low), (series[1] - y.low) / (y.high - y.low)
    if style == "bar":
        base = 0.0 if y.log else min(max((0.0 - y.low) / (y.high - y.low), 0.0), 1.0)
        return raster.bars(across, along, room / (x.high - x.low), base, columns, rows)
    draw = {"scatter": raster.points, "step": raster.stairs}.get(style, raster.line)
    return draw(across, along, columns, rows)


def _assembled(
    pictures: list[np.ndarray], x: Axis, y: Axis, size: tuple[int, int], columns: int, rows: int
) -> tuple[list[list[str]], list[list[int]]]:
    """The whole chart through plotext: its characters and the curve each belongs to (-1: axes, labels, blanks)."""
    import numpy as np
    from textual_plotext.plot import Plot as Figure  # a figure of one's own: plotext's functions share a global one

    width, height = size
    figure: Any = Figure()
    figure.clear_data()
    figure.plot_size(width, height)
    figure._set_size(width, height)  # plot_size alone stays within the terminal that plotext sees; here the panel decides
    figure.xaxes(True, False)
    figure.yaxes(True, False)
    figure.xlim(0, max(columns - 1, 1))
    figure.ylim(0, max(rows - 1, 1))
    ticks = [(raster.column_of((tick - x.low) / (x.high - x.low), columns), label) for tick, label in zip(x.ticks, x.labels, strict=True)]
    below = height > rows + 1
    figure.xticks([at for at, _ in ticks] if below else [], [label for _, label in ticks] if below else [])
    figure.yticks([rows - 1 - raster.row_of((tick - y.low) / (y.high - y.low), rows) for tick in y.ticks], list(y.labels))
    for number, picture in enumerate(pictures):
        along, across = np.nonzero(picture)
        marks = [chr(code) for code in picture[along, across].tolist()]
        if marks:
            figure.scatter(across.tolist(), (rows - 1 - along).tolist(), marker=marks, color=number % _COLOURS)
    figure._set_sizes()
    figure._build_matrix()  # `build` would go on to write the picture as text with escape codes
    matrix = figure.monitor.matrix
    markers = [list(row) for row in reversed(matrix.marker)]
    owner = [[-1] * width for _ in markers]
    for number, picture in enumerate(pictures):
        for r, c in zip(*(part.tolist() for part in np.nonzero(picture)), strict=True):
            owner[r][width - columns + c] = number
    return markers, owner


def _put_name(labels: list[str], name: str) -> None:
    """The x axis's name among its labels: at the right end, else in the last gap that holds it, else over the last labels."""
    row, width = "".join(labels), len(labels)
    size = cell_len(name)
    at = width - size - 1
    if at < 2 or row[at - 2 :].strip():
        gaps = [k for k in range(2, at) if not row[k - 2 : k + size + 2].strip()]
        if gaps:
            first = next(k for k in reversed(gaps) if k - 1 not in gaps)
            at = (first + gaps[-1]) // 2
        else:
            name = clip(name, width // 3)
            size = cell_len(name)
            at = width - size - 1
            labels[:] = row[: max(row.rfind("  ", 0, at - 1), 0)].ljust(width)  # a label goes whole, its tick stays
    cells = [part for char in name for part in (char, *[""] * (cell_len(char) - 1))]
    labels[at : at + size] = cells


def _put_letters(chart: Chart, markers: list[list[str]], owner: list[list[int]], series: list[Values], y: Axis) -> None:
    """A letter near the end of each curve says which it is without colour; taken places move it back along the curve."""
    taken: set[tuple[int, int]] = set()
    for number, (xs, ys) in enumerate(series):
        for row, column in _last_cells(chart, xs, ys, y):
            if (row, column) not in taken:
                letter = chr(ord("a") + number)
                markers[row][column], owner[row][column] = letter, number
                chart.letters[number] = letter
                taken.update({(row, column - 1), (row, column), (row, column + 1)})
                break


def _last_cells(chart: Chart, xs: np.ndarray, ys: np.ndarray, y: Axis, most: int = 20) -> list[tuple[int, int]]:
    """The last cells (row, column) that a curve's points fall on, newest first."""
    import numpy as np

    here = np.isfinite(ys)
    across, along = (xs[here] - chart.x.low) / (chart.x.high - chart.x.low), (ys[here] - y.low) / (y.high - y.low)
    columns = chart.left + ((2 * chart.width - 1) * across + 0.5).astype(np.int64) // 2
    rows = chart.axis - 1 - ((4 * chart.axis - 1) * along + 0.5).astype(np.int64) // 4
    cells = rows * 100_000 + columns
    last = np.append(np.flatnonzero(np.diff(cells)), len(cells) - 1)[-most:] if len(cells) else cells
    return [(int(rows[k]), int(columns[k])) for k in last[::-1]]


def _runs(row: list[str], owner: list[int]) -> Runs:
    """Neighbours of one owner together; blanks belong to the run before them."""
    runs: list[tuple[str, int]] = []
    start, current = 0, owner[0] if row else -1
    for at, (mark, who) in enumerate(zip(row, owner, strict=True)):
        if mark != " " and who != current:
            if at > start:
                runs.append(("".join(row[start:at]), current))
            start, current = at, who
    text = "".join(row[start:]).rstrip()
    if text:
        runs.append((text, current))
    return tuple(runs)


def _stops(chart: Chart) -> dict[int, float]:
    """The columns that hold points of the first curve that has any, each with its last x."""
    import numpy as np

    for xs, _, _ in chart.data:
        if not len(xs):
            continue
        across = ((np.log10(xs) if chart.x.log else xs) - chart.x.low) / (chart.x.high - chart.x.low)
        columns = chart.left + (0.5 + (2 * chart.width - 1) * across).astype(np.int64) // 2
        last = np.append(np.flatnonzero(np.diff(columns)), len(columns) - 1)
        return dict(zip(columns[last].tolist(), xs[last].tolist(), strict=True))
    return {}


def _axis_name(view: Plot) -> str:
    """The x axis's name, with its unit where the labels do not carry it."""
    return view.x + (f" ({view.x_unit})" if view.x_unit and view.x_unit not in SCALED else "")
