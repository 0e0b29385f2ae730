"""Scenario files: precedence of parameters, what [expect] tolerates, and every way a file can be wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import BadInput, nearest
from core.recording import Recorder, Recording
from core.scenario import Scenario, broken_folders, find, judge, names, read

GOOD = """
simulation = "pipeline"
title = "t"
question = "q?"
[params]
stages = 4
microbatches = 8
[variants.small]
microbatches = 2
[expect]
"small.peak_stash" = 2
"""


def write(tmp_path, text: str | bytes):
    path = tmp_path / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_variant_beats_params_and_set_beats_variant(tmp_path):
    scenario = read(write(tmp_path, GOOD))
    assert scenario.raw_params("small") == {"stages": 4, "microbatches": 2}
    assert scenario.raw_params("small", {"microbatches": 3}) == {"stages": 4, "microbatches": 3}
    assert scenario.expected("small") == {"peak_stash": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ["simulation", "missing"]),
        ("simulation = @", ["not TOML", "line 1"]),
        ("simulation = 'pipeline'\n[params\nx=1", ["not TOML", "line 2"]),
        (b"\xff\xfe\x00", ["byte 0", "UTF-8"]),
        ("simulation = 'pipelin'", ["simulation", "'pipelin'", "did you mean 'pipeline'"]),
        ("simulation = 3", ["simulation", "found int 3", "text in quotes"]),
        ("simulation = 'pipeline'\ntitel = 'x'", ["titel", "did you mean 'title'"]),
        ("simulation = 'pipeline'\norder = true", ["order", "whole number"]),
        ("simulation = 'pipeline'\norder = 1.5", ["order", "found float 1.5", "whole number"]),
        ("simulation = 'pipeline'\norder = " + "9" * 5000, ["number too long"]),
        ("simulation = 'pipeline'\nx = " + "[" * 9000, ["nested too deeply"]),
        ("simulation = 'pipeline'\n#" + "x" * 2**20, ["1,048,", "at most 1,048,576 bytes"]),
        ("simulation = 'pipeline'\n[expect]\nmakespan = 2020-01-01", ["expect.makespan", "a number"]),
        ("simulation = 'pipeline'\n[variants]\na = 3", ["variants.a", "table"]),
        ("simulation = 'pipeline'\n[variants.a]\n[expect]\n'b.x' = 3", ["expect.b.x", "names no variant"]),
        ("simulation = 'pipeline'\n[expect]\na.b = 3", ["expect.a", "quoted"]),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(BadInput) as refused:
        read(path)
    line = str(refused.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    for word in words:
        assert word in line


def test_a_wrong_parameter_in_a_file_names_file_key_and_nearest(tmp_path):
    path = write(tmp_path, GOOD.replace("microbatches = 2", "microbatch = 2"))
    with pytest.raises(BadInput) as refused:
        read(path).parsed("small")
    assert str(refused.value).startswith(f"{path}: variants.small.microbatch: unknown parameter; did you mean 'microbatches'?")


def test_unknown_variant_names_the_nearest(tmp_path):
    with pytest.raises(BadInput, match="did you mean 'small'"):
        read(write(tmp_path, GOOD)).parsed("smal")


@pytest.mark.parametrize(
    ("written", "got", "ok"),
    [
        ("0.2727", 9 / 33, True),
        ("0.2728", 9 / 33, False),
        ("1.9e9", 1.875e9, True),
        ("1.8e9", 1.875e9, False),
        ("33", 33.0, True),
        ("33", 33.4, False),
        ("33.0", 33.04, True),
        ("33.0", 33.06, False),
        ("120e9", 120.4e9, True),
        ("120e9", 121e9, False),
        ("true", True, True),
        ("true", 0, False),
        ("'abc'", "abc", True),
        ("'abc'", "abd", False),
        ("5", None, False),
    ],
)
def test_expect_tolerates_the_digits_that_are_written(tmp_path, written, got, ok):
    recording = Recording("x")
    rec = Recorder(recording)
    rec.step("a")
    rec.fact("fact", got)
    recording.state = "finished"
    scenario = read(write(tmp_path, f"simulation = 'pipeline'\n[expect]\nfact = {written}"))
    (check,) = judge(scenario, "default", recording)
    assert check.ok is ok


def test_expecting_a_fact_that_does_not_exist_fails():
    recording = Recording("x")
    Recorder(recording).step("a")
    (check,) = judge(Scenario("s", "x", expect={"nothing": 1}), "default", recording)
    assert not check.ok


def test_names_resolve_and_unknown_ones_name_the_nearest(tmp_path):
    known = names()
    assert "training/pipeline" in known
    assert find("training/pipeline").simulation == "pipeline"
    assert find("pipeline").variant_names == ["default"]
    with pytest.raises(BadInput, match="did you mean 'training/pipeline'"):
        find("training/pipelin")
    with pytest.raises(BadInput, match="no such file"):
        find(str(tmp_path / "gone.zip"))


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BadInput, match="found a pipe"):
        read(tmp_path / "pipe.toml")


@pytest.mark.parametrize("written", ["inf", "1e999", "1e99999999999", "1e-99999999999", "0.0"])
def test_an_expectation_of_any_size_can_be_read(tmp_path, written):
    scenario = read(write(tmp_path, f"simulation = 'pipeline'\n[expect]\nmakespan = {written}\n"))
    assert scenario.expect["makespan"] == float(written)


def test_a_variant_may_have_dots_in_its_name(tmp_path):
    text = "simulation = 'pipeline'\n[variants.v1]\n[variants.'v1.5']\n[expect]\n'v1.makespan' = 1\n'v1.5.makespan' = 2\n"
    scenario = read(write(tmp_path, text))
    assert scenario.expected("v1") == {"makespan": 1} and scenario.expected("v1.5") == {"makespan": 2}


def test_a_file_saved_with_a_byte_order_mark_opens(tmp_path):
    assert read(write(tmp_path, b"\xef\xbb\xbfsimulation = 'pipeline'\n")).simulation == "pipeline"


@pytest.mark.parametrize("target", ["", "x" * 5000, "a/" * 3000, "x" * 5000 + ".toml"])
def test_a_name_no_file_can_have_is_refused_in_one_short_line(target):
    with pytest.raises(BadInput) as refused:
        find(target)
    assert len(str(refused.value)) < 1000


def test_a_path_given_by_set_is_relative_to_the_working_directory(tmp_path, monkeypatch):
    """Only the scenario file's own paths are relative to it, also where both folders hold a file of that name."""
    (tmp_path / "scenario").mkdir()
    (tmp_path / "here").mkdir()
    for folder in ("scenario", "here"):
        (tmp_path / folder / "day.csv").write_text("")
    scenario = read(write(tmp_path / "scenario", "simulation = 'order_book'\n[params]\nfile = 'day.csv'\n"))
    monkeypatch.chdir(tmp_path / "here")
    assert Path(scenario.parsed("default").file).samefile(tmp_path / "scenario" / "day.csv")
    assert Path(scenario.parsed("default", {"file": "day.csv"}).file).samefile(tmp_path / "here" / "day.csv")


@pytest.mark.parametrize(
    ("value", "says"),
    [("gone_notes.scenarios", "No module named 'gone_notes'"), ("json.tool", "a module, not a package"), ("no_such", "no such")],
)
def test_scenarios_of_a_broken_package_are_passed_over_and_named(tmp_path, monkeypatch, value, says):
    info = tmp_path / "half-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[notes_tui.scenarios]\nhalf = {value}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "markets/order_book" in names()
    (line,) = broken_folders()
    assert "half" in line and says in line


def test_the_nearest_name_is_found_whatever_its_case():
    assert nearest("STAGES", ["stages", "chunks"]) == "did you mean 'stages'?"


def test_a_long_list_of_names_is_cut():
    line = nearest("zzz", [f"name{i:03}" for i in range(500)])
    assert len(line) < 300 and "another of 500" in line
