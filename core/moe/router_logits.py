"""A user's own router logits: `.npy`, `.safetensors` and `.pt` files, checked before anything is computed, never unpickled.

One layer is (tokens, experts); several are (layer, tokens, experts) or (step, layer, tokens, experts).
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from core.errors import BadInput, nearest
from core.files import archive_faults, refuse_special

if TYPE_CHECKING:
    import numpy as np
    import torch

MAX_TOKENS = 65_536
MAX_EXPERTS = 1_024
MAX_LAYERS = 512
MAX_STEPS = 4_096
MAX_NUMBERS = 100_000_000
SHAPES = "router logits of shape (tokens, experts), (layer, tokens, experts) or (step, layer, tokens, experts)"
FLOATS = "floating-point router logits (float16, bfloat16, float32 or float64)"
SUFFIXES = (".npy", ".safetensors", ".pt", ".pth")

_AXES = ("step", "layer", "row", "expert")
_NPY_MAGIC = b"\x93NUMPY"
_NPY_FLOAT = re.compile(r"[<>=|]?f[248]")
_SAFETENSORS_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_HEADER_LIMIT = 100_000_000
_NPY_HEADER_LIMIT = 10_000


class RouterLogits(NamedTuple):
    """values: (steps, layers, tokens, experts), float32 or float64, all finite; ``source`` names the file (and tensor)."""

    values: np.ndarray
    source: str

    @property
    def steps(self) -> int:
        return int(self.values.shape[0])

    @property
    def layers(self) -> int:
        return int(self.values.shape[1])


def read_router_logits(path: str | Path, tensor: str = "") -> RouterLogits:
    """Read and check a whole file. ``tensor`` names one where a file holds several.

    Raises BadInput, naming file and position, for a missing, empty, truncated or foreign file, a wrong type or shape,
    NaN or infinite values, ragged data, and a `.pt` that is anything but plain tensors.
    """
    path = Path(path)
    where = str(path)
    if path.suffix.lower() not in SUFFIXES:
        ending = f"the name ends in {path.suffix!r}" if path.suffix else "the name has no ending"
        raise BadInput(where, ending, "a file of router logits: " + ", ".join(SUFFIXES))
    refuse_special(path, SHAPES)
    try:
        if path.is_dir():
            raise BadInput(where, "it is a folder", "a file of router logits: " + ", ".join(SUFFIXES))
        size = path.stat().st_size
        if not size:
            raise BadInput(where, "the file is empty", SHAPES)
        with path.open("rb"):
            pass
        reader = {".npy": _read_npy, ".safetensors": _read_safetensors}.get(path.suffix.lower(), _read_pt)
        values, source = reader(path, size, tensor)
    except OSError as error:
        raise BadInput(where, error.strerror or str(error), "a readable file of router logits") from None
    return RouterLogits(_finite(_four_axes(values, source), source, values.ndim), source)


def looks_like_logits(path: str | Path) -> bool:
    """Whether a file is probably router logits, by its name's end and the shape in its header; imports neither numpy nor torch.

    A `.pt` tells nothing without being loaded: any that is a torch archive passes here and is judged by the reader.
    """
    path = Path(path)
    faults: tuple[type[Exception], ...] = (BadInput, *archive_faults())
    try:
        size = path.stat().st_size
        if path.suffix.lower() == ".npy":
            found = _npy_header(path, size)
            return isinstance(found.descr, str) and bool(_NPY_FLOAT.fullmatch(found.descr)) and _plausible(found.shape)
        if path.suffix.lower() == ".safetensors":
            tensors, _ = _safetensors_header(path, size)
            fitting = [n for n, t in tensors.items() if t.dtype in _SAFETENSORS_BYTES and _plausible(t.shape)]
            return bool(fitting) and (len(tensors) == 1 or any("logits" in name for name in fitting))
        if path.suffix.lower() in (".pt", ".pth"):
            with path.open("rb") as file:
                return file.read(4) == b"PK\x03\x04" and any(n.endswith("data.pkl") for n in zipfile.ZipFile(path).namelist())
    except faults:
        return False
    return False


def _plausible(shape: tuple[int, ...]) -> bool:
    return 2 <= len(shape) <= 4 and all(shape) and 2 <= shape[-1] <= MAX_EXPERTS and shape[-2] <= MAX_TOKENS


def _size(number: object) -> int:
    """A size or an offset of a header; ValueError for what is none, such as true, 1.5 or -1."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError
    return number


