"""``notes-tui doctor``: its exit codes, its text and its JSON, in a process of its own."""

from __future__ import annotations

import json

HEAD = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
GOOD = "x,X,1583020803145000,1583020803245000,a,buy,5,1"
EARLY = "x,X,1583020803145000,1583020803045000,a,buy,5,1"


def test_healthy_file_exits_0_and_a_wrong_one_1(notes_tui, tmp_path):
    (tmp_path / "good.csv").write_text(f"{HEAD}\n{GOOD}\n")
    (tmp_path / "bad.csv").write_text(f"{HEAD}\n{GOOD}\n{EARLY}\n")
    good, bad = notes_tui("doctor", "good.csv"), notes_tui("doctor", "bad.csv")
    assert (good.returncode, bad.returncode) == (0, 1) and good.stderr == bad.stderr == ""
    assert "none is" in good.stdout and "✗" not in good.stdout
    assert "✗ events received before they were sent" in bad.stdout and "2 are" in bad.stdout


def test_json_is_one_object_that_says_what_is_wrong(notes_tui, tmp_path):
    (tmp_path / "bad.csv").write_text(f"{HEAD}\n{EARLY}\n")
    done = notes_tui("doctor", "bad.csv", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["format"] == 1 and report["healthy"] is False and report["symbol"] == "X"
    wrong = [finding["name"] for finding in report["findings"] if finding["ok"] is False]
    assert wrong == ["events received before they were sent"]


def test_what_is_no_market_data_exits_2_with_one_line(notes_tui, tmp_path):
    (tmp_path / "note.txt").write_text("hello\n")
    for args in (("note.txt",), ("nothing",), ("note.txt", "--format", "csv")):
        done = notes_tui("doctor", *args)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""
