"""Draws an Exchange view: actors with what they hold, and this step's messages as arrows, as a matrix, or actor by actor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size

from core.formatting import FORMATTER, format_value
from core.views import EMPTY, Cell, Exchange, ExchangeFrame, Message
from tui.widgets.arrows import Arrow, draw_arrows, label, pack
from tui.widgets.base import ViewWidget
from tui.widgets.fitting import Row, clip, pad, turned
from tui.widgets.grid import Content, Grid, Scale, column_labels, draw_cells, draw_header, fit, text_of
from tui.widgets.holdings import Held, flowed, holding, named, slot_caption, token

Form = Literal["arrows", "matrix", "list"]

_CONTENTS: tuple[Content, Content] = ("full", "short")
_NARROWEST = 8
"""A box of fewer cells cannot say what it holds: the actors become a list."""
_WIDEST = 24
_MOST_ARROW_ROWS = 8
"""More rows of arrows are no longer read one by one."""
_MOST_CAPTION_ROWS = 2
_ONE, _MANY = "1 message · {size}", "{count} messages · {size}"
_READ_MATRIX = " · a row sends, a column receives"
_HOLDS = "{actor} · holds {held} · sends {sent} · receives {received}"
_TO, _FROM, _ALL = "{text} to {peer}", "{text} from {peer}", "{count} messages, {size}"
_NOTHING = "nothing"


class ExchangeWidget(ViewWidget[Exchange]):
    """Boxes in a row with arrows below; too many arrows become a matrix, too many actors a list that turns by half pages."""

    def __init__(self, view: Exchange, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(view, id=id, classes=classes)
        self.cursor = 0
        """The actor under the cursor."""
        self._reset()

    def _reset(self) -> None:
        self._labels: list[str] = []
        self._slot_labels: list[str] = []
        self._margin = 2
        self._slots = 1
        self._most_rows = 0
        self._before: tuple[int, ExchangeFrame] | None = None
        self._fresh: list[frozenset[int]] = []
        self._form: Form = "arrows"
        self._boxes = self._box = self._left = self._lines = 0
        self._caption: list[str] = []
        self._columns: list[int] = []
        self._rows: list[list[Arrow]] = []
        self._top = 0
        self._matrix: dict[int, tuple[Cell, ...]] = {}
        self._matrix_grid = Grid(1, 1, "shade")
        self._scale = Scale(0.0, 1.0)

    def forget(self) -> None:
        self._reset()
        super().forget()

    @property
    def _frame(self) -> ExchangeFrame:
        assert isinstance(self.frame, ExchangeFrame)
        return self.frame

    # where everything is -----------------------------------------------------------------------------------------------

    def plan(self, size: Size) -> None:
        view, frame = self.view, self._frame
        actors = len(view.actors)
        if not self._labels:
            self._labels = [view.actors.label(a) for a in range(actors)]
            self._margin = max(map(cell_len, self._labels), default=0) + 2
        self._slots = max(self._slots, len(view.slots or ()), *(1 + held[-1][0] for held in frame.held if held))
        if view.slots and not self._slot_labels:
            self._slot_labels = [view.slots.label(s) for s in range(len(view.slots))]
        self._find_fresh()
        share = size.width // max(actors, 1)
        if share < _NARROWEST or size.height < 6 or not actors:
            self._form = "list"
            self._plan_list(size)
            return
        self._plan_boxes(size, share)

    def _find_fresh(self) -> None:
        """The slots of each actor that this step changed."""
        frame, before = self._frame, self._before
        if before is not None and before[1] is frame:
            return
        if before is not None and before[0] == self.step - 1:
            earlier = before[1].held
        else:
            earlier = self.view.at(self.step - 1).held if self.step > 0 else ((),) * len(frame.held)
        self._fresh = [_changed(was, now) for was, now in zip(earlier, frame.held, strict=True)]
        self._before = (self.step, frame)

    def _plan_boxes(self, size: Size, share: int) -> None:
        """Boxes as wide as they fit; their height stays while stepping, the rest belongs to the messages."""
        actors = len(self.view.actors)
        names = max((cell_len(name) for name in self._slot_labels), default=0)
        self._left = names + 1 if names and (size.width - names - 1) // actors >= 12 else 0
        self._box = min((size.width - self._left) // actors, _WIDEST)
        self._columns = [self._left + a * self._box + (self._box - 1) // 2 for a in range(actors)]
        self._rows = pack(self._frame.messages, self._columns)
        self._most_rows = max(self._most_rows, min(len(self._rows), _MOST_ARROW_ROWS // 2))
        free = max(size.height - 2 - max(self._most_rows, 1) - 1, 1)
        self._lines = self._slots if self._slots <= free else min(max(-(-self._slots * 4 // self._box), 1), free)
        if self._lines < self._slots:
            self._left = 0
            self._columns = [a * self._box + (self._box - 1) // 2 for a in range(actors)]
            self._rows = pack(self._frame.messages, self._columns)
        self._caption = self._captioned(size)
        room = size.height - len(self._caption) - self._lines - 2
        self._form = "matrix" if len(self._rows) > max(min(room - 1, _MOST_ARROW_ROWS), 1) else "arrows"
        if self._form == "matrix":
            self._plan_matrix(size, room)

    def _captioned(self, size: Size) -> list[str]:
        """What the lines of the boxes are: where they have names (not just numbers), no room for them at the left, and room above."""
        if self._left or self._lines < self._slots or self.view.slots is None:
            return []
        lines = slot_caption(self.view.slots.names, size.width)
        room = size.height - self._lines - 2 - max(self._most_rows, 1) - 1
        return lines if len(lines) <= min(room, _MOST_CAPTION_ROWS) else []

    def _plan_matrix(self, size: Size, room: int) -> None:
        """Sizes by source and target, where one row a message is too much."""
        actors, unit = len(self.view.actors), self.view.unit
        sizes: dict[tuple[int, int], Cell] = {}
        for m in self._frame.messages:
            known = sizes.get((m.source, m.target), EMPTY)
            total = m.size + (known.value if isinstance(known.value, float) else 0.0)
            sizes[m.source, m.target] = Cell(total, m.role)
        self._matrix = {a: tuple(sizes.get((a, b), EMPTY) for b in range(actors)) for a in range(actors)}
        self._scale = Scale(0.0, max((float(c.value or 0) for c in sizes.values()), default=0.0))
        full, short = (max((cell_len(text_of(c, unit, content, self._scale)) for c in sizes.values()), default=1) for content in _CONTENTS)
        across = max(size.width - self._margin - 1, 1)
        self._matrix_grid = fit(actors, actors, across, room, full + 1, short, tall=False)
        shown = max(room - 2, 1)
        source = self.cursor if self.has_focus else min((m.source for m in self._frame.messages), default=0)
        self._top = turned(self._top, shown, actors, source)

    def _plan_list(self, size: Size) -> None:
        self._lines = self._left = 0
        self._caption = []
        acting = self.cursor if self.has_focus else min((m.source for m in self._frame.messages), default=self._top)
        self._top = turned(self._top, max(size.height - 1, 1), len(self._labels), acting)

    # rows ----------------------------------------------------------------------------------------------------------------

    @property
    def _pointed(self) -> int:
        return self.cursor if self.has_focus else -1

    def row_key(self, y: int) -> Hashable:
        frame = self._frame
        if self._form == "list":
            return self._list_key(y)
        if y < len(self._caption):
            return self._caption[y]
        y -= len(self._caption)
        place = (self._box, self._left, self._lines, self._form)
        if y == 0 or y == self._lines + 1:
            return (y, place, self._pointed, self._acting if y == 0 else ())
        if y <= self._lines:
            if self._lines < self._slots:
                return (y, place, self._pointed, frame.held, tuple(self._fresh))
            slot = y - 1
            return (y, place, self._pointed, tuple(_find(held, slot) for held in frame.held), tuple(slot in f for f in self._fresh))
        line = y - self._lines - 2
        if self._form == "matrix":
            source = self._top + line - 2
            about = frame.messages if line < 1 else self._matrix.get(source)
            return (y, place, self._top, self._matrix_grid, self._scale, about, source == self._pointed)
        return (y, place, tuple(self._rows[line]) if line < len(self._rows) else (), self._has_summary(line) and frame.messages)

    @property
    def _acting(self) -> tuple[int, ...]:
        """The actors that send or receive in this step."""
        return tuple(sorted({a for m in self._frame.messages for a in (m.source, m.target)}))

    def draw_row(self, y: int) -> list[Segment]:
        row = Row()
        if self._form == "list":
            self._draw_listed(row, y)
            return row.segments
        line = y - len(self._caption)
        if line < 0:
            row.add(self._caption[y], self.palette.style("dim"))
        elif line <= self._lines + 1:
            self._draw_boxes(row, line)
        else:
            self._draw_messages(row, line - self._lines - 2)
        return row.segments

    def _draw_boxes(self, row: Row, y: int) -> None:
        palette = self.palette
        acting = self._acting if y == 0 else ()
        if self._left:
            slot = y - 1
            has_name = 0 <= slot < min(self._lines, len(self._slot_labels))
            row.add(pad(self._slot_labels[slot] if has_name else "", self._left - 1) + " ", palette.style("dim"))
        inner = self._box - 3
        for actor, held in enumerate(self._frame.held):
            frame = palette.style("selected", bold=True) if actor == self._pointed else palette.style("dim")
            if y == 0:
                name = self._labels[actor]
                name = f" {name} " if cell_len(name) + 2 <= inner else clip(name, inner)
                bold = Style(bold=True) if actor in acting or actor == self._pointed else palette.style("plain")
                row.add("┌", frame).add(name, bold).add("─" * (inner - cell_len(name)) + "┐ ", frame)
            elif y == self._lines + 1:
                middle = (self._box - 1) // 2 - 1
                row.add("└" + "─" * middle + "┬" + "─" * (inner - middle - 1) + "┘ ", frame)
            else:
                row.add("│", frame)
                self._draw_held(row, held, self._fresh[actor], y - 1, inner)
                row.add("│ ", frame)

    def _draw_held(self, row: Row, held: Held, fresh: frozenset[int], line: int, width: int) -> None:
        """One line of a box: one slot, or (when there are more slots than lines) as many as fit side by side."""
        palette = self.palette
        if self._lines >= self._slots:
            cell = _find(held, line)
            if cell is None:
                row.add(pad("·", width), palette.style("dim"))  # the style of the borders: one run
                return
            said = holding(cell, self.view.unit, width)
            row.add(pad(said, width), palette.current(cell.role) if line in fresh else palette.block(cell.role))
            return
        end = row.width + width
        rows = flowed(held, width)
        for slot, cell in rows[line] if line < len(rows) else ():
            last = line == self._lines - 1 and len(rows) > self._lines
            if last and row.width + 4 + cell_len(token(cell)) > end:
                break
            row.add(token(cell), palette.current(cell.role) if slot in fresh else palette.block(cell.role))
            row.add(" " if row.width < end else "")
        hidden = sum(len(r) for r in rows[self._lines :])
        if line == self._lines - 1 and hidden and row.width + 2 <= end:
            row.add(clip(f"+{hidden}", end - row.width), palette.style("dim"))
        row.to(end)

    def _has_summary(self, line: int) -> bool:
        return line == max(self._most_rows, len(self._rows)) and line + len(self._caption) + self._lines + 2 < self.room.height

    def _draw_messages(self, row: Row, line: int) -> None:
        if self._form == "matrix":
            self._draw_matrix(row, line)
        elif line < max(self._most_rows, len(self._rows)):
            arrows = self._rows[line] if line < len(self._rows) else ()
            draw_arrows(row, arrows, self._columns, self.room.width, self.view.unit, self.palette)
        elif self._has_summary(line) and self._frame.messages:
            row.to(self._left).add(summary(self._frame.messages, self.view.unit), self.palette.style("dim"))

    def _draw_matrix(self, row: Row, line: int) -> None:
        quiet = self.palette.style("dim")
        actors, grid = len(self._labels), self._matrix_grid
        if line == 0:
            row.add(clip(summary(self._frame.messages, self.view.unit) + _READ_MATRIX, self.room.width), quiet)
            return
        shared, labels, every = column_labels(self._labels, grid.width)
        if line == 1:
            row.add(pad(shared, self._margin), quiet)
            draw_header(row, labels, every, 0, grid, quiet, right=True)
            return
        source = self._top + line - 2
        if source < actors:
            row.add(pad(self._labels[source], self._margin), Style(bold=True) if source == self._pointed else None)
            draw_cells(row, self._matrix[source], (), -1, grid, self._scale, self.view.unit, self.palette)

    # the list form -------------------------------------------------------------------------------------------------------

    def _list_key(self, y: int) -> Hashable:
        frame = self._frame
        if y == 0:
            return (self._top, frame.messages)
        actor = self._top + y - 1
        if actor >= len(self._labels):
            return "blank"
        mine = tuple(m for m in frame.messages if actor in (m.source, m.target))
        return (actor, frame.held[actor], self._fresh[actor], mine, actor == self._pointed)

    def _draw_listed(self, row: Row, y: int) -> None:
        palette, frame, unit = self.palette, self._frame, self.view.unit
        actors, shown = len(self._labels), max(self.room.height - 1, 1)
        if y == 0:
            if actors > shown:
                row.add(f"{self._top + 1}–{min(self._top + shown, actors)}/{actors}  ", palette.style("dim"))
            row.add(clip(summary(frame.messages, unit) if frame.messages else "", self.room.width - row.width), palette.style("dim"))
            return
        actor = self._top + y - 1
        if actor >= actors:
            return
        sent = [m for m in frame.messages if m.source == actor]
        got = [m for m in frame.messages if m.target == actor]
        here = actor == self._pointed
        row.add("▸" if here else " ", palette.style("selected"))
        row.add(pad(self._labels[actor], min(self._margin, self.room.width // 3)), Style(bold=True) if here or sent or got else None)
        room = max(self.room.width - row.width, 0)
        held = room * 2 // 5
        self._draw_tokens(row, frame.held[actor], self._fresh[actor], held)
        half = (room - held) // 2
        self._draw_peers(row, "─▶ ", sent, "target", half)
        self._draw_peers(row, "◀─ ", got, "source", room - held - half)

    def _draw_tokens(self, row: Row, held: Held, fresh: frozenset[int], width: int) -> None:
        """What an actor holds in a line of a list: the tokens as plain text in few runs, only what is new stands out."""
        end = row.width + width
        runs: list[tuple[str, Style | None]] = [("", None)]
        used = 0
        for slot, cell in held:
            text = token(cell)
            if used + cell_len(text) + 3 > width:
                runs.append(("…", None))
                break
            used += cell_len(text) + 1
            style = self.palette.current(cell.role) if slot in fresh else None
            if style is None and runs[-1][1] is None:
                runs[-1] = (f"{runs[-1][0]}{text} ", None)
            else:
                runs += [(text, style), (" ", None)] if style else [(f"{text} ", None)]
        for text, style in runs:
            row.add(text, style)
        row.to(end)

    def _draw_peers(self, row: Row, arrow: str, messages: Sequence[Message], other: str, width: int) -> None:
        """One run: whom an actor sends to (or gets from) and what, in as many words as fit; the padding belongs to it."""
        tries: tuple[str, ...] = ("",)
        if len(messages) == 1:
            peer = self._labels[getattr(messages[0], other)]
            what = label(messages[0], self.view.unit, max(width - cell_len(arrow + peer) - 2, 1))
            tries = (f"{arrow}{peer} {what}", f"{arrow}{peer}", f"{arrow.strip('─ ')} {peer}", f"{arrow.strip()}{self._number(peer)}")
        elif messages:
            said, count = summary(messages, self.view.unit), len(messages)
            tries = (f"{arrow}{said}", f"{arrow}{said.partition(' · ')[0]}", f"{arrow}{count} ×", f"{arrow.strip()}{count}")
        said = next((text for text in tries if cell_len(text) < width), tries[-1])
        row.add(pad(clip(said, width - 1), width), self.palette.style(messages[0].role) if messages else None)

    def _number(self, name: str) -> str:
        """What tells an actor from the others: ``3`` of ``rank 3``."""
        first, last = min(self._labels), max(self._labels)
        shared = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        return name[first[:shared].rfind(" ") + 1 :] if shared else name

    # the cursor ----------------------------------------------------------------------------------------------------------

    def move_cursor(self, dx: int, dy: int) -> bool:
        before = self.cursor
        self.cursor = min(max(before + (dx or dy), 0), max(len(self.view.actors) - 1, 0))
        return self.cursor != before

    def explain(self) -> str:
        if self.frame is None or not self._labels:
            return ""
        frame, actor = self._frame, self.cursor
        held = ", ".join(named(cell, self.view.unit) for _, cell in frame.held[actor]) or _NOTHING
        return FORMATTER.fill(
            _HOLDS,
            {
                "actor": self._labels[actor], "held": clip(held, 48),
                "sent": self._said([m for m in frame.messages if m.source == actor], _TO, "target"),
                "received": self._said([m for m in frame.messages if m.target == actor], _FROM, "source"),
            },
        )  # fmt: skip

    def _said(self, messages: Sequence[Message], template: str, other: str) -> str:
        if not messages:
            return _NOTHING
        unit = self.view.unit
        if len(messages) == 1:
            peer = self._labels[getattr(messages[0], other)]
            return FORMATTER.fill(template, {"text": label(messages[0], unit, 40), "peer": peer})
        return FORMATTER.fill(_ALL, {"count": len(messages), "size": format_value(sum(m.size for m in messages), unit)})


def _find(held: Held, slot: int) -> Cell | None:
    return next((cell for number, cell in held if number == slot), None)


def _changed(was: Held, now: Held) -> frozenset[int]:
    """The slots that hold something else than before; an unchanged cell is usually the same object."""
    old = dict(was)
    return frozenset(slot for slot, cell in now if (earlier := old.get(slot)) is not cell and earlier != cell)


def summary(messages: Sequence[Message], unit: str) -> str:
    """How many messages a step has and what they carry together."""
    size = format_value(sum(m.size for m in messages), unit)
    return FORMATTER.fill(_ONE if len(messages) == 1 else _MANY, {"count": len(messages), "size": size})
