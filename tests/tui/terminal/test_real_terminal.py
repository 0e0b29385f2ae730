"""The explorer in a real terminal: colours, resizing, signals, odd input, silence."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_terminal import RealTerminal, notes_tui

from core.simulation import FAMILIES

SGR = re.compile(rb"\x1b\[([0-9;]*)m")
ONE_OF_SIXTEEN = rb"\x1b\[(?:[0-9]+;)*(?:3[1-7]|9[0-7]|4[1-7]|10[0-7])(?:;[0-9]+)*m"
FIRST_FAMILY = next(iter(FAMILIES.values()))
"""The heading at the top of the home screen, which no number of scenarios pushes out."""
LEFT_ALTERNATE, CURSOR_SHOWN, MOUSE_OFF, PASTE_OFF = b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l"


@pytest.fixture
def terminal(plugin_env, tmp_path):
    """``terminal("countdown", size=…, TERM=…)`` opens the explorer; NAME=None removes a variable."""
    opened: list[RealTerminal] = []

    def start(*args: str, size: tuple[int, int] = (120, 40), **env: str | None) -> RealTerminal:
        full = plugin_env | {"TERM": "xterm-256color", "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)} | env
        started = RealTerminal(notes_tui(*args), {k: v for k, v in full.items() if v is not None}, size, cwd=str(tmp_path))
        opened.append(started)
        return started

    yield start
    for one in opened:
        one.__exit__()


def colours(raw: bytes) -> Iterator[list[int]]:
    """Every SGR sequence as its numbers."""
    for found in SGR.finditer(raw):
        yield [int(part or 0) for part in found[1].split(b";")]


def opened(term: RealTerminal) -> str:
    """Wait until the stage shows the first step of a finished recording and is silent."""
    text = term.wait_for("4 left")
    term.settle(0.3)
    return text


@pytest.mark.parametrize(
    ("env", "sends", "never", "forward"),
    [
        (
            {"TERM": "xterm", "COLORTERM": None},
            ONE_OF_SIXTEEN,
            (b"38;2;", b"48;2;", b"38;5;", b"48;5;"),
            rb"\x1b\[(?:\d+;)*(?:94|104)[;m]",
        ),
        ({"TERM": "xterm-256color", "COLORTERM": None}, rb"[34]8;5;\d+", (b"38;2;", b"48;2;"), rb"(?:38|48);5;(?:74|75)[;m]"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, rb"[34]8;2;\d+;\d+;\d+", (), rb"(?:38|48);2;86;180;233"),
    ],
    ids=["16 colours", "256 colours", "true colour"],
)
def test_only_colours_the_terminal_knows_are_sent_and_a_role_keeps_its_own(terminal, env, sends, never, forward):
    """Forward spans are blue: Okabe-Ito #56b4e9 in true colour, its neighbour in the cube, bright blue of the sixteen."""
    term = terminal("countdown", **env)
    opened(term)
    raw = bytes(term.raw)
    assert re.search(sends, raw)
    assert re.search(forward, raw)
    assert [code for code in never if code in raw] == []
    assert "?" not in term.text().splitlines()[0]


def test_no_color_sends_no_hue_and_stays_readable(terminal):
    term = terminal("countdown", NO_COLOR="1", COLORTERM="truecolor")
    text = opened(term)
    for numbers in colours(bytes(term.raw)):
        assert not {*range(31, 37), *range(41, 47), *range(91, 97), *range(101, 107)} & set(numbers) or 2 in numbers
        for at in range(len(numbers) - 4):
            if numbers[at] in (38, 48) and numbers[at + 1] == 2:
                red, green, blue = numbers[at + 2 : at + 5]
                assert max(red, green, blue) - min(red, green, blue) <= 2, numbers
    assert "4 left" in text and "The counter shows 4 of 4." in text and "C4" in text


def test_resizing_while_playing_redraws_and_goes_on(terminal):
    term = terminal("countdown", "--set", "start=5000")
    term.wait_for("5000 left")
    term.send(" ")
    term.wait_for(lambda text: "5000 left" not in text)
    for size in ((80, 24), (150, 45), (100, 30)):
        term.resize(size)
        os.kill(term.process.pid, signal.SIGWINCH)
        term.wait_for(lambda text: " left" in text and "/5000" in text.replace(",", "").replace(" ", ""))
    before = re.search(r"(\d+) left", term.text())
    assert before is not None
    term.wait_for(lambda text: f"{before[1]} left" not in text and " left" in text)  # it still plays
    assert term.process.poll() is None
    term.send(" ")
    term.send("q")
    assert term.wait_exit() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
@pytest.mark.parametrize("playing", [False, True], ids=["paused", "playing"])
def test_a_signal_leaves_the_terminal_as_it_was(terminal, number, code, playing):
    term = terminal("countdown", "--set", "start=5000" if playing else "start=4")
    term.wait_for(" left")
    if playing:
        term.send(" ")
        term.wait_for(lambda text: "5000 left" not in text)
    assert not term.cooked
    at = len(term.raw)
    os.kill(term.process.pid, number)
    assert term.wait_exit() == code
    tail = bytes(term.raw[at:])
    for sequence in (LEFT_ALTERNATE, CURSOR_SHOWN, MOUSE_OFF, PASTE_OFF):
        assert sequence in tail, sequence
    assert tail.rindex(CURSOR_SHOWN) > tail.rfind(b"\x1b[?25l")
    assert term.cooked
    assert b"Traceback" not in tail


