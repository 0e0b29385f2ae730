"""A widget made of rows that are sent again only when what they show has changed: base of the panels beside the views."""

from __future__ import annotations

from collections.abc import Hashable

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from tui.theme import Palette
from tui.widgets.base import differing


class RowsWidget(Widget):
    """A subclass decides what is where (`plan`), says what a row shows (`row_key`) and draws it (`draw_row`)."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: dict[int, Hashable] = {}
        self._strips: dict[int, tuple[Hashable, Strip]] = {}
        self._palette: Palette | None = None
        self._planned: Size | None = None

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
    def palette(self) -> Palette:
        if self._palette is None:
            self._palette = Palette.of(self.app)
        return self._palette

    def repaint(self) -> None:
        """Send the rows that differ from those painted, each up to its last cell that differs."""
        width, height = self.size
        if not width or not height:
            return
        self._replan()
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
        """Everything may look different now (theme): paint all rows again."""
        self._palette = None
        self._painted.clear()
        self._strips.clear()
        if self.size.width:
            self._replan()
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def _theme_changed(self, _: Theme) -> None:
        self.forget()

    def cursor_by(self, dx: int, dy: int) -> bool:
        """Arrow keys of a focused widget come here; True when something moved."""
        moved = self.move_cursor(dx, dy)
        if moved:
            self.repaint()
        return moved

    def on_resize(self) -> None:
        self._painted.clear()
        self._strips.clear()
        self._replan()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if self._planned != self.size:  # painted before the resize was handled
            self._replan()
        key = self.row_key(y)
        strip = self._strip(y, key, self.size.width)
        self._painted[y] = key
        return strip

    def _strip(self, y: int, key: Hashable, width: int) -> Strip:
        cached = self._strips.get(y)
        if cached is not None and cached[0] == key:
            return cached[1]
        base = self.rich_style
        strip = Strip(Segment.apply_style(self.draw_row(y), base)).adjust_cell_length(width, base).simplify()
        self._strips[y] = (key, strip)
        return strip

    def _replan(self) -> None:
        self._planned = self.size
        self.plan(self.size)
