"""The terminal driver: Textual's, but bytes that are not UTF-8 do not end it, a terminal that goes away does, and frames are short."""

from __future__ import annotations

import os
import re
import selectors
from codecs import getincrementaldecoder
from functools import partial

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from tui.shadow import Shadow

_FRAME = re.compile(r"\x1b\[[0-9;]*H")
"""What every frame begins with: a position. Other writes are modes and queries."""
_CLEARS = ("\x1b[2J", "\x1b[J", "\x1b[?1049")


class TerminalDriver(LinuxDriver):
    """Decodes input with replacement characters; the end of a terminal's input ends the app instead of spinning on it."""

    _shadow: Shadow | None = None

    def write(self, data: str) -> None:
        """Of a frame, the cells that the terminal does not show already."""
        if self._shadow is None:
            self._shadow = Shadow()
        if _FRAME.match(data):
            data = self._shadow.difference(data)
        elif any(clears in data for clears in _CLEARS):
            self._shadow.forget()
        if data:
            super().write(data)

    def forget_frame(self) -> None:
        """What the terminal shows is not known any more: it was resized, or another program had it."""
        if self._shadow is not None:
            self._shadow.forget()

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
