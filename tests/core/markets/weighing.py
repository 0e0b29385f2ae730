"""How many bytes a recording takes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from core.recording import Recording
from core.simulation import record


def weighed(path: Path) -> tuple[Recording, int]:
    """The file as an order book's recording, and the bytes that it holds. What is made once counts the first time."""
    recording = Recording("order_book")
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    record("order_book", {"file": str(path)}, recording=recording)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return recording, after - before
