"""Home: the questions by family, what the selected one asks, and search. Only what is in sight is read before the first frame."""

from __future__ import annotations

import re
from asyncio import sleep
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.widget import Widget

from core.errors import BadInput
from core.scenario import Scenario, bare, names, read
from core.simulation import FAMILIES, REGISTRY, families
from tui.keys import bindings
from tui.screens.base import BaseScreen
from tui.screens.choice_list import ChoiceList
from tui.screens.lines import Part, Rule

if TYPE_CHECKING:
    from tui.screens.question import Question

NARROW = 100
"""Columns below which the question stands under the list."""
_TITLE = re.compile(rb'^title\s*=\s*"([^"\\]*)"\s*(?:#.*)?$', re.MULTILINE)
_ORDER = re.compile(rb"^order\s*=\s*(-?\d+)", re.MULTILINE)


class Entry(msgspec.Struct):
    """One row: a scenario file (read in full when needed), or a bare simulation when ``path`` is empty."""

    name: str
    path: str = ""
    head: bytes = b""
    scenario: Scenario | None = None
    error: str = ""

    @property
    def family(self) -> str:
        return self.name.partition("/")[0] if self.path else families().get(self.name, "systems")

    @property
    def order(self) -> int:
        found = _ORDER.search(self.head)
        return int(found.group(1)) if found else 1000

    def load(self) -> Scenario | None:
        """The scenario, read once; None (and `error`) when its file is broken."""
        if self.scenario is None and not self.error:
            try:
                self.scenario = read(Path(self.path), self.name) if self.path else bare(self.name)
            except BadInput as error:
                self.error = str(error)
        return self.scenario

    @property
    def title(self) -> str:
        """The title, without reading the whole file where it is written plainly."""
        if self.scenario is None and not self.error and self.path:
            found = _TITLE.search(self.head)
            if found:
                return found.group(1).decode("utf-8", "replace")
        scenario = self.load()
        return (scenario.title if scenario is not None else "") or self.name


def entries(places: dict[str, Path]) -> list[Entry]:
    """One entry a scenario file, family by family in the order of their story."""
    made = []
    for name, path in places.items():
        try:
            head = path.read_bytes()
        except OSError:
            head = b""
        made.append(Entry(name, str(path), head))
    ranks = {family: k for k, family in enumerate(FAMILIES)}
    return sorted(made, key=lambda entry: (ranks.get(entry.name.partition("/")[0], len(ranks)), entry.order, entry.name))


