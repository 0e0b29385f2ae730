"""A widget made of rows, each painted again only when what it shows has changed: base of the views and of the panels beside them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.theme import Palette


class RowsWidget(Widget):
    """A subclass decides what is where (`plan`), says what a row shows (`row_key`) and draws it (`draw_row`)."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Hashable] = {}
        self._strips: dict[int, tuple[Hashable, Strip]] = {}
        self._palette: Palette | None = None
        self._planned: Size | None = None
        self._base: Style | None = None
        self._ground: Color | None = None

    # for subclasses ------------------------------------------------------------------------------------------------

    def plan(self, size: Size) -> None:
        """What is shown, the size or the scroll position changed: decide what each row holds."""
        raise NotImplementedError

    def row_key(self, y: int) -> Hashable:
        """Everything row ``y`` depends on; equal keys mean an equal picture."""
        raise NotImplementedError

    def draw_row(self, y: int) -> list[Segment]:
        """The segments of row ``y``, at most the widget's width."""
        raise NotImplementedError

    def move_cursor(self, dx: int, dy: int) -> bool:
        """Scroll or move a cursor; False when nothing can move there."""
        return False

    @property
    def ready(self) -> bool:
        """Whether there is something to draw yet."""
        return True

    # the machinery -------------------------------------------------------------------------------------------------

    @property
    def room(self) -> Size:
        """The size that the rows are planned for."""
        return self._planned if self._planned is not None else self.size

    @property
    def palette(self) -> Palette:
        if self._palette is None:
            self._palette = Palette.of(self.app)
        return self._palette

    def repaint(self) -> None:
        """Send the rows that differ from those painted, each up to its last cell that differs."""
        size = self.size
        width, height = size
        if not width or not height or not self.ready:
            return
        self._replan(size)
        changed = []
        for y in range(height):
            key, painted = self.row_key(y), self._painted.get(y, ...)  # ...: not painted yet
            if painted == key:
                continue
            before, extent = self._strips.get(y), width
            if before is not None and before[0] == painted:
                extent = differing(before[1], self._strip(y, key, width))
            self._painted[y] = key
            if extent:
                changed.append(Region(0, y, extent, 1))
        if changed:
            self.refresh(*changed)

    def forget(self) -> None:
        """Everything may look different now (theme, new view): paint all rows again."""
        self._palette = self._base = self._ground = None
        self._painted.clear()
        self._strips.clear()
        size = self.size
        if size.width and self.ready:
            self._replan(size)
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._base = self._ground = None
        self._strips.clear()

    def _theme_changed(self, _: Theme) -> None:
        self.forget()

    def cursor_by(self, dx: int, dy: int) -> bool:
        """Arrow keys of a focused widget come here; True when something moved."""
        moved = self.move_cursor(dx, dy)
        if moved:
            self.repaint()
        return moved

    def on_resize(self) -> None:
        if self.ready:
            self._replan(self.size)

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of the widget, without the detour for borders and padding when it has none."""
        if self.styles.gutter or not self._fits():
            return super().render_lines(crop)
        strips = [self.line_now(y) for y in crop.line_range]
        if filters := self.get_line_filters():
            if self._ground is None:
                self._ground = self.background_colors[1]
            strips = filtered(strips, filters, self._ground)
        left, right = crop.column_span
        return strips if (left, right) == (0, self.room.width) else [strip.crop(left, right) for strip in strips]

    def render_line(self, y: int) -> Strip:
        return self.line_now(y) if self._fits() else Strip.blank(self.size.width, self.rich_style)

    def _fits(self) -> bool:
        """Whether there is something to draw, planned for the size that the widget has now."""
        size = self.size
        if not size.width or not self.ready:
            return False
        if self._planned != size:  # a new size may be painted before its event arrives
            self._replan(size)
        return True

    def line_now(self, y: int) -> Strip:
        key = self.row_key(y)
        strip = self._strip(y, key, self.room.width)
        self._painted[y] = key
        return strip

    def _strip(self, y: int, key: Hashable, width: int) -> Strip:
        cached = self._strips.get(y)
        if cached is not None and cached[0] == key:
            return cached[1]
        base = self._base
        if base is None:  # adds up the styles of all ancestors: once, not once a row
            base = self._base = self.rich_style
        strip = composed(self.draw_row(y), width, base)
        self._strips[y] = (key, strip)
        return strip

    def _replan(self, size: Size) -> None:
        if self._planned != size:
            self._planned = size
            self._painted.clear()
            self._strips.clear()
        self.plan(size)


def composed(segments: Iterable[Segment], width: int, base: Style) -> Strip:
    """A strip of ``width`` cells: ``segments`` on the style ``base``, runs of one style merged, cut or filled with blanks."""
    merged: list[Segment] = []
    text, style, used = "", base, 0
    for piece, worn, _ in segments:
        if not piece:
            continue
        own = base + worn if worn is not None else base
        if own != style and text:
            merged.append(Segment(text, style))
            text = ""
        text, style = text + piece, own
        used += cell_len(piece)
    if used < width:
        if style != base and text:
            merged.append(Segment(text, style))
            text = ""
        text, style = text + " " * (width - used), base
    if text:
        merged.append(Segment(text, style))
    strip = Strip(merged, max(used, width))
    return strip if used <= width else strip.crop(0, width)


def filtered(strips: Sequence[Strip], filters: Sequence[LineFilter], ground: Color) -> list[Strip]:
    """``strips`` with the colours that the terminal can show."""
    for line_filter in filters:
        strips = [strip.apply_filter(line_filter, ground) for strip in strips]
    return list(strips)


def differing(before: Strip, after: Strip) -> int:
    """Cells from the left up to the last one in which two strips of one width differ; 0 when they are equal.

    The terminal keeps the rest of the row: a row is sent from its left edge, so only its right end can be spared.
    """
    old, new = list(before), list(after)
    same = 0
    while old and new:
        (old_text, old_style, _), (new_text, new_style, _) = old.pop(), new.pop()
        if old_style != new_style:
            break
        shorter = min(len(old_text), len(new_text))
        common = 0
        while common < shorter and old_text[-1 - common] == new_text[-1 - common]:
            common += 1
        if common:
            same += cell_len(new_text[-common:])
        if common < shorter:
            break
        if len(old_text) > shorter:
            old.append(Segment(old_text[:-shorter], old_style))
        elif len(new_text) > shorter:
            new.append(Segment(new_text[:-shorter], new_style))
    return after.cell_length - same
