"""The screen as an SVG that every viewer sets alike."""

from __future__ import annotations

from typing import Any

from textual.app import App


def svg(app: App[Any], title: str | None = None) -> str:
    """An SVG of the screen in front. Runs of blanks are kept: without the attribute some viewers fold them into one."""
    return app.export_screenshot(title=title).replace("<text ", '<text xml:space="preserve" ')
