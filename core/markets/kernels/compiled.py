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
    "matching/reports", "kernels/machine", "kernels/hashed", "kernels/price_pages", "kernels/order_ids",
    "engine/codes", "engine/state", "engine/match", "engine/stops", "engine/auction", "engine/kernel", "engine/snapshot", "engine/window",
    "engine/reports", "events/queues", "events/kernel", "readers/itch_kernel",
)  # fmt: skip
"""Every file of compiled functions and of the constants they read, from the folder of `core.markets`."""


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Where the machine code of exactly these sources, this numba and this numpy is kept."""
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__}".encode())
    for name in KERNELS:
        path = Path(__file__).parents[1] / f"{name}.py"
        digest.update(path.read_bytes() if path.exists() else b"")
    return user_cache_path("notes-tui") / f"kernels-{digest.hexdigest()[:16]}"


def is_ready(kernel: str) -> bool:
    """Whether machine code of ``folder/file.function`` is kept from an earlier run: compiling it takes seconds."""
    folder, _, function = kernel.partition("/")
    return any(cache_folder().glob(f"{folder}_*/{function}-*.nbi"))


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
