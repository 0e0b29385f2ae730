"""The stage: one run or two, played step by step, with what happens, why, and the numbers."""

from __future__ import annotations

from tui.keys import bindings
from tui.screens.choosing import Choosing
from tui.screens.drilling import Drilling
from tui.screens.examining import Examining
from tui.screens.saving import Saving
from tui.screens.seeking import Seeking


class StageScreen(Seeking, Choosing, Drilling, Saving, Examining):
    """All that can be done on a stage."""

    BINDINGS = bindings("stage")

    def grown(self) -> None:
        self.look_for_pending()
        self.show_difference()

    # leaving -------------------------------------------------------------------------------------------------------

    def action_leave(self) -> None:
        if self.message:
            self.say("")
        elif self.focused is not None:
            self.set_focus(None)
        elif self.runs.beside is not None:
            self.call_later(self.action_compare)
        else:
            self.leave()

    def leave(self) -> None:
        """Back to where this stage was opened from."""
        self.remember_position()
        self.notes.leave_stage(self)
