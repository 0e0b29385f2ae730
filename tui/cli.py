"""The ``notes-tui`` program: its exit codes, and one line for everything that goes wrong.

Opening the explorer takes the short way past click, which a first frame does not need.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from core.errors import BadInput
from tui.exits import BAD_INPUT, INTERNAL, INTERRUPTED
from tui.plain import accept_any_text, complain

COMMANDS = frozenset({"list", "run", "plan", "snapshot", "doctor", "open"})
"""Names that `tui.commands` takes; they win over scenarios and files of the same name."""
_PATIENCE = 2.0
"""Seconds that code which swallows an interruption may go on."""
_interrupted = threading.Event()


def call(args: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        if not args or (len(args) == 1 and not args[0].startswith("-") and args[0] not in COMMANDS):
            from tui.launch import explore

            return explore(args[0] if args else None)
        from tui.commands import dispatch

        return dispatch(args)
    except BadInput as error:
        complain(str(error))
        _debug(error)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _internal(error)


def _debug(error: BaseException) -> bool:
    """Print the traceback when NOTES_TUI_DEBUG asks for it."""
    if not os.environ.get("NOTES_TUI_DEBUG"):
        return False
    import traceback

    traceback.print_exception(error)
    return True


def _internal(error: BaseException) -> int:
    """One line on standard error; the traceback goes to a file, or below the line when NOTES_TUI_DEBUG is set."""
    import tempfile
    import traceback

    line = f"internal error: {type(error).__name__}: {str(error)[:300]}"
    if _debug(error):
        complain(line)
        return INTERNAL
    try:
        with tempfile.NamedTemporaryFile("w", prefix="notes-tui-", suffix=".log", delete=False, encoding="utf-8") as file:
            traceback.print_exception(error, file=file)
        complain(f"{line} (traceback in {file.name})")
    except OSError:
        complain(f"{line} (NOTES_TUI_DEBUG=1 shows the traceback)")
    return INTERNAL


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C ends the program, also where a library catches everything while it is imported."""
    _interrupted.set()
    last_resort = threading.Timer(_PATIENCE, os._exit, (INTERRUPTED,))
    last_resort.daemon = True
    last_resort.start()
    raise KeyboardInterrupt


def main() -> NoReturn:
    """The ``notes-tui`` program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it ignored: nohup, a background job
        signal.signal(signal.SIGINT, _interrupt)
    accept_any_text()
    code = call(sys.argv[1:])
    sys.exit(INTERRUPTED if _interrupted.is_set() else code)


if __name__ == "__main__":
    main()
