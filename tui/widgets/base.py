"""The base of every view widget: a row is painted again only when what it shows has changed.

A subclass says what a row shows (`row_key`, cheap and hashable) and how it is drawn (`draw_row`); it never refreshes itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from core.views import View
from tui.theme import Palette

V = TypeVar("V", bound=View)


class ViewWidget(Widget, Generic[V], can_focus=True):
    """Draws one view at one step. Focused, the arrow keys move its cursor and `CursorMoved` explains what it is on."""

    DEFAULT_CSS = "ViewWidget { height: 1fr; width: 1fr; }"

    class CursorMoved(Message):
        """The widget's cursor stands on something: ``text`` explains it in one line."""

        def __init__(self, widget: ViewWidget[Any], text: str) -> None:
            self.widget = widget
            self.text = text
            super().__init__()

        @property
        def control(self) -> ViewWidget[Any]:
            return self.widget

    def __init__(self, view: V, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.view = view
        self.step = 0
        self.frame: object = None
        self._painted: dict[int, Hashable] = {}
        self._strips: dict[int, tuple[Hashable, Strip]] = {}
        self._palette: Palette | None = None
        self._planned: Size | None = None
        self._base: Style | None = None

    # for subclasses ------------------------------------------------------------------------------------------------

    def plan(self, size: Size) -> None:
        """The step, the size or the cursor changed: decide what is where (windows, widths). ``self.frame`` is current."""

    def row_key(self, y: int) -> Hashable:
        """Everything row ``y`` depends on; equal keys mean an equal picture."""
        raise NotImplementedError

    def draw_row(self, y: int) -> list[Segment]:
        """The segments of row ``y``; runs of one style merged, at most the widget's width."""
        raise NotImplementedError

    def move_cursor(self, dx: int, dy: int) -> bool:
        """Move the widget's own cursor; False when it has none or cannot move there."""
        return False

    def explain(self) -> str:
        """One line about what the cursor is on; '' without a cursor."""
        return ""

    # the machinery -------------------------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        if self._palette is None:
            self._palette = Palette.of(self.app)
        return self._palette

    def show(self, step: int) -> None:
        """Draw ``step``: only the rows that differ from those painted are sent again."""
        self.step = step
        self.frame = self.view.at(step)
        self.repaint()

    def repaint(self) -> None:
        """Send the rows that differ from those painted, each up to its last cell that differs."""
        width, height = self.size
        if not width or self.frame is None:
            return
        self._plan()
        changed = []
        for y in range(height):
            key = self.row_key(y)
            if self._painted.get(y, ...) == key:
                continue
            before = self._strips.get(y)
            extent = width
            if before is not None and before[0] == self._painted.get(y, ...):
                extent = differing(before[1], self._strip(y, key, width))
            self._painted[y] = key
            if extent:
                changed.append(Region(0, y, extent, 1))
        if changed:
            self.refresh(*changed)

    def forget(self) -> None:
        """Everything may look different now (theme, new view): paint all rows again."""
        self._palette = self._base = None
        self._painted.clear()
        self._strips.clear()
        if self.frame is not None:
            self.frame = self.view.at(self.step)
            if self.size.width:
                self._plan()
        self.refresh()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._theme_changed)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._base = None
        self._strips.clear()

    def _theme_changed(self, _: Theme) -> None:
        self.forget()

    def _plan(self) -> None:
        if self._planned != self.size:
            self._planned = self.size
            self._painted.clear()
            self._strips.clear()
        self.plan(self.size)

    def on_resize(self) -> None:
        if self.frame is None:
            self.frame = self.view.at(self.step)
        self._plan()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.frame is None or not width:
            return Strip.blank(width, self.rich_style)
        if self._planned != self.size:  # a new size may be painted before its event arrives
            self._plan()
        key = self.row_key(y)
        strip = self._strip(y, key, width)
        self._painted[y] = key
        return strip

    def _strip(self, y: int, key: Hashable, width: int) -> Strip:
        cached = self._strips.get(y)
        if cached is not None and cached[0] == key:
            return cached[1]
        base = self._base
        if base is None:  # adds up the styles of all ancestors: once, not once a row
            base = self._base = self.rich_style
        segments = Segment.apply_style(self.draw_row(y), base)
        strip = Strip(segments).adjust_cell_length(width, base).simplify()
        self._strips[y] = (key, strip)
        return strip

    def cursor_by(self, dx: int, dy: int) -> bool:
        """Arrow keys of a focused widget come here; True when the cursor moved."""
        moved = self.move_cursor(dx, dy)
        if moved:
            self.repaint()
            self.post_message(self.CursorMoved(self, self.explain()))
        return moved

    def on_focus(self) -> None:
        self.repaint()
        self.post_message(self.CursorMoved(self, self.explain()))

    def on_blur(self) -> None:
        self.repaint()


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
