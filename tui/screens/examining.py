"""The stage of a data file and the doctor: the page on a key, and one line before the replay where something is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core import doctor
from tui.examining import Examination, Examined
from tui.keys import shown
from tui.screens.stage_base import StageBase
from tui.worker import RunEnded

_NOTICE = "{count}. {key} shows the doctor's page."


class Examining(StageBase):
    """Part of the stage screen."""

    _examination: Examination | None = None

    def action_doctor(self) -> None:
        """Open the doctor's page on the data file of the run in front."""
        from tui.screens.doctor import DoctorScreen

        file = self._data_file()
        if file is None:
            self.say("this run reads no market data file: there is nothing for the doctor to look at", "dim")
            return
        self.player.pause()
        self.paint()
        go = self._go_to if doctor.steps_are_events(self.front.recording) else None
        self.app.push_screen(DoctorScreen(self._examined(file), go))

    def _data_file(self) -> doctor.DataFile | None:
        return doctor.data_file(self.front.recording)

    def _examined(self, file: doctor.DataFile) -> Examination:
        """The look at ``file`` that is there or under way, else a new one."""
        mine = self._examination
        if mine is None or mine.file != file:
            if mine is not None:
                mine.cancel()
            mine = self._examination = Examination(file, self._from_a_thread)
            self.notes.examinations.append(mine)
            mine.start()
        return mine

    def _go_to(self, finding: doctor.Finding) -> None:
        report = self._examination.report if self._examination is not None else None
        if report is not None:
            step = doctor.step_of(report, self.front.recording, finding)
            self.go(lambda player: player.want(step))

    def not_offered(self) -> frozenset[str]:
        return super().not_offered() | (frozenset() if self._data_file() is not None else {"doctor"})

    # unasked -------------------------------------------------------------------------------------------------------

    async def on_run_ended(self, message: RunEnded) -> None:
        """The first event is on the screen and the rest recorded: now the doctor may look."""
        if message.run is self.front:
            self._look_unasked()

    def _look_unasked(self) -> None:
        """Look at the data file, unless it is large or could not be replayed."""
        file = self._data_file()
        if file is None or self.front.error:
            return
        try:
            small = Path(file.path).stat().st_size <= doctor.LARGEST_UNASKED
        except (OSError, ValueError):
            return
        if small:
            self._examined(file)

    def on_examined(self, message: Examined) -> None:
        self._give_notice()

    def _give_notice(self) -> None:
        """One line that stands before the replay, if something is wrong."""
        mine = self._examination
        if mine is None or mine.report is None or not mine.report.wrong:
            return
        key = shown(next(iter(self.notes.keys["doctor"]), ""))
        count = doctor.in_short(mine.report)
        self.notice = _NOTICE.format(count=count, key=key) if key else count
        self.paint()

    async def settled(self) -> None:
        while not self.notes.ended and (not self.views or any(not run.done for run in self.runs.all)):
            await asyncio.sleep(0.01)
        self._look_unasked()
        while not self.notes.ended and self._examination is not None and not self._examination.done:
            await asyncio.sleep(0.01)
        self._give_notice()
        await super().settled()

    def on_unmount(self) -> None:
        if self._examination is not None:
            self._examination.cancel()
