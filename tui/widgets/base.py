"""The base of every view widget: rows of one view at one step.

A subclass says what a row shows (`row_key`, cheap and hashable) and how it is drawn (`draw_row`); it never refreshes itself.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from textual.message import Message

from core.views import View
from tui.widgets.rows import RowsWidget

V = TypeVar("V", bound=View)


class ViewWidget(RowsWidget, Generic[V], can_focus=True):
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

    # for subclasses ------------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """One line about what the cursor is on; '' without a cursor."""
        return ""

    # the machinery -------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self.frame is not None

    def show(self, step: int) -> None:
        """Draw ``step``: only the rows that differ from those painted are sent again."""
        self.step = step
        self.frame = self.view.at(step)
        self.repaint()

    def forget(self) -> None:
        if self.frame is not None:
            self.frame = self.view.at(self.step)
        super().forget()

    def on_resize(self) -> None:  # Textual calls the handler of every class, from here to the base
        if self.frame is None:
            self.frame = self.view.at(self.step)

    def cursor_by(self, dx: int, dy: int) -> bool:
        moved = super().cursor_by(dx, dy)
        if moved:
            self.post_message(self.CursorMoved(self, self.explain()))
        return moved

    def on_focus(self) -> None:
        self.post_message(self.CursorMoved(self, self.explain()))
