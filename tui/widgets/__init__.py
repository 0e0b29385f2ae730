"""Widgets: a picture is a function of (frame, size). `widget_for` finds the one that draws a view."""

from __future__ import annotations

from importlib import import_module

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


def widget_for(view: View, *, id: str | None = None) -> ViewWidget[View]:
    """A new widget that draws ``view``."""
    module, _, name = WIDGETS[view.kind].partition(":")
    made: ViewWidget[View] = getattr(import_module(module), name)(view, id=id)
    return made
