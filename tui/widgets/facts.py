"""The numbers of a step: names left, values right with their units, what changed marked, the checks summed up below."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Size

from core.formatting import Value, format_value
from core.recording import Check, Fact, Recording
from tui.widgets.fitting import Row, clip, pad, wrap
from tui.widgets.rows import RowsWidget

KIND_LETTERS = {"measured": "m", "simulated": " ", "formula": "f", "reference": "r"}
"""measured on this machine, simulated (no letter), a formula, a published reference."""


@dataclass(frozen=True, slots=True)
class Number:
    """One row of the panel: a fact, or the name that several labelled facts share (no value)."""

    mark: str
    name: str
    value: str
    letter: str
    note: str
    indent: int = 0
    words: bool = False
    """Whether the value is a text, which may be cut; a number may not."""
    role: str = "dim"
    """How a row without a value is written."""


class Facts(RowsWidget, can_focus=True):
    """Facts in the order in which they came, those that share a name under it. Focused, the arrows turn half pages."""

    DEFAULT_CSS = "Facts { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._numbers: list[Number] = []
        self._verdict: list[tuple[str, str]] = []
        self._foot: list[tuple[str, str]] = []
        self._top = 0
        self._lines: list[Number] = []
        self._widths = (0, 0)
        self._edge = 1
        self._beside = False
        self._source: Recording | None = None

    def show(self, recording: Recording, step: int) -> None:
        """The facts that hold at ``step`` and the checks so far."""
        if recording is not self._source:
            self._source, self._widths, self._top = recording, (0, 0), 0
        facts = recording.facts_at(step)
        before = {fact.name: fact.value for fact in recording.facts_at(step - 1)} if step > 0 else {}
        self._numbers = list(_grouped(facts, before, step > 0))
        self._verdict = list(verdict(recording.checks, recording.state != "recording"))
        self.repaint()

    def plan(self, size: Size) -> None:
        names = max([self._widths[0], *(n.indent + cell_len(n.name) for n in self._numbers)])
        values = max([self._widths[1], *(cell_len(n.value) for n in self._numbers)])
        self._widths = (names, values)  # the columns only grow: numbers do not jump while stepping
        self._edge = min(1 + names + 1 + values, max(size.width - 2, 1))
        self._foot = self._verdict[: max(size.height - 1, 1)] if size.height > 1 else []
        rows = self._rows(size)
        noted = [n for n in self._numbers if n.note]
        longest = max((cell_len(n.note) for n in noted), default=0)
        self._beside = size.width - self._edge - 3 >= min(longest, 24)
        self._lines = self._laid_out(rows, size.width)
        self._top = min(self._top, max(len(self._lines) - rows, 0))

    def _laid_out(self, rows: int, width: int) -> list[Number]:
        """As much as ``rows`` hold: names and texts too long for one row on two, then notes in full, or cut to a row, or none."""
        numbers = self._numbers
        halves, spare = [[n] for n in numbers], rows - len(numbers)
        for at, number in enumerate(numbers):
            split = _halved(number, width)
            if len(split) - 1 <= spare:
                halves[at], spare = split, spare - len(split) + 1
        if self._beside:
            return [line for lines in halves for line in lines]
        notes = [n.note if k == 0 or n.note != numbers[k - 1].note else "" for k, n in enumerate(numbers)]
        full = [[Number("", text, "", "", "", 4) for text in wrap(note, width - 5)] for note in notes]
        cut = [[Number("", note, "", "", "", 4)] if note else [] for note in notes]
        for below in (full, cut):
            if sum(map(len, halves)) + sum(map(len, below)) <= rows:
                return [line for lines, told in zip(halves, below, strict=True) for line in (*lines, *told)]
        return [line for lines in halves for line in lines]

    def row_key(self, y: int) -> Hashable:
        rows = self._rows(self.room)
        if y >= rows:
            return "check", self._foot[y - rows] if y - rows < len(self._foot) else None
        if self._more(y):
            return "more", self._top, len(self._lines), self.has_focus
        at = self._top + y
        return (self._lines[at] if at < len(self._lines) else None), self._edge, self._beside

    def draw_row(self, y: int) -> list[Segment]:
        rows = self._rows(self.room)
        if y >= rows:
            text, role = self._foot[y - rows] if y - rows < len(self._foot) else ("", "plain")
            return [Segment(clip(text, self.room.width), self.palette.style(role, bold=y == rows and role == "bad"))]
        if self._more(y):
            hidden = len(self._lines) - self._top - rows + 1
            keys = "↓ shows them" if self.has_focus else ""
            return [Segment(clip(f"  … {hidden} more  {keys}", self.room.width), self.palette.style("dim"))]
        at = self._top + y
        return self._line(self._lines[at]) if at < len(self._lines) else []

    def move_cursor(self, dx: int, dy: int) -> bool:
        rows = self._rows(self.room)
        top = min(max(self._top + dy * max(rows // 2, 1), 0), max(len(self._lines) - rows, 0))
        moved, self._top = top != self._top, top
        return moved

    def _line(self, number: Number) -> list[Segment]:
        row, palette = Row(), self.palette
        row.add(number.mark or " ", palette.style("selected", bold=True)).add(" " * number.indent)
        if not number.value:
            return row.add(clip(number.name, self.room.width - row.width), palette.style(number.role)).segments
        name = min(cell_len(number.name), max((self._edge - row.width) // 2, 3)) if number.words else 3
        value = clip(number.value, max(self._edge - row.width - name - 1, 1))
        row.add(pad(number.name, self._edge - row.width - cell_len(value) - 1), palette.style("plain")).to(self._edge - cell_len(value))
        row.add(value, palette.style("plain", bold=True))
        row.add(f" {number.letter}"[: max(self.room.width - row.width, 0)], palette.style("dim"))
        if number.note and self._beside:
            row.add(" ").add(clip(number.note, self.room.width - row.width), palette.style("dim"))
        return row.segments

    def _rows(self, size: Size) -> int:
        """Rows for numbers: what the checks leave."""
        return max(size.height - len(self._foot), 0)

    def _more(self, y: int) -> bool:
        """Whether row ``y`` is the last for numbers and further ones are hidden below."""
        rows = self._rows(self.room)
        return rows > 1 and y == rows - 1 and len(self._lines) - self._top > rows


def _halved(number: Number, width: int) -> list[Number]:
    """A number on one row, or where that would cut it its name on the first and its value on the next ones."""
    room = width - 3
    if not number.value or 1 + number.indent + cell_len(number.name) + 1 + cell_len(number.value) <= room + 1:
        return [number]
    first = Number(number.mark, number.name, "", "", "", number.indent, role="plain")
    if number.words and cell_len(number.value) > room - 4:
        rest = [Number("", line, "", "", "", 4, role="plain") for line in wrap(number.value, width - 5)]
    else:
        rest = [replace(number, mark="", name="")]
    return [first, *rest]


def verdict(checks: Iterable[Check], finished: bool = True) -> Iterable[tuple[str, str]]:
    """The checks in a line (text, role), then each failed one with what it got and what it should be."""
    known = list(checks)
    failed = [check for check in known if not check.ok]
    if not known:
        if finished:
            yield "– no checks", "dim"
        return
    noun = "check" if len(known) == 1 else "checks"
    if not failed:
        yield (f"✓ {len(known)} {noun}" if finished else f"✓ {len(known)} {noun} so far"), "good"
        return
    yield f"✗ {len(failed)} of {len(known)} {noun} failed", "bad"
    for check in failed:
        yield f"✗ {check.name}", "bad"
        tolerance = f" ± {format_value(check.tolerance)}" if check.tolerance else ""
        yield f"  got {format_value(check.got)}, want {format_value(check.want)}{tolerance}", "plain"


def _grouped(facts: list[Fact], before: dict[str, Value], stepped: bool) -> Iterable[Number]:
    """Rows in order of the facts; labelled ones of one name together under it."""
    families: dict[str, list[Fact]] = {}
    for fact in facts:
        families.setdefault(fact.name.partition("[")[0], []).append(fact)
    for family, members in families.items():
        together = len(members) > 1
        if together:
            plain = next((fact for fact in members if fact.name == family), None)
            if plain is None:
                yield Number("", _spoken(family), "", " ", "")
            members = [*([plain] if plain else []), *(fact for fact in members if fact is not plain)]
        for fact in members:
            label = fact.name.partition("[")[2].removesuffix("]")
            name = label if together and label else _spoken(family) + (f" {label}" if label else "")
            mark = _mark(fact, before) if stepped else ""
            indent = 2 if together and label else 0
            letter, words = KIND_LETTERS.get(fact.kind, " "), isinstance(fact.value, str)
            yield Number(mark, name, format_value(fact.value, fact.unit), letter, fact.note, indent, words)


def _mark(fact: Fact, before: dict[str, Value]) -> str:
    """▲ rose, ▼ fell, • changed in another way (or is new), '' as before."""
    if fact.name not in before:
        return "•"
    old, new = before[fact.name], fact.value
    if old == new:
        return ""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
    if not numbers:
        return "•"
    return "▲" if new > old else "▼"  # type: ignore[operator]


def _spoken(name: str) -> str:
    return name.replace("_", " ")
