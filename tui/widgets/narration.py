"""What happened in this step and why: an announcement when there is one, the step's title, its detail."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from rich.cells import cell_len
from rich.markup import escape
from rich.segment import Segment
from textual.geometry import Size

from core.recording import Recording
from tui.widgets.fitting import clip, wrap
from tui.widgets.rows import RowsWidget

# what is announced -> (palette role, sign before its first line)
_ANNOUNCED = {"question": ("selected", "?"), "takeaway": ("good", "✓"), "note": ("comm", "•"), "bad": ("bad", "✗")}


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    role: str = "plain"
    bold: bool = False


class Narration(RowsWidget, can_focus=True):
    """The step is the panel's border title, so the rows below say only what happened.

    A text longer than the panel ends in an ellipsis; focused, the arrows scroll it.
    """

    DEFAULT_CSS = "Narration { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._title = ""
        self._detail = ""
        self._announcement = ("", "note")
        self._lines: list[Line] = []
        self._top = 0
        self._heading = ""

    def show(self, recording: Recording, step: int) -> None:
        """Tell ``step``; of a recording without steps yet, how far it is."""
        if not len(recording):
            doing = recording.progress[1] or "recording"
            self._set("Recording", doing[:1].upper() + doing[1:], "The first step is being computed.")
            return
        step = min(max(step, 0), len(recording) - 1)
        phase = recording.phase(step)
        heading = f"Step {step + 1:,} of {len(recording):,}" + (f" · {phase.name}" if phase else "")
        self._set(heading, recording.title(step), recording.detail(step))

    def announce(self, text: str, role: str = "note") -> None:
        """Put ``text`` above the step ('' takes it away). role: question, takeaway, note, bad, or a palette role."""
        if self._announcement != (text, role):
            self._announcement = (text, role)
            self._top = 0
            self.repaint()

    def plan(self, size: Size) -> None:
        width = size.width - 2  # a blank on either side
        announced = self._announced(width)
        told = [Line(text, bold=True) for text in wrap(self._title, width)]
        told += [Line(text) for text in wrap(self._detail, width)]
        room = size.height - min(len(told), 3)
        if len(announced) > room and not self.has_focus:  # the step itself stays in sight
            announced = _cut(announced, max(room, 0), width)
        gap = [Line("")] if announced and len(announced) + len(told) < size.height else []
        lines = announced + gap + told
        self._top = min(self._top, max(len(lines) - size.height, 0))
        self._lines = _cut(lines[self._top :], size.height, width)

    def row_key(self, y: int) -> Hashable:
        return self._lines[y] if y < len(self._lines) else None

    def draw_row(self, y: int) -> list[Segment]:
        if y >= len(self._lines):
            return []
        line = self._lines[y]
        return [Segment(" "), Segment(line.text, self.palette.style(line.role, bold=line.bold))]

    def move_cursor(self, dx: int, dy: int) -> bool:
        hidden = self._lines and len(self._lines) == self.room.height and self._lines[-1].text.endswith("…")
        top = max(self._top + dy, 0) if dy < 0 or hidden else self._top
        moved, self._top = top != self._top, top
        return moved

    def _set(self, heading: str, title: str, detail: str) -> None:
        if (heading, title, detail) == (self._heading, self._title, self._detail):
            return
        if heading != self._heading:
            self._heading = heading
            self.border_title = escape(heading)
        self._title, self._detail, self._top = title, detail, 0
        self.repaint()

    def _announced(self, width: int) -> list[Line]:
        text, kind = self._announcement
        if not text:
            return []
        role, sign = _ANNOUNCED.get(kind, (kind, ""))
        lines = wrap(text, width - 2 * bool(sign))
        lead = [f"{sign} ", *["  "] * len(lines)] if sign else [""] * len(lines)
        return [Line(before + line, role, kind in ("question", "takeaway")) for before, line in zip(lead, lines, strict=False)]


def _cut(lines: list[Line], rows: int, width: int) -> list[Line]:
    """At most ``rows`` lines; when some are left out the last one says so."""
    if len(lines) <= rows:
        return lines
    if rows <= 0:
        return []
    last = lines[rows - 1]
    text = last.text if cell_len(last.text) < width - 1 else _whole_words(last.text, width - 2)
    return [*lines[: rows - 1], Line(text.rstrip("… ") + " …", last.role, last.bold)]


def _whole_words(text: str, width: int) -> str:
    """The beginning of ``text`` in at most ``width`` cells, cut between words where it has some."""
    cut = clip(text, width + 1).rstrip("… ")
    return cut if " " not in cut or text[len(cut) : len(cut) + 1] in ("", " ") else cut.rpartition(" ")[0]
