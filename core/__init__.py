"""Simulations that record what really happened; nothing in here knows that a terminal exists.

The face is lazy: ``from core import record`` imports what it names and no more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.errors import BadInput as BadInput
    from core.errors import Cancelled as Cancelled
    from core.recording import Recording as Recording
    from core.scenario import Scenario as Scenario
    from core.simulation import record as record

_HOME = {
    "BadInput": "core.errors",
    "Cancelled": "core.errors",
    "Recording": "core.recording",
    "Scenario": "core.scenario",
    "record": "core.simulation",
}

__all__ = ["BadInput", "Cancelled", "Recording", "Scenario", "record"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'core' has no attribute {name!r}")
