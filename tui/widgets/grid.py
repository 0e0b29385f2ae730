"""Cells in a grid: how wide they can be, which shade a value has, and a row of them in as few runs of style as possible."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from core.formatting import digits, format_value
from core.views import EMPTY, Cell
from tui.theme import GLYPHS, LEVELS, RAMP, Palette
from tui.widgets.fitting import Row, centred, clip, pad

Content = Literal["full", "short", "shade"]
_ROOMY = 5
"""Cells a text may be wider than it needs, when the grid is small."""
_UNIT_LETTERS = {"bytes": "B", "bytes/s": "B/s", "flop": "FLOP", "flop/s": "FLOP/s", "s": "s", "elements": "elements"}
_FACTORS = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}
_UNDERLINED = Style(bold=True, underline=True)


class Grid(NamedTuple):
    """Every cell is ``width`` cells wide and ``height`` rows high and shows its full or short text, or only a shade."""

    width: int
    height: int
    content: Content
    right: bool = True
    """Whether the cells without a value stand right, as numbers do, or in the middle, as letters do."""


class Scale(NamedTuple):
    """Values from ``low`` (the faintest shade) to ``high`` (the strongest)."""

    low: float
    high: float

    def level(self, cell: Cell) -> int:
        """0 (nothing) to LEVELS - 1; a value that is no number has a strong shade, as its role is what matters."""
        value = cell.value
        if isinstance(value, bool):
            return LEVELS - 1 if value else 0
        if not isinstance(value, int | float):
            return 0 if value is None and not cell.text else LEVELS - 2
        if value != value or value <= self.low:
            return 0 if self.high > self.low or value != value or value == 0 else LEVELS - 2
        if not self.high > self.low or math.isinf(value):
            return LEVELS - 1
        share = (value - self.low) / (self.high - self.low)
        return min(max(math.ceil(share * (LEVELS - 1) - 1e-9), 1), LEVELS - 1)


def scale_of(low: float | None, high: float | None, least: float, most: float) -> Scale:
    """The fixed ends, else those of all values; from zero when that does not hide the differences."""
    if not math.isfinite(least):
        least = most = 0.0
    bottom = least if least < 0 or least > 0.5 * most else 0.0
    return Scale(bottom if low is None else low, most if high is None else high)


def fit(columns: int, rows: int, room: int, height: int, full: int, short: int, *, tall: bool = True) -> Grid:
    """The widest cells with which ``columns`` x ``rows`` of them fit ``room`` x ``height``.

    ``full`` and ``short`` are the widths of the longest full and short text. A grid that cannot fit has 1-cell shades.
    """
    share = room // max(columns, 1)
    lines = min(max(height // max(rows, 1), 1), 3) if tall and columns * rows <= 64 else 1
    for content, size in (("full", full), ("short", short)):
        if share > size:
            return Grid(min(share, size + 1 + (_ROOMY if columns * rows <= 64 else 2)), lines, content)  # type: ignore[arg-type]
    return Grid(2 if share >= 2 else 1, 1, "shade")


def short_value(value: float, unit: str) -> str:
    """Three digits with their prefix but without the unit (a legend says it): 1.5M, 27."""
    if unit == "%":
        return digits(value * 100, 2)
    scaled = unit if unit in ("bytes", "bytes/s", "flop", "flop/s", "elements", "s") else "flop"
    if abs(value) < 10_000 and scaled == "flop":
        return digits(value, 3)
    rest = format_value(value, scaled).partition(" ")[2]
    prefix = rest.removesuffix(_UNIT_LETTERS[scaled]).strip()
    return digits(value / _FACTORS[prefix], 3) + prefix


def text_of(cell: Cell, unit: str, content: Content, scale: Scale) -> str:
    """What a cell says in a grid of this content. Bare fractions have the decimals of the scale, so that they align."""
    value = cell.value
    if cell.text:
        return cell.text
    if value is None:
        return "" if cell == EMPTY else "–"
    if isinstance(value, bool | str) or not math.isfinite(value):
        return format_value(value, unit)
    if isinstance(value, float) and unit == "":
        size = max(abs(scale.low), abs(scale.high))
        places = (2 if content == "full" else 1) - math.floor(math.log10(size)) if 1e-4 < size < 1e4 else -1
        if places >= 0:
            return f"{value:.{places}f}"
    return format_value(value, unit) if content == "full" else short_value(value, unit)


def draw_cells(
    row: Row, cells: Sequence[Cell], lit: Collection[int], cursor: int, grid: Grid, scale: Scale, unit: str, palette: Palette, line: int = 0
) -> None:
    """Add one line of a row of cells; ``line`` counts the lines of a tall cell, its text stands in the middle one."""
    for column, cell in enumerate(cells):
        level = scale.level(cell)
        empty = cell == EMPTY
        style = palette.style("idle") if empty else palette.shade(cell.role, level)
        says = line == (grid.height - 1) // 2
        if grid.content == "shade":
            text, style = _shaded(cell, column in lit, level, grid.width, palette, style)
        elif not says:
            text = " " * grid.width
        elif empty:
            text = pad("·", grid.width - 1, right=True) + " " if grid.right else centred("·", grid.width)
        elif cell.text:
            text = centred(cell.text, grid.width)
        else:
            text = pad(text_of(cell, unit, grid.content, scale), grid.width - 1, right=True) + " "
        if column == cursor:
            row.add(_pointed(text, palette), palette.cursor)
        elif column in lit and says and text.strip():
            _add_lit(row, text, style)
        else:
            row.add(text, style)


def _shaded(cell: Cell, lit: bool, level: int, width: int, palette: Palette, style: Style) -> tuple[str, Style]:
    if cell == EMPTY:
        return pad("·", width), style
    glyph = GLYPHS.get(cell.role, " ").strip()
    said = cell.text if cell_len(cell.text) <= width else glyph
    if lit:
        return pad(said or glyph or "▪", width), style
    if palette.grounds or said:
        return pad(said, width), style
    return RAMP[level] * width, palette.style(cell.role)


def _pointed(text: str, palette: Palette) -> str:
    """Without colour the cursor needs a shape of its own."""
    return f"[{text[1:-1]}]" if palette.system == "none" and len(text) >= 3 else text


def _add_lit(row: Row, text: str, style: Style) -> None:
    """Underline the text of a cell written in this step, not the space around it."""
    body = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    row.add(before, style).add(body, style + _UNDERLINED).add(text[len(before) + len(body) :], style)


def column_labels(labels: Sequence[str], width: int) -> tuple[str, list[str], int]:
    """(what all labels begin with, what is written over the columns, over every how many columns).

    Labels that do not fit lose the words they share; numbers that still do not fit are written over every few columns.
    """
    shared = ""
    if max(map(cell_len, labels), default=0) >= width and len(labels) > 1:
        prefix = _common_prefix(labels)
        shared = prefix[: prefix.rfind(" ") + 1] if " " in prefix else prefix.rstrip("0123456789")
        labels = [label[len(shared) :] for label in labels]
    longest = max(map(cell_len, labels), default=0)
    every = 1
    while every * width <= longest and every < len(labels):
        every = {1: 2, 2: 4, 4: 5}.get(every, every * 2)
    if every * width <= longest:
        labels = [clip(label, max(every * width - 1, 1)) for label in labels]
    return shared.strip(), list(labels), every


def window_name(first: int, shown: int, total: int, room: int) -> str:
    """Which rows of how many a window shows, counted from 1, in ``room`` cells."""
    names = (f"{first + 1}–{first + shown}/{total}", f"{first + 1}–{first + shown}")
    return next((name for name in names if len(name) <= room), f"{first + 1}…")


def _common_prefix(labels: Sequence[str]) -> str:
    first, last = min(labels), max(labels)
    return first[: next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))]


def draw_header(row: Row, labels: Sequence[str], every: int, first: int, grid: Grid, style: Style, *, right: bool) -> None:
    """Labels over their columns: at the right end as numbers stand, or in the middle as texts do."""
    for place, label in enumerate(labels):
        column = first + place
        if every > 1:
            if column % every == 0:
                span = min(every, len(labels) - place) * grid.width
                row.add(pad(label, span), style)
            elif place == 0:
                row.add(" " * grid.width * (every - column % every), style)
        elif right and grid.width > 2:
            row.add(pad(label, grid.width - 1, right=True) + " ", style)
        else:
            row.add(centred(label, grid.width) if grid.width > 2 else pad(label, grid.width), style)


def draw_scale(row: Row, scale: Scale, role: str, unit: str, palette: Palette) -> None:
    """The legend of the shades: lowest value, the levels, highest value."""
    quiet = palette.style("dim")
    row.add(format_value(scale.low, unit) + " ", quiet)
    for level in range(LEVELS):
        row.add("  " if palette.grounds else RAMP[level] * 2, palette.shade(role, level) if palette.grounds else palette.style(role))
    row.add(" " + format_value(scale.high, unit), quiet)