# .npy ------------------------------------------------------------------------------------------------------------------


class _Array(NamedTuple):
    descr: object
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    start: int


def _npy_header(path: Path, size: int) -> _Array:
    """What a NumPy file of format 1.0 to 3.0 says about itself, read without numpy; ``start`` is the first byte of the values."""
    where = str(path)
    with path.open("rb") as file:
        head = file.read(12)
        if not head.startswith(_NPY_MAGIC) or len(head) < 12:
            raise BadInput(f"{where}: byte 0", f"found {head[:6]!r}", "a NumPy file, which begins with b'\\x93NUMPY'")
        width = 2 if head[6] == 1 else 4
        length = int.from_bytes(head[8 : 8 + width], "little")
        start = 8 + width + length
        if start > size:
            raise BadInput(f"{where}: byte {size}", "the file ends within its header", f"a header up to byte {start}")
        if length > _NPY_HEADER_LIMIT:
            raise BadInput(f"{where}: byte 8", f"a header of {length:,} bytes", f"at most {_NPY_HEADER_LIMIT:,} bytes")
        file.seek(8 + width)
        text = file.read(length)
    try:
        with warnings.catch_warnings():  # of Python's parser, about what is no header anyway
            warnings.simplefilter("ignore")
            header = ast.literal_eval(text.decode("utf-8" if head[6] >= 3 else "latin-1").strip())
        descr, shape, fortran = header["descr"], header["shape"], header["fortran_order"]
        if not isinstance(shape, tuple) or not isinstance(fortran, bool):
            raise ValueError
        shape = tuple(_size(n) for n in shape)
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        raise BadInput(f"{where}: byte {8 + width}", "the NumPy header cannot be read", "descr, fortran_order and shape") from None
    return _Array(descr, shape, "F" if fortran else "C", start)


def _read_npy(path: Path, size: int, tensor: str) -> tuple[np.ndarray, str]:
    import numpy as np

    where = str(path)
    if tensor:
        raise BadInput(f"{where}: tensor", f"found {tensor!r}, but a .npy file holds one array without a name", "no tensor name")
    descr, shape, order, start = _npy_header(path, size)
    if not isinstance(descr, str):
        raise BadInput(where, "a structured array with named fields", FLOATS)
    if "O" in descr:
        raise BadInput(where, "an array of Python objects (rows of unequal length?), which is never unpickled", FLOATS)
    if not _NPY_FLOAT.fullmatch(descr):
        raise BadInput(where, f"values of type {descr!r}", FLOATS)
    _check_shape(shape, where)
    needed = start + math.prod(shape) * int(descr[-1])
    if size < needed:
        raise BadInput(f"{where}: byte {size}", f"the file ends too early for shape {shape}", f"data up to byte {needed}")
    return np.memmap(path, dtype=np.dtype(descr), mode="r", offset=start, shape=shape, order=order), where


