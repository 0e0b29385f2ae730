"""A growing column of decimal numbers, kept as whole numbers of 10^-places: half the memory of floats, and no digit lost."""

from __future__ import annotations

import numpy as np

MOST_PLACES = 10
_SMALL = 1 << 31


class Decimals:
    """As many places as its values need; floats as they are where ten do not tell every value exactly."""

    def __init__(self) -> None:
        self._kept: tuple[np.ndarray, int | None] = np.zeros(0, dtype=np.int32), 0  # replaced as one: readers may look any time
        self.length = 0

    @property
    def nbytes(self) -> int:
        return self._kept[0].nbytes

    @property
    def places(self) -> int | None:
        return self._kept[1]

    def __len__(self) -> int:
        return self.length

    def extend(self, values: np.ndarray) -> None:
        """Append a block of floats."""
        if not len(values):
            return
        whole, places = self._whole(values)
        if places == self.places:
            self._put(self._kept[0], values if whole is None else whole, self.length, places)
        else:
            old = self.values(0, self.length)
            both = np.concatenate([old, values])
            self._put(np.zeros(0, dtype=np.int32), both if places is None else np.rint(both * 10.0**places), 0, places)
        self.length += len(values)  # published last

    def values(self, first: int, end: int) -> np.ndarray:
        """(end - first,) floats, each the nearest to its decimal number: what reading its text gives."""
        kept, places = self._kept
        floats: np.ndarray = kept[first:end].astype(np.float64) if places is None else kept[first:end] / 10.0**places
        return floats

    def _whole(self, values: np.ndarray) -> tuple[np.ndarray | None, int | None]:
        """``values`` as whole numbers of the fewest places, not fewer than so far; (None, None) where none are exact."""
        if self.places is not None:
            for places in range(self.places, MOST_PLACES + 1):
                with np.errstate(over="ignore"):
                    whole = np.rint(values * 10.0**places)
                if bool((np.abs(whole) < 2**53).all()) and bool((whole / 10.0**places == values).all()):
                    return whole, places
        return None, None

    def _put(self, kept: np.ndarray, block: np.ndarray, at: int, places: int | None) -> None:
        """``block`` at place ``at`` of an array that is long and wide enough."""
        end, small = at + len(block), bool(np.abs(block).max() < _SMALL)
        kind = np.dtype(np.float64) if places is None else np.dtype(np.int32) if small and kept.dtype == np.int32 else np.dtype(np.int64)
        if kind != kept.dtype or end > len(kept):
            grown = np.empty(max(end, len(kept) * 5 // 4), dtype=kind)
            grown[:at] = kept[:at]
            kept = grown
        kept[at:end] = block
        self._kept = kept, places
