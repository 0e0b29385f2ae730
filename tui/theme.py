"""What a role looks like: one colour-blind-safe palette (Okabe-Ito) at true colour, 256 and 16 colours, dark and light.

Colour is never alone: `GLYPHS` gives each role a letter or shape that says the same.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich.color import Color, ColorSystem
from rich.palette import Palette as RichPalette
from rich.style import Style

if TYPE_CHECKING:
    from textual.app import App

ColorSystemName = Literal["none", "standard", "256", "truecolor"]


class Hue(NamedTuple):
    """One colour on a dark ground, on a light ground, and its ANSI names there; its shades at 256 colours, faint to strong."""

    dark: str
    light: str
    ansi: str
    ansi_light: str
    shades: tuple[int, int, int, int]
    shades_light: tuple[int, int, int, int]


_GREYS = (236, 240, 244, 250), (253, 249, 245, 241)
_BLUE = Hue("#56b4e9", "#0072b2", "bright_blue", "blue", (17, 24, 31, 74), (189, 153, 74, 25))
_ORANGE = Hue("#e69f00", "#b35900", "yellow", "yellow", (58, 94, 136, 214), (223, 180, 173, 130))
_TEAL = Hue("#009e73", "#00704f", "cyan", "cyan", (23, 29, 36, 43), (194, 151, 72, 29))
_PURPLE = Hue("#cc79a7", "#a0487a", "magenta", "magenta", (53, 96, 133, 176), (225, 182, 139, 96))
_YELLOW = Hue("#f0e442", "#8a7d00", "bright_yellow", "yellow", (58, 100, 142, 227), (230, 186, 143, 100))
_VERMILION = Hue("#d55e00", "#c04a00", "bright_red", "red", (52, 88, 130, 166), (224, 216, 209, 166))
_INDIGO = Hue("#8da0cb", "#4a5b8c", "bright_cyan", "blue", (237, 60, 103, 146), (189, 146, 103, 60))
_GREY = Hue("#999999", "#666666", "white", "bright_black", *_GREYS)

_HUES: dict[str, Hue] = {
    "forward": _BLUE, "backward": _ORANGE, "weight": _TEAL, "comm": _PURPLE,
    "bid": _BLUE, "ask": _ORANGE, "own": _YELLOW, "trade": _YELLOW,
    "parameter": _BLUE, "gradient": _ORANGE, "optimizer": _TEAL, "activation": _PURPLE, "buffer": _GREY,
    "selected": _YELLOW, "kept": _BLUE, "dropped": _VERMILION,
    "padding": Hue("#777777", "#888888", "bright_black", "bright_black", *_GREYS),
    "good": _TEAL._replace(ansi="green", ansi_light="green"), "bad": _VERMILION,
    "group0": _BLUE, "group1": _ORANGE, "group2": _TEAL, "group3": _PURPLE,
    "group4": _YELLOW, "group5": _VERMILION, "group6": _INDIGO, "group7": Hue("#b3b3b3", "#666666", "white", "bright_black", *_GREYS),
    "plain": Hue("#d0d0d0", "#303030", "default", "default", *_GREYS),
    "idle": Hue("#5a5a5a", "#a8a8a8", "bright_black", "bright_black", *_GREYS),
    "dim": Hue("#6c6c6c", "#909090", "bright_black", "bright_black", *_GREYS),
}  # fmt: skip

GLYPHS: dict[str, str] = {
    "forward": "F", "backward": "B", "weight": "W", "comm": "↔", "idle": "·", "bid": "b", "ask": "a", "own": "★", "trade": "×",
    "parameter": "P", "gradient": "G", "optimizer": "O", "activation": "A", "buffer": "u",
    "selected": "▸", "kept": "●", "dropped": "✗", "padding": "░", "good": "✓", "bad": "✗", "dim": "·", "plain": " ",
    **{f"group{k}": str(k) for k in range(8)},
}  # fmt: skip

NAMES: dict[str, str] = {"weight": "weight gradient", "comm": "communication", "own": "own order"}
"""What a role is called in a legend, where that is not its own name."""

LEVELS = 5
"""Colour levels of a heatmap; more would not be told apart and costs bytes."""
RAMP = " ░▒▓█"
"""The levels as glyphs, for terminals whose grounds cannot say them."""

_SHARES = (0.0, 0.18, 0.38, 0.62, 0.9)
"""How much of a role's colour each level has; the first is the ground of the theme itself."""
_GROUND = (0xFA, 0x12)  # light, dark
_DARK_INK = frozenset({"bright_blue", "bright_cyan", "bright_yellow", "bright_red", "yellow", "cyan", "green", "white", "bright_white"})
"""ANSI grounds on which black reads better than white."""


