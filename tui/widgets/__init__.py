"""Widgets: a picture is a function of (frame, size). `widget_for` makes the one that draws a view."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.views import View
    from tui.widgets.base import ViewWidget

# kind -> "module:Class"; loaded when the first view of the kind is shown, after the first frame
WIDGETS: dict[str, str] = {
    "gantt": "tui.widgets.gantt:GanttWidget",
    "heatmap": "tui.widgets.heatmap:HeatmapWidget",
    "exchange": "tui.widgets.exchange:ExchangeWidget",
    "ladder": "tui.widgets.ladder:LadderWidget",
    "breakdown": "tui.widgets.breakdown:BreakdownWidget",
    "plot": "tui.widgets.plot:PlotWidget",
    "table": "tui.widgets.table:TableWidget",
    "listing": "tui.widgets.listing:ListingWidget",
}


def widget_type(view: View) -> type[ViewWidget[Any]]:
    """The class that draws ``view``. ValueError for a kind of view that nothing draws."""
    if view.kind not in WIDGETS:
        raise ValueError(f"nothing draws a view of kind {view.kind!r}, only {', '.join(WIDGETS)}")
    module, _, name = WIDGETS[view.kind].partition(":")
    found: type[ViewWidget[Any]] = getattr(import_module(module), name)
    return found


def widget_for(view: View, *, id: str | None = None) -> ViewWidget[View]:
    """A new widget that draws ``view``."""
    return widget_type(view)(view, id=id)
