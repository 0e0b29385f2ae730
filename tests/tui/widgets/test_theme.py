"""The palette says the same at every colour system and on both grounds, and never by colour alone."""

from __future__ import annotations

import pytest
from rich.color import Color, ColorSystem

from core.views import ROLES
from tui.theme import GLYPHS, LEVELS, Palette, system_of

GROUNDS = [True, False]
SYSTEMS = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT, "standard": ColorSystem.STANDARD}
STEPS_TOGETHER = ("forward", "backward", "weight", "comm")  # roles that stand side by side in one schedule


def luminance(color: Color) -> float:
    """WCAG relative luminance, independent of the one in the palette."""
    parts = []
    for part in color.get_truecolor():
        share = part / 255
        parts.append(share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4)
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: Color, second: Color) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_role_has_a_glyph() -> None:
    assert set(ROLES) <= set(GLYPHS)


def test_glyphs_tell_roles_of_one_schedule_apart() -> None:
    assert len({GLYPHS[role] for role in STEPS_TOGETHER}) == len(STEPS_TOGETHER)


@pytest.mark.parametrize("dark", GROUNDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_roles_of_one_schedule_differ_after_rounding_to_the_terminal(system: str, dark: bool) -> None:
    palette = Palette(system, dark)  # type: ignore[arg-type]
    rounded = {Color.parse(palette.color(role)).downgrade(SYSTEMS[system]).name for role in STEPS_TOGETHER}
    assert len(rounded) == len(STEPS_TOGETHER)


@pytest.mark.parametrize("dark", GROUNDS)
@pytest.mark.parametrize("role", ROLES)
def test_text_reads_on_blocks_and_current_spans(role: str, dark: bool) -> None:
    palette = Palette("truecolor", dark)
    for style in (palette.block(role), palette.current(role)):
        assert style.color and style.bgcolor
        least = 2.5 if role in ("dim", "idle", "padding", "own", "trade", "selected", "group4") else 3.0
        assert contrast(style.color, style.bgcolor) >= (least if style is palette.block(role) else 1.4)


@pytest.mark.parametrize("dark", GROUNDS)
@pytest.mark.parametrize("system", ["truecolor", "256"])
@pytest.mark.parametrize("role", ROLES)
def test_levels_of_a_heatmap_differ_and_go_one_way(role: str, system: str, dark: bool) -> None:
    palette = Palette(system, dark)  # type: ignore[arg-type]
    assert palette.shade(role, 0).bgcolor is None  # nothing: the ground of the theme
    grounds = [palette.shade(role, level).bgcolor for level in range(1, LEVELS)]
    rounded = [g.downgrade(SYSTEMS[system]) for g in grounds if g]
    assert len({color.name for color in rounded}) == LEVELS - 1
    steps = [luminance(color) for color in rounded]
    assert steps == sorted(steps, reverse=not dark)


def test_named_shades_stay_what_they_are_when_rich_rounds_them() -> None:
    for role in ROLES:
        for level in range(1, LEVELS):
            ground = Palette("256", True).shade(role, level).bgcolor
            assert ground is not None
            rounded = ground.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
            assert all(abs(a - b) <= 10 for a, b in zip(rounded, ground.get_truecolor(), strict=True))  # greys may move by one


@pytest.mark.parametrize("role", ROLES)
def test_without_colour_no_style_names_one_and_states_still_differ(role: str) -> None:
    palette = Palette("none")
    styles = [palette.block(role), palette.ghost(role), palette.current(role), palette.cursor]
    assert all(style.color is None and style.bgcolor is None for style in styles)
    assert len({str(style) for style in styles}) == 4
    assert palette.color(role) == "default"


def test_ansi_names_survive_a_theme_that_would_replace_them() -> None:
    """Without an ANSI theme the palette gives the true colour that rich rounds back to the wanted ANSI colour."""
    for role in STEPS_TOGETHER:
        named = Palette("standard", native=True).color(role)
        replaced = Palette("standard", native=False).color(role)
        assert replaced.startswith("#")
        assert Color.parse(replaced).downgrade(ColorSystem.STANDARD).number == Color.parse(named).number


def test_colour_systems_are_known_by_rich_names() -> None:
    known = {None: "none", "standard": "standard", "256": "256", "truecolor": "truecolor", "windows": "standard"}
    assert {name: system_of(name) for name in known} == known
