"""How spans become text: a wide span carries its text, narrow ones are cells that share runs of style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.style import Style

from tui.theme import GLYPHS, Palette
from tui.widgets.fitting import Row, clip

State = Literal["known", "ghost", "now", "cursor", "idle"]

_LONG_IDLE = 3
"""So many idle cells in a row are drawn as dots; fewer would cost a run of their own."""


def span_text(text: str, glyph: str, width: int, follows: bool, fill: str = " ") -> str:
    """What a span of ``width`` cells says: its text, else its role's letter; a thin line at its end when another one ``follows``."""
    if width <= 1:
        return text if cell_len(text) == 1 else glyph
    size = cell_len(text)
    if size == width:
        return text
    edge = "▕" if follows or fill != " " else fill
    room = width - 1
    if size > room:
        text = clip(text, room) if room >= 4 else glyph
        size = cell_len(text)
    return text + fill * (room - size) + edge


class Sampled(NamedTuple):
    """One cell of a zoomed-out lane: the role of its span ("" when idle), whether it has happened, whether the span begins here."""

    role: str
    state: State
    first: bool = True


def draw_samples(row: Row, cells: Sequence[Sampled], palette: Palette) -> None:
    """Draw cells in as few runs of style as there can be. A span's first cell has its letter, so that neighbours are told apart."""
    at = 0
    while at < len(cells):
        if cells[at].state == "known" and palette.system != "none":
            at = _draw_pair(row, cells, at, palette)
            continue
        role, state, _ = cells[at]
        end = at + 1
        while end < len(cells) and cells[end].state == state and (state == "ghost" or cells[end].role == role or palette.system == "none"):
            end += 1
        more = "╌" if state == "ghost" else " "
        letters = "".join((GLYPHS.get(cell.role, " ") if cell.first else more) if cell.role else "·" for cell in cells[at:end])
        styles = {"ghost": palette.style("dim"), "now": palette.current(role), "cursor": palette.cursor, "known": palette.block(role)}
        row.add(letters, styles.get(state, palette.style("idle")))
        at = end


def _draw_pair(row: Row, cells: Sequence[Sampled], at: int, palette: Palette) -> int:
    """Draw a run of at most two roles that have happened as one style; returns where it ends."""
    pair: list[str] = []
    end = at
    while end < len(cells) and cells[end].state in ("known", "idle"):
        role = cells[end].role
        if not role and not any(cell.role for cell in cells[end : end + _LONG_IDLE]):
            break
        if role not in pair:
            if len(pair) == 2:
                break
            pair.append(role)
        end += 1
    full, ground = ordered(pair)
    letter = GLYPHS.get(ground, " ") if ground else "·"
    run = "".join("█" if cell.role == full else letter if cell.first else " " for cell in cells[at:end])
    row.add(run, _pair(palette, full, ground))
    return end


def _pair(palette: Palette, full: str, ground: str) -> Style:
    return palette.pair(full, ground) if full else palette.style("idle")


def ordered(pair: list[str]) -> tuple[str, str]:
    """(full, ground) of one or two roles: idle is always the ground, forward always full."""
    if len(pair) == 1:
        return (pair[0], "") if pair[0] != "backward" else ("forward", "backward")
    rank = {"forward": 0, "": 9}
    first, second = sorted(pair, key=lambda role: (rank.get(role, 5), role))
    return first, second
