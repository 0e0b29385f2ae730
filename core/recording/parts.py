"""What a recording is made of besides its columns and facts: templates of steps, phases, panels, and words for find and run-until."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from core.views import View


class Template(msgspec.Struct, frozen=True):
    """What a kind of step says: a title and a detail with ``{name}`` or ``{name:unit}`` fields, and the value names it carries."""

    title: str
    detail: str
    names: tuple[str, ...]


class Phase(msgspec.Struct, frozen=True):
    """The steps from ``first`` up to the next phase, by a name."""

    first: int
    name: str


class Word(msgspec.Struct, frozen=True):
    """What find and run-until call by one word, over several tags: ``order 12345``, ``trade >= 500``.

    A step counts when one of ``tags`` holds the number and, where ``kind`` names a text tag, that is one of ``kinds``.
    ``identity``: the number is a name (an order's), which is found but not compared.
    """

    tags: tuple[str, ...]
    kind: str = ""
    kinds: tuple[str, ...] = ()
    identity: bool = False


class Panel(msgspec.Struct, frozen=True):
    """A titled view on the stage. ``weight`` is its share of the height; ``beside`` puts it right of the panel before."""

    title: str
    view: View
    weight: float = 1.0
    beside: bool = False
