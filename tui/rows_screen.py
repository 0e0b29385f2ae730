"""A screen that paints the rows of its row widgets at once, in one frame, without a round of messages through each widget."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.screen import Screen

from tui.compositor import Piece, RowCompositor, RowsUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.widgets.rows import RowsWidget


_LAID_OUT = 0.02
"""Seconds after which a screen has probably been laid out for a new size of the terminal."""


class RowsScreen(Screen[None]):
    """Row widgets say which of their rows changed; `send_rows` paints them, by itself once the current message is handled."""

    def __init__(self) -> None:
        super().__init__()
        self._rows_compositor = RowCompositor()
        self._compositor = self._rows_compositor
        self._due: dict[RowsWidget, set[int]] = {}
        self._gathering = False

    def place_of(self, widget: RowsWidget) -> Region | None:
        """Where ``widget`` is if all of it is in sight."""
        return self._rows_compositor.alone(widget)

    def rows_changed(self, widget: RowsWidget, rows: Iterable[int]) -> None:
        if not self._due and not self._gathering:
            self.call_later(self.send_rows)
        self._due.setdefault(widget, set()).update(rows)

    @contextmanager
    def one_frame(self) -> Iterator[None]:
        """What changes within is painted at the end."""
        outer, self._gathering = self._gathering, True
        try:
            yield
        finally:
            self._gathering = outer
            if not outer:
                self.send_rows()

    def send_rows(self) -> None:
        """Paint what is due: at once, or where widgets are about to move once they have.

        Textual paints what lies under something else, and a screen that is not in front.
        """
        if not self._due:
            return
        app = self.app
        in_front = app.screen is self
        if in_front and self._rows_compositor.size != app.size:  # laid out for a terminal of another size
            self.set_timer(_LAID_OUT, self.send_rows)
            return
        if in_front and (self._layout_required or self._scroll_required or self._repaint_required or app._batch_count):
            self.call_after_refresh(self.send_rows)  # a layout drops what is due to be painted elsewhere
            return
        due, self._due = self._due, {}
        pieces: list[Piece] = []
        for widget, rows in due.items():
            place = self.place_of(widget) if in_front else None
            if place is None or place.size != widget.room:
                widget.refresh(*(Region(0, y, widget.room.width, 1) for y in sorted(rows)))
            else:
                pieces += [(place.y + y, place.x, widget.segments_now(y)) for y in rows if y < place.height]
        if pieces:
            pieces.sort(key=lambda piece: piece[:2])
            app._display(self, RowsUpdate(pieces))
