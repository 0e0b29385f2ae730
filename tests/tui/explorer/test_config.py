"""Settings: the file, the environment over it, and one clear line for what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.config import FPS, FPS_OVER_SSH, Config, Position, config_file, read_config, remember, remembered, state_folder
from tui.keys import ACTIONS, effective


def read(text: str, tmp_path: Path, **environ: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, environ)


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    assert read_config(tmp_path / "none.toml", {}) == Config()


def test_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    config = read(
        'theme = "light"\nfps = 5\nmotion = false\nlanguage = "de"\n[keys]\nplay = "P"\n',
        tmp_path,
        NOTES_TUI_FPS="12",
        NOTES_TUI_MOTION="on",
    )
    assert (config.theme, config.fps, config.motion, config.language, config.keymap) == ("light", 12.0, True, "de", {"play": "P"})
    assert config.problems == ()


def test_frames_are_fewer_over_ssh_unless_said_otherwise(tmp_path: Path) -> None:
    assert read("", tmp_path).fps == FPS
    assert read("", tmp_path, SSH_CONNECTION="1 2 3 4").fps == FPS_OVER_SSH
    assert read("", tmp_path, SSH_TTY="/dev/pts/1").fps == FPS_OVER_SSH
    assert read("", tmp_path, SSH_TTY="/dev/pts/1", NOTES_TUI_FPS="8").fps == 8


def test_reduced_motion_is_respected_as_textual_says_it(tmp_path: Path) -> None:
    assert not read("", tmp_path, TEXTUAL_ANIMATIONS="none").motion
    assert not read("", tmp_path, NOTES_TUI_MOTION="off").motion


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("theme = 3", "theme: found 3; allowed: dark or light"),
        ("fps = 500", "fps: found 500; allowed: a number from 1 to 30"),
        ("fsp = 5", "fsp: unknown setting; did you mean 'fps'?"),
        ("motion = [1]", "motion: found [1]; allowed: on or off"),
        ("theme = ", "not TOML"),
        ("[keys]\nplya = 'x'", "keys.plya: unknown action; did you mean 'play'?"),
        ("[keys]\nplay = 'spcae'", "keys.play: unknown key 'spcae'; did you mean 'space'?"),
        ("[keys]\nplay = 'ctlr+k'", "keys.play: unknown key 'ctlr+k'; did you mean 'ctrl'?"),
        ("[keys]\nplay = 3", "keys.play: found 3"),
        ("keys = 3", "keys: found 3"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_the_rest_holds(text: str, expected: str, tmp_path: Path) -> None:
    config = read(text, tmp_path)
    assert len(config.problems) == 1
    assert expected in config.problems[0]
    assert "\n" not in config.problems[0]
    assert config == Config(problems=config.problems)


def test_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    assert "byte 0 is not UTF-8" in read_config(tmp_path / "config.toml", {}).problems[0]
    assert len(read_config(tmp_path, {}).problems) == 1, "a folder is not a file"


def test_environment_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    assert read("", tmp_path, NOTES_TUI_FPS="fast").problems[0].startswith("NOTES_TUI_FPS: found 'fast'")


def test_keys_are_written_as_they_are_typed(tmp_path: Path) -> None:
    config = read("[keys]\nplay = ['ctrl+k', '?']\nfind = ','\nuntil = 'f5,x'\nback = ' '", tmp_path)
    assert config.problems == ()
    assert config.keymap == {"play": "ctrl+k,question_mark", "find": "comma", "until": "f5,x", "back": "space"}


def test_a_key_that_is_taken_is_gone_from_its_old_action() -> None:
    keys = effective({"play": "x"})
    assert keys["play"] == ("x",)
    assert keys["export"] == ()
    assert keys["open"] == ("enter",)


def test_no_two_actions_of_one_scope_share_a_key() -> None:
    seen: dict[tuple[str, str], str] = {}
    for action in ACTIONS:
        for key in action.keys:
            assert seen.setdefault((action.scope, key), action.id) == action.id


def test_places_are_the_platforms_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    assert config_file() == tmp_path / "c" / "notes-tui" / "config.toml"
    assert state_folder() == tmp_path / "s" / "notes-tui"


@pytest.mark.parametrize("own", ["", "/elsewhere"])
def test_places_are_those_of_platformdirs(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.setenv("XDG_CONFIG_HOME", own)
    monkeypatch.setenv("XDG_STATE_HOME", own)
    assert config_file() == platformdirs.user_config_path("notes-tui", appauthor=False) / "config.toml"
    assert state_folder() == platformdirs.user_state_path("notes-tui", appauthor=False)


def test_positions_are_remembered_by_scenario() -> None:
    remember("training/a", Position(7, "1f1b", (2, 5)))
    remember("training/b", Position(1))
    assert remembered("training/a") == Position(7, "1f1b", (2, 5))
    assert remembered("training/c") == Position()


@pytest.mark.parametrize("broken", ["{", "[]", '{"training/a": {"step": "x"}}', '{"training/a": 3}'])
def test_broken_memory_is_no_memory(broken: str) -> None:
    state_folder().mkdir(parents=True)
    (state_folder() / "positions.json").write_text(broken, encoding="utf-8")
    assert remembered("training/a") == Position()
    remember("training/a", Position(3))
    assert remembered("training/a") == Position(3)


def test_memory_that_cannot_be_written_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    remember("training/a", Position(3))
    assert remembered("training/a") == Position()
