"""What all screens share: the keys of everywhere, a message line in the footer, and the plain word when the terminal is too small."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.strip import Strip
from textual.widget import Widget

from tui.keys import ACTIONS, Scope, shown
from tui.rows_screen import RowsScreen
from tui.screens.lines import Line, Part
from tui.widgets.fitting import clip

if TYPE_CHECKING:
    from tui.app import NotesApp

SMALLEST = (60, 20)
"""Columns and rows below which a plain message stands instead of the screen."""


class TooSmall(Widget):
    """Says how large the terminal has to be, in rows short enough for any."""

    DEFAULT_CSS = "TooSmall { width: 1fr; height: 1fr; display: none; }"

    def render_line(self, y: int) -> Strip:
        width, height = self.screen.size
        rows = (f" {width}x{height} is too small", f" at least {SMALLEST[0]}x{SMALLEST[1]}")
        text = clip(rows[y], self.size.width) if y < len(rows) else ""
        return Strip([Segment(text, self.rich_style)]).adjust_cell_length(self.size.width, self.rich_style)


class Body(Widget):
    """Everything of a screen but the message that it is too small."""

    DEFAULT_CSS = "Body { width: 1fr; height: 1fr; layout: vertical; }"


class BaseScreen(RowsScreen):
    """A full screen with a header, a footer with its main keys, and a one-line message in the footer's place."""

    AUTO_FOCUS = ""
    SCOPE: Scope = "app"
    ABOUT: str = ""
    """Which paragraph of the help tells what this screen is."""
    LEFT_OUT: frozenset[str] = frozenset()
    """Actions of the scope that do not work here: neither the footer nor the help offers them."""
    # Containers are hidden and what they hold is visible: the compositor asks every visible widget for its lines at each frame.
    DEFAULT_CSS = """
    BaseScreen { background: $background; }
    BaseScreen Body { visibility: hidden; }
    BaseScreen.-small Body { display: none; }
    BaseScreen.-small TooSmall { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.header = Line(id="header")
        self.footer = Line(id="footer")
        self._message: tuple[str, str] = ("", "plain")

    @property
    def notes(self) -> NotesApp:
        return cast("NotesApp", self.app)

    def body(self) -> ComposeResult:
        """The widgets between header and footer."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Body():
            yield self.header
            yield from self.body()
            yield self.footer
        yield TooSmall()

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self.forget())

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        small = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(small, "-small")
        if small:
            self.query_one(TooSmall).refresh()
        self.resized(width, height)

    def resized(self, width: int, height: int) -> None:
        """The screen has this size now."""
        self.show_footer()

    # the footer ----------------------------------------------------------------------------------------------------

    def say(self, text: str, role: str = "plain") -> None:
        """A one-line message in the footer until the next action; '' gives the keys back."""
        self._message = (text, role)
        self.show_footer()

    @property
    def message(self) -> str:
        return self._message[0]

    def hint(self) -> Sequence[Part]:
        """What stands in the footer instead of the keys when there is no message (an explanation); empty for the keys."""
        return ()

    def show_footer(self) -> None:
        text, role = self._message
        if text:
            self.footer.set([(" " + text, role)])
        else:
            self.footer.set(self.hint() or self.key_hint())

    def key_hint(self) -> list[Part]:
        """The main keys that work here."""
        return key_parts(self.notes.keys, self.SCOPE, self.size.width, self.LEFT_OUT)

    def action_leave(self) -> None:
        """Back: what it means here."""
        raise NotImplementedError

    def forget(self) -> None:
        """Colours may have changed: paint everything again."""
        for line in self.query(Line):
            line.forget()


def key_parts(keys: dict[str, tuple[str, ...]], scope: Scope, width: int, left_out: Collection[str] = ()) -> list[Part]:
    """The main keys of ``scope`` but for ``left_out``, as many as fit, the least important dropped, help kept."""
    groups: dict[int, list[tuple[str, str]]] = {}
    for action in ACTIONS:
        if action.footer and action.scope in (scope, "app") and action.id not in left_out and keys.get(action.id):
            groups.setdefault(action.footer, []).append((shown(keys[action.id][0]), action.name))
    labels = {order: ("".join(key for key, _ in pair), pair[-1][1]) for order, pair in groups.items()}
    room = width - 1
    kept = []
    for order in sorted(labels, key=lambda order: (order != 90, order)):
        key, name = labels[order]
        need = cell_len(key) + cell_len(name) + 3
        if need <= room + 2:
            kept.append(order)
            room -= need
    parts: list[Part] = [(" ", "plain")]
    for order in sorted(kept):
        key, name = labels[order]
        parts += [(key, "key"), (f" {name}  ", "dim")]
    if sum(cell_len(text) for text, _ in parts) > width:  # the last one fits without the blanks behind it
        parts[-1] = (parts[-1][0].rstrip(), "dim")
    return parts
