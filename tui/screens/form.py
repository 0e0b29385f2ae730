"""A form of one row a field: made from a parameter declaration, or for a choice of format and file. Errors stand at their field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from core.errors import BadInput
from core.formatting import parameter_text
from core.simulation import Field
from tui.screens.folding import Folding
from tui.screens.lines import Line, Part, Rule

_ABOUT_ROWS = 2


class FormField(msgspec.Struct, frozen=True):
    """One row: what it is called, its text, what it accepts, and the words to choose from (none: free text)."""

    name: str
    value: str
    allowed: str = ""
    description: str = ""
    choices: tuple[str, ...] = ()


def from_declaration(field: Field, value: object) -> FormField:
    """The row of one parameter with the value it has."""
    choices = field.choices or (("true", "false") if field.kind == "bool" else ())
    allowed = msgspec.structs.replace(field, description="").allowed if not choices else ""
    return FormField(field.name, parameter_text(value), allowed, field.description, choices)


class Chooser(Line, can_focus=True):
    """A field with a few words to choose from: left and right, or space."""

    DEFAULT_CSS = "Chooser { height: 1; background: $surface; } Chooser:focus { text-style: bold; }"

    class Changed(Message):
        """Another word is chosen."""

        def __init__(self, chooser: Chooser) -> None:
            self.chooser = chooser
            super().__init__()

    def __init__(self, choices: Sequence[str], value: str) -> None:
        self.choices = tuple(choices)
        self.value = value if value in choices else self.choices[0]
        super().__init__(self._parts())

    def _parts(self) -> list[Part]:
        return [
            (" ‹ ", "dim"),
            (self.value, "strong"),
            (" › ", "dim"),
            (f" {self.choices.index(self.value) + 1}/{len(self.choices)}", "dim"),
        ]

    def on_key(self, event: events.Key) -> None:
        by = {"left": -1, "h": -1, "right": 1, "l": 1, "space": 1}.get(event.key)
        if by is None:
            return
        event.stop()
        self.value = self.choices[(self.choices.index(self.value) + by) % len(self.choices)]
        self.set(self._parts())
        self.post_message(self.Changed(self))


class FormRow(Horizontal):
    """Name, entry, and what is allowed or wrong."""

    DEFAULT_CSS = """
    FormRow { height: 1; width: 1fr; }
    FormRow > .name { width: 30%; min-width: 24; max-width: 28; }
    FormRow > .entry { width: 25%; max-width: 60; }
    FormRow.-wide > .name { width: 10; }
    FormRow.-wide > .entry { width: 1fr; max-width: 100%; }
    FormRow.-wide > .note { width: 1; }
    FormRow > .note { width: 1fr; }
    FormRow Input { border: none; height: 1; padding: 0 1; background: $surface; }
    FormRow Input:focus { border: none; background: $surface; }
    """

    def __init__(self, field: FormField, *, wide: bool = False) -> None:
        super().__init__(classes="-wide" if wide else "")
        self.field = field
        self.entry: Chooser | Input
        if field.choices:
            self.entry = Chooser(field.choices, field.value)
        else:
            self.entry = Input(field.value, select_on_focus=True, compact=True)
            self.entry.cursor_blink = False
        self.entry.add_class("entry")
        self.note = Line([(f" {field.allowed}", "dim")], classes="note")
        self.label = Line([(f" {field.name}", "plain")], classes="name")
        self.error = ""

    def compose(self) -> ComposeResult:
        yield self.label
        yield self.entry
        yield self.note

    @property
    def value(self) -> str:
        return self.entry.value

    @property
    def changed(self) -> bool:
        return self.value != self.field.value

    def show(self, error: str) -> None:
        self.error = error
        self.note.set([(f" ✗ {error}", "bad")] if error else [(f" {self.field.allowed}", "dim")])
        self.label.set([(f" {self.field.name}", "selected" if self.changed else "plain"), (" *" if self.changed else "", "selected")])


class Form(ModalScreen[None]):
    """Rows of fields.

    ``check(name, text)`` raises BadInput for one field, ``accept(values)`` for the whole, naming the field in ``where``.
    """

    DEFAULT_CSS = """
    Form { background: transparent; align: center middle; }
    Form > Vertical { width: 90%; max-width: 110; max-height: 90%; background: $background; }
    Form VerticalScroll { height: 1fr; border-left: solid $quiet; border-right: solid $quiet; scrollbar-size-vertical: 1; }
    Form .about { border-left: solid $quiet; border-right: solid $quiet; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "cancel", "Cancel"),
        ("enter", "submit", "Accept"),
        Binding("down,tab", "app.focus_next", "Next field", priority=True),  # at once: what is typed next belongs to the next field
        Binding("up,shift+tab", "app.focus_previous", "Field before", priority=True),
    ]

    def __init__(
        self,
        title: str,
        fields: Sequence[FormField],
        accept: Callable[[dict[str, str]], object],
        check: Callable[[str, str], object] | None = None,
        *,
        enter: str = "Enter accepts",
        wide: bool = False,
    ) -> None:
        super().__init__()
        self._accept = accept
        self._check = check
        self.rows = [FormRow(field, wide=wide) for field in fields]
        self.top = Rule(title, "top")
        self.about = Folding(least=_ABOUT_ROWS, most=_ABOUT_ROWS, classes="about")
        self.bottom = Rule("", "bottom")
        self.bottom.note = ((enter, "plain"), ("  ↑↓ field  Esc leaves", "dim"))

    def compose(self) -> ComposeResult:
        box = Vertical()
        box.styles.height = len(self.rows) + 2 + _ABOUT_ROWS
        with box:
            yield self.top
            with VerticalScroll(can_focus=False):
                yield from self.rows
            yield self.about
            yield self.bottom

    def on_mount(self) -> None:
        if self.rows:
            self.call_after_refresh(self.rows[0].entry.focus)

    def row(self, name: str) -> FormRow | None:
        return next((row for row in self.rows if row.field.name == name), None)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        row = _row_of(event.widget)
        if row is not None:
            self._tell(row)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._check_row(_row_of(event.input))

    def on_chooser_changed(self, event: Chooser.Changed) -> None:
        self._check_row(_row_of(event.chooser))

    def _check_row(self, row: FormRow | None) -> None:
        if row is None:
            return
        error = ""
        if self._check is not None and row.changed:
            try:
                self._check(row.field.name, row.value)
            except BadInput:
                error = row.field.allowed
        row.show(error)
        if row.entry.has_focus:
            self._tell(row)

    def _tell(self, row: FormRow) -> None:
        """Below the fields: what is wrong in this one, or what it means."""
        self.about.fold(f"✗ {row.error}" if row.error else row.field.description, "bad" if row.error else "dim")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_submit()

    def action_submit(self) -> None:
        for row in self.rows:
            self._check_row(row)
        wrong = next((row for row in self.rows if row.error), None)
        if wrong is not None:
            wrong.entry.focus()
            return
        try:
            self._accept({row.field.name: row.value for row in self.rows})
        except BadInput as bad:
            named = self.row(bad.where.rpartition(".")[2]) or self.row(bad.where)
            if named is not None:
                named.show(f"{bad.found}; {bad.allowed}")
                self._tell(named)
                named.entry.focus()
            else:
                self.about.fold(str(bad), "bad")
            return
        self.dismiss()

    def action_cancel(self) -> None:
        self.dismiss()


def _row_of(widget: Widget) -> FormRow | None:
    parent = widget.parent
    return parent if isinstance(parent, FormRow) else None
