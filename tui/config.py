"""The user's settings (config.toml, then ``NOTES_TUI_*``) and what is remembered between sessions (the state folder)."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from core.errors import BadInput, nearest
from tui.keys import read_keymap

APP = "notes-tui"
FPS = 10.0
FPS_OVER_SSH = 4.0
THEMES = ("dark", "light")


class Config(msgspec.Struct, frozen=True):
    """Settings of one session. ``problems`` are what could not be used, one clear line each."""

    theme: str = "dark"
    fps: float = FPS
    motion: bool = True
    device: str = "cpu"
    language: str = ""
    keymap: dict[str, str] = {}
    problems: tuple[str, ...] = ()


def config_file() -> Path:
    return _folder("XDG_CONFIG_HOME", ".config", "user_config_path") / "config.toml"


def state_folder() -> Path:
    return _folder("XDG_STATE_HOME", ".local/state", "user_state_path")


def _folder(variable: str, usual: str, asked: str) -> Path:
    """What platformdirs says; on Linux said here, as importing it would cost a tenth of the time to the first frame."""
    if sys.platform == "linux" and "ANDROID_ROOT" not in os.environ:
        own = os.environ.get(variable, "").strip()
        return (Path(own) if own else Path.home() / usual) / APP
    import platformdirs

    path: Path = getattr(platformdirs, asked)(APP, appauthor=False)
    return path


def read_config(path: Path | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """The settings in ``path`` (default: the platform's), under those of the environment. Never raises: see ``problems``."""
    path = path if path is not None else config_file()
    environ = environ if environ is not None else os.environ
    over_ssh = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    values: dict[str, object] = {"fps": FPS_OVER_SSH if over_ssh else FPS}
    problems: list[str] = []
    keymap: dict[str, str] = {}
    raw = _load(path, problems)
    for key, value in raw.items():
        if key == "keys":
            if isinstance(value, dict):
                keymap, wrong = read_keymap(value, str(path))
                problems += [str(error) for error in wrong]
            else:
                problems.append(str(BadInput(f"{path}: keys", f"found {value!r}", '[keys] with lines as play = "space"')))
            continue
        _take(values, problems, key, value, f"{path}: {key}")
    for key in _READERS:
        name = f"NOTES_TUI_{key.upper()}"
        if name in environ:
            _take(values, problems, key, environ[name], name)
    if environ.get("TEXTUAL_ANIMATIONS", "").lower() == "none":
        values["motion"] = False
    return msgspec.convert({**values, "keymap": keymap, "problems": tuple(problems)}, Config)


def _load(path: Path, problems: list[str]) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(str(BadInput(str(path), error.strerror or str(error), "a readable file")))
    except UnicodeDecodeError as error:
        problems.append(str(BadInput(str(path), f"byte {error.start} is not UTF-8", "a TOML file in UTF-8")))
    except tomllib.TOMLDecodeError as error:
        problems.append(str(BadInput(str(path), f"not TOML: {error}", "settings in TOML")))
    return {}


def _take(values: dict[str, object], problems: list[str], key: str, value: object, where: str) -> None:
    reader = _READERS.get(key)
    if reader is None:
        problems.append(str(BadInput(where, "unknown setting", nearest(key, [*_READERS, "keys"]))))
        return
    read, allowed = reader
    try:
        values[key] = read(value)
    except (ValueError, TypeError):
        problems.append(str(BadInput(where, f"found {value!r}", allowed)))


def _theme(value: object) -> str:
    if value not in THEMES:
        raise ValueError
    return str(value)


def _fps(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    fps = float(value)
    if not 1 <= fps <= 30:
        raise ValueError
    return fps


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    words = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}
    return words[str(value).lower()] if str(value).lower() in words else _refuse()


def _refuse() -> bool:
    raise ValueError


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


_READERS: dict[str, tuple[Callable[[object], object], str]] = {
    "theme": (_theme, "dark or light"),
    "fps": (_fps, "a number from 1 to 30 (frames a second while playing)"),
    "motion": (_switch, "on or off"),
    "device": (_word, "cpu, cuda or cuda:<number>, in quotes"),
    "language": (_word, 'a language code in quotes, as "en"'),
}


class Position(msgspec.Struct, frozen=True):
    """Where a scenario was left: its variant, step (from 0) and bookmarks."""

    step: int = 0
    variant: str = ""
    bookmarks: tuple[int, ...] = ()


def remembered(scenario: str) -> Position:
    """Where ``scenario`` was left; its start when nothing (or nothing readable) is remembered."""
    try:
        return msgspec.convert(_positions().get(scenario, {}), Position)
    except msgspec.ValidationError:
        return Position()


def remember(scenario: str, position: Position) -> None:
    """Keep ``position`` for the next time; silently not, when the state folder cannot be written."""
    positions = _positions()
    positions.pop(scenario, None)
    positions[scenario] = msgspec.to_builtins(position)
    kept = dict(list(positions.items())[-500:])
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"positions.{os.getpid()}.tmp"
        temporary.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        temporary.replace(folder / "positions.json")
    except OSError:
        return


def _positions() -> dict[str, object]:
    try:
        found = json.loads((state_folder() / "positions.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
