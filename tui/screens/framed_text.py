"""Text between two rules, beside a list or, on a narrow screen, under it."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from tui.screens.lines import Rule


class FramedText(Vertical):
    """``text`` under a ``title``; a subclass says how wide, and with the class ``-narrow`` how high it is."""

    DEFAULT_CSS = """
    FramedText { height: 1fr; }
    FramedText Static { border-left: solid $quiet; border-right: solid $quiet; padding: 1 1; height: 1fr; visibility: visible; }
    FramedText.-narrow { width: 1fr; }
    FramedText.-narrow Static { padding: 0 1; }
    """

    def __init__(self, title: str) -> None:
        super().__init__()
        self.rule = Rule(title, "top")
        self.text = Static()

    def compose(self) -> ComposeResult:
        yield self.rule
        yield self.text
        yield Rule("", "bottom")
