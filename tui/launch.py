"""Opens the explorer on this terminal."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping

from core.errors import BadInput
from tui.exits import OK


def explore(
    target: str | None, variant: str | None = None, overrides: Mapping[str, str] | None = None, device: str | None = None, seed: int = 0
) -> int:  # fmt: skip
    """Run the explorer on this terminal. Everything that can be known to be wrong is said before the screen starts."""
    scenario = None
    if target is not None:
        from core.scenario import find

        scenario = find(target)
        scenario.raw_params(variant if variant is not None else scenario.variant_names[0])
    require_terminal()
    gc.disable()  # collecting between thousands of imports would cost a tenth of the time to the first frame
    os.environ.setdefault("TEXTUAL_FPS", "200")  # a key pressed just after a frame must not wait for the next sixtieth of a second
    from tui.app import NotesApp

    app = NotesApp(target, scenario=scenario, variant=variant, overrides=dict(overrides or {}), device=device, seed=seed)
    gc.freeze()
    gc.set_threshold(2_000, 20, 100)  # a full collection walks every recorded step: a key must not wait for one
    gc.enable()
    setattr(app, "_print_error_renderables", lambda: None)  # noqa: B010 - `_internal` says it in one line
    app.run()
    if app._exception is not None:
        raise app._exception
    return int(app.return_code or OK)


def require_terminal() -> None:
    """Raise BadInput unless keys, screen and messages all belong to a terminal that can move its cursor."""
    for stream, name in ((sys.__stdin__, "standard input"), (sys.__stdout__, "standard output"), (sys.__stderr__, "standard error")):
        if stream is None or not stream.isatty():
            raise BadInput(name, "not a terminal", "a terminal for the explorer, or `notes-tui run NAME` without one")
    term = os.environ.get("TERM", "")
    if term in ("dumb", "unknown"):
        raise BadInput("TERM", f"found {term!r}, which cannot draw a screen", "a terminal such as xterm-256color, or `notes-tui run NAME`")
