"""The one key registry: every action with its keys, its short name, its help and where it works.

Footer, help, command palette and the user's config read it; what is not in it can be neither pressed nor shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, Keys, _character_to_key

from core.errors import BadInput, nearest

Scope = Literal["app", "home", "stage", "panel", "doctor"]

SCOPE_NAMES: dict[Scope, str] = {
    "panel": "In the focused panel",
    "stage": "On the stage",
    "home": "On the home screen",
    "doctor": "On the doctor's page",
    "app": "Everywhere",
}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a key does. ``keys`` are Textual's names; ``footer`` orders it in the footer (0: not shown there)."""

    id: str
    keys: tuple[str, ...]
    name: str
    help: str
    scope: Scope
    footer: int = 0

    @property
    def call(self) -> str:
        """The action as Textual calls it: ``tenth_3`` is ``tenth(3)``."""
        name, _, digit = self.id.partition("_")
        return f"{name}({digit})" if digit.isdigit() else self.id


def _tenths() -> list[Action]:
    return [Action(f"tenth_{n}", (str(n),), f"{n * 10} %", f"Go to {n * 10} % of the steps", "stage") for n in range(10)]


ACTIONS: tuple[Action, ...] = (
    Action("back", ("left", "h", "comma"), "back", "One step back", "stage", 1),
    Action("forward", ("right", "l", "full_stop"), "step", "One step on", "stage", 1),
    Action("play", ("space",), "play", "Play or pause", "stage", 2),
    Action("back_far", ("shift+left",), "10 % back", "Ten percent of the steps back", "stage"),
    Action("forward_far", ("shift+right",), "10 % on", "Ten percent of the steps on", "stage"),
    Action("previous_phase", ("left_square_bracket",), "previous phase", "Start of this phase, then of the one before", "stage", 3),
    Action("next_phase", ("right_square_bracket",), "phase", "Start of the next phase", "stage", 3),
    Action("start", ("home", "g"), "start", "First step", "stage"),
    Action("end", ("end", "G"), "end", "Last step", "stage"),
    *_tenths(),
    Action("faster", ("plus", "equals_sign"), "faster", "Play faster", "stage"),
    Action("slower", ("minus",), "slower", "Play slower", "stage"),
    Action("open_hops", ("enter",), "open", "Open the collective at the cursor (or this step's)", "stage", 4),
    Action("find", ("slash",), "find", "Find text, name:value, 09:45, #12345 or trade >= 500", "stage", 7),
    Action("find_next", ("n",), "next match", "Next match", "stage"),
    Action("find_previous", ("N",), "previous match", "Previous match", "stage"),
    Action("until", ("u",), "until", "Run on until fact op number, name:value, 09:45, #12345", "stage", 9),
    Action("until_back", ("U",), "until, back", "Run back until a condition (or put < before it)", "stage"),
    Action("bookmark", ("m",), "bookmark", "Bookmark this step, or remove its bookmark", "stage"),
    Action("bookmarks", ("apostrophe",), "bookmarks", "List of bookmarks", "stage"),
    Action("parameters", ("p",), "params", "Change parameters and record again", "stage", 5),
    Action("fork", ("F",), "fork", "Change a parameter in a second run, shown beside this one", "stage", 10),
    Action("next_variant", ("v",), "variant", "Next variant (side by side: of the other run)", "stage", 8),
    Action("compare", ("c",), "compare", "Two runs side by side with one playhead, or one again", "stage", 6),
    Action("difference", ("d",), "difference", "Jump to the first step at which the two runs differ", "stage"),
    Action("side_tab", ("t",), "narration / numbers", "Narration or numbers, where only one of them fits", "stage"),
    Action("focus_panel", ("tab",), "panel", "Focus the next panel", "stage"),
    Action("focus_panel_back", ("shift+tab",), "panel back", "Focus the panel before", "stage"),
    Action("doctor", ("D",), "doctor", "What is wrong with the data file, and what it cannot say", "stage", 4),
    Action("export", ("x",), "export", "Save as SVG, text, JSON, Chrome trace or CSV", "stage", 11),
    Action("copy", ("y",), "copy", "Copy what this step says", "stage"),
    Action("cursor_left", ("left",), "left", "Cursor left", "panel"),
    Action("cursor_right", ("right",), "right", "Cursor right", "panel"),
    Action("cursor_up", ("up",), "up", "Cursor up", "panel"),
    Action("cursor_down", ("down",), "down", "Cursor down", "panel"),
    Action("select_previous", ("up", "k"), "up", "Scenario before", "home"),
    Action("select_next", ("down", "j"), "down", "Next scenario", "home"),
    Action("page_up", ("pageup",), "page up", "A page up", "home"),
    Action("page_down", ("pagedown",), "page down", "A page down", "home"),
    Action("select_first", ("home", "g"), "first", "First scenario", "home"),
    Action("select_last", ("end", "G"), "last", "Last scenario", "home"),
    Action("open", ("enter",), "open", "Open the selected scenario", "home", 1),
    Action("search", ("slash",), "search", "Search the scenarios by what they are called and ask", "home", 2),
    Action("open_file", ("o",), "open file", "Open a scenario file or a data file", "home", 3),
    Action("doctor_previous", ("up", "k"), "up", "Finding before", "doctor", 1),
    Action("doctor_next", ("down", "j"), "finding", "Next finding", "doctor", 1),
    Action("doctor_page_up", ("pageup",), "page up", "A page up", "doctor"),
    Action("doctor_page_down", ("pagedown",), "page down", "A page down", "doctor"),
    Action("doctor_first", ("home", "g"), "first", "First finding", "doctor"),
    Action("doctor_last", ("end", "G"), "last", "Last finding", "doctor"),
    Action("doctor_go", ("enter",), "go there", "Go to the step where it first occurs", "doctor", 2),
    Action("leave", ("escape",), "back", "Back (leaves a focused panel first)", "app"),
    Action("help", ("question_mark", "f1"), "help", "Help for where you are", "app", 90),
    Action("command_palette", ("ctrl+p",), "palette", "Every action by name", "app"),
    Action("quit", ("q",), "quit", "Quit", "app", 91),
)

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}
_SPECIAL = frozenset({k.value for k in Keys} | set(KEY_NAME_REPLACEMENTS.values()) | set(REPLACED_KEYS))
_SHOWN = {
    "left": "←", "right": "→", "up": "↑", "down": "↓", "shift+left": "Shift+←", "shift+right": "Shift+→", "space": "space", "escape": "Esc",
    "enter": "Enter", "tab": "Tab", "shift+tab": "Shift+Tab", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn",
    "comma": ",", "full_stop": ".", "left_square_bracket": "[", "right_square_bracket": "]", "plus": "+", "equals_sign": "=", "minus": "-",
    "slash": "/", "apostrophe": "'", "question_mark": "?", "less_than_sign": "<", "greater_than_sign": ">", "semicolon": ";", "colon": ":",
    "backspace": "Backspace", "delete": "Del", "insert": "Ins", "circumflex_accent": "^", "backslash": "\\", "quotation_mark": '"',
}  # fmt: skip


