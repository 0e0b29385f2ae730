"""Simulations by name: the decorator, their parameters, the lazy registry, and `record`.

Naming a simulation imports nothing; its module (and torch with it) loads when it is run or its parameters are asked for.
"""

from __future__ import annotations

import math
import os
import sys
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.errors import BadInput, Cancelled, nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from core.recording import Recorder, Recording

FAMILIES: dict[str, str] = {
    "training": "Training across devices",
    "moe": "Mixture of experts",
    "attention": "Attention",
    "numerics": "Numerics and hardware",
    "learning": "What models learn",
    "markets": "Markets",
    "systems": "Systems",
}

# name -> (family, "module:function"); a new simulation is one line here
REGISTRY: dict[str, tuple[str, str]] = {
    "memory": ("training", "core.training.memory:memory"),
    "mixed_precision": ("training", "core.training.mixed_precision:mixed_precision"),
    "recompute": ("training", "core.training.recompute:recompute"),
    "ddp": ("training", "core.training.ddp:ddp"),
    "collectives": ("training", "core.training.collectives:collectives"),
    "zero": ("training", "core.training.zero:zero"),
    "fsdp2": ("training", "core.training.fsdp2:fsdp2"),
    "tensor_parallel": ("training", "core.training.tensor_parallel:tensor_parallel"),
    "sequence_parallel": ("training", "core.training.sequence_parallel:sequence_parallel"),
    "context_parallel": ("training", "core.training.context_parallel:context_parallel"),
    "pipeline": ("training", "core.training.pipeline:pipeline"),
    "expert_parallel": ("training", "core.training.expert_parallel:expert_parallel"),
    "plan": ("training", "core.training.plan:plan"),
    "dispatch": ("moe", "core.moe.dispatch:dispatch"),
    "order_book": ("markets", "core.markets.order_book:order_book"),
    "aggressor": ("markets", "core.markets.aggressor:aggressor"),
}
ENTRY_POINTS = "notes_tui.simulations"

PathText = Annotated[str, Meta(extra_json_schema={"format": "path"})]
"""A parameter that names a file; '' is none. Relative to the working directory, or to the scenario file that names it."""


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parameter declarations: ``name: Annotated[type, Meta(ge=, le=, description=)] = default``."""


class Field(msgspec.Struct, frozen=True):
    """One parameter as a form or an error message needs it. Bounds are inclusive unless ``above`` or ``below`` says so."""

    name: str
    kind: Literal["int", "float", "bool", "text", "path", "choice", "list"]
    default: object
    description: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    item: str = ""
    longest: int | None = None

    @property
    def allowed(self) -> str:
        """What this parameter accepts, in words."""
        if self.kind == "choice":
            return ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        noun = {"int": "a whole number", "float": "a number", "text": "text", "path": "the path of a file"}.get(self.kind, "")
        if self.kind == "list":
            noun = f"numbers separated by commas (each {'a whole number' if self.item == 'int' else 'a number'})"
        bounds = []
        for bound, word in ((self.low, "from"), (self.above, "above"), (self.high, "to"), (self.below, "below")):
            if bound is not None:
                bounds.append(f"{word if word != 'to' or self.low is not None or self.above is not None else 'up to'} {bound:,.10g}")
        text = " ".join([noun, *bounds])
        if self.longest is not None and self.kind == "text":
            text += f", at most {self.longest} characters"
        return f"{text} ({self.description})" if self.description else text


RunFunction = Callable[[Any, "Recorder"], None]


class Simulation(msgspec.Struct, frozen=True):
    """A loaded simulation: its name, what it takes and the function that records it."""

    name: str
    params: type[Params]
    run: RunFunction
    summary: str = ""


def simulation(name: str) -> Callable[[RunFunction], Simulation]:
    """Declare ``def f(params: SomeParams, rec: Recorder) -> None`` as the simulation ``name``."""

    def declare(function: RunFunction) -> Simulation:
        hints = typing.get_type_hints(function)
        first = next(iter(hints.values()))
        summary = (function.__doc__ or "").strip().splitlines()
        return Simulation(name, first, function, summary[0] if summary else "")

    return declare


def plugins(group: str) -> tuple[EntryPoint, ...]:
    """What installed packages declare under ``group``; looked up once for each search path, for it reads every package's metadata."""
    return _plugins(group, tuple(sys.path))


