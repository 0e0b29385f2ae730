"""Fewer bytes, the same picture: what a terminal emulator shows of both is compared cell by cell."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.thrift import thrifty

COLOURS = ["31", "97", "38;2;1;2;3", "38;2;9;9;9", "38;5;77", "44", "103", "48;2;1;2;3", "48;5;9", "39", "49"]
STYLES = st.lists(st.sampled_from([*COLOURS, "1", "2", "3", "4", "7", "9"]), min_size=1, max_size=4).map(";".join)
RUNS = st.tuples(STYLES, st.text("ab ░│", min_size=1, max_size=5)).map(lambda run: f"\x1b[{run[0]}m{run[1]}\x1b[0m")
MOVES = st.tuples(st.integers(1, 6), st.integers(1, 20)).map(lambda at: f"\x1b[{at[0]};{at[1]}H")
PIECES = [RUNS, RUNS, MOVES, st.text("xy", min_size=1, max_size=3), st.just("\x1b[K"), st.just("\r\n")]
OUTPUT = st.lists(st.one_of(*PIECES), max_size=25).map("".join)


def picture(output: str) -> list[list[pyte.screens.Char]]:
    screen = pyte.Screen(24, 8)
    pyte.Stream(screen).feed(output)
    return [[screen.buffer[y][x] for x in range(24)] for y in range(8)] + [[screen.cursor.attrs]]


@settings(max_examples=400, deadline=None)
@given(OUTPUT, OUTPUT)
def test_the_terminal_shows_the_same(first: str, second: str) -> None:
    assert picture(thrifty(first) + thrifty(second)) == picture(first + second)


@settings(max_examples=200, deadline=None)
@given(OUTPUT)
def test_it_is_never_longer(output: str) -> None:
    assert len(thrifty(output)) <= len(output) + 2


def test_a_shared_background_is_sent_once() -> None:
    ground = "48;2;18;18;18"
    line = "".join(f"\x1b[38;2;{n};0;0;{ground}mx\x1b[0m" for n in range(50))
    assert thrifty(line).count(ground) == 1
    assert len(thrifty(line)) < 0.6 * len(line)


def test_a_sequence_cut_in_two_passes_as_it_is() -> None:
    assert thrifty("\x1b[31mx\x1b[0m\x1b[") == "\x1b[31mx\x1b[0m\x1b["
