"""Paints the rows that changed and asks only their widgets: Textual's compositor asks every widget on the screen for all its lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import Segment
from textual._compositor import Compositor, CompositorMap, CompositorUpdate, ReflowResult
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

Piece = tuple[int, int, Sequence[Segment]]
"""Row and column on the screen, and what stands there from then on."""


class RowsUpdate(CompositorUpdate):
    """Pieces of rows, from the top to the bottom."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for y, x, segments in self.pieces:
            yield Control.move_to(x, y).segment
            yield from segments

    def render_segments(self, console: Console) -> str:
        return "".join(f"\x1b[{y + 1};{x + 1}H{Strip(segments).render(console)}" for y, x, segments in self.pieces)


class RowCompositor(Compositor):
    """Composes as Textual does; a part of the screen that belongs to one widget alone is asked of that widget alone."""

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: CompositorMap = {}
        self._alone: dict[Widget, Region | None] = {}
        self._alone_among: dict[Widget, tuple[Region, Region]] | None = None

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """As Textual's, but held against the last layout that was painted.

        Whoever asks for a new widget's size before that has the map made anew (`full_map`): what moved would never be found again.
        """
        self._full_map = self._laid_out
        result = super().reflow(parent, size)
        self._laid_out = self._full_map
        return result

    def alone(self, widget: Widget) -> Region | None:
        """Where ``widget`` is on the screen if all of it is there and nothing lies over it; None otherwise."""
        visible = self.visible_widgets
        if visible is not self._alone_among:
            self._alone_among = visible
            self._alone.clear()
        if widget not in self._alone:
            place = visible[widget][0] if widget in visible else None
            self._alone[widget] = place if place and self._owner(place) is widget else None
        return self._alone[widget]

    def render_partial_update(self) -> CompositorUpdate | None:  # type: ignore[override]
        pieces = self._pieces()
        if pieces is None:
            return super().render_partial_update()
        self._dirty_regions.clear()
        return RowsUpdate(pieces) if pieces else None

    def _pieces(self) -> list[Piece] | None:
        """What the dirty regions look like now; None when one of them lies across several widgets."""
        screen = self.size.region
        wanted: dict[Widget, list[Region]] = {}
        for dirty in self._dirty_regions:
            region = dirty.intersection(screen)
            if not region:
                continue
            owner = self._owner(region)
            if owner is None:
                return None
            wanted.setdefault(owner, []).append(region)
        pieces = [piece for widget, regions in wanted.items() for piece in self._asked(widget, regions)]
        return sorted(pieces, key=lambda piece: piece[:2])

    def _owner(self, region: Region) -> Widget | None:
        """The widget in front at ``region`` if it is there all over."""
        for widget, (place, clip) in self.visible_widgets.items():  # from the front to the back
            seen = place.intersection(clip)
            if seen.overlaps(region):
                return widget if seen.contains_region(region) else None
        return None

    def _asked(self, widget: Widget, regions: Sequence[Region]) -> list[Piece]:
        """The rows of ``regions`` as ``widget`` draws them, which it is asked for at once."""
        left, top = self.visible_widgets[widget][0].offset
        first, last = min(region.y for region in regions), max(region.bottom for region in regions)
        width = self.visible_widgets[widget][0].width
        strips = widget.render_lines(Region(0, first - top, width, last - first))
        return [
            (y, region.x, list(strips[y - first].crop(region.x - left, region.right - left)))
            for region in regions
            for y in region.line_range
        ]
