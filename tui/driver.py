"""The terminal driver: Textual's, but bytes that are not UTF-8 do not end it, a terminal that goes away does, and frames are short."""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from functools import partial
from time import monotonic

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from tui.thrift import thrifty

FRAME_FROM = 64
"""Characters; shorter writes are control sequences alone."""
SAME_FRAME_WITHIN = 0.5
"""Seconds in which an equal frame is not sent again."""


class TerminalDriver(LinuxDriver):
    """Decodes input with replacement characters; the end of a terminal's input ends the app instead of spinning on it."""

    _last: tuple[str, float] = ("", 0.0)

    def write(self, data: str) -> None:
        """A frame, with each style sent as what changes. The same frame twice running is sent once (a closed dialog causes that)."""
        if len(data) < FRAME_FROM:
            super().write(data)
            return
        now = monotonic()
        if data == self._last[0] and now - self._last[1] < SAME_FRAME_WITHIN:
            return
        self._last = (data, now)
        super().write(thrifty(data))

    def forget_frame(self) -> None:
        """What the terminal shows is not known any more: it was resized, or another program had it."""
        self._last = ("", 0.0)

    def start_application_mode(self) -> None:
        self.forget_frame()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        try:
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        received = os.read(self.fileno, 4096)
                    except OSError:
                        received = b""
                    if not received:
                        self._input_ended()
                        return
                    for event in parser.feed(decode(received).replace("\ufffd", "")):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        finally:
            selector.close()
            try:
                for _ in parser.feed(""):
                    pass
            except (EOFError, ParseError):
                pass

    def _input_ended(self) -> None:
        if self.input_tty:
            self._loop.call_soon_threadsafe(partial(self._app.exit, return_code=129))
