"""The two ways a run ends early: input that cannot be used, and a run nobody wants any more."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
    """One clause that names the closest of ``known`` (or lists them when nothing is close)."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return ", ".join(names) if names else "nothing is known here"
