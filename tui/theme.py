"""What a role looks like: one colour-blind-safe palette (Okabe-Ito) at true colour, 256 and 16 colours, dark and light.

Colour is never alone: `GLYPHS` gives each role a letter or shape that says the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from rich.color import Color, ColorSystem
from rich.style import Style

ColorSystemName = Literal["none", "standard", "256", "truecolor"]

# role -> (on a dark ground, on a light ground, 16-colour name)
_HUES: dict[str, tuple[str, str, str]] = {
    "forward": ("#56b4e9", "#0072b2", "bright_blue"),
    "backward": ("#e69f00", "#b35900", "yellow"),
    "weight": ("#009e73", "#00704f", "cyan"),
    "comm": ("#cc79a7", "#a0487a", "magenta"),
    "bid": ("#56b4e9", "#0072b2", "bright_blue"),
    "ask": ("#e69f00", "#b35900", "yellow"),
    "own": ("#f0e442", "#8a7d00", "bright_yellow"),
    "trade": ("#f0e442", "#8a7d00", "bright_yellow"),
    "parameter": ("#56b4e9", "#0072b2", "bright_blue"),
    "gradient": ("#e69f00", "#b35900", "yellow"),
    "optimizer": ("#009e73", "#00704f", "cyan"),
    "activation": ("#cc79a7", "#a0487a", "magenta"),
    "buffer": ("#999999", "#666666", "white"),
    "selected": ("#f0e442", "#8a7d00", "bright_yellow"),
    "kept": ("#56b4e9", "#0072b2", "bright_blue"),
    "dropped": ("#d55e00", "#d55e00", "bright_red"),
    "padding": ("#777777", "#888888", "bright_black"),
    "good": ("#009e73", "#00704f", "green"),
    "bad": ("#d55e00", "#c04a00", "bright_red"),
    "group0": ("#56b4e9", "#0072b2", "bright_blue"),
    "group1": ("#e69f00", "#b35900", "yellow"),
    "group2": ("#009e73", "#00704f", "green"),
    "group3": ("#cc79a7", "#a0487a", "magenta"),
    "group4": ("#f0e442", "#8a7d00", "bright_yellow"),
    "group5": ("#d55e00", "#c04a00", "bright_red"),
    "group6": ("#8da0cb", "#4a5b8c", "cyan"),
    "group7": ("#b3b3b3", "#666666", "white"),
    "plain": ("#d0d0d0", "#303030", "default"),
    "idle": ("#5a5a5a", "#a8a8a8", "bright_black"),
    "dim": ("#6c6c6c", "#909090", "bright_black"),
}

GLYPHS: dict[str, str] = {
    "forward": "F", "backward": "B", "weight": "W", "comm": "↔", "idle": "·", "bid": "b", "ask": "a", "own": "★", "trade": "×",
    "parameter": "P", "gradient": "G", "optimizer": "O", "activation": "A", "buffer": "u",
    "selected": "▸", "kept": "●", "dropped": "✗", "padding": "░", "good": "✓", "bad": "✗", "dim": "·", "plain": " ",
    **{f"group{k}": str(k) for k in range(8)},
}  # fmt: skip

LEVELS = 5
"""Colour levels of a heatmap; more would not be told apart and costs bytes."""


class Palette:
    """Styles of roles for one terminal: its colour system and ground."""

    def __init__(self, system: ColorSystemName = "truecolor", dark: bool = True) -> None:
        self.system = system
        self.dark = dark
        self.style = lru_cache(maxsize=None)(self._style)
        self.block = lru_cache(maxsize=None)(self._block)
        self.shade = lru_cache(maxsize=None)(self._shade)

    def color(self, role: str) -> str:
        """The role's colour as rich names it ("#rrggbb", or an ANSI name at 16 colours, "default" without colour)."""
        dark, light, ansi = _HUES.get(role, _HUES["plain"])
        if self.system == "none":
            return "default"
        return ansi if self.system == "standard" else (dark if self.dark else light)

    def _style(self, role: str, *, bold: bool = False, dim: bool = False, reverse: bool = False) -> Style:
        """Text in the role's colour."""
        return Style(color=None if self.system == "none" else self.color(role), bold=bold or None, dim=dim or None, reverse=reverse or None)

    def _block(self, role: str, *, dim: bool = False, bold: bool = False) -> Style:
        """Text on a ground of the role's colour (a span of a schedule). Dim spans are still to come: coloured text, no ground."""
        if dim or self.system == "none":
            return self._style(role, dim=dim and self.system != "none", bold=bold, reverse=self.system == "none" and not dim)
        ink = "black" if self.dark or self.system == "standard" else "white"
        return Style(color=ink, bgcolor=self.color(role), bold=bold or None)

    def _shade(self, role: str, level: int) -> Style:
        """A cell of a heatmap: ``level`` 0 (nothing) to LEVELS - 1 (all of the role's colour as ground)."""
        if self.system in ("none", "standard"):
            return self._style(role, bold=level >= LEVELS - 1, dim=level == 0)
        share = (0.0, 0.18, 0.38, 0.62, 0.9)[min(max(level, 0), LEVELS - 1)]
        ground = 0x12 if self.dark else 0xFA
        triplet = Color.parse(self.color(role)).get_truecolor()
        mixed = [round(ground + (part - ground) * share) for part in triplet]
        light_cell = sum(mixed) > 330
        return Style(color="#101010" if light_cell else "#e8e8e8", bgcolor="#{:02x}{:02x}{:02x}".format(*mixed))


def system_of(color_system: str | None) -> ColorSystemName:
    """Rich's color system name (None, standard, 256, truecolor, windows) as one this palette knows."""
    if color_system is None:
        return "none"
    return {"256": "256", "truecolor": "truecolor"}.get(color_system, "standard")  # type: ignore[return-value]


__all__ = ["GLYPHS", "LEVELS", "ColorSystem", "Palette", "system_of"]
