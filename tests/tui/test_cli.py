"""The command line: what it prints, and the exit codes scripts rely on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tui.cli import call


@pytest.fixture
def cli(plugin, monkeypatch, tmp_path, capsys):
    """Run a command line in this process; gives exit code, standard output, standard error."""
    monkeypatch.syspath_prepend(str(plugin))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOTES_TUI_DEBUG", raising=False)

    def run(*args: str) -> tuple[int, str, str]:
        code = call(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def one_line(err: str) -> str:
    assert err.count("\n") == 1 and err.endswith("\n"), err
    assert "Traceback" not in err
    return err.strip()


def test_run_prints_facts_with_units_and_checks_of_every_variant(cli):
    code, out, err = cli("run", "systems/countdown")
    assert (code, err) == (0, "")
    assert "[short] countdown, 3 steps" in out and "[long] countdown, 5 steps" in out
    lines = out.splitlines()
    assert any(line.split() == ["total", "6", "simulated"] for line in lines)
    assert any(line.split() == ["bytes[card]", "1.5", "GB", "reference", "a", "data", "sheet"] for line in lines)
    assert any(line.split()[:4] == ["share", "33.3", "%", "formula"] for line in lines)
    assert "✓ sum of the numbers" in out and "✓ expect total" in out
    assert "4 checks, all hold" in out


def test_numbers_stand_under_one_another(cli):
    _, out, _ = cli("run", "countdown")
    rows = [line for line in out.splitlines() if line.startswith("  ") and (" simulated" in line or " formula" in line)]
    ends = {
        len(line[: line.index(kind)].rstrip()) - (2 if "%" in line else 0)
        for line in rows
        for kind in ("simulated", "formula")
        if kind in line
    }
    assert len(rows) >= 2
    assert len(ends) == 1, rows


def test_run_json_is_the_object_scripts_rely_on(cli):
    code, out, _ = cli("run", "systems/countdown", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["format"] == 1 and found["simulation"] == "countdown" and found["scenario"] == "systems/countdown"
    assert list(found["variants"]) == ["short", "long"]
    short = found["variants"]["short"]
    assert short["params"] == {"start": 3, "wrong": False, "crash": False, "wait": 0.0, "file": ""}
    assert short["steps"] == 3
    facts = {fact["name"]: fact for fact in short["facts"]}
    assert facts["total"] == {"name": "total", "value": 6, "unit": "", "kind": "simulated", "note": ""}
    assert facts["bytes[card]"]["value"] == 1.5e9 and facts["bytes[card]"]["unit"] == "bytes"
    assert facts["undefined"]["value"] is None
    assert set(short["checks"][0]) == {"name", "ok", "got", "want", "tolerance", "oracle"}
    assert "step_list" not in short


def test_a_run_without_variants_is_named_default(cli):
    _, out, _ = cli("run", "countdown", "--json")
    assert list(json.loads(out)["variants"]) == ["default"]


def test_steps_adds_the_step_list(cli):
    _, out, _ = cli("run", "countdown", "--steps", "--json")
    steps = json.loads(out)["variants"]["default"]["step_list"]
    assert [step["title"] for step in steps] == ["4 left", "3 left", "2 left", "1 left"]
    assert [step["phase"] for step in steps] == ["early", "early", "late", "late"]
    assert steps[2] == {
        "title": "2 left", "detail": "The counter shows 2 of 4.", "time": 2.0, "phase": "late", "values": {"left": 2, "start": 4},
    }  # fmt: skip
    _, out, _ = cli("run", "countdown", "--steps")
    assert "  3  2 left" in out and "-- late" in out


def test_variant_picks_one(cli):
    _, out, _ = cli("run", "systems/countdown", "--variant", "long", "--json")
    assert list(json.loads(out)["variants"]) == ["long"]
    code, _, err = cli("run", "systems/countdown", "--variant", "lon")
    assert code == 2 and "did you mean 'long'?" in one_line(err)


def test_a_failed_check_exits_1_and_is_shown(cli):
    code, out, _ = cli("run", "countdown", "--set", "wrong=true")
    assert code == 1
    assert "✗ sum of the numbers" in out and "got 11, want 10" in out and "1 check, 1 failed" in out
    code, out, _ = cli("run", "countdown", "--set", "wrong=true", "--json")
    assert code == 1 and json.loads(out)["variants"]["default"]["checks"][0]["ok"] is False


def test_a_failed_expectation_exits_1_but_only_for_unmodified_parameters(cli):
    code, out, _ = cli("run", "systems/disappointed")
    assert code == 1 and "✗ expect total" in out and "got 6, want 7" in out
    code, out, _ = cli("run", "systems/disappointed", "--set", "start=4")
    assert code == 0 and "expectations not judged" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "contdown"], "did you mean 'countdown'?"),
        (["run", "countdown", "--set", "strt=3"], "did you mean 'start'?"),
        (["run", "countdown", "--set", "start=0"], "a whole number from 1 to 2,000,000 (numbers)"),
        (["run", "countdown", "--set", "start=many"], "found many"),
        (["run", "countdown", "--set", "start"], "NAME=VALUE"),
        (["run", "countdown", "--set", "=3"], "NAME=VALUE"),
        (["run", "countdown", "--seed", "-1"], "--seed"),
        (["run", "countdown", "--device", "abacus"], "cpu, cuda or cuda:<number>"),
        (["run", "countdown", "--sett", "start=3"], "--set"),
        (["run"], "Missing argument"),
        (["run", "countdown", "more"], "more"),
        (["run", "gone.toml"], "no such file"),
        (["run", "."], "found a directory"),
        (["contdown"], "did you mean 'countdown'?"),
        (["systems/countdown", "--variant", "tall"], "unknown name 'tall'"),
        (["--bogus"], "--bogus"),
        (["list", "extra"], "extra"),
        (["snapshot", "countdown", "--size", "wide", "-o", "a.svg"], "columns x rows"),
        (["snapshot", "countdown", "--size", "5x5", "-o", "a.svg"], "10x3"),
        (["snapshot", "countdown", "-o", "a.gif"], ".svg or .txt"),
        (["snapshot", "countdown"], "--output"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(cli, args, says):
    code, out, err = cli(*args)
    assert code == 2
    assert says in one_line(err)
    assert out == ""


def test_bad_parameters_of_a_later_variant_stop_the_run_before_it_prints(cli, tmp_path):
    (tmp_path / "own.toml").write_text('simulation = "countdown"\n[variants.a]\nstart = 2\n[variants.b]\nstart = 0\n')
    code, out, err = cli("run", "own.toml")
    assert (code, out) == (2, "")
    assert "own.toml" in one_line(err) and "start" in err


def test_broken_toml_names_the_file_and_line(cli, tmp_path):
    (tmp_path / "own.toml").write_text('simulation = "countdown"\ntitle = oops\n')
    code, _, err = cli("run", "own.toml")
    assert code == 2 and "own.toml" in one_line(err) and "line 2" in err


def test_a_users_own_scenario_file_runs_and_is_judged(cli, tmp_path):
    (tmp_path / "own.toml").write_text('simulation = "countdown"\n[params]\nstart = 3\n[expect]\ntotal = 6\n')
    code, out, _ = cli("run", "own.toml")
    assert code == 0 and "✓ expect total" in out


def test_an_internal_error_is_one_line_with_the_place_of_its_traceback(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, err = cli("run", "countdown", "--set", "crash=true")
    assert code == 3
    line = one_line(err)
    assert "RuntimeError: the counter fell over and broke" in line
    log = Path(line.partition("traceback in ")[2].rstrip(")"))
    assert "Traceback" in log.read_text() and "countdown.py" in log.read_text()


def test_debug_shows_the_traceback(cli, monkeypatch):
    monkeypatch.setenv("NOTES_TUI_DEBUG", "1")
    code, _, err = cli("run", "countdown", "--set", "crash=true")
    assert code == 3 and "Traceback" in err
    code, _, err = cli("run", "nothing_like_it")
    assert code == 2 and "Traceback" in err


def test_list_names_scenarios_and_simulations_by_family(cli):
    code, out, _ = cli("list")
    assert code == 0
    systems = out[out.index("Systems") :]
    assert "systems/countdown" in systems and "Counting down, short and long" in systems and "countdown" in systems
    _, out, _ = cli("list", "--json")
    found = json.loads(out)
    mine = next(row for row in found["scenarios"] if row["name"] == "systems/countdown")
    assert mine["family"] == "systems" and mine["variants"] == ["short", "long"] and mine["question"].startswith("How long")
    assert {"name": "countdown", "family": "systems"} in found["simulations"]


def test_a_broken_scenario_does_not_hide_the_others_from_list(cli, monkeypatch, tmp_path):
    (tmp_path / "more" / "systems").mkdir(parents=True)
    (tmp_path / "more" / "systems" / "bad.toml").write_text("simulation = ")
    monkeypatch.setenv("NOTES_TUI_SCENARIOS", str(tmp_path / "more"))
    code, out, err = cli("list")
    assert code == 2 and "systems/countdown" in out and "bad.toml" in one_line(err)


def test_commands_win_over_files_of_the_same_name(cli, tmp_path):
    (tmp_path / "list").write_text("not a scenario")
    code, out, _ = cli("list")
    assert code == 0 and "Systems" in out
    code, _, err = cli("./list")
    assert code == 2 and "not a scenario" in one_line(err)


def test_the_short_way_past_click_knows_every_command():
    from tui.cli import COMMANDS
    from tui.commands import commands

    assert set(commands.commands) == COMMANDS


def test_plain_characters_keep_the_width():
    from rich.cells import cell_len

    from tui.plain import plain

    for text in ("┌─ Schedule ─┐ ✓ ✗ 3 × 4", "▕█▌⡇⣀░▸●‖", "順序 queue", "naïve"):
        assert plain(text).isascii() and len(plain(text)) == cell_len(text), text
    assert plain("┌─┐│ ✓ → …") == "+-+| + > ."


def test_without_a_terminal_the_explorer_points_to_run(notes_tui):
    for args in ([], ["countdown"]):
        done = notes_tui(*args)
        assert done.returncode == 2
        assert "not a terminal" in one_line(done.stderr) and "notes-tui run" in done.stderr


def test_a_missing_file_is_said_before_anything_else(notes_tui):
    done = notes_tui("gone.csv")
    assert done.returncode == 2 and "gone.csv: no such file" in one_line(done.stderr)


def test_version_and_help_exit_0(notes_tui):
    done = notes_tui("--version")
    assert done.returncode == 0 and done.stdout.startswith("notes-tui ")
    done = notes_tui("--help")
    assert done.returncode == 0 and "NAME|FILE" in done.stdout
    done = notes_tui("run", "--help")
    assert done.returncode == 0 and "--set" in done.stdout


def test_an_encoding_without_check_marks_gets_plain_characters(notes_tui):
    done = notes_tui("run", "countdown", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "+ sum of the numbers" in done.stdout and done.stderr == ""


def test_a_reader_that_leaves_early_is_silent_and_keeps_the_exit_code(plugin_env, tmp_path):
    command = f"{sys.executable} -m tui.cli run countdown --set start=20000 --set wrong=true --steps --json"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -c 10 >/dev/null; echo ${{PIPESTATUS[0]}}"],
        env=plugin_env, capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert done.stderr == "" and done.stdout.strip() == "1"


@pytest.mark.parametrize("args", [["list"], ["--help"], ["run", "--help"], ["list", "-h"]])
def test_text_that_does_not_fit_on_the_disk_is_one_line(args, plugin_env, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tui.cli", *args],
            env=plugin_env,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            timeout=60,
        )
    assert done.returncode == 2 and "standard output" in one_line(done.stderr)


@pytest.mark.parametrize(("given", "device"), [(["--device", "cpu"], "cpu"), ([], "cuda")])
def test_a_device_on_the_command_line_wins_over_the_settings(cli, given, device, monkeypatch, tmp_path):
    from tui.app import NotesApp

    settings = tmp_path / "notes-tui" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('device = "cuda"')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("tui.launch.require_terminal", lambda: None)
    opened = []
    monkeypatch.setattr(NotesApp, "run", lambda app: opened.append(app.device))
    assert cli("countdown", "--seed", "1", *given)[0] == 0
    assert opened == [device]


def test_ctrl_c_ends_a_library_that_catches_everything_while_it_is_imported(plugin_env, tmp_path):
    site = tmp_path / "site"
    (site / "deaf-1.0.dist-info").mkdir(parents=True)
    (site / "deaf-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: deaf\nVersion: 1.0\n")
    (site / "deaf-1.0.dist-info" / "entry_points.txt").write_text("[notes_tui.simulations]\ndeaf = deaf:deaf\n")
    (site / "deaf.py").write_text(
        "import time\nprint('importing', flush=True)\n"
        "for _ in range(300):\n    try:\n        time.sleep(0.1)\n    except BaseException:\n        pass\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", "run", "deaf"], env=plugin_env | {"PYTHONPATH": f"{site}{os.pathsep}{plugin_env['PYTHONPATH']}"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert started.stdout is not None
    while started.stdout.readline().strip() != "importing":
        assert started.poll() is None
    os.kill(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=20)
    assert started.returncode == 130 and "Traceback" not in err


def test_ctrl_c_exits_130_without_a_traceback(plugin_env, tmp_path):
    started = subprocess.Popen(
        [sys.executable, "-m", "tui.cli", "run", "countdown", "--set", "wait=30"],
        env=plugin_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline().startswith("countdown")  # the heading: recording has begun
    time.sleep(0.05)
    os.kill(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=20)
    assert started.returncode == 130 and "Traceback" not in err


def test_what_a_file_holds_cannot_steer_the_terminal(cli, tmp_path):
    """Control characters of a title, a name or a value are written out; JSON keeps them, escaped."""
    (tmp_path / "odd.toml").write_text('simulation = "countdown"\ntitle = "\\u001b[31mred\\u009b"\n')
    code, out, _ = cli("run", "odd.toml")
    assert code == 0 and "\\x1b[31mred\\x9b" in out and "\x1b" not in out
    code, _, err = cli("run", "countdown", "--set", "start=\x1b[2J")
    assert code == 2 and "found \\x1b[2J" in one_line(err)
    code, out, _ = cli("run", "odd\x1b.toml", "--json")
    assert code == 2 and out == ""


def test_a_complaint_that_nobody_can_read_keeps_its_exit_code(plugin_env, tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "tui.cli", "run", "contdown"], env=plugin_env, stderr=full, cwd=tmp_path, timeout=60)
    assert done.returncode == 2


def test_list_names_scenarios_that_cannot_be_found_and_goes_on(cli, tmp_path, monkeypatch):
    info = tmp_path / "half-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[notes_tui.scenarios]\nhalf = nowhere.at.all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, out, err = cli("list")
    assert code == 2 and "markets/order_book" in out and "half (nowhere.at.all)" in one_line(err)
    assert cli("run", "countdown")[0] == 0
