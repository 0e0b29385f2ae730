"""Actions that choose what is recorded: variants, parameters, forks, and two runs side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput
from core.formatting import parameter_text
from core.recording import first_difference
from tui.runs import Run
from tui.screens.stage_base import StageBase

if TYPE_CHECKING:
    from core.simulation import Params
    from tui.screens.form import Form

Accept = Callable[[dict[str, object]], object]


class Choosing(StageBase):
    """Part of the stage screen."""

    # variants ------------------------------------------------------------------------------------------------------

    def run_of(self, variant: str) -> Run:
        """The run of ``variant``, recorded when it is first asked for."""
        run = self.runs.named(variant)
        if run is None:
            run = self.make_run(variant, {})
            self.start(run)
        return run

    def choices(self) -> list[Run | str]:
        """Everything that can stand in front: the variants (by name until they are recorded), then forks."""
        variants: list[Run | str] = [self.runs.named(name) or name for name in self.scenario.variant_names]
        return [*variants, *(run for run in self.runs.all if run not in variants)]

    def _after(self, run: Run, besides: Run | None = None) -> Run | None:
        """The run after ``run`` among the choices, leaving out ``besides``; None when there is no other."""
        choices = self.choices()
        at = choices.index(run)
        for offset in range(1, len(choices)):
            choice = choices[(at + offset) % len(choices)]
            if choice is not besides and choice is not run:
                return choice if isinstance(choice, Run) else self.run_of(choice)
        return None

    async def action_next_variant(self) -> None:
        pair = self.runs.pair
        other = self._after(pair[1], pair[0]) if pair is not None else self._after(self.front)
        if other is None:
            self.say("there is one run only; F forks it with another parameter" if pair is None else "there is no third run", "dim")
            return
        if pair is not None:
            self.runs.beside = other
        else:
            self._come_forward(other)
        self.say("")
        await self.set_out()
        self.arm()

    def _come_forward(self, run: Run) -> None:
        """``run`` takes the front at the place where the one before stood."""
        from tui.runs import synchronise

        before = self.front
        before.player.pause()
        if run.done or len(run.recording):
            run.player.seek(synchronise(before.recording, before.player.step, run.recording))
        elif before.player.step:
            run.player.want(before.player.step)
        run.player.speed = before.player.speed
        self.runs.front = run

    async def action_compare(self) -> None:
        if self.runs.beside is not None:
            self.runs.beside = None
        else:
            other = self._after(self.front)
            if other is None:
                self.say("there is one run only; F forks it with another parameter", "dim")
                return
            self.runs.beside = other
        self.set_focus(None)
        self.say("")
        await self.set_out()

    async def action_difference(self) -> None:
        if self.runs.beside is None:
            await self.action_compare()
            if self.runs.beside is None:
                return
        self._wants_difference = True
        self.show_difference()

    def show_difference(self) -> None:
        """Jump to the first difference once both runs are there."""
        pair = self.runs.pair
        if not self._wants_difference or pair is None:
            return
        if not (pair[0].done and pair[1].done):
            self.say("waiting until both runs are recorded", "dim")
            return
        self._wants_difference = False
        step = first_difference(pair[0].recording, pair[1].recording)
        if step is None:
            self.say(f"{pair[0].label} and {pair[1].label} do not differ in any step", "good")
            return
        self.go(lambda player: player.seek(step))
        texts = [run.recording.title(step) if step < len(run.recording) else "ended" for run in pair]
        self.say(f"first difference, step {step + 1:,}: {texts[0]} | {texts[1]}", "selected")

    # parameters ----------------------------------------------------------------------------------------------------

    def action_parameters(self) -> None:
        self._ask("Parameters", "Enter records again", self._record_again)

    def action_fork(self) -> None:
        self._ask(f"Fork from step {self.player.step + 1:,} with", "Enter records a second run", self._fork)

    def _ask(self, title: str, enter: str, accept: Accept) -> None:
        """Open the form once the declaration is there: its module may still be loading in a worker."""
        if self._asking:
            return
        self._asking = True
        self.run_worker(partial(self._load_declaration, title, enter, accept), thread=True, exit_on_error=False)

    def _load_declaration(self, title: str, enter: str, accept: Accept) -> None:
        from core.simulation import load

        try:
            declared = load(self.scenario.simulation).params
        except BadInput as error:
            self.app.call_from_thread(self._not_loaded, str(error))
        except Exception as error:  # a simulation that does not load is told, not fatal
            self.app.call_from_thread(self._not_loaded, f"{self.scenario.simulation} does not load: {error}")
        else:
            self.app.call_from_thread(self._declared, title, enter, accept, declared)

    def _not_loaded(self, error: str) -> None:
        self._asking = False
        self.say(error, "bad")

    def _declared(self, title: str, enter: str, accept: Accept, declared: type[Params]) -> None:
        self._asking = False
        if self.app.screen is self:
            self.app.push_screen(self._form(title, enter, accept, declared))

    def _form(self, title: str, enter: str, accept: Accept, declared: type[Params]) -> Form:
        from core.simulation import fields, parse
        from tui.screens.form import Form, from_declaration

        run = self.front
        try:
            now = msgspec.to_builtins(self.scenario.parsed(run.variant, run.overrides))
        except BadInput:
            now = {**{f.name: f.default for f in fields(declared)}, **self.scenario.raw_params(run.variant, run.overrides)}
        rows = [from_declaration(field, now.get(field.name, field.default)) for field in fields(declared)]

        def check(name: str, text: str) -> None:
            parse(declared, {name: text})

        def done(values: dict[str, str]) -> None:
            changed = {row.name: values[row.name] for row in rows if values[row.name] != row.value}
            parsed = msgspec.to_builtins(parse(declared, changed))
            accept({name: parsed[name] for name in changed})

        return Form(title, rows, done, check, enter=enter)

    def _overrides(self, changed: dict[str, object]) -> dict[str, object]:
        """The front run's overrides with ``changed``; those that say what the scenario says anyway are dropped."""
        base = msgspec.to_builtins(self.scenario.parsed(self.front.variant))
        merged = {**self.front.overrides, **changed}
        return {name: value for name, value in merged.items() if base.get(name) != value}

    def _record_again(self, changed: dict[str, object]) -> None:
        if not changed:
            return
        old = self.front
        new = Run(
            self.scenario, old.variant, self._overrides(changed), device=self.device, seed=self.seed, label=old.label, clock=self.clock
        )
        new.player.bookmarks = old.player.bookmarks
        new.player.speed = old.player.speed
        if old.player.step:
            new.player.want(old.player.step)
        self.runs.replace(old, new)
        self.start(new)
        self.say("")
        self.call_later(self.set_out)

    def _fork(self, changed: dict[str, object]) -> None:
        if not changed:
            raise BadInput("fork", "nothing is changed", "another value in at least one field")
        front = self.front
        what = ", ".join(f"{name} {parameter_text(value)}" for name, value in changed.items())
        label = f"{front.label}, {what}" if front.label != "default" else what
        run = self.make_run(front.variant, self._overrides(changed), label)
        self.start(run)
        self.runs.beside = run
        front.player.pause()
        self.say("")
        self.call_later(self.set_out)
