"""What every view shares: roles, axes, and the step being written."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec

from core.formatting import FORMATTER

ROLES = (
    "plain", "forward", "backward", "weight", "comm", "idle",  # schedules
    "bid", "ask", "own", "trade",  # books
    "parameter", "gradient", "optimizer", "activation", "buffer",  # memory
    "selected", "kept", "dropped", "padding", "good", "bad", "dim",  # choices and verdicts
    "group0", "group1", "group2", "group3", "group4", "group5", "group6", "group7",  # things told apart (experts, ranks)
)  # fmt: skip
ROLE_CODE = {role: code for code, role in enumerate(ROLES)}


class Axis(msgspec.Struct, frozen=True):
    """Labels of lanes, rows, columns or bars: a template over the index ``i``, or names given one by one."""

    template: str = "{i}"
    size: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, *names: str) -> Axis:
        return cls(size=len(names), names=names)

    def label(self, i: int) -> str:
        return self.names[i] if self.names else FORMATTER.fill(self.template, {"i": i})

    def __len__(self) -> int:
        return len(self.names) or self.size


class View:
    """Base of all views. ``now`` is bound by `Recorder.panel`: the index of the step being written."""

    kind: ClassVar[str] = ""

    def __init__(self) -> None:
        self.now: Callable[[], int] = _no_step

    def at(self, step: int) -> object:
        raise NotImplementedError

    def _step(self, step: int | None) -> int:
        return self.now() if step is None else step


def _no_step() -> int:
    return 0
