"""One-row widgets: header, footer and the rules that boxes are made of. A row is sent again only when its text changes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.widget import Widget

from tui.theme import Palette
from tui.widgets.fitting import clip
from tui.widgets.rows import RowsWidget

Part = tuple[str, str]
"""Text and what it means: a role of the palette, "strong" (bold) or "key"."""


def palette_of(widget: Widget) -> Palette:
    """The palette of the terminal that ``widget`` is drawn on."""
    return Palette.of(widget.app)


class Line(RowsWidget):
    """One row with parts on the left and parts on the right; the left is cut first."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; visibility: visible; }"

    def __init__(self, left: Sequence[Part] = (), right: Sequence[Part] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.left: tuple[Part, ...] = tuple(left)
        self.right: tuple[Part, ...] = tuple(right)

    def set(self, left: Sequence[Part], right: Sequence[Part] = ()) -> None:
        shown = tuple(left), tuple(right)
        if shown != (self.left, self.right):
            self.left, self.right = shown
            self.repaint()

    @property
    def text(self) -> str:
        """What the line says, without its styles."""
        return "".join(text for text, _ in (*self.left, *self.right))

    def style(self, role: str) -> Style:
        if role in ("strong", "key"):
            return self.palette.style("plain", bold=True)
        return self.palette.style(role)

    def plan(self, size: Size) -> None:
        """Parts are fitted as they are drawn."""

    def row_key(self, y: int) -> Hashable:
        return (self.left, self.right) if y == 0 else None

    def draw_row(self, y: int) -> list[Segment]:
        if y:
            return []
        width = self.room.width
        right = fit(self.right, width)
        room = width - sum(cell_len(text) for text, _ in right)
        left = fit(self.left, room - 1 if right else room)
        gap = room - sum(cell_len(text) for text, _ in left)
        return [Segment(text, self.style(role)) for text, role in (*left, (" " * gap, "plain"), *right)]


def fit(parts: Sequence[Part], width: int) -> list[Part]:
    """The parts that fit in ``width`` cells, the last one cut."""
    kept: list[Part] = []
    for text, role in parts:
        text = clip(text, width)
        if not text:
            break
        kept.append((text, role))
        width -= cell_len(text)
    return kept


class Rule(Line):
    """A side of a box with a title on it: ``┌ Schedule ───┐``, ``├ Numbers ───┤`` or ``└───┘``."""

    ENDS: ClassVar[dict[str, str]] = {"top": "┌┐", "middle": "├┤", "bottom": "└┘"}

    def __init__(self, title: str = "", place: str = "top", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.place = place
        self.titles: tuple[tuple[Part, ...], ...] = (((title, "plain"),) if title else (),)
        self.note: tuple[Part, ...] = ()
        self.lit = False

    def show(self, *titles: Sequence[Part], note: Sequence[Part] | None = None, lit: bool | None = None) -> None:
        """Of several ``titles`` the first that fits is drawn, or the last one cut; what is not given stays as it is."""
        shown = (
            tuple(map(tuple, titles)) or self.titles,
            self.note if note is None else tuple(note),
            self.lit if lit is None else lit,
        )
        if shown != (self.titles, self.note, self.lit):
            self.titles, self.note, self.lit = shown
            self.repaint()

    def move(self, place: str) -> None:
        if place != self.place:
            self.place = place
            self.repaint()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in (*self._title(), *self.note))

    def _title(self) -> tuple[Part, ...]:
        room = self.room.width - 5 - sum(cell_len(text) for text, _ in self.note) - 2 * bool(self.note)
        return next((title for title in self.titles if sum(cell_len(text) for text, _ in title) <= room), self.titles[-1])

    def row_key(self, y: int) -> Hashable:
        return (self.place, self.titles, self.note, self.lit) if y == 0 else None

    def draw_row(self, y: int) -> list[Segment]:
        width = self.room.width
        if y or width < 2:
            return []
        ends = self.ENDS[self.place]
        left, right = ends[0], ends[1]
        line = "selected" if self.lit else "idle"
        note = fit(((" ", "plain"), *self.note, (" ", "plain")), width - 4) if self.note else []
        room = width - 4 - sum(cell_len(text) for text, _ in note)
        told = self._title()
        title = fit((*told, (" ", "plain")), room - 1) if told else []
        used = sum(cell_len(text) for text, _ in (*title, *note)) + (1 if title else 0)
        pad: list[Part] = [(" ", "plain")] if title else []
        parts: list[Part] = [(left, line), *pad, *title, ("─" * (width - 2 - used), line), *note, (right, line)]
        return [Segment(text, self.style(role)) for text, role in parts]


class Edge(RowsWidget):
    """One side of a box, a column of its own: rows beside it are sent again without it."""

    DEFAULT_CSS = "Edge { width: 1; height: 1fr; visibility: visible; }"

    def __init__(self) -> None:
        super().__init__()
        self.lit = False

    def light(self, lit: bool) -> None:
        if lit != self.lit:
            self.lit = lit
            self.repaint()

    def plan(self, size: Size) -> None:
        """Every row is the same."""

    def row_key(self, y: int) -> Hashable:
        return self.lit

    def draw_row(self, y: int) -> list[Segment]:
        return [Segment("│", self.palette.style("selected" if self.lit else "idle"))]
