"""The stage of one collective, opened hop by hop: a finished recording over the stage it was opened from."""

from __future__ import annotations

from rich.cells import cell_len

from core.recording import Recording
from core.scenario import Scenario
from tui.keys import shown
from tui.screens.base import key_parts
from tui.screens.lines import Part
from tui.screens.stage import StageScreen
from tui.screens.stage_base import StageBase

_QUESTION = "{title}, hop by hop, with the tensors that it moved."
_ONE_RUN = "one collective, already recorded: it has no parameters, variants or second run"
_NOT_HERE = "· one run: no compare, no fork"


class HopStage(StageScreen):
    """Everything of a stage but other runs; back is the step it was opened from."""

    ABOUT = "hops"
    LEFT_OUT = frozenset({"parameters", "fork", "next_variant", "compare", "difference", "doctor"})

    def __init__(self, opener: StageBase, title: str, recording: Recording) -> None:
        self.opener = opener
        scenario = Scenario(f"{opener.scenario.name}/{title}", recording.simulation, title, _QUESTION.format(title=title))
        super().__init__(
            scenario,
            variant=None,
            overrides={},
            device=recording.device,
            seed=recording.seed,
            start_step=0,
            clock=opener.clock,
            recording=recording,
        )

    def way(self) -> list[str]:
        return [*self.opener.way(), self.scenario.title]

    def key_hint(self) -> list[Part]:
        """Back stands first; where there is room, what is not here is said."""
        keys = self.notes.keys
        head: list[Part] = [(f" {shown(keys['leave'][0])}", "key"), (" back ", "dim")] if keys["leave"] else []
        room = self.size.width - sum(cell_len(text) for text, _ in head)
        parts = [*head, *key_parts(keys, self.SCOPE, room, self.not_offered())]
        used = sum(cell_len(text) for text, _ in parts)
        return [*parts, (_NOT_HERE, "dim")] if used + cell_len(_NOT_HERE) <= self.size.width else parts

    def leave(self) -> None:
        self.dismiss()

    def remember_position(self) -> None:
        """Where a collective was left is not kept."""

    def action_parameters(self) -> None:
        self.say(_ONE_RUN, "dim")

    def action_fork(self) -> None:
        self.say(_ONE_RUN, "dim")

    async def action_next_variant(self) -> None:
        self.say(_ONE_RUN, "dim")

    async def action_compare(self) -> None:
        self.say(_ONE_RUN, "dim")

    async def action_difference(self) -> None:
        self.say(_ONE_RUN, "dim")
