"""The list of bookmarked steps, by number and title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from tui.player import Player
from tui.screens.choice_list import ChoiceList
from tui.screens.lines import Part, Rule


class Bookmarks(ModalScreen[int | None]):
    """Enter goes to the selected step, Delete removes its bookmark, Esc leaves."""

    DEFAULT_CSS = """
    Bookmarks { background: transparent; align: center middle; }
    Bookmarks > Vertical { width: 80%; max-width: 100; background: $background; }
    Bookmarks ChoiceList { border-left: solid $quiet; border-right: solid $quiet; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,apostrophe,q", "cancel", "Leave"),
        ("enter,space", "choose", "Go"),
        ("up,k", "move(-1)", "Up"),
        ("down,j", "move(1)", "Down"),
        ("delete,backspace,m,x", "remove", "Remove"),
    ]

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.player = player
        self.list = ChoiceList(self._describe)
        self.foot = Rule("", "bottom")
        self.foot.note = (("Enter goes there  Del removes  Esc leaves", "dim"),)
        self.box = Vertical(Rule("Bookmarks", "top"), self.list, self.foot)

    def compose(self) -> ComposeResult:
        self._fill(next((n for n, step in enumerate(self.player.bookmarks) if step >= self.player.step), 0))
        yield self.box

    def _fill(self, selected: int) -> None:
        count = len(self.player.bookmarks)
        self.box.styles.height = min(count, 14) + 2
        self.list.set_rows([("", n) for n in range(count)], min(selected, count - 1))

    def _describe(self, row: int) -> Sequence[Part]:
        step = self.player.bookmarks[row]
        recording = self.player.recording
        known = step < len(recording)
        time = f"{recording.time_text(step, 3)}  " if known and recording.clock else ""
        return [(f"{step + 1:>8,}  {time}", "dim"), (recording.title(step) if known else "not recorded yet", "plain")]

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def on_choice_list_opened(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self.player.bookmarks[self.list.selected])

    def action_remove(self) -> None:
        row = self.list.selected
        self.player.bookmarks = tuple(step for n, step in enumerate(self.player.bookmarks) if n != row)
        if not self.player.bookmarks:
            self.dismiss(None)
        else:
            self._fill(row)

    def action_cancel(self) -> None:
        self.dismiss(None)
