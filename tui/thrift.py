"""Fewer bytes for the same picture: styles are sent as what changes, not anew for every run of cells.

Textual resets after every run of one style and sets everything again. Here a reset is held back until text follows, and
only the attributes that differ from those in effect are sent.
"""

from __future__ import annotations

import re
from functools import lru_cache

TOKENS = re.compile(r"\x1b\[([0-9;]*)m|(\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b[^\[])|([^\x1b]+)|(\x1b)")
State = tuple[str, str, frozenset[str]]
"""Foreground, background ("" is the terminal's own) and the other attributes in effect."""
PLAIN: State = ("", "", frozenset())


@lru_cache(maxsize=4096)
def applied(state: State, parameters: str) -> State:
    """``state`` once the SGR ``parameters`` are applied."""
    fore, back, rest = state
    codes = parameters.split(";") if parameters else ["0"]
    at = 0
    while at < len(codes):
        code = codes[at] or "0"
        if code in ("38", "48"):
            length = 5 if codes[at + 1 : at + 2] == ["2"] else 3
            colour = ";".join(codes[at : at + length])
            fore, back = (colour, back) if code == "38" else (fore, colour)
            at += length
            continue
        number = int(code)
        if number == 0:
            fore, back, rest = PLAIN
        elif 30 <= number <= 37 or 90 <= number <= 97:
            fore = code
        elif 40 <= number <= 47 or 100 <= number <= 107:
            back = code
        elif number == 39:
            fore = ""
        elif number == 49:
            back = ""
        else:
            rest = rest | {code}
        at += 1
    return fore, back, rest


@lru_cache(maxsize=16384)
def change(old: State, new: State) -> str:
    """The shortest SGR sequence that turns ``old`` into ``new``; attributes are only taken away by a reset."""
    if old == new:
        return ""
    if old[2] - new[2]:
        full = [part for part in (*sorted(new[2], key=int), new[0], new[1]) if part]
        return f"\x1b[{';'.join(['0', *full]) if full else ''}m"
    parts = sorted(new[2] - old[2], key=int)
    if new[0] != old[0]:
        parts.append(new[0] or "39")
    if new[1] != old[1]:
        parts.append(new[1] or "49")
    if new == PLAIN:
        return "\x1b[m"
    return f"\x1b[{';'.join(parts)}m"


def thrifty(output: str) -> str:
    """``output`` with the same effect on a terminal whose attributes are plain, and which is left so."""
    sent: list[str] = []
    now = wanted = PLAIN
    for parameters, control, text, stray in TOKENS.findall(output):
        if text:
            if now is not wanted:
                sent.append(change(now, wanted))
                now = wanted
            sent.append(text)
        elif control:
            if control[-1] not in "HABCDGd" or not control.startswith("\x1b["):  # all but cursor moves may mind the attributes
                sent.append(change(now, wanted))
                now = wanted
            sent.append(control)
        elif stray:
            return output  # a sequence cut in two: nothing is known of the rest
        else:
            wanted = applied(wanted, parameters)
    sent.append(change(now, PLAIN) if wanted == PLAIN else change(now, wanted))
    return "".join(sent)