# .safetensors ----------------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _safetensors_header(path: Path, size: int) -> tuple[dict[str, _Stored], int]:
    """Every tensor of the file with its type, shape and bytes; and where the data begins."""
    where = str(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start = 8 + length
        if size < 8 or start > size or length > _HEADER_LIMIT:
            raise BadInput(f"{where}: byte 0", f"a header of {length} bytes in a file of {size}", "a complete safetensors file")
        text = file.read(length)
    try:
        raw = json.loads(text.decode("utf-8"))
        tensors = {
            name: _Stored(str(t["dtype"]), tuple(_size(n) for n in t["shape"]), _size(t["data_offsets"][0]), _size(t["data_offsets"][1]))
            for name, t in raw.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise BadInput(f"{where}: byte 8", "the safetensors header is not the JSON it should be", "a complete safetensors file") from None
    return tensors, start


def _read_safetensors(path: Path, size: int, tensor: str) -> tuple[np.ndarray, str]:
    import numpy as np

    where = str(path)
    tensors, start = _safetensors_header(path, size)
    name = _pick(list(tensors), tensor, where)
    stored = tensors[name]
    source = f"{where}: {name}"
    if stored.dtype not in _SAFETENSORS_BYTES:
        raise BadInput(source, f"values of type {stored.dtype}", FLOATS)
    _check_shape(stored.shape, source)
    length = math.prod(stored.shape) * _SAFETENSORS_BYTES[stored.dtype]
    if stored.begin < 0 or stored.end - stored.begin != length:
        raise BadInput(source, f"bytes {stored.begin} to {stored.end} for shape {stored.shape}", f"{length} bytes")
    if start + stored.end > size:
        raise BadInput(f"{where}: byte {size}", f"the file ends within tensor {name!r}", f"data up to byte {start + stored.end}")
    storage = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}[stored.dtype]
    values = np.memmap(path, dtype=storage, mode="r", offset=start + stored.begin, shape=stored.shape)
    if stored.dtype == "BF16":  # the upper half of a float32
        return (values.astype(np.uint32) << 16).view(np.float32), source
    return values, source


# .pt -------------------------------------------------------------------------------------------------------------------


def _read_pt(path: Path, size: int, tensor: str) -> tuple[np.ndarray, str]:
    import pickle

    import torch

    where = str(path)
    plain = "a tensor, or a list or dict of tensors, saved with torch.save"
    faults: tuple[type[Exception], ...] = (
        *archive_faults(), OverflowError, KeyError, TypeError, AttributeError, IndexError, AssertionError,
    )  # fmt: skip
    with path.open("rb") as file:
        head = file.read(4)
    if not head.startswith((b"PK\x03\x04", b"\x80")):
        raise BadInput(f"{where}: byte 0", f"found {head!r}, which begins no torch file", plain)
    if size > MAX_NUMBERS * 8 + 1_000_000:
        raise BadInput(where, f"{size:,} bytes", f"at most {MAX_NUMBERS * 8:,} bytes of router logits")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        culprit = re.search(r"(?:GLOBAL|global|function|class) ([\w.]+)", str(error))
        more = f" (it asks for {culprit.group(1)})" if culprit else ""
        raise BadInput(where, f"it holds more than plain tensors{more} and is not unpickled", plain) from None
    except faults:
        raise BadInput(where, "not readable as a torch file (foreign, truncated or damaged)", plain) from None
    if isinstance(found, torch.Tensor):
        if tensor:
            raise BadInput(f"{where}: tensor", f"found {tensor!r}, but the file holds one tensor without a name", "no tensor name")
        return _plain_tensor(found, where), where
    if isinstance(found, dict) and all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in found.items()):
        name = _pick(list(found), tensor, where)
        return _plain_tensor(found[name], f"{where}: {name}"), f"{where}: {name}"
    if isinstance(found, list | tuple) and found and all(isinstance(v, torch.Tensor) for v in found):
        return _stack_layers(list(found), where), where
    raise BadInput(where, f"it holds {_described(found)}", plain)


def _stack_layers(found: list[torch.Tensor], where: str) -> np.ndarray:
    """A list of one tensor is that tensor; several (tokens, experts) are layers, as transformers' output_router_logits gives them."""
    import numpy as np

    layers = [_plain_tensor(v, f"{where}: item {k}") for k, v in enumerate(found)]
    if len(layers) == 1:
        return layers[0]
    for k, layer in enumerate(layers):
        if layer.ndim != 2 or layer.shape != layers[0].shape:
            raise BadInput(
                f"{where}: item {k}", f"shape {layer.shape}", f"one shape (tokens, experts) for all layers, here {layers[0].shape}"
            )
    return np.stack(layers)


