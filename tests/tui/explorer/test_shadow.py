"""Frames cut down to what differs leave the terminal as the whole frames would: a terminal emulator shows both."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.shadow import Shadow, runs_of

WIDTH, HEIGHT = 24, 6
STYLES = st.sampled_from(["31", "1;38;2;1;2;3", "44", "48;2;1;2;3", "2;7", "4;32", "39;49"])
LETTERS = st.text("ab  ░│", min_size=1, max_size=9)
WIDE = st.text("a日本 é", min_size=1, max_size=4)


def frames(letters: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    run = st.tuples(STYLES, letters).map(lambda run: f"\x1b[{run[0]}m{run[1]}\x1b[0m")
    runs = st.lists(run, min_size=1, max_size=2).map("".join)
    rows = st.dictionaries(st.integers(1, HEIGHT), st.tuples(st.integers(1, 6), runs, st.booleans()), min_size=1, max_size=5)
    frame = st.tuples(rows, st.integers(1, HEIGHT), st.integers(1, 6)).map(lambda parts: written(*parts))
    return st.lists(frame, min_size=1, max_size=5)


def written(rows: dict[int, tuple[int, str, bool]], y: int, x: int) -> str:
    """A frame as Textual writes one: rows at their places (some end with a line feed), then the place of the cursor."""
    ends = {row: "\n" if feed and row < HEIGHT else "" for row, (_, _, feed) in rows.items()}
    return "".join(f"\x1b[{row};{column}H{runs}{ends[row]}" for row, (column, runs, _) in rows.items()) + f"\x1b[{y};{x}H"


class Terminal:
    """An emulator that does not wrap, as the explorer asks of every terminal."""

    def __init__(self) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.screen)
        self.feed("\x1b[?7l")

    def feed(self, output: str) -> None:
        self.stream.feed(output)

    @property
    def picture(self) -> list[list[object]]:
        """Every cell as a person sees it: of a blank the ground and the lines, of a letter everything."""
        seen: list[list[object]] = []
        for y in range(HEIGHT):
            cells = [self.screen.buffer[y][x] for x in range(WIDTH)]
            seen.append([self._seen(cell) for cell in cells])
        return [*seen, [(self.screen.cursor.x, self.screen.cursor.y, self.screen.cursor.attrs)]]

    @staticmethod
    def _seen(cell: pyte.screens.Char) -> object:
        lined = cell.underscore or cell.reverse or cell.strikethrough
        return (cell.data, cell.bg) if cell.data == " " and not lined else tuple(cell)


def both(shown: list[str]) -> tuple[Terminal, Terminal, int, int]:
    whole, cut, shadow, sizes = Terminal(), Terminal(), Shadow(), [0, 0]
    for frame in shown:
        short = shadow.difference(frame)
        whole.feed(frame)
        cut.feed(short)
        sizes = [sizes[0] + len(frame), sizes[1] + len(short)]
    return whole, cut, sizes[0], sizes[1]


@settings(max_examples=250, deadline=None)
@given(frames(LETTERS))
def test_the_terminal_shows_what_whole_frames_would_show(shown: list[str]) -> None:
    whole, cut, _, _ = both(shown)
    assert cut.picture == whole.picture


@settings(max_examples=150, deadline=None)
@given(frames(LETTERS), st.integers(0, 4))
def test_a_frame_that_is_there_already_sends_nothing(shown: list[str], again: int) -> None:
    shadow = Shadow()
    for frame in shown:
        shadow.difference(frame)
    assert shadow.difference(shown[-1]) == ""
    shadow.forget()
    terminal, fresh = Terminal(), Terminal()
    terminal.feed(shadow.difference(shown[-1]))
    fresh.feed(shown[-1])
    assert terminal.picture == fresh.picture, "once nothing is known, everything is sent"


@settings(max_examples=150, deadline=None)
@given(frames(WIDE))
def test_wide_letters_are_sent_whole(shown: list[str]) -> None:
    """What stays of a letter that was cut in half differs between terminals; the last frame's own cells do not."""
    whole, cut, _, _ = both([*shown, *(f"\x1b[{y};1H\x1b[44m{'日本' * 6}\x1b[0m\x1b[1;1H" for y in range(1, HEIGHT + 1))])
    assert cut.picture == whole.picture