def test_quitting_leaves_the_terminal_as_it_was(terminal):
    term = terminal()
    term.wait_for(FIRST_FAMILY)
    term.send("q")
    assert term.wait_exit() == 0
    assert term.cooked and LEFT_ALTERNATE in term.raw and CURSOR_SHOWN in term.raw


def test_a_signal_while_recording_ends_it(terminal):
    term = terminal("countdown", "--set", "wait=20")
    term.wait_bytes(b"\x1b[?1049h")
    term.wait_for("countdown")
    os.kill(term.process.pid, signal.SIGTERM)
    assert term.wait_exit() in (143, -signal.SIGTERM)
    assert term.cooked and LEFT_ALTERNATE in term.raw


def test_a_tiny_terminal_gets_a_plain_message_and_recovers(terminal):
    term = terminal("countdown", size=(20, 5))
    text = term.wait_for(lambda text: "60" in text and "20" in text)
    assert all(len(line) <= 20 for line in text.splitlines())
    term.resize((100, 30))
    os.kill(term.process.pid, signal.SIGWINCH)
    term.wait_for("4 left")
    term.send("q")
    assert term.wait_exit() == 0


def test_bytes_that_are_not_utf8_do_not_end_it(terminal):
    term = terminal("countdown")
    opened(term)
    term.send(b"\xff\xfe\x80\xc3\x28 \xf0\x28\x8c\x28".replace(b" ", b""))
    time.sleep(0.1)
    term.send("\x1b[F")  # End
    term.wait_for("1 left")
    assert term.process.poll() is None


def test_a_paused_screen_sends_nothing(terminal):
    for args in (("countdown",), ()):
        term = terminal(*args)
        term.wait_for("4 left" if args else FIRST_FAMILY)
        term.settle(0.4)
        assert term.read(0.8) == b""


def test_the_end_of_the_terminal_ends_the_program(terminal):
    term = terminal("countdown")
    opened(term)
    os.close(term.master)
    term.master = os.open(os.devnull, os.O_RDWR)
    os.close(term._slave)
    term._slave = os.open(os.devnull, os.O_RDWR)
    assert term.process.wait(10) != 0


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": None, "LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["LANG=C", "LC_ALL=C", "ASCII only"],
)
def test_without_a_utf8_locale_it_opens_steps_and_quits(terminal, locale):
    term = terminal("countdown", **locale)
    text = opened(term)
    assert "\\u" not in text and "\\x" not in text
    if "PYTHONUTF8" in locale:
        assert bytes(term.raw).isascii()
    term.send("\x1b[C")
    term.wait_for("3 left")
    term.send("q")
    assert term.wait_exit() == 0


def test_a_dumb_terminal_gets_one_line(terminal):
    term = terminal("countdown", TERM="dumb")
    assert term.wait_exit() == 2
    assert "TERM" in term.text() and LEFT_ALTERNATE not in term.raw and b"\x1b[?1049h" not in term.raw


def test_a_missing_file_never_opens_the_screen(terminal):
    term = terminal("gone.csv")
    assert term.wait_exit() == 2
    assert "gone.csv" in term.text() and b"\x1b[?1049h" not in term.raw


def test_a_file_opens_by_its_content(terminal, tmp_path: Path):
    (tmp_path / "own.toml").write_text('simulation = "countdown"\ntitle = "My own question"\n[params]\nstart = 9\n')
    term = terminal("own.toml")
    assert "My own question" in term.wait_for("9 left")


def test_what_is_typed_in_one_burst_goes_where_it_would_go_slowly(terminal):
    """Over a slow link keys arrive together: the letters after `/` belong to the prompt that it opens, and Enter sends them."""
    term = terminal("countdown", "--set", "start=40")
    term.wait_for("40 left")
    term.settle(0.3)
    term.send("/3 left\r")
    term.wait_for(lambda text: "33 left" in text and "Step 8 of 40" in text)
    term.send("/quit\x7f\x7f\x7f\x7f17 left\r")
    term.wait_for("Step 24 of 40")
    assert term.process.poll() is None


def test_a_search_typed_in_one_burst_at_home_does_not_quit(terminal):
    term = terminal()
    term.wait_for(FIRST_FAMILY)
    term.settle(0.3)
    term.send("/quit")
    term.wait_for("quit")
    term.settle(0.3)
    assert term.process.poll() is None


def test_keys_typed_after_quitting_do_not_hold_it_up(terminal):
    term = terminal("countdown")
    opened(term)
    started = time.monotonic()
    term.send("q" + "5" * 8)
    assert term.wait_exit(20) == 0
    assert time.monotonic() - started < 4.0


def test_digits_of_a_paste_that_comes_in_pieces_do_not_move_the_playhead(terminal):
    term = terminal("countdown")
    opened(term)
    for piece in ("\x1b[200~1", "5", "9", "\x1b[201~"):
        term.send(piece)
        term.settle(0.1)
    assert "4 left" in term.text()
    term.send("9")
    term.wait_for(lambda text: "4 left" not in text)


def test_a_sequence_that_comes_byte_by_byte_is_one_key(terminal):
    term = terminal("countdown")
    opened(term)
    for piece in ("\x1b", "[", "1", ";", "2", "C"):  # Shift+Right: ten percent on
        term.send(piece)
        term.settle(0.015)
    term.wait_for("3 left")
