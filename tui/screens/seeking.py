"""Actions that move the playhead: steps, phases, playing, find, run-until and bookmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import BadInput
from tui.screens.stage_base import StageBase

if TYPE_CHECKING:
    from tui.player import Player


class Seeking(StageBase):
    """Part of the stage screen."""

    def move(self, call: str) -> None:
        """Do what ``call`` says, which is one of `tui.quick_keys.MOVES`, as Textual writes it: ``forward``, ``tenth(3)``."""
        name, _, argument = call.rstrip(")").partition("(")
        getattr(self, f"action_{name}")(*([int(argument)] if argument else []))

    def action_back(self) -> None:
        self.go(lambda player: player.move(-1))

    def action_forward(self) -> None:
        self.go(lambda player: player.move(1))

    def action_back_far(self) -> None:
        self.go(lambda player: player.far(-1))

    def action_forward_far(self) -> None:
        self.go(lambda player: player.far(1))

    def action_previous_phase(self) -> None:
        self.go(lambda player: player.phase(-1))

    def action_next_phase(self) -> None:
        self.go(lambda player: player.phase(1))

    def action_start(self) -> None:
        self.go(lambda player: player.seek(0))

    def action_end(self) -> None:
        self.go(lambda player: player.seek(player.last))

    def action_tenth(self, n: int) -> None:
        self.go(lambda player: player.tenth(n))

    def action_play(self) -> None:
        self.go(lambda player: player.toggle())

    def action_faster(self) -> None:
        self.go(lambda player: player.change_speed(1))

    def action_slower(self) -> None:
        self.go(lambda player: player.change_speed(-1))

    # find ----------------------------------------------------------------------------------------------------------

    def action_find(self) -> None:
        from tui.screens.prompt import Prompt

        last = self.player.found.query if self.player.found is not None else ""
        hint = _hint("text in a title", self.player) or "text in a title, tags as rank:2, or both"
        self.app.push_screen(Prompt("Find", hint, self._find, value=last, history=self._finds))

    def _find(self, text: str) -> None:
        query = text.strip()
        step = self.player.find(query)
        if step is None:
            unfinished = "" if self.front.done else " so far"
            allowed = _hint("text in a title", self.player) or "text in a title, or a tag as rank:2"
            raise BadInput("find", f"no step{unfinished} matches {query!r}", allowed)
        self._found(step)

    def action_find_next(self) -> None:
        self._find_again(1)

    def action_find_previous(self) -> None:
        self._find_again(-1)

    def _find_again(self, direction: int) -> None:
        if self.player.found is None:
            self.action_find()
            return
        before = self.player.step
        step = self.player.find_again(direction)
        if step is None:
            self.say(f"no step matches {self.player.found.query!r}", "bad")
            return
        wrapped = (step - before) * direction <= 0
        self._found(step, ", around the end" if wrapped else "")

    def _found(self, step: int, note: str = "") -> None:
        found = self.player.found
        self.paint()
        if found is not None:
            self.say(f"match {found.position(step):,} of {len(found):,} for {found.query!r}{note}", "selected")

    # until ---------------------------------------------------------------------------------------------------------

    def action_until(self) -> None:
        self._ask_until(1)

    def action_until_back(self) -> None:
        self._ask_until(-1)

    def _ask_until(self, direction: int) -> None:
        from tui.screens.prompt import Prompt

        label = "Run until" if direction > 0 else "Run back until"
        special = _hint("", self.player)
        facts = [name for name in self.front.recording.facts if " " not in name][:3]
        tags = list(self.front.recording.columns)[:3]
        hint = special or (
            "fact op number, or tag:value"
            + (f"  (facts {', '.join(facts)}…" if facts else "  (")
            + (f" tags {', '.join(tags)}…)" if tags else ")")
        )
        value = self._conditions[-1] if self._conditions else ""
        self.app.push_screen(Prompt(label, hint, lambda text: self._until(text, direction), value=value, history=self._conditions))

    def _until(self, text: str, direction: int) -> None:
        from core.search import condition, nothing

        wanted, written = condition(text, self.front.recording)
        direction = -1 if written < 0 else direction
        step = self.player.run_until(wanted, direction)
        asked = text.strip().lstrip("<").strip()
        if step is not None:
            self.paint()
            happens = {"fact": "begins to hold", "time": "comes", "word": "is"}.get(wanted.kind, "holds")
            self.say(f"{asked} {happens} at step {step + 1:,}", "selected")
        elif direction > 0 and not self.front.done:
            self._pending = text
            self.say(f"waiting for {asked}: the recording goes on", "dim")
        elif wanted.kind in ("time", "word"):
            side = "after this one" if direction > 0 else "before this one"
            raise nothing(wanted, self.front.recording, f"until {asked!r}", side)
        else:
            side = "after" if direction > 0 else "before"
            raise BadInput(
                "until", f"no step {side} this one where {text.strip()} begins to hold", "another condition, or the other direction"
            )

    def look_for_pending(self) -> None:
        """A condition that is waited for may have come to hold."""
        if not self._pending:
            return
        text, self._pending = self._pending, ""
        try:
            self._until(text, 1)
        except BadInput as error:
            self.say(str(error), "bad")

    # bookmarks -----------------------------------------------------------------------------------------------------

    def action_bookmark(self) -> None:
        kept = self.player.toggle_bookmark()
        self.paint()
        self.say(f"step {self.player.step + 1:,} is {'bookmarked' if kept else 'no longer bookmarked'}", "dim")

    def action_bookmarks(self) -> None:
        if not self.player.bookmarks:
            self.say("no bookmarks yet", "dim")
            return
        from tui.screens.bookmarks import Bookmarks

        self.app.push_screen(Bookmarks(self.player), self._bookmark_chosen)

    def _bookmark_chosen(self, step: int | None) -> None:
        if step is not None:
            self.go(lambda player: player.seek(step))
        else:
            self.paint()


def _hint(first: str, player: Player) -> str:
    """The forms that the recording has beyond text, facts and tags, with its own numbers; '' when it has none."""
    from core.search import examples

    recording = player.recording
    if not recording.words and not recording.clock:
        return ""
    forms = examples(recording, player.step)
    fact = forms.pop("fact", "")
    return ", ".join(part for part in (first or fact, *forms.values()) if part)