@lru_cache(maxsize=16)
def _plugins(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    if not any(_mentioned(group.encode(), folder or ".") for folder in path):
        return ()  # the usual case, at a tenth of what importlib.metadata takes
    from importlib.metadata import distributions

    found: dict[str, list[EntryPoint]] = {}
    for package in distributions():
        try:
            mine = [point for point in package.entry_points if point.group == group]
            if mine:
                found.setdefault(package.metadata["Name"], mine)  # as in importlib: the first on the path counts
        except Exception:  # another package's damaged metadata is no reason to stop
            continue
    return tuple(point for points in found.values() for point in points)


def _mentioned(group: bytes, folder: str) -> bool:
    """Whether a package installed in ``folder`` names ``group`` in its entry points; one packed in an archive is not looked at."""
    try:
        with os.scandir(folder) as found:
            places = [entry.path for entry in found if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for place in places:
        try:
            with open(f"{place}/entry_points.txt", "rb") as file:  # noqa: PTH123 - a Path for each would double the time
                if group in file.read():
                    return True
        except OSError:
            continue
    return False


def families() -> dict[str, str]:
    """Every known simulation with its family, without importing any of them."""
    found = {name: family for name, (family, _) in REGISTRY.items()}
    for point in plugins(ENTRY_POINTS):
        found.setdefault(point.name, _plugin_family(point.value))
    return found


def load(name: str) -> Simulation:
    """Import the simulation ``name``. BadInput when there is none, or when a plug-in fails to load."""
    if name in REGISTRY:
        module, _, attribute = REGISTRY[name][1].partition(":")
        return typing.cast(Simulation, getattr(import_module(module), attribute))
    for point in plugins(ENTRY_POINTS):
        if point.name == name:
            where = f"plug-in {name} ({point.value})"
            try:
                loaded = point.load()
            except (Exception, SystemExit) as error:
                raise BadInput(where, f"it does not load: {type(error).__name__}: {error}", "a module that imports") from error
            if not isinstance(loaded, Simulation):
                raise BadInput(where, f"found {type(loaded).__name__}", "a function declared with @simulation")
            _check_declaration(loaded, where)
            return loaded
    raise BadInput("simulation", f"unknown name {name!r}", nearest(name, families()))


def _check_declaration(loaded: Simulation, where: str) -> None:
    """BadInput unless the parameters of a plug-in can be shown, set and left alone."""
    try:
        if not issubclass(loaded.params, Params):
            raise TypeError(f"its first argument is a {loaded.params.__name__}")
        fields(loaded.params)
        loaded.params()
    except TypeError as error:
        raise BadInput(where, f"parameters that cannot be used: {error}", "core.simulation.Params with a default for each") from error


def fields(params: type[Params]) -> list[Field]:
    """The declaration of every parameter, in order."""
    hints = typing.get_type_hints(params, include_extras=True)
    return [_field(f.name, hints[f.name], f.default) for f in msgspec.structs.fields(params)]


def parse(params: type[Params], raw: Mapping[str, object], where: str = "", base: Path | None = None) -> Params:
    """Check and convert raw values (TOML values, or the text of ``--set``) into ``params``.

    ``where`` stands before the parameter's name in messages; relative paths that exist below ``base`` are taken there.
    Raises BadInput for an unknown name (with the nearest one), a wrong type or a value out of bounds.
    """
    known = {f.name: f for f in fields(params)}
    hints = typing.get_type_hints(params, include_extras=True)
    values: dict[str, object] = {}
    prefix = f"{where}." if where else ""
    for name, value in raw.items():
        field = known.get(name)
        if field is None:
            raise BadInput(f"{prefix}{name}", "unknown parameter", nearest(name, known))
        try:
            converted = _read(field, value)
            if field.kind == "path" and base is not None and converted and os.path.exists(base / str(converted)):  # noqa: PTH110 - never raises
                converted = str(base / str(converted))
            values[name] = msgspec.convert(converted, hints[name])
        except (ValueError, OverflowError, msgspec.ValidationError):
            shown = value if isinstance(value, str) and value else repr(value)
            raise BadInput(f"{prefix}{name}", f"found {_short(shown)}", field.allowed) from None
    return params(**values)


def record(
    name: str,
    params: Params | Mapping[str, object] | None = None,
    device: str = "cpu",
    *,
    seed: int = 0,
    recording: Recording | None = None,
) -> Recording:
    """Run the simulation ``name`` and return what it recorded.

    ``recording`` may be handed in by somebody who reads it while it grows (see `blank`). BadInput and anything the
    simulation raises come out; `Cancelled` too, with the recording marked so.
    """
    from core.recording import Recorder, Recording

    loaded = load(name)
    if not isinstance(params, Params):
        params = parse(loaded.params, params or {}, name)
    rec = recording if recording is not None else Recording(name, device=device, seed=seed)
    rec.params.update(msgspec.to_builtins(params))
    if rec.device != "cpu":
        from core.device import require

        require(rec.device)
    try:
        loaded.run(params, Recorder(rec))
    except Cancelled:
        rec.state = "cancelled"
        raise
    except SystemExit as error:
        rec.state = "failed"
        raise RuntimeError(f"the simulation asked to end the program with {error.code!r}") from error
    except BaseException:
        rec.state = "failed"
        raise
    rec.state = "finished"
    rec.progress = (1.0, "")
    return rec


def _plugin_family(target: str) -> str:
    """A plug-in module may name its family in its path (``package.markets.thing``); else it stands under systems."""
    parts = target.partition(":")[0].split(".")
    return next((part for part in parts if part in FAMILIES), "systems")


def _field(name: str, hint: object, default: object) -> Field:
    metas: list[Meta] = []
    while typing.get_origin(hint) is Annotated:
        metas.extend(m for m in typing.get_args(hint)[1:] if isinstance(m, Meta))
        hint = typing.get_args(hint)[0]
    bounds: dict[str, Any] = {}
    for meta in metas:
        for key, own in (("ge", "low"), ("le", "high"), ("gt", "above"), ("lt", "below"), ("description", "description")):
            if getattr(meta, key) is not None:
                bounds[own] = getattr(meta, key)
    kind, extra = _kind(hint, metas)
    if kind == "list":
        inner = _field(name, typing.get_args(hint)[0], None)
        bounds = {**{k: getattr(inner, k) for k in ("low", "high", "above", "below")}, **bounds}
    return Field(name, kind, default, **bounds, **extra)  # type: ignore[arg-type]


def _kind(hint: object, metas: list[Meta]) -> tuple[str, dict[str, object]]:
    if typing.get_origin(hint) is Literal:
        return "choice", {"choices": tuple(str(choice) for choice in typing.get_args(hint))}
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        while typing.get_origin(inner) is Annotated:
            inner = typing.get_args(inner)[0]
        return "list", {"item": "int" if inner is int else "float"}
    if hint is str and any((m.extra_json_schema or {}).get("format") == "path" for m in metas):
        return "path", {}
    plain = {int: "int", float: "float", bool: "bool", str: "text"}
    if hint in plain:
        return plain[hint], {}  # type: ignore[index]
    raise TypeError(f"a parameter is int, float, bool, str, Literal or tuple[int | float, ...], not {hint}")


def _read(field: Field, value: object) -> object:
    """``value`` as the Python value the field wants; ValueError when it cannot be read so."""
    if field.kind == "list":
        if isinstance(value, str):
            value = [part for part in value.split(",") if part.strip()]
        if not isinstance(value, list | tuple):
            value = [value]
        return tuple(_number(part, whole=field.item == "int") for part in value)
    if field.kind in ("int", "float"):
        return _number(value, whole=field.kind == "int")
    if field.kind == "bool":
        if isinstance(value, bool):
            return value
        words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
        if isinstance(value, str) and value.strip().lower() in words:
            return words[value.strip().lower()]
        raise ValueError
    if field.kind == "choice" and not isinstance(value, bool) and str(value) in field.choices:
        return int(str(value)) if isinstance(field.default, int) else str(value)
    if not isinstance(value, str):
        raise ValueError
    return value


def _number(value: object, *, whole: bool) -> int | float:
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        try:
            value = int(text)
        except ValueError:
            value = float(text)
    if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError
    if whole:
        if value != int(value):
            raise ValueError
        return int(value)
    return float(value)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"
