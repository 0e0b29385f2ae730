"""One-row widgets: header, footer and the rules that boxes are made of. A row is sent again only when its text changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tui.theme import Palette
from tui.widgets.rows import composed, filtered

Part = tuple[str, str]
"""Text and what it means: a role of the palette, "strong" (bold) or "key"."""


def palette_of(widget: Widget) -> Palette:
    """The palette of the terminal that ``widget`` is drawn on."""
    return Palette.of(widget.app)


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


class Still(Widget):
    """Keeps what it rendered until it is refreshed: the compositor asks for it at every step, and it hardly ever changes."""

    _kept: tuple[Region, list[Strip]] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._kept is None or self._kept[0] != crop:
            self._kept = (crop, super().render_lines(crop) if self.styles.gutter else self._plain_lines(crop))
        return self._kept[1]

    def _plain_lines(self, crop: Region) -> list[Strip]:
        """What Textual draws of a widget without border and padding, without looking for them."""
        left, right = crop.column_span
        strips = filtered([self.render_line(y) for y in crop.line_range], self.get_line_filters(), self.background_colors[1])
        return [strip.crop(left, right) for strip in strips]

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        self._kept = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        self._kept = None
        super().notify_style_update()


class Line(Still):
    """One row with parts on the left and parts on the right; the left is cut first."""

    DEFAULT_CSS = "Line { height: 1; width: 1fr; visibility: visible; }"

    def __init__(self, left: Sequence[Part] = (), right: Sequence[Part] = (), *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.left: tuple[Part, ...] = tuple(left)
        self.right: tuple[Part, ...] = tuple(right)
        self._palette: Palette | None = None

    def set(self, left: Sequence[Part], right: Sequence[Part] = ()) -> None:
        shown = tuple(left), tuple(right)
        if shown != (self.left, self.right):
            self.left, self.right = shown
            self.refresh()

    @property
    def text(self) -> str:
        """What the line says, without its styles."""
        return "".join(text for text, _ in (*self.left, *self.right))

    def forget(self) -> None:
        self._palette = None
        self.refresh()

    def style(self, role: str) -> Style:
        if self._palette is None:
            self._palette = palette_of(self)
        if role == "strong":
            return self._palette.style("plain", bold=True)
        if role == "key":
            return self._palette.style("plain", bold=True)
        return self._palette.style(role)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        if y or not width:
            return Strip.blank(width, base)
        right = fit(self.right, width)
        room = width - sum(cell_len(text) for text, _ in right)
        left = fit(self.left, room - 1 if right else room)
        gap = room - sum(cell_len(text) for text, _ in left)
        segments = [Segment(text, self.style(role)) for text, role in (*left, (" " * gap, "plain"), *right)]
        return composed(segments, width, base)


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
        self.title: tuple[Part, ...] = ((title, "plain"),) if title else ()
        self.note: tuple[Part, ...] = ()
        self.lit = False

    def show(self, title: Sequence[Part] | None = None, note: Sequence[Part] | None = None, *, lit: bool | None = None) -> None:
        shown = (
            self.title if title is None else tuple(title),
            self.note if note is None else tuple(note),
            self.lit if lit is None else lit,
        )
        if shown != (self.title, self.note, self.lit):
            self.title, self.note, self.lit = shown
            self.refresh()

    def move(self, place: str) -> None:
        if place != self.place:
            self.place = place
            self.refresh()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in (*self.title, *self.note))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.rich_style
        if y or width < 2:
            return Strip.blank(width, base)
        ends = self.ENDS[self.place]
        left, right = ends[0], ends[1]
        line = "selected" if self.lit else "idle"
        note = fit(((" ", "plain"), *self.note, (" ", "plain")), width - 4) if self.note else []
        room = width - 4 - sum(cell_len(text) for text, _ in note)
        title = fit((*self.title, (" ", "plain")), room - 1) if self.title else []
        used = sum(cell_len(text) for text, _ in (*title, *note)) + (1 if title else 0)
        pad: list[Part] = [(" ", "plain")] if title else []
        parts: list[Part] = [(left, line), *pad, *title, ("─" * (width - 2 - used), line), *note, (right, line)]
        segments = [Segment(part[0], self.style(part[1])) for part in parts]
        return composed(segments, width, base)


class Edge(Still):
    """One side of a box, a column of its own: rows beside it are sent again without it."""

    DEFAULT_CSS = "Edge { width: 1; height: 1fr; visibility: visible; }"

    def __init__(self) -> None:
        super().__init__()
        self.lit = False

    def light(self, lit: bool) -> None:
        if lit != self.lit:
            self.lit = lit
            self.refresh()

    def render_line(self, y: int) -> Strip:
        style = palette_of(self).style("selected" if self.lit else "idle")
        return Strip([Segment("│", self.rich_style + style)])
