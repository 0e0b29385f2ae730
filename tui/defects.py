"""What a defect leaves behind: one line for the person, and the whole story in the log."""

from __future__ import annotations

import time
import traceback

from tui import config


def told(what: str, error: BaseException) -> str:
    """``what`` and the error in one line; the traceback is appended to ``notes-tui.log`` in the state folder."""
    line = " ".join(f"{what} {type(error).__name__}: {error}".split())
    log = config.state_folder() / "notes-tui.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {''.join(traceback.format_exception(error))}\n")
    except OSError:
        return f"{line} (this is a defect)"
    return f"{line} (this is a defect; see {log})"
