"""A data file looked at by the doctor, in a thread that posts a message and never touches a widget."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from core import doctor
from core.errors import BadInput, Cancelled
from tui.defects import told
from tui.short_turns import SHORT_TURNS


class Examined(Message):
    """The doctor has looked at the whole file, or could not."""

    def __init__(self, examination: Examination) -> None:
        self.examination = examination
        super().__init__()


class Examination:
    """One look at one file: `report` when it is done, `error` in one line when that is no market data, `progress` meanwhile."""

    def __init__(self, file: doctor.DataFile, post: Callable[[Message], object]) -> None:
        self.file = file
        self.report: doctor.Report | None = None
        self.error = ""
        self.progress = (0.0, "")
        self._post = post
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._look, name=f"examine {file.path}", daemon=True)

    @property
    def done(self) -> bool:
        return self.report is not None or bool(self.error)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        self._cancelled.set()

    def join(self, seconds: float) -> None:
        """Wait a little for an abandoned look, so that the interpreter does not end under it."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _look(self) -> None:
        SHORT_TURNS.begin()
        try:
            self._tell(0.0, "opening the file")
            report = doctor.examine(*self.file, progress=self._tell)
        except Cancelled:
            return
        except BadInput as error:
            self.error = str(error)
        except Exception as error:  # a defect of the doctor must not end the explorer
            self.error = told("the doctor stopped with", error)
        else:
            self.report = report
        finally:
            SHORT_TURNS.end()
        if not self._cancelled.is_set():
            self._post(Examined(self))

    def _tell(self, done: float, text: str) -> None:
        if self._cancelled.is_set():
            raise Cancelled
        self.progress = (done, text)
