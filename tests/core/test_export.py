"""Recordings written for other programs: JSON, text, CSV and Chrome trace."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tracemalloc

import pytest

from core.errors import BadInput
from core.export import FORMATS, Run, csv_pieces, json_pieces, text_section, trace_pieces, write
from core.recording import Recorder, Recording
from core.scenario import Scenario
from core.views import Axis, Gantt, Table
from core.views import Column as TableColumn

SCENARIO = Scenario(name="training/sends", simulation="sends", title="Who sends what", question="Who?", takeaway="Everyone.")


def recorded(unit: str = "", *, fail: bool = False) -> Recording:
    """Two ranks that each send one chunk; the second step has no time-independent surprises but odd text."""
    recording = Recording("sends", {"ranks": 2, "sizes": (1, 2), "path": ""})
    rec = Recorder(recording)
    chart = rec.panel("Schedule", Gantt(Axis("rank {i}", 2), unit))
    rec.panel("Sizes", Table([TableColumn("size", "bytes")]))
    rec.phase("send")
    chart.span(0, 0.0, 1.5, "comm", "S{n}", 7)
    rec.fact("bytes_sent", 1000, "bytes", label=0)
    rec.step("Rank {rank} sends", 'It says "hello", twice', time=0.0, rank=0, share=0.25)
    rec.phase("wait")
    chart.span(1, 1.5, 2.0, "idle")
    rec.fact("bytes_sent", 2500, "bytes", label=0)
    rec.fact("ratio", math.nan)
    rec.fact("speed", math.inf, "bytes/s")
    rec.step("Rank {rank} waits", time=1.5, rank=1)
    rec.fact("name", "ring")
    rec.check("sum", 1.0000001 if not fail else 1.5, 1.0, 1e-6, "by hand")
    recording.state = "finished"
    return recording


def loaded(*recordings: Recording, steps: bool = True) -> dict:
    runs = {f"v{k}": Run(recording) for k, recording in enumerate(recordings)}
    return json.loads("".join(json_pieces(SCENARIO, runs, steps=steps)), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_json_has_the_last_facts_and_nan_is_null():
    facts = {fact["name"]: fact for fact in loaded(recorded())["variants"]["v0"]["facts"]}
    assert facts["bytes_sent[0]"]["value"] == 2500 and facts["bytes_sent[0]"]["unit"] == "bytes"
    assert facts["ratio"]["value"] is None and facts["speed"]["value"] is None
    assert facts["name"]["value"] == "ring"


def test_json_of_several_runs_is_one_object_in_order():
    found = loaded(recorded(), recorded(fail=True))
    assert list(found["variants"]) == ["v0", "v1"]
    assert [v["checks"][0]["ok"] for v in found["variants"].values()] == [True, False]
    assert found["variants"]["v1"]["checks"][0] == {
        "name": "sum", "ok": False, "got": 1.5, "want": 1.0, "tolerance": 1e-6, "oracle": "by hand",
    }  # fmt: skip
    assert found["variants"]["v0"]["params"] == {"ranks": 2, "sizes": [1, 2], "path": ""}


def test_step_list_gives_each_step_as_the_screen_says_it():
    steps = loaded(recorded())["variants"]["v0"]["step_list"]
    assert steps == [
        {"title": "Rank 0 sends", "detail": 'It says "hello", twice', "time": 0.0, "phase": "send", "values": {"rank": 0, "share": 0.25}},
        {"title": "Rank 1 waits", "detail": "", "time": 1.5, "phase": "wait", "values": {"rank": 1}},
    ]
    assert "step_list" not in loaded(recorded(), steps=False)["variants"]["v0"]


def test_an_empty_recording_is_still_one_object():
    assert loaded(Recording("sends"))["variants"]["v0"] == {"params": {}, "steps": 0, "facts": [], "checks": [], "step_list": []}


def test_csv_has_a_column_for_every_value_and_survives_quotes():
    rows = list(csv.DictReader(io.StringIO("".join(csv_pieces({"a": Run(recorded()), "b": Run(recorded())})))))
    assert [(row["variant"], row["step"]) for row in rows] == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert rows[0]["detail"] == 'It says "hello", twice' and rows[0]["share"] == "0.25" and rows[0]["phase"] == "send"
    assert rows[1]["share"] == "" and rows[1]["rank"] == "1" and rows[1]["time"] == "1.5"


def test_a_value_named_like_a_fixed_column_keeps_its_own():
    rec = Recorder(Recording("sends"))
    rec.step("Step {step}", step=9)
    (row,) = csv.DictReader(io.StringIO("".join(csv_pieces({"a": Run(rec.recording)}))))
    assert row["step"] == "1" and row["value step"] == "9"


def test_trace_draws_lanes_as_threads_and_spans_in_microseconds():
    trace = json.loads("".join(trace_pieces(SCENARIO, {"one": Run(recorded("s"))})))
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {(1, 0): "rank 0", (1, 1): "rank 1"}
    spans = [e for e in events if e["ph"] == "X"]
    assert [(e["tid"], e["ts"], e["dur"], e["name"], e["cat"]) for e in spans] == [
        (0, 0.0, 1.5e6, "S7", "comm"),
        (1, 1.5e6, 0.5e6, "idle", "idle"),
    ]
    assert spans[0]["args"] == {"step": 1, "title": "Rank 0 sends"}


def test_trace_of_unit_times_says_how_they_are_drawn():
    trace = json.loads("".join(trace_pieces(SCENARIO, {"one": Run(recorded()), "two": Run(recorded())})))
    assert trace["otherData"]["time of one · Schedule"] == "1 unit is drawn as 1 µs"
    assert {e["pid"] for e in trace["traceEvents"]} == {1, 2}
    assert next(e["dur"] for e in trace["traceEvents"] if e["ph"] == "X") == 1.5


def test_trace_without_a_schedule_is_refused():
    with pytest.raises(BadInput, match="Gantt"):
        "".join(trace_pieces(SCENARIO, {"one": Run(Recording("sends"))}))


def test_text_shows_a_failed_check_with_all_its_digits():
    text = text_section("one", Run(recorded(fail=True)))
    assert "✗ sum" in text and "got 1.5, want 1.0 ± 1e-06" in text
    assert "✓ sum" in text_section("one", Run(recorded()))
    assert "ranks=2 sizes=1,2 path=''" in text


@pytest.mark.parametrize("format", FORMATS)
def test_write_gives_a_complete_file_and_never_overwrites_silently(tmp_path, format):
    target = tmp_path / "out.x"
    assert write({"one": recorded()}, SCENARIO, format, target) == target
    first = target.read_text(encoding="utf-8")
    assert len(first) > 100
    target.write_text("mine")
    with pytest.raises(BadInput, match="stands there already"):
        write({"one": recorded()}, SCENARIO, format, target)
    assert target.read_text() == "mine"
    write({"one": recorded()}, SCENARIO, format, target, overwrite=True)
    assert target.read_text(encoding="utf-8") == first
    assert [p.name for p in tmp_path.iterdir()] == ["out.x"]


def test_write_leaves_nothing_behind_when_it_fails(tmp_path):
    with pytest.raises(BadInput, match="Gantt"):
        write({"one": Recording("sends")}, SCENARIO, "trace", tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def test_write_says_what_is_wrong_with_the_place(tmp_path):
    with pytest.raises(BadInput, match="No such file or directory"):
        write({"one": recorded()}, SCENARIO, "json", tmp_path / "gone" / "a.json")
    with pytest.raises(BadInput, match="found a directory"):
        write({"one": recorded()}, SCENARIO, "json", tmp_path)
    with pytest.raises(BadInput, match="json, text, csv, trace"):
        write({"one": recorded()}, SCENARIO, "xml", tmp_path / "a")


def test_many_steps_are_written_without_holding_their_text():
    recording = Recording("sends")
    Recorder(recording).steps([("Event {n}", "It is event {n} of many.")], [0] * 30_000, n=range(30_000))
    tracemalloc.start()
    size = sum(len(piece) for piece in json_pieces(SCENARIO, {"one": Run(recording)}, steps=True))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 2_000_000
    assert peak < size / 4


def test_a_file_name_that_is_not_utf8_is_still_json():
    recording = recorded()
    recording.params["path"] = "bad\udcff.npy"
    assert loaded(recording)["variants"]["v0"]["params"]["path"] == "bad\ufffd.npy"


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_name_that_is_not_utf8_can_be_written(tmp_path, format):
    recording = recorded()
    recording.params["path"] = "bad\udcff.npy"
    assert write({"bad\udcff": recording}, SCENARIO, format, tmp_path / "a").read_text(encoding="utf-8")


def test_writing_through_a_link_leaves_the_link_and_keeps_the_mode(tmp_path):
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    kept.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(kept)
    write({"one": recorded()}, SCENARIO, "json", link, overwrite=True)
    assert link.is_symlink() and kept.read_text().startswith("{")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="found a pipe"):
        write({"one": recorded()}, SCENARIO, "json", tmp_path / "pipe", overwrite=True)
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_that_may_not_be_written_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("mine")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for anybody but root
    with pytest.raises(BadInput, match="Permission denied"):
        write({"one": recorded()}, SCENARIO, "json", tmp_path / "a", overwrite=True)
    assert (tmp_path / "a").read_text() == "mine"


def test_the_longest_name_a_file_can_have_is_written(tmp_path):
    assert write({"one": recorded()}, SCENARIO, "json", tmp_path / ("é" * 127)).exists()
    with pytest.raises(BadInput, match="too long"):
        write({"one": recorded()}, SCENARIO, "json", tmp_path / ("é" * 128))


def test_the_home_of_a_user_that_does_not_exist_is_a_folder_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="No such file or directory"):
        write({"one": recorded()}, SCENARIO, "json", "~nobody-of-this-name/a.json")
