"""The terminal driver: Textual's, but bytes that are not UTF-8 do not end it, a terminal that goes away does, and frames are short."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import selectors
from codecs import getincrementaldecoder
from collections.abc import Sequence
from concurrent.futures import wait
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from textual import events
from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.compositor import Piece
from tui.quick_keys import Received
from tui.shadow import Shadow, runs_of

if TYPE_CHECKING:
    from tui.app import NotesApp
    from tui.right_of_way import RightOfWay

_FRAME = re.compile(r"\x1b\[[0-9;]*H")
"""What every frame begins with: a position. Other writes are modes and queries."""
_LOOKS = 0.1
"""Seconds after which the end of the app is looked for while nothing is typed."""
_PAUSE = 0.03
"""Seconds after a key in which its answer is on the screen."""
_SURELY_DONE = 0.05
"""Seconds after which a key that a frame has answered has done all it does."""
_LONGEST = 1.0
"""Seconds that a key waits for the one before it."""
_CLEARS = ("\x1b[2J", "\x1b[J", "\x1b[?1049")


class TerminalDriver(LinuxDriver):
    """Decodes input with replacement characters; the end of a terminal's input ends the app instead of spinning on it."""

    _typed = 0.0

    @cached_property
    def _shadow(self) -> Shadow:
        return Shadow()

    @cached_property
    def _received(self) -> Received:
        return Received()

    def write(self, data: str) -> None:
        """Of a frame, the cells that the terminal does not show already."""
        if _FRAME.match(data):
            data = self._shadow.difference(data)
        elif any(clears in data for clears in _CLEARS):
            self._shadow.forget()
        if data:
            super().write(data)

    def show(self, pieces: Sequence[Piece], cursor: tuple[int, int]) -> bool:
        """Paint ``pieces`` of rows and leave the cursor there; False when they have to be written as text."""
        runs = runs_of(pieces, self._app.console._color_system)
        if runs is None:
            return False
        x, y = cursor
        sent = self._shadow.change(runs, (y + 1, x + 1))
        if sent:
            super().write(sent)
        return True

    @property
    def _keys(self) -> RightOfWay:
        return cast("NotesApp", self._app).right_of_way

    def forget_frame(self) -> None:
        """What the terminal shows is not known any more: it was resized, or another program had it."""
        self._shadow.forget()

    def start_application_mode(self) -> None:
        self.forget_frame()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        selector = selectors.SelectSelector()
        selector.register(self.fileno, selectors.EVENT_READ)
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        tidy = True
        try:
            while not self.exit_event.is_set():
                if selector.select(_LOOKS if tidy else _PAUSE):
                    tidy = False
                    try:
                        received = os.read(self.fileno, 4096)
                    except OSError:
                        received = b""
                    if not received:
                        self._input_ended()
                        return
                    self._typed_in(decode(received).replace("\ufffd", ""), parser)
                elif not tidy:  # collecting takes longer than a key may: between two keys nobody waits for it
                    gc.collect(1)
                    tidy = True
                for event in parser.tick():
                    self._pass_on(event)
        finally:
            selector.close()
            try:
                for _ in parser.feed(""):
                    pass
            except (EOFError, ParseError):
                pass

    def _typed_in(self, received: str, parser: XTermParser) -> None:
        """Keys that move the playhead go to it straight away, all else through the parser and the messages of the widgets."""
        quick = cast("NotesApp", self._app).quick_keys
        if quick is not None and self._keys.free and not self._received.unfinished:
            keys = quick.read(received)
            if keys:
                self._keys.take()
                self._loop.call_soon_threadsafe(cast("NotesApp", self._app).quick, keys)
                return
        self._received.add(received)
        for event in parser.feed(received):
            self._pass_on(event)

    def _pass_on(self, event: Message) -> None:
        if isinstance(event, events.Key):
            self._one_key_at_a_time()
        self.process_message(event)

    def _one_key_at_a_time(self) -> None:
        """Return once the key before this one has done all it does: it may have opened what this one is typed into."""
        before, self._typed = self._typed, monotonic()
        if self._typed - before < _SURELY_DONE or not self._keys.free:
            end, done = self._typed + _LONGEST, asyncio.run_coroutine_threadsafe(self._done(), self._loop)
            while not self.exit_event.is_set() and monotonic() < end:  # an app that ends waits for this thread
                if wait([done], _PAUSE).done:
                    break
            self._typed = monotonic()
        self._keys.take()

    async def _done(self) -> None:
        """Every widget that a key passes has handled what it was sent, three times over: keys rise, actions mount, mounted things focus."""
        for _ in range(3):
            focused = self._app.focused
            on_the_way = [*(focused.ancestors_with_self if focused is not None else [self._app.screen, self._app])]
            waiting = []
            for node in on_the_way:
                event = asyncio.Event()
                if node.call_later(event.set):
                    waiting.append(event.wait())
            await asyncio.gather(*waiting)

    def _input_ended(self) -> None:
        if self.input_tty:
            self._loop.call_soon_threadsafe(partial(self._app.exit, return_code=129))