def _plain_tensor(found: torch.Tensor, source: str) -> np.ndarray:
    import torch

    if found.layout != torch.strided or found.is_quantized or found.is_meta:
        raise BadInput(source, "a sparse, quantized or empty-storage tensor", FLOATS)
    if found.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise BadInput(source, f"values of type {str(found.dtype).removeprefix('torch.')}", FLOATS)
    _check_shape(tuple(found.shape), source)
    found = found.detach().resolve_neg()
    wide = found.double() if found.dtype == torch.float64 else found.float()
    return wide.numpy()


def _described(found: object) -> str:
    if isinstance(found, dict | list | tuple) and not found:
        return f"an empty {type(found).__name__}"
    if isinstance(found, dict):
        key = next((k for k, v in found.items() if type(v).__name__ != "Tensor"), next(iter(found)))
        return f"a dict whose entry {str(key)[:40]!r} is a {type(found[key]).__name__}"
    if isinstance(found, list | tuple):
        odd = next((k for k, v in enumerate(found) if type(v).__name__ != "Tensor"), 0)
        return f"a {type(found).__name__} whose item {odd} is a {type(found[odd]).__name__}"
    return f"a {type(found).__name__}"


# shared checks ---------------------------------------------------------------------------------------------------------


def _pick(names: list[str], wanted: str, where: str) -> str:
    """The tensor to read: the one that is asked for, or the only one. BadInput lists what there is."""
    if not names:
        raise BadInput(where, "it holds no tensor", SHAPES)
    if wanted:
        if wanted not in names:
            raise BadInput(f"{where}: tensor", f"no tensor {wanted!r}", nearest(wanted, names))
        return wanted
    if len(names) > 1:
        shown = ", ".join(sorted(names)[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise BadInput(where, f"it holds {len(names)} tensors", f"one tensor, or the parameter tensor set to one of: {shown}")
    return names[0]


def _check_shape(shape: tuple[int, ...], source: str) -> None:
    shown = str(tuple(shape))
    if not 2 <= len(shape) <= 4:
        raise BadInput(source, f"{len(shape)} dimension{'s' if len(shape) != 1 else ''}, shape {shown}", SHAPES)
    if not all(shape):
        raise BadInput(source, f"no values, shape {shown}", SHAPES)
    if math.prod(shape) > MAX_NUMBERS:
        raise BadInput(source, f"{math.prod(shape):,} numbers, shape {shown}", f"at most {MAX_NUMBERS:,} numbers")
    for count, bound, unit in ((shape[-1], MAX_EXPERTS, "experts"), (shape[-2], MAX_TOKENS, "tokens")):
        if count > bound:
            raise BadInput(source, f"{count:,} {unit}, shape {shown}", f"at most {bound:,} {unit}")
    for axis, bound, unit in ((3, MAX_LAYERS, "layers"), (4, MAX_STEPS, "steps")):
        if len(shape) >= axis and shape[-axis] > bound:
            raise BadInput(source, f"{shape[-axis]:,} {unit}, shape {shown}", f"at most {bound:,} {unit}")


def _four_axes(values: np.ndarray, source: str) -> np.ndarray:
    """(steps, layers, tokens, experts) as float32 (float64 stays), in this machine's byte order."""
    import numpy as np

    wide = values.astype(np.float64 if values.dtype.itemsize == 8 else np.float32, copy=False)
    return wide.reshape((1,) * (4 - wide.ndim) + wide.shape)


def _finite(values: np.ndarray, source: str, axes: int) -> np.ndarray:
    """``values`` when all are finite; BadInput names the first that is not, by the axes the file has."""
    import numpy as np

    for step in range(values.shape[0]):
        fine = np.isfinite(values[step])
        if not fine.all():
            where = (step, *(int(n) for n in np.argwhere(~fine)[0]))
            place = list(zip(_AXES, where, strict=True))[4 - axes :]
            text = ", ".join(f"{axis} {index}" for axis, index in place)
            raise BadInput(f"{source}: {text}", f"found {float(values[where])}", "a finite number")
    return values
