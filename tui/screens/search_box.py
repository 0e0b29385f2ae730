"""The line in which the home list is narrowed while typing."""

from __future__ import annotations

from typing import Protocol, cast

from textual import events
from textual.widgets import Input


class Searched(Protocol):
    """What the box narrows."""

    def search(self, text: str) -> None: ...


class SearchBox(Input):
    """Enter keeps what was found and opens it when it is the only one; Esc shows everything again."""

    DEFAULT_CSS = """
    SearchBox { visibility: visible; border: none; height: 1; padding: 0 2; background: $surface; }
    SearchBox:focus { border: none; background: $surface; }
    """

    def __init__(self, text: str) -> None:
        super().__init__(text, placeholder="search titles and questions", select_on_focus=False, compact=True)
        self.cursor_blink = False

    def on_mount(self) -> None:
        self.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        cast(Searched, self.screen).search(event.value)

    async def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            cast(Searched, self.screen).search("")
            await self.remove()
        elif event.key in ("up", "down"):
            event.stop()
            await self.screen.run_action("select_previous" if event.key == "up" else "select_next")

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        await self.remove()
        await self.screen.run_action("open")