class HomeScreen(BaseScreen):
    """The list of scenarios and the question of the selected one."""

    SCOPE = "home"
    BINDINGS = bindings("home")
    DEFAULT_CSS = """
    HomeScreen #home { width: 1fr; height: 1fr; layout: horizontal; }
    HomeScreen.-narrow #home { layout: vertical; }
    HomeScreen #list-box { width: 1fr; height: 1fr; layout: vertical; }
    HomeScreen ChoiceList { border-left: solid $quiet; border-right: solid $quiet; }
    """

    def __init__(self, message: tuple[str, str] = ("", "plain")) -> None:
        super().__init__()
        self.header.left = ((" notes-tui", "strong"), ("  how training systems and markets really work, step by step", "dim"))
        self.entries: list[Entry] = entries(names())
        self.query_text = ""
        self.list = ChoiceList(self._describe, id="scenarios")
        self.list_rule = Rule("Scenarios", "top")
        self._message = message
        self._question: Question | None = None

    def body(self) -> ComposeResult:
        self._fill()
        with Widget(id="home"), Widget(id="list-box"):
            yield self.list_rule
            yield self.list
            yield Rule("", "bottom")

    def on_mount(self) -> None:
        self.call_after_refresh(self._after_first_frame)

    async def _after_first_frame(self) -> None:
        """What the first frame did not need: the question beside the list, every file read in full, and bare simulations."""
        from tui.screens.question import Question

        self._question = Question("Question")
        await self.query_one("#home").mount(self._question)
        self._show_details()
        used = set()
        for entry in self.entries:
            scenario = entry.load()
            if scenario is not None:
                used.add(scenario.simulation)
            await sleep(0)  # keys come first
        loose = [name for name in families() if name not in used and (name not in REGISTRY or _exists(name))]
        self.entries += [Entry(name) for name in loose]
        self._fill(self.selected)

    # rows ----------------------------------------------------------------------------------------------------------

    def _fill(self, chosen: Entry | None = None) -> None:
        words = self.query_text.lower().split()
        lines: list[tuple[str, int]] = []
        selected = -1
        by_family: dict[str, list[int]] = {}
        for row, entry in enumerate(self.entries):
            if not words or all(word in _haystack(entry) for word in words):
                by_family.setdefault(entry.family, []).append(row)
                if entry is chosen:
                    selected = row
        for family in sorted(by_family, key=lambda f: list(FAMILIES).index(f) if f in FAMILIES else len(FAMILIES)):
            lines.append((FAMILIES.get(family, family), -1))
            lines += [("", row) for row in by_family[family]]
        self.list.empty = f"nothing has {self.query_text!r} in it" if words else "no scenarios are installed"
        self.list.set_rows(lines, selected)
        count = sum(len(rows) for rows in by_family.values())
        note: list[Part] = (
            [(f"/{self.query_text}", "selected"), (f" {count} of {len(self.entries)}", "dim")] if words else [(f"{count}", "dim")]
        )
        self.list_rule.show(note=note)

    def _describe(self, row: int) -> Sequence[Part]:
        entry = self.entries[row]
        title = entry.title
        if entry.error:
            return [("✗ ", "bad"), (entry.name, "plain"), ("  broken file", "bad")]
        if not entry.path:
            return [(title, "plain"), ("  with its default parameters", "dim")]
        return [(title, "plain")]

    @property
    def selected(self) -> Entry | None:
        at = self.list.selected
        return self.entries[at] if 0 <= at < len(self.entries) and self.list.lines else None

    def on_choice_list_selected(self) -> None:
        self.say("")
        self._show_details()

    def on_choice_list_opened(self) -> None:
        self.action_open()

    def _show_details(self) -> None:
        if self._question is not None:
            self._question.show(self.selected, narrow=self.has_class("-narrow"))

    def resized(self, width: int, height: int) -> None:
        self.set_class(width < NARROW, "-narrow")
        super().resized(width, height)
        self._show_details()

    def forget(self) -> None:
        super().forget()
        self.list.forget()
        self._show_details()

    # actions -------------------------------------------------------------------------------------------------------

    def action_select_previous(self) -> None:
        self.list.move(-1)

    def action_select_next(self) -> None:
        self.list.move(1)

    def action_page_up(self) -> None:
        self.list.page(-1)

    def action_page_down(self) -> None:
        self.list.page(1)

    def action_select_first(self) -> None:
        self.list.move(-len(self.entries))

    def action_select_last(self) -> None:
        self.list.move(len(self.entries))

    def action_open(self) -> None:
        entry = self.selected
        if entry is None:
            return
        scenario = entry.load()
        if scenario is None:
            self.say(entry.error, "bad")
        else:
            self.notes.open_stage(scenario)

    def action_search(self) -> None:
        """Typing narrows the list at once; Enter keeps it, Esc drops it."""
        from tui.screens.search_box import SearchBox

        if not self.query(SearchBox):
            self.query_one("#list-box").mount(SearchBox(self.query_text), before=self.list)

    def search(self, text: str) -> None:
        chosen = self.selected
        self.query_text = text
        self._fill(chosen)
        self._show_details()

    def action_leave(self) -> None:
        if self.query_text:
            self.search("")
        elif self.message:
            self.say("")
        else:
            self.notes.action_help_quit()

    def action_open_file(self) -> None:
        from tui.screens.prompt import Prompt

        def accept(text: str) -> None:
            from core.scenario import find

            scenario = find(str(Path(text.strip()).expanduser()))
            self.app.call_later(self.notes.open_stage, scenario)  # once the prompt is gone

        self.app.push_screen(Prompt("Open", "a scenario file, an order book, a model's config.json, router logits", accept))

    def on_key(self, event: events.Key) -> None:
        if event.key in ("pageup", "pagedown"):
            self.say("")


def _haystack(entry: Entry) -> str:
    scenario = entry.load()
    if scenario is None:
        return entry.name.lower()
    return " ".join([scenario.name, scenario.title, scenario.question, *scenario.variants, scenario.simulation]).lower()


def _exists(simulation: str) -> bool:
    """Whether the module of a built-in simulation is there, without importing it."""
    from importlib.util import find_spec

    try:
        return find_spec(REGISTRY[simulation][1].partition(":")[0]) is not None
    except (ModuleNotFoundError, ValueError):  # no such package, or a module made without a file
        return False
