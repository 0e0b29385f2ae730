"""Keys that only move the playhead: they are answered at once, without a message that passes from widget to widget.

Such a key is pressed again and again, and the way through messages costs more than the step itself.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import NamedTuple

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import _character_to_key

from tui.keys import ACTIONS, Action

MOVES = (
    "back", "forward", "back_far", "forward_far", "previous_phase", "next_phase", "start", "end", *(f"tenth_{n}" for n in range(10)),
)  # fmt: skip
"""Actions of the stage that end with a painted step."""
_UNFINISHED = re.compile(r"\x1b(?:[\[O][0-9;?<>=]*)?\Z")
_PASTE = re.compile(r"\x1b\[20([01])~")
"""Begin and end of a paste."""
_ELSEWHERE = frozenset({"ctrl+q", "escape"})
"""Always quits; begins what other keys send."""


class QuickKey(NamedTuple):
    """One of these keys: what a terminal sends for it, its name, and the action."""

    sequence: str
    key: str
    action: str

    @property
    def event(self) -> events.Key:
        """The same key for the long way."""
        return events.Key(self.key, self.sequence if len(self.sequence) == 1 else None)


class QuickKeys:
    """Which of what a terminal sends are keys that move the playhead, as the user's keymap has them."""

    def __init__(self, keys: Mapping[str, tuple[str, ...]]) -> None:
        """``keys``: those of every action, by its id (`tui.keys.effective`)."""
        first: dict[str, Action] = {}  # of two actions with one key the first has it
        for action in ACTIONS:
            if action.scope == "stage":
                for key in keys.get(action.id, ()):
                    first.setdefault(key, action)
        wanted = {key: action.call for key, action in first.items() if action.id in MOVES and key not in _ELSEWHERE}
        sent = {letter: _character_to_key(letter) for letter in string.ascii_letters + string.digits + string.punctuation}
        for sequence, names in ANSI_SEQUENCES_KEYS.items():
            if isinstance(names, tuple) and len(names) == 1:
                sent[sequence] = names[0].value
        self._known = {text: QuickKey(text, key, wanted[key]) for text, key in sent.items() if key in wanted}
        self._each = re.compile("|".join(re.escape(text) for text in sorted(self._known, key=len, reverse=True)) or r"(?!)")

    def read(self, received: str) -> list[QuickKey]:
        """The keys in ``received`` (a key held down sends several at a time) if there is nothing else in it, else none."""
        single = self._known.get(received)
        if single is not None:
            return [single]
        texts = self._each.findall(received)
        return [self._known[text] for text in texts] if sum(map(len, texts)) == len(received) else []


class Received:
    """Whether what comes next belongs to what came before: to an escape sequence that is cut in two (or more), or to a paste."""

    def __init__(self) -> None:
        self.unfinished = False
        self._tail = ""
        self._pasting = False

    def add(self, received: str) -> None:
        text = self._tail + received
        for mark in _PASTE.finditer(text):
            self._pasting = mark[1] == "0"
        cut = _UNFINISHED.search(text)
        self._tail = cut[0] if cut else ""
        self.unfinished = self._pasting or cut is not None
