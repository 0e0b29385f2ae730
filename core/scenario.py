"""Scenario files: a question, parameters, variants, and the numbers it must show.

A scenario opens by name (``training/pipeline``), as a bare simulation with default parameters (``pipeline``), from the
user's own TOML file, or from a data file that is recognised by its content.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from core.errors import BadInput, nearest
from core.files import refuse_special
from core.formatting import Value
from core.simulation import FAMILIES, Params, families, load, parse, plugins

if TYPE_CHECKING:
    from core.recording import Check, Recording

ENTRY_POINTS = "notes_tui.scenarios"
LARGEST_FILE = 2**20
"""A scenario is a page of text; anything above this many bytes is some other file."""
LONGEST_NAME = 255
"""Characters of a name that a message repeats."""
_KEYS = {
    "simulation": str, "order": int, "next": str, "title": str, "question": str, "takeaway": str,
    "params": dict, "variants": dict, "expect": dict,
}  # fmt: skip
_TYPE_NAMES = {str: "text in quotes", int: "a whole number", dict: "a table"}


class Scenario(msgspec.Struct, frozen=True):
    """One question over one simulation. ``variants`` is empty when there is a single run named ``default``."""

    name: str
    simulation: str
    title: str = ""
    question: str = ""
    takeaway: str = ""
    order: int = 1000
    next: str = ""
    params: dict[str, object] = {}
    variants: dict[str, dict[str, object]] = {}
    expect: dict[str, Value] = {}
    path: str = ""

    @property
    def family(self) -> str:
        head = self.name.partition("/")[0]
        return head if head in FAMILIES and "/" in self.name else families().get(self.simulation, "systems")

    @property
    def variant_names(self) -> list[str]:
        return list(self.variants) or ["default"]

    def raw_params(self, variant: str, overrides: Mapping[str, object] | None = None) -> dict[str, object]:
        """Defaults < [params] < variant < overrides. BadInput for a variant the scenario does not have."""
        if variant not in self.variant_names:
            raise BadInput(f"{self.name} variant", f"unknown name {variant!r}", nearest(variant, self.variant_names))
        return {**self.params, **self.variants.get(variant, {}), **(overrides or {})}

    def parsed(self, variant: str, overrides: Mapping[str, object] | None = None) -> Params:
        """The checked parameters of one variant; imports the simulation. Errors name the file and key."""
        declared = load(self.simulation).params
        self.raw_params(variant)
        base = Path(self.path).resolve().parent if self.path else None
        values: dict[str, object] = {}
        for table, raw in (("params", self.params), (f"variants.{variant}", self.variants.get(variant, {}))):
            checked = parse(declared, raw, f"{self.path}: {table}" if self.path else self.name, base)
            values |= {name: getattr(checked, name) for name in raw}
        return parse(declared, {**values, **(overrides or {})}, self.simulation)

    def expected(self, variant: str) -> dict[str, Value]:
        """The [expect] entries of one variant, by bare fact name."""
        if not self.variants:
            return dict(self.expect)
        return {key[len(variant) + 1 :]: want for key, want in self.expect.items() if _variant_of(key, self.variants) == variant}


def _variant_of(key: str, variants: Iterable[str]) -> str | None:
    """The variant that an [expect] key names before its fact: the longest that fits, for names may hold dots."""
    return max((variant for variant in variants if key.startswith(f"{variant}.")), key=len, default=None)


def folders() -> list[Path]:
    """The built-in scenario folder, those that other packages declare, and those NOTES_TUI_SCENARIOS names."""
    built_in = find_spec("scenarios")
    places = [Path(p) for p in (built_in.submodule_search_locations or [])] if built_in else []
    own = os.environ.get("NOTES_TUI_SCENARIOS", "")
    return [*places, *_brought()[0], *(Path(os.path.expanduser(p)) for p in own.split(os.pathsep) if p)]  # noqa: PTH111 - never raises


def broken_folders() -> list[str]:
    """One line for each package that declares scenarios which cannot be found; they are passed over."""
    return _brought()[1]


def _brought() -> tuple[list[Path], list[str]]:
    """The scenario folders of other packages, and what is wrong with those that have none."""
    places, broken = [], []
    for point in plugins(ENTRY_POINTS):
        reason = "there is no such package"
        try:
            spec = find_spec(point.value)
        except Exception as error:  # finding a package runs its parent's code
            spec, reason = None, str(error)
        if spec is not None and spec.submodule_search_locations:
            places += [Path(p) for p in spec.submodule_search_locations]
        else:
            where = f"scenarios of plug-in {point.name} ({point.value})"
            broken.append(str(BadInput(where, reason if spec is None else "a module, not a package", "a package with scenario files")))
    return places, broken


def names() -> dict[str, Path]:
    """Every scenario name (``family/name``) with its file, without reading any."""
    found: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob("*/*.toml")):
            found.setdefault(f"{path.parent.name}/{path.stem}", path)
    return found


def read(path: Path, name: str | None = None) -> Scenario:
    """Read and check one scenario file. BadInput names the file, the line or key, what was found and what is allowed."""
    where = str(path)
    refuse_special(path, "a readable scenario file")
    try:
        if path.is_file() and path.stat().st_size > LARGEST_FILE:
            raise BadInput(where, f"{path.stat().st_size:,} bytes", f"a scenario file of at most {LARGEST_FILE:,} bytes")
        text = path.read_bytes()
    except OSError as error:
        raise BadInput(where, error.strerror or str(error), "a readable scenario file") from None
    try:
        raw = tomllib.loads(text.decode("utf-8-sig"), parse_float=_number)
    except UnicodeDecodeError as error:
        raise BadInput(where, f"byte {error.start} is not UTF-8", "a TOML file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(where, f"not TOML: {error}", "a scenario file in TOML") from None
    except (RecursionError, ValueError):
        raise BadInput(where, "TOML nested too deeply, or with a number too long", "a scenario file in TOML") from None
    for key, value in raw.items():
        if key not in _KEYS:
            raise BadInput(f"{where}: {key}", "unknown key", nearest(key, _KEYS))
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            kind = "float" if isinstance(value, float) else type(value).__name__
            raise BadInput(f"{where}: {key}", f"found {kind} {value!r}", _TYPE_NAMES[_KEYS[key]])
    if "simulation" not in raw:
        raise BadInput(f"{where}: simulation", "missing", "the name of a simulation: " + ", ".join(families()))
    if raw["simulation"] not in families():
        raise BadInput(f"{where}: simulation", f"unknown name {raw['simulation']!r}", nearest(raw["simulation"], families()))
    for variant, values in raw.get("variants", {}).items():
        if not isinstance(values, dict):
            raise BadInput(f"{where}: variants.{variant}", f"found {values!r}", "a table of parameters")
    scenario = Scenario(name=name or path.stem, path=where, **raw)
    for key, value in scenario.expect.items():
        if not isinstance(value, bool | int | float | str):
            raise BadInput(f"{where}: expect.{key}", f"found {value!r}", 'a number, text, true or false under a quoted "variant.fact"')
        if scenario.variants and _variant_of(key, scenario.variants) is None:
            raise BadInput(f"{where}: expect.{key}", "names no variant", nearest(key.partition(".")[0], scenario.variants))
    return scenario


def everything() -> Iterator[Scenario]:
    """All scenarios that can be found, family by family, in the order of their story."""
    yield from story_order(read(path, name) for name, path in names().items())


def story_order(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Family by family, in the order of their story."""
    ranks = {family: k for k, family in enumerate(FAMILIES)}
    return sorted(scenarios, key=lambda s: (ranks.get(s.family, len(ranks)), s.order, s.name))