def bindings(scope: Scope) -> list[BindingType]:
    """Textual bindings of one scope; their ids let the user's keymap replace the keys."""
    return [
        Binding(",".join(action.keys), action.call, action.name, show=False, id=action.id, tooltip=action.help)
        for action in ACTIONS
        if action.scope == scope
    ]


def shown(key: str) -> str:
    """A key as a person reads it: ``question_mark`` is ``?``."""
    if key in _SHOWN:
        return _SHOWN[key]
    head, plus, last = key.rpartition("+")
    if plus and head:
        return "+".join([*(part.capitalize() for part in head.split("+")), shown(last)])
    return key.upper() if key[:1] == "f" and key[1:].isdigit() else key


def normal_key(key: str, where: str) -> str:
    """Textual's name of a key the user wrote (``?``, ``ctrl+k``, ``f2``). BadInput for a key that does not exist."""
    text = key.strip() or key
    if len(text) == 1:
        return _character_to_key(text) if text != " " else "space"
    *modifiers, last = text.split("+") if not text.endswith("++") else [*text[:-2].split("+"), "+"]
    wrong = [m for m in modifiers if m not in ("ctrl", "shift", "alt", "super")]
    if wrong:
        raise BadInput(where, f"unknown key {key!r}", nearest(wrong[0], ["ctrl", "shift", "alt"]))
    if len(last) == 1:
        return "+".join([*modifiers, _character_to_key(last)])
    if last not in _SPECIAL and last not in _SHOWN:
        raise BadInput(where, f"unknown key {key!r}", nearest(last, sorted({k for k in _SPECIAL | set(_SHOWN) if "+" not in k})))
    return "+".join([*modifiers, last])


def read_keymap(raw: Mapping[str, object], where: str) -> tuple[dict[str, str], list[BadInput]]:
    """The ``[keys]`` table as a Textual keymap, and what in it cannot be used."""
    keymap: dict[str, str] = {}
    wrong: list[BadInput] = []
    for action, value in raw.items():
        place = f"{where}: keys.{action}"
        if action not in BY_ID:
            wrong.append(BadInput(place, "unknown action", nearest(action, BY_ID)))
            continue
        parts = value if isinstance(value, list) else _split(value) if isinstance(value, str) else None
        if not parts or not all(isinstance(part, str) and part for part in parts):
            wrong.append(BadInput(place, f"found {value!r}", 'a key in quotes, as "ctrl+k", or a list of them'))
            continue
        try:
            keymap[action] = ",".join(normal_key(part, place) for part in parts)
        except BadInput as error:
            wrong.append(error)
    return keymap, wrong


def _split(value: str) -> list[str]:
    return [value] if value == "," or not value.strip() or value.endswith("+,") else [part.strip() for part in value.split(",")]


def effective(keymap: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys of every action once the user's keymap is laid over them: a key that was taken is gone from its old action."""
    found: dict[str, tuple[str, ...]] = {}
    for action in ACTIONS:
        if action.id in keymap:
            found[action.id] = tuple(keymap[action.id].split(","))
            continue
        taken = {key for other, keys in keymap.items() if BY_ID[other].scope == action.scope for key in keys.split(",")}
        found[action.id] = tuple(key for key in action.keys if key not in taken)
    return found
