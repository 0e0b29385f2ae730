"""Help: what the focused panel is, and every key that works here, from the one registry."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.config import config_file
from tui.keys import ACTIONS, SCOPE_NAMES, Scope, shown
from tui.screens.lines import Rule, palette_of
from tui.widgets.fitting import wrap

VIEW_HELP: dict[str, str] = {
    "gantt": "Lanes over time. Each bar is one action: its letter says which kind, its length how long it takes. "
    "Up and down change the lane, left and right go from bar to bar. A collective opens hop by hop (the key stands below).",
    "heatmap": "Rows and columns of values; a stronger shade is a larger value. The arrows move over the cells.",
    "exchange": "Ranks side by side, what each of them holds, and the messages that travel in this step.",
    "ladder": "The order book by price: asks above, bids below, the best prices in the middle, quantities as bars. "
    "Up and down move over the prices.",
    "breakdown": "Stacked bars: each is the sum of its parts. A line marks a capacity. "
    "Up and down change the bar, left and right the part.",
    "plot": "Curves over an axis; the mark on the axis is this step. Left and right move along the curve.",
    "table": "Rows of values; those of this step are lit. Up and down move over the rows.",
    "listing": "Lines of text; those that run in this step are lit.",
}

ABOUT: dict[str, str] = {
    "stage": "A recording, step by step: everything was computed with real values before it is played. "
    "Find takes text, or tags as rank:2. Until takes a fact (peak_stash >= 3) or a tag (rank:2); put < before it, or press the "
    "backwards key, to run back. A fact counts where it begins to hold. In market data both also take a time (09:45 or "
    "@9:45:12.5), an order (#12345 or order 12345: its next event) and trades of a size (trade >= 500). Stepping shows each match; "
    "playing shows all matches of one taker as one.",
    "hops": "One collective of the stage behind, hop by hop, with the tensors that it moved: a finished recording. It has no "
    "parameters, no variants and no second run to compare with or to fork. Esc goes back to the step it was opened from.",
    "doctor": "What the doctor found in the data file. ✗ is wrong, ✓ was looked at and is sound, the rest tells what the file "
    "holds and what it cannot say. Nothing is repaired: the replay shows the file as it is.",
    "home": "Questions by family. Open one to step through what really happens.",
}

_WIDTH, _SHARE = 86, 96
"""Columns of the help, and how many percent of the terminal it takes at most."""
_INDENT = 20
"""Where what a key does begins, in its further lines too."""


class Help(ModalScreen[None]):
    """``kind`` is that of the focused view ('' for none); ``keys`` the keys in effect, but for the actions ``left_out``.

    ``problems`` are what could not be used in the settings.
    """

    DEFAULT_CSS = """
    Help { background: transparent; align: center middle; }
    Help > Vertical { max-height: 92%; background: $background; }
    Help VerticalScroll {
        height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; border-left: solid $quiet; border-right: solid $quiet;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,question_mark,f1,enter", "dismiss_help", "Close"),
        ("j", "down", "Down"),
        ("k", "up", "Up"),
    ]

    def __init__(
        self, scope: Scope, keys: dict[str, tuple[str, ...]], kind: str = "", title: str = "", *, about: str = "",
        left_out: Collection[str] = (), problems: Collection[str] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.problems = tuple(problems)
        self.scope = scope
        self.keys = keys
        self.kind = kind
        self.about = about or scope
        self.left_out = left_out
        self.title_text = title
        bottom = Rule("", "bottom")
        bottom.note = (("↑↓ scroll  Esc closes", "dim"),)
        self.bottom = bottom

    def compose(self) -> ComposeResult:
        text = self.text()
        box = Vertical()
        box.styles.width, box.styles.max_width = _WIDTH, f"{_SHARE}%"
        box.styles.height = sum(1 + len(line) // 80 for line in text.plain.splitlines()) + 2
        with box:
            yield Rule(f"Help · {self.title_text}" if self.title_text else "Help", "top")
            with VerticalScroll():
                yield Static(text)
            yield self.bottom

    def text(self) -> Text:
        palette = palette_of(self)
        room = max(min(_WIDTH, self.app.size.width * _SHARE // 100) - 5 - _INDENT, 12)
        out = Text()
        if self.kind in VIEW_HELP:
            out.append(VIEW_HELP[self.kind] + "\n\n")
        elif self.about in ABOUT:
            out.append(ABOUT[self.about] + "\n\n")
        scopes: list[Scope] = ["panel"] if self.kind else []
        for scope in [*scopes, self.scope, "app"]:
            out.append(SCOPE_NAMES[scope] + "\n", palette.style("dim"))
            for keys, line in rows(scope, self.keys, self.left_out):
                out.append(f"  {keys:<18}", palette.style("plain", bold=True))
                out.append(f"\n{'':{_INDENT}}".join(wrap(line, room)) + "\n")
            out.append("\n")
        out.append("Settings\n", palette.style("dim")).append(f"  {config_file()}\n")
        for problem in self.problems:
            out.append(f"  {problem}\n", palette.style("bad"))
        out.rstrip()
        return out

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_dismiss_help(self) -> None:
        self.dismiss()

    def action_down(self) -> None:
        self.query_one(VerticalScroll).scroll_down(animate=False)

    def action_up(self) -> None:
        self.query_one(VerticalScroll).scroll_up(animate=False)


def rows(scope: Scope, keys: dict[str, tuple[str, ...]], left_out: Collection[str] = ()) -> list[tuple[str, str]]:
    """(keys, what they do) of one scope; the ten digits stand in one row while they keep their keys."""
    found: list[tuple[str, str]] = []
    digits = all(keys[f"tenth_{n}"] == (str(n),) for n in range(10))
    for action in ACTIONS:
        if action.scope != scope or action.id in left_out:
            continue
        if action.id.startswith("tenth_") and digits:
            if action.id == "tenth_0":
                found.append(("0-9", "Go to 0 % … 90 % of the steps"))
            continue
        found.append((" ".join(shown(key) for key in keys[action.id]) or "–", action.help))
    return found
