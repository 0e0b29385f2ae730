"""The doctor's page: what was looked at in the data file, what is wrong with it, and where the first occurrence is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.widget import Widget

from core import doctor
from core.formatting import format_value
from core.simulation import FAMILIES
from tui.examining import Examination
from tui.keys import bindings, shown
from tui.screens.base import BaseScreen, key_parts
from tui.screens.choice_list import ChoiceList
from tui.screens.framed_text import FramedText
from tui.screens.lines import Part, Rule, palette_of
from tui.widgets.fitting import clip

NARROW = 100
"""Columns below which the explanation stands under the list."""
_LOOKS = 0.1
"""Seconds between looks at a doctor at work."""
_ROLES: dict[doctor.Severity, str] = {"wrong": "bad", "good": "good", "fact": "plain"}
_SIDE = 4  # cells of a row before the name: the mark of the selected row, and the sign


class Explanation(FramedText):
    """What the selected finding means, in full."""

    DEFAULT_CSS = """
    Explanation { width: 42%; }
    Explanation.-narrow { width: 1fr; height: 9; }
    """


class DoctorScreen(BaseScreen):
    """Findings by severity. Enter on one goes to the step of its first occurrence, where the replay has one."""

    SCOPE = "doctor"
    ABOUT = "doctor"
    BINDINGS = bindings("doctor")
    DEFAULT_CSS = """
    DoctorScreen #doctor { width: 1fr; height: 1fr; layout: horizontal; }
    DoctorScreen.-narrow #doctor { layout: vertical; }
    DoctorScreen #findings-box { width: 1fr; height: 1fr; layout: vertical; }
    DoctorScreen ChoiceList { border-left: solid $quiet; border-right: solid $quiet; }
    """

    def __init__(self, examination: Examination, go: Callable[[doctor.Finding], object] | None) -> None:
        """``go`` moves the replay to a finding; None where the replay's steps are not the events of the file."""
        super().__init__()
        self.examination = examination
        self.go = go
        self.findings: list[doctor.Finding] = []
        self.list = ChoiceList(self._describe, id="findings")
        self.list_rule = Rule("Findings", "top")
        self.explanation = Explanation("What it means")

    def body(self) -> ComposeResult:
        with Widget(id="doctor"):
            with Widget(id="findings-box"):
                yield self.list_rule
                yield self.list
                yield Rule("", "bottom")
            yield self.explanation

    def on_mount(self) -> None:
        self._look()

    def _look(self) -> None:
        """Show how far the doctor is, again and again until it is done."""
        self._show_header()
        if self.examination.done:
            self._fill()
        else:
            done, text = self.examination.progress
            self.list.empty = f"{text or 'opening the file'}: {format_value(done, '%')}"
            self.list.refresh()
            self.set_timer(_LOOKS, self._look)

    # rows ----------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        report = self.examination.report
        self.findings = list(report.findings) if report is not None else []
        lines: list[tuple[str, int]] = []
        for kind, heading in doctor.HEADINGS.items():
            rows = [row for row, finding in enumerate(self.findings) if doctor.severity(finding) == kind]
            if rows:
                lines.append((f"{heading} ({len(rows)})", -1))
                lines += [("", row) for row in rows]
        self.list.empty = self.examination.error
        self.list.set_rows(lines, lines[1][1] if lines else -1)
        self.list_rule.show(note=[(f"{len(self.findings)}", "dim")] if self.findings else [])
        self._explain()
        self.show_footer()

    def _describe(self, row: int) -> Sequence[Part]:
        """Sign and name on the left, the number on the right."""
        finding = self.findings[row]
        kind = doctor.severity(finding)
        value = format_value(finding.value, finding.unit)
        room = max(self.list.size.width - _SIDE - 1, 12)
        value = clip(value, room // 2)
        name = clip(finding.name, room - cell_len(value) - 1)
        gap = " " * (room - cell_len(name) - cell_len(value))
        role = _ROLES[kind]
        return [(f"{doctor.SIGNS[kind]} ", role), (name, "plain"), (gap, "plain"), (value, "bad" if kind == "wrong" else "plain")]

    @property
    def selected(self) -> doctor.Finding | None:
        at = self.list.selected
        return self.findings[at] if 0 <= at < len(self.findings) else None

    def on_choice_list_selected(self) -> None:
        self.say("")
        self._explain()

    def on_choice_list_opened(self) -> None:
        self.action_doctor_go()

    # explanation ---------------------------------------------------------------------------------------------------

    def _explain(self) -> None:
        finding = self.selected
        self.explanation.text.update(self._text(finding) if finding is not None else Text(self.examination.error))

    def _text(self, finding: doctor.Finding) -> Text:
        palette, kind = palette_of(self), doctor.severity(finding)
        gap = "\n" if self.has_class("-narrow") else "\n\n"
        dim = palette.style("dim")
        out = Text()
        out.append(finding.name, palette.style("plain", bold=True)).append(gap)
        said = {"wrong": "wrong: ", "good": "sound: ", "fact": ""}[kind]
        out.append(said, palette.style(_ROLES[kind])).append(format_value(finding.value, finding.unit))
        report = self.examination.report
        place = doctor.place_of(finding, report is not None and report.by_message)
        if place:
            out.append("\nthe first at ", dim).append(place)
            enter = next(iter(self.notes.keys["doctor_go"]), "")
            if finding.first.step >= 0 and self.go is not None and enter:
                out.append(f"   {shown(enter)}", palette.style("plain", bold=True)).append(" goes there", dim)
        out.append(gap)
        if finding.means:
            out.append(finding.means + gap)
        if finding.note:
            out.append(finding.note + gap)
        if finding.looked and finding.looked != finding.note:
            out.append("looked at ", dim).append(finding.looked + gap)
        out.rstrip()
        return out

    # header, footer, size ------------------------------------------------------------------------------------------

    def _show_header(self) -> None:
        name = Path(self.examination.file.path).name
        right = [*self._verdict(), (" ", "plain")]
        room = self.size.width - sum(cell_len(text) for text, _ in right) - 2
        name = clip(name, room - len(" › Doctor"))
        home: list[Part] = [("notes-tui", "strong"), (" › ", "dim")]
        family: list[Part] = [(FAMILIES[doctor.FAMILY], "dim"), (" › ", "dim")]
        here: list[Part] = [(name, "dim"), (" › ", "dim"), ("Doctor", "plain")]
        ways = ([*home, *family, *here], [*family, *here], here)
        way = next((way for way in ways if sum(cell_len(text) for text, _ in way) <= room), here)
        self.header.set([(" ", "plain"), *way], right)

    def _verdict(self) -> list[Part]:
        report = self.examination.report
        if report is None:
            return [("✗ no report", "bad")] if self.examination.error else [("looking…", "dim")]
        wrong, judged = len(report.wrong), sum(finding.ok is not None for finding in report.findings)
        return [(f"✗ {wrong} of {judged} wrong", "bad")] if wrong else [(f"✓ none of {judged} wrong", "good")]

    def key_hint(self) -> list[Part]:
        """Back stands first: that is how to the replay."""
        leave = self.notes.keys["leave"]
        head: list[Part] = [(f" {shown(leave[0])}", "key"), (" back ", "dim")] if leave else []
        room = self.size.width - sum(cell_len(text) for text, _ in head)
        return [*head, *key_parts(self.notes.keys, self.SCOPE, room, self.LEFT_OUT)]

    def resized(self, width: int, height: int) -> None:
        narrow = width < NARROW
        self.set_class(narrow, "-narrow")
        self.explanation.set_class(narrow, "-narrow")
        super().resized(width, height)
        self._show_header()
        self._explain()
        self.list.refresh()

    def forget(self) -> None:
        super().forget()
        self.list.forget()
        self._explain()

    # actions -------------------------------------------------------------------------------------------------------

    def action_doctor_previous(self) -> None:
        self.list.move(-1)

    def action_doctor_next(self) -> None:
        self.list.move(1)

    def action_doctor_page_up(self) -> None:
        self.list.page(-1)

    def action_doctor_page_down(self) -> None:
        self.list.page(1)

    def action_doctor_first(self) -> None:
        self.list.move(-len(self.findings))

    def action_doctor_last(self) -> None:
        self.list.move(len(self.findings))

    def action_doctor_go(self) -> None:
        """To the step of the first occurrence."""
        finding = self.selected
        if finding is None:
            return
        if finding.first.step < 0:
            self.say("this finding speaks of the whole file: it has no step", "dim")
        elif self.go is None:
            self.say("the steps of this run are not the events of the file: open the file itself to go there", "dim")
        else:
            self.dismiss()
            self.app.call_later(self.go, finding)  # once this page is gone

    def action_leave(self) -> None:
        if self.message:
            self.say("")
        else:
            self.dismiss()
