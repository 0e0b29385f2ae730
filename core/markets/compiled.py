"""Numba for the order-book kernels: no reference counts, no lock, and a cache that knows all of their sources.

Numba's own cache looks at the file of the compiled function alone, so a change in a file it calls into would go unseen. Here
the folder's name is a digest of every kernel file, in the user's cache folder, which can be written where the package cannot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from platformdirs import user_cache_path

KERNELS = (
    "reports", "machine", "hashed", "price_pages", "order_ids", "engine_codes", "engine_state", "engine_match", "engine_stops",
    "engine_auction", "engine_kernel", "engine_snapshot", "engine_window", "engine_reports", "event_queues", "event_kernel", "itch_kernel",
)  # fmt: skip


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Where the machine code of exactly these sources, this numba and this numpy is kept."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for name in KERNELS:
        path = Path(__file__).with_name(f"{name}.py")
        digest.update(path.read_bytes() if path.exists() else b"")
    return user_cache_path("notes-tui") / f"kernels-{digest.hexdigest()[:16]}"


def is_ready(kernel: str) -> bool:
    """Whether machine code of a kernel file (or of ``file.function``) is kept from an earlier run: compiling it takes seconds."""
    return any(cache_folder().glob(f"*/{kernel}[.-]*.nbi"))


def _compile(function: Callable[..., Any], inline: bool) -> Callable[..., Any]:
    options = {"nogil": True, "_nrt": False, "forceinline": inline}
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    try:
        numba.config.CACHE_DIR = str(cache_folder())  # type: ignore[attr-defined]
        made: Callable[..., Any] = numba.njit(cache=True, **options)(function)  # type: ignore[call-overload]
    except (RuntimeError, OSError):  # nowhere to keep it: compile it in every process
        made = numba.njit(**options)(function)  # type: ignore[call-overload]
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
    return made


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` compiled on its first call and cached. It may not allocate arrays: reference counts are off.

    (They cost more than the matching itself, for every call hands over several arrays.)
    """
    return _compile(function, inline=False)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `compiled`, and written out wherever it is called: handing over the state costs more than most moves on it."""
    return _compile(function, inline=True)
