"""A view that cannot be drawn says so in one line of its box; the screen around it goes on."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import Any

from rich.segment import Segment
from textual import events
from textual.geometry import Size

from core.views import View
from tui.defects import told
from tui.widgets import widget_type
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import clip

_WHAT = "this view cannot be drawn:"


class Sheltered(ViewWidget[View]):
    """Stands before a view widget: what that one raises while it looks, plans or draws is caught here, until the next step is shown."""

    fault: Exception | None = None
    """What was raised at this step."""
    first_fault: Exception | None = None
    """What was raised first, whether or not later steps could be drawn."""
    _fault_line = ""
    _for_good = False

    def show(self, step: int) -> None:
        if self._for_good:
            return
        if step != self.step:
            self.fault = None
        try:
            super().show(step)
        except Exception as error:
            self._give_up(error)

    def forget(self) -> None:
        self.fault = self.fault if self._for_good else None
        try:
            super().forget()
        except Exception as error:
            self._give_up(error)

    def plan(self, size: Size) -> None:
        if self.fault is None:
            try:
                super().plan(size)
            except Exception as error:
                self._give_up(error)

    def row_key(self, y: int) -> Hashable:
        if self.fault is None:
            try:
                return super().row_key(y)
            except Exception as error:
                self._give_up(error)
        return (Sheltered, y == 0 and self._fault_line)

    def draw_row(self, y: int) -> list[Segment]:
        if self.fault is None:
            try:
                return super().draw_row(y)
            except Exception as error:
                self._give_up(error)
        return [Segment(clip(self._fault_line, self.size.width), self.palette.style("bad"))] if y == 0 else []

    def segments_now(self, y: int) -> list[Segment]:
        try:
            return super().segments_now(y)
        except Exception as error:
            self._give_up(error)
            return [Segment(" " * self.room.width, self.rich_style)]

    def move_cursor(self, dx: int, dy: int) -> bool:
        try:
            return self.fault is None and super().move_cursor(dx, dy)
        except Exception as error:
            self._give_up(error)
            return False

    def explain(self) -> str:
        try:
            return super().explain() if self.fault is None else self._fault_line
        except Exception as error:
            self._give_up(error)
            return self._fault_line

    async def on_event(self, event: events.Event) -> None:
        try:
            await super().on_event(event)
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Nothing of this step is shown but the line; rows that are painted already are painted again."""
        if self.fault is not None:
            return  # what is painted next says so already
        if self.first_fault is None or str(error) != str(self.first_fault):
            self._fault_line = told(_WHAT, error)
        self.first_fault = self.first_fault or error
        self.fault = error
        if self.frame is None:
            self.frame = ()
        if self.is_attached:
            self.call_later(self.repaint)


@lru_cache(maxsize=64)
def _sheltered(widget: type[ViewWidget[Any]]) -> type[Sheltered]:
    return type(widget.__name__, (Sheltered, widget), {"__module__": widget.__module__, "__doc__": widget.__doc__})


def sheltered(view: View) -> Sheltered:
    """A new widget for ``view`` that survives what it raises; an unknown kind of view is told in its box, too."""
    try:
        return _sheltered(widget_type(view))(view)
    except Exception as error:
        made = Sheltered(view)
        made._give_up(error)
        made._for_good = True
        return made
