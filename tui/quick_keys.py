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

from tui.keys import BY_ID

MOVES = (
    "back", "forward", "back_far", "forward_far", "previous_phase", "next_phase", "start", "end", *(f"tenth_{n}" for n in range(10)),
)  # fmt: skip
"""Actions of the stage that end with a painted step."""
_UNFINISHED = re.compile(r"\x1b(?:[\[O][0-9;?<>=]*)?\Z")


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
        wanted = {key: BY_ID[action].call for action in MOVES for key in keys.get(action, ())}
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


def cut_short(received: str) -> bool:
    """Whether ``received`` ends within an escape sequence: what comes next belongs to it."""
    return _UNFINISHED.search(received) is not None
