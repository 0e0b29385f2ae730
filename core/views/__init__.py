"""What a panel can show, as plain data without drawing: eight kinds of view.

``view.at(step)`` gives a frame: cheap, pure, comparable with ``==``. What does not change is held once in the view (all
spans of a schedule, a curve); what changes is written cell by cell. Values are raw, roles say what they mean; colours,
glyphs and sizes belong to whoever draws. Numpy is imported only by the block writes.
"""

from core.views.base import ROLES, Axis, View
from core.views.breakdown import Breakdown
from core.views.cell import EMPTY, Cell, GridFrame, cell_text
from core.views.exchange import Exchange, ExchangeFrame, Message
from core.views.gantt import Gantt, GanttFrame, Span
from core.views.heatmap import Heatmap
from core.views.ladder import Ladder, LadderFrame, Level, Mark, Resting
from core.views.listing import Listing, ListingFrame
from core.views.plot import Curve, Plot, PlotFrame
from core.views.table import Column, Table, TableFrame, TableLog

__all__ = [
    "EMPTY",
    "ROLES",
    "Axis",
    "Breakdown",
    "Cell",
    "Column",
    "Curve",
    "Exchange",
    "ExchangeFrame",
    "Gantt",
    "GanttFrame",
    "GridFrame",
    "Heatmap",
    "Ladder",
    "LadderFrame",
    "Level",
    "Listing",
    "ListingFrame",
    "Mark",
    "Message",
    "Plot",
    "PlotFrame",
    "Resting",
    "Span",
    "Table",
    "TableFrame",
    "TableLog",
    "View",
    "cell_text",
]