def find(target: str) -> Scenario:
    """The scenario that NAME or FILE means: a scenario's name, a bare simulation, a scenario file, or a data file.

    BadInput when it is none of them, with the nearest name.
    """
    known = names()
    if not target:
        raise BadInput("scenario", "an empty name", "a scenario, a simulation or a file; `notes-tui list` names them")
    if target in known:
        return read(known[target], target)
    if target in families():
        return bare(target)
    path = Path(target)
    if os.path.exists(path):  # noqa: PTH110 - never raises
        if path.suffix == ".toml":
            return read(path)
        from core.recognise import recognise

        name, params = recognise(path)
        return bare(name, params, title=path.name)
    target = target if len(target) <= LONGEST_NAME else target[: LONGEST_NAME - 1] + "…"
    if path.suffix or ("/" in target and target.partition("/")[0] not in FAMILIES):
        raise BadInput(target, "no such file or scenario", nearest(target, [*known, *families()]))
    raise BadInput("scenario", f"unknown name {target!r}", nearest(target, [*known, *families()]))


def bare(simulation: str, params: Mapping[str, object] | None = None, title: str = "") -> Scenario:
    """A scenario around a simulation alone, with default parameters."""
    return Scenario(name=simulation, simulation=simulation, title=title or simulation.replace("_", " "), params=dict(params or {}))


def judge(scenario: Scenario, variant: str, recording: Recording) -> list[Check]:
    """Compare [expect] with the recording's last facts, within half of the last digit that is written there.

    Only meaningful for unmodified parameters; a fact the recording lacks fails.
    """
    from core.recording import Check

    checks = []
    for name, want in scenario.expected(variant).items():
        got = recording.fact(name) if name in recording.facts else None
        tolerance = want.tolerance if isinstance(want, Written) else 0.0
        if isinstance(want, int | float) and isinstance(got, int | float) and not isinstance(want, bool):
            ok = abs(got - want) <= tolerance
        else:
            ok = got == want
        want = float(want) if isinstance(want, float) else want
        checks.append(Check(f"expect {name}", ok, got, want, tolerance, f"scenario {scenario.name}"))
    return checks


def _number(text: str) -> float:
    return Written(text) if text.lstrip("+-") not in ("inf", "nan") else float(text)


class Written(float):
    """A number of a scenario file that remembers its text, so that [expect] tolerates the digits that are printed."""

    tolerance: float

    def __new__(cls, text: str) -> Written:
        number = super().__new__(cls, text)
        mantissa, _, exponent = text.replace("_", "").lower().partition("e")
        places = len(mantissa.partition(".")[2])
        power = min(max(int(exponent or 0) - places, -400), 300)  # beyond that the number itself is 0 or infinite
        number.tolerance = 0.5 * 10.0**power * (1 + 1e-9)  # a hair for binary rounding
        return number
