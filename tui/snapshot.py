"""A picture of the stage at one step, made without a terminal: SVG, or the plain text of the screen."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadInput
from core.scenario import Scenario

if TYPE_CHECKING:
    from tui.app import NotesApp


def picture(
    scenario: Scenario,
    step: int,
    size: tuple[int, int],
    kind: str,
    *,
    variant: str | None = None,
    overrides: Mapping[str, str] | None = None,
    device: str = "cpu",
    seed: int = 0,
) -> str:
    """The screen of ``size`` (columns, rows) at ``step`` (from 1) as ``kind`` (".svg" or ".txt").

    Neither the user's settings nor where a scenario was left play a part; colours are always true colours. Raises BadInput
    for a step that does not exist, and whatever the simulation raises.
    """
    os.environ.pop("NO_COLOR", None)
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    from tui.app import NotesApp
    from tui.config import read_config

    app = NotesApp(
        scenario=scenario, variant=variant, overrides=dict(overrides or {}), device=device, seed=seed, start_step=max(step - 1, 0),
        config=read_config(Path(os.devnull)),
    )  # fmt: skip
    setattr(app, "_print_error_renderables", lambda: None)  # noqa: B010 - what it dies of is raised below
    return asyncio.run(_draw(app, step, size, kind))


async def _draw(app: NotesApp, step: int, size: tuple[int, int], kind: str) -> str:
    async with app.run_test(size=size) as pilot:
        recorded = asyncio.ensure_future(app.wait_recorded())
        while not recorded.done() and app._exception is None:
            await asyncio.wait([recorded], timeout=0.1)
        if app._exception is not None:  # the app has died; what it died of comes out
            recorded.cancel()
            raise app._exception
        await pilot.pause()
        assert app.stage is not None, "a scenario opens on the stage"
        run = app.stage.front
        for box in (box for view in app.stage.views for box in view.boxes):
            if box.view.first_fault is not None:
                raise box.view.first_fault
        if run.error:
            _raise_again(run.scenario, run.variant, run.overrides, run.device, run.seed)
            raise RuntimeError(run.error)
        count = len(run.recording)
        if not 1 <= step <= count:
            raise BadInput("--step", f"found {step}", f"1 to {count:,}" if count else "nothing: this recording has no steps")
        from tui.picture import svg

        return svg(app) if kind == ".svg" else screen_text(app)


def _raise_again(scenario: Scenario, variant: str, overrides: Mapping[str, object], device: str, seed: int) -> None:
    """Run without the screen, so that what the worker caught comes out as itself."""
    from core.simulation import record

    record(scenario.simulation, scenario.parsed(variant, overrides), device, seed=seed)


def screen_text(app: NotesApp) -> str:
    """The lines of the screen in front, without colours, trailing blanks removed."""
    from rich.console import Console

    width, height = app.size
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True, legacy_windows=False)
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    lines = console.export_text(styles=False).splitlines()[:height]
    return "\n".join(line.rstrip() for line in lines) + "\n"
