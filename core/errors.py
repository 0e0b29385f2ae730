"""The two ways a run ends early: input that cannot be used, and a run nobody wants any more."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MANY = 16
"""Names that still make one line."""
_LONGEST = 200
"""Characters of a name that are compared: the comparison takes time by their square."""


class BadInput(Exception):
    """Input that cannot be used, said in one line: where it stands, what was found, what is allowed.

    ``where`` names the file, line, byte, key or parameter. It is the only way to exit code 2.
    """

    def __init__(self, where: str, found: str, allowed: str) -> None:
        super().__init__(where, found, allowed)
        self.where = where
        self.found = found
        self.allowed = allowed

    def __str__(self) -> str:
        allowed = self.allowed if self.allowed.endswith("?") else f"allowed: {self.allowed}"
        line = f"{self.where}: {self.found}; {allowed}"
        return " ".join(line.split())


class Cancelled(Exception):
    """The run was abandoned; raised by `Recorder.step`, `Recorder.steps` and `Recorder.progress`."""


def nearest(word: str, known: Iterable[str]) -> str:
    """One clause that names the closest of ``known`` whatever its case (or lists them when nothing is close)."""
    names = sorted(known)
    spelled = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word[:_LONGEST].lower(), spelled, n=1, cutoff=0.5)
    if close:
        return f"did you mean {spelled[close[0]]!r}?"
    if len(names) > _MANY:
        return ", ".join(names[:_MANY]) + f" or another of {len(names)}"
    return ", ".join(names) if names else "nothing is known here"
