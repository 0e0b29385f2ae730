"""Scenario files: precedence of parameters, what [expect] tolerates, and every way a file can be wrong."""

from __future__ import annotations

import pytest

from core.errors import BadInput
from core.recording import Recorder, Recording
from core.scenario import Scenario, find, judge, names, read

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
    assert str(refused.value).startswith(f"{path}.microbatch: unknown parameter; did you mean 'microbatches'?")


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
