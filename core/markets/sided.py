"""Texts that come in pairs, one for buy orders and one for sell orders, and which of them tells a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Text = tuple[str, str]
"""Title and detail, both templates."""


class SidedTexts:
    """``templates``: all of them in one list. ``sided`` are (buy, sell) texts by name, ``plain`` those that speak of no side."""

    def __init__(self, sided: Mapping[str, tuple[Text, Text]], plain: Mapping[str, Text]) -> None:
        self.templates: list[Text] = [text for pair in sided.values() for text in pair] + list(plain.values())
        self._sided = frozenset(sided)
        self._first = {name: 2 * at for at, name in enumerate(sided)} | {name: 2 * len(sided) + at for at, name in enumerate(plain)}

    def kinds(self, cases: Mapping[str, np.ndarray], sells: np.ndarray) -> np.ndarray:
        """(steps,) index into ``templates``: the first of ``cases`` that holds, on its side; one holds for every step.

        cases: names with (steps,) bools; sells: (steps,) bool, the sell text of a pair.
        """
        import numpy as np

        chosen = np.select(list(cases.values()), list(range(len(cases))))
        sided = np.array([name in self._sided for name in cases])
        codes: np.ndarray = np.array([self._first[name] for name in cases])[chosen] + (sided[chosen] & sells)
        return codes
