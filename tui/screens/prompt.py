"""A one-line question at the foot of the screen: find, run until, open a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from core.errors import BadInput
from tui.screens.folding import Folding


class Prompt(ModalScreen[None]):
    """Asks for ``label``; ``accept`` takes the text and raises BadInput to have it corrected. Up and down recall what was asked before."""

    DEFAULT_CSS = """
    Prompt { background: transparent; align: left bottom; }
    Prompt > Vertical { height: auto; width: 1fr; background: $background; }
    Prompt Input { border: none; height: 1; padding: 0 1; background: $surface; }
    Prompt Input:focus { border: none; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel", "Cancel")]

    def __init__(
        self, label: str, hint: str, accept: Callable[[str], object], *, value: str = "", history: list[str] | None = None
    ) -> None:
        super().__init__()
        self.label = label
        self.hint = hint
        self._accept = accept
        self._value = value
        self._history = history if history is not None else []
        self._recalled = len(self._history)
        self.note = Folding([(f" {label} ", "strong"), (hint if value else "", "dim")], [("Enter accepts  Esc leaves ", "dim")])

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self.note
            box = Input(self._value, placeholder=self.hint, select_on_focus=True, compact=True)
            box.cursor_blink = False
            yield box

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("up", "down") and self._history:
            self._recalled = min(max(self._recalled + (-1 if event.key == "up" else 1), 0), len(self._history) - 1)
            box = self.query_one(Input)
            box.value = self._history[self._recalled]
            box.cursor_position = len(box.value)
            event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value
        if not text.strip():
            self.dismiss()
            return
        try:
            self._accept(text)
        except BadInput as error:
            self.note.fold(str(error), "bad")
            return
        if text in self._history:
            self._history.remove(text)
        self._history.append(text)
        self.dismiss()

    def action_cancel(self) -> None:
        self.dismiss()
