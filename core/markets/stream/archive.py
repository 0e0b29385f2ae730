"""A stream of messages in a NumPy archive: the column format of the published matching benchmark, read and checked.

One entry per message in each column: type (0 new, 1 cancel, 2 modify), side (0 buy, 1 sell), ioc, quantity, order_id, price.
The row number is the message's number.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import BadInput
from core.files import archive_faults, refuse_special
from core.markets.matching.reports import FURTHEST, LARGEST

if TYPE_CHECKING:
    import numpy as np

COLUMNS = ("type", "side", "ioc", "quantity", "order_id", "price")
NEW, CANCEL, MODIFY = 0, 1, 2
MOST_MESSAGES = 20_000_000
_ALLOWED = f"a NumPy archive (.npz) with the columns {', '.join(COLUMNS)}"
_BOUNDS = {
    "type": (0, 2), "side": (0, 1), "ioc": (0, 1),
    "quantity": (0, LARGEST), "order_id": (-(1 << 62), 1 << 62), "price": (-FURTHEST, FURTHEST),
}  # fmt: skip


def looks_like_stream(path: Path | str) -> bool:
    """Whether ``path`` is an archive that holds the columns; their content is not looked at."""
    try:
        if not Path(path).is_file():  # a pipe would wait for ever
            return False
        with zipfile.ZipFile(path) as archive:
            return {f"{name}.npy" for name in COLUMNS} <= set(archive.namelist())
    except archive_faults():
        return False


def read_stream(path: Path | str) -> dict[str, np.ndarray]:
    """The columns of the archive at ``path``, each (messages,) of the file's own integer type. Raises BadInput."""
    where = str(path)
    refuse_special(Path(path), _ALLOWED)
    try:
        with zipfile.ZipFile(path) as archive:
            missing = [name for name in COLUMNS if f"{name}.npy" not in archive.namelist()]
            if missing:
                raise BadInput(where, f"found no column {missing[0]!r}", _ALLOWED)
            shapes = {name: _shape(archive, name, where) for name in COLUMNS}
            lengths = set(shapes.values())
            if len(lengths) > 1:
                sizes = " and ".join(f"{n:,}" for n in sorted(lengths))
                raise BadInput(where, f"found columns of {sizes} entries", "one entry per message in each")
            length = lengths.pop()
            if not 1 <= length <= MOST_MESSAGES:
                raise BadInput(where, f"found {length:,} messages", f"1 to {MOST_MESSAGES:,}")
            columns = {name: _column(archive, name) for name in COLUMNS}
    except FileNotFoundError:
        raise BadInput(where, "no such file", _ALLOWED) from None
    except archive_faults() as error:
        raise BadInput(where, f"it does not open ({str(error) or 'truncated'})", _ALLOWED) from None
    for name, column in columns.items():
        _check(name, column, where)
    return columns


def _shape(archive: zipfile.ZipFile, name: str, where: str) -> int:
    """The length of a column, from its header alone."""
    from numpy.lib import format as npy

    with archive.open(f"{name}.npy") as member:
        version = npy.read_magic(member)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(member)
    if len(shape) != 1 or dtype.kind not in "iub":
        raise BadInput(f"{where}: {name}", f"found {dtype} of shape {shape}", "whole numbers in one dimension")
    return int(shape[0])


def _column(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    from numpy.lib import format as npy

    with archive.open(f"{name}.npy") as member:
        column: np.ndarray = npy.read_array(member, allow_pickle=False)
    return column


def _check(name: str, column: np.ndarray, where: str) -> None:
    import numpy as np

    low, high = _BOUNDS[name]
    least, most = int(column.min()), int(column.max())
    if least >= low and most <= high:
        return
    at = int(np.flatnonzero((column < low) if least < low else (column > high))[0])
    raise BadInput(f"{where}: {name} of message {at}", f"found {int(column[at]):,}", f"from {low:,} to {high:,}")