class Palette:
    """Styles of roles for one terminal: its colour system and ground. All styles are cached."""

    def __init__(self, system: ColorSystemName = "truecolor", dark: bool = True, native: bool = True) -> None:
        """``native``: ANSI names reach the terminal as they are (an ANSI theme); else a filter turns them into true colours."""
        self.system = system
        self.dark = dark
        self.native = native
        self.style = lru_cache(maxsize=None)(self._style)
        self.block = lru_cache(maxsize=None)(self._block)
        self.ghost = lru_cache(maxsize=None)(self._ghost)
        self.current = lru_cache(maxsize=None)(self._current)
        self.pair = lru_cache(maxsize=None)(self._pair)
        self.shade = lru_cache(maxsize=None)(self._shade)

    @classmethod
    def of(cls, app: App[Any]) -> Palette:
        """The palette of ``app``'s terminal and theme; without colour when NO_COLOR is set."""
        system = "none" if app.no_color else system_of(app.console.color_system)
        return cls(system, app.current_theme.dark, app.native_ansi_color)

    @property
    def grounds(self) -> bool:
        """Whether shades can be said by grounds (else by the glyphs of `RAMP`)."""
        return self.system in ("256", "truecolor")

    def color(self, role: str) -> str:
        """The role's colour as rich names it ("#rrggbb", or an ANSI name at 16 colours, "default" without colour)."""
        hue = _HUES.get(role, _HUES["plain"])
        if self.system == "none":
            return "default"
        if self.system == "standard":
            return self._ansi(hue.ansi if self.dark else hue.ansi_light)
        return hue.dark if self.dark else hue.light

    def _ansi(self, name: str) -> str:
        """``name``, or the true colour that rich rounds to it when a theme would turn the name into something else."""
        if self.native or name == "default":
            return name
        number = Color.parse(name).number
        return _STANDARD[number] if number is not None else name

    def _style(self, role: str, *, bold: bool = False, dim: bool = False, reverse: bool = False) -> Style:
        """Text in the role's colour."""
        return Style(color=None if self.system == "none" else self.color(role), bold=bold or None, dim=dim or None, reverse=reverse or None)

    def _block(self, role: str, *, dim: bool = False, bold: bool = False) -> Style:
        """Text on a ground of the role's colour (a span of a schedule). Dim spans are still to come: see `ghost`."""
        if dim:
            return self.ghost(role)
        if self.system == "none":
            return Style(reverse=True, bold=bold or None)
        return Style(color=self._ink(role), bgcolor=self._filled(role), bold=bold or None)

    def _ghost(self, role: str) -> Style:
        """What is known to come but has not happened: coloured text, at true colour on a hint of the role's ground."""
        if self.system == "none":
            return Style(dim=True)
        if self.system != "truecolor":
            return Style(color=self.color(role))
        return Style(color=self._mixed(role, 0.72), bgcolor=self._mixed(role, 0.16))

    def _current(self, role: str) -> Style:
        """The loudest thing on screen, what this step did: the role's dark tone on white (light theme: its light tone on black)."""
        if self.system == "none":
            return Style(bold=True, underline=True)
        if self.system == "standard":
            ground, ink = ("bright_white", "black") if self.dark else ("black", "bright_white")
            return Style(color=self._ansi(ink), bgcolor=self._ansi(ground), bold=True if not self.dark else None)
        hue = _HUES.get(role, _HUES["plain"])
        return Style(color=hue.light if self.dark else hue.dark, bgcolor="#ffffff" if self.dark else "#101010", bold=True)

    @cached_property
    def cursor(self) -> Style:
        """What the arrow keys stand on."""
        if self.system == "none":
            return Style(bold=True, reverse=True, underline=True)
        return Style(color=self._ink("selected"), bgcolor=self._filled("selected"), bold=True if self.system != "standard" else None)

    def _pair(self, full: str, ground: str) -> Style:
        """Two roles in one run of style: ``full`` is what a full block shows, ``ground`` what a space shows."""
        if self.system == "none":
            return Style()
        return Style(color=self._filled(full), bgcolor=self._filled(ground) if ground else None)

    def _shade(self, role: str, level: int) -> Style:
        """A cell of a heatmap: ``level`` 0 (nothing) to LEVELS - 1 (all of the role's colour as ground)."""
        level = min(max(level, 0), LEVELS - 1)
        if self.system == "none":
            return Style(dim=level == 0 or None, bold=level == 3 or None, reverse=level == 4 or None)
        if self.system == "standard":
            return self._style(role, dim=level == 0) if level < 3 else self._block(role)
        if level == 0:
            return Style()
        mixed = self._level(role, level)
        return Style(color="#101010" if _bright(mixed) else "#e8e8e8", bgcolor=mixed)

    def _level(self, role: str, level: int) -> str:
        """The ground of one level. At 256 colours rounding would turn a faint hue into another one: the shades are named."""
        if self.system != "256":
            return self._mixed(role, _SHARES[level])
        hue = _HUES.get(role, _HUES["plain"])
        return Color.from_ansi((hue.shades if self.dark else hue.shades_light)[level - 1]).get_truecolor().hex

    def _filled(self, role: str) -> str:
        """The role's colour as a ground; "default" cannot be one."""
        color = self.color(role)
        return self._ansi("white" if self.dark else "bright_black") if color == "default" else color

    def _ink(self, role: str) -> str:
        """Black or white, whichever reads on the role's ground."""
        if self.system == "standard":
            hue = _HUES.get(role, _HUES["plain"])
            name = hue.ansi if self.dark else hue.ansi_light
            return self._ansi("black" if name in _DARK_INK or (name == "default" and self.dark) else "bright_white")
        return "#101010" if _bright(self._filled(role)) else "#ffffff"

    def _mixed(self, role: str, share: float) -> str:
        """So much of the role's colour over the ground of the theme."""
        ground = _GROUND[self.dark]
        triplet = Color.parse(self.color(role)).get_truecolor()
        return "#{:02x}{:02x}{:02x}".format(*(min(max(round(ground + (part - ground) * share), 0), 255) for part in triplet))


def _bright(color: str) -> bool:
    """Whether dark ink reads better on ``color`` (relative luminance, ITU-R BT.709 weights)."""
    red, green, blue = Color.parse(color).get_truecolor()
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 105


def _standard() -> list[str]:
    from rich._palettes import STANDARD_PALETTE

    colors: RichPalette = STANDARD_PALETTE
    return [colors[number].hex for number in range(16)]


_STANDARD = _standard()
"""The sixteen colours as rich rounds to them."""


def system_of(color_system: str | None) -> ColorSystemName:
    """Rich's color system name (None, standard, 256, truecolor, windows) as one this palette knows."""
    if color_system is None:
        return "none"
    return {"256": "256", "truecolor": "truecolor"}.get(color_system, "standard")  # type: ignore[return-value]


__all__ = ["GLYPHS", "LEVELS", "NAMES", "RAMP", "ColorSystem", "Palette", "system_of"]
