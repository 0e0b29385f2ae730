"""Cell writes with keyframes: the state of a grid, a ladder or a set of bars at any step, reached at once."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Held = TypeVar("Held")


class Cells(Generic[Key, Held]):
    """A log of ``(step, key, value)`` with a full copy every so many writes; ``value`` None removes the key.

    Steps never decrease. A copy follows as many writes as the state is large (at least 256), so memory stays
    proportional to the writes and `at` costs one copy and at most that many writes.
    """

    def __init__(self) -> None:
        self._steps = array("q")
        self._keys: list[Key] = []
        self._values: list[Held | None] = []
        self._state: dict[Key, Held] = {}
        self._frames: list[tuple[int, dict[Key, Held]]] = [(0, {})]

    def write(self, step: int, key: Key, value: Held | None) -> None:
        if self._steps and step < self._steps[-1]:
            raise ValueError(f"cell writes go forward: step {step} after {self._steps[-1]}")
        self._keys.append(key)
        self._values.append(value)
        _apply(self._state, key, value)
        self._steps.append(step)  # published last: readers count the steps
        written = len(self._steps)
        if written - self._frames[-1][0] >= max(256, len(self._state)):
            self._frames.append((written, dict(self._state)))

    def write_all(self, step: int, keys: Sequence[Key], values: Sequence[Held | None]) -> None:
        """`write` for many keys of one step, each at most once."""
        if self._steps and step < self._steps[-1]:
            raise ValueError(f"cell writes go forward: step {step} after {self._steps[-1]}")
        self._keys.extend(keys)
        self._values.extend(values)
        for key, value in zip(keys, values, strict=True):
            _apply(self._state, key, value)
        self._steps.extend([step] * len(keys))  # published last: readers count the steps
        written = len(self._steps)
        if written - self._frames[-1][0] >= max(256, len(self._state)):
            self._frames.append((written, dict(self._state)))

    def at(self, step: int) -> dict[Key, Held]:
        """A copy of the state once every write of steps <= ``step`` is done; keys in order of arrival."""
        end = bisect_right(self._steps, step)
        start, frame = self._frames[bisect_right(self._frames, end, key=lambda f: f[0]) - 1]
        state = dict(frame)
        for index in range(start, end):
            _apply(state, self._keys[index], self._values[index])
        return state

    def touched(self, step: int) -> list[Key]:
        """The keys written in exactly this step."""
        first = bisect_right(self._steps, step - 1)
        return self._keys[first : bisect_right(self._steps, step)]


def _apply(state: dict[Key, Held], key: Key, value: Held | None) -> None:
    if value is None:
        state.pop(key, None)
    else:
        state[key] = value
