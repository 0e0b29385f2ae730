"""The ``notes-tui`` program: its exit codes, and one line for everything that goes wrong.

Opening the explorer takes the short way past click, which a first frame does not need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from core.errors import BadInput
from tui.exits import BAD_INPUT, INTERNAL, INTERRUPTED
from tui.plain import accept_any_text, complain

COMMANDS = frozenset({"list", "run", "plan", "snapshot", "doctor", "open"})
"""Names that `tui.commands` takes; they win over scenarios and files of the same name."""


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


def main() -> NoReturn:
    """The ``notes-tui`` program."""
    accept_any_text()
    sys.exit(call(sys.argv[1:]))


if __name__ == "__main__":
    main()