def test_one_changed_letter_costs_a_few_bytes() -> None:
    row = "\x1b[3;1H\x1b[38;2;9;9;9;48;2;1;1;1m{}\x1b[0m\x1b[1;1H"
    shadow = Shadow()
    shadow.difference(row.format("a" * 20))
    sent = shadow.difference(row.format("a" * 9 + "b" + "a" * 10))
    assert sent.count("a") == 0
    assert len(sent) < 50


def test_what_is_no_frame_passes_and_nothing_is_known_afterwards() -> None:
    shadow = Shadow()
    frame = "\x1b[1;1H\x1b[31mxx\x1b[0m\x1b[1;1H"
    shadow.difference(frame)
    assert shadow.difference("\x1b[1;1Hab\x1b[K") == "\x1b[1;1Hab\x1b[K"
    assert "xx" in shadow.difference(frame)
    assert shadow.difference("\x1b[1;1Ha\tb") == "\x1b[1;1Ha\tb"
    assert "xx" in shadow.difference(frame)


def columns_of_two_styles(letters: str) -> str:
    rows = (f"\x1b[{y};1H\x1b[1;38;2;9;9;9m{letters[0]}\x1b[0m \x1b[4;38;2;99;99;99m{letters[1]}\x1b[0m" for y in range(1, HEIGHT + 1))
    return "".join(rows) + "\x1b[1;1H"


def test_a_style_is_sent_once_for_all_rows_that_wear_it() -> None:
    whole, cut, _, _ = both([columns_of_two_styles("ab"), columns_of_two_styles("cd")])
    assert cut.picture == whole.picture
    shadow = Shadow()
    shadow.difference(columns_of_two_styles("ab"))
    sent = shadow.difference(columns_of_two_styles("cd"))
    assert (sent.count("38;2;9;9;9"), sent.count("38;2;99;99;99")) == (1, 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 6), STYLES, LETTERS), min_size=2, max_size=8))
def test_of_two_texts_in_one_place_the_later_one_stays(texts: list[tuple[int, int, str, str]]) -> None:
    frame = "".join(f"\x1b[{y};{x}H\x1b[{style}m{text}\x1b[0m" for y, x, style, text in texts) + "\x1b[1;1H"
    whole, cut, _, _ = both([frame])
    assert cut.picture == whole.picture


WORN = st.sampled_from([None, Style(color="red"), Style(bold=True, bgcolor="#010203"), Style(dim=True, reverse=True)])
pieces = st.dictionaries(
    st.integers(0, HEIGHT - 1), st.lists(st.tuples(LETTERS | WIDE, WORN), min_size=1, max_size=3), min_size=1, max_size=4
)


@settings(max_examples=200, deadline=None)
@given(st.lists(pieces, min_size=1, max_size=4))
def test_rows_sent_as_segments_are_what_their_text_would_show(shown: list[dict[int, list[tuple[str, Style | None]]]]) -> None:
    console = Console(color_system="truecolor", force_terminal=True)
    as_segments, as_text, one, other = Terminal(), Terminal(), Shadow(), Shadow()
    for rows in shown:
        drawn = [(y, 0, [Segment(text, style) for text, style in row]) for y, row in sorted(rows.items())]
        runs = runs_of(drawn, ColorSystem.TRUECOLOR)
        assert runs is not None
        as_segments.feed(one.change(runs, (1, 1)))
        text = "".join(f"\x1b[{y + 1};{x + 1}H{Strip(segments).render(console)}" for y, x, segments in drawn)
        as_text.feed(other.difference(f"{text}\x1b[1;1H"))
        assert as_segments.picture == as_text.picture


def test_a_link_or_what_cannot_be_printed_has_to_be_written_as_text() -> None:
    assert runs_of([(0, 0, [Segment("a", Style(link="x"))])], ColorSystem.TRUECOLOR) is None
    assert runs_of([(0, 0, [Segment("a\tb")])], ColorSystem.TRUECOLOR) is None
