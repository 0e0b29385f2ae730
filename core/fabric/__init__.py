"""Ranks that hold real tensors and talk: the face every parallel algorithm is written against.

The face is lazy: importing the package loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.fabric.base import Fabric as Fabric
    from core.fabric.base import Traffic as Traffic
    from core.fabric.base import Work as Work
    from core.fabric.simulated import SimulatedFabric as SimulatedFabric

_HOME = {
    "Fabric": "core.fabric.base",
    "SimulatedFabric": "core.fabric.simulated",
    "Traffic": "core.fabric.base",
    "Work": "core.fabric.base",
}

__all__ = ["Fabric", "SimulatedFabric", "Traffic", "Work"]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'core.fabric' has no attribute {name!r}")
