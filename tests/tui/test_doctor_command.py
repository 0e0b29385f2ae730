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


def test_json_and_text_say_where_the_first_one_is(notes_tui, tmp_path):
    (tmp_path / "bad.csv").write_text(f"{HEAD}\n{GOOD}\n{GOOD}\n{EARLY}\n")
    finding = next(f for f in json.loads(notes_tui("doctor", "bad.csv", "--json").stdout)["findings"] if f["ok"] is False)
    assert (finding["name"], finding["step"], finding["place"]) == ("receive times that go back", 3, "line 4")
    assert finding["severity"] == "wrong" and finding["means"] and finding["looked_at"] == "3 receive times"
    assert "first at step 3, line 4" in notes_tui("doctor", "bad.csv").stdout


def test_funding_history_runs_opens_a_picture_and_has_a_report(notes_tui, tmp_path):
    rows = [f"X,2024-01-0{1 + k // 3} {k % 3 * 8:02d}:00:00,0.0001" for k in range(9)]
    (tmp_path / "funding.csv").write_text("\n".join(["Symbol,Date,Funding Rate", *rows, ""]))
    for args in (("run", "funding.csv"), ("run", "order_book", "--set", "file=funding.csv"), ("doctor", "funding.csv")):
        assert notes_tui(*args).returncode == 0, args
    assert notes_tui("snapshot", "funding.csv", "--step", "5", "-o", "f.txt").returncode == 0
    assert "Longs pay shorts the base rate" in (tmp_path / "f.txt").read_text()
