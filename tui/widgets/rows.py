"""A widget made of rows, each painted again only when what it shows has changed: base of the views and of the panels beside them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.rows_screen import RowsScreen
from tui.theme import Palette

Wear = Callable[[Style | None], Style]


class RowsWidget(Widget):
    """A subclass decides what is where (`plan`), says what a row shows (`row_key`) and draws it (`draw_row`)."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Hashable] = {}
        self._kept_rows: dict[int, tuple[Hashable, list[Segment]]] = {}
        self._worn: dict[Style | None, Style] = {}
        self._palette: Palette | None = None
        self._planned: Size | None = None
        self._bare: bool | None = None
        self._rows_screen: RowsScreen | None = None

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
        """Paint the rows that differ from those painted."""
        size = self._own_size()
        if not size.width or not size.height or not self.ready:
            self._planned = None  # whatever is drawn next is planned first
            return
        self._replan(size)
        painted, row_key = self._painted, self.row_key
        changed = []
        for y in range(size.height):
            key = row_key(y)
            if painted.get(y, ...) != key:  # ...: not painted yet
                painted[y] = key
                changed.append(y)
        if not changed:
            return
        if self._rows_screen is not None:
            self._rows_screen.rows_changed(self, changed)
        else:
            self.refresh(*(Region(0, y, size.width, 1) for y in changed))

    def forget(self) -> None:
        """Everything may look different now (theme, new view): paint all rows again."""
        self._palette = None
        self._painted.clear()
        self._forget_styles()
        size = self.size
        if size.width and self.ready:
            self._replan(size)
        self.refresh()

    def on_mount(self) -> None:
        self._rows_screen = self.screen if isinstance(self.screen, RowsScreen) else None
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._bare = None
        self._forget_styles()

    def _forget_styles(self) -> None:
        self._worn.clear()
        self._kept_rows.clear()

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
        strips = [self.render_line(y) for y in crop.line_range]
        left, right = crop.column_span
        return strips if (left, right) == (0, self.room.width) else [strip.crop(left, right) for strip in strips]

    def render_line(self, y: int) -> Strip:
        if not self._fits():
            return Strip.blank(self.size.width, self.rich_style)
        return Strip(self.segments_now(y), self.room.width)

    def segments_now(self, y: int) -> list[Segment]:
        """Row ``y`` as the terminal is to show it, over the whole width; it counts as painted then."""
        key = self.row_key(y)
        self._painted[y] = key
        kept = self._kept_rows.get(y)
        if kept is not None and kept[0] == key:
            return kept[1]
        made = composed(self.draw_row(y), self.room.width, self._worn, self._wear)
        self._kept_rows[y] = (key, made)
        return made

    def _wear(self, style: Style | None) -> Style:
        """What ``style`` is on the terminal: on the widget's own ground, in the colours there are; equal ones are one object.

        The styles of all ancestors are added up for that: once a style, not once a row.
        """
        known = self._worn.get(style)
        if known is not None:
            return known
        worn = self.rich_style + style
        for line_filter in self.get_line_filters():
            worn = line_filter.apply([Segment(" ", worn)], self.background_colors[1])[0].style or worn
        self._worn[style] = next((known for known in self._worn.values() if known == worn), worn)
        return self._worn[style]

    def _own_size(self) -> Size:
        """`size`, which looks through the whole layout and adds up borders each time, from what the screen knows of this widget."""
        place = self._rows_screen.place_of(self) if self._rows_screen is not None else None
        if place is None:
            return self.size
        if self._bare is None:
            self._bare = not self.styles.gutter
        return place.size if self._bare else self.size

    def _fits(self) -> bool:
        """Whether there is something to draw, planned for the size that the widget has now."""
        size = self.size
        if not size.width or not self.ready:
            return False
        if self._planned != size:  # a new size may be painted before its event arrives
            self._replan(size)
        return True

    def _replan(self, size: Size) -> None:
        if self._planned != size:
            self._planned = size
            self._painted.clear()
            self._kept_rows.clear()
        self.plan(size)


def composed(segments: Iterable[Segment], width: int, known: Mapping[Style | None, Style], wear: Wear) -> list[Segment]:
    """``width`` cells: the ``segments`` in the styles that they wear, runs of one style merged, cut or filled with blanks.

    ``known`` holds what ``wear`` has said, one object for each style.
    """
    merged: list[Segment] = []
    text, style, used = "", None, 0
    for piece, own, _ in segments:
        if not piece:
            continue
        worn = known.get(own)
        if worn is None:
            worn = wear(own)
        if worn is style:
            text += piece
        else:
            if text:
                merged.append(Segment(text, style))
            text, style = piece, worn
        used += len(piece) if piece.isascii() else cell_len(piece)
    if used < width:
        ground = wear(None)
        if ground is not style:
            if text:
                merged.append(Segment(text, style))
            text, style = "", ground
        text += " " * (width - used)
    if text:
        merged.append(Segment(text, style))
    return merged if used <= width else list(Strip(merged, used).crop(0, width))
